"""What packages offer by name: agents, workloads, trainings of each kind of problem, and the experiments of papers.

A module of agents has the functions ``create(name)`` and ``descriptions()``; one of workloads has ``descriptions()``,
of ``batch`` also ``load(source, ...)``, ``read(path)`` and ``write(path, jobs, ...)``, of ``dag`` ``read(path)``. Which
modules there are the kinds of problems say, see :class:`desim.problem.ProblemDescriptor`; any installed package may add
to them with a :class:`desim.problem.Extension` of the entry point group ``desim.problems``. Experiments of a paper are
found by the group ``desim.experiments``: an :class:`ExperimentFamily`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from desim import user_code
from desim.core import Agent
from desim.exceptions import InvalidConfiguration, MissingDependency
from desim.problem import kinds, reference

__all__ = [
    "ExperimentFamily",
    "RepairReport",
    "Workload",
    "agent_files",
    "create_agent",
    "describe_agents",
    "describe_workloads",
    "episode_workload",
    "experiment_families",
    "is_ours",
    "modules",
    "training_settings",
    "trainings",
    "workload_provider",
]

EXPERIMENTS = "desim.experiments"


class RepairReport(Protocol):
    """What a reader dropped, changed or noticed."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: ``rows``, ``jobs``, ``dropped``, and ``reasons`` with ``action`` and ``count``."""


class Workload(Protocol):
    """Jobs and what is known of them."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def jobs(self) -> Iterable[Any]:
        """The jobs; every iteration gives the same."""

    @property
    def num_cores(self) -> int | None:
        """Cores of the machine, if known."""

    @property
    def num_jobs(self) -> int | None:
        """Number of jobs, if known."""

    @property
    def report(self) -> RepairReport | None:
        """What was repaired, if anything was read."""


class ExperimentFamily(Protocol):
    """The experiments of a paper."""

    @property
    def title(self) -> str:
        """What is studied."""

    @property
    def source(self) -> str:
        """The paper."""

    @property
    def modules(self) -> Sequence[str]:
        """Names of the experiments, in the order in which they are run."""

    def descriptions(self) -> dict[str, str]:
        """Return the experiments with a line on each."""

    def run(self, name: str, arguments: Sequence[str]) -> int:
        """Run one with its own command line; return the exit status."""

    def reproduce(
        self, arguments: Sequence[str], *, out: Path | None = None, store: Path | None = None, only: Sequence[str] = ()
    ) -> int:
        """Run all, or some, with the same command line, and write a report; return the exit status."""

    def report(self, out: Path | None = None) -> Path:
        """Write a report of those that were run; return the file."""

    def documentation(self, page: Path, out: Path | None = None) -> Path:
        """Write the same as a page of documentation; return the file."""

    def sweeps(self, store: Path | None = None) -> Sequence[Any]:
        """Return how far sweeps have come: title, wanted, stored, failed, running, started."""


def create_agent(problem: str, name: str) -> Agent:
    """Return a new agent.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.
    name : str
        One that :func:`describe_agents` lists, or ``module:Name`` of a class, function or agent of your own, see
        :func:`desim.user_code.load_agent`.

    Returns
    -------
    Agent
        From the first package that knows the name; where none does, your own.

    Raises
    ------
    InvalidConfiguration
        If there is no such agent; the message lists the possible names.
    MissingDependency
        If no package offers agents for the problem, or one cannot be imported.
    """
    refusals, is_own = [], user_code.is_reference(name)
    for provider in _modules(problem, "agents", needed=not is_own):
        try:
            agent: Agent = provider.create(name)
        except InvalidConfiguration as error:
            refusals.append(error)
        else:
            return agent
    if not is_own:
        raise InvalidConfiguration("; ".join(map(str, refusals)))
    try:
        return user_code.load_agent(name)
    except InvalidConfiguration as error:
        prefixes = {known.partition(":")[0] for known in describe_agents(problem) if ":" in known} if refusals else ()
        if name.partition(":")[0] in prefixes:
            raise InvalidConfiguration("; ".join(map(str, refusals))) from error
        raise


def agent_files(problem: str, name: str) -> tuple[Path, ...] | None:
    """Return the files that an agent is made of besides the code of desim.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.
    name : str
        One that :func:`create_agent` knows.

    Returns
    -------
    tuple of Path or None
        Such as weights with their card; the same name with the same content of these files is the same agent. None
        where that is not certain: the agent, or a part of it, may be code of another package or of a user.
    """
    if user_code.is_there(name):
        return None
    for provider in _modules(problem, "agents", needed=False):
        if not is_ours(provider.__name__):
            return None
        try:
            found: tuple[Path, ...] | None = provider.files(name)
        except InvalidConfiguration:
            continue
        return found
    return None


def is_ours(module: str) -> bool:
    """Return whether a module is part of desim."""
    return module.partition(".")[0] == "desim"


def describe_agents(problem: str) -> dict[str, str]:
    """Return the names of a problem's agents, or patterns of names, with a line on each."""
    return {name: text for module in _modules(problem, "agents") for name, text in module.descriptions().items()}


