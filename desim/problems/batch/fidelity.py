"""Accuracy of simulated waiting times against a log: shares, errors, groups of jobs and distributions.

A simulated wait is *near* the recorded one if it differs by at most ten minutes, or by at most 20 % of the recorded
wait. A job that the simulation never starts is not near, and does not enter errors and distributions.
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
"""Absolute tolerance in seconds: a wait is near if it differs by at most this."""
NEAR_SHARE = 0.2
"""Relative tolerance: a wait is also near if it differs by at most this share of the recorded wait."""

Floats = NDArray[np.float64]
#: Upper bounds of the classes of cores, and of the classes of requested time in seconds, with their names.
_CORES = (1, 4, 16, 64)
_TIMES = {"to 15 min": 900.0, "to 1 h": 3_600.0, "to 4 h": 14_400.0, "to 1 day": 86_400.0, "to 4 days": 345_600.0}
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
#: Curves of more waits than this are drawn through this number of quantiles.
_MOST_POINTS = 2_000


@dataclass(frozen=True)
class RecordedWaits:
    """Waiting times recorded in a log, and groups of its jobs.

    Parameters
    ----------
    waiting_time : array of float
        Wait of each job in seconds; nan if unknown.
    groups : mapping of str to (array of int, list of str)
        Groupings by name: the group number of each job, and the names of the groups.
    """

    waiting_time: Floats
    groups: Mapping[str, tuple[NDArray[np.int64], list[str]]]


@dataclass(frozen=True)
class WaitAccuracy:
    """Accuracy of predicted waits against recorded ones; times are in seconds.

    Attributes
    ----------
    jobs : int
        Number of jobs with a recorded wait.
    started : int
        Number of these jobs that the simulation started as well.
    near : float
        Share of the jobs with a recorded wait whose predicted wait is near it.
    mean_recorded, mean_predicted : float
        Mean waits of the started jobs.
    mean_absolute_error, median_absolute_error : float
        Mean and median absolute error of the started jobs.
    rank_correlation : float
        Spearman's rank correlation: 1 if predicted and recorded waits order the jobs alike; nan if all predicted or
        all recorded waits are equal.
    distance : float
        Kolmogorov-Smirnov distance of the two distributions of waits: largest difference of the cumulative
        distribution functions, from 0 to 1.
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
        """Mean of the predicted minus the recorded waits, in seconds."""
        return self.mean_predicted - self.mean_recorded


def wait_log(
    jobs: Sequence[Job],
    waiting_time: ArrayLike,
    *,
    queues: Sequence[str] | None = None,
    clock_start: float = 0.0,
    zone: tzinfo = UTC,
) -> RecordedWaits:
    """Return recorded waits grouped by cores, requested time, hour of submission and, if known, queue.

    Parameters
    ----------
    jobs : sequence of Job
        Jobs of the log in order of submission.
    waiting_time : array_like
        Wait of each job in seconds; nan if unknown.
    queues : sequence of str, optional
        Queue of each job; ``""`` if unknown.
    clock_start : float
        Time 0 of the jobs' clock in seconds since 1970, to compute the hour of submission.
    zone : tzinfo
        Time zone of the machine.

    Returns
    -------
    RecordedWaits
        Waits and groups; queues are sorted by number of jobs, the largest first.

    Raises
    ------
    InvalidConfiguration
        If the lengths differ, or no wait is known.
    """
    waits = np.array(waiting_time, dtype=np.float64)
    if len(waits) != len(jobs) or (queues is not None and len(queues) != len(jobs)):
        raise InvalidConfiguration(
            f"waiting_time and queues: got {len(waits)} waits for {len(jobs)} jobs, expected one value of each per job"
        )
    if np.isnan(waits).all():
        raise InvalidConfiguration("waiting_time: got no known wait, so there is nothing to compare with")
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
    """Return how closely predicted waits match recorded ones, job by job and as distributions.

    Parameters
    ----------
    predicted : array_like
        Waits in a simulation, in seconds; nan for jobs that were not started.
    recorded : array_like
        Waits in the log, in seconds; nan if unknown.

    Returns
    -------
    WaitAccuracy
        Accuracy over the jobs with a recorded wait; without any, all shares and times are nan.

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
    near = np.abs(ours - real) <= np.maximum(NEAR_SECONDS, NEAR_SHARE * real)  # False for nan
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
    """Return the rank of each value; equal values share their mean rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks


