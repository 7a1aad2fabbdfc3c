"""Randomly generated deferrable jobs and the capacity that on-demand jobs leave for them.

The OSDEC paper (Dong et al., "An Advanced Reinforcement Learning Framework for Online Scheduling of Deferrable
Workloads in Cloud Computing") takes its workload from the Azure packing trace of 2020. It does not state how, nor the
horizon, arrivals, sizes, lengths, windows and capacity. It does state the probabilities of four sizes and six
lengths (Table 4). We chose the other parameters, which are the defaults of `Settings`. We searched for values,
with mechanisms as simple as possible, for which three heuristics come close to the paper's results. Each heuristic
starts jobs in its order until the next one does not fit; FIFO orders by earliest start, SJF by cores times duration,
and Tetris by the same, largest first. The table shows means of 2,000 runs of `DEFAULT`, with standard errors of 6
(utilization) and 3 (delay), and in brackets the values of the paper's Table 1:

========= ============= ============ =============================
heuristic utilization   delay        utilization in real time
========= ============= ============ =============================
FIFO      3,555 (3,602) -233 (-194)  86 % (96 %) of the deferrable
SJF       3,522 (3,387) -128 (-112)  84 % (97 %)
Tetris    3,601 (3,690) -239 (-282)  88 % (95 %)
========= ============= ============ =============================

In the cases of Table 4, the utilization grows by the same factors as the paper's totals, within 10 %. In these settings
the largest jobs nearly fill the platform (32 of about 36 cores), so they block all others when they are next.
We found no settings that meet all this and lose as little in real time as the paper reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.checks import MOST_ITEMS, check_float, check_int, did_you_mean
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import Job
from desim.workloads.deferrable.distributions import Law, Sometimes, Uniform, drawn, law_of, most_of
from desim.workloads.streams import NamedStreams

__all__ = [
    "CORE_CASES",
    "DEFAULT",
    "DURATION_CASES",
    "FLUCTUATING",
    "PAPER",
    "Scenario",
    "Settings",
    "case",
    "generate",
    "named",
]

Floats = NDArray[np.float64]
Slots = NDArray[np.int64]

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

#: Attributes that the jobs of a batch can share.
_ALIKE = ("cores", "duration", "lead_time", "slack")

_LEAD_TIME, _SLACK = Uniform(0, 3), Sometimes(0.8, 13)

#: Largest expected number of jobs of a run, because all are kept in memory.
_MOST_JOBS = 1e8


@dataclass(frozen=True)
class Settings:
    """Parameters of generated deferrable jobs and of the capacity left for them.

    Jobs come in batches. The number of batches submitted in slot t is Poisson with mean
    ``arrival_rate / batch_mean * max(0, 1 + arrival_swing * sin(2 pi (t / day_slots + arrival_phase)))``. Jobs that
    were submitted before the run and whose windows open in it are known from slot 0 on. Jobs whose windows open
    after the run are left out. The capacity of slot t is
    ``capacity_mean * (1 + capacity_swing * sin(2 pi (t / day_slots + capacity_phase)) + x(t))``, where x is normal
    noise: an autoregressive process of order 1 with mean 0 that starts in its stationary distribution.

    Parameters
    ----------
    num_slots : int
        Length of the run in slots, >= 1.
    day_slots : float
        Length of a day in slots, > 0.
    arrival_rate : float
        Mean number of jobs per slot, >= 0.
    arrival_swing : float
        Amplitude of the daily cycle of the arrival rate, relative to its mean, >= 0.
    arrival_phase : float
        Phase of the daily cycle at slot 0, in days: 0.25 at the peak, 0.75 at the lowest point.
    batch_mean : float
        Mean number of jobs in a batch, >= 1; the number is geometric.
    batch_alike : tuple of str
        Attributes that the jobs of a batch share: any of ``"cores"``, ``"duration"``, ``"lead_time"`` and ``"slack"``.
    cores : tuple of float
        Possible sizes of jobs in cores, > 0.
    core_probabilities : tuple of float
        Probabilities of the sizes; their sum is 1.
    durations : tuple of int
        Possible durations of jobs in slots, >= 1.
    duration_probabilities : tuple of float
        Probabilities of the durations; their sum is 1.
    lead_time : Law or int
        Lead time: slots from a job's submission to its earliest start, as a number or a distribution such as `Uniform`.
    slack : Law or int
        Slots from the earliest to the latest start, as a number or a distribution.
    capacity_mean : float
        Mean capacity in cores, >= 0.
    capacity_swing, capacity_phase : float
        Amplitude and phase of the daily cycle of the capacity, as for the arrivals.
    capacity_correlation : float
        Correlation of x(t) and x(t + 1), >= 0 and < 1.
    capacity_deviation : float
        Standard deviation of x(t), >= 0.
    capacity_floor : float
        Smallest capacity in cores, >= 0.
    whole_capacity : bool
        Whether the capacity is rounded to whole cores, with halves rounded up.

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
    lead_time: Law | int = _LEAD_TIME
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
        check_int("num_slots", self.num_slots, least=1, most=MOST_ITEMS)
        check_float("day_slots", self.day_slots, above=0)
        check_float("batch_mean", self.batch_mean, least=1)
        for name in ("arrival_rate", "arrival_swing", "capacity_mean", "capacity_swing"):
            check_float(name, getattr(self, name), least=0)
        for name in ("capacity_deviation", "capacity_floor"):
            check_float(name, getattr(self, name), least=0)
        for name in ("arrival_phase", "capacity_phase"):
            check_float(name, getattr(self, name))
        check_float("capacity_correlation", self.capacity_correlation, least=0, below=1)
        if not isinstance(self.whole_capacity, bool | np.bool_):
            raise InvalidConfiguration(f"whole_capacity: got {self.whole_capacity!r}, expected True or False")
        if not isinstance(self.batch_alike, tuple) or not set(self.batch_alike) <= set(_ALIKE):
            raise InvalidConfiguration(f"batch_alike: got {self.batch_alike!r}, expected a tuple of some of {_ALIKE}")
        for position, size in enumerate(_several("cores", self.cores)):
            check_float(f"cores[{position}]", size, above=0)
        for position, length in enumerate(_several("durations", self.durations)):
            check_int(f"durations[{position}]", length, least=1)
        _check_probabilities("core_probabilities", self.core_probabilities, len(self.cores))
        _check_probabilities("duration_probabilities", self.duration_probabilities, len(self.durations))
        law_of("slack", self.slack)
        slots = self.num_slots + self.longest_lead_time
        expected = self.arrival_rate * (1 + self.arrival_swing) * slots
        if max(slots, expected) > _MOST_JOBS:
            raise InvalidConfiguration(
                f"arrival_rate: got {self.arrival_rate!r}, or up to {expected:g} jobs in {slots} slots from the "
                f"first submission on; expected at most {_MOST_JOBS:g} of each"
            )

    @property
    def longest_lead_time(self) -> int:
        """Largest lead time that a job can have, in slots."""
        return most_of("lead_time", law_of("lead_time", self.lead_time), max(self.durations))

    @property
    def mean_cores(self) -> float:
        """Mean number of cores of a job."""
        return float(np.dot(self.cores, self.core_probabilities))

    @property
    def mean_duration(self) -> float:
        """Mean duration of a job, in slots."""
        return float(np.dot(self.durations, self.duration_probabilities))


