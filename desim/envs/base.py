"""The Gymnasium environment that all problems share: a simulation, an encoder and a reward.

An environment's step is the same pair as in :func:`desim.simulate`: a decision is answered, and the clock runs to
the next one. What differs between problems stands in three small objects, which a learned agent uses as well:

* *episodes* make the problem of an episode from a random generator;
* an *encoder* shows an observation as arrays of constant shape, says which actions are possible, and translates an
  action into the problem's own answer. It knows the present only;
* a *reward* says what was earned since the last decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.core import Decision, Simulation
from desim.exceptions import DesimError, InvalidConfiguration
from desim.problem import Problem
from desim.reprs import Summarized

if TYPE_CHECKING:
    from desim.result import Result

__all__ = [
    "ACTION_MASK",
    "LARGEST",
    "Arrays",
    "Encoder",
    "Episodes",
    "FlattenArrays",
    "InvertibleEncoder",
    "Reward",
    "SampledEpisodes",
    "SchedulingEnv",
    "SlotReward",
    "Transition",
    "bounded",
    "encode_all",
    "episodes_of",
    "log_scaled",
]

ACTION_MASK = "action_mask"
"""The key under which an encoded observation holds the mask of possible actions."""

Action = TypeVar("Action")
Arrays = dict[str, NDArray[Any]]
"""An encoded observation: arrays of constant shapes by name."""
Episodes = Callable[[np.random.Generator], Problem]
"""Makes the problem of a new episode."""


class Encoder(Protocol):
    """How a decision is shown to a network, and what the network's action means.

    Attributes
    ----------
    observation_space : gymnasium.spaces.Dict
        Of what :meth:`encode` returns. It holds a mask under :data:`ACTION_MASK`.
    action_space : gymnasium.Space
        Of what :meth:`decode` takes.
    """

    observation_space: gymnasium.spaces.Dict
    action_space: gymnasium.Space[Any]

    def encode(self, observation: Any) -> Arrays:
        """Return an observation as new arrays, with the mask of the actions that are possible."""

    def decode(self, observation: Any, action: Any) -> tuple[Any, bool]:
        """Return the answer that an action stands for, and whether the action is possible.

        An action that is not possible stands for the answer that ends the scheduling cycle.

        Parameters
        ----------
        observation : object
            What was encoded.
        action : object
            Of the action space.
        """

    def is_forced(self, observation: Any) -> bool:
        """Tell whether there is no choice but to answer None: to wait."""


class InvertibleEncoder(Encoder, Protocol):
    """An encoder that knows the way back, from what any agent answers to an action: so agents can be imitated."""

    def encode_action(self, observation: Any, answer: Any) -> Any:
        """Return the action that comes next to what an agent answers.

        Parameters
        ----------
        observation : object
            What the agent saw.
        answer : object
            Its answer.

        Returns
        -------
        object or None
            Of the action space; None if no action says this.
        """


class Reward(Protocol):
    """What a learner earns, told as the simulation goes on."""

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins."""

    def on_decision(self, answer: Any) -> None:
        """Learn that a decision was answered; the clock has not moved since."""

    def pop_reward(self) -> float:
        """Return what was earned since the last call; the clock stands at the next decision, or at the end.

        There may have been several answers since, where decisions without a choice are skipped.
        """


class Transition(NamedTuple):
    """What has come of an action.

    Attributes
    ----------
    reward : float
        What was earned.
    terminated, truncated : bool
        Whether the episode is over, or was cut short.
    elapsed : float
        Simulated time since the decision before.
    possible : bool
        Whether the action was.
    """

    reward: float
    terminated: bool
    truncated: bool
    elapsed: float
    possible: bool


def encode_all(envs: Sequence[SchedulingEnv], into: Arrays) -> None:
    """Write what environments of a kind show into arrays, a row each.

    An encoder whose class has a function ``encode_many``, called with pairs of encoder and observation and these
    arrays, encodes all of them at once.

    Parameters
    ----------
    envs : sequence of SchedulingEnv
        At least one.
    into : dict of str to numpy.ndarray
        Arrays by name, with a leading axis of the number of environments.
    """
    together = getattr(type(envs[0].encoder), "encode_many", None)
    if together is not None:
        together([(env.encoder, env.observation) for env in envs], into)
        return
    for row, env in enumerate(envs):
        for name, array in env.observe().items():
            into[name][row] = array


