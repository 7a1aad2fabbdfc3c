"""What the OSDEC paper claims beside what was measured: its rules first, then its agents as printed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from desim.experiments.claims import Claim, FixedRule
from desim.experiments.frame import Frame, crossed_interval, lead_percent, paired_trainings, spread
from desim.experiments.learning_curves import is_flat
from desim.experiments.osdec import figure4, table1, table2, table4
from desim.experiments.osdec.simulate import LEARNED, RULES
from desim.experiments.osdec.study import CASES, TABLE_1, TABLE_2, TABLE_4
from desim.statistics import Estimate

Frames = Mapping[str, Frame]

WITHIN = 2.0
"""Percent of the paper's number by which a rule may be off."""
POINTS = 1.0
"""Percentage points by which a lead may be off: the paper prints no intervals of them, ours are about this wide."""
FLAT = 0.5
"""Percent by which the last quarter of a converged training may differ from the one before: half of :data:`POINTS`."""
UTILIZATION, TOTAL = "utilization", "total_reward"


def fixed_rules(frames: Frames) -> list[FixedRule]:
    """Return the numbers of FIFO, SJF and Tetris in tables 1, 2 and 4.

    Parameters
    ----------
    frames : mapping of str to Frame
        By the names of the studies; those that are not there are left out.
    """
    found = []
    for rule in RULES:
        if "table1" in frames:
            for metric, paper in TABLE_1[rule].items():
                ours = frames["table1"].estimate(table1.RULES_PANEL, table1.COLUMN, rule, metric)
                found.append(FixedRule(rule, "table 1", f"{metric.replace('_', ' ')}, core-slots", paper, ours, WITHIN))
        if "table2" in frames:
            for column, paper in TABLE_2[rule].items():
                ours = frames["table2"].estimate(f"{table2.PANEL}, rules", column, rule, table2.METRIC)
                found.append(FixedRule(rule, f"table 2, {column}", "utilization, core-slots", paper, ours, WITHIN))
        if "table4" in frames:
            for column, paper in TABLE_4[rule].items():
                ours = frames["table4"].estimate(f"{table4.PANEL}, rules", column, rule, table4.METRIC)
                found.append(FixedRule(rule, f"table 4, {column}", "total reward, core-slots", paper, ours, WITHIN))
    return found


def claims(frames: Frames) -> list[Claim]:
    """Return what the paper says of its tables; arguments as for :func:`fixed_rules`."""
    found: list[Claim] = []
    if "table1" in frames:
        found += _of_rules(frames["table1"])
        found += _of_agents(frames["table1"], frames.get("figure4"))
    if "table2" in frames:
        found += _of_windows(frames["table2"])
    if "table4" in frames:
        found += _of_cases(frames)
    return found


def _off(frames: Frames, table: str) -> list[str]:
    """Return which settings of a table are not calibrated."""
    return list(
        dict.fromkeys(one.setting for one in fixed_rules(frames) if table in one.setting and not one.is_calibrated)
    )


# -- rules ------------------------------------------------------------------------------------------


def _of_rules(frame: Frame) -> list[Claim]:
    """Return what is said of rules in table 1, which tells whether the workload is the paper's."""
    panel, column = table1.RULES_PANEL, table1.COLUMN
    found = []
    for metric, text in ((UTILIZATION, UTILIZATION), (TOTAL, "total reward")):
        for rule in ("SJF", "Tetris"):
            ours = frame.lead(panel, column, rule, metric, "FIFO")
            paper = 100.0 * (TABLE_1[rule][metric] / TABLE_1["FIFO"][metric] - 1.0)
            why = "a rule; it follows from the means that the workload was fitted to"
            found.append(
                Claim(f"{text} of {rule} above that of FIFO, %", paper, ours, POINTS, ours.mean * paper > 0, reason=why)
            )
    return found


