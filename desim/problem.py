"""What a system must offer to be simulated, and what desim has to know of it.

`Problem` is the base class of all systems. `ProblemDescriptor` is the one descriptor of a kind of problem: its tables,
metrics, rules, figures, environment, the options of the command line, and where its agents and workloads come from.
Kinds are found by
the entry point group ``desim.problems``; a problem of a user's own names its kind as a class attribute and has the same
rights.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import simpy

from desim.checks import items
from desim.core import Resumable, start_process
from desim.exceptions import InvalidConfiguration, MissingDependency, missing
from desim.reprs import Summarized, arguments_of

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

    from desim.core import Simulation
    from desim.plotting.runs import Run
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
    "kind_of",
    "kinds",
    "reference",
]

Process = Callable[[Any], Resumable | Generator[simpy.Event, Any, Any]]
"""Makes a SimPy process: called with the bound problem, returns the generator to be run."""

Better = Literal["lower", "higher"]
RESOURCE = "<resource>"
"""Stands for the name of a resource in the name of a metric."""
Loaded = TypeVar("Loaded")

GROUP = "desim.problems"


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes
    ----------
    name : str
        As tables and reports call it; with ``<resource>`` in it, it stands for one metric a resource.
    meaning : str
        A phrase.
    unit : str
        Of its values; empty for plain numbers.
    better : {"lower", "higher"} or None
        Which values are better; None if that cannot be said.
    only_with : str
        The entry of a run's description without which the run has no such metric.
    """

    name: str
    meaning: str
    unit: str = ""
    better: Better | None = None
    only_with: str = ""

    def fits(self, name: str) -> bool:
        """Tell whether this describes the metric of a name."""
        prefix, is_pattern, suffix = self.name.partition(RESOURCE)
        return self.name == name or bool(is_pattern and name.startswith(prefix) and name.endswith(suffix))


@dataclass(frozen=True)
class Metrics:
    """The metrics of a problem.

    Attributes
    ----------
    described : tuple of Metric
        In the order in which they are returned.
    measure : callable
        Called with a result and options by keyword; returns the metrics by name, NaN where nothing can be said.
    headline : tuple of str
        The few metrics of the tables on a terminal, the most important one first.
    main : tuple of str
        The metrics that a report shows first.
    """

    described: tuple[Metric, ...]
    measure: Callable[..., dict[str, float]]
    headline: tuple[str, ...] = ()
    main: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Metric]:
        """Return the metrics in order."""
        return iter(self.described)

    @property
    def names(self) -> tuple[str, ...]:
        """The names in order."""
        return tuple(metric.name for metric in self.described)

    def names_for(self, resources: Sequence[str]) -> list[str]:
        """Return the names of what all runs have, in order, one for each resource for those that stand for all."""
        return [
            metric.name.replace(RESOURCE, resource)
            for metric in self.described
            if not metric.only_with
            for resource in (resources if RESOURCE in metric.name else ("",))
        ]

    def __getitem__(self, name: str) -> Metric:
        """Return what is known of a metric; of one that is unknown, its name."""
        fitting = [metric for metric in self.described if metric.fits(name)]
        fitting.sort(key=lambda metric: (metric.name == name, len(metric.name)))  # its own name says more than a sign
        return fitting[-1] if fitting else Metric(name, "")


@dataclass(frozen=True)
class Figure:
    """A figure of one run or of several.

    Attributes
    ----------
    draw : callable
        Called with the results by name, and with ``window=(begin, end)`` if it takes that and a part is asked
        for.
    caption : str
        What it shows.
    when : callable or None
        Tells of a result whether it has what is drawn; where one has not, the figure is passed over unless it is asked
        for.
    """

    draw: Callable[..., Axes | list[Axes]]
    caption: str
    when: Callable[[Result], bool] | None = None

    def suits(self, results: Iterable[Result]) -> bool:
        """Tell whether all results have what is drawn."""
        return self.when is None or all(map(self.when, results))


