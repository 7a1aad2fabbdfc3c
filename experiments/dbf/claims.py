"""What the paper says of rules and agents, beside what the studies have measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from desim.experiments.claims import Claim, FixedRule
from desim.experiments.dbf import figure3
from desim.experiments.dbf.figure4 import ANEW, CLOSED, KEPT, OF_DESIM, OPEN, RELEASED, STARTED
from desim.experiments.dbf.figure5 import IN_WINDOW, panel_name
from desim.experiments.dbf.figure7 import PANEL as FIGURE7
from desim.experiments.frame import Frame, crossed_interval, paired_trainings, spread
from desim.experiments.learning_curves import is_flat
from desim.statistics import Estimate

SJF, INSPECTED, QUEUE = 73.3, 62.2, 31.0
"""The paper's mean slowdowns of SJF and of SchedInspector over SJF, and its mean queue at M = 20 without tail."""
SAVED = {"waiting_time_mean": 49.0, "queue_length_mean": 50.0}
"""By how many percent a split of 20 slots lowers them."""
WORDS = {"waiting_time_mean": "waiting time", "queue_length_mean": "queue length"}
WITHIN = 10.0
"""Percent within which a slowdown counts as the same: of 300 sequences its interval is as wide."""
POINTS = 10.0
"""Percentage points within which a saving counts as the same."""
FLAT = 5.0
"""Percent by which the last quarter of a training may differ from the one before, if it is to have converged."""
FULL = 100_000
TAIL_HELPS = (8, 10, 20)


def fixed_rules(frames: Mapping[str, Frame]) -> list[FixedRule]:
    """Return the readings of the only number that the paper states of a rule without learning."""
    frame = frames.get("figure4")
    if frame is None:
        return []
    readings = [
        (CLOSED, "256 jobs", KEPT, "bounded_slowdown_mean", "sequences of 256 jobs, SchedInspector's backfilling"),
        (CLOSED, "256 jobs", OF_DESIM, "bounded_slowdown_mean", "sequences of 256 jobs, EASY"),
        (CLOSED, "128 jobs", KEPT, "bounded_slowdown_mean", "sequences of 128 jobs, SchedInspector's backfilling"),
        (CLOSED, "256 jobs", ANEW, "bounded_slowdown_mean", "sequences of 256 jobs, any later job"),
        (OPEN, STARTED, "SJF by cores", "started_slowdown_mean", "online, any later job"),
        (OPEN, STARTED, "SJF by cores", "started_bounded_slowdown_mean", "online, any later job"),
    ]
    return [
        FixedRule(
            row if panel == CLOSED else f"{row}, picks anew",
            setting,
            metric.removesuffix("_mean").removeprefix("started_").replace("_", " "),
            SJF,
            frame.estimate(panel, column, row, metric),
            within=WITHIN,
        )
        for panel, column, row, metric, setting in readings
    ]


def claims(frames: Mapping[str, Frame]) -> list[Claim]:
    """Return the claims of figures 3 to 7."""
    found: list[Claim] = []
    if "figure4" in frames:
        found += _of_figure4(frames["figure4"], frames.get("figure3"))
    if "figure5" in frames:
        found += _of_figure5(frames["figure5"])
    if "figure7" in frames:
        found += _of_figure7(frames["figure7"])
    return found


def _of_figure4(frame: Frame, curves: Frame | None) -> Iterator[Claim]:
    trained, how_inspected = is_flat(curves, figure3.INSPECTOR, RELEASED, FLAT)
    yield Claim(
        "mean slowdown of SchedInspector over SJF",
        INSPECTED,
        frame.estimate(CLOSED, "256 jobs", RELEASED, "bounded_slowdown_mean"),
        tolerance=WITHIN / 100.0 * INSPECTED,
        is_judged=trained,
        reason=f"{how_inspected}; over SJF by run time as its program has it",
    )
    if frame.has(OPEN, STARTED, "dbf 20-0"):
        windows = ("20-0", "19-1", "10-10")
        length = {window: is_flat(curves, figure3.PANEL, f"dbf {window}", FLAT) for window in windows}
        queues = frame.by_training(OPEN, STARTED, "dbf 20-0", "queue_length_mean")
        flat, how = length["20-0"]
        yield Claim(
            "mean queue, M = 20 without tail",
            QUEUE,
            crossed_interval(queues),
            WITHIN / 100.0 * QUEUE,
            is_judged=flat,
            reason="; ".join(filter(None, (how, f"the paper has {FULL:,} episodes", spread(queues)))),
        )
        for metric, paper in SAVED.items():
            none, *splits = (frame.by_training(OPEN, STARTED, f"dbf {window}", metric) for window in windows)
            pairs = {window: paired_trainings(one, none) for window, one in zip(windows[1:], splits, strict=True)}
            saved = {window: lowered(*pair) for window, pair in pairs.items()}
            best = max(saved, key=lambda window: saved[window].mean)
            unfinished = [f"{window}: {length[window][1]}" for window in ("20-0", best) if not length[window][0]]
            each = 100.0 * (1.0 - np.divide(*(one.mean(axis=1) for one in pairs[best])))
            told = ", ".join(f"{value:.0f}" for value in each)
            yield Claim(
                f"M = 20: a split lowers the {WORDS[metric]} of DBF by, %",
                paper,
                saved[best],
                tolerance=POINTS,
                in_order=saved[best].low > 0,
                is_judged=not unfinished,
                reason="; ".join(unfinished) or f"best of two splits is {best}; by training {told}",
            )
    yield Claim(
        "M = 32 and larger: waiting time and queue",
        "shortest of all",
        "no DBF of this size",
        is_judged=False,
        reason="DBF is trained with 20 slots only; desim's own agents are another network and reward",
    )
    rows = [row for row in frame.rows(OPEN) if row != RELEASED]
    behind = [frame.difference(OPEN, STARTED, RELEASED, "utilization", row) for row in rows]
    yield Claim(
        "utilization of SchedInspector",
        "lowest of all",
        f"{sum(one.high < 0 for one in behind)} of {len(behind)} agents have more beyond the interval",
        in_order=all(one.high < 0 for one in behind),
        is_judged=trained,
        reason=how_inspected,
    )


