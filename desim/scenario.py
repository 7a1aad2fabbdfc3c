"""Runs as plain values: what a problem's options make, who decides, and what is found out about a run.

A `ProblemSpec` makes an `ProblemInstance` of options: a workload, and the problem that it meets. A `Scenario` names
problem, agent and options. The command line, comparisons and reports are built on these.
"""

from __future__ import annotations

import ast
import hashlib
import math
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
from tyro.conf import UseAppendAction, arg

from desim import plugins
from desim.checks import did_you_mean
from desim.core import Agent, SimulationInterrupted, simulate
from desim.exceptions import InvalidConfiguration, StalledWarning
from desim.problem import Problem, ProblemDescriptor, Process, kind_of, kinds
from desim.processes import random_outages
from desim.result import Result
from desim.user_code import is_reference, load, load_problem_factory

__all__ = [
    "CheckedRun",
    "CustomOptions",
    "CustomProblem",
    "ProblemInstance",
    "ProblemSpec",
    "Scenario",
    "Seed",
    "SeededProblemSpec",
    "Steps",
    "Until",
    "failures",
    "generator",
    "measure",
    "metrics_of_run",
    "replay",
    "rereadable",
    "settings_of",
    "system_of",
    "validation_document",
    "workload_digest",
]

Seed = Annotated[int, arg(metavar="N")]
Until = Annotated[float | None, arg(metavar="T", help_behavior_hint="(default: the end of the workload)")]


@dataclass(frozen=True)
class Steps:
    """How far a run has come.

    Attributes
    ----------
    event : str
        Of the problem; each is a step.
    unit : str
        What a step is, in the plural.
    total : int or None
        How many there will be, if known.
    """

    event: str
    unit: str
    total: int | None = None


@dataclass(frozen=True)
class ProblemInstance:
    """What a seed stands for: a workload, and the system that it meets.

    Attributes
    ----------
    name : str
        What the workload is called, such as the name of a file.
    size : str
        How large it is, in words, such as "20 jobs on 10 executors".
    place : str
        What it meets, in words, such as "10 executors".
    options : object
        The options of the problem with what they have turned out to be, such as the cores that a file states.
    kind : ProblemDescriptor
        What is known of the problem.
    make : callable
        Returns the problem that an agent is asked in. The workload is the same for all agents.
    workload : iterable or None
        What a run is checked against; None if that can be read only once.
    is_drawn : bool
        Whether other seeds have other workloads.
    steps : Steps or None
        What the progress of a run is measured in.
    until : float
        When runs end, at the latest.
    facts : mapping
        Plain values for a JSON document.
    report : RepairReport or None
        What was repaired, if anything was read.
    is_streamed : bool
        Whether jobs come one by one, so that records should not stay in memory, either.
    decided : tuple of str
        Columns of the workload that depend on who decides, such as the submission times of jobs that come after others.
    """

    name: str
    size: str
    place: str
    options: Any
    kind: ProblemDescriptor
    make: Callable[[Agent], Problem]
    workload: Iterable[Any] | None = None
    is_drawn: bool = True
    steps: Steps | None = None
    until: float = math.inf
    facts: Mapping[str, Any] = field(default_factory=dict)
    report: plugins.RepairReport | None = None
    is_streamed: bool = False
    decided: tuple[str, ...] = ()


class ProblemSpec(Hashable, Protocol):
    """A problem with the options that make one."""

    @property
    def name(self) -> str:
        """What the command line calls it."""

    @property
    def description(self) -> str:
        """What it is, in a line."""

    @property
    def is_own(self) -> bool:
        """Whether only an instance can tell what kind of problem it is."""

    @property
    def default_agent(self) -> str | None:
        """Who decides unless somebody is named."""

    @property
    def options(self) -> type[Any]:
        """A frozen dataclass of plain values with the options of workload, system and metrics."""

    def instance(self, options: Any) -> ProblemInstance:
        """Return what is simulated; the same options make the same."""

    def seed_of(self, options: Any) -> int:
        """Return the seed of workload and simulation."""

    def with_seed(self, options: Any, seed: int) -> Any:
        """Return the same options with another seed."""

    def metric_options(self, options: Any) -> dict[str, Any]:
        """Return what the metrics cover, as arguments of :meth:`desim.Result.metrics`."""

    def identity(self, options: Any) -> dict[str, Any]:
        """Return what tells runs apart, as plain values: files by their content, nothing about metrics."""