def _several(name: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, tuple) or not values:
        raise InvalidConfiguration(f"{name}: got {values!r}, expected a nonempty tuple of numbers")
    return values


def _check_probabilities(name: str, values: Any, count: int) -> None:
    given = _several(name, values)
    if len(given) != count:
        raise InvalidConfiguration(f"{name}: got {values!r}, expected {count} numbers")
    total = math.fsum(check_float(f"{name}[{position}]", value, least=0) for position, value in enumerate(given))
    if abs(total - 1) > 1e-9:
        raise InvalidConfiguration(f"{name}: got {values!r}, whose sum is {total:g}, expected a sum of 1")


#: The calibrated settings: core case 1 and duration case 3.
DEFAULT = Settings()

#: A second workload, with powers of two as sizes and a capacity that follows the time of day closely. With it, the
#: utilization of the heuristics comes close to Table 1, but neither FIFO's delay nor the ratios of Table 4 do.
FLUCTUATING = Settings(
    num_slots=100,
    arrival_rate=15.2,
    arrival_swing=0.0,
    cores=(1, 2, 4, 8),
    durations=(1, 2, 3, 4),
    duration_probabilities=(0.6, 0.25, 0.1, 0.05),
    lead_time=Uniform(0, 3),
    slack=Uniform(0, 1),
    capacity_mean=41.7,
    capacity_swing=0.39,
    capacity_correlation=0.7,
    capacity_deviation=0.03,
)


