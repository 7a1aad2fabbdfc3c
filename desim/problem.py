"""Base class of problems, and the description of a kind of problem.

`Problem` is the base class of all systems. `ProblemDescriptor` describes a kind of problem in one place: its tables,
metrics, rules, figures, environment, command-line options, and the sources of its agents and workloads. Kinds are found
through the entry point group ``desim.problems``. A user's own problem names its kind in a class attribute and is
treated alike.
"""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import simpy

from desim.checks import items
from desim.core import Resumable, start_process
from desim.exceptions import DesimError, InvalidConfiguration, MissingDependency, missing
from desim.reprs import Summarized, arguments_of

if TYPE_CHECKING:
    from os import PathLike

    import polars as pl
    from matplotlib.axes import Axes

    from desim.core import Simulation
    from desim.plotting.views import View
    from desim.result import Result
    from desim.scenario import ProblemSpec
    from desim.tables import Column, Table
    from desim.validation import Rule

__all__ = [
    "Better",
    "Extension",
    "Figure",
    "Metric",
    "Metrics",
    "Problem",
    "ProblemDescriptor",
    "Process",
    "ReportText",
    "bounded",
    "kind_named",
    "kind_of",
    "kinds",
    "reference",
]

Process = Callable[[Any], Resumable | Generator[simpy.Event, Any, Any]]
"""Factory of a SimPy process: called with the bound problem, returns the generator to run."""

Better = Literal["lower", "higher"]
RESOURCE = "<resource>"
"""Placeholder for the name of a resource in the name of a metric."""
Loaded = TypeVar("Loaded")

GROUP = "desim.problems"


@dataclass(frozen=True)
class Metric:
    """Description of one metric.

    Attributes
    ----------
    name : str
        Name in tables and reports; with ``<resource>`` in it, it stands for one metric per resource.
    meaning : str
        Meaning in one phrase.
    unit : str
        Unit of the values; empty for plain numbers.
    better : {"lower", "higher"} or None
        Whether lower or higher values are better; None if neither is.
    only_with : str
        Entry of a run's description that a run must have for this metric to exist.
    measure : callable or None
        Function of the result that returns the value of a custom metric; None for one of the problem's. The tables of
        the result have the jobs of the warm-up and the cool-down, too; :attr:`desim.Result.measured_jobs` leaves
        them out.
    least, most : float
        Ends of the range of possible values, beyond which no interval is drawn; infinite if unknown.
    """

    name: str
    meaning: str = ""
    unit: str = ""
    better: Better | None = None
    only_with: str = ""
    measure: Callable[[Result], float] | None = None
    least: float = -math.inf
    most: float = math.inf

    def within(self, value: float) -> float:
        """Return a finite value, or the end of the range of possible values that it lies beyond."""
        return min(max(value, self.least), self.most) if math.isfinite(value) else value

    def fits(self, name: str) -> bool:
        """Return whether this description covers a metric of the given name."""
        prefix, is_pattern, suffix = self.name.partition(RESOURCE)
        return self.name == name or bool(is_pattern and name.startswith(prefix) and name.endswith(suffix))


def bounded(
    metrics: Iterable[Metric], *, signed: Collection[str] = (), shares: Collection[str] = ()
) -> tuple[Metric, ...]:
    """Return metrics with their ranges: from 0 to 1 for shares, and from 0 for all others that are not ``signed``."""
    return tuple(
        one if one.name in signed else replace(one, least=0.0, most=1.0 if one.name in shares else math.inf)
        for one in metrics
    )


