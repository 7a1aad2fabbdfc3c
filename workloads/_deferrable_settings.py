"""The parameters of generated deferrable jobs, checked, and the cases of the OSDEC paper's Table 4."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from desim.exceptions import InvalidConfiguration
from desim.workloads._named_streams import number, whole_number
from desim.workloads._window_laws import Law, Sometimes, Uniform, law_of, most_of

__all__ = ["ALIKE", "CORE_CASES", "DURATION_CASES", "Settings"]

#: Probabilities of the four sizes in the core cases of Table 4.
CORE_CASES: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {"core-1": (0.51, 0.37, 0.08, 0.04), "core-2": (0.25, 0.25, 0.25, 0.25), "core-3": (0.4, 0.3, 0.2, 0.1)}
)

#: Probabilities of the six lengths in the duration cases of Table 4.
DURATION_CASES: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "duration-1": (1 / 6,) * 6,
        "duration-2": (0.4, 0.25, 0.15, 0.1, 0.05, 0.05),
        "duration-3": (0.6, 0.25, 0.1, 0.05, 0.0, 0.0),
    }
)

#: What the jobs of a batch may have in common.
ALIKE = ("cores", "duration", "notice", "slack")

_NOTICE, _SLACK = Uniform(0, 3), Sometimes(0.8, 13)

#: The most jobs that a run may be expected to have: all are in memory.
_MOST_JOBS = 1e8


@dataclass(frozen=True)
class Settings:
    """How deferrable jobs and the capacity left for them are drawn.

    Jobs come in batches. The number of batches that are submitted in slot t is Poisson with mean
    ``arrival_rate / batch_mean * max(0, 1 + arrival_swing * sin(2 pi (t / day_slots + arrival_phase)))``. Those that
    were submitted before the run, and whose windows open in it, are known from slot 0 on; those whose windows open
    after it are left out. The capacity of slot t is
    ``capacity_mean * (1 + capacity_swing * sin(2 pi (t / day_slots + capacity_phase)) + x(t))``, where x is normal
    noise: an autoregressive process of order 1 with mean 0, from its stationary law on.

    Parameters
    ----------
    num_slots : int
        Length of the run in slots, at least 1.
    day_slots : float
        Length of a day in slots, above 0.
    arrival_rate : float
        Mean number of jobs a slot, at least 0.
    arrival_swing : float
        By which part of its mean the arrival rate goes up and down in a day, at least 0.
    arrival_phase : float
        At which part of the rising half of its day it begins, in days: 0.25 at the peak, 0.75 at the lowest point.
    batch_mean : float
        Mean number of jobs in a batch, at least 1; the number is geometric.
    batch_alike : tuple of str
        What the jobs of a batch have in common: any of ``"cores"``, ``"duration"``, ``"notice"`` and ``"slack"``.
    cores : tuple of float
        The sizes that jobs may have, in cores, above 0.
    core_probabilities : tuple of float
        One a size, in sum 1.
    durations : tuple of int
        The lengths that jobs may have, in slots, at least 1.
    duration_probabilities : tuple of float
        One a length, in sum 1.
    notice : Law or int
        Slots from a job's submission to its earliest start: a number, or a distribution such as `Uniform`.
    slack : Law or int
        Slots from the earliest to the latest start.
    capacity_mean : float
        Mean capacity in cores, at least 0.
    capacity_swing, capacity_phase : float
        As for the arrivals.
    capacity_correlation : float
        Of x(t) and x(t + 1), at least 0 and below 1.
    capacity_deviation : float
        Standard deviation of x(t), at least 0.
    capacity_floor : float
        The least capacity in cores, at least 0.
    whole_capacity : bool
        Whether the capacity is rounded to whole cores, halves up.

    Raises
    ------
    InvalidConfiguration
        If a parameter is out of range; the message names it and its value.
    """

    num_slots: int = 360
    day_slots: float = 24.0
    arrival_rate: float = 1.36
    arrival_swing: float = 0.6
    arrival_phase: float = 0.75
    batch_mean: float = 1.0
    batch_alike: tuple[str, ...] = ()
    cores: tuple[float, ...] = (2, 5, 6, 32)
    core_probabilities: tuple[float, ...] = CORE_CASES["core-1"]
    durations: tuple[int, ...] = (1, 2, 3, 5, 8, 12)
    duration_probabilities: tuple[float, ...] = DURATION_CASES["duration-3"]
    notice: Law | int = _NOTICE
    slack: Law | int = _SLACK
    capacity_mean: float = 35.7
    capacity_swing: float = 0.0
    capacity_phase: float = 0.0
    capacity_correlation: float = 0.97
    capacity_deviation: float = 0.03
    capacity_floor: float = 0.0
    whole_capacity: bool = True

    def __post_init__(self) -> None:
        """Check every parameter."""
        whole_number("num_slots", self.num_slots)
        number("day_slots", self.day_slots, above=True)
        number("batch_mean", self.batch_mean, 1.0)
        for name in ("arrival_rate", "arrival_swing", "capacity_mean", "capacity_swing"):
            number(name, getattr(self, name))
        for name in ("capacity_correlation", "capacity_deviation", "capacity_floor"):
            number(name, getattr(self, name))
        for name in ("arrival_phase", "capacity_phase"):
            number(name, getattr(self, name), -math.inf, above=True)
        if self.capacity_correlation >= 1:
            raise InvalidConfiguration(f"capacity_correlation is {self.capacity_correlation!r}, want it below 1")
        if not isinstance(self.whole_capacity, bool | np.bool_):
            raise InvalidConfiguration(f"whole_capacity is {self.whole_capacity!r}, want True or False")
        _check_alike(self.batch_alike)
        for position, size in enumerate(_several("cores", self.cores)):
            number(f"cores[{position}]", size, above=True)
        for position, length in enumerate(_several("durations", self.durations)):
            whole_number(f"durations[{position}]", length)
        _check_probabilities("core_probabilities", self.core_probabilities, len(self.cores))
        _check_probabilities("duration_probabilities", self.duration_probabilities, len(self.durations))
        law_of("slack", self.slack)
        slots = self.num_slots + self.longest_notice
        expected = self.arrival_rate * (1 + self.arrival_swing) * slots
        if max(slots, expected) > _MOST_JOBS:
            raise InvalidConfiguration(
                f"arrival_rate is {self.arrival_rate!r}, up to {expected:g} jobs in {slots} slots from the first "
                f"submission on, want at most {_MOST_JOBS:g} of each"
            )

    @property
    def longest_notice(self) -> int:
        """The largest notice that a job may have, in slots."""
        return most_of("notice", law_of("notice", self.notice), max(self.durations))

    @property
    def mean_cores(self) -> float:
        """Mean number of cores of a job."""
        return float(np.dot(self.cores, self.core_probabilities))

    @property
    def mean_duration(self) -> float:
        """Mean length of a job, in slots."""
        return float(np.dot(self.durations, self.duration_probabilities))


def _several(name: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, tuple) or not values:
        raise InvalidConfiguration(f"{name} is {values!r}, want a tuple of numbers")
    return values


def _check_alike(alike: Any) -> None:
    if not isinstance(alike, tuple) or not set(alike) <= set(ALIKE):
        raise InvalidConfiguration(f"batch_alike is {alike!r}, want a tuple of some of {ALIKE}")


def _check_probabilities(name: str, values: Any, count: int) -> None:
    given = _several(name, values)
    if len(given) != count:
        raise InvalidConfiguration(f"{name} is {values!r}, want {count} numbers")
    total = math.fsum(number(f"{name}[{position}]", value) for position, value in enumerate(given))
    if abs(total - 1) > 1e-9:
        raise InvalidConfiguration(f"{name} is {values!r}, in sum {total:g}, want 1")
