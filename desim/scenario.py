"""Runs described by plain values: problem with options, instance, and the measurements of a run.

A `ProblemSpec` creates an `ProblemInstance` from options: a workload, and the problem that runs it. The command line,
comparisons and reports are built on these.
"""

from __future__ import annotations

import ast
import hashlib
import math
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from tyro.conf import UseAppendAction, arg
from tyro.constructors import PrimitiveConstructorSpec

from desim import plugins
from desim.checks import check_float, check_int, did_you_mean, seconds_in
from desim.core import Agent, Engine, SimulationInterrupted, simulate
from desim.exceptions import DisregardedWarning, InvalidConfiguration, StalledWarning
from desim.problem import Problem, ProblemDescriptor, Process, kind_named, kind_of, kinds
from desim.processes import random_outages
from desim.result import Result
from desim.user_code import is_reference, load, load_problem_factory

__all__ = [
    "IN_SECONDS",
    "CustomOptions",
    "CustomProblem",
    "Duration",
    "MaybeDuration",
    "ProblemInstance",
    "ProblemSpec",
    "Seed",
    "SeededProblemSpec",
    "Steps",
    "Until",
    "checked",
    "cited",
    "failures",
    "generator",
    "identifying",
    "metrics_of",
    "replay",
    "rereadable",
    "settings_of",
    "system_of",
    "validation_document",
    "workload_digest",
]

#: Shortest mean time between failures or of repairs on the command line, in seconds: with less, failures alone keep a
#: run busy.
SHORTEST_MEAN = 0.001

Seed = Annotated[int, arg(metavar="N")]
IN_SECONDS = PrimitiveConstructorSpec(
    nargs=1,
    metavar="S|12h",
    instance_from_str=lambda words: seconds_in(words[0]),
    is_instance=lambda value: value is None or isinstance(value, float | int),
    str_from_instance=lambda value: ["None" if value is None else f"{value:g}"],
)
"""Mark of options in seconds, for which a text such as 12h may be given: on the command line, in files, in Python."""
Duration = Annotated[float, IN_SECONDS]
MaybeDuration = Annotated[float | None, IN_SECONDS]
Until = Annotated[float | None, arg(metavar="T", help_behavior_hint="(default: the end of the workload)")]


@dataclass(frozen=True)
class Steps:
    """Unit of progress of a run.

    Attributes
    ----------
    event : str
        Event of the problem that counts as one step.
    unit : str
        Name of a step, in the plural.
    total : int or None
        Total number of steps, if known.
    """

    event: str
    unit: str
    total: int | None = None