def group_nearness(predicted: ArrayLike, log: RecordedWaits) -> dict[str, dict[str, WaitAccuracy]]:
    """Return the accuracy of predicted waits in each group that contains a job with a recorded wait.

    Parameters
    ----------
    predicted : array_like
        Waits in a simulation, in seconds; nan for jobs that were not started.
    log : RecordedWaits
        Recorded waits and groups.

    Returns
    -------
    dict of str to dict of str to WaitAccuracy
        Accuracy by name of the grouping, then by name of the group.
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
    """Count the long waits of a log, and those that occurred although enough cores were free.

    Parameters
    ----------
    jobs : sequence of Job
        Jobs of the log in order of submission; each is assumed to run for its run time.
    waiting_time : array_like
        Wait of each job in seconds; nan if unknown. A job of unknown wait occupies no cores here.
    num_cores : int
        Number of cores of the machine.
    counted : array_like of bool, optional
        Whether to count the wait of each job (default: all known waits).

    Returns
    -------
    long : int
        Number of waits of more than ten minutes.
    idle : int
        Number of these during which enough cores for the job were always free in the recorded schedule.

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
    order = np.lexsort((changes, times))  # releases first: their cores can be taken at the same instant
    times, most = times[order], changes[order].cumsum()
    is_long = known & (waits > NEAR_SECONDS) & (True if counted is None else np.asarray(counted, dtype=np.bool_))
    first = np.searchsorted(times, begins[is_long], side="right") - 1
    count = np.searchsorted(times, starts[is_long], side="left") - first
    # The peak of busy cores within each wait, for all waits at once: in round k, most[i] is the maximum of the 2**k
    # instants from i on. Two such spans, which may overlap, cover a wait of at least 2**k and under 2**(k + 1) instants
    levels, peaks = np.frexp(count)[1] - 1, np.zeros(len(count), dtype=np.int64)
    for level in range(int(levels.max(initial=-1)) + 1):
        here = levels == level
        last = first[here] + count[here] - 2**level
        peaks[here] = np.maximum(most[first[here]], most[last])
        most = np.maximum(most[: -(2**level)], most[2**level :])
    return len(count), int((peaks + cores[is_long] <= num_cores).sum())


def quantiles_of(waits: ArrayLike) -> dict[str, float]:
    """Return quantiles of the known waits, such as ``p50``, and their mean."""
    values = np.asarray(waits, dtype=np.float64)
    values = values[~np.isnan(values)] if not np.isnan(values).all() else np.array([np.nan])
    found = {f"p{100 * share:g}": float(np.quantile(values, share)) for share in _QUANTILES}
    return found | {"mean": float(values.mean())}


def draw_waits(waits: Mapping[str, ArrayLike], *, recorded: str = "recorded", axes: Axes | None = None) -> Axes:
    """Draw the cumulative distribution of waits, for the log and for each agent.

    Parameters
    ----------
    waits : mapping of str to array_like
        Waits in seconds, by name of the curve; nan is omitted.
    recorded : str
        Name of the curve of the log, which is drawn in black.
    axes : Axes, optional
        Axes to draw into (default: a new figure).

    Returns
    -------
    Axes
        Axes with lines of gid ``curve``. The time axis is linear up to one minute and logarithmic above.

    Raises
    ------
    InvalidConfiguration
        If there are no curves.
    """
    from desim.plotting.axes import add_legend, new_panels, plain
    from desim.plotting.colors import line_styles

    if not waits:
        raise InvalidConfiguration("waits: got an empty mapping, expected the waits of at least one agent")
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
    """Draw the accuracy of each agent per group of jobs, one panel per grouping.

    Parameters
    ----------
    found : mapping of str to mapping
        Results of `group_nearness` by agent.
    value : callable
        Function that returns the plotted value of a group (default: percentage of near waits).
    label : str
        Axis label of that value.

    Returns
    -------
    list of Axes
        Axes with lines of gid ``curve``, one line per agent.

    Raises
    ------
    InvalidConfiguration
        If there are no agents.
    """
    from desim.plotting.axes import add_legend, new_figure, plain
    from desim.plotting.colors import line_styles

    if not found:
        raise InvalidConfiguration("found: got an empty mapping, expected the groups of at least one agent")
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
