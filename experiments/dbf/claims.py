"""What the paper says of rules and agents, beside what the studies have measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from desim.experiments.claims import Claim, FixedRule
from desim.experiments.dbf.figure4 import ANEW, CLOSED, KEPT, OF_DESIM, OPEN, RELEASED, STARTED
from desim.experiments.dbf.figure5 import IN_WINDOW, panel_name
from desim.experiments.dbf.figure7 import PANEL as FIGURE7
from desim.experiments.frame import Frame
from desim.statistics import Estimate, mean_interval

__all__ = ["claims", "fixed_rules"]

SJF, INSPECTED, QUEUE = 73.3, 62.2, 31.0
"""The paper's mean slowdowns of SJF and of SchedInspector over SJF, and its mean queue at M = 20 without tail."""
SAVED = {"waiting_time_mean": 49.0, "queue_length_mean": 50.0}
"""By how many percent a split of 20 slots lowers them."""
WORDS = {"waiting_time_mean": "waiting time", "queue_length_mean": "queue length"}
WITHIN = 10.0
"""Percent within which a slowdown counts as the same: of 300 sequences its interval is as wide."""
POINTS = 10.0
"""Percentage points within which a saving counts as the same."""
FULL = 100_000
TAIL_HELPS = (8, 10, 20)


def fixed_rules(frames: Mapping[str, Frame]) -> list[FixedRule]:
    """Return the readings of the only number that the paper states of a rule without learning."""
    frame = frames.get("figure4")
    if frame is None:
        return []
    readings = [
        (CLOSED, "256 jobs", KEPT, "bounded_slowdown_mean", "sequences of 256 jobs, SchedInspector's back-filling"),
        (CLOSED, "256 jobs", OF_DESIM, "bounded_slowdown_mean", "sequences of 256 jobs, EASY"),
        (CLOSED, "128 jobs", KEPT, "bounded_slowdown_mean", "sequences of 128 jobs, SchedInspector's back-filling"),
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
        found += _of_figure4(frames["figure4"], _episodes(frames.get("figure3")))
    if "figure5" in frames:
        found += _of_figure5(frames["figure5"])
    if "figure7" in frames:
        found += _of_figure7(frames["figure7"])
    return found


def _episodes(frame: Frame | None) -> str:
    """Say for how many episodes DBF was trained."""
    if frame is None:
        return "few"
    row = frame.rows("curves")[0]
    return f"{frame.values('curves', 'validation', row, 'episodes')[0]:.0f}"


def _of_figure4(frame: Frame, episodes: str) -> Iterator[Claim]:
    short = f"trained for {episodes} of {FULL:,} episodes, and still improving"
    slowdown = "bounded_slowdown_mean"
    yield Claim(
        "mean slowdown of SchedInspector over SJF",
        INSPECTED,
        frame.estimate(CLOSED, "256 jobs", RELEASED, slowdown),
        is_judged=False,
        reason="trained for 9 of 4,000 updates, over SJF by run time as its program has it",
    )
    if frame.has(OPEN, STARTED, "dbf 20-0"):
        queue = frame.estimate(OPEN, STARTED, "dbf 20-0", "queue_length_mean")
        yield Claim("mean queue, M = 20 without tail", QUEUE, queue, is_judged=False, reason=short)
        for metric, paper in SAVED.items():
            what = f"M = 20: a split lowers the {WORDS[metric]} of DBF by, %"
            saved = [_saved(frame, f"dbf {split}", metric) for split in ("19-1", "10-10")]
            best = max(saved, key=lambda one: one.mean)
            yield Claim(what, paper, best, is_judged=False, reason=f"{short}; an equal budget for each window")
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
        is_judged=False,
        reason="trained for 9 of 4,000 updates",
    )


def _saved(frame: Frame, row: str, metric: str) -> Estimate:
    """Return by how many percent a split of 20 slots is below 20 slots at the head, paired by block."""
    lead = frame.lead(OPEN, STARTED, row, metric, "dbf 20-0")
    return Estimate(-lead.mean, lead.half_width, lead.num_values, lead.level)