@dataclass(frozen=True)
class ProblemInstance:
    """Workload and system that a seed determines.

    Attributes
    ----------
    name : str
        Name of the workload, such as the name of a file.
    size : str
        Size in words, such as "20 jobs on 10 executors".
    place : str
        System in words, such as "10 executors".
    options : object
        Options of the problem with defaults filled in, such as the number of cores that a file states.
    kind : ProblemDescriptor
        Description of the kind of problem.
    make : callable
        Called with an agent, returns the problem to simulate. The workload is the same for all agents.
    workload : iterable or None
        Workload to validate a run against; None if it can be read only once.
    is_drawn : bool
        Whether other seeds give other workloads.
    steps : Steps or None
        Unit of progress of a run.
    until : float
        Latest end of a run.
    facts : mapping
        Plain values for a JSON document.
    report : RepairReport or None
        Repairs made while reading a file, if one was read.
    is_streamed : bool
        Whether jobs are read one by one, so that records should not be kept in memory, either.
    decided : tuple of str
        Columns of the workload that depend on the agent, such as submission times of jobs with dependencies.
    num_windows : int or None
        Number of windows into which the workload is cut: the pairs of a comparison. None: it is simulated as a whole.
    window_of : callable or None
        Called with the number of a window, returns its instance.
    window : int
        Number of the window that this instance is, 0 for a whole workload; it is added to the seed.
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
    num_windows: int | None = None
    window_of: Callable[[int], ProblemInstance] | None = None
    window: int = 0


class ProblemSpec(Hashable, Protocol):
    """A problem together with its options."""

    @property
    def name(self) -> str:
        """Name of the problem on the command line."""

    @property
    def description(self) -> str:
        """Description of the problem in one line."""

    @property
    def is_own(self) -> bool:
        """Whether the kind of problem is known only from an instance."""

    @property
    def default_agent(self) -> str | None:
        """Name of the default agent."""

    @property
    def options(self) -> type[Any]:
        """Frozen dataclass of plain values: the options of workload, system and metrics."""

    def instance(self, options: Any) -> ProblemInstance:
        """Return the instance for some options; equal options give equal instances."""

    def seed_of(self, options: Any) -> int:
        """Return the seed of workload and simulation."""

    def with_seed(self, options: Any, seed: int) -> Any:
        """Return the same options with another seed."""

    def metric_options(self, options: Any) -> dict[str, Any]:
        """Return the metric options as keyword arguments of :meth:`desim.Result.metrics`."""

    def identity(self, options: Any) -> dict[str, Any]:
        """Return plain values that identify a run: files by their content, without metric options."""


class SeededProblemSpec:
    """Base class for systems whose options have a seed and no metric options."""

    is_own: ClassVar[bool] = False

    def seed_of(self, options: Any) -> int:
        """Return the seed of workload and simulation."""
        return int(options.seed)

    def with_seed(self, options: Any, seed: int) -> Any:
        """Return the same options with another seed."""
        return replace(options, seed=seed)

    def metric_options(self, options: Any) -> dict[str, Any]:
        """Return the metric options: none."""
        return {}


def generator(seed: int) -> np.random.Generator:
    """Return the random generator for a workload.

    Parameters
    ----------
    seed : int
        Value of the option --seed.

    Returns
    -------
    Generator
        NumPy's default generator for this seed.

    Raises
    ------
    InvalidConfiguration
        If the seed is negative.
    """
    if seed < 0:
        raise InvalidConfiguration(f"--seed: got {seed}, expected an integer >= 0")
    return np.random.default_rng(seed)


def cited(source: str) -> dict[str, str]:
    """Return whom to acknowledge for a workload, as a fact of an instance.

    Parameters
    ----------
    source : str
        Value of the option --trace.

    Returns
    -------
    dict of str to str
        ``citation``, a sentence; nothing for a workload that is not in the catalogue.
    """
    sentence = plugins.catalogue().citation(source)
    return {"citation": sentence} if sentence else {}


def identifying(options: Any, later: Iterable[str] = ()) -> dict[str, Any]:
    """Return options as the plain values that identify a run.

    Parameters
    ----------
    options : dataclass instance
        Options, all with defaults.
    later : iterable of str
        Options that count only if they differ from their defaults, because they were added later: so runs that were
        stored before keep their identity.

    Returns
    -------
    dict
        Values by name.
    """
    defaults = asdict(type(options)())
    return {name: value for name, value in asdict(options).items() if name not in later or value != defaults[name]}


def rereadable(workload: Iterable[Any] | None) -> Iterable[Any] | None:
    """Return a workload if it can be read more than once, otherwise None.

    Parameters
    ----------
    workload : iterable or None
        Jobs, or rows of arrivals.

    Returns
    -------
    iterable or None
        The workload, or None for an iterator.
    """
    return None if isinstance(workload, Iterator) else workload


def failures(
    mean_time_to_failure: float | None,
    mean_time_to_repair: float | None,
    unit: Literal["core", "node", "executor"] | int = 1,
) -> list[Process]:
    """Return the processes that make cores or executors fail at random.

    Parameters
    ----------
    mean_time_to_failure, mean_time_to_repair : float or None
        Mean times in seconds; None means no failures.
    unit : {"core", "node", "executor"} or int
        What fails as a whole: a unit of that kind, or a block of that many units.

    Returns
    -------
    list of callable
        One process, or none.

    Raises
    ------
    InvalidConfiguration
        If only one of the two times is given, or a value is out of range.
    """
    if mean_time_to_failure is None and mean_time_to_repair is None:
        if unit != 1:
            raise InvalidConfiguration(f"--failure-unit: got {unit}, which has no effect without failures")
        return []
    if mean_time_to_failure is None or mean_time_to_repair is None:
        raise InvalidConfiguration("outages need both --mean-time-to-failure and --mean-time-to-repair")
    for name, mean in (("failure", mean_time_to_failure), ("repair", mean_time_to_repair)):
        check_float(f"--mean-time-to-{name}", mean, least=SHORTEST_MEAN)
    return [random_outages(mean_time_to_failure, mean_time_to_repair, unit=unit)]


def settings_of(texts: Iterable[str]) -> dict[str, Any]:
    """Return settings by name from texts of the form NAME=VALUE.

    Parameters
    ----------
    texts : iterable of str
        Texts such as ``"slack=4"``. The value is a number, a list, true, false or none in Python or JSON notation;
        anything else is a string.

    Returns
    -------
    dict
        Settings, sorted by name.

    Raises
    ------
    InvalidConfiguration
        If a text has another form, or a name is given twice.

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
            raise InvalidConfiguration(f"--set: got {text}, expected NAME=VALUE")
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
    """Arguments of the function that creates the problem."""

    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()
    """Keyword argument for the function; may be given several times."""
    seed: Seed = 0
    """Seed of the simulation and of the random generator that the function gets."""
    until: Until = None
    """End of the run, in the problem's unit of time."""
    windows: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: seeds are compared)")] = None
    """Number of windows to compare: the function is called with window=0 to N - 1."""


