"""How near simulated waits come to those that a log recorded: shares, errors, groups of jobs, distributions.

A wait is *near* if it is off by at most ten minutes, or by at most 20 % of what the log says. A job that the simulation
never starts is not near, and is left out of errors and distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.batch.job import Job

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "NEAR_SECONDS",
    "NEAR_SHARE",
    "RecordedWaits",
    "WaitAccuracy",
    "draw_groups",
    "draw_waits",
    "group_nearness",
    "idle_waits",
    "nearness",
    "quantiles_of",
    "wait_log",
]

NEAR_SECONDS = 600.0
"""A wait is near if it is off by so many seconds,"""
NEAR_SHARE = 0.2
"""or by such a share of the recorded one."""

Floats = NDArray[np.float64]
#: Upper ends of the classes of cores, and of requested time in seconds with what they are called.
_CORES = (1, 4, 16, 64)
_TIMES = {"to 15 min": 900.0, "to 1 h": 3_600.0, "to 4 h": 14_400.0, "to 1 day": 86_400.0, "to 4 days": 345_600.0}
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
#: Curves of more waits are drawn through so many quantiles.
_MOST_POINTS = 2_000


@dataclass(frozen=True)
class RecordedWaits:
    """The waits that a log recorded, and groups of its jobs.

    Parameters
    ----------
    waiting_time : array of float
        Of each job, in seconds, nan where it is not known.
    groups : mapping of str to (array of int, list of str)
        By what jobs are told apart: the number of each job's group, and what groups are called.
    """

    waiting_time: Floats
    groups: Mapping[str, tuple[NDArray[np.int64], list[str]]]


@dataclass(frozen=True)
class WaitAccuracy:
    """How near predicted waits are to recorded ones; times are in seconds.

    Attributes
    ----------
    jobs : int
        Jobs whose wait is recorded.
    started : int
        Those of them that were started in the simulation, too.
    near : float
        Share of the jobs whose wait is near.
    mean_recorded, mean_predicted : float
        Means of the waits, of the jobs that were started.
    mean_absolute_error, median_absolute_error : float
        Of the same jobs.
    rank_correlation : float
        Spearman's coefficient: 1 if the simulation knows which jobs wait longer; nan if all waits of a side are equal.
    distance : float
        Largest difference of the two cumulative distributions of waits (Kolmogorov and Smirnov), from 0 to 1.
    """

    jobs: int
    started: int
    near: float
    mean_recorded: float
    mean_predicted: float
    mean_absolute_error: float
    median_absolute_error: float
    rank_correlation: float
    distance: float

    @property
    def bias(self) -> float:
        """Mean of predicted less recorded waits, in seconds."""
        return self.mean_predicted - self.mean_recorded


def wait_log(
    jobs: Sequence[Job],
    waiting_time: ArrayLike,
    *,
    queues: Sequence[str] | None = None,
    clock_start: float = 0.0,
    zone: tzinfo = UTC,
) -> RecordedWaits:
    """Put recorded waits into groups: by cores, requested time, hour of submission and, if known, queue.

    Parameters
    ----------
    jobs : sequence of Job
        Of the log, in the order of their submission.
    waiting_time : array_like
        Of each job, in seconds, nan where it is not known.
    queues : sequence of str, optional
        The queue of each job, ``""`` where it is not known.
    clock_start : float
        Time 0 of the jobs' clock in seconds since 1970, for the hours of the day.
    zone : tzinfo
        Where the machine stood.

    Returns
    -------
    RecordedWaits
        Queues are sorted by their numbers of jobs, the largest first.

    Raises
    ------
    InvalidConfiguration
        If the lengths differ, or no wait is known.
    """
    waits = np.array(waiting_time, dtype=np.float64)
    if len(waits) != len(jobs) or (queues is not None and len(queues) != len(jobs)):
        raise InvalidConfiguration(f"{len(jobs)} jobs, but {len(waits)} waits: want one of each for every job")
    if np.isnan(waits).all():
        raise InvalidConfiguration("the log states no waits: nothing to compare with")
    cores = np.array([job.requested_cores for job in jobs])
    times = np.array([job.requested_time for job in jobs])
    hours = [datetime.fromtimestamp(clock_start + job.submission_time, zone).hour for job in jobs]
    begins = [1, *(end + 1 for end in _CORES)]
    widths = [f"{begin}" if begin == end else f"{begin} to {end}" for begin, end in zip(begins, _CORES, strict=False)]
    groups = {
        "cores": (np.searchsorted(_CORES, cores), [*widths, f"{begins[-1]} or more"]),
        "requested time": (np.searchsorted(list(_TIMES.values()), times), [*_TIMES, "longer"]),
        "hour of submission": (np.array(hours, dtype=np.int64), [f"{hour:02}" for hour in range(24)]),
    }
    if queues is not None:
        counts = {name: queues.count(name) for name in dict.fromkeys(queues)}
        names = sorted(counts, key=lambda name: (-counts[name], name))
        places = {name: place for place, name in enumerate(names)}
        groups["queue"] = (np.array([places[name] for name in queues]), [name or "unknown" for name in names])
    return RecordedWaits(waits, {by: (group.astype(np.int64), names) for by, (group, names) in groups.items()})


def nearness(predicted: ArrayLike, recorded: ArrayLike) -> WaitAccuracy:
    """Compare waits job by job, and their distributions.

    Parameters
    ----------
    predicted : array_like
        Waits in a simulation, in seconds, nan for jobs that were not started.
    recorded : array_like
        Those of the log, nan where they are not known.

    Returns
    -------
    WaitAccuracy
        Of the jobs whose wait is recorded; where there is none, all shares and times are nan.

    Examples
    --------
    >>> found = nearness([0.0, 500.0, 9_000.0], [100.0, 5_000.0, 10_000.0])
    >>> found.near, found.median_absolute_error
    (0.6666666666666666, 1000.0)
    """
    ours, real = np.asarray(predicted, dtype=np.float64), np.asarray(recorded, dtype=np.float64)
    known = ~np.isnan(real)
    ours, real = ours[known], real[known]
    started = ~np.isnan(ours)
    near = np.abs(ours - real) <= np.maximum(NEAR_SECONDS, NEAR_SHARE * real)  # false for nan
    share = float(near.mean()) if len(real) else np.nan
    ours, real = ours[started], real[started]
    if not len(real):
        return WaitAccuracy(int(known.sum()), 0, share, *[np.nan] * 6)
    errors = np.abs(ours - real)
    varied = np.ptp(ours) > 0 and np.ptp(real) > 0
    places = np.concatenate([ours, real])
    shares = [np.searchsorted(np.sort(waits), places, side="right") / len(waits) for waits in (ours, real)]
    return WaitAccuracy(
        jobs=int(known.sum()),
        started=len(real),
        near=share,
        mean_recorded=float(real.mean()),
        mean_predicted=float(ours.mean()),
        mean_absolute_error=float(errors.mean()),
        median_absolute_error=float(np.median(errors)),
        rank_correlation=float(np.corrcoef(_ranks(ours), _ranks(real))[0, 1]) if varied else np.nan,
        distance=float(np.abs(shares[0] - shares[1]).max()),
    )


def _ranks(values: Floats) -> Floats:
    """Return the rank of each value; equal ones share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks


def group_nearness(predicted: ArrayLike, log: RecordedWaits) -> dict[str, dict[str, WaitAccuracy]]:
    """Compare waits in each group of jobs that has a recorded wait.

    Parameters
    ----------
    predicted : array_like
        Waits in a simulation, in seconds, nan for jobs that were not started.
    log : RecordedWaits
        The recorded ones.

    Returns
    -------
    dict of str to dict of str to WaitAccuracy
        By what jobs are told apart, and by group.
    """
    waits = np.asarray(predicted, dtype=np.float64)
    known = ~np.isnan(log.waiting_time)
    return {
        by: {
            name: nearness(waits[members], log.waiting_time[members])
            for number, name in enumerate(names)
            if (members := known & (group == number)).any()
        }
        for by, (group, names) in log.groups.items()
    }


def idle_waits(
    jobs: Sequence[Job], waiting_time: ArrayLike, num_cores: int, *, counted: ArrayLike | None = None
) -> tuple[int, int]:
    """Count the long waits of a log, and those of them that no lack of cores explains.

    Parameters
    ----------
    jobs : sequence of Job
        Of the log, in the order of their submission; they are taken to run for their run times.
    waiting_time : array_like
        Of each job, in seconds, nan where it is not known; such a job holds no cores here.
    num_cores : int
        Cores of the machine.
    counted : array_like of bool, optional
        Which jobs' waits count; by default all that are known.

    Returns
    -------
    long : int
        Waits of more than ten minutes.
    idle : int
        Those of them during which enough cores for the job were free all the time, in the recorded schedule.

    Examples
    --------
    >>> jobs = [Job(1, 0.0, 3, 5000.0, 5000.0), Job(2, 0.0, 1, 60.0, 60.0), Job(3, 0.0, 2, 60.0, 60.0)]
    >>> idle_waits(jobs, [0.0, 1000.0, 5000.0], num_cores=4)
    (2, 1)
    """
    waits = np.asarray(waiting_time, dtype=np.float64)
    begins = np.array([job.submission_time for job in jobs])
    cores = np.array([job.requested_cores for job in jobs])
    starts = begins + waits
    known = ~np.isnan(starts)
    ends = starts + np.array([job.run_time for job in jobs])
    times = np.concatenate([[-np.inf], starts[known], ends[known]])
    changes = np.concatenate([[0], cores[known], -cores[known]])
    order = np.lexsort((changes, times))  # what is freed at an instant can be taken at it
    times, most = times[order], changes[order].cumsum()
    is_long = known & (waits > NEAR_SECONDS) & (True if counted is None else np.asarray(counted, dtype=np.bool_))
    first = np.searchsorted(times, begins[is_long], side="right") - 1
    count = np.searchsorted(times, starts[is_long], side="left") - first
    # The most busy cores within each wait, of all waits at once: in round k, most[i] is the maximum of 2**k instants
    # from i on, and two such spans, which may overlap, cover a wait of less than twice as many
    levels, peaks = np.frexp(count)[1] - 1, np.zeros(len(count), dtype=np.int64)
    for level in range(int(levels.max(initial=-1)) + 1):
        here = levels == level
        last = first[here] + count[here] - 2**level
        peaks[here] = np.maximum(most[first[here]], most[last])
        most = np.maximum(most[: -(2**level)], most[2**level :])
    return len(count), int((peaks + cores[is_long] <= num_cores).sum())


