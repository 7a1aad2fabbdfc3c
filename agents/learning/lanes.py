"""The environments of a training: stepped one by one (:class:`Lanes`), or together by a compiled loop of the problem.

Both ways have the same episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.envs.base import ACTION_MASK, Arrays, SchedulingEnv, encode_all

__all__ = ["CompiledLanes", "Lane", "Lanes", "Measure", "lanes_of"]

Measure = Callable[[gymnasium.Env[Any, Any]], dict[str, float]]
"""Function that is called with an environment at the end of an episode and returns measures by name."""


class Lane:
    """One environment and its current episode.

    Environments of desim are not encoded one by one; :meth:`Lanes.show` encodes all of them together.

    Parameters
    ----------
    gym_env : gymnasium.Env
        Environment to step. Observations that are plain arrays become ``{"observation": array}``.
    """

    def __init__(self, gym_env: gymnasium.Env[Any, Any]) -> None:
        self.gym_env = gym_env
        self.simulated = gym_env if isinstance(gym_env, SchedulingEnv) else None
        if isinstance(gym_env.unwrapped, SchedulingEnv):
            gym_env.unwrapped.checks_bounds = False  # the samples of a policy have no bounds
        self._seen: Arrays = {}

    def begin(self, seed: int) -> None:
        """Begin an episode."""
        self.seed = seed
        self.actions: list[Any] = []
        self.earned = 0.0
        self._see(self.gym_env.reset(seed=seed)[0])

    def step(self, action: Any) -> tuple[float, bool, bool, float]:
        """Take an action; return reward, whether the episode is terminated or truncated, and the elapsed time."""
        self.actions.append(action)
        if self.simulated is not None:
            reward, terminated, truncated, elapsed, _ = self.simulated.advance(action)
        else:
            observation, given, terminated, truncated, info = self.gym_env.step(action)
            self._see(observation)
            reward, elapsed = float(given), info.get("elapsed", 1.0)
        self.earned += reward
        return reward, terminated, truncated, elapsed

    def _see(self, observation: Any) -> None:
        self._seen = observation if isinstance(observation, dict) else {"observation": observation}

    @property
    def is_forced(self) -> bool:
        """Whether the next action is known to have no effect."""
        return self.simulated is not None and self.simulated.encoder.is_forced(self.simulated.observation)

    @property
    def observation(self) -> Arrays:
        """Current observation."""
        return self._seen if self.simulated is None else self.simulated.observe()

    def outcome(self, measure: Measure | None) -> dict[str, float]:
        """Return the return, length and measures of a finished episode."""
        measured = {} if measure is None else measure(self.gym_env)
        return {"return": self.earned, "length": float(len(self.actions)), **measured}

    def state(self) -> dict[str, Any]:
        """Return the state of the episode as plain values: its seed and the actions since."""
        return {"seed": self.seed, "actions": [np.asarray(action).tolist() for action in self.actions]}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state by replaying its actions from the seed."""
        self.begin(state["seed"])
        space = self.gym_env.action_space
        for action in state["actions"]:
            self.step(np.asarray(action, space.dtype) if space.shape else int(action))


class Gone(NamedTuple):
    """Outcome of a step of N environments; 0 or False where an environment was not stepped.

    Attributes
    ----------
    rewards, elapsed : array of float, shape (N,)
        Rewards, and simulated time up to the next decision.
    terminated, truncated : array of bool, shape (N,)
        Whether episodes have ended, or were cut off.
    """

    rewards: NDArray[np.float64]
    elapsed: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class Lanes:
    """N environments of a kind that are stepped one by one.

    Parameters
    ----------
    gym_envs : sequence of gymnasium.Env
        Environments, at least one.
    """

    engine = "simpy"

    def __init__(self, gym_envs: Sequence[gymnasium.Env[Any, Any]]) -> None:
        self._lanes = [Lane(one) for one in gym_envs]
        self.action_space = gym_envs[0].action_space

    def __len__(self) -> int:
        """Return the number of environments."""
        return len(self._lanes)

    def begin(self, number: int, seed: int) -> None:
        """Begin an episode in an environment."""
        self._lanes[number].begin(seed)

    def step(self, actions: Any, asked: NDArray[np.bool_]) -> Gone:
        """Step some environments.

        Parameters
        ----------
        actions : array or list
            Action of each environment.
        asked : array of bool, shape (N,)
            Environments to step.
        """
        gone = Gone(*(np.zeros(len(self), kind) for kind in (float, float, bool, bool)))
        plain = actions.tolist() if isinstance(actions, np.ndarray) and actions.ndim == 1 else actions
        for number in asked.nonzero()[0].tolist():
            reward, terminated, truncated, elapsed = self._lanes[number].step(plain[number])
            for array, value in zip(gone, (reward, elapsed, terminated, truncated), strict=True):
                array[number] = value
        return gone

    def show(self, which: Sequence[int], into: Arrays) -> None:
        """Write the observations of some environments into arrays, one row per environment.

        Parameters
        ----------
        which : sequence of int
            Numbers of the environments, at least one.
        into : dict of str to numpy.ndarray
            Arrays by name, whose first axis has the length of ``which``.
        """
        lanes = [self._lanes[number] for number in which]
        simulated = [lane.simulated for lane in lanes if lane.simulated is not None]
        if simulated:
            encode_all(simulated, into)
            return
        for row, lane in enumerate(lanes):
            for name, array in lane.observation.items():
                into[name][row] = array

    def room(self, shape: tuple[int, ...]) -> Arrays:
        """Return arrays of zeros for observations, with the given leading axes; an episode must have begun."""
        return _room({name: np.asarray(array) for name, array in self._lanes[0].observation.items()}, shape)

    def observation(self, number: int) -> Arrays:
        """Return a copy of the current observation of an environment."""
        # copied because an environment may write the next observation into the same array
        return {name: np.array(array) for name, array in self._lanes[number].observation.items()}

    def is_forced(self, number: int) -> bool:
        """Return whether the next action in an environment is known to have no effect."""
        return self._lanes[number].is_forced

    def has_begun(self, number: int) -> bool:
        """Return whether an action has been taken in the episode of an environment."""
        return bool(self._lanes[number].actions)

    def outcome(self, number: int, measure: Measure | None) -> dict[str, float]:
        """Return the return, length and measures of a finished episode."""
        return self._lanes[number].outcome(measure)

    def state(self) -> list[dict[str, Any]]:
        """Return the states of the episodes as plain values: seeds, and the actions since."""
        return [lane.state() for lane in self._lanes]

    def restore(self, states: Sequence[dict[str, Any]]) -> None:
        """Restore states by replaying the actions."""
        for lane, state in zip(self._lanes, states, strict=True):
            lane.restore(state)


