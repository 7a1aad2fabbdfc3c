"""Runs of a comparison: a problem with its options, an agent, and a seed; given by name or as Python objects."""

from __future__ import annotations

import copy
import json
import pickle
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from desim import plugins, user_code
from desim.core import Agent, Engine
from desim.exceptions import DesimError, InvalidConfiguration, RecordError
from desim.files import StorageError
from desim.notes import plain
from desim.problem import Metric, Problem, kind_named
from desim.result import Result
from desim.scenario import CustomProblem, ProblemInstance, checked, metrics_of, replay, system_of, workload_digest
from desim.sweep.digest import file_digest
from desim.sweep.identity import Identity, identity_of
from desim.sweep.recording import Recording, include, recording
from desim.sweep.runner import Run

__all__ = [
    "AgentByName",
    "AgentByObject",
    "ObjectOptions",
    "ProblemByObject",
    "ProblemSetting",
    "new_mark",
    "shared_instance",
    "simulate_run",
]


@dataclass(frozen=True, eq=False)
class ObjectOptions:
    """Arguments of a function that creates problems.

    Attributes
    ----------
    settings : mapping
        Keyword arguments.
    seed : int
        Seed of the simulation and of the random generator that the function gets.
    until : float or None
        Latest end of a run.
    windows : int or None
        Number of windows to compare: the function gets the number of each as ``window``.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    until: float | None = None
    windows: int | None = None


@dataclass(frozen=True, eq=False)
class ProblemByObject(CustomProblem):
    """Problem given as a Python object, or as a function that creates one, FUNCTION(rng, **settings).

    Attributes
    ----------
    source : Problem or callable
        The problem or the function; a problem is the same for all seeds.
    """

    source: Problem | Callable[..., Any]
    options: ClassVar[type[Any]] = ObjectOptions

    def __str__(self) -> str:
        """Return a name for messages."""
        return self.name

    def settings(self, options: ObjectOptions) -> dict[str, Any]:
        """Return the keyword arguments of the function."""
        return dict(options.settings)

    def made(self, rng: np.random.Generator, settings: Mapping[str, Any]) -> Any:
        """Return the problem."""
        if isinstance(self.source, Problem):
            if settings:
                raise InvalidConfiguration(f"{', '.join(settings)}: a given problem takes no options")
            return self.source
        return user_code.load_problem_factory(self.name, self.source, rng, **settings)()

    def identity(self, options: ObjectOptions) -> dict[str, Any]:
        """Return the plain values that identify a run, besides the problem."""
        digest = identity_of(options.settings).digest
        return {"settings": digest, "seed": options.seed, "until": options.until}


def new_mark() -> str:
    """Return a unique mark of a comparison, whose runs share what is read for them."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class ProblemSetting:
    """Problem with its options: the setting of a run.

    Attributes
    ----------
    problem : str or ProblemByObject
        Name of the problem, or the problem itself.
    kind : str
        Name of the problem whose agents are used.
    options : object
        Options of the problem: workload, seed, system, metrics.
    mark : str
        Mark shared by all runs of a comparison, see :func:`new_mark`.
    source : Identity or None
        Identity of a user's own problem, taken before its runs.
    metrics : tuple of Metric
        Metrics of a user's own.
    measured : str
        Identity of these metrics.
    window : int or None
        Number of the window to simulate, of a workload that is cut into windows.
    engine : {"auto", "simpy", "compiled"}
        What simulates the runs; not part of their identity, because their records do not depend on it.
    elsewhere : tuple of Identity or None
        Identities in a worker of the problem and the metrics of a user's own; empty in the process of the comparison.
    """

    problem: str | ProblemByObject
    kind: str
    options: Any
    mark: str = field(default_factory=new_mark, compare=False, repr=False)
    source: Identity | None = field(default=None, compare=False, repr=False)
    metrics: tuple[Metric, ...] = field(default=(), compare=False, repr=False)
    measured: str = field(default="", compare=False, repr=False)
    window: int | None = None
    engine: Engine = field(default="auto", compare=False, repr=False)
    elsewhere: tuple[Identity | None, ...] = field(default=(), compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, for a worker, with the identities that a user's own code must have there."""
        return vars(self) | {"elsewhere": self.elsewhere or _own_elsewhere(self.mark, self.source, *self._own)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take the attributes."""
        vars(self).update(state)

    @property
    def _own(self) -> tuple[Any, ...]:
        given = [self.problem.source] if isinstance(self.problem, ProblemByObject) else []
        return (*given, *[self.metrics] * bool(self.metrics))

    def check_own(self) -> None:
        """Raise InvalidConfiguration if a worker has other code of a user's own, or other values in its modules."""
        for value, source in zip(self._own, self.elsewhere, strict=bool(self.elsewhere)):
            name = ", ".join(each.name for each in value) if isinstance(value, tuple) else str(self.problem)
            _check_unchanged(name, value, source)

    def identity(self) -> dict[str, Any]:
        """Return what identifies a run: the problem, and its options with files by their content."""
        found = {"problem": str(self.problem), "options": plain(_by_content(self._options()))}
        found |= {} if self.window is None else {"window": self.window}
        return found if self.source is None else found | {"source": self.source.digest}

    @property
    def pair(self) -> str:
        """What the number of a run counts: ``"seed"`` or ``"window"``."""
        return "seed" if self.window is None else "window"

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules of the problem, besides those of its agents."""
        kind = kind_named(self.kind)
        named = () if kind is None else (*plugins.modules(self.kind), kind.metrics_from, kind.rules_from)
        found = {part.partition(":")[0] for part in named if isinstance(part, str)} - set(kind.agents if kind else ())
        own = () if self.source is None else self.source.modules
        return "desim.core", type(system_of(self.problem)).__module__, *sorted(found), *own

    @property
    def metric_options(self) -> dict[str, Any]:
        """Everything besides its records that determines the metrics of a run."""
        found = system_of(self.problem).metric_options(self.options)
        return found | {"own": self.measured} if self.metrics else found

    def metrics_of(self, result: Result) -> dict[str, float]:
        """Return the metrics of a run."""
        return metrics_of(result, self.problem, self.options)

    @property
    def files(self) -> list[Path]:
        """Files that the options name."""
        return list(_paths(self._options()))

    def _options(self) -> dict[str, Any]:
        return system_of(self.problem).identity(self.options)


#: Number of values that a message names.
NAMED = 3


def _check_unchanged(name: str, found: Any, source: Identity | None) -> None:
    """Raise InvalidConfiguration if an object is another one than when the comparison began.

    A worker imports modules anew: values that were set in another process are not in them.
    """
    now = identity_of(found)
    if source not in (None, now) and now == identity_of(found):  # one that cannot be described is new each time
        named = "" if source is None else ", ".join(source.differing(now)[:NAMED])
        raise InvalidConfiguration(
            f"{name}: its {named or 'state, code, weights or model card'} is not that with which the comparison began; "
            "start again in a new process, or use workers=1 if a value was set by hand or by an earlier run"
        )


def _identity_elsewhere(value: Any, source: Identity | None = None) -> Identity | None:
    """Return the identity that an object has in a worker whose modules hold the same values; None if it varies.

    Pickling rarely changes the identity that the object has here, if known; then it need not be computed twice.
    """
    from joblib.externals.loky.backend.reduction import dumps

    sent = pickle.loads(dumps(value))
    found = identity_of(sent)
    return found if found == source or found == identity_of(sent) else None


@lru_cache(maxsize=8)
def _own_elsewhere(mark: str, source: Identity | None, *own: Any) -> tuple[Identity | None, ...]:
    """Return the identities in a worker of what belongs to a comparison."""
    return tuple(_identity_elsewhere(value, source) for value in own)


_checked: set[tuple[str, str]] = set()
"""Comparisons, and agents in them, that this process has checked: later, runs may have changed values in modules."""


@dataclass(frozen=True)
class AgentByName:
    """Agent given by name.

    Attributes
    ----------
    policy : str
        Name in tables.
    name : str
        Name that creates it, as in ``desim list``.
    kind : str
        Problem that the agent belongs to.
    source : Identity
        Identity of the agent that the name creates.
    """

    policy: str
    name: str
    kind: str
    source: Identity = field(compare=False, repr=False)

    @classmethod
    def of(cls, kind: str, name: str, policy: str = "") -> AgentByName:
        """Return what a name creates, under its full name or under a given one."""
        full, made = plugins.named_agent(kind, name)
        if not policy and full != name:
            name, made = full, plugins.create_agent(kind, full)
        return cls(policy or full, name, kind, identity_of(made))

    def made(self, kind: str) -> Agent:
        """Return a new agent."""
        return plugins.create_agent(kind, self.name)

    def check(self, kind: str) -> None:
        """Raise InvalidConfiguration if the name gives another agent by now."""
        _check_unchanged(self.policy, self.made(kind), self.source)

    def identity(self) -> dict[str, Any]:
        """Return what identifies the agent: its name, and what its loader has made of it."""
        return {"policy": self.policy, "name": self.name, "source": self.source.digest}

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules of the agent."""
        return self.source.modules


@dataclass(frozen=True, eq=False)
class AgentByObject:
    """Agent given as a Python object.

    Attributes
    ----------
    policy : str
        Name in tables.
    agent : Agent
        The agent; each run uses a copy.
    source : Identity
        Identity of the agent, taken before its runs.
    elsewhere : Identity or None
        Identity in a worker; None in the process of the comparison, or if it varies.
    """

    policy: str
    agent: Agent
    source: Identity = field(init=False, repr=False)
    elsewhere: Identity | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        """Find out what the agent is."""
        object.__setattr__(self, "source", identity_of(self.agent))

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, for a worker, with the identity that the agent must have there."""
        return vars(self) | {"elsewhere": self.elsewhere or self._identity_elsewhere}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take the attributes."""
        vars(self).update(state)

    @cached_property
    def _identity_elsewhere(self) -> Identity | None:
        return _identity_elsewhere(self.agent, self.source)

    def made(self, kind: str) -> Agent:
        """Return a copy, so that state of one run does not reach the next."""
        return copy.deepcopy(self.agent)

    def check(self, kind: str) -> None:
        """Raise InvalidConfiguration if a worker has another agent."""
        _check_unchanged(self.policy, self.agent, self.elsewhere)

    def identity(self) -> dict[str, Any]:
        """Return what identifies the agent."""
        return {"policy": self.policy, "source": self.source.digest}

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules of the agent."""
        return self.source.modules


def shared_instance(setting: ProblemSetting) -> ProblemInstance:
    """Return the instance that several runs of a comparison simulate.

    Parameters
    ----------
    setting : ProblemSetting
        Problem with its options.

    Returns
    -------
    ProblemInstance
        The instance of the previous call, if that was for the same comparison, with equal options and unchanged
        content of the files that they name.
    """
    try:
        content = json.dumps(replace(setting, window=None).identity(), sort_keys=True)
    except RecordError:
        content = ""  # reading the file later gives a proper error
    instance, read = _instance(setting.problem, setting.options, setting.mark, content, setting.window)
    include(read)
    return instance


@lru_cache(maxsize=2)  # a whole workload, and one of its windows
def _instance(
    problem: str | ProblemByObject, options: Any, mark: str, content: str, window: int | None
) -> tuple[ProblemInstance, Recording]:
    with recording() as read:
        if window is None:
            return system_of(problem).instance(options), read
        whole, earlier = _instance(problem, options, mark, content, None)
        include(earlier)
        assert whole.window_of is not None, "only a workload that is cut into windows has any"
        return whole.window_of(window), read


def simulate_run(run: Run, out: Path | None) -> dict[str, Any]:
    """Simulate, validate and measure a run.

    Parameters
    ----------
    run : Run
        Run of a :class:`ProblemSetting` and an agent, which is :class:`AgentByName` or :class:`AgentByObject`.
    out : Path or None
        Directory for the records.

    Returns
    -------
    dict
        ``metrics``, with their ``metric_options``; ``validation``; ``workload``, a digest of the data that do not
        depend on the agent; ``stalled``, the reason why the run stalled, or an empty string; ``window``, the window of
        a log, if the run is of one.
    """
    setting = run.setting
    try:
        if (setting.mark, "") not in _checked:
            setting.check_own()
            _checked.add((setting.mark, ""))
        instance = shared_instance(setting)
        if (setting.mark, run.policy) not in _checked:
            run.agent.check(instance.kind.name)
            _checked.add((setting.mark, run.policy))
        agent, seed = run.agent.made(instance.kind.name), system_of(setting.problem).seed_of(setting.options)
        result = replay(instance, agent, seed, out=out, engine=setting.engine)
        result.own_metrics += setting.metrics
        if result.info["status"] == "interrupted":
            raise KeyboardInterrupt
        return {
            "metrics": setting.metrics_of(result),
            "metric_options": setting.metric_options,
            "validation": checked(result, instance)[0],
            "workload": workload_digest(result, instance),
            "stalled": result.info.get("stalled", ""),
            "window": result.info.get("window", () if setting.window is None else [setting.window]),
        }
    except StorageError:  # of the sweep, not of the run
        raise
    except DesimError as error:
        kind = DesimError if isinstance(error, RecordError) else type(error)  # a storage error is no invalid argument
        raise kind(f"{run.policy}, {setting.pair} {run.seed}: {error}") from error


def _paths(value: Any) -> Iterator[Path]:
    """Yield the paths in nested values."""
    if isinstance(value, Path):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _paths(part)


def _by_content(value: Any) -> Any:
    """Return a value with the paths of files replaced by digests of their content."""
    if isinstance(value, Path):
        return file_digest(value)
    if isinstance(value, dict):
        return {name: _by_content(part) for name, part in value.items()}
    return [_by_content(part) for part in value] if isinstance(value, list) else value