@dataclass(frozen=True)
class Metrics:
    """Metrics of a problem.

    Attributes
    ----------
    described : tuple of Metric
        Descriptions, in the order in which the metrics are returned.
    measure : callable
        Called with a result, and options by keyword; returns metrics by name, NaN where a metric is undefined.
    headline : tuple of str
        Names of the few metrics shown on the terminal, the most important one first.
    main : tuple of str
        Names of the metrics that a report shows first.
    incidents : tuple of str
        Names of metrics that comparisons show as well where a value is not 0: of what happens only in some workloads.
    measured_jobs : callable or None
        Called like `measure`; returns the rows of the job table that the statistics of jobs cover. None for all rows.
    selects : bool
        Whether `measure` takes an option ``names`` and computes only those metrics; it skips unknown names.
    """

    described: tuple[Metric, ...]
    measure: Callable[..., dict[str, float]]
    headline: tuple[str, ...] = ()
    main: tuple[str, ...] = ()
    incidents: tuple[str, ...] = ()
    measured_jobs: Callable[..., pl.DataFrame] | None = None
    selects: bool = False

    def __iter__(self) -> Iterator[Metric]:
        """Yield the descriptions in order."""
        return iter(self.described)

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(metric.name for metric in self.described)

    def extended(self, by: Sequence[Metric]) -> Metrics:
        """Return these metrics with custom metrics, which every table shows, too.

        Parameters
        ----------
        by : sequence of Metric
            Metrics, each with a function ``measure``.

        Returns
        -------
        Metrics
            All metrics.

        Raises
        ------
        InvalidConfiguration
            If one is no metric with a function, or its name is taken.
        """
        if not by:
            return self
        for number, one in enumerate(by):
            if not isinstance(one, Metric) or not callable(one.measure):
                raise InvalidConfiguration(f"metrics: got {one!r}, expected Metric(name, measure=FUNCTION_OF_RESULT)")
            if any(other.fits(one.name) for other in (*self.described, *by[:number])):
                raise InvalidConfiguration(f"metric {one.name}: there is one of this name; choose another name")
        return replace(self.named(by), measure=partial(_measured, self.measure, tuple(by)))

    def named(self, by: Sequence[Metric]) -> Metrics:
        """Return these metrics with descriptions of custom metrics, of which only the values are known."""
        own = tuple(one.name for one in by)
        main = (*own, *(self.main or self.headline))  # first, as figures leave out what comes last
        return replace(self, described=(*self.described, *by), headline=(*self.headline, *own), main=main)

    def names_for(self, resources: Sequence[str]) -> list[str]:
        """Return the names of the metrics that every run has, in order, with one name per resource for placeholders."""
        return [
            metric.name.replace(RESOURCE, resource)
            for metric in self.described
            if not metric.only_with
            for resource in (resources if RESOURCE in metric.name else ("",))
        ]

    def __getitem__(self, name: str) -> Metric:
        """Return the description of a metric; for an unknown metric, a description that holds only its name."""
        fitting = [metric for metric in self.described if metric.fits(name)]
        fitting.sort(key=lambda metric: (metric.name == name, len(metric.name)))  # an exact name beats a placeholder
        return fitting[-1] if fitting else Metric(name, "")


def _measured(
    measure: Callable[..., dict[str, float]],
    own: Sequence[Metric],
    result: Result,
    *,
    names: Collection[str] = (),
    **options: Any,
) -> dict[str, float]:
    """Return metrics, or some if the function selects; an error in one of a user names it, the run and the line."""
    from desim.user_code import place_of

    theirs = [name for name in names if all(name != one.name for one in own)]
    found = {} if names and not theirs else measure(result, **options, **({"names": theirs} if theirs else {}))
    result = copy(result)
    result.metric_options = options
    for one in own:
        if names and one.name not in names:
            continue
        assert one.measure is not None
        try:
            value = one.measure(result)
        except Exception as error:
            told = f"{type(error).__name__}: {error}{place_of(error)}"
            raise DesimError(f"metric {one.name} of {result}: {told}") from error
        try:
            found[one.name] = float(value)
        except (TypeError, ValueError):
            raise InvalidConfiguration(f"metric {one.name} of {result}: got {value!r}, expected a number") from None
    return found


@dataclass(frozen=True)
class Figure:
    """Figure of one run or of several runs.

    Attributes
    ----------
    draw : callable
        Called with the results by name, and with ``window=(begin, end)`` if it accepts that and a part is
        requested.
    caption : str
        Caption of the figure.
    when : callable or None
        Returns whether a result contains the data for the figure. If some result does not, the figure is skipped
        unless it is requested by name.
    """

    draw: Callable[..., Axes | list[Axes]]
    caption: str
    when: Callable[[Result], bool] | None = None

    def suits(self, results: Iterable[Result]) -> bool:
        """Return whether all results contain the data for the figure."""
        return self.when is None or all(map(self.when, results))