def quantiles_of(waits: ArrayLike) -> dict[str, float]:
    """Return quantiles of waits, such as ``p50``, and their mean, of those that are known."""
    values = np.asarray(waits, dtype=np.float64)
    values = values[~np.isnan(values)] if not np.isnan(values).all() else np.array([np.nan])
    found = {f"p{100 * share:g}": float(np.quantile(values, share)) for share in _QUANTILES}
    return found | {"mean": float(values.mean())}


def draw_waits(waits: Mapping[str, ArrayLike], *, recorded: str = "recorded", axes: Axes | None = None) -> Axes:
    """Draw which share of the jobs waited for no longer than a time, for the log and for each agent.

    Parameters
    ----------
    waits : mapping of str to array_like
        In seconds, by name; nan is left out.
    recorded : str
        The name of those of the log, which are drawn in black.
    axes : Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes
        Lines with gid ``curve``; the time axis is linear up to a minute, and logarithmic from there on.

    Raises
    ------
    InvalidConfiguration
        If there is nothing to draw.
    """
    from desim.plotting.axes import add_legend, new_panels, plain
    from desim.plotting.colors import line_styles

    if not waits:
        raise InvalidConfiguration("waits is an empty mapping, want the waits of at least one agent")
    styles = line_styles([name for name in waits if name != recorded])
    (panel,) = new_panels(axes, 1, height=3.6)
    entries = []
    for name, values in waits.items():
        known = np.asarray(values, dtype=np.float64)
        shares = np.linspace(0.0, 1.0, min(int((~np.isnan(known)).sum()), _MOST_POINTS))
        places = np.quantile(known[~np.isnan(known)], shares)
        look: Any = {"color": "black", "linewidth": 2.2}
        if name != recorded:
            look = {"color": styles[name].color, "linestyle": styles[name].dashes, "linewidth": 1.3}
        entries.append((name, panel.plot(places, 100.0 * shares, gid="curve", **look)[0]))
    panel.set_xscale("symlog", linthresh=60.0)
    _mark_times(panel.xaxis)
    panel.set(xlim=(0.0, None), ylim=(0.0, 102.0), xlabel="wait", ylabel="jobs that waited no longer (%)")
    plain(panel, grid="both")
    add_legend([panel], entries)
    return panel


def _mark_times(axis: Any) -> None:
    marks = {"0": 0, "1 min": 60, "10 min": 600, "1 h": 3_600, "6 h": 21_600, "1 day": 86_400, "1 week": 604_800}
    axis.set_ticks(list(marks.values()), labels=list(marks))
    axis.set_ticks([], minor=True)


def draw_groups(
    found: Mapping[str, Mapping[str, Mapping[str, WaitAccuracy]]],
    *,
    value: Callable[[WaitAccuracy], float] = lambda one: 100.0 * one.near,
    label: str = "near (%)",
) -> list[Axes]:
    """Draw how near agents come in each group of jobs, one panel for each way to tell jobs apart.

    Parameters
    ----------
    found : mapping of str to mapping
        By agent, what `group_nearness` returns.
    value : callable
        What is drawn of each group.
    label : str
        What it is called.

    Returns
    -------
    list of Axes
        Lines with gid ``curve``, one an agent.

    Raises
    ------
    InvalidConfiguration
        If there is nothing to draw.
    """
    from desim.plotting.axes import add_legend, new_figure, plain
    from desim.plotting.colors import line_styles

    if not found:
        raise InvalidConfiguration("found is an empty mapping, want the groups of at least one agent")
    styles = line_styles(found)
    ways = list(next(iter(found.values())))
    figure = new_figure(9.0, 0.6 + 2.2 * len(ways))
    panels: list[Axes] = figure.subplots(len(ways), 1, squeeze=False).ravel().tolist()
    entries: dict[str, Any] = {}
    for panel, by in zip(panels, ways, strict=True):
        names = list(next(iter(found.values()))[by])
        for agent, groups in found.items():
            look: Any = {"color": styles[agent].color, "linestyle": styles[agent].dashes, "linewidth": 1.3}
            heights = [value(groups[by][name]) for name in names]
            entries[agent] = panel.plot(range(len(names)), heights, gid="curve", marker="o", markersize=3.0, **look)[0]
        panel.set_xticks(range(len(names)), labels=names)
        panel.set(xlabel=by, ylabel=label)
        plain(panel, grid="y")
    add_legend(panels, entries.items())
    return panels
