"""Experience: many environments that advance together, with one inference for all of them a step; and evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from desim.agents.learning.policy import Distribution, Policy, one_thread, to_tensors
from desim.envs.base import SchedulingEnv, encode_all
from desim.exceptions import InvalidConfiguration

__all__ = ["Arrays", "Collector", "Experience", "Lane", "Measure", "concatenated", "evaluate", "mean_of"]

Arrays = dict[str, NDArray[Any]]
"""Parts of observations by name."""

Measure = Callable[[gymnasium.Env[Any, Any]], dict[str, float]]
"""Called with an environment whose episode has ended; returns measures by name."""

PER_STEP = ("actions", "log_probs", "values", "rewards", "elapsed", "ends", "final_values", "valid")
"""What is noted of each step beside observations."""

AT_ONCE = 512
"""Decisions about which a policy is asked together after the fact."""

TOGETHER = 32
"""Most environments that advance at the same time in an evaluation."""


@dataclass
class Experience:
    """What N environments went through in T steps.

    Attributes
    ----------
    observations : dict of str to array, shape (T, N, ...)
        What was seen before each action.
    actions : array, shape (T, N, ...)
        What was done.
    log_probs, values : array of float, shape (T, N)
        Of the actions and observations, by the policy that acted.
    rewards : array of float, shape (T, N)
        What was earned.
    elapsed : array of float, shape (T, N)
        Simulated time from each action to the next decision; 1 where an environment does not tell.
    ends : array of bool, shape (T, N)
        Whether the episode ended with the action.
    final_values : array of float, shape (T, N)
        Values of the last observations of truncated episodes, else 0.
    last_values : array of float, shape (N,)
        Values of the observations after the last step.
    valid : array of bool, shape (T, N)
        Which steps there were: False behind the end of an episode where whole episodes were wanted.
    group_size : int
        Neighbouring environments that faced the same episodes.
    episodes : list of dict
        ``return``, ``length`` and, if told so, measures of each episode that ended.
    seconds : dict of str to float
        Wall time by what it was spent on: ``simulate`` and ``infer``.
    """

    observations: Arrays
    actions: NDArray[Any]
    log_probs: NDArray[np.float32]
    values: NDArray[np.float32]
    rewards: NDArray[np.float64]
    elapsed: NDArray[np.float64]
    ends: NDArray[np.bool_]
    final_values: NDArray[np.float32]
    last_values: NDArray[np.float32]
    valid: NDArray[np.bool_]
    group_size: int = 1
    episodes: list[dict[str, float]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def num_steps(self) -> int:
        """How many decisions it holds."""
        return int(self.valid.sum())

    def in_a_row(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the valid steps of an array of shape (T, N, ...) in a row: a view if all of them are."""
        if self.valid.all() and array.flags.c_contiguous:
            return array.reshape(-1, *array.shape[2:])
        chosen: NDArray[Any] = array[self.valid]
        return chosen


def concatenated(parts: Sequence[Experience], group_size: int = 1) -> Experience:
    """Return experience side by side, as that of all its environments.

    Parameters
    ----------
    parts : sequence of Experience
        Of the same environments' kind; shorter ones are filled up with steps that are not valid.
    group_size : int
        Neighbouring environments of the whole that faced the same episodes.

    Returns
    -------
    Experience
        Environments in the order of the parts; the seconds are the largest of each kind.
    """
    length = max(len(part.rewards) for part in parts)

    def joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
        """Return arrays side by side, filled up with zeros."""
        if any(len(array) < length for array in arrays):
            rests = [(0, length - len(array)) for array in arrays]
            arrays = [np.pad(a, [rest, *[(0, 0)] * (a.ndim - 1)]) for a, rest in zip(arrays, rests, strict=True)]
        return np.concatenate(arrays, axis=1)

    names = parts[0].observations
    return Experience(
        observations={name: joined([part.observations[name] for part in parts]) for name in names},
        last_values=np.concatenate([part.last_values for part in parts]),
        group_size=group_size,
        episodes=[episode for part in parts for episode in part.episodes],
        seconds={name: max(part.seconds[name] for part in parts) for name in parts[0].seconds},
        **{name: joined([getattr(part, name) for part in parts]) for name in PER_STEP},
    )