#: Workloads on which FIFO, SJF (by cores times duration) and Tetris come close to a table of the OSDEC paper if each
#: skips jobs that do not fit and starts only jobs that fit for their whole duration. The tables imply this, because
#: utilization and delay add up to the total: the rules never exceed the capacity. We fitted only the rules' results.
PAPER: Mapping[str, Settings] = MappingProxyType(
    {
        "osdec-table-1": Settings(
            num_slots=168,
            arrival_rate=3.95,
            arrival_swing=0.4,
            batch_mean=3.4,
            cores=(2, 5, 7, 32),
            durations=(1, 2, 3, 4, 6, 8),
            slack=Sometimes(0.43, Uniform(2, 7)),
            capacity_mean=36.0,
            capacity_swing=0.4,
            capacity_phase=0.75,
            capacity_correlation=0.64,
            capacity_deviation=0.27,
        ),
        "osdec-table-2": Settings(
            num_slots=168,
            arrival_rate=4.54,
            arrival_swing=0.75,
            batch_mean=2.0,
            cores=(2, 4, 6, 28),
            durations=(1, 2, 3, 4, 6, 7),
            slack=Sometimes(0.28, Uniform(4, 6)),
            capacity_mean=42.1,
            capacity_swing=0.29,
            capacity_correlation=0.84,
            capacity_deviation=0.23,
        ),
        "osdec-core-1": Settings(
            num_slots=168,
            arrival_rate=3.63,
            arrival_swing=0.59,
            batch_mean=2.7,
            cores=(2, 4, 6, 58),
            durations=(1, 2, 3, 4, 6, 7),
            core_probabilities=CORE_CASES["core-1"],
            slack=Sometimes(0.63, Uniform(0, 1)),
            capacity_mean=69.8,
            capacity_swing=0.18,
            capacity_phase=0.79,
            capacity_correlation=0.43,
            capacity_deviation=0.26,
        ),
        "osdec-core-2": Settings(
            num_slots=168,
            arrival_rate=3.31,
            arrival_swing=1.37,
            batch_mean=1.4,
            cores=(3, 5, 8, 89),
            durations=(1, 2, 3, 4, 5, 6),
            core_probabilities=CORE_CASES["core-2"],
            slack=Sometimes(0.7, Uniform(0, 0)),
            capacity_mean=103.4,
            capacity_swing=0.06,
            capacity_phase=0.74,
            capacity_correlation=0.75,
            capacity_deviation=0.08,
        ),
        "osdec-core-3": Settings(
            num_slots=168,
            arrival_rate=4.67,
            arrival_swing=1.05,
            batch_mean=5.4,
            cores=(2, 4, 7, 76),
            durations=(1, 2, 3, 4, 5, 11),
            core_probabilities=CORE_CASES["core-3"],
            slack=Sometimes(0.44, Uniform(0, 2)),
            capacity_mean=58.5,
            capacity_swing=0.8,
            capacity_phase=0.74,
            capacity_correlation=0.66,
            capacity_deviation=0.09,
        ),
        "osdec-duration-1": Settings(
            num_slots=168,
            arrival_rate=9.35,
            arrival_swing=1.09,
            batch_mean=5.3,
            cores=(6, 10, 11, 24),
            durations=(1, 3, 4, 11, 15, 19),
            duration_probabilities=DURATION_CASES["duration-1"],
            slack=Sometimes(0.39, Uniform(2, 8)),
            capacity_mean=73.0,
            capacity_swing=0.97,
            capacity_phase=0.21,
            capacity_correlation=0.75,
            capacity_deviation=0.05,
        ),
        "osdec-duration-2": Settings(
            num_slots=168,
            arrival_rate=15.24,
            arrival_swing=0.05,
            batch_mean=8.7,
            cores=(1, 26, 30, 39),
            durations=(1, 2, 3, 5, 6, 7),
            duration_probabilities=DURATION_CASES["duration-2"],
            slack=Sometimes(0.12, Uniform(2, 7)),
            capacity_mean=42.1,
            capacity_swing=0.3,
            capacity_phase=0.09,
            capacity_correlation=0.63,
            capacity_deviation=0.34,
        ),
        "osdec-duration-3": Settings(
            num_slots=168,
            arrival_rate=1.82,
            arrival_swing=0.37,
            batch_mean=3.0,
            cores=(6, 17, 19, 33),
            durations=(1, 2, 4, 5, 7, 8),
            duration_probabilities=DURATION_CASES["duration-3"],
            slack=Sometimes(0.65, Uniform(1, 4)),
            capacity_mean=34.6,
            capacity_swing=0.18,
            capacity_phase=0.65,
            capacity_correlation=0.65,
            capacity_deviation=0.06,
        ),
    }
)


