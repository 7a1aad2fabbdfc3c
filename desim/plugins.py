"""Registries of installed packages: agents, workloads and trainings of each problem, and experiments of papers.

A module of agents has the functions ``create(name)`` and ``descriptions()``. A module of workloads has
``descriptions()``; for ``batch`` also ``load(source, ...)``, ``read(path)`` and ``write(path, jobs, ...)``, for ``dag``
also ``read(path)``. The kinds of problems list these modules, see :class:`desim.problem.ProblemDescriptor`; any
installed package can add modules with a :class:`desim.problem.Extension` in the entry point group ``desim.problems``.
The experiments of a paper, an :class:`ExperimentFamily`, are found through the group ``desim.experiments``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from desim import user_code
from desim.core import Agent
from desim.exceptions import DesimError, InvalidConfiguration, MissingDependency
from desim.problem import kind_named, kinds, reference

__all__ = [
    "ExperimentFamily",
    "LoadedWorkload",
    "RepairReport",
    "catalogue",
    "create_agent",
    "describe_agents",
    "describe_workloads",
    "episode_workload",
    "experiment_families",
    "modules",
    "named_agent",
    "training_settings",
    "trainings",
    "workload_provider",
]

EXPERIMENTS = "desim.experiments"


class RepairReport(Protocol):
    """Report of the rows that a reader dropped, changed or noted."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: ``rows``, ``jobs``, ``dropped``, and ``reasons`` with ``action`` and ``count``."""


class LoadedWorkload(Protocol):
    """Jobs, with facts about them."""

    @property
    def name(self) -> str:
        """Name of the workload."""

    @property
    def jobs(self) -> Iterable[Any]:
        """Jobs; every iteration yields the same."""

    @property
    def num_cores(self) -> int | None:
        """Number of cores of the machine, if known."""

    @property
    def num_jobs(self) -> int | None:
        """Number of jobs, if known."""

    @property
    def report(self) -> RepairReport | None:
        """Repairs made while reading a file, if one was read."""


class ExperimentFamily(Protocol):
    """Experiments of a paper."""

    @property
    def title(self) -> str:
        """Topic of the paper."""

    @property
    def source(self) -> str:
        """Reference of the paper."""

    @property
    def modules(self) -> Sequence[str]:
        """Names of the experiments, in the order in which they run."""

    def descriptions(self) -> dict[str, str]:
        """Return one-line descriptions of the experiments, by name."""

    def run(self, name: str, arguments: Sequence[str]) -> int:
        """Run one experiment with its own command line; return the exit status."""

    def reproduce(
        self, arguments: Sequence[str], *, out: Path | None = None, store: Path | None = None, only: Sequence[str] = ()
    ) -> int:
        """Run all or some experiments with the same command line and write a report; return the exit status."""

    def report(self, out: Path | None = None) -> Path:
        """Write a report from the stored results; return its path."""

    def documentation(self, page: Path, out: Path | None = None) -> Path:
        """Write the report as a page of documentation; return its path."""

    def sweeps(self, store: Path | None = None) -> Sequence[Any]:
        """Return the progress of sweeps: title, wanted, stored, failed, running, started."""


def create_agent(problem: str, name: str) -> Agent:
    """Return a new agent by name.

    Parameters
    ----------
    problem : str
        Name of the problem, such as ``"batch"``.
    name : str
        Name that :func:`describe_agents` lists, or ``module:Name`` of a custom class, function or agent, see
        :func:`desim.user_code.load_agent`.

    Returns
    -------
    Agent
        Agent from the first package that knows the name; your own if none does.

    Raises
    ------
    InvalidConfiguration
        If the agent is unknown; the message lists the known names.
    MissingDependency
        If no package offers agents for the problem, or one cannot be imported.
    """
    return named_agent(problem, name)[1]


def named_agent(problem: str, name: str) -> tuple[str, Agent]:
    """Return an agent with the name under which it is recorded: ``easy`` is short for ``easy-fcfs``.

    Parameters
    ----------
    problem, name : str
        Problem and name as for :func:`create_agent`, which tells the errors, too.

    Returns
    -------
    str
        The agent's own name, which creates it as well; that of a user's own code is its reference.
    Agent
        The agent.
    """
    refusals, is_own = [], user_code.is_reference(name)
    for provider in _modules(problem, "agents", needed=not is_own):
        try:
            agent: Agent = provider.create(name)
        except InvalidConfiguration as error:
            refusals.append(error)
        else:
            return str(getattr(agent, "name", name)), agent
    if not is_own:
        home = _home_of(name, besides=problem)
        if home:
            raise InvalidConfiguration(
                f"unknown {problem} agent {name!r}: it is an agent for problem {home!r}; "
                f"`desim list {problem}` shows those for {problem!r}"
            )
        raise InvalidConfiguration("; ".join(map(str, refusals)))
    try:
        return name, user_code.load_agent(name)
    except InvalidConfiguration as error:
        prefixes = {known.partition(":")[0] for known in describe_agents(problem) if ":" in known} if refusals else ()
        if name.partition(":")[0] in prefixes:
            raise InvalidConfiguration("; ".join(map(str, refusals))) from error
        raise


