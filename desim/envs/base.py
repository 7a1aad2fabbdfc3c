"""The Gymnasium environment shared by all problems: a simulation, an encoder and a reward.

A step of an environment does the same as the loop in :func:`desim.simulate`: a decision is answered, and the clock
advances to the next one. The differences between problems are in three small objects, which learned agents use, too:

* *episodes* create the problem of an episode from a random generator;
* an *encoder* converts an observation to arrays of constant shape, says which actions are possible, and converts an
  action to the problem's own answer. It uses present information only;
* a *reward* returns the reward earned since the last decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from functools import partial
from pkgutil import resolve_name
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.checks import check_choice, short_repr
from desim.core import Decision, Simulation
from desim.exceptions import DesimError, InvalidConfiguration, MissingDependency
from desim.forks import fork_with, without_listeners
from desim.problem import Problem, kind_of, kinds
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
"""Key of the mask of possible actions in an encoded observation."""

Action = TypeVar("Action")
Arrays = dict[str, NDArray[Any]]
"""Encoded observation: arrays of constant shapes by name."""
Episodes = Callable[[np.random.Generator], Problem]
"""Function that creates the problem of a new episode."""


class Encoder(Protocol):
    """Conversion of decisions to network inputs, and of the network's actions to answers.

    Attributes
    ----------
    observation_space : gymnasium.spaces.Dict
        Space of what :meth:`encode` returns; it contains a mask under :data:`ACTION_MASK`.
    action_space : gymnasium.Space
        Space of the actions that :meth:`decode` takes.
    """

    observation_space: gymnasium.spaces.Dict
    action_space: gymnasium.Space[Any]

    def encode(self, observation: Any) -> Arrays:
        """Return an observation as new arrays, with the mask of the possible actions."""

    def decode(self, observation: Any, action: Any) -> tuple[Any, bool]:
        """Return the answer that an action stands for, and whether the action is possible.

        An impossible action gives the answer that ends the scheduling cycle.

        Parameters
        ----------
        observation : object
            Encoded observation.
        action : object
            Element of the action space.
        """

    def is_forced(self, observation: Any) -> bool:
        """Return whether waiting, the answer None, is the only choice."""


class InvertibleEncoder(Encoder, Protocol):
    """Encoder that can also convert answers to actions, so that any agent can be imitated."""

    def encode_action(self, observation: Any, answer: Any) -> Any:
        """Return the action closest to an agent's answer.

        Parameters
        ----------
        observation : object
            Observation that the agent had.
        answer : object
            Answer of the agent.

        Returns
        -------
        object or None
            Element of the action space; None if no action expresses the answer.
        """


class Reward(Protocol):
    """Reward of a learner, accumulated during the simulation."""

    def reset(self, simulation: Simulation) -> None:
        """Prepare for a new episode."""

    def on_decision(self, answer: Any) -> None:
        """Handle the answer to a decision; the clock has not moved since."""

    def pop_reward(self) -> float:
        """Return the reward since the last call; the clock is at the next decision, or at the end.

        If decisions without a choice are skipped, several answers may have been given since.
        """


class Transition(NamedTuple):
    """Outcome of an action.

    Attributes
    ----------
    reward : float
        Reward earned.
    terminated, truncated : bool
        Whether the episode has ended, or was cut off.
    elapsed : float
        Simulated time since the previous decision, in seconds or slots.
    possible : bool
        Whether the action was possible.
    """

    reward: float
    terminated: bool
    truncated: bool
    elapsed: float
    possible: bool


def encode_all(envs: Sequence[SchedulingEnv], into: Arrays) -> None:
    """Write the observations of several environments of a kind into arrays, one row per environment.

    If the encoder's class has a function ``encode_many``, it is called with pairs of encoder and observation and these
    arrays, and encodes all of them at once.

    Parameters
    ----------
    envs : sequence of SchedulingEnv
        At least one environment.
    into : dict of str to numpy.ndarray
        Arrays by name, whose first axis is the number of environments.
    """
    together = getattr(type(envs[0].encoder), "encode_many", None)
    if together is not None:
        together([(env.encoder, env.observation) for env in envs], into)
        return
    for row, env in enumerate(envs):
        for name, array in env.observe().items():
            into[name][row] = array


class SchedulingEnv(Summarized, gymnasium.Env[Arrays, Any]):
    """Gymnasium environment that runs one simulation after another.

    ``info`` contains ``time``, the current simulated time, ``elapsed``, the time since the last decision, both in
    seconds or slots, and ``invalid``, whether the last action was impossible. An episode terminates when all work is
    done. It is truncated by a limit, or if work remains and no event is left, because the learner keeps waiting. At the
    end of an episode, ``info`` also contains ``decisions``, and :meth:`result` returns the records.

    :meth:`copy` and ``copy.deepcopy`` return an independent environment that continues equally, for example to
    search a tree of actions.

    Parameters
    ----------
    episodes : callable
        Creates the problem of each episode from a random generator; nothing else here is random.
    encoder : Encoder
        Conversion of observations and actions.
    reward : Reward
        Reward of the learner.
    until : float
        Time at which an episode is truncated, in seconds or slots.
    max_decisions : int, optional
        Number of decisions after which an episode is truncated.
    skip_forced : bool
        Whether to skip decisions whose only choice is to wait; reward and time then count towards the last decision.
    render_mode : {"ansi", "rgb_array"}, optional
        What ``render`` returns.

    Attributes
    ----------
    forks : bool
        Whether the simulations of future episodes can be forked. Initially False; :meth:`copy` does not need it.
    checks_bounds : bool
        Whether :meth:`step` refuses numbers outside the bounds of a Box. Initially True. The learning algorithms of
        desim switch it off, because the samples of their policies need not lie within the bounds.

    Raises
    ------
    InvalidConfiguration
        If a limit is not > 0, or the render mode is unknown.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012  # as Gymnasium
    shared: ClassVar[tuple[str, ...]] = ("episodes", "observation_space", "spec", "_result")
    """Attributes that copies share with the original, because they never change."""
    picture: ClassVar[str] = ""
    """Figure that ``render`` draws; by default the first one of the problem."""

    def __init__(
        self,
        episodes: Episodes,
        encoder: Encoder,
        reward: Reward,
        *,
        until: float = math.inf,
        max_decisions: int | None = None,
        skip_forced: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if not until > 0:
            raise InvalidConfiguration(f"until: got {until!r}, expected a time > 0")
        if max_decisions is not None and max_decisions < 1:
            raise InvalidConfiguration(f"max_decisions: got {max_decisions!r}, expected at least 1")
        self.episodes = episodes
        self.encoder = encoder
        self.reward = reward
        self.until = until
        self.max_decisions = math.inf if max_decisions is None else max_decisions
        self.skip_forced = skip_forced
        self.render_mode = check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        self.forks = False
        self.checks_bounds = True
        self.observation_space: gymnasium.Space[Any] = encoder.observation_space
        self.action_space = encoder.action_space
        self._simulation: Simulation | None = None
        self._decision: Decision | None = None
        self._mask: NDArray[Any] | None = None
        self._result: Result | None = None
        self._went_on_to_its_end = False
        self._answers: list[Any] = []

    def summary(self) -> dict[str, Any]:
        """Return the id, the current time, and the spaces of observations and actions."""
        simulation, seen = self._simulation, self.observation_space
        return {
            "id": self._id,
            "time": "not begun" if simulation is None else simulation.env.now,
            "actions": str(self.action_space),
            "observations": ", ".join(seen) if isinstance(seen, gymnasium.spaces.Dict) else str(seen),
        }

    @property
    def _id(self) -> str:
        return "not registered" if self.spec is None else self.spec.id

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        """Start a new episode and return its first observation.

        Parameters
        ----------
        seed : int, optional
            Seed of this episode and the following ones.
        options : dict, optional
            Ignored.

        Returns
        -------
        tuple of dict
            Encoded observation, and ``info``.

        Raises
        ------
        DesimError
            If ten episodes in a row have no decision.
        """
        super().reset(seed=seed)
        for _ in range(10):
            problem = self.next_problem()
            seed = int(self.np_random.integers(2**63))
            if self._begin(Simulation(problem, seed=seed, until=self.until, log_actions=self.forks)):
                return self.observe(), {"time": self._time, "elapsed": 0.0, "invalid": False}
        raise DesimError("ten episodes in a row without a decision: their workloads are empty")

    def next_problem(self) -> Problem:
        """Return the problem of a new episode; subclasses may prepare for it."""
        return self.episodes(self.np_random)

    def _begin(self, simulation: Simulation) -> bool:
        """Start an episode and advance to its first decision; return whether there is one."""
        self._result, self._simulation, listeners = None, simulation, simulation.problem.listeners
        before = {event: len(known) for event, known in listeners.items()}
        self.reward.reset(simulation)
        self._listeners = [(event, one) for event, known in listeners.items() for one in known[before[event] :]]
        simulation.problem.hear(self.encoder)
        self._num_listeners = sum(map(len, listeners.values())) - sum(before.values())
        self._decision = self._advance(simulation)
        if self._decision is None:
            return False
        self.reward.pop_reward()
        self._answers, self._num_decisions, self._mask = [], 0, None
        self._went_on_to_its_end = False
        self._time = float(simulation.env.now)
        self._observation = self._decision.observation
        return True

    def step(self, action: Any) -> tuple[Arrays, float, bool, bool, dict[str, Any]]:
        """Answer the current decision and advance to the next one.

        Parameters
        ----------
        action : object
            Element of the action space. An impossible action ends the scheduling cycle.

        Returns
        -------
        tuple
            Encoded observation, reward, whether the episode has terminated, whether it was truncated, and ``info``.

        Raises
        ------
        DesimError
            If the episode is over.
        InvalidConfiguration
            If the action is not an element of the action space.
        """
        if self.checks_bounds and self._decision is not None and isinstance(self.action_space, gymnasium.spaces.Box):
            _check_box(action, self.action_space)
        gone = self.advance(action)
        info: dict[str, Any] = {"time": self._time, "elapsed": gone.elapsed, "invalid": not gone.possible}
        if gone.terminated or gone.truncated:
            info["decisions"] = self._num_decisions
        return self.observe(), gone.reward, gone.terminated, gone.truncated, info

    def advance(self, action: Any) -> Transition:
        """Do the same as :meth:`step` without encoding the next observation, which :meth:`observe` returns.

        Parameters
        ----------
        action : object
            Element of the action space; numbers of a Box may lie outside its bounds. An impossible action ends the
            scheduling cycle.

        Returns
        -------
        Transition
            Outcome of the action.

        Raises
        ------
        DesimError
            If the episode is over.
        """
        if self._decision is None:
            raise DesimError("no decision is due: the episode is over or has not begun, call reset()")
        return self._answer(*self.encoder.decode(self._observation, action))

    def _answer(self, answer: Any, possible: bool) -> Transition:
        """Answer the current decision and advance to the next one."""
        decision, simulation = self._decision, self.simulation
        assert decision is not None
        self._answers.append(answer)
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
        """Advance to the next decision that is not skipped."""
        decision = simulation.advance()
        if self.skip_forced:
            while decision is not None and self.encoder.is_forced(decision.observation):
                decision.answer(None)
                self.reward.on_decision(None)
                decision = simulation.advance()
        return decision

    def copy(self) -> Self:
        """Return an independent environment in the same state, which continues equally if it gets the same actions.

        Normally the state is copied, in time proportional to the number of jobs in the system, see
        :meth:`desim.Simulation.fork`. Where that is impossible, as with the user's own generator processes and with
        ``arrivals="open"``, the answers of the episode are replayed, in time proportional to their number. The copy
        shares the workload and the settings; reward, encoder and random generators are its own. Of wrappers, use
        ``copy.deepcopy``.

        Returns
        -------
        SchedulingEnv
            The copy; its next episodes are those of the original, too.

        Raises
        ------
        InvalidConfiguration
            If the workload is an iterator, or a part cannot be copied.
        """
        twin, simulation = object.__new__(type(self)), self._simulation
        kept = {name: getattr(self, name, None) for name in self.shared}
        state = {name: value for name, value in vars(self).items() if name not in kept}
        memo: dict[int, Any] = {id(value): value for value in kept.values()}
        memo |= {id(self): twin, id(self._answers): self._answers.copy()}  # the answers themselves never change
        try:
            if simulation is None:
                vars(twin).update(deepcopy(state, memo), **kept)
            elif (
                any(_is_closure(listener) for _, listener in self._listeners)
                or (found := fork_with(simulation, state, memo, num_listeners=self._num_listeners)) is None
            ):
                self._replay(twin, state, kept, memo)
            else:
                vars(twin).update(found[1], **kept)
                for event, listener in twin._listeners:
                    found[0].problem.on(event, listener)
                found[0].problem.hear(twin.encoder)
        except (TypeError, AttributeError) as error:
            raise InvalidConfiguration(f"{type(self).__name__}: a part of it cannot be copied: {error}") from error
        return twin

    def _replay(self, twin: Self, state: dict[str, Any], kept: dict[str, Any], memo: dict[int, Any]) -> None:
        """Make a copy by starting the episode again and giving the same answers; its reward begins with ``reset``."""
        own = self.simulation
        problem = without_listeners(own._configuration)
        simulation = Simulation(problem, seed=own.seed, until=own.until, log_actions=own.actions is not None)
        bound = ("_simulation", "_decision", "_observation", "_listeners")
        memo |= {id(own): simulation, id(own.problem): simulation.problem, id(self.reward): copy(self.reward)}
        state = {name: value for name, value in state.items() if name not in bound}
        vars(twin).update(deepcopy(state, memo), **kept)
        twin._begin(simulation)
        for answer in self._answers:
            twin._answer(answer, True)
        if twin._time != self._time:
            raise DesimError(f"the replay differs from the episode: it is at {twin._time}, the episode at {self._time}")
        if self._decision is None:  # at its end, or ended by result()
            twin._decision, twin._result = None, self._result

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return :meth:`copy`."""
        memo[id(self)] = twin = self.copy()
        return twin

    def together(self, num_envs: int) -> Any:
        """Return environments like this one that a compiled loop steps together.

        They have the methods ``begin``, ``advance``, ``observe`` and ``finished`` of
        :class:`~desim.problems.batch.vector_env.BatchVectorEnv`.

        Parameters
        ----------
        num_envs : int
            Number of environments, at least 1.

        Returns
        -------
        object or None
            The environments; None if the problem has no such loop, or it does not serve this environment.
        """
        own = f"{type(self).__module__}:{type(self).__qualname__}"  # a subclass may do something else
        for kind in kinds().values():
            if kind.environment == own and kind.vector_environment:
                try:
                    return resolve_name(kind.vector_environment).of(self, num_envs)
                except (InvalidConfiguration, MissingDependency):
                    return None
        return None

    def observe(self) -> Arrays:
        """Return the encoded observation of the current decision or, after an episode, of its last moment."""
        encoded = self.encoder.encode(self.observation)
        self._mask = encoded[ACTION_MASK]
        return encoded

    @property
    def decision(self) -> Decision | None:
        """Current decision; None if the episode is over or has not started."""
        return self._decision

    @property
    def observation(self) -> Any:
        """Current observation before encoding: a live view, valid until the next step.

        Raises
        ------
        DesimError
            Before the first episode.
        """
        if self._simulation is None:
            raise DesimError("there is no episode yet: call reset()")
        return self._observation

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are possible now, as a flat Boolean array.

        Returns
        -------
        numpy.ndarray
            Copy of the observation's mask. At the end of an episode at least one action is marked as possible.

        Raises
        ------
        DesimError
            Before the first episode.
        """
        mask = self.observe()[ACTION_MASK] if self._mask is None else self._mask
        return mask.astype(np.bool_).ravel()

    @property
    def simulation(self) -> Simulation:
        """Simulation of the current episode.

        Raises
        ------
        DesimError
            Before the first episode.
        """
        if self._simulation is None:
            raise DesimError("there is no episode yet: call reset()")
        return self._simulation

    def render(self) -> str | NDArray[np.uint8] | None:
        """Return a picture of the episode so far, as ``render_mode`` says.

        Returns
        -------
        str, numpy.ndarray of shape (450, 800, 3), or None
            ``"ansi"``: time, state and possible actions as text. ``"rgb_array"``: the first figure of the problem, such
            as a Gantt chart, as an image. None, with a warning, without a mode.

        Raises
        ------
        DesimError
            Before the first episode.
        MissingDependency
            If matplotlib is not installed, which draws images.
        """
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a mode shows nothing; set render_mode in gymnasium.make(...)")
            return None
        if self.render_mode == "ansi":
            return self._text()
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        result = self._result
        if result is None:
            result = self.copy().simulation.finish(status="complete", agent=self._id)  # the copy ends, not the episode
        figures = kind_of(result).figures
        axes = figures[self.picture or next(iter(figures))].draw(result)
        figure: Any = (axes[0] if isinstance(axes, list) else axes).figure
        figure.set_size_inches(8.0, 4.5)
        figure.set_dpi(100)
        canvas: Any = FigureCanvasAgg(figure)
        canvas.draw()
        frame: NDArray[np.uint8] = np.array(canvas.buffer_rgba())[..., :3]
        return frame

    def _text(self) -> str:
        lines = [self._id, repr(self.observation)]
        if self._decision is None:
            lines.append("the episode is over")
        elif isinstance(self.action_space, gymnasium.spaces.Discrete):
            possible = np.flatnonzero(self.action_masks()).tolist()
            lines.append(f"{len(possible)} of {self.action_space.n} actions are possible: {short_repr(possible)}")
        return "\n".join(lines)

    def result(self) -> Result:
        """End the episode and return its records.

        Returns
        -------
        Result
            Tables and metrics of the episode so far; its status is ``interrupted`` if the episode was not over.
        """
        self._decision = None
        if self._result is None:  # records can be closed only once
            status = None if self._went_on_to_its_end else "interrupted"
            self._result = self.simulation.finish(status=status, agent="gymnasium")
        return self._result


def _is_closure(listener: Any) -> bool:
    """Return whether a listener refers to its owner in a way that cannot be copied."""
    while isinstance(listener, partial):
        listener = listener.func
    return isinstance(listener, FunctionType) and listener.__closure__ is not None


def _check_box(action: Any, box: gymnasium.spaces.Box) -> None:
    """Raise InvalidConfiguration unless an action has the shape of a Box and lies within its bounds."""
    try:
        given = np.asarray(action)
    except ValueError:  # nested lists of unequal lengths
        given = np.array(None)
    if given.shape != box.shape or given.dtype.kind not in "fiu":
        got = f"an array of shape {given.shape}" if given.dtype.kind in "fiu" else short_repr(action)
    elif ((given >= box.low) & (given <= box.high)).all():  # false for NaN
        return
    else:
        got = f"numbers from {given.min()} to {given.max()}"
    raise InvalidConfiguration(
        f"action: got {got}, expected an array of shape {box.shape} with numbers from {box.low.min():g} to "
        f"{box.high.max():g}; try action_space.sample(), or np.clip if numbers are too large"
    )


def _is_cut_short(simulation: Simulation) -> bool:
    """Return whether a run ended before its work was done: cut off, or without events (a finished problem stops)."""
    return simulation.truncated or simulation.env.peek() == math.inf


Part = TypeVar("Part")


class SampledEpisodes:
    """Episodes sampled uniformly from a list of problems.

    Parameters
    ----------
    problems : sequence of Problem
        At least one problem; no workload may be readable only once.

    Raises
    ------
    InvalidConfiguration
        If there are no problems, or a workload is an iterator.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        if not problems:
            raise InvalidConfiguration("problems: got none, expected at least one to sample episodes from")
        for problem in problems:
            problem.check_replayable()
        self.problems = problems

    def __call__(self, rng: np.random.Generator) -> Problem:
        """Return one of the problems at random."""
        return self.problems[int(rng.integers(len(self.problems)))]


def episodes_of(workload: Sequence[Problem] | Episodes) -> Episodes:
    """Return the function that creates the problems of episodes.

    Parameters
    ----------
    workload : sequence of Problem, or callable
        Problems to sample episodes from, or already a function that creates one from a random generator.

    Returns
    -------
    callable
        Called with a random generator.

    Raises
    ------
    InvalidConfiguration
        If the list is empty or a workload is an iterator, see :class:`SampledEpisodes`.
    """
    return workload if callable(workload) else SampledEpisodes(workload)


class FlattenArrays(gymnasium.ObservationWrapper[Arrays, Any, Arrays], gymnasium.utils.RecordConstructorArgs):
    """Environment wrapper that flattens each array of an observation to a vector.

    The networks of Stable-Baselines3 do this by themselves; its checker recommends it for all others.

    Parameters
    ----------
    env : gymnasium.Env
        Environment of :mod:`desim.envs`, wrapped or not.

    Raises
    ------
    InvalidConfiguration
        If its observations are not a dictionary of bounded arrays.
    """

    def __init__(self, env: gymnasium.Env[Arrays, Any]) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        gymnasium.ObservationWrapper.__init__(self, env)
        space: gymnasium.Space[Any] = env.observation_space
        if not isinstance(space, gymnasium.spaces.Dict):
            raise InvalidConfiguration(f"observation_space: got {space}, expected a Dict")
        vectors: dict[str, gymnasium.Space[Any]] = {}
        for name, box in space.spaces.items():
            if not isinstance(box, gymnasium.spaces.Box):
                raise InvalidConfiguration(f"observation_space[{name!r}]: got {box}, expected a Box")
            vectors[name] = gymnasium.spaces.Box(box.low.ravel(), box.high.ravel(), dtype=box.dtype.type)
        self.observation_space: gymnasium.Space[Any] = gymnasium.spaces.Dict(vectors)

    def observation(self, observation: Arrays) -> Arrays:
        """Return an observation with its arrays flattened.

        Parameters
        ----------
        observation : dict of str to numpy.ndarray
            Observation of the environment.

        Returns
        -------
        dict of str to numpy.ndarray
            The same numbers as vectors.
        """
        return {name: array.ravel() for name, array in observation.items()}

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are possible now, as a flat Boolean array."""
        base = self.env.unwrapped
        assert isinstance(base, SchedulingEnv)
        return base.action_masks()


LARGEST = 6.0
"""Upper bound of log-scaled numbers."""

_MOST = 1e9
"""Largest number that is not clipped: more than 30 years, in seconds."""


def log_scaled(values: ArrayLike) -> NDArray[np.float64]:
    """Return values on a logarithmic scale: log(1 + value) / 4.

    Parameters
    ----------
    values : array_like
        Times or amounts >= 0, which may be infinite.

    Returns
    -------
    numpy.ndarray
        Numbers between 0 and 5.2.
    """
    result: NDArray[np.float64] = np.log1p(np.minimum(values, _MOST))
    result *= 0.25
    return result


def bounded(shape: tuple[int, ...], lowest: float = 0.0, highest: float = LARGEST) -> gymnasium.spaces.Box:
    """Return the space of arrays of 32-bit floats between two bounds.

    Parameters
    ----------
    shape : tuple of int
        Shape of the arrays.
    lowest, highest : float
        Bounds of the values.

    Returns
    -------
    gymnasium.spaces.Box
        A new space.
    """
    return gymnasium.spaces.Box(lowest, highest, shape, np.float32)


class SlotReward:
    """Reward earned by the slots since the last decision, divided by a scale.

    Parameters
    ----------
    scale : float
        Value of slots that gives a reward of 1.

    Raises
    ------
    InvalidConfiguration
        If the scale is not > 0.
    """

    def __init__(self, scale: float) -> None:
        if not scale > 0:
            raise InvalidConfiguration(f"scale: got {scale!r}, expected a number > 0")
        self.scale = scale

    def reset(self, simulation: Simulation) -> None:
        """Prepare for a new episode."""
        self._earned = 0.0
        simulation.problem.on("slot", self._count)

    def on_decision(self, answer: Any) -> None:
        """Do nothing, since the problem reports its slots."""

    def _count(self, time: float, outcome: Any) -> None:
        self._earned += self.value(outcome)

    def value(self, outcome: Any) -> float:
        """Return the value of a slot before scaling; to be overridden.

        Parameters
        ----------
        outcome : SlotOutcome
            Outcome of the slot.
        """
        raise NotImplementedError

    def pop_reward(self) -> float:
        """Return the reward since the last call."""
        earned, self._earned = self._earned, 0.0
        return earned / self.scale