class Scenario(NamedTuple):
    """Jobs and capacity of one run.

    Attributes
    ----------
    jobs : tuple of Job
        Jobs in order of submission.
    capacity : numpy.ndarray of shape (num_slots,)
        Cores left for deferrable jobs in each slot; read-only.
    num_slots : int
        Length of the run in slots.
    """

    jobs: tuple[Job, ...]
    capacity: Floats
    num_slots: int


def case(name: str, settings: Settings = DEFAULT) -> Settings:
    """Return settings with the sizes or durations of a case in the OSDEC paper's Table 4.

    Parameters
    ----------
    name : str
        Name of the case: ``"core-1"`` to ``"core-3"``, or ``"duration-1"`` to ``"duration-3"``.
    settings : Settings
        Settings for all other parameters. With the default, core cases have the durations of duration case 3, and
        duration cases the sizes of core case 1, so ``"core-1"`` and ``"duration-3"`` are the same.

    Returns
    -------
    Settings
        Settings with the probabilities of the case.

    Raises
    ------
    InvalidConfiguration
        If there is no such case.

    Examples
    --------
    >>> case("core-2").core_probabilities, case("core-1") == case("duration-3") == DEFAULT
    ((0.25, 0.25, 0.25, 0.25), True)
    """
    if name in CORE_CASES:
        return replace(settings, core_probabilities=CORE_CASES[name])
    if name in DURATION_CASES:
        return replace(settings, duration_probabilities=DURATION_CASES[name])
    raise InvalidConfiguration(f"unknown case {name!r}; expected one of {', '.join([*CORE_CASES, *DURATION_CASES])}")


def named(name: str) -> Settings:
    """Return settings by name.

    Parameters
    ----------
    name : str
        Name of the settings: ``"default"``, ``"fluctuating"``, a key of :data:`PAPER`, or a case of :func:`case`.

    Returns
    -------
    Settings
        `DEFAULT`, `FLUCTUATING`, a workload of the paper, or a variant of `DEFAULT`.

    Raises
    ------
    InvalidConfiguration
        If there are no settings of this name.

    Examples
    --------
    >>> named("fluctuating") == FLUCTUATING
    True
    """
    settings = {"default": DEFAULT, "fluctuating": FLUCTUATING, **PAPER}
    if name in settings:
        return settings[name]
    known = [*settings, *CORE_CASES, *DURATION_CASES]
    if name not in known:
        near = did_you_mean(name, known)
        raise InvalidConfiguration(f"unknown deferrable workload {name!r}{near}; expected one of {', '.join(known)}")
    return case(name)


def generate(settings: Settings = DEFAULT, *, seed: int | Generator = 0) -> Scenario:
    """Generate the jobs and the capacity of one run.

    Arrivals, batches, sizes, durations, lead times, slack and capacity have independent random streams. For the same
    seed, other probabilities of sizes therefore change only the sizes, and so on. Another `lead_time` changes only
    times and, through them, which windows open in the run. A shorter run has the same capacity, and the same jobs
    except those whose windows open after its end.

    Parameters
    ----------
    settings : Settings
        Parameters of the run.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once.

    Returns
    -------
    Scenario
        Jobs, all of whose windows open within the run, and capacity.

    Raises
    ------
    InvalidConfiguration
        If the seed is invalid, or a distribution does not give integer numbers of slots >= 0.

    Examples
    --------
    >>> jobs, capacity, num_slots = generate(seed=1)
    >>> other = generate(case("core-3"), seed=1)
    >>> [job.cores for job in jobs] == [job.cores for job in other.jobs]
    False
    >>> [job._replace(cores=1) for job in jobs] == [job._replace(cores=1) for job in other.jobs]
    True
    """
    streams = NamedStreams(seed)
    return Scenario(_draw_jobs(settings, streams), _draw_capacity(settings, streams), settings.num_slots)


