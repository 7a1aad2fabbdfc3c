"""What a problem has to offer to be simulated and compared from the command line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Protocol

import numpy as np
from tyro.conf import arg

from desim import plugins
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.plotting._presentations import Presentation
from desim.problem import Problem, Process
from desim.processes import random_outages
from desim.result import Result

__all__ = ["Instance", "Seed", "SeededSystem", "Steps", "System", "Until", "failures", "generator", "rereadable"]

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
class Instance:
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
    presentation : Presentation
        What is known of the results.
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
    measure : callable or None
        Own metrics of a result.
    """

    name: str
    size: str
    place: str
    options: Any
    presentation: Presentation
    make: Callable[[Agent], Problem]
    workload: Iterable[Any] | None = None
    is_drawn: bool = True
    steps: Steps | None = None
    until: float = math.inf
    facts: Mapping[str, Any] = field(default_factory=dict)
    report: plugins.RepairReport | None = None
    measure: Callable[[Result], Mapping[str, float]] | None = None

    @property
    def kind(self) -> str:
        """The problem whose agents, metrics, rules and figures these runs have."""
        return self.presentation.problem


class System(Protocol):
    """A problem with the options that make one."""

    @property
    def name(self) -> str:
        """What the command line calls it."""

    @property
    def description(self) -> str:
        """What it is, in a line."""

    @property
    def kind(self) -> str | None:
        """The problem whose agents there are, unless only an instance can tell."""

    @property
    def default_agent(self) -> str | None:
        """Who decides unless somebody is named."""

    @property
    def options(self) -> type[Any]:
        """A frozen dataclass of plain values with the options of workload, system and metrics."""

    def instance(self, options: Any) -> Instance:
        """Return what is simulated; the same options make the same."""

    def seed_of(self, options: Any) -> int:
        """Return the seed of workload and simulation."""

    def with_seed(self, options: Any, seed: int) -> Any:
        """Return the same options with another seed."""

    def metric_options(self, options: Any) -> dict[str, Any]:
        """Return what the metrics cover, as arguments of :meth:`desim.Result.metrics`."""

    def identity(self, options: Any) -> dict[str, Any]:
        """Return what tells runs apart, as plain values: files by their content, nothing about metrics."""


class SeededSystem:
    """What problems share whose options have a seed, and whose metrics have none."""

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