@dataclass(frozen=True)
class ReportText:
    """What a report says of the runs of a problem.

    Attributes
    ----------
    workload : callable or None
        Returns numbers about the workload of a result, by their headings; a number of seconds whose heading holds {} is
        shown in the unit that fits.
    size : callable or None
        Returns what the cluster of a result is measured in, such as cores, and how many there are.
    left_behind : mapping of str to str
        The statuses of jobs that metrics do not cover, with the metric that counts them.
    of_finished_jobs : tuple of str
        Beginnings of the names of metrics that miss those jobs, or count them too low.
    in_force : callable or None
        Returns what a site had told the cluster of a result to do, in sentences.
    all_finished, left_out, blind, below_workload : str
        Sentences: if there are no such jobs; what the metrics miss otherwise; the metrics that tell nothing of such
        jobs; what stands below the table of the workload.
    """

    workload: Callable[[Result], dict[str, float]] | None = None
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
    """What a package adds to a kind of problem that another has described.

    Attributes
    ----------
    agents, workloads : tuple of str
        Modules with the functions ``create(name)`` and ``descriptions()``, or with ``descriptions()`` and what else
        workloads of the problem have.
    episodes : str
        A function that makes the default workload of the environment, as ``module:name``.
    trainings : mapping of str to str
        What can be trained, and the dataclass of its options, as ``module:name``.
    """

    agents: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    episodes: str = ""
    trainings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProblemDescriptor(Extension):
    """What desim knows of a kind of problem.

    Whatever takes long to import may be given as text, ``module:name``, and is then imported when it is asked for.

    Attributes
    ----------
    name : str
        As the problem calls itself.
    description : str
        What it is, in a line.
    time_unit : str
        Of the times in the tables: ``"s"`` or ``"slots"``.
    tables : tuple of Table
        What a run records.
    info : tuple of Column
        The entries of the description of a run, beyond those of every run.
    former_info : mapping of str to str
        What entries of a description were called in runs that are stored, and what they are called now.
    info_faults : callable or None
        Says what else is wrong with a description whose entries are of the right types.
    metrics_from : Metrics or str
        Its metrics.
    rules_from : tuple of Rule or str
        What holds of the tables of a valid run, beyond what their description says.
    figures_from : mapping of str to Figure, or str
        Figures by name.
    words_from : ReportText or str
        What reports say.
    view_from : callable or str
        Takes a :class:`desim.plotting.runs.Run` and returns what an interactive page shows of it.
    environment : str
        The Gymnasium environment.
    system_from : ProblemSpec or str
        How the command line makes one of options; problems without one are made by functions of users.
    workload : str
        The attribute of a problem that a run is checked against; empty if there is none.
    same_workload : mapping of str to tuple of str
        Tables, and the columns in which runs of the same workload are equal, whatever the agent did; a star stands for
        any end of a name.
    progress : tuple of str
        The event by which the progress of a run is counted, and what is counted, in the plural.
    instances_from : str
        Small instances that a search for bad cases changes, see :class:`desim.sweep.adversary.AdversarialInstance`.
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
    view_from: Callable[[Run], View] | str = "desim.plotting.views:plain_view"
    environment: str = ""
    system_from: ProblemSpec | str | None = None
    workload: str = ""
    same_workload: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    progress: tuple[str, str] | None = None
    instances_from: str = ""

    @property
    def metrics(self) -> Metrics:
        """Its metrics."""
        return _loaded(self.metrics_from)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its own rules."""
        return _loaded(self.rules_from)

    @property
    def figures(self) -> Mapping[str, Figure]:
        """Its figures by name."""
        return _loaded(self.figures_from)

    @property
    def words(self) -> ReportText:
        """What reports say of its runs."""
        return _loaded(self.words_from)

    @property
    def view(self) -> Callable[[Run], View]:
        """What an interactive page shows of a run."""
        return _loaded(self.view_from)

    @property
    def system(self) -> ProblemSpec | None:
        """How the command line makes one of options."""
        return _loaded(self.system_from)

    @property
    def statuses(self) -> tuple[str, ...]:
        """What can have become of a job; empty if that is not recorded."""
        columns = [column for table in self.tables if table.name == "jobs" for column in table.columns]
        return next((column.values for column in columns if column.name == "status"), ())

    def tables_of(self, info: Mapping[str, Any]) -> list[Table]:
        """Return the tables that a run has, bound to it.

        Parameters
        ----------
        info : mapping
            Its description.

        Returns
        -------
        list of Table
            Without those that only runs with other entries in their description have.
        """
        return [table.bound(info) for table in self.tables if not table.only_with or table.only_with in info]

    def workload_tables(self, result: Result) -> dict[str, pl.DataFrame]:
        """Return the parts of the tables in which runs of the same workload are equal, see ``same_workload``."""
        tables = {}
        for name, patterns in self.same_workload.items():
            table = result.scan(name)
            columns = table.collect_schema().names()
            chosen = [column for column in columns if any(fnmatchcase(column, pattern) for pattern in patterns)]
            tables[name] = table.select(chosen).collect()
        return tables

    def extended(self, by: Extension) -> ProblemDescriptor:
        """Return the kind with what a package adds to it."""
        return replace(
            self,
            agents=self.agents + by.agents,
            workloads=self.workloads + by.workloads,
            episodes=self.episodes or by.episodes,
            trainings={**by.trainings, **self.trainings},
        )


