"""A real log: KTH-SP2, whose requested times are not the actual ones, with agents trained on generated workloads."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

from desim.experiments.checks import print_checks
from desim.experiments.dbf import pictures
from desim.experiments.dbf.agents import BASELINES, REFERENCE, control, other_windows
from desim.experiments.dbf.checks import beaten
from desim.experiments.dbf.options import Options
from desim.experiments.dbf.report import print_agents, print_end, print_header, print_missing, write_study
from desim.experiments.dbf.simulating import METRICS, Setting
from desim.experiments.dbf.study import Panel, Study, carry_out
from desim.experiments.dbf.weights import find_weights
from desim.experiments.dbf.workloads import KTH
from desim.experiments.options import run_as_program

__all__ = ["Kth", "kth"]

BARS = ("waiting_time_mean", "queue_length_mean", "utilization", "queued_load_mean")
SHOWN = (*BARS[:3], "started_waiting_time_mean", "waiting_time_p99", "waiting_time_max", "bounded_slowdown_mean")
FAMILIES = ("kth100", "lublin256-any")
"""Agents trained for a cluster of this size, and one that was trained for another and scores jobs of any."""


@dataclass(frozen=True)
class Kth(Options):
    """Pieces of the log one after the other, each begun with an empty cluster.

    Attributes
    ----------
    num_jobs : int
        Jobs of an episode.
    windows : tuple of pairs of ints
        Slots at head and tail, for rules, and for agents for all windows.
    """

    block: ClassVar[int] = 5

    seeds: int = 25
    num_jobs: int = 1_000
    windows: tuple[tuple[int, int], ...] = ((9, 1), (5, 5), (16, 16), (32, 32))


def kth(options: Kth) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Kth
        Episodes, windows, directories.

    Returns
    -------
    Study
        What was measured.
    """
    weights = find_weights(options.weights)
    trained = {
        row: choice for family in FAMILIES for row, choice in other_windows(weights, options.windows, family).items()
    }
    rules = {
        f"{rule}, {head}-{tail}": control(rule, head, tail)
        for rule in ("shortest", "reserving")
        for head, tail in options.windows
    }
    columns = {arrivals: Setting(KTH, arrivals, num_jobs=options.num_jobs) for arrivals in ("open", "closed")}
    panel = Panel("KTH-SP2", "episodes", columns, trained | BASELINES | rules)
    study = carry_out("KTH-SP2", [panel], options, reference=REFERENCE)
    print_header(study)
    print_missing([f"{family}..." for family in FAMILIES if not any(row.startswith(family) for row in trained)])
    for column in columns:
        print_agents(study, panel, column, SHOWN, title=f"KTH-SP2, {column}", against=[REFERENCE, "F1, EASY"])
    print_end(study)
    checks = beaten(study, panel, "open", trained, BASELINES, metrics=BARS[:2])
    print_checks(checks)
    write_study(study, checks, METRICS)
    pictures.draw_bars(study, panel, "open", BARS, learned=list(trained), inspectors=[], name="kth")
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Kth, kth))