@dataclass(frozen=True)
class ReportText:
    """Texts and numbers that reports show for the runs of a problem.

    Attributes
    ----------
    workload : callable or None
        Returns numbers about the workload of a result by heading. A number of seconds whose heading contains {} is
        shown in the unit that fits.
    realized : callable or None
        Returns numbers about what workload and system were in fact, such as the offered load, by heading; they stand at
        the head of a run, and in the table of workloads.
    size : callable or None
        Returns the unit of a cluster's size, such as cores, and the size.
    left_behind : mapping of str to str
        Statuses of jobs that metrics do not cover, each with the metric that counts these jobs.
    of_finished_jobs : tuple of str
        Prefixes of the names of metrics that omit those jobs or underestimate them.
    in_force : callable or None
        Returns sentences about the site policies that a run was configured with.
    all_finished, left_out, blind, below_workload : str
        Sentences: if all jobs finished; about what the metrics omit otherwise; names of the metrics that do not
        count unfinished jobs; a note below the workload table.
    """

    workload: Callable[[Result], dict[str, float]] | None = None
    realized: Callable[[Result], dict[str, float]] | None = None
    size: Callable[[Result], tuple[str, int]] | None = None
    in_force: Callable[[Result], list[str]] | None = None
    left_behind: Mapping[str, str] = field(default_factory=dict)
    of_finished_jobs: tuple[str, ...] = ()
    all_finished: str = ""
    left_out: str = ""
    blind: str = ""
    below_workload: str = ""