@dataclass(frozen=True)
class CustomProblem(SeededProblemSpec):
    """A custom problem: FUNCTION(rng, **settings) returns a desim.Problem.

    The function is called once per seed with numpy.random.default_rng(seed) and the settings of --set. It must take all
    random numbers of the workload from that generator, so that all agents get the same workload. With --windows, it is
    called once per window, with the argument window, the number of the window that it is to return. The problem may be
    one of desim's with your own workload, or an object of a custom class, whose attribute kind, a
    desim.ProblemDescriptor, describes its tables, metrics, rules and figures.
    """

    name: str
    is_own: ClassVar[bool] = True
    default_agent: ClassVar[str | None] = None
    options: ClassVar[type[Any]] = CustomOptions

    @property
    def description(self) -> str:
        """Description of the problem in one line."""
        return f"Problem created by {self.name}."

    def settings(self, options: Any) -> dict[str, Any]:
        """Return the keyword arguments of the function."""
        return settings_of(options.set)

    def made(self, rng: np.random.Generator, settings: Mapping[str, Any]) -> Any:
        """Call the function and return its result."""
        return load_problem_factory(self.name, load(self.name), rng, **settings)()

    def instance(self, options: Any) -> ProblemInstance:
        """Return the instance for some options."""
        if options.windows is None:
            return self._instance(options, self.settings(options), 0)
        check_int("windows", options.windows, least=1)

        def window_of(number: int) -> ProblemInstance:
            """Return the instance of a window."""
            return self._instance(options, self.settings(options) | {"window": number}, number)

        return replace(window_of(0), num_windows=options.windows, window_of=window_of)

    def _instance(self, options: Any, settings: dict[str, Any], window: int) -> ProblemInstance:
        problem = self.made(generator(options.seed + window), settings)
        if not isinstance(problem, Problem):
            raise InvalidConfiguration(f"{self.name}: got {problem!r} as its return value, expected a desim.Problem")
        kind = (problem.kind or kind_of(problem.name)).with_metrics(problem.own_metrics)
        if not kind.metrics.described:
            raise InvalidConfiguration(
                f"{self.name}: desim knows no metrics of problem {problem.name!r}; give {type(problem).__name__} an "
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
            window=window,
        )

    def identity(self, options: Any) -> dict[str, Any]:
        """Return plain values that identify a run."""
        return {"set": self.settings(options), "seed": options.seed, "until": options.until}


def system_of(problem: str | ProblemSpec) -> ProblemSpec:
    """Return the system of a problem.

    Parameters
    ----------
    problem : str or ProblemSpec
        Name of a problem, or ``module:name`` of a function that creates one; a system is returned unchanged.

    Returns
    -------
    ProblemSpec
        One of desim's own systems, or one of a user's own.

    Raises
    ------
    InvalidConfiguration
        If the problem is unknown.
    """
    if not isinstance(problem, str):
        return problem
    if (kind := kind_named(problem)) is not None and (system := kind.system) is not None:
        return system
    if is_reference(problem):
        return CustomProblem(problem)
    names = [name for name, kind in kinds().items() if kind.system_from is not None]
    if not names:
        raise InvalidConfiguration(
            f"unknown problem {problem!r}: no problem is installed, since desim is only on the path; "
            "try `pip install --no-deps -e .` in its clone"
        )
    near, there = did_you_mean(problem, names), ", ".join(names)
    raise InvalidConfiguration(f"unknown problem {problem!r}{near}; expected one of {there}, or MODULE:FUNCTION")