def _of_figure5(frame: Frame) -> Iterator[Claim]:
    there = set(frame.panels)
    for rule in IN_WINDOW:
        for metric, paper in SAVED.items() if panel_name(20) in there else ():
            tails = [tail for tail in frame.columns(panel_name(20)) if tail != "0"]
            best = frame_best(frame, panel_name(20), tails, rule, metric)
            saved = lowered(frame, panel_name(20), best, rule, metric)
            yield Claim(
                f"M = 20: a split lowers the {WORDS[metric]} of the rule {rule!r} in the window by, %",
                paper,
                saved,
                tolerance=POINTS,
                in_order=saved.low > 0,
                reason=f"best of {len(tails)} splits is {20 - int(best)}-{best}; needs no learning",
            )
    sizes = [size for size in TAIL_HELPS if panel_name(size) in there]
    one_slot = [
        lowered(frame, panel_name(size), "1", rule, "waiting_time_mean") for size in sizes for rule in IN_WINDOW
    ]
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
            [lowered(frame, panel_name(size), "1", rule, "waiting_time_mean").mean for rule in IN_WINDOW]
            for size in (10, 32)
        )
        yield Claim(
            "M = 32: the gain of a split",
            "smaller than with small windows",
            f"{np.mean(large):.0f} % on average for three rules, {np.mean(small):.0f} % at M = 10",
            in_order=all(one < other for one, other in zip(large, small, strict=True)),
            reason="rules in the window; DBF is not trained with these sizes",
        )
    if panel_name(10) in there and panel_name(20) in there:
        shares = {
            size: np.mean([_change(frame, panel_name(size), rule, "hidden_share") for rule in IN_WINDOW])
            for size in (10, 20)
        }
        yield Claim(
            "a split lowers the share of decisions with unseen jobs",
            "at M = 10, not at M = 20",
            f"by {-shares[10]:.0f} points at M = 10, by {-shares[20]:.0f} at M = 20, half of the slots at the tail",
            in_order=bool(shares[10] < shares[20] < 5.0),
            reason="rules in the window",
        )


def frame_best(frame: Frame, panel: str, tails: Sequence[str], rule: str, metric: str) -> str:
    """Return the number of slots at the tail with the least mean."""
    return min(tails, key=lambda tail: frame.estimate(panel, tail, rule, metric).mean)


def lowered(frame: Frame, panel: str, tail: str, rule: str, metric: str) -> Estimate:
    """Return by how many percent slots at the tail lower the mean of a metric, paired by block."""
    one, none = (frame.values(panel, column, rule, metric) for column in (tail, "0"))
    rest = mean_interval(100.0 * (none - one - (none.mean() - one.mean()) / none.mean() * none) / none.mean())
    return Estimate(100.0 * (1.0 - float(one.mean() / none.mean())), rest.half_width, rest.num_values, rest.level)


def _change(frame: Frame, panel: str, rule: str, metric: str) -> float:
    half = str(int(panel.rpartition(" ")[2]) // 2)
    return 100.0 * (frame.estimate(panel, half, rule, metric).mean - frame.estimate(panel, "0", rule, metric).mean)


def _of_figure7(frame: Frame) -> Iterator[Claim]:
    rules = frame.rows(FIGURE7)
    shares = {
        tail: np.mean([frame.estimate(FIGURE7, tail, rule, "wide_share").mean for rule in rules])
        for tail in frame.columns(FIGURE7)
    }
    waits = {
        tail: np.mean([frame.estimate(FIGURE7, tail, rule, "waiting_time_mean").mean for rule in rules])
        for tail in frame.columns(FIGURE7)
    }
    yield Claim(
        "M = 10: wide jobs with 0-10",
        "starved",
        f"{100 * shares['10']:.0f} % of the wide jobs are started with 0-10, {100 * shares['5']:.0f} % with 5-5",
        in_order=bool(shares["10"] < shares["5"] and math.isfinite(shares["10"])),
        reason="two rules in the window; DBF is not trained with 10 slots",
    )
    yield Claim(
        "M = 10: mean wait with 0-10",
        "shortest",
        ", ".join(f"{10 - int(tail)}-{tail} {wait:,.0f} s" for tail, wait in waits.items()),
        in_order=min(waits, key=lambda tail: waits[tail]) == "10",
        reason="means of two rules in the window, over all jobs, those still queued included",
    )