class SchedulingEnv(Summarized, gymnasium.Env[Arrays, Any]):
    """One simulation after another as a Gymnasium environment.

    ``info`` holds ``time``, the simulated time now, and ``elapsed``, that since the last decision, both in seconds or
    slots, and ``invalid``, whether the last action was not possible. An episode terminates when all work is done; it
    is truncated by a limit, or where work is left and nothing more happens, since the learner waits for it. At its end
    ``info`` has ``decisions`` as well, and :meth:`result` returns its records.

    Parameters
    ----------
    episodes : callable
        Makes the problem of each episode from a random generator; nothing else here is random.
    encoder : Encoder
        Observations and actions.
    reward : Reward
        What is earned.
    until : float
        An episode is truncated at this time, in seconds or slots.
    max_decisions : int, optional
        And after so many decisions.
    skip_forced : bool
        Do not ask where there is no choice but to wait: what is earned and elapses then belongs to the last decision.

    Attributes
    ----------
    forks : bool
        Whether the simulations of the episodes that are yet to begin can be forked. False at first.

    Raises
    ------
    InvalidConfiguration
        If a limit is not above 0.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # as Gymnasium declares it

    def __init__(
        self,
        episodes: Episodes,
        encoder: Encoder,
        reward: Reward,
        *,
        until: float = math.inf,
        max_decisions: int | None = None,
        skip_forced: bool = False,
    ) -> None:
        if not until > 0:
            raise InvalidConfiguration(f"until is {until!r}, want a time above 0")
        if max_decisions is not None and max_decisions < 1:
            raise InvalidConfiguration(f"max_decisions is {max_decisions!r}, want at least 1")
        self.episodes = episodes
        self.encoder = encoder
        self.reward = reward
        self.until = until
        self.max_decisions = math.inf if max_decisions is None else max_decisions
        self.skip_forced = skip_forced
        self.forks = False
        self.observation_space: gymnasium.Space[Any] = encoder.observation_space
        self.action_space = encoder.action_space
        self._simulation: Simulation | None = None
        self._decision: Decision | None = None
        self._mask: NDArray[Any] | None = None
        self._result: Result | None = None
        self._went_on_to_its_end = False

    def summary(self) -> dict[str, Any]:
        """Return the name, where the simulation is, and what is seen and done."""
        simulation, seen = self._simulation, self.observation_space
        return {
            "id": "not registered" if self.spec is None else self.spec.id,
            "time": "not begun" if simulation is None else simulation.env.now,
            "actions": str(self.action_space),
            "observations": ", ".join(seen) if isinstance(seen, gymnasium.spaces.Dict) else str(seen),
        }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        """Begin a new episode, at its first decision.

        Parameters
        ----------
        seed : int, optional
            Of this episode and those that follow.
        options : dict, optional
            Not used.

        Returns
        -------
        tuple of dict
            The encoded observation, and ``info``.

        Raises
        ------
        DesimError
            If ten episodes in a row hold no decision.
        """
        super().reset(seed=seed)
        self._result = None
        for _ in range(10):
            problem = self.episodes(self.np_random)
            seed = int(self.np_random.integers(2**63))
            self._simulation = simulation = Simulation(problem, seed=seed, until=self.until, log_actions=self.forks)
            self.reward.reset(simulation)
            self._decision = self._advance(simulation)
            if self._decision is not None:
                break
        else:
            raise DesimError("ten episodes in a row without a decision: their workloads are empty")
        self.reward.pop_reward()
        self._num_decisions = 0
        self._went_on_to_its_end = False
        self._time = float(simulation.env.now)
        self._observation = self._decision.observation
        return self.observe(), {"time": self._time, "elapsed": 0.0, "invalid": False}

    def step(self, action: Any) -> tuple[Arrays, float, bool, bool, dict[str, Any]]:
        """Answer the decision that is due and go on to the next.

        Parameters
        ----------
        action : object
            Of the action space. One that is not possible ends the scheduling cycle.

        Returns
        -------
        tuple
            The encoded observation, the reward, whether the episode has terminated or was truncated, and ``info``.

        Raises
        ------
        DesimError
            If the episode is over.
        """
        gone = self.advance(action)
        info: dict[str, Any] = {"time": self._time, "elapsed": gone.elapsed, "invalid": not gone.possible}
        if gone.terminated or gone.truncated:
            info["decisions"] = self._num_decisions
        return self.observe(), gone.reward, gone.terminated, gone.truncated, info

    def advance(self, action: Any) -> Transition:
        """Do what :meth:`step` does, without looking at what is there then; :meth:`observe` tells.

        Parameters
        ----------
        action : object
            Of the action space. One that is not possible ends the scheduling cycle.

        Returns
        -------
        Transition
            What has come of it.

        Raises
        ------
        DesimError
            If the episode is over.
        """
        decision, simulation = self._decision, self._simulation
        if decision is None or simulation is None:
            raise DesimError("no decision is due: the episode is over or has not begun, call reset()")
        answer, possible = self.encoder.decode(self._observation, action)
        decision.answer(answer)
        self.reward.on_decision(answer)
        self._decision = decision = self._advance(simulation)
        reward = self.reward.pop_reward()
        now = float(simulation.env.now if decision is not None else simulation.end_time)  # slots may be int
        elapsed, self._time = now - self._time, now
        self._num_decisions += 1
        self._mask = None
        over = decision is None
        self._went_on_to_its_end = over
        truncated = _is_cut_short(simulation) if over else self._num_decisions >= self.max_decisions
        if over or truncated:
            self._decision = None
        else:
            self._observation = decision.observation  # type: ignore[union-attr]  # not over
        return Transition(reward, over and not truncated, truncated, elapsed, possible)

    def _advance(self, simulation: Simulation) -> Decision | None:
        """Run to the next decision that is shown."""
        decision = simulation.advance()
        if self.skip_forced:
            while decision is not None and self.encoder.is_forced(decision.observation):
                decision.answer(None)
                self.reward.on_decision(None)
                decision = simulation.advance()
        return decision

    def observe(self) -> Arrays:
        """Return the encoded observation of the decision that is due; at the end of an episode, of its last moment."""
        encoded = self.encoder.encode(self.observation)
        self._mask = encoded[ACTION_MASK]
        return encoded

    @property
    def decision(self) -> Decision | None:
        """The decision that is due; None if the episode is over or has not begun."""
        return self._decision

    @property
    def observation(self) -> Any:
        """What is to be encoded now: live, valid until the next step.

        Raises
        ------
        DesimError
            Before the first episode.
        """
        if self._simulation is None:
            raise DesimError("there is no episode yet: call reset()")
        return self._observation

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are possible now, as a flat array of truth values.

        Returns
        -------
        numpy.ndarray
            A copy of the observation's mask. At the end of an episode some action is always possible, in name.

        Raises
        ------
        DesimError
            Before the first episode.
        """
        mask = self.observe()[ACTION_MASK] if self._mask is None else self._mask
        return mask.astype(np.bool_).ravel()

    @property
    def simulation(self) -> Simulation:
        """The simulation of this episode.

        Raises
        ------
        DesimError
            Before the first episode.
        """
        if self._simulation is None:
            raise DesimError("there is no episode yet: call reset()")
        return self._simulation

    def result(self) -> Result:
        """End the episode and return its records.

        Returns
        -------
        Result
            Tables and metrics of the episode, up to now; ``interrupted`` if it would have gone on.
        """
        self._decision = None
        if self._result is None:  # records can be closed once
            status = None if self._went_on_to_its_end else "interrupted"
            self._result = self.simulation.finish(status=status, agent="gymnasium")
        return self._result