class CompiledLanes:
    """N environments of a kind that a compiled loop steps together; the methods are those of :class:`Lanes`.

    Parameters
    ----------
    envs : object
        Result of :meth:`~desim.envs.SchedulingEnv.together`.
    """

    engine = "compiled"

    def __init__(self, envs: Any) -> None:
        self._envs = envs
        self.action_space = envs.single_action_space
        self._seeds = [0] * len(self)
        self._actions: list[list[int]] = [[] for _ in self._seeds]
        self._earned = np.zeros(len(self))
        self._seen: Arrays | None = None  # observations of all, encoded once per step

    def __len__(self) -> int:
        """Return the number of environments."""
        count: int = self._envs.num_envs
        return count

    def begin(self, number: int, seed: int) -> None:
        """Begin an episode in an environment."""
        self._envs.begin(np.array([number]), [seed])
        self._seeds[number], self._actions[number], self._earned[number] = seed, [], 0.0
        self._seen = None

    def step(self, actions: Any, asked: NDArray[np.bool_]) -> Gone:
        """Step some environments."""
        given = np.asarray(actions, np.int64)
        rewards, elapsed, _, terminated, truncated = self._envs.advance(given, asked)
        self._earned += rewards
        for number, action in zip(asked.nonzero()[0].tolist(), given[asked].tolist(), strict=True):
            self._actions[number].append(action)
        self._seen = None
        return Gone(rewards, elapsed, terminated, truncated)

    def _observed(self) -> Arrays:
        if self._seen is None:
            self._seen = self._envs.observe()
        return self._seen

    def show(self, which: Sequence[int], into: Arrays) -> None:
        """Write the observations of some environments into arrays."""
        is_all = len(which) == len(self)
        for name, array in self._observed().items():
            into[name][:] = array if is_all else array[list(which)]

    def room(self, shape: tuple[int, ...]) -> Arrays:
        """Return arrays of zeros for observations, with the given leading axes."""
        return _room({name: array[0] for name, array in self._observed().items()}, shape)

    def observation(self, number: int) -> Arrays:
        """Return a copy of the current observation of an environment."""
        return {name: array[number].copy() for name, array in self._observed().items()}

    def is_forced(self, number: int) -> bool:
        """Return whether the next action in an environment is known to have no effect."""
        return not self._observed()[ACTION_MASK][number, :-1].any()

    def has_begun(self, number: int) -> bool:
        """Return whether an action has been taken in the episode of an environment."""
        return bool(self._actions[number])

    def outcome(self, number: int, measure: Measure | None) -> dict[str, float]:
        """Return the return, length and measures of a finished episode."""
        measured = {} if measure is None else measure(self._envs.finished(number))
        return {"return": float(self._earned[number]), "length": float(len(self._actions[number])), **measured}

    def state(self) -> list[dict[str, Any]]:
        """Return the states of the episodes as plain values: seeds, and the actions since."""
        pairs = zip(self._seeds, self._actions, strict=True)
        return [{"seed": seed, "actions": actions.copy()} for seed, actions in pairs]

    def restore(self, states: Sequence[dict[str, Any]]) -> None:
        """Restore states by replaying the actions."""
        for number, state in enumerate(states):
            self.begin(number, state["seed"])
        lengths = np.array([len(state["actions"]) for state in states])
        for step in range(lengths.max()):
            asked = step < lengths
            self.step([state["actions"][step] if step < len(state["actions"]) else 0 for state in states], asked)


def lanes_of(make_env: Callable[[], gymnasium.Env[Any, Any]], count: int, *, compiled: bool) -> Lanes | CompiledLanes:
    """Return environments.

    Parameters
    ----------
    make_env : callable
        Function that returns a new Gymnasium environment.
    count : int
        Number of environments, at least 1.
    compiled : bool
        Whether a compiled loop steps them, if the problem has one that serves them.
    """
    first = make_env()
    envs = first.together(count) if compiled and isinstance(first, SchedulingEnv) else None
    if envs is not None:
        return CompiledLanes(envs)
    return Lanes([first, *(make_env() for _ in range(count - 1))])


def _room(seen: Arrays, shape: tuple[int, ...]) -> Arrays:
    """Return arrays of zeros for observations like the given one, with the given leading axes."""
    return {name: np.zeros((*shape, *array.shape), _single(array.dtype)) for name, array in seen.items()}


def _single(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the policy's inputs: single instead of double precision."""
    return np.dtype(np.float32) if dtype == np.float64 else dtype