class Problem(Summarized):
    """Base class of the systems that can be simulated.

    An instance is a configuration; a :class:`Simulation` works on its own bound copy, which
    has the attributes ``simulation`` and ``env``. One problem therefore serves any number of
    simulations.

    A run goes on until nothing is left to happen, or until `stop_if_done` finds that nothing is in the system and
    nothing more will come: no arrivals, and no foreground process.

    Parameters
    ----------
    processes : iterable of callables
        Extra SimPy processes: each is called with the bound problem and returns a generator. The
        run goes on until they have ended, except for those whose callable has an attribute
        ``background = True``.

    Attributes
    ----------
    name : str
        Of the kind of problem, by which metrics, rules and figures are found.
    kind : ProblemDescriptor or None
        What desim is to know of a problem of a user's own; those of installed packages are found by name.
    events : tuple of str
        What listeners may ask for.
    sources : tuple of str
        Attributes that hold a workload, which may be iterators.
    constants : tuple of type
        Classes whose objects no run changes: forks share them.
    work_tables : tuple of str
        Tables that get a row whenever work is done.
    patience : int
        After so many events without a decision, or a tenth as many decisions, a run without ``until`` is looked at: if
        there is a :meth:`standstill`, and was one already at the look before, with no work done since, the run ends
        with status ``"stalled"``.
    """

    name: ClassVar[str] = "problem"
    kind: ClassVar[ProblemDescriptor | None] = None
    events: ClassVar[tuple[str, ...]] = ()
    sources: ClassVar[tuple[str, ...]] = ()
    constants: ClassVar[tuple[type, ...]] = ()
    work_tables: ClassVar[tuple[str, ...]] = ("jobs",)
    patience: int = 500_000
    simulation: Simulation
    env: simpy.Environment

    def __init__(self, *, processes: Iterable[Process] = ()) -> None:
        self.processes = tuple(items("processes", processes, "functions that make processes", "__call__"))
        self.listeners: dict[str, list[Callable[[float, Any], None]]] = {event: [] for event in self.events}
        self.listening = False

    def summary(self) -> dict[str, Any]:
        """Return the arguments that say most, for ``repr`` and notebooks."""
        return arguments_of(self, self.describe())

    def on(self, event: str, listener: Callable[[float, Any], None]) -> None:
        """Call ``listener(time, subject)`` whenever an event happens.

        Listeners watch; to change what happens, add a process. Those of a configuration are
        called in the simulations that are made of it afterwards, those of a bound problem in
        its own simulation. Forks have none.

        Parameters
        ----------
        event : str
            One of the problem's ``events``.
        listener : callable
            Called with the time in seconds and the subject that the problem documents.

        Raises
        ------
        InvalidConfiguration
            If the problem has no such event.
        """
        if event not in self.listeners:
            raise InvalidConfiguration(f"{self.name} has no event {event!r}; there are {', '.join(self.events)}")
        self.listeners[event].append(listener)
        self.listening = True

    def bind(self, simulation: Simulation) -> None:
        """Set up the state and start the processes of one simulation."""
        self.simulation = simulation
        self.env = simulation.env
        self.listeners = {event: list(listeners) for event, listeners in self.listeners.items()}
        self.foreground: list[simpy.Process] = []
        self.begin()
        self.num_own = len(self.foreground)  # what the problem itself waits for, such as arrivals
        for process in self.processes:
            if getattr(process, "background", False):
                start_process(self.env, process(self))
            else:
                self.keep_running(process(self))

    def keep_running(self, process: Resumable | Generator[simpy.Event, Any, Any]) -> None:
        """Start a process that keeps the run going until it has ended."""
        started = start_process(self.env, process)
        self.foreground.append(started)
        started.callbacks.append(self.foreground_ended)

    def emit(self, event: str, subject: Any) -> None:
        """Call the listeners of an event now."""
        for listener in self.listeners[event]:
            listener(self.env.now, subject)

    def foreground_ended(self, process: simpy.Event) -> None:
        """Learn that one of the processes that keep the run going has ended."""
        self.stop_if_done()

    def stop_if_done(self) -> None:
        """End the run if nothing is in the system and nothing more will come, whatever goes on in the background."""
        if self.is_empty() and not any(process.is_alive for process in self.foreground):
            self.simulation.stop()

    def is_empty(self) -> bool:
        """Tell whether nothing is in the system that the run has to wait for; by default never."""
        return False

    def is_idle(self) -> bool:
        """Tell whether nobody works on anything, although there may be work; by default never."""
        return False

    def standstill(self) -> str:
        """Say why nothing more will be done, unless a process of the user's own or the agent brings it about.

        Asked of a run in which nothing is left to happen, or nothing has been done for long.

        Returns
        -------
        str
            Empty while something is worked on or may arrive, of problems that do not say when they are idle, and if
            there is nothing to wait for.
        """
        if not self.is_idle() or any(process.is_alive for process in self.foreground[: self.num_own]):
            return ""
        names = [str(process.name) for process in self.foreground[self.num_own :] if process.is_alive]
        if not self.is_empty():
            agent = "work is left that the agent starts none of, and nothing else will happen"
            return f"{agent} but {_endless(names)}" if names else agent
        return f"all work is done, but {_endless(names)}; set background = True, or give until" if names else ""

    def progress(self) -> object:
        """Return something that changes whenever work is done."""
        tables = self.simulation.records.tables
        return [tables[name].extent for name in self.work_tables if name in tables], self.is_empty()

    def begin(self) -> None:
        """Set up fresh state and start the problem's own processes; called once by :meth:`bind`."""

    def close(self, time: float) -> None:
        """Record what is still in the system when the simulation ends at ``time``."""

    def tables(self) -> dict[str, Table]:
        """Return the tables that a run records, by name: those of the kind, bound to this configuration."""
        kind = self.kind or kinds().get(self.name)
        return {} if kind is None else {table.name: table for table in kind.tables_of(self.describe())}

    def describe(self) -> dict[str, Any]:
        """Return the configuration as plain values, for an agent's ``reset`` and for the records."""
        return {"problem": self.name}

    def check_replayable(self) -> None:
        """Raise :class:`InvalidConfiguration` if a workload can be read only once."""
        for name in self.sources:
            if isinstance(getattr(self, name), Iterator):
                raise InvalidConfiguration(
                    f"the {name} are an iterator, which can be read only once: pass a list to fork"
                )

    def drop_future(self) -> None:
        """Go on as far as an agent can know at the decision that is due: in forks without foresight.

        A problem that allows such forks calls `forget_sources`, lets what is under way take as long as agents expect,
        and drops what is scheduled otherwise, see :func:`~desim.reschedule`.

        Raises
        ------
        InvalidConfiguration
            If this problem does not say what its agents know.
        """
        raise InvalidConfiguration(
            f"problem {self.name!r} has no forks without foresight: it does not say what its agents know "
            "(Problem.drop_future)"
        )

    def forget_sources(self) -> None:
        """Forget where jobs, outages and whatever else processes do come from, and who listens."""
        for name in self.sources:
            setattr(self, name, ())
        self.processes = ()
        self.foreground = []
        self.listeners = {event: [] for event in self.events}
        self.listening = False