def _of_windows(frame: Frame) -> list[Claim]:
    """Return by how many percent windows raise the utilization of each row."""
    found = []
    windows, real_time = table2.COLUMNS
    for row, printed in TABLE_2.items():
        panel = f"{table2.PANEL}, {'rules' if row in RULES else 'agents'}"
        if frame.has(panel, windows, row):
            ours = lead_percent(*(frame.values(panel, column, row, table2.METRIC) for column in (windows, real_time)))
            paper = 100.0 * (printed[windows] / printed[real_time] - 1.0)
            why = "a rule" if row in RULES else "trained on table 1's workload and objective alone"
            what = f"table 2: windows raise the utilization of {row}, %"
            found.append(Claim(what, paper, ours, POINTS, ours.low > 0, is_judged=row in RULES, reason=why))
    return found


# -- agents -----------------------------------------------------------------------------------------


def _trained(curves: Frame | None, row: str) -> tuple[bool, str]:
    """Return whether a training has converged, and how long it was."""
    return is_flat(curves, figure4.PANEL, row, FLAT)


def _of_agents(frame: Frame, curves: Frame | None) -> list[Claim]:
    """Return what table 1 says of the agents that learn."""
    panel, column, metric = table1.AGENTS_PANEL, table1.COLUMN, TOTAL
    found = []
    there = [row for row in LEARNED if frame.has(panel, column, row, metric)]
    for row in there:
        converged, how = _trained(curves, row)
        ours, reason = _lead(frame, row, "FIFO", how)
        paper = 100.0 * (TABLE_1[row][TOTAL] / TABLE_1["FIFO"][TOTAL] - 1.0)
        what = f"total reward of {row} above that of FIFO, %"
        found.append(Claim(what, paper, ours, POINTS, ours.mean * paper > 0, is_judged=converged, reason=reason))
    if "OSDEC" not in there:
        return found
    converged, how = _trained(curves, "OSDEC")
    penalties = frame.by_training(panel, column, "OSDEC", "violation_penalty")
    penalty, reason = crossed_interval(penalties), _with_spread(how, penalties)
    used, late, total = TABLE_1["OSDEC"].values()
    what = "violation penalty of OSDEC, core-slots: what its three numbers leave"
    found.append(Claim(what, total - used - late, penalty, 20.0, penalty.high < 0, is_judged=converged, reason=reason))
    others = [row for row in there if row != "OSDEC"]
    for row in others:
        pair = [_trained(curves, one) for one in ("OSDEC", row)]
        ours, reason = _lead(frame, "OSDEC", row, f"{row}: {pair[1][1]}")
        paper = 100.0 * (total / TABLE_1[row][TOTAL] - 1.0)
        both = all(converged for converged, _ in pair)
        what = f"total reward of OSDEC above that of {row}, %"
        found.append(Claim(what, paper, ours, POINTS, ours.low > 0, is_judged=both, reason=reason))
    return found


def _lead(frame: Frame, row: str, other: str, how: str) -> tuple[Estimate, str]:
    """Return by how many percent an agent earns more than another in table 1, and why it is judged so."""
    ours, theirs = paired_trainings(
        *(frame.by_training(table1.AGENTS_PANEL, table1.COLUMN, one, "total_reward") for one in (row, other))
    )
    return lead_percent(ours, theirs), _with_spread(how, 100.0 * (ours / theirs - 1.0))


def _with_spread(how: str, values: NDArray[np.float64]) -> str:
    """Return a reason with the spread over trainings, if there are several."""
    return "; ".join(filter(None, (how, spread(values))))


def _of_cases(frames: Frames) -> list[Claim]:
    """Return by how many percent OSDEC is above FIFO in the cases of table 4."""
    frame, panel = frames["table4"], f"{table4.PANEL}, agents"
    off = _off(frames, "table 4")
    found = []
    for column in CASES:
        if frame.has(panel, column, "OSDEC"):
            ours = frame.lead(panel, column, "OSDEC", table4.METRIC, "FIFO")
            paper = 100.0 * (TABLE_4["OSDEC"][column] / TABLE_4["FIFO"][column] - 1.0)
            why = "trained on table 1's workload alone"
            why += "; the rules are not calibrated" if f"table 4, {column}" in off else ""
            what = f"{column}: total reward of OSDEC above that of FIFO, %"
            found.append(Claim(what, paper, ours, POINTS, ours.low > 0, is_judged=False, reason=why))
    return found
