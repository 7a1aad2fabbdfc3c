"""Deferrable jobs and the capacity that on-demand jobs leave for them, drawn at random.

The OSDEC paper (Dong et al., "An Advanced Reinforcement Learning Framework for Online Scheduling of Deferrable
Workloads in Cloud Computing") takes its workload from the Azure packing trace of 2020, but tells neither how, nor the
horizon, arrivals, sizes, lengths, windows and capacity. What it does tell are the probabilities of four sizes and six
lengths (Table 4). The rest are the defaults of `Settings`, which are our choice. They were searched for, with the
simplest mechanisms that would do, so that three heuristics come close to what the paper reports of them. Each starts
jobs in its order until the next one does not fit; FIFO by earliest start, SJF by cores times duration, Tetris by the
same but the largest first. Means of 2,000 runs of `DEFAULT`, with standard errors of 6 (utilization) and 3 (delay), and
of the paper's Table 1 in brackets:

========= ============= ============ =============================
heuristic utilization   delay        utilization in real time
========= ============= ============ =============================
FIFO      3,555 (3,602) -233 (-194)  86 % (96 %) of the deferrable
SJF       3,522 (3,387) -128 (-112)  84 % (97 %)
Tetris    3,601 (3,690) -239 (-282)  88 % (95 %)
========= ============= ============ =============================

The utilization in the cases of Table 4 grows by the same factors as the paper's totals, up to 10 %. In these settings
the largest jobs nearly fill the platform (32 of about 36 cores), so that they hold up all others when they are next.
No settings were found that meet all this and lose as little in real time as the paper reports.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import Job
from desim.workloads._deferrable_settings import CORE_CASES, DURATION_CASES, Settings
from desim.workloads._named_streams import NamedStreams
from desim.workloads._window_laws import Constant, Geometric, Law, Proportional, Sometimes, Uniform, UpTo, drawn, law_of

__all__ = [
    "CORE_CASES",
    "DEFAULT",
    "DURATION_CASES",
    "FLUCTUATING",
    "Constant",
    "Geometric",
    "Law",
    "Proportional",
    "Scenario",
    "Settings",
    "Sometimes",
    "Uniform",
    "UpTo",
    "case",
    "descriptions",
    "generate",
    "named",
]

Floats = NDArray[np.float64]
Slots = NDArray[np.int64]

#: The calibrated settings: core case 1 with duration case 3.
DEFAULT = Settings()

#: A second workload, with sizes that are powers of two and a capacity that follows the time of the day closely. With it
#: the utilization of the heuristics comes near Table 1, but neither FIFO's delay nor the ratios of Table 4.
FLUCTUATING = Settings(
    num_slots=100,
    arrival_rate=15.2,
    arrival_swing=0.0,
    cores=(1, 2, 4, 8),
    durations=(1, 2, 3, 4),
    duration_probabilities=(0.6, 0.25, 0.1, 0.05),
    notice=Uniform(0, 3),
    slack=Uniform(0, 1),
    capacity_mean=41.7,
    capacity_swing=0.39,
    capacity_correlation=0.7,
    capacity_deviation=0.03,
)


class Scenario(NamedTuple):
    """Jobs and capacity of one run.

    Attributes
    ----------
    jobs : tuple of Job
        In the order of their submission.
    capacity : numpy.ndarray of shape (num_slots,)
        Cores that are left in each slot; read-only.
    num_slots : int
        Length of the run.
    """

    jobs: tuple[Job, ...]
    capacity: Floats
    num_slots: int


def case(name: str, settings: Settings = DEFAULT) -> Settings:
    """Return settings with the sizes or lengths of a case of the OSDEC paper's Table 4.

    Parameters
    ----------
    name : str
        ``"core-1"`` to ``"core-3"``, or ``"duration-1"`` to ``"duration-3"``.
    settings : Settings
        What everything else is taken from. By default the core cases have the lengths of duration case 3, and the
        duration cases the sizes of core case 1, so that ``"core-1"`` and ``"duration-3"`` are the same.

    Returns
    -------
    Settings
        Other probabilities, everything else the same.

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
    raise InvalidConfiguration(f"there is no case {name!r}, want one of {', '.join([*CORE_CASES, *DURATION_CASES])}")


