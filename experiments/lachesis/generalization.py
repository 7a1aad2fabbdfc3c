"""Learned agents where they were not trained: other jobs, executor counts and transfers, and measured data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from desim.exceptions import InvalidConfiguration
from desim.experiments.blocks import Block
from desim.experiments.lachesis.agents import IDLE_ROWS, LEARNED, OWN_ROWS, PAPER_ROWS
from desim.experiments.lachesis.elsewhere import (
    ALIBABA,
    GENERATED,
    MEASURED,
    QUERIES,
    RANDOM,
    WORKFLOW,
    GeneralSetting,
    perform_general,
)
from desim.experiments.lachesis.study import Measured, Study, data, drawings, tables
from desim.experiments.measured import Panel
from desim.experiments.study import run_as_program

TITLE = "Generalization"
SHORT = {GENERATED: "generated", QUERIES: "TPC-H", ALIBABA: "Alibaba", WORKFLOW: "Montage", RANDOM: "random"}
#: A workflow has 58 tasks.
WORKFLOW_JOBS = 10


@dataclass(frozen=True)
class Generalization(Study):
    """What agents that were trained on generated queries do with other jobs and clusters.

    Attributes
    ----------
    data : Path or None
        Directory with ``tpch``, ``alibaba`` and ``workflows``; without, jobs are generated only.
    num_jobs : int
        Jobs of a run.
    executors : tuple of int
        Numbers of executors; the agents were trained with 10.
    ratios : tuple of float
        Communication-to-computation ratios.
    """

    data: Path | None = None
    num_jobs: int = 30
    executors: tuple[int, ...] = (3, 5, 20, 40)
    ratios: tuple[float, ...] = (0.0, 0.2, 3.0, 8.0)

    def __post_init__(self) -> None:
        """Check that there are data where they should be."""
        super().__post_init__()
        if self.data is not None and not self.data.is_dir():
            raise InvalidConfiguration(f"data is {str(self.data)!r}, want a directory")

    def measured(self) -> Measured:
        """Return what the runs bring."""
        rows = LEARNED | PAPER_ROWS | IDLE_ROWS | OWN_ROWS
        kinds = [GENERATED, RANDOM, *(MEASURED if self.data is not None else ())]
        executors = {
            str(count): GeneralSetting(num_jobs=self.num_jobs, num_executors=count) for count in self.executors
        }
        transfers = {f"{ratio:g}": GeneralSetting(num_jobs=self.num_jobs, ccr=ratio) for ratio in self.ratios}
        return self.measure(
            Panel("jobs", "jobs", {SHORT[kind]: self._setting(kind) for kind in kinds}, rows),
            Panel("executors", "executors", executors, rows),
            Panel("transfers", "CCR", transfers, rows),
            by=perform_general,
        )

    def _setting(self, kind: str) -> GeneralSetting:
        count = min(self.num_jobs, WORKFLOW_JOBS) if kind == WORKFLOW else self.num_jobs
        is_measured = self.data is not None and kind in MEASURED
        return GeneralSetting(kind, count, data=str(self.data.resolve()) if self.data and is_measured else "")

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        found = self.measured()
        yield from tables(found, TITLE)
        yield data(found, TITLE)
        yield from drawings(found, TITLE, ("makespan", "turnaround_time_mean", "gap_to_lower_bound"))


if __name__ == "__main__":
    sys.exit(run_as_program(Generalization))