def _draw_jobs(settings: Settings, streams: NamedStreams) -> tuple[Job, ...]:
    """Return the jobs whose windows open in the run, including those that were submitted before it."""
    # Backwards in time and with separate streams, so that the longest lead time does not influence other jobs
    before = _draw_columns(settings, np.arange(-1, -1 - settings.longest_lead_time, -1), streams, "before")
    during = _draw_columns(settings, np.arange(settings.num_slots), streams, "during")
    columns = np.concatenate([before[:, np.argsort(before[0], kind="stable")], during], axis=1)
    earliest = columns[1]
    columns = columns[:, (earliest >= 0) & (earliest < settings.num_slots)]
    columns[0] = np.maximum(columns[0], 0)
    cores = [settings.cores[place] for place in columns[4].tolist()]
    rows = zip(*columns[:4].tolist(), cores, strict=True)
    return tuple(Job(job_id, *row) for job_id, row in enumerate(rows))


def _draw_columns(settings: Settings, slots: Slots, streams: NamedStreams, part: str) -> Slots:
    """Return submission, earliest start, latest start, duration and index of the size, one column per job."""
    rate = np.maximum(1 + _wave(slots, settings.arrival_swing, settings.arrival_phase, settings.day_slots), 0)
    batches = streams(f"deferrable.arrivals {part}").poisson(settings.arrival_rate / settings.batch_mean * rate)
    of_batches = np.repeat(slots, batches)
    sizes = streams(f"deferrable.batches {part}").geometric(1 / settings.batch_mean, len(of_batches))
    batch_of = np.repeat(np.arange(len(of_batches)), sizes)

    def uniforms(name: str) -> Floats:
        """Return one number per job, the same for the jobs of a batch if they share this attribute."""
        rng = streams(f"deferrable.{name} {part}")
        if name in settings.batch_alike:
            return rng.random(len(of_batches))[batch_of]
        return rng.random(len(batch_of))

    submitted = of_batches[batch_of]
    size = _pick(settings.core_probabilities, uniforms("cores"))
    duration = np.array(settings.durations)[_pick(settings.duration_probabilities, uniforms("duration"))]
    earliest = submitted + drawn("lead_time", law_of("lead_time", settings.lead_time), uniforms("notice"), duration)
    latest = earliest + drawn("slack", law_of("slack", settings.slack), uniforms("slack"), duration)
    return np.stack([submitted, earliest, latest, duration, size])


def _wave(slots: Slots, swing: float, phase: float, day_slots: float) -> Floats:
    found: Floats = swing * np.sin(2 * math.pi * (slots / day_slots + phase))
    return found


def _pick(probabilities: tuple[float, ...], uniforms: Floats) -> Slots:
    """Return indices with the given probabilities; rounding errors never select one of probability 0."""
    found = np.searchsorted(np.cumsum(probabilities), uniforms, side="right")
    return np.minimum(found, int(np.flatnonzero(probabilities)[-1]))


def _draw_capacity(settings: Settings, streams: NamedStreams) -> Floats:
    noise = streams("deferrable.capacity").standard_normal(settings.num_slots)
    correlation = settings.capacity_correlation
    noise[1:] *= math.sqrt(1 - correlation**2)
    for slot in range(1, settings.num_slots):
        noise[slot] += correlation * noise[slot - 1]
    wave = _wave(np.arange(settings.num_slots), settings.capacity_swing, settings.capacity_phase, settings.day_slots)
    capacity = settings.capacity_mean * (1 + wave + settings.capacity_deviation * noise)
    if settings.whole_capacity:
        capacity = np.floor(np.round(capacity, 9) + 0.5)  # rounds halves up with any library's sine
    capacity = np.maximum(capacity, settings.capacity_floor)
    capacity.flags.writeable = False
    return capacity
