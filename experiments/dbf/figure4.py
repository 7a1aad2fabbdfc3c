"""Figure 4: learned agents with windows of several sizes against rules and inspectors."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.beside import print_beside
from desim.experiments.checks import print_checks
from desim.experiments.dbf import pictures
from desim.experiments.dbf.agents import BASELINES, control, inspector_rows
from desim.experiments.dbf.beside import bars_beside
from desim.experiments.dbf.checks import beaten
from desim.experiments.dbf.options import Options
from desim.experiments.dbf.report import print_agents, print_end, print_header, print_missing, write_study
from desim.experiments.dbf.simulating import METRICS, Choice, Setting
from desim.experiments.dbf.study import Panel, Study, carry_out
from desim.experiments.dbf.weights import best_split, find_weights, learned
from desim.experiments.options import run_as_program

__all__ = ["Figure4", "figure4"]

OPEN, CLOSED, OFFLINE = "open, 1,000 started", "closed, 1,000 jobs", "closed, 128 jobs"
COLUMNS = {
    OPEN: Setting(),
    CLOSED: Setting(arrivals="closed"),
    OFFLINE: Setting(arrivals="closed", num_jobs=128),
}
"""The paper's episodes; those that leave no job queued; and those in which SchedInspector is trained."""

BARS = ("waiting_time_mean", "queue_length_mean", "utilization", "queued_load_mean")
MORE = ("started_waiting_time_mean", "waiting_time_p99", "waiting_time_max", "bounded_slowdown_mean", "jobs_queued")
LARGE = 32
"""From this size on, a window should be better than all rules."""


@dataclass(frozen=True)
class Figure4(Options):
    """Learned agents, rules and inspectors, in open and closed episodes.

    Attributes
    ----------
    sizes : tuple of int
        Slots of the learned agents' windows.
    """

    sizes: tuple[int, ...] = (10, 20, 32, 64, 128)


def figure4(options: Figure4) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure4
        Window sizes, episodes, directories.

    Returns
    -------
    Study
        What was measured.
    """
    weights = find_weights(options.weights)
    windows = {size: best_split(weights, size) for size in options.sizes}
    trained: dict[str, Choice] = {}
    missing, large = [], []
    for size, (head, tail) in windows.items():
        choice, name = learned(weights, head, tail), f"DBF M{size} ({head}-{tail})"
        if choice is None:
            missing.append(name)
        else:
            trained[name] = choice
            large += [name] if size >= LARGE else []
    inspectors = inspector_rows(weights)
    missing += [] if inspectors else ["SchedInspector"]
    controls = {f"{rule}, 16-16": control(rule, 16, 16) for rule in ("shortest", "reserving")}
    panel = Panel("Figure 4", "episodes", COLUMNS, trained | inspectors | BASELINES | controls)
    study = carry_out("Figure 4", [panel], options, reference="SJF, back-filling")
    print_header(study)
    print_missing(missing)
    for column in COLUMNS:
        print_agents(study, panel, column, BARS, title=f"Figure 4, {column}")
        print_agents(study, panel, column, ("waiting_time_mean", *MORE), title=f"Figure 4, {column}: more")
    print_end(study)
    print_beside(bars_beside(study, panel, OPEN, OFFLINE), options)
    checks = beaten(study, panel, OPEN, large, [*BASELINES, *inspectors])
    print_checks(checks)
    write_study(study, checks, METRICS)
    for column, name in ((OPEN, "figure4"), (CLOSED, "closed"), (OFFLINE, "offline")):
        pictures.draw_bars(study, panel, column, BARS, learned=list(trained), inspectors=list(inspectors), name=name)
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Figure4, figure4))