@dataclass(frozen=True)
class Extension:
    """Additions of a package to a kind of problem that another package describes.

    Attributes
    ----------
    agents, workloads : tuple of str
        Modules with the functions ``create(name)`` and ``descriptions()``, or with ``descriptions()`` and the other
        functions for workloads of the problem.
    episodes : str
        Function that creates the default workload of the environment, as ``module:name``.
    trainings : mapping of str to str
        Dataclass of training options for each thing that can be trained, as ``module:name``.
    """

    agents: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    episodes: str = ""
    trainings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProblemDescriptor(Extension):
    """Description of a kind of problem.

    Anything slow to import may be given as text, ``module:name``, and is imported on first use.

    Attributes
    ----------
    name : str
        Name that the problem class has.
    description : str
        Description in one line.
    time_unit : str
        Unit of the times in the tables: ``"s"`` or ``"slots"``.
    tables : tuple of Table
        Tables that a run records.
    info : tuple of Column
        Entries in the description of a run, besides those that every run has.
    former_info : mapping of str to str
        What entries of a description were called in runs that are stored, and what they are called now.
    info_faults : callable or None
        Returns further faults of a description whose entries have the right types.
    metrics_from : Metrics or str
        Metrics.
    rules_from : tuple of Rule or str
        Rules for the tables of a valid run, besides those that follow from the descriptions of the tables.
    figures_from : mapping of str to Figure, or str
        Figures by name.
    words_from : ReportText or str
        Texts of reports.
    view_from : callable or str
        Takes a :class:`desim.Result` and returns what an interactive page shows for it.
    environment, vector_environment : str
        Gymnasium environment, and one that steps many of its episodes together, if there is any.
    system_from : ProblemSpec or str
        How the command line creates a problem from options; without it, users provide a function that creates one.
    workload : str
        Attribute of a problem that holds the workload to validate a run against; empty if there is none.
    same_workload : mapping of str to tuple of str
        Tables and columns that are equal in all runs of the same workload, whatever the agent; a star stands for
        any ending of a name.
    progress : tuple of str
        Event that counts as a step of progress, and the name of a step in the plural.
    instances_from : str
        Small instances for the search for worst cases, see :class:`desim.sweep.adversary.AdversarialInstance`.
    """

    name: str = ""
    description: str = ""
    time_unit: str = "s"
    tables: tuple[Table, ...] = ()
    info: tuple[Column, ...] = ()
    former_info: Mapping[str, str] = field(default_factory=dict)
    info_faults: Callable[[Mapping[str, Any]], list[str]] | None = None
    metrics_from: Metrics | str = Metrics((), lambda result: {})
    rules_from: tuple[Rule, ...] | str = ()
    figures_from: Mapping[str, Figure] | str = field(default_factory=dict)
    words_from: ReportText | str = field(default_factory=ReportText)
    view_from: Callable[[Result], View] | str = "desim.plotting.views:plain_view"
    environment: str = ""
    vector_environment: str = ""
    system_from: ProblemSpec | str | None = None
    workload: str = ""
    same_workload: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    progress: tuple[str, str] | None = None
    instances_from: str = ""

    @property
    def metrics(self) -> Metrics:
        """Metrics of the problem."""
        return _loaded(self.metrics_from)

    def with_metrics(self, own: Sequence[Metric]) -> ProblemDescriptor:
        """Return this kind with metrics of a user's own, see :meth:`Metrics.extended`."""
        return replace(self, metrics_from=self.metrics.extended(own)) if own else self

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Rules of the problem."""
        return tuple(_loaded(self.rules_from))

    @property
    def figures(self) -> Mapping[str, Figure]:
        """Figures by name."""
        return _loaded(self.figures_from)

    @property
    def words(self) -> ReportText:
        """Texts of reports."""
        return _loaded(self.words_from)

    @property
    def view(self) -> Callable[[Result], View]:
        """Function that returns what an interactive page shows for a run."""
        return _loaded(self.view_from)

    @property
    def system(self) -> ProblemSpec | None:
        """How the command line creates a problem from options; None if it cannot."""
        return _loaded(self.system_from)

    @property
    def statuses(self) -> tuple[str, ...]:
        """Possible statuses of a job; empty if they are not recorded."""
        columns = [column for table in self.tables if table.name == "jobs" for column in table.columns]
        return next((column.values for column in columns if column.name == "status"), ())

    def tables_of(self, info: Mapping[str, Any]) -> list[Table]:
        """Return the tables of a run, bound to its description.

        Parameters
        ----------
        info : mapping
            Description of the run.

        Returns
        -------
        list of Table
            Tables, except those that require other entries in the description.
        """
        names = self.names_of_tables(info)
        return [table.bound(info) for table in self.tables if table.name in names]

    def names_of_tables(self, info: Mapping[str, Any]) -> list[str]:
        """Return the names of the tables of a run that :meth:`tables_of` returns."""
        return [table.name for table in self.tables if not table.only_with or table.only_with in info]

    def workload_tables(self, result: Result) -> dict[str, pl.DataFrame]:
        """Return the parts of the tables that are equal in all runs of the same workload, see ``same_workload``."""
        tables = {}
        for name, patterns in self.same_workload.items():
            table = result.scan(name)
            columns = table.collect_schema().names()
            chosen = [column for column in columns if any(fnmatchcase(column, pattern) for pattern in patterns)]
            tables[name] = table.select(chosen).collect()
        return tables

    def extended(self, by: Extension) -> ProblemDescriptor:
        """Return this kind with the additions of a package."""
        return replace(
            self,
            agents=self.agents + by.agents,
            workloads=self.workloads + by.workloads,
            episodes=self.episodes or by.episodes,
            trainings={**by.trainings, **self.trainings},
        )


class Problem(Summarized):
    """Base class of the systems that can be simulated.

    An instance is a configuration. Each :class:`Simulation` works on its own bound copy, which has the attributes
    ``simulation`` and ``env``, so one problem can be used in any number of simulations.

    A run continues until no event is left, or until `stop_if_done` finds that the system is empty and nothing more
    will arrive: no arrivals are left, and no foreground process is running.

    Parameters
    ----------
    processes : iterable of callables
        Additional SimPy processes: each is called with the bound problem and returns a generator. The
        run continues until they have ended, except for those whose callable has an attribute
        ``background = True``.

    Attributes
    ----------
    name : str
        Name of the kind of problem, used to find metrics, rules and figures.
    kind : ProblemDescriptor or None
        Description of a user's own kind of problem; kinds of installed packages are found by name.
    own_metrics : tuple of Metric
        Metrics that results have besides those of the kind.
    events : tuple of str
        Names of the events that listeners can subscribe to.
    sources : tuple of str
        Attributes that hold a workload, which may be iterators.
    constants : tuple of type
        Classes whose objects never change during a run, so forks share them.
    work_tables : tuple of str
        Tables that get a row whenever work is done.
    patience : int
        Number of events without a decision after which a run without ``until`` is checked; a tenth as many decisions
        count alike. If two checks in a row find a :meth:`standstill` and no work was done in between, the run ends
        with status ``"stalled"``.
    """

    name: ClassVar[str] = "problem"
    kind: ClassVar[ProblemDescriptor | None] = None
    own_metrics: tuple[Metric, ...] = ()
    events: ClassVar[tuple[str, ...]] = ()
    sources: ClassVar[tuple[str, ...]] = ()
    constants: tuple[type, ...] = ()
    work_tables: ClassVar[tuple[str, ...]] = ("jobs",)
    patience: int = 500_000
    simulation: Simulation
    env: simpy.Environment

    def __init__(self, *, processes: Iterable[Process] = ()) -> None:
        self.processes = tuple(items("processes", processes, "functions that make processes", "__call__"))
        self.listeners: dict[str, list[Callable[[float, Any], None]]] = {event: [] for event in self.events}
        self.listening = False
        self._iterators_read: set[str] = set()  # shared with all bound copies

    def summary(self) -> dict[str, Any]:
        """Return the most important arguments, for ``repr`` and notebooks."""
        return arguments_of(self, self.describe())

    def on(self, event: str, listener: Callable[[float, Any], None]) -> None:
        """Call ``listener(time, subject)`` whenever an event happens.

        Listeners only observe; to change what happens, add a process. Listeners of a configuration are
        called in all simulations created from it afterwards, listeners of a bound problem only in
        its own simulation. Forks have no listeners.

        Parameters
        ----------
        event : str
            Name of the event, one of the problem's ``events``.
        listener : callable
            Called with the time in seconds and the subject that the problem documents.

        Raises
        ------
        InvalidConfiguration
            If the problem has no such event.
        """
        if event not in self.listeners:
            raise InvalidConfiguration(f"{self.name} has no event {event!r}; expected one of {', '.join(self.events)}")
        self.listeners[event].append(listener)
        self.listening = True

    def bind(self, simulation: Simulation) -> None:
        """Set up the state and start the processes of one simulation; refuse an iterator that another one has read."""
        for name in self.sources:
            if isinstance(getattr(self, name), Iterator):
                if name in self._iterators_read:
                    raise InvalidConfiguration(
                        f"{name}: got an iterator that an earlier simulation has read; pass a list to simulate it again"
                    )
                self._iterators_read.add(name)
        self.simulation = simulation
        self.env = simulation.env
        self.listeners = {event: list(listeners) for event, listeners in self.listeners.items()}
        self.foreground: list[simpy.Process] = []
        self.begin()
        self.num_own = len(self.foreground)  # processes of the problem itself, such as arrivals
        for process in self.processes:
            if getattr(process, "background", False):
                start_process(self.env, process(self))
            else:
                self.keep_running(process(self))

    def keep_running(self, process: Resumable | Generator[simpy.Event, Any, Any]) -> None:
        """Start a process that keeps the run going until the process ends."""
        started = start_process(self.env, process)
        self.foreground.append(started)
        started.callbacks.append(self.foreground_ended)

    def emit(self, event: str, subject: Any) -> None:
        """Call the listeners of an event now."""
        for listener in self.listeners[event]:
            listener(self.env.now, subject)

    def foreground_ended(self, process: simpy.Event) -> None:
        """Check for the end of the run after a foreground process has ended."""
        self.stop_if_done()

    def stop_if_done(self) -> None:
        """End the run if the system is empty and nothing more will arrive, ignoring background processes."""
        if self.is_empty() and not any(process.is_alive for process in self.foreground):
            self.simulation.stop()

    def is_empty(self) -> bool:
        """Return whether the system holds nothing that the run has to wait for. Default: False."""
        return False

    def is_idle(self) -> bool:
        """Return whether nothing is running, even if jobs are queued. Default: False."""
        return False

    def standstill(self) -> str:
        """Return why no more work will be done unless the agent or a user's own process changes that.

        Called if no event is left in a run, or if a run has made no progress for long.

        Returns
        -------
        str
            Reason; empty if work is being done or may still arrive, if there is nothing to wait for, and for
            problems that do not define when they are idle.
        """
        if not self.is_idle() or any(process.is_alive for process in self.foreground[: self.num_own]):
            return ""
        names = [str(process.name) for process in self.foreground[self.num_own :] if process.is_alive]
        if not self.is_empty():
            agent = "work remains that the agent does not start, and no other event is pending"
            return f"{agent} but {_endless(names)}" if names else agent
        return f"all work is done, but {_endless(names)}; set background = True, or give until" if names else ""

    def progress(self) -> object:
        """Return something that changes whenever work is done."""
        tables = self.simulation.records.tables
        return [tables[name].extent for name in self.work_tables if name in tables], self.is_empty()

    def begin(self) -> None:
        """Set up fresh state and start the problem's own processes; called once by :meth:`bind`."""

    def close(self, time: float) -> None:
        """Record the jobs still in the system when the simulation ends at ``time``."""

    def tables(self) -> dict[str, Table]:
        """Return the tables that a run records, by name: those of the kind, bound to this configuration."""
        kind = self.kind or kind_named(self.name)
        return {} if kind is None else {table.name: table for table in kind.tables_of(self.describe())}

    def describe(self) -> dict[str, Any]:
        """Return the configuration as plain values, for an agent's ``reset`` and for the records."""
        return {"problem": self.name}

    def check_replayable(self) -> None:
        """Raise :class:`InvalidConfiguration` if a workload can be read only once."""
        for name in self.sources:
            if isinstance(getattr(self, name), Iterator):
                raise InvalidConfiguration(
                    f"{name}: got an iterator, which can be read only once; pass a list to be able to fork"
                )

    def user_objects(self) -> list[Any]:
        """Return objects in the state of a run that may be of a user's own classes; forks copy them by `deepcopy`."""
        return []

    def is_compiled(self, agent: Any, *, needed: bool) -> bool:
        """Return whether :meth:`simulate_compiled` is to simulate a run. Default: False.

        Parameters
        ----------
        agent : Agent
            Agent that decides.
        needed : bool
            Whether it must, even if it does not pay.
        """
        return needed

    def simulate_compiled(
        self, agent: Any, *, seed: int, until: float, out: str | PathLike[str] | None, needed: bool
    ) -> Result | None:
        """Simulate a run without SimPy, with the same records, where the problem has a compiled engine that can.

        Parameters
        ----------
        agent : Agent
            Agent that decides.
        seed : int
            Seed of the run.
        until : float
            End of the run, in seconds of simulated time.
        out : path or None
            Directory for the records.
        needed : bool
            Whether to raise an error if SimPy's kernel has to simulate the run; if not, also runs that pay too little.

        Returns
        -------
        Result or None
            Result; None for SimPy's kernel.
        """
        if needed:
            raise InvalidConfiguration(f"engine: got 'compiled', but problem {self.name} has none; try 'simpy'")
        return None

    def features(self) -> dict[str, str]:
        """Return the features that not every agent takes into account, by name, with what other agents do."""
        return {}

    def disregarded(self, agent: Any) -> str:
        """Return a sentence on features that an agent does not take into account; empty if there are none.

        Parameters
        ----------
        agent : Agent
            Agent, whose attribute ``considers``, a frozenset, has the names of features that it takes into account.
        """
        considered = declared(agent, "considers", frozenset())
        found = [f"{name} ({text})" for name, text in self.features().items() if name not in considered]
        name = getattr(agent, "name", type(agent).__name__)
        return f"{name} does not take into account: {', '.join(found)}" if found else ""

    def for_agent(self, agent: Any) -> Self:
        """Return the configuration for the run of an agent: by default this one.

        Parameters
        ----------
        agent : Agent
            Agent that will decide.
        """
        return self

    def hear(self, agent: Any) -> None:
        """Subscribe the methods of an agent that the problem calls as events happen; by default there are none.

        Parameters
        ----------
        agent : Agent
            Agent, before its first decision.
        """

    def drop_future(self) -> None:
        """Drop the future that an agent cannot know at the current decision, for forks without foresight.

        A problem that supports such forks calls `forget_sources`, lets running work take as long as agents expect,
        and cancels other scheduled events, see :func:`~desim.reschedule`.

        Raises
        ------
        InvalidConfiguration
            If this problem does not define what its agents know.
        """
        raise InvalidConfiguration(
            f"problem {self.name!r} does not support forks without foresight: it does not define what its agents know "
            "(Problem.drop_future)"
        )

    def forget_sources(self) -> None:
        """Drop the sources of jobs, outages and other processes, and all listeners."""
        for name in self.sources:
            setattr(self, name, ())
        self.processes = ()
        self.foreground = []
        self.listeners = {event: [] for event in self.events}
        self.listening = False