def describe_workloads(problem: str) -> dict[str, str]:
    """Return the sources of a problem's workloads, or patterns of files, with a line on each."""
    return {name: text for module in _modules(problem, "workloads") for name, text in module.descriptions().items()}


def workload_provider(problem: str, source: str = "") -> Any:
    """Return the module that knows a source of workloads.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.
    source : str
        A name that the module lists, or anything else, such as a file.

    Returns
    -------
    module
        The first one, if none lists the source.

    Raises
    ------
    MissingDependency
        If no package offers workloads for the problem, or one cannot be imported.
    """
    providers = _modules(problem, "workloads")
    return next((provider for provider in providers if source in provider.descriptions()), providers[0])


def episode_workload(problem: str) -> Callable[..., Any]:
    """Return the function that makes the default workload of a problem's Gymnasium environment.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.

    Returns
    -------
    callable
        Called with a ``numpy.random.Generator`` and plain settings by keyword.

    Raises
    ------
    MissingDependency
        If no package offers one for the problem, or it cannot be imported.
    """
    known = kinds()
    if problem not in known or not known[problem].episodes:
        raise MissingDependency(f"no installed package draws workloads for the environment of problem {problem!r}")
    workload: Callable[..., Any] = reference(known[problem].episodes)
    return workload


def trainings() -> dict[str, str]:
    """Return what can be trained: names of problems, or of problems and agents, with the dataclass of its settings."""
    found = {name: settings for kind in kinds().values() for name, settings in kind.trainings.items()}
    return dict(sorted(found.items()))


def training_settings(name: str) -> type[Any]:
    """Return the settings of a training.

    Parameters
    ----------
    name : str
        One of :func:`trainings`.

    Returns
    -------
    type
        A nested dataclass, see :class:`desim.agents.learning.settings.TrainingSettings`.

    Raises
    ------
    MissingDependency
        If no package trains this, or it cannot be imported.
    """
    known = trainings()
    if name not in known:
        raise MissingDependency(f"no installed package trains {name!r}")
    found: type[Any] = reference(known[name])
    return found


def experiment_families() -> dict[str, ExperimentFamily]:
    """Return the experiments of all papers, by name, sorted.

    Returns
    -------
    dict of str to ExperimentFamily
        Of all installed packages.

    Raises
    ------
    MissingDependency
        If one cannot be imported.
    """
    points = {point.name: point.value for point in entry_points(group=EXPERIMENTS)}
    return {name: reference(value) for name, value in sorted(points.items())}


def modules(problem: str) -> list[str]:
    """Return the full names of the modules that agents, workloads, metrics and rules of a problem come from, sorted."""
    kind = kinds().get(problem)
    if kind is None:
        return []
    named = [part for part in (kind.episodes, kind.metrics_from, kind.rules_from) if isinstance(part, str) and part]
    return sorted({*kind.agents, *kind.workloads, *(part.partition(":")[0] for part in named)})


def _modules(problem: str, what: str, *, needed: bool = True) -> list[Any]:
    """Return the modules that offer agents or workloads for a problem."""
    names: Sequence[str] = getattr(kinds().get(problem), what, ())
    if needed and not names:
        raise MissingDependency(f"no installed package offers {what} for problem {problem!r}")
    return [reference(name) for name in names]