class Lane:
    """One environment and its episode so far.

    Environments of desim are not asked for what they show before all of them are, by ``show``.

    Parameters
    ----------
    gym_env : gymnasium.Env
        Observations that are arrays, not dictionaries, become ``{"observation": array}``.
    """

    def __init__(self, gym_env: gymnasium.Env[Any, Any]) -> None:
        self.gym_env = gym_env
        self.simulated = gym_env if isinstance(gym_env, SchedulingEnv) else None
        self._seen: Arrays = {}

    def begin(self, seed: int) -> None:
        """Begin an episode."""
        self.seed = seed
        self.actions: list[Any] = []
        self.earned = 0.0
        self.has_moved = True
        self._see(self.gym_env.reset(seed=seed)[0])

    def step(self, action: Any) -> tuple[float, bool, bool, float]:
        """Act; return the reward, whether the episode is terminated, whether it is truncated, and the time it took."""
        self.actions.append(action)
        self.has_moved = True
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
        """Whether it is known that nothing depends on the next action."""
        return self.simulated is not None and self.simulated.encoder.is_forced(self.simulated.observation)

    @property
    def observation(self) -> Arrays:
        """What the environment shows now."""
        return self._seen if self.simulated is None else self.simulated.observe()

    def outcome(self, measure: Measure | None) -> dict[str, float]:
        """Return what has come of an episode that is over."""
        measured = {} if measure is None else measure(self.gym_env)
        return {"return": self.earned, "length": float(len(self.actions)), **measured}

    def state(self) -> dict[str, Any]:
        """Return where the environment stands, as plain values: its seed, and the actions since."""
        return {"seed": self.seed, "actions": [np.asarray(action).tolist() for action in self.actions]}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where an environment stood, by doing the same again."""
        self.begin(state["seed"])
        space = self.gym_env.action_space
        for action in state["actions"]:
            self.step(np.asarray(action, space.dtype) if space.shape else int(action))


def show(lanes: Sequence[Lane], into: Arrays) -> None:
    """Write what some environments show into arrays, a row each.

    Parameters
    ----------
    lanes : sequence of Lane
        At least one; all of the same kind.
    into : dict of str to numpy.ndarray
        Arrays by name, with a leading axis of the number of lanes.
    """
    simulated = [lane.simulated for lane in lanes if lane.simulated is not None]
    if simulated:
        encode_all(simulated, into)
        return
    for row, lane in enumerate(lanes):
        for name, array in lane.observation.items():
            into[name][row] = array


def room_for(lane: Lane, shape: tuple[int, ...]) -> Arrays:
    """Return arrays of zeros for what environments like this one show, with leading axes of a shape."""
    return {
        name: np.zeros((*shape, *np.shape(array)), _single(np.asarray(array).dtype))
        for name, array in lane.observation.items()
    }


class Collector:
    """Lets a policy act in many environments at once, in this process.

    Environments that have ended are reset at once, each with a seed from a generator of its own.

    Parameters
    ----------
    make_env : callable
        Returns a new environment, any of Gymnasium.
    seeds : sequence of numpy.random.SeedSequence
        One for each environment. Environments with equal seeds face the same episodes.
    rng : numpy.random.Generator
        For the sampled actions.
    measure : callable, optional
        Called with an environment whose episode has ended; returns measures by name.
    group_size : int
        Neighbouring environments with equal seeds.

    Raises
    ------
    InvalidConfiguration
        If there is no environment.
    """

    def __init__(
        self,
        make_env: Callable[[], gymnasium.Env[Any, Any]],
        seeds: Sequence[np.random.SeedSequence],
        rng: np.random.Generator,
        *,
        measure: Measure | None = None,
        group_size: int = 1,
    ) -> None:
        if not seeds:
            raise InvalidConfiguration("experience needs at least one environment")
        self.rng = rng
        self.measure = measure
        self.group_size = group_size
        self._lanes = [Lane(make_env()) for _ in seeds]
        self._seeds = [np.random.default_rng(seed) for seed in seeds]
        for number in range(len(seeds)):
            self._begin(number)

    def _begin(self, number: int) -> None:
        self._lanes[number].begin(int(self._seeds[number].integers(2**31)))

    def state(self) -> dict[str, Any]:
        """Return where all environments and the generators stand, as plain values."""
        envs = [
            lane.state() | {"rng": rng.bit_generator.state} for lane, rng in zip(self._lanes, self._seeds, strict=True)
        ]
        return {"rng": self.rng.bit_generator.state, "envs": envs}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where a collector with as many environments stood, by doing the same again.

        Parameters
        ----------
        state : dict
            Of :meth:`state`.

        Raises
        ------
        InvalidConfiguration
            If the number of environments differs.
        """
        if len(state["envs"]) != len(self._lanes):
            raise InvalidConfiguration(f"a state of {len(state['envs'])} environments, there are {len(self._lanes)}")
        self.rng.bit_generator.state = state["rng"]
        for lane, rng, before in zip(self._lanes, self._seeds, state["envs"], strict=True):
            rng.bit_generator.state = before["rng"]
            lane.restore(before)

    def collect(self, policy: Policy, num_steps: int) -> Experience:
        """Act for a number of steps T in every environment, from where they stand; all of them are valid."""
        return self._run(policy, num_steps, whole=False)

    def collect_episodes(self, policy: Policy, longest: int) -> Experience:
        """Begin an episode in every environment and act to its end; one that is longer counts as truncated there."""
        for number, lane in enumerate(self._lanes):
            if lane.actions:
                self._begin(number)
        return self._run(policy, longest, whole=True)

    def _run(self, policy: Policy, num_steps: int, *, whole: bool) -> Experience:
        notes = _Notes(self._lanes, num_steps, policy)
        done = np.zeros(len(self._lanes), np.bool_)
        step = 0
        with torch.inference_mode(), one_thread():
            while step < num_steps and not done.all():
                actions = notes.act(step, self.rng)
                for number, lane in enumerate(self._lanes):
                    if done[number]:
                        continue
                    reward, terminated, truncated, elapsed = lane.step(actions[number])
                    notes.valid[step, number] = True
                    notes.rewards[step, number] = reward
                    notes.elapsed[step, number] = elapsed
                    if terminated or truncated:
                        notes.end(step, number, truncated=truncated, measure=self.measure)
                        done[number] = whole
                        self._begin(number)
                step += 1
            return notes.experience(step, self.group_size, self.rng)


