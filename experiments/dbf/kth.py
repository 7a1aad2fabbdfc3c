"""A real log: KTH-SP2, whose requested times are not the actual ones, with agents trained on generated workloads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from desim.experiments.blocks import Block, Checks
from desim.experiments.dbf.agents import BASELINES, REFERENCE, control_rows, find_weights, other_windows
from desim.experiments.dbf.simulate import METRICS, Setting
from desim.experiments.dbf.study import Study, bars, beaten, by_agent, data, heading, remarks
from desim.experiments.dbf.workloads import KTH, Arrivals
from desim.experiments.measured import Panel
from desim.experiments.study import run_as_program

TITLE = "KTH-SP2"
ARRIVALS: tuple[Arrivals, ...] = ("open", "closed")
BARS = ("waiting_time_mean", "queue_length_mean", "utilization", "queued_load_mean")
SHOWN = (*BARS[:3], "started_waiting_time_mean", "waiting_time_p99", "waiting_time_max", "bounded_slowdown_mean")
FAMILIES = ("kth100", "lublin256-any")
"""Agents trained for a cluster of this size, and one that was trained for another and scores jobs of any."""


@dataclass(frozen=True)
class Kth(Study):
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

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks, files and the figure."""
        weights = find_weights(self.weights)
        families = {family: other_windows(weights, self.windows, family) for family in FAMILIES}
        trained = {row: choice for rows in families.values() for row, choice in rows.items()}
        rules = control_rows(("shortest", "reserving"), self.windows)
        columns: dict[str, Setting] = {
            arrivals: Setting(KTH, arrivals, num_jobs=self.num_jobs) for arrivals in ARRIVALS
        }
        panel = Panel(TITLE, "episodes", columns, trained | BASELINES | rules)
        found = self.measure(panel, reference=REFERENCE)
        yield from heading(found, TITLE, [f"{family}..." for family, rows in families.items() if not rows])
        for column in columns:
            title = f"{TITLE}, {column}"
            yield by_agent(found, panel, column, SHOWN, title=title, against=[REFERENCE, "F1, EASY"])
        yield from remarks(found)
        checks = beaten(found, panel, "open", trained, BASELINES, metrics=BARS[:2])
        yield Checks(checks)
        yield data(found, TITLE, METRICS, checks)
        yield bars(found, "open", BARS, "kth", learned=list(trained))


if __name__ == "__main__":
    sys.exit(run_as_program(Kth))