def _of_figure5(frame: Frame) -> Iterator[Claim]:
    there = set(frame.panels)
    for rule in IN_WINDOW:
        for metric, paper in SAVED.items() if panel_name(20) in there else ():
            tails = [tail for tail in frame.columns(panel_name(20)) if tail != "0"]
            best = min(tails, key=lambda tail: frame.estimate(panel_name(20), tail, rule, metric).mean)
            saved = _by_tail(frame, 20, best, rule, metric)
            yield Claim(
                f"M = 20: a split lowers the {WORDS[metric]} of the rule {rule!r} in the window by, %",
                paper,
                saved,
                tolerance=POINTS,
                in_order=saved.low > 0,
                reason=f"best of {len(tails)} splits is {20 - int(best)}-{best}; needs no learning",
            )
    sizes = [size for size in TAIL_HELPS if panel_name(size) in there]
    one_slot = [_by_tail(frame, size, "1", rule, "waiting_time_mean") for size in sizes for rule in IN_WINDOW]
    if one_slot:
        least, most = (f"{value:.0f}" for value in (min(x.mean for x in one_slot), max(x.mean for x in one_slot)))
        yield Claim(
            f"M = {', '.join(map(str, sizes))}: one slot at the tail lowers the waiting time",
            "strongly",
            f"by {least} to {most} % for three rules in the window",
            in_order=all(one.low > 0 for one in one_slot),
            reason="every rule at every size, beyond the interval; no learning is needed",
        )
    if panel_name(32) in there and panel_name(10) in there:
        small, large = (
            [_by_tail(frame, size, "1", rule, "waiting_time_mean").mean for rule in IN_WINDOW] for size in (10, 32)
        )
        yield Claim(
            "M = 32: the gain of a split",
            "smaller than with small windows",
            f"{np.mean(large):.0f} % on average for three rules, {np.mean(small):.0f} % at M = 10",
            in_order=all(one < other for one, other in zip(large, small, strict=True)),
            reason="rules in the window; DBF is not trained with these sizes",
        )
    if panel_name(10) in there and panel_name(20) in there:
        points = {}
        for size in (10, 20):
            none, half = (
                np.mean([frame.estimate(panel_name(size), tail, rule, "hidden_share").mean for rule in IN_WINDOW])
                for tail in ("0", str(size // 2))
            )
            points[size] = 100.0 * float(none - half)
        yield Claim(
            "a split lowers the share of decisions with unseen jobs",
            "at M = 10, not at M = 20",
            f"by {points[10]:.0f} points at M = 10, by {points[20]:.0f} at M = 20, half of the slots at the tail",
            in_order=points[10] > 5.0 > abs(points[20]),
            reason="rules in the window",
        )


def lowered(one: NDArray[np.float64], none: NDArray[np.float64]) -> Estimate:
    """Return by how many percent the mean of one metric is below that of another, paired by block and by training.

    It is a ratio of means, with the interval of the ratio estimator (Cochran, Sampling Techniques, 1977, section 6.4).

    Parameters
    ----------
    one, none : array of float, shape (n,) or (num_trainings, n)
        A metric with and without slots at the tail, by training and block; see :func:`crossed_interval`.
    """
    ratio = float(one.mean() / none.mean())
    rest = crossed_interval(100.0 * (one - ratio * none) / none.mean())
    return Estimate(100.0 * (1.0 - ratio), rest.half_width, rest.num_values, rest.level)


def _by_tail(frame: Frame, size: int, tail: str, rule: str, metric: str) -> Estimate:
    """Return by how many percent slots at the tail lower a metric."""
    return lowered(*(frame.values(panel_name(size), column, rule, metric) for column in (tail, "0")))


def _of_figure7(frame: Frame) -> Iterator[Claim]:
    rules, tails = frame.rows(FIGURE7), frame.columns(FIGURE7)
    shares, waits = (
        {tail: np.mean([frame.values(FIGURE7, tail, rule, metric) for rule in rules], axis=0) for tail in tails}
        for metric in ("wide_share", "waiting_time_mean")
    )
    fewer = lowered(shares["10"], shares["0"])
    told = ", ".join(f"{10 - int(tail)}-{tail} {100 * share.mean():.0f} %" for tail, share in shares.items())
    yield Claim(
        "M = 10: share of the wide jobs that are started with 0-10",
        "the least",
        told,
        in_order=min(shares, key=lambda tail: shares[tail].mean()) == "10" and fewer.low > 0,
        reason="two rules in the window; below 10-0 beyond the interval, mostly due to one slot at the tail",
    )
    yield Claim(
        "M = 10: mean wait with 0-10",
        "the shortest",
        ", ".join(f"{10 - int(tail)}-{tail} {wait.mean():,.0f} s" for tail, wait in waits.items()),
        in_order=min(waits, key=lambda tail: waits[tail].mean()) == "10",
        reason="means of two rules in the window, over all jobs, those still queued included",
    )