def _home_of(name: str, besides: str) -> str:
    """Return another problem that has an agent of this name; empty if none has."""
    for problem in kinds():
        for provider in _modules(problem, "agents", needed=False) if problem != besides else ():
            with suppress(DesimError):
                provider.create(name)
                return problem
    return ""


def describe_agents(problem: str) -> dict[str, str]:
    """Return descriptions of a problem's agents by name or pattern of names."""
    return {name: text for module in _modules(problem, "agents") for name, text in module.descriptions().items()}


def describe_workloads(problem: str) -> dict[str, str]:
    """Return descriptions of a problem's workloads by name or file pattern."""
    return {name: text for module in _modules(problem, "workloads") for name, text in module.descriptions().items()}


def catalogue() -> Any:
    """Return the module that knows public workloads by name, :mod:`desim.workloads.catalogue`."""
    return reference("desim.workloads.catalogue")


def workload_provider(problem: str, source: str = "") -> Any:
    """Return the module that knows a workload source.

    Parameters
    ----------
    problem : str
        Name of the problem, such as ``"batch"``.
    source : str
        Name that the module lists, or anything else, such as the path of a file.

    Returns
    -------
    module
        The module; the first one if none lists the source.

    Raises
    ------
    MissingDependency
        If no package offers workloads for the problem, or one cannot be imported.
    """
    providers = _modules(problem, "workloads")
    return next((provider for provider in providers if source in provider.descriptions()), providers[0])


def episode_workload(problem: str) -> Callable[..., Any]:
    """Return the function that creates the default workload of a problem's Gymnasium environment.

    Parameters
    ----------
    problem : str
        Name of the problem, such as ``"batch"``.

    Returns
    -------
    callable
        Called with a ``numpy.random.Generator``, and plain settings by keyword.

    Raises
    ------
    MissingDependency
        If no package offers one for the problem, or it cannot be imported.
    """
    known = kinds()
    if problem not in known or not known[problem].episodes:
        raise MissingDependency(f"no installed package generates workloads for the environment of problem {problem!r}")
    workload: Callable[..., Any] = reference(known[problem].episodes)
    return workload


def trainings() -> dict[str, str]:
    """Return the settings classes of all trainings, by problem, or by problem and agent."""
    found = {name: settings for kind in kinds().values() for name, settings in kind.trainings.items()}
    return dict(sorted(found.items()))


def training_settings(name: str) -> type[Any]:
    """Return the settings class of a training.

    Parameters
    ----------
    name : str
        Name of the training, one of :func:`trainings`.

    Returns
    -------
    type
        Nested dataclass, see :class:`desim.agents.learning.settings.TrainingSettings`.

    Raises
    ------
    MissingDependency
        If no package offers this training, or it cannot be imported.
    """
    known = trainings()
    if name not in known:
        raise MissingDependency(f"no installed package trains {name!r}")
    found: type[Any] = reference(known[name])
    return found


def experiment_families() -> dict[str, ExperimentFamily]:
    """Return the experiments of all papers by key, sorted.

    Returns
    -------
    dict of str to ExperimentFamily
        Experiments of all installed packages.

    Raises
    ------
    MissingDependency
        If a package cannot be imported.
    """
    points = {point.name: point.value for point in entry_points(group=EXPERIMENTS)}
    return {name: reference(value) for name, value in sorted(points.items())}


def modules(problem: str) -> list[str]:
    """Return the sorted names of the modules that define a problem's agents, workloads, metrics and rules."""
    kind = kind_named(problem)
    if kind is None:
        return []
    named = [part for part in (kind.episodes, kind.metrics_from, kind.rules_from) if isinstance(part, str) and part]
    return sorted({*kind.agents, *kind.workloads, *(part.partition(":")[0] for part in named)})


def _modules(problem: str, what: str, *, needed: bool = True) -> list[Any]:
    """Return the modules that offer agents or workloads for a problem."""
    names: Sequence[str] = getattr(kind_named(problem), what, ())
    if needed and not names:
        raise MissingDependency(f"no installed package offers {what} for problem {problem!r}")
    return [reference(name) for name in names]