class _Notes:
    """The arrays of experience while it is made."""

    def __init__(self, lanes: list[Lane], num_steps: int, policy: Policy) -> None:
        self.lanes, self.policy = lanes, policy
        self.device = next(policy.parameters()).device
        self.begin = time.perf_counter()
        self.infer = 0.0
        shape = (num_steps, len(lanes))
        self.observations = room_for(lanes[0], (num_steps + 1, len(lanes)))
        for lane in lanes:
            lane.has_moved = True  # since nothing is noted yet
        space = lanes[0].gym_env.action_space
        self.actions = np.zeros((*shape, *(space.shape or ())), space.dtype or np.int64)
        self.log_probs, self.values, self.final_values = (np.zeros(shape, np.float32) for _ in range(3))
        self.rewards, self.elapsed = np.zeros(shape), np.zeros(shape)
        self.ends, self.valid, self.unasked = (np.zeros(shape, np.bool_) for _ in range(3))
        self.episodes: list[dict[str, float]] = []
        self.truncated: list[tuple[int, int, Arrays]] = []

    def see(self, step: int) -> Arrays:
        """Note what every environment shows, and return it."""
        seen = {name: array[step] for name, array in self.observations.items()}
        moved = [number for number, lane in enumerate(self.lanes) if lane.has_moved]
        if len(moved) == len(self.lanes):
            show(self.lanes, seen)
        else:  # those that have come to their end show what they did a step before
            still = [number for number, lane in enumerate(self.lanes) if not lane.has_moved]
            fresh = {name: np.empty_like(array[: len(moved)]) for name, array in seen.items()}
            if moved:
                show([self.lanes[number] for number in moved], fresh)
            for name, array in seen.items():
                array[still] = self.observations[name][step - 1, still]
                array[moved] = fresh[name]
        for lane in self.lanes:
            lane.has_moved = False
        return seen

    def act(self, step: int, rng: np.random.Generator) -> Any:
        """Note what is seen and done; return the action of each environment."""
        seen = self.see(step)
        begin = time.perf_counter()
        if self.policy.apart and all(lane.is_forced for lane in self.lanes):
            self.unasked[step] = True
        else:
            shown = to_tensors(seen, self.device)
            ask: Any = self.policy
            distribution, values = (ask.distribution(shown), None) if ask.apart else ask(shown)
            self._note_actions(step, distribution, rng)
            if values is not None:
                self.values[step] = values.cpu().numpy()
        self.infer += time.perf_counter() - begin
        chosen = self.actions[step]
        return chosen.tolist() if chosen.ndim == 1 else chosen

    def end(self, step: int, number: int, *, truncated: bool, measure: Measure | None) -> None:
        """Note the end of an episode."""
        lane = self.lanes[number]
        self.ends[step, number] = True
        if truncated:  # copied, since an environment may write the next observation into the same array
            self.truncated.append((step, number, {name: np.array(array) for name, array in lane.observation.items()}))
        self.episodes.append(lane.outcome(measure))

    def _note_actions(self, at: Any, distribution: Distribution, rng: np.random.Generator) -> None:
        """Draw actions, of one step or of some steps and environments."""
        actions = distribution.sample(rng)
        self.actions[at] = actions.cpu().numpy()
        self.log_probs[at] = distribution.log_prob(actions).cpu().numpy()

    def _make_good(self, length: int, rng: np.random.Generator) -> None:
        """Note the values of all decisions, and the actions that nothing depended on."""
        policy: Any = self.policy
        rows = self.valid[:length].nonzero()
        for first in range(0, len(rows[0]), AT_ONCE):
            part = rows[0][first : first + AT_ONCE], rows[1][first : first + AT_ONCE]
            shown = to_tensors({name: array[part] for name, array in self.observations.items()}, self.device)
            self.values[part] = policy.values(shown).cpu().numpy()
            left = self.unasked[part]
            if left.any():
                chosen = torch.from_numpy(left)
                few = {name: tensor[chosen.to(tensor.device)] for name, tensor in shown.items()}
                self._note_actions((part[0][left], part[1][left]), policy.distribution(few), rng)

    def experience(self, length: int, group_size: int, rng: np.random.Generator) -> Experience:
        """Return all that was noted in a number of steps."""
        seen = self.see(length)
        begin = time.perf_counter()
        if self.policy.apart:
            self._make_good(length, rng)
        last_values = self.policy(to_tensors(seen, self.device))[1]
        if self.truncated:
            steps, numbers, shown = zip(*self.truncated, strict=True)
            batch = {name: np.stack([one[name] for one in shown]) for name in self.observations}
            values = self.policy(to_tensors(batch, self.device))[1]
            self.final_values[list(steps), list(numbers)] = values.cpu().numpy()
        self.infer += time.perf_counter() - begin
        return Experience(
            observations={name: array[:length] for name, array in self.observations.items()},
            last_values=last_values.cpu().numpy(),
            group_size=group_size,
            episodes=self.episodes,
            seconds={"simulate": time.perf_counter() - self.begin - self.infer, "infer": self.infer},
            **{name: getattr(self, name)[:length] for name in PER_STEP},
        )