def declared(agent: Any, name: str, default: Any = None) -> Any:
    """Return what an agent declares of itself in an attribute.

    Parameters
    ----------
    agent : Agent
        Agent. One that wraps another holds it in an attribute ``agent`` or ``base``, which then counts.
    name : str
        Name of the attribute, such as ``"plans_ahead"``.
    default : object
        Value if neither has the attribute.
    """
    while agent is not None and not hasattr(agent, name):
        agent = getattr(agent, "agent", None) or getattr(agent, "base", None)
    return getattr(agent, name, default)


def _endless(names: Sequence[str]) -> str:
    one = len(names) == 1
    return f"the process{'' if one else 'es'} {', '.join(names)} {'runs' if one else 'run'} without end"


def reference(text: str) -> Any:
    """Return the object or module that ``module:name`` refers to.

    Parameters
    ----------
    text : str
        Reference from an entry of a `ProblemDescriptor`.

    Returns
    -------
    object
        The imported object.

    Raises
    ------
    MissingDependency
        If it cannot be imported.
    """
    try:
        return pkgutil.resolve_name(text)
    except ImportError as error:
        raise missing(text, error) from error
    except (AttributeError, ValueError) as error:
        raise MissingDependency(f"{text} cannot be imported: {error}") from error


def _loaded(part: Loaded | str) -> Loaded:
    if isinstance(part, str):
        found: Loaded = reference(part)
        return found
    return part


