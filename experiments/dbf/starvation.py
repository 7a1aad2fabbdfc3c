"""Starvation: the longest waits beside the mean, of all rules and learned agents."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.checks import print_checks
from desim.experiments.dbf import pictures
from desim.experiments.dbf.agents import BASELINES, BOUND, control, inspector_rows, other_windows
from desim.experiments.dbf.checks import fairness_checks
from desim.experiments.dbf.options import Options
from desim.experiments.dbf.report import print_agents, print_end, print_header, print_missing, write_study
from desim.experiments.dbf.simulating import METRICS, Setting
from desim.experiments.dbf.study import Panel, Study, carry_out
from desim.experiments.dbf.weights import SEED, find_weights
from desim.experiments.options import run_as_program

__all__ = ["Starvation", "starvation"]

OPEN, CLOSED = "open, 1,000 started", "closed, 1,000 jobs"
COLUMNS = {OPEN: Setting(), CLOSED: Setting(arrivals="closed")}
SHOWN = ("waiting_time_mean", "waiting_time_p99", "waiting_time_max", "queue_length_mean", "jobs_queued")
FAIR = "-fair"


@dataclass(frozen=True)
class Starvation(Options):
    """Mean, 99th percentile and longest wait; FCFS with EASY is the bound.

    Attributes
    ----------
    windows : tuple of pairs of ints
        Slots at head and tail, for rules, and for agents for all windows.
    """

    windows: tuple[tuple[int, int], ...] = ((0, 10), (5, 5), (9, 1), (16, 16), (32, 32))


def starvation(options: Starvation) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Starvation
        Windows, episodes, directories.

    Returns
    -------
    Study
        What was measured.
    """
    weights = find_weights(options.weights)
    trained = other_windows(weights, options.windows, "lublin256")
    fair = [row for row in trained if SEED.sub("", row).endswith(FAIR)]
    rules = {
        f"{rule}, {head}-{tail}": control(rule, head, tail)
        for rule in ("shortest", "reserving")
        for head, tail in options.windows
    }
    inspectors = inspector_rows(weights)
    panel = Panel("Starvation", "episodes", COLUMNS, trained | inspectors | BASELINES | rules)
    study = carry_out("Starvation", [panel], options, reference=BOUND)
    print_header(study)
    print_missing([] if fair else ["fair agents"])
    for column in COLUMNS:
        print_agents(study, panel, column, SHOWN, title=f"Longest waits, {column}")
    print_end(study)
    checks = fairness_checks(study, panel, OPEN, fair)
    print_checks(checks)
    write_study(study, checks, METRICS)
    for column, name in ((OPEN, "starvation"), (CLOSED, "starvation_closed")):
        kinds = {"learned": list(trained), "inspectors": list(inspectors)}
        pictures.draw_starvation(study, panel, column, BOUND, name=name, **kinds)
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Starvation, starvation))
