"""Adversarial search for instances on which one agent does worst relative to another, by simulated annealing.

Mean results over benchmarks hide that each heuristic can be several times as bad as another on some instances, and say
nothing about these instances. PISA (J. R. Coleman and B. Krishnamachari, "PISA: an adversarial approach to comparing
task graph scheduling algorithms", 2024) searches for them: it changes a weight or an edge of a small instance, and
keeps the change if the ratio of the two makespans increases, or with some probability if it decreases. This module does
the same for any problem with such instances (``ProblemDescriptor.instances_from``) and any of its metrics.

A change of the ratio from r to a lower r' is accepted with probability (r' / r) ** (1 / temperature), and the
temperature decreases geometrically. Each restart begins from another random instance. The same seed gives the same
search. The state, including that of the random generator, is stored in a file, so that an interrupted search continues
to the same result.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypedDict

import numpy as np
from numpy.random import Generator

from desim import plugins
from desim.checks import check_float, check_int, did_you_mean
from desim.core import Agent, Simulation, run_to_end, simulate
from desim.exceptions import InvalidConfiguration, RecordError
from desim.files import read_fields, write_atomically
from desim.problem import Problem, ProblemDescriptor, kinds, reference

__all__ = ["AdversarialInstance", "Annealing", "Found", "Ratio", "instances_of", "search"]

#: Number of changes between two writes of the state.
BETWEEN_WRITES = 200


class AdversarialInstance(Protocol):
    """Small workload with its system, which a search generates, changes, simulates and writes.

    Attributes
    ----------
    at_the_end : mapping of str to callable
        Metrics computed from a simulation at its end, without its records, which would take longer than such a small
        simulation.
    """

    at_the_end: ClassVar[Mapping[str, Callable[[Simulation], float]]]

    @classmethod
    def draw(cls, rng: Generator) -> Self:
        """Return a random instance."""

    def changed(self, rng: Generator) -> Self:
        """Return a copy with one random change."""

    def problem(self, agent: Agent) -> Problem:
        """Return the problem for an agent."""

    def plain(self) -> dict[str, Any]:
        """Return plain values from which :meth:`of_plain` creates an equal instance."""

    @classmethod
    def of_plain(cls, values: Mapping[str, Any]) -> Self:
        """Return the instance described by plain values."""

    def write(self, path: Path) -> None:
        """Write a workload file in JSON that the command line can read."""


def instances_of(problem: str) -> type[AdversarialInstance]:
    """Return the class of a problem's instances for adversarial search.

    Parameters
    ----------
    problem : str
        Name of the problem, such as ``"dag"``.

    Returns
    -------
    type
        Class that the kind of problem names.

    Raises
    ------
    InvalidConfiguration
        If the problem has none.
    """
    known = {name: kind for name, kind in kinds().items() if kind.instances_from}
    if problem not in known:
        near = did_you_mean(problem, known)
        raise InvalidConfiguration(
            f"problem: got {problem!r}{near}, expected one with instances to search: {', '.join(known)}"
        )
    found: type[AdversarialInstance] = reference(known[problem].instances_from)
    return found


class Ratio:
    """Ratio of an agent's objective to a baseline's: how many times as bad the agent is.

    Parameters
    ----------
    problem : str
        Name of the problem, such as ``"dag"``.
    agent, rival : str
        Names of the two agents; the rival is the baseline.
    objective : str
        Name of a metric for which lower or higher values are better.

    Raises
    ------
    InvalidConfiguration
        If an agent or the metric is unknown, or neither lower nor higher values are better.
    """

    def __init__(self, problem: str, agent: str, rival: str, objective: str) -> None:
        kind: ProblemDescriptor = kinds()[problem]
        known = [name for name in kind.metrics.names if kind.metrics[name].better]
        if objective not in known:
            near = did_you_mean(objective, known)
            raise InvalidConfiguration(f"unknown objective {objective!r}{near}; expected one of {', '.join(known)}")
        for name in (agent, rival):
            plugins.create_agent(problem, name)  # raises before anything is simulated
        self._problem, self._objective = problem, objective
        self.agents = agent, rival
        self._higher = kind.metrics[objective].better == "higher"

    def values(self, instance: AdversarialInstance) -> tuple[float, float]:
        """Return the objective of the agent and of the baseline on an instance."""
        agent, rival = (self._value(instance, name) for name in self.agents)
        return agent, rival

    def _value(self, instance: AdversarialInstance, name: str) -> float:
        agent = plugins.create_agent(self._problem, name)
        problem = instance.problem(agent)
        tell = instance.at_the_end.get(self._objective)
        if tell is None:
            return float(simulate(problem, agent).metrics(self._objective)[self._objective])
        return tell(run_to_end(problem, agent))

    def __call__(self, instance: AdversarialInstance) -> float:
        """Return the ratio; NaN if it is undefined, for example if the baseline's objective is 0."""
        worse, better = self.values(instance)[:: -1 if self._higher else 1]
        return worse / better if worse >= 0 and better > 0 else math.nan