def replay(
    instance: ProblemInstance,
    agent: Agent,
    seed: int,
    *,
    out: Path | None = None,
    listen: Callable[[int], None] | None = None,
    engine: Engine = "auto",
) -> Result:
    """Simulate an instance to the end, or until Ctrl-C.

    Parameters
    ----------
    instance : ProblemInstance
        Workload and system.
    agent : Agent
        Agent that decides.
    seed : int
        Seed of the simulation; the number of the window is added to it.
    out : Path, optional
        Directory for the records as Parquet files.
    listen : callable, optional
        Called at intervals with the number of steps done.
    engine : {"auto", "simpy", "compiled"}
        What simulates the run, see :func:`desim.simulate`; nothing listens to a compiled run.

    Returns
    -------
    Result
        Result; its status is ``"interrupted"`` after Ctrl-C.
    """
    if instance.num_windows is not None:
        raise InvalidConfiguration(
            f"window: got none of the {instance.num_windows} windows of {instance.name}; give the number of the one to "
            "simulate, or compare agents over all of them (desim compare)"
        )
    problem = instance.make(agent).for_agent(agent)
    is_compiled = engine != "simpy" and problem.is_compiled(agent, needed=engine == "compiled")
    if listen is not None and instance.steps is not None and not is_compiled:
        problem.on(instance.steps.event, _counter(listen))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StalledWarning)  # the description of the run says so, too
            warnings.simplefilter("ignore", DisregardedWarning)  # the warning came before all runs
            return simulate(problem, agent, seed=seed + instance.window, until=instance.until, out=out, engine=engine)
    except SimulationInterrupted as interruption:
        return interruption.result


def _counter(listen: Callable[[int], None]) -> Callable[[float, Any], None]:
    steps = count(1)

    def note(time: float, subject: Any) -> None:
        if (done := next(steps)) % 100 == 0:
            listen(done)

    return note


def checked(result: Result, instance: ProblemInstance) -> tuple[dict[str, Any], str]:
    """Validate a run against its workload.

    Parameters
    ----------
    result : Result
        Result of the run.
    instance : ProblemInstance
        Simulated workload and system.

    Returns
    -------
    (dict, str)
        Outcome of the check, see :func:`validation_document`, and the same in words.
    """
    from desim.validation import validate

    if not (instance.kind.rules or instance.kind.tables or instance.kind.system_from):
        words = f"not checked: there are no rules for problem {instance.kind.name!r}"
        return {"valid": None, "checks": {}, "counts": {}, "violations": []}, words
    report = validate(result, instance.workload)
    return validation_document(report), str(report)


def metrics_of(result: Result, problem: str | ProblemSpec, options: Any) -> dict[str, float]:
    """Return the metrics of a run as plain numbers.

    Parameters
    ----------
    result : Result
        Result of the run.
    problem : str or ProblemSpec
        Problem, usually by name.
    options : object
        Options of the problem, with those of the metrics.

    Returns
    -------
    dict of str to float
        Metrics by name.

    Raises
    ------
    InvalidConfiguration
        If the metrics would cover no job, or are not numbers.
    """
    metrics = {}
    for name, value in result.metrics(**system_of(problem).metric_options(options)).items():
        try:
            metrics[str(name)] = float(value)
        except (TypeError, ValueError):
            raise InvalidConfiguration(f"{problem}: {name}: got {value!r}, expected a number") from None
    return metrics


def workload_digest(result: Result, instance: ProblemInstance) -> str:
    """Return a digest of the parts of the records that are equal for all agents.

    Parameters
    ----------
    result : Result
        Result of the run.
    instance : ProblemInstance
        Simulated workload and system.

    Returns
    -------
    str
        Digest in hexadecimal; empty if the tables are not described.
    """
    digest, tables = hashlib.sha256(), instance.kind.workload_tables(result)
    for name, table in tables.items():
        if instance.decided:
            table = table.drop(instance.decided, strict=False)  # noqa: PLW2901  # row order depends on them, too
            table = table.sort(table.columns)  # noqa: PLW2901
        digest.update(f"{name}\n{table.write_csv()}".encode())
    return digest.hexdigest()[:16] if tables else ""


def validation_document(report: Any) -> dict[str, Any]:
    """Return the outcome of a validation as plain values.

    Parameters
    ----------
    report : ValidationReport
        Outcome of the validation.

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