def named(name: str) -> Settings:
    """Return settings by name.

    Parameters
    ----------
    name : str
        ``"default"``, ``"fluctuating"``, or a case of :func:`case`.

    Returns
    -------
    Settings
        `DEFAULT`, `FLUCTUATING`, or a variant of the first.

    Raises
    ------
    InvalidConfiguration
        If there are none of that name.

    Examples
    --------
    >>> named("fluctuating") == FLUCTUATING
    True
    """
    settings = {"default": DEFAULT, "fluctuating": FLUCTUATING}
    return settings[name] if name in settings else case(name)


def descriptions() -> dict[str, str]:
    """Return the names that :func:`named` knows, with a line on each.

    Returns
    -------
    dict of str to str
        In the order in which they are listed.
    """
    cases = dict.fromkeys((*CORE_CASES, *DURATION_CASES), "The first one with this case of the OSDEC paper's table 4.")
    return {
        "default": "Deferrable jobs and capacity drawn from a seed, fitted to what the OSDEC paper tells.",
        "fluctuating": "The same with sizes that are powers of two and a capacity that follows the time of the day.",
        **cases,
    }


def generate(settings: Settings = DEFAULT, *, seed: int | Generator = 0) -> Scenario:
    """Draw the jobs and the capacity of one run.

    Arrivals, batches, sizes, lengths, notice, slack and capacity have random streams of their own. With one seed, other
    probabilities of the sizes change the sizes and nothing else, and so on; another notice changes nothing but times
    and, with them, which windows open in the run; and a shorter run has the same jobs, as far as their windows open in
    it, and the same capacity.

    Parameters
    ----------
    settings : Settings
        The parameters.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once.

    Returns
    -------
    Scenario
        The windows of all jobs open within the run.

    Raises
    ------
    InvalidConfiguration
        If the seed is none, or a law gives no whole numbers of slots.

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
    """Return the jobs that were submitted before the run, and those that are in it, whose windows open in it."""
    # Backwards in time and from streams of their own, so that the longest notice has no influence on the others
    before = _draw_columns(settings, np.arange(-1, -1 - settings.longest_notice, -1), streams, "before")
    during = _draw_columns(settings, np.arange(settings.num_slots), streams, "during")
    columns = np.concatenate([before[:, np.argsort(before[0], kind="stable")], during], axis=1)
    earliest = columns[1]
    columns = columns[:, (earliest >= 0) & (earliest < settings.num_slots)]
    columns[0] = np.maximum(columns[0], 0)
    cores = [settings.cores[place] for place in columns[4].tolist()]
    rows = zip(*columns[:4].tolist(), cores, strict=True)
    return tuple(Job(job_id, *row) for job_id, row in enumerate(rows))


def _draw_columns(settings: Settings, slots: Slots, streams: NamedStreams, part: str) -> Slots:
    """Return submission, earliest start, latest start, duration and position of the size, one column a job."""
    rate = np.maximum(1 + _wave(slots, settings.arrival_swing, settings.arrival_phase, settings.day_slots), 0)
    batches = streams(f"deferrable.arrivals {part}").poisson(settings.arrival_rate / settings.batch_mean * rate)
    of_batches = np.repeat(slots, batches)
    sizes = streams(f"deferrable.batches {part}").geometric(1 / settings.batch_mean, len(of_batches))
    batch_of = np.repeat(np.arange(len(of_batches)), sizes)

    def uniforms(name: str) -> Floats:
        """Return a number for each job, the same for those of a batch that are alike."""
        rng = streams(f"deferrable.{name} {part}")
        if name in settings.batch_alike:
            return rng.random(len(of_batches))[batch_of]
        return rng.random(len(batch_of))

    submitted = of_batches[batch_of]
    size = _pick(settings.core_probabilities, uniforms("cores"))
    duration = np.array(settings.durations)[_pick(settings.duration_probabilities, uniforms("duration"))]
    earliest = submitted + drawn("notice", law_of("notice", settings.notice), uniforms("notice"), duration)
    latest = earliest + drawn("slack", law_of("slack", settings.slack), uniforms("slack"), duration)
    return np.stack([submitted, earliest, latest, duration, size])


def _wave(slots: Slots, swing: float, phase: float, day_slots: float) -> Floats:
    found: Floats = swing * np.sin(2 * math.pi * (slots / day_slots + phase))
    return found


def _pick(probabilities: tuple[float, ...], uniforms: Floats) -> Slots:
    """Return indices, each with its probability; none that has 0, whatever is lost by rounding."""
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
        capacity = np.floor(np.round(capacity, 9) + 0.5)  # so that halves are, with any library of sines
    capacity = np.maximum(capacity, settings.capacity_floor)
    capacity.flags.writeable = False
    return capacity