@cache
def kinds() -> dict[str, ProblemDescriptor]:
    """Return all kinds of problems that installed packages describe.

    Returns
    -------
    dict of str to ProblemDescriptor
        Kinds by name, sorted; the descriptions of several packages are merged.

    Raises
    ------
    MissingDependency
        If a package describes a kind that cannot be imported.
    """
    names = sorted({point.name for point in entry_points(group=GROUP)})
    return {name: kind for name in names if (kind := kind_named(name)) is not None}


@cache
def kind_named(name: str) -> ProblemDescriptor | None:
    """Return the kind of a problem; only the packages that describe this one are imported.

    Parameters
    ----------
    name : str
        Name of the problem, such as ``"batch"``.

    Returns
    -------
    ProblemDescriptor or None
        The kind; None if no installed package describes it.

    Raises
    ------
    MissingDependency
        If a package describes it that cannot be imported.
    """
    found: ProblemDescriptor | None = None
    extensions: list[Extension] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        if point.name != name:
            continue
        try:
            part = point.load()
        except (ImportError, AttributeError) as error:
            raise MissingDependency(f"entry point {point.value} of {GROUP}: {error}") from error
        if isinstance(part, ProblemDescriptor):
            found = found or part
        elif part not in extensions:
            extensions.append(part)
    for extension in extensions:
        found = (found or ProblemDescriptor(name=name)).extended(extension)
    return found


def kind_of(problem: str | Result) -> ProblemDescriptor:
    """Return the kind of a problem, or of the problem of a run.

    Parameters
    ----------
    problem : str or Result
        Name of a problem, or a run.

    Returns
    -------
    ProblemDescriptor
        Kind; for an unknown problem, one that holds only its name.

    Raises
    ------
    InvalidConfiguration
        If the run is of a user's own problem whose code cannot be found.
    """
    if isinstance(problem, str):
        return kind_named(problem) or ProblemDescriptor(name=problem)
    return _kind_of_run(problem).with_metrics(problem.own_metrics)


def _kind_of_run(result: Result) -> ProblemDescriptor:
    if result.kind is not None:
        return result.kind
    if "kind" in result.info:
        from desim.user_code import load, named_by

        with named_by("the description of the run"):
            own = load(str(result.info["kind"]))
        if not isinstance(own, ProblemDescriptor):
            raise InvalidConfiguration(f"{result.info['kind']}: got {own!r}, expected a desim.ProblemDescriptor")
        return own
    return kind_of(str(result.info.get("problem")))