@dataclass(frozen=True)
class Annealing:
    """Length and temperatures of an annealing search.

    Attributes
    ----------
    steps : int
        Number of changes to try per restart.
    restarts : int
        Number of random instances to start from.
    hot, cold : float
        Temperatures at the first and the last step.
    seed : int
        Seed of all random numbers.

    Raises
    ------
    InvalidConfiguration
        If a value is out of range.
    """

    steps: int = 1_000
    restarts: int = 5
    hot: float = 0.2
    cold: float = 0.005
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_int("steps", self.steps, least=0)
        check_int("restarts", self.restarts, least=1)
        check_int("seed", self.seed, least=0)
        check_float("cold", self.cold, above=0)
        check_float("hot", self.hot, least=self.cold)

    def temperature(self, step: int) -> float:
        """Return the temperature at a step, counted from 1."""
        progress = (step - 1) / max(self.steps - 1, 1)
        return float(self.hot * (self.cold / self.hot) ** progress)


@dataclass(frozen=True)
class Found:
    """Result of a search.

    Attributes
    ----------
    instance : AdversarialInstance
        Worst instance found.
    ratio : float
        Ratio on this instance; NaN if it was undefined on all instances.
    evaluations : int
        Number of simulated instances.
    """

    instance: AdversarialInstance
    ratio: float
    evaluations: int


@dataclass
class _State:
    """State of a search as plain values."""

    settings: dict[str, Any]
    random: dict[str, Any]
    evaluations: int = 0
    restart: int = 0
    step: int = 0
    current: dict[str, Any] | None = None
    ratio: float = math.nan
    worst: dict[str, Any] | None = None
    worst_ratio: float = math.nan


class _Stored(TypedDict):
    """A state in a file."""

    settings: dict[str, Any]
    random: dict[str, Any]
    evaluations: int
    restart: int
    step: int
    current: dict[str, Any] | None
    ratio: float
    worst: dict[str, Any] | None
    worst_ratio: float


def search(
    kind: type[AdversarialInstance],
    ratio: Callable[[Any], float],
    annealing: Annealing,
    *,
    name: str = "",
    state: Path | None = None,
    listen: Callable[[int], None] | None = None,
) -> Found:
    """Search for an instance with a large ratio.

    Parameters
    ----------
    kind : type of AdversarialInstance
        Class of the instances.
    ratio : callable
        Function to maximize; instances for which it is NaN are rejected.
    annealing : Annealing
        Length, temperatures and seed.
    name : str
        Description of the ratio, so that a state of another search is rejected.
    state : Path, optional
        File for the state. If it exists, the search continues from it.
    listen : callable, optional
        Called with the number of instances simulated so far.

    Returns
    -------
    Found
        Worst instance over all restarts.

    Raises
    ------
    InvalidConfiguration
        If the state is that of another search.
    """
    settings = {"name": name, **asdict(annealing)}
    rng = np.random.default_rng(annealing.seed)
    now = _read(state, settings) or _State(settings, dict(rng.bit_generator.state))
    rng.bit_generator.state = now.random
    try:
        while now.restart < annealing.restarts:
            _try_one(now, kind, ratio, annealing, rng)
            now.random = dict(rng.bit_generator.state)
            if listen is not None:
                listen(now.evaluations)
            if now.evaluations % BETWEEN_WRITES == 0:
                _write(state, now)
    finally:
        _write(state, now)  # an interruption loses at most the current instance
    assert now.worst is not None
    return Found(kind.of_plain(now.worst), now.worst_ratio, now.evaluations)


def _try_one(
    now: _State, kind: type[AdversarialInstance], ratio: Callable[[Any], float], annealing: Annealing, rng: Generator
) -> None:
    """Generate an instance or change the current one, and accept or reject it."""
    if now.step == 0:
        candidate, draw = kind.draw(rng), 0.0
    else:
        assert now.current is not None
        candidate, draw = kind.of_plain(now.current).changed(rng), rng.random()
    found = ratio(candidate)
    if now.step == 0 or math.isnan(now.ratio) or _is_taken(found / now.ratio, annealing.temperature(now.step), draw):
        now.current, now.ratio = candidate.plain(), found
    if now.worst is None or found > now.worst_ratio or (math.isnan(now.worst_ratio) and not math.isnan(found)):
        now.worst, now.worst_ratio = candidate.plain(), found
    now.evaluations += 1
    now.step += 1
    if now.step > annealing.steps:
        now.restart, now.step = now.restart + 1, 0


def _is_taken(growth: float, temperature: float, draw: float) -> bool:
    """Return whether a ratio changed by the factor ``growth`` is accepted; NaN never is."""
    return growth >= 1 or (growth > 0 and draw < math.exp(math.log(growth) / temperature))


def _read(path: Path | None, settings: dict[str, Any]) -> _State | None:
    if path is None or not path.exists():
        return None
    try:
        found = _State(**read_fields(path, _Stored))
    except (RecordError, TypeError) as error:  # TypeError: of entries that a state does not have
        raise InvalidConfiguration(f"{error}; it is not the state of a search; delete it to begin again") from error
    if found.settings != settings:
        raise InvalidConfiguration(
            f"{path}: got the state of a search with {found.settings}, expected {settings}; delete it to begin again"
        )
    return found


def _write(path: Path | None, state: _State) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(vars(state))
        write_atomically(path, lambda draft: draft.write_text(text))