def _single(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which a policy sees numbers."""
    return np.dtype(np.float32) if dtype == np.float64 else dtype


def evaluate(
    policy: Policy,
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    seeds: Sequence[int],
    *,
    measure: Measure | None = None,
    rng: np.random.Generator | None = None,
) -> list[dict[str, float]]:
    """Let a policy act through one episode for each seed.

    Parameters
    ----------
    policy : Policy
        Who acts; it does not learn, nor do its normalizers.
    make_env : callable
        Returns a new environment.
    seeds : sequence of int
        Of the episodes.
    measure : callable, optional
        Called with the environment at the end of an episode; returns measures by name.
    rng : numpy.random.Generator, optional
        Draws the actions; without it the most likely ones are taken.

    Returns
    -------
    list of dict
        ``return``, ``length`` and the measures of each episode, in the order of the seeds.
    """
    was_training = policy.training
    ask: Any = policy.eval()
    device = next(policy.parameters()).device
    waiting = iter(enumerate(seeds))
    found: list[dict[str, float]] = [{} for _ in seeds]
    active: list[tuple[int, Lane]] = []  # each with the place of its seed
    for lane in [Lane(make_env()) for _ in range(min(TOGETHER, len(seeds)))]:
        place, seed = next(waiting)
        lane.begin(seed)
        active.append((place, lane))
    seen = room_for(active[0][1], (len(active),)) if active else {}
    try:
        with torch.inference_mode(), one_thread():
            while active:
                batch = {name: array[: len(active)] for name, array in seen.items()}
                show([lane for _, lane in active], batch)
                shown = to_tensors(batch, device)
                distribution = ask.distribution(shown) if ask.apart else ask(shown)[0]
                actions = (distribution.mode() if rng is None else distribution.sample(rng)).cpu().numpy()
                plain = actions.tolist() if actions.ndim == 1 else actions
                left = []
                for (place, lane), action in zip(active, plain, strict=True):
                    _, terminated, truncated, _ = lane.step(action)
                    over, now = terminated or truncated, place
                    while over or (ask.apart and _waits_to_its_end(lane)):
                        found[now] = lane.outcome(measure)
                        following = next(waiting, None)
                        if following is None:
                            break
                        over, now = False, following[0]
                        lane.begin(following[1])
                    else:
                        left.append((now, lane))
                active = left
    finally:
        policy.train(was_training)
    return found


def _waits_to_its_end(lane: Lane) -> bool:
    """Go on to where something depends on the action; return whether the episode ends before."""
    while lane.is_forced:
        _, terminated, truncated, _ = lane.step(0)
        if terminated or truncated:
            return True
    return False


def mean_of(episodes: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of every measure over episodes, all with the same names; none if there is no episode.

    Parameters
    ----------
    episodes : sequence of dict
        Measures by name.
    """
    if not episodes:
        return {}
    return {name: float(np.mean([episode[name] for episode in episodes])) for name in episodes[0]}