class SeededProblemSpec:
    """What problems share whose options have a seed, and whose metrics have none."""

    is_own: ClassVar[bool] = False

    def seed_of(self, options: Any) -> int:
        """Return the seed of workload and simulation."""
        return int(options.seed)

    def with_seed(self, options: Any, seed: int) -> Any:
        """Return the same options with another seed."""
        return replace(options, seed=seed)

    def metric_options(self, options: Any) -> dict[str, Any]:
        """Return what the metrics cover: there is nothing to choose."""
        return {}


def generator(seed: int) -> np.random.Generator:
    """Return what a workload is drawn from.

    Parameters
    ----------
    seed : int
        As the option says.

    Returns
    -------
    Generator
        That of NumPy by default.

    Raises
    ------
    InvalidConfiguration
        If the seed is below 0.
    """
    if seed < 0:
        raise InvalidConfiguration(f"--seed is {seed}, want at least 0")
    return np.random.default_rng(seed)


def rereadable(workload: Iterable[Any] | None) -> Iterable[Any] | None:
    """Return a workload unless it can be read only once.

    Parameters
    ----------
    workload : iterable or None
        Jobs, or rows of arrivals.

    Returns
    -------
    iterable or None
        The same, or None for an iterator.
    """
    return None if isinstance(workload, Iterator) else workload


def failures(mean_time_to_failure: float | None, mean_time_to_repair: float | None, units: int = 1) -> list[Process]:
    """Return the processes that let cores or executors fail at random.

    Parameters
    ----------
    mean_time_to_failure, mean_time_to_repair : float or None
        In seconds; none fail without them.
    units : int
        How many fail together.

    Returns
    -------
    list of callable
        One, or none.

    Raises
    ------
    InvalidConfiguration
        If only one of the two times is given, or something is out of range.
    """
    if mean_time_to_failure is None and mean_time_to_repair is None:
        return []
    if mean_time_to_failure is None or mean_time_to_repair is None:
        raise InvalidConfiguration("outages need both --mean-time-to-failure and --mean-time-to-repair")
    return [random_outages(mean_time_to_failure, mean_time_to_repair, units_per_failure=units)]


