"""Agents and workloads by name, found through entry points: desim itself imports neither.

An entry point of the group ``desim.agents`` is called like the problem and leads to a module with the functions
``create(name)`` and ``descriptions()``; one of the group ``desim.workloads`` leads to a module with ``descriptions()``,
of ``batch`` also with ``load(source, ...)``, ``read(path)`` and ``write(path, jobs, ...)``, of ``dag`` with
``read(path)``; one of the group ``desim.episodes`` leads to a function of a random generator and plain settings, which
returns what an episode of the problem's Gymnasium environment is made of; one of the group ``desim.training`` leads to
a dataclass of options with a method ``train(directory, report)``; one of the group ``desim.experiments`` is called like
a paper and leads to its experiments, an :class:`ExperimentFamily`. Any installed package may add to them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from desim import own_code
from desim._plugin_protocols import ExperimentFamily, RepairReport, Workload
from desim.core import Agent
from desim.exceptions import InvalidConfiguration, MissingDependency

__all__ = [
    "ExperimentFamily",
    "RepairReport",
    "Workload",
    "create_agent",
    "describe_agents",
    "describe_workloads",
    "episode_workload",
    "experiment_families",
    "modules",
    "problems",
    "training_options",
    "trainings",
    "workload_provider",
]

AGENTS, WORKLOADS, EPISODES, TRAINING = "desim.agents", "desim.workloads", "desim.episodes", "desim.training"
EXPERIMENTS = "desim.experiments"


def problems() -> list[str]:
    """Return the names of the problems for which there are agents.

    Returns
    -------
    list of str
        Sorted.
    """
    return sorted({point.name for point in _points(AGENTS)})


def create_agent(problem: str, name: str) -> Agent:
    """Return a new agent.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.
    name : str
        One that :func:`describe_agents` lists, or ``module:Name`` of a class, function or agent of your own, see
        :func:`desim.own_code.own_agent`.

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
    refusals, is_own = [], own_code.is_reference(name)
    for provider in _providers(AGENTS, problem) if not is_own or problem in problems() else []:
        try:
            agent: Agent = provider.create(name)
        except InvalidConfiguration as error:
            refusals.append(error)
        else:
            return agent
    if not is_own:
        raise InvalidConfiguration("; ".join(map(str, refusals)))
    try:
        return own_code.own_agent(name)
    except InvalidConfiguration as error:
        if refusals and name.partition(":")[0] in _prefixes(problem):
            raise InvalidConfiguration("; ".join(map(str, refusals))) from error
        raise


def _prefixes(problem: str) -> set[str]:
    """Return what stands before the colon in the names of agents that packages offer."""
    return {name.partition(":")[0] for name in describe_agents(problem) if ":" in name}


def describe_agents(problem: str) -> dict[str, str]:
    """Return the names of agents, or patterns of names, with a line on each.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.

    Returns
    -------
    dict of str to str
        In the order of the packages that offer them.
    """
    return {name: text for provider in _providers(AGENTS, problem) for name, text in provider.descriptions().items()}


def describe_workloads(problem: str) -> dict[str, str]:
    """Return the sources of workloads, or patterns of files, with a line on each.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.

    Returns
    -------
    dict of str to str
        In the order of the packages that offer them.
    """
    return {name: text for provider in _providers(WORKLOADS, problem) for name, text in provider.descriptions().items()}


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
    providers = _providers(WORKLOADS, problem)
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
        Called with a ``numpy.random.Generator`` and plain settings by keyword. Of several packages that have one, the
        first, in the order of their names.

    Raises
    ------
    MissingDependency
        If no package offers one for the problem, or it cannot be imported.
    """
    workload: Callable[..., Any] = _providers(EPISODES, problem)[0]
    return workload


def training_options(problem: str) -> type[Any]:
    """Return the options with which agents of a problem are trained.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.

    Returns
    -------
    type
        A dataclass with a method ``train(directory, report)``.

    Raises
    ------
    MissingDependency
        If no package trains agents of this problem, or one cannot be imported.
    """
    found: type[Any] = _providers(TRAINING, problem)[0]
    return found


def trainings() -> list[str]:
    """Return what can be trained.

    Returns
    -------
    list of str
        Sorted: names of problems, or of problems and agents.
    """
    return sorted({point.name for point in _points(TRAINING)})


def experiment_families() -> dict[str, ExperimentFamily]:
    """Return the experiments of all papers.

    Returns
    -------
    dict of str to ExperimentFamily
        By name, sorted.

    Raises
    ------
    MissingDependency
        If one cannot be imported.
    """
    names = sorted({point.name for point in _points(EXPERIMENTS)})
    return {name: _providers(EXPERIMENTS, name)[0] for name in names}


def modules(problem: str) -> list[str]:
    """Return the modules that the agents and workloads of a problem come from.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.

    Returns
    -------
    list of str
        Their full names, sorted; none for a problem that no package knows.
    """
    groups = (AGENTS, WORKLOADS, EPISODES)
    return sorted({point.module for group in groups for point in _points(group) if point.name == problem})


def _points(group: str) -> list[EntryPoint]:
    """Return the entry points, one for each module, in an order that does not depend on the installation."""
    return sorted({(point.name, point.value): point for point in entry_points(group=group)}.values())


def _providers(group: str, problem: str) -> list[Any]:
    points = [point for point in _points(group) if point.name == problem]
    if not points:
        raise MissingDependency(f"no installed package has an entry point {problem!r} in the group {group}")
    modules = []
    for point in points:
        try:
            modules.append(point.load())
        except (ImportError, AttributeError) as error:
            raise MissingDependency(f"entry point {point.value} of {group}: {error}") from error
    return modules
