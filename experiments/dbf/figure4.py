"""Figure 4: learned agents with windows of several sizes against rules and inspectors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.blocks import Beside, Besides, Block, Checks
from desim.experiments.dbf.agents import (
    BASELINES,
    REFERENCE,
    best_split,
    control_rows,
    find_weights,
    inspector_rows,
    learned,
)
from desim.experiments.dbf.simulate import METRICS, Setting
from desim.experiments.dbf.study import Measured, Study, bars, beaten, by_agent, data, heading, remarks
from desim.experiments.measured import Choice, Panel
from desim.experiments.study import run_as_program

TITLE = "Figure 4"
PAPER = (
    "The paper: windows of 32, 64 and 128 slots have the best waiting times and queue lengths of all; the "
    "heuristics have slightly better utilization and queued load; both SchedInspectors have the lowest utilization.",
    "The paper's mean job slowdowns: 62.2 for SchedInspector over SJF, 73.3 for SJF.",
)
QUEUE_LENGTH = 31.0
"""The paper's mean queue length with a window of 20 slots."""
SLOWDOWN = {"SchedInspector, SJF by cores": 62.2, "SJF by cores, back-filling": 73.3}
"""Mean job slowdown, offline: of SchedInspector over SJF, and of SJF alone, which there is by cores."""

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
class Figure4(Study):
    """Learned agents, rules and inspectors, in open and closed episodes.

    Attributes
    ----------
    sizes : tuple of int
        Slots of the learned agents' windows.
    """

    sizes: tuple[int, ...] = (10, 20, 32, 64, 128)

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks, files and figures."""
        weights = find_weights(self.weights)
        trained: dict[str, Choice] = {}
        missing, large = [], []
        for size in self.sizes:
            head, tail = best_split(weights, size)
            choice, name = learned(weights, head, tail), f"DBF M{size} ({head}-{tail})"
            if choice is None:
                missing.append(name)
            else:
                trained[name] = choice
                large += [name] if size >= LARGE else []
        inspectors = inspector_rows(weights)
        missing += [] if inspectors else ["SchedInspector"]
        controls = control_rows(("shortest", "reserving"), ((16, 16),))
        panel = Panel(TITLE, "episodes", COLUMNS, trained | inspectors | BASELINES | controls)
        found = self.measure(panel, reference=REFERENCE)
        yield from heading(found, TITLE, missing)
        for column in COLUMNS:
            yield by_agent(found, panel, column, BARS, title=f"{TITLE}, {column}")
            yield by_agent(found, panel, column, ("waiting_time_mean", *MORE), title=f"{TITLE}, {column}: more")
        yield from remarks(found, *PAPER)
        yield Besides(list(_beside(found, panel)), self.is_reduced)
        checks = beaten(found, panel, OPEN, large, [*BASELINES, *inspectors])
        yield Checks(checks)
        yield data(found, TITLE, METRICS, checks)
        for column, name in ((OPEN, "figure4"), (CLOSED, "closed"), (OFFLINE, "offline")):
            yield bars(found, column, BARS, name, learned=list(trained), inspectors=list(inspectors))


def _beside(found: Measured, panel: Panel) -> Iterator[Beside]:
    """Yield the queue of a window of 20 slots, and the slowdowns of SJF with and without SchedInspector."""
    for row in panel.rows:
        if row.startswith("DBF M20 ") and found.has(panel, OPEN, row):
            ours = found.estimate(panel, OPEN, row, "queue_length_mean")
            yield Beside(f"mean queue length of {row}, jobs", QUEUE_LENGTH, ours, "less")
    for row, paper in SLOWDOWN.items():
        if row in panel.rows and found.has(panel, OFFLINE, row):
            ours = found.estimate(panel, OFFLINE, row, "bounded_slowdown_mean")
            yield Beside(f"mean bounded slowdown of {row}, {OFFLINE}", paper, ours, "less")


if __name__ == "__main__":
    sys.exit(run_as_program(Figure4))