def _endless(names: Sequence[str]) -> str:
    one = len(names) == 1
    return f"the process{'' if one else 'es'} {', '.join(names)} {'goes' if one else 'go'} on without end"


def reference(text: str) -> Any:
    """Return what ``module:name`` leads to, or a module.

    Parameters
    ----------
    text : str
        Of an entry of a `ProblemDescriptor`.

    Returns
    -------
    object
        Imported.

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
        By name, sorted; what several packages know of one is put together.

    Raises
    ------
    MissingDependency
        If a package describes one that cannot be imported.
    """
    found: dict[str, ProblemDescriptor] = {}
    extensions: list[tuple[str, Extension]] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            part = point.load()
        except (ImportError, AttributeError) as error:
            raise MissingDependency(f"entry point {point.value} of {GROUP}: {error}") from error
        if isinstance(part, ProblemDescriptor):
            found.setdefault(point.name, part)
        elif (point.name, part) not in extensions:
            extensions.append((point.name, part))
    for name, extension in extensions:
        found[name] = found.get(name, ProblemDescriptor(name=name)).extended(extension)
    return dict(sorted(found.items()))


def kind_of(problem: str | Result) -> ProblemDescriptor:
    """Return what is known of a problem, or of the problem of a run.

    Parameters
    ----------
    problem : str or Result
        A name, or a run.

    Returns
    -------
    ProblemDescriptor
        Of a problem that nobody has described, its name alone.

    Raises
    ------
    InvalidConfiguration
        If a problem of the user's own was recorded whose code cannot be found.
    """
    if isinstance(problem, str):
        return kinds().get(problem) or ProblemDescriptor(name=problem)
    if problem.kind is not None:
        return problem.kind
    if "kind" in problem.info:
        from desim.user_code import load

        own = load(str(problem.info["kind"]))
        if not isinstance(own, ProblemDescriptor):
            raise InvalidConfiguration(f"{problem.info['kind']} is {own!r}, want a desim.ProblemDescriptor")
        return own
    return kind_of(str(problem.info.get("problem")))