def _is_cut_short(simulation: Simulation) -> bool:
    """Tell whether a run is over before its work is done: cut, or run dry, since a problem stops when it is done."""
    return simulation.truncated or simulation.env.peek() == math.inf


Part = TypeVar("Part")


class SampledEpisodes:
    """Episodes that are taken from some problems, each equally likely.

    Parameters
    ----------
    problems : sequence of Problem
        At least one; none with a workload that can be read only once.

    Raises
    ------
    InvalidConfiguration
        If there are none, or a workload is an iterator.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        if not problems:
            raise InvalidConfiguration("there is no problem to draw episodes from")
        for problem in problems:
            problem.check_replayable()
        self.problems = problems

    def __call__(self, rng: np.random.Generator) -> Problem:
        """Return one of the problems."""
        return self.problems[int(rng.integers(len(self.problems)))]


def episodes_of(workload: Sequence[Problem] | Episodes) -> Episodes:
    """Return what makes the problems of episodes.

    Parameters
    ----------
    workload : sequence of Problem, or callable
        What episodes are drawn from, or already what makes them from a random generator.

    Returns
    -------
    callable
        Called with a random generator.

    Raises
    ------
    InvalidConfiguration
        As for :class:`SampledEpisodes`.
    """
    return workload if callable(workload) else SampledEpisodes(workload)


class FlattenArrays(gymnasium.ObservationWrapper[Arrays, Any, Arrays], gymnasium.utils.RecordConstructorArgs):
    """An environment whose observations hold the same arrays, each as a vector.

    Stable-Baselines3's networks do this by themselves; its checker recommends it to all others.

    Parameters
    ----------
    env : gymnasium.Env
        One of :mod:`desim.envs`, wrapped or not.

    Raises
    ------
    InvalidConfiguration
        If its observations are no dictionary of arrays with bounds.
    """

    def __init__(self, env: gymnasium.Env[Arrays, Any]) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        gymnasium.ObservationWrapper.__init__(self, env)
        space: gymnasium.Space[Any] = env.observation_space
        if not isinstance(space, gymnasium.spaces.Dict):
            raise InvalidConfiguration(f"the observation space is {space}, want a Dict")
        vectors: dict[str, gymnasium.Space[Any]] = {}
        for name, box in space.spaces.items():
            if not isinstance(box, gymnasium.spaces.Box):
                raise InvalidConfiguration(f"the observation space of {name} is {box}, want a Box")
            vectors[name] = gymnasium.spaces.Box(box.low.ravel(), box.high.ravel(), dtype=box.dtype.type)
        self.observation_space: gymnasium.Space[Any] = gymnasium.spaces.Dict(vectors)

    def observation(self, observation: Arrays) -> Arrays:
        """Return an observation with vectors.

        Parameters
        ----------
        observation : dict of str to numpy.ndarray
            That of the environment.

        Returns
        -------
        dict of str to numpy.ndarray
            The same numbers.
        """
        return {name: array.ravel() for name, array in observation.items()}

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are possible now, as a flat array of truth values."""
        base = self.env.unwrapped
        assert isinstance(base, SchedulingEnv)
        return base.action_masks()