def settings_of(texts: Iterable[str]) -> dict[str, Any]:
    """Return settings by name.

    Parameters
    ----------
    texts : iterable of str
        Such as ``"slack=4"``. The value is a number, a list, true, false or none as Python or JSON writes them;
        anything else is text.

    Returns
    -------
    dict
        In the order of the names.

    Raises
    ------
    InvalidConfiguration
        If one is not written so, or a name is given twice.

    Examples
    --------
    >>> settings_of(["slack=4", "cores=[1, 2]", "model=fast"])
    {'cores': [1, 2], 'model': 'fast', 'slack': 4}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, is_given, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not is_given or not name.isidentifier():
            raise InvalidConfiguration(f"--set {text}: want NAME=VALUE")
        if name in found:
            raise InvalidConfiguration(f"--set {text}: {name} is given twice")
        found[name] = _value(value.strip())
    return dict(sorted(found.items()))


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class CustomOptions:
    """What the function is called with."""

    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()
    """A keyword argument of the function; may be given several times."""
    seed: Seed = 0
    """Seed of the random generator that the function is given, and of the simulation."""
    until: Until = None
    """End the run at this time."""


@dataclass(frozen=True)
class CustomProblem(SeededProblemSpec):
    """A problem of your own: FUNCTION(rng, **settings) returns a desim.Problem.

    It is called with numpy.random.default_rng(seed) for each seed, and with the settings of --set, and must draw all
    that is random in the workload from that generator: so all agents meet the same. The problem may be one of desim's,
    with a workload of your own, or of a class of your own, whose attribute kind, a desim.ProblemDescriptor, says what
    its tables, metrics, rules and figures are.
    """

    name: str
    is_own: ClassVar[bool] = True
    default_agent: ClassVar[str | None] = None
    options: ClassVar[type[Any]] = CustomOptions

    @property
    def description(self) -> str:
        """What it is, in a line."""
        return f"What {self.name} makes."

    def settings(self, options: Any) -> dict[str, Any]:
        """Return what the function is called with, by name."""
        return settings_of(options.set)

    def made(self, rng: np.random.Generator, settings: Mapping[str, Any]) -> Any:
        """Return what the function returns."""
        return load_problem_factory(self.name, load(self.name), rng, **settings)()

    def instance(self, options: Any) -> ProblemInstance:
        """Return what is simulated."""
        settings = self.settings(options)
        problem = self.made(generator(options.seed), settings)
        if not isinstance(problem, Problem):
            raise InvalidConfiguration(f"{self.name} returns {problem!r}, want a desim.Problem")
        kind = problem.kind or kind_of(problem.name)
        if not kind.metrics.described:
            raise InvalidConfiguration(
                f"{self.name}: desim knows no metrics of problem {problem.name!r}: give {type(problem).__name__} an "
                "attribute kind = desim.ProblemDescriptor(...) that describes some"
            )
        workload = rereadable(getattr(problem, kind.workload, None)) if kind.workload else None
        problem.check_replayable()
        size = ", ".join(f"{name} = {value}" for name, value in settings.items())
        return ProblemInstance(
            name=self.name,
            size=size or f"a problem of the kind {problem.name}",
            place=self.name,
            options=options,
            kind=kind,
            make=lambda agent: problem,
            workload=workload,
            steps=Steps(*kind.progress) if kind.progress else None,
            until=math.inf if options.until is None else options.until,
            facts={"kind": problem.name, "settings": settings},
        )

    def identity(self, options: Any) -> dict[str, Any]:
        """Return what tells runs apart."""
        return {"set": self.settings(options), "seed": options.seed, "until": options.until}


def system_of(problem: str | ProblemSpec) -> ProblemSpec:
    """Return what is known of a problem.

    Parameters
    ----------
    problem : str or ProblemSpec
        A name, or ``module:name`` of a function that makes a problem; what is known of it already is returned as it is.

    Returns
    -------
    ProblemSpec
        Of desim's own problems and of those of users alike.

    Raises
    ------
    InvalidConfiguration
        If there is no such problem.
    """
    if not isinstance(problem, str):
        return problem
    known = kinds()
    if problem in known and (system := known[problem].system) is not None:
        return system
    if is_reference(problem):
        return CustomProblem(problem)
    names = [name for name, kind in known.items() if kind.system_from is not None]
    near, there = did_you_mean(problem, names), ", ".join(names)
    raise InvalidConfiguration(f"no problem {problem!r}{near}; there are {there}, and MODULE:FUNCTION of your own")


@dataclass(frozen=True)
class Scenario:
    """All that determines the records of a run, apart from the code, and what its metrics cover.

    Attributes
    ----------
    problem : str or ProblemSpec
        By name, as a rule.
    agent : str
        By name.
    options : object
        Those of the problem: workload, seed, system, metrics.
    """

    problem: str | ProblemSpec
    agent: str
    options: Any

    @property
    def seed(self) -> int:
        """Seed of the workload and of the simulation."""
        return system_of(self.problem).seed_of(self.options)

    @property
    def metric_options(self) -> dict[str, Any]:
        """What the metrics cover."""
        return system_of(self.problem).metric_options(self.options)


@dataclass(frozen=True)
class CheckedRun:
    """What was found out about a run.

    Attributes
    ----------
    metrics : dict of str to float
        By name.
    validation : dict
        Outcome of the independent check, see :func:`validation_document`.
    words : str
        The outcome of the check for people.
    """

    metrics: dict[str, float]
    validation: dict[str, Any]
    words: str


def replay(
    scenario: Scenario,
    instance: ProblemInstance,
    *,
    out: Path | None = None,
    listen: Callable[[int], None] | None = None,
    agent: Agent | None = None,
) -> Result:
    """Simulate to the end, or until Ctrl-C.

    Parameters
    ----------
    scenario : Scenario
        What to simulate.
    instance : ProblemInstance
        Its workload and system.
    out : Path, optional
        Directory to stream the records to.
    listen : callable, optional
        Called with the number of steps done, now and then.
    agent : Agent, optional
        The agent, if it has been made already.

    Returns
    -------
    Result
        Its status is ``"interrupted"`` after Ctrl-C.
    """
    if agent is None:
        agent = plugins.create_agent(instance.kind.name, scenario.agent)
    problem = instance.make(agent)
    if listen is not None and instance.steps is not None:
        problem.on(instance.steps.event, _counter(listen))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StalledWarning)  # the description of the run says it as well
            return simulate(problem, agent, seed=scenario.seed, until=instance.until, out=out)
    except SimulationInterrupted as interruption:
        return interruption.result


def _counter(listen: Callable[[int], None]) -> Callable[[float, Any], None]:
    done = 0

    def count(time: float, subject: Any) -> None:
        nonlocal done
        done += 1
        if done % 100 == 0:
            listen(done)

    return count


def measure(result: Result, scenario: Scenario, instance: ProblemInstance) -> CheckedRun:
    """Check a run against its workload and compute its metrics.

    Parameters
    ----------
    result : Result
        The run.
    scenario : Scenario
        What was simulated, and what the metrics cover.
    instance : ProblemInstance
        Its workload.

    Returns
    -------
    CheckedRun
        Metrics and outcome of the check.

    Raises
    ------
    InvalidConfiguration
        If the metrics are to cover nothing, or own metrics are no numbers.
    """
    from desim.validation import validate

    metrics = metrics_of_run(result, scenario)
    if not (instance.kind.rules or instance.kind.tables or instance.kind.system_from):
        words = f"not checked: there are no rules for problem {instance.kind.name!r}"
        return CheckedRun(metrics, {"valid": None, "checks": {}, "counts": {}, "violations": []}, words)
    report = validate(result, instance.workload)
    return CheckedRun(metrics, validation_document(report), str(report))


def metrics_of_run(result: Result, scenario: Scenario) -> dict[str, float]:
    """Return the metrics of a run, as plain numbers.

    Parameters
    ----------
    result : Result
        The run.
    scenario : Scenario
        What was simulated, and what the metrics cover.

    Returns
    -------
    dict of str to float
        By name.

    Raises
    ------
    InvalidConfiguration
        If the metrics are to cover nothing, or are no numbers.
    """
    metrics = {}
    for name, value in result.metrics(**scenario.metric_options).items():
        try:
            metrics[str(name)] = float(value)
        except (TypeError, ValueError):
            raise InvalidConfiguration(f"{scenario.problem}: metric {name!r} is {value!r}, want a number") from None
    return metrics


def workload_digest(result: Result, instance: ProblemInstance) -> str:
    """Return a digest of the parts of the records in which all agents have to agree.

    Parameters
    ----------
    result : Result
        The run.
    instance : ProblemInstance
        What was simulated.

    Returns
    -------
    str
        Hexadecimal; empty where nothing is known of the tables.
    """
    digest, tables = hashlib.sha256(), instance.kind.workload_tables(result)
    for name, table in tables.items():
        if instance.decided:
            table = table.drop(instance.decided, strict=False)  # noqa: PLW2901  # the order of rows depends on them, too
            table = table.sort(table.columns)  # noqa: PLW2901
        digest.update(f"{name}\n{table.write_csv()}".encode())
    return digest.hexdigest()[:16] if tables else ""


def validation_document(report: Any) -> dict[str, Any]:
    """Return a validation as plain values.

    Parameters
    ----------
    report : ValidationReport
        The outcome.

    Returns
    -------
    dict
        ``valid``, ``checks`` and ``counts`` by rule, and ``violations``.
    """
    return {
        "valid": report.ok,
        "checks": dict(report.checks),
        "counts": dict(report.counts),
        "violations": [{"rule": violation.rule, "message": violation.message} for violation in report.violations],
    }