LARGEST = 6.0
"""No compressed number is larger."""

_MOST = 1e9
"""What is larger counts as this: more than 30 years, if it is seconds."""


def log_scaled(values: ArrayLike) -> NDArray[np.float64]:
    """Return a quarter of the logarithm of 1 + values.

    Parameters
    ----------
    values : array_like
        Times or amounts of at least 0, which may be infinite.

    Returns
    -------
    numpy.ndarray
        Numbers between 0 and 5.2.
    """
    result: NDArray[np.float64] = np.log1p(np.minimum(values, _MOST))
    result *= 0.25
    return result


def bounded(shape: tuple[int, ...], lowest: float = 0.0, highest: float = LARGEST) -> gymnasium.spaces.Box:
    """Return the space of arrays of 32-bit numbers between two bounds.

    Parameters
    ----------
    shape : tuple of int
        Of the arrays.
    lowest, highest : float
        The bounds.

    Returns
    -------
    gymnasium.spaces.Box
        A new space.
    """
    return gymnasium.spaces.Box(lowest, highest, shape, np.float32)


class SlotReward:
    """What the slots since the last decision have earned, over a scale.

    Parameters
    ----------
    scale : float
        What earns 1.

    Raises
    ------
    InvalidConfiguration
        If the scale is not above 0.
    """

    def __init__(self, scale: float) -> None:
        if not scale > 0:
            raise InvalidConfiguration(f"the scale is {scale!r}, want a number above 0")
        self.scale = scale

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins."""
        self._earned = 0.0
        simulation.problem.on("slot", self._count)

    def on_decision(self, answer: Any) -> None:
        """Do nothing: the problem tells of its slots."""

    def _count(self, time: float, outcome: Any) -> None:
        self._earned += self.value(outcome)

    def value(self, outcome: Any) -> float:
        """Return what a slot is worth, before it is scaled; to be overridden.

        Parameters
        ----------
        outcome : SlotOutcome
            What the slot has brought.
        """
        raise NotImplementedError

    def pop_reward(self) -> float:
        """Return what was earned since the last call."""
        earned, self._earned = self._earned, 0.0
        return earned / self.scale
