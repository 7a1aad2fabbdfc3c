"""Gantt charts: LACHESIS and the best heuristic on the same jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from desim import Result, simulate
from desim.agents.dag import create
from desim.experiments.blocks import Block, Data, Drawing, Fault, Table, short
from desim.experiments.lachesis.agents import IDLE_ROWS, LACHESIS, LEARNED, LEARNED_IN_BATCHES, PAPER_ROWS, PLANNED_ROWS
from desim.experiments.lachesis.simulate import Choice, Setting, jobs_of
from desim.experiments.lachesis.study import Study
from desim.experiments.measured import faults_of, is_valid
from desim.experiments.study import run_as_program
from desim.plotting import gantt
from desim.problems.dag import DagCluster
from desim.workloads import executors

TITLE = "Gantt charts"


@dataclass(frozen=True)
class Gantts(Study):
    """What two schedules of the same jobs look like.

    Attributes
    ----------
    num_jobs, num_executors : int
        How many.
    ccr : float
        Ratio of mean transfer time to mean run time.
    mean_interval : float
        Seconds between jobs of the continuous chart.
    seed : int
        Which workload.
    """

    num_jobs: int = 20
    num_executors: int = 8
    ccr: float = 2.0
    mean_interval: float = 45.0
    seed: int = 3

    def charts(self) -> list[Chart]:
        """Simulate in batch and in continuous mode."""
        count, machines, ccr = self.num_jobs, self.num_executors, self.ccr
        batch = self.fit(Setting(count, machines, ccr, check=True))
        stream = self.fit(Setting(count, machines, ccr, self.mean_interval, check=True))
        cases = (
            ("batch", batch, LEARNED_IN_BATCHES, PAPER_ROWS | PLANNED_ROWS),
            ("continuous", stream, LEARNED, PAPER_ROWS | IDLE_ROWS),
        )
        return [
            Chart(
                name,
                {
                    row: self._result(setting, choice)
                    for row, choice in {LACHESIS: learned[LACHESIS], **heuristics}.items()
                },
            )
            for name, setting, learned, heuristics in cases
        ]

    def _result(self, setting: Setting, choice: Choice) -> Result:
        machines = executors.heterogeneous(setting.num_executors, seed=self.seed)
        cluster = DagCluster(jobs_of(setting, self.seed), machines, plan_ahead=choice.plan_ahead)
        return simulate(cluster, create(choice.policy), seed=self.seed)

    def blocks(self) -> Iterator[Block]:
        """Yield the charts, tables and files."""
        charts = self.charts()
        yield from (chart.drawing() for chart in charts)
        how = f"{self.num_jobs} jobs, {self.num_executors} executors, CCR {self.ccr:g}, workload {self.seed}"
        yield from self.heading(TITLE, how)
        for chart in charts:
            rows = [[row, short(value)] for row, value in chart.makespans.items()]
            yield Table(f"{chart.name}; best heuristic: {chart.best}", ["", "makespan, s"], rows)
            yield from chart.faults()
        told = [{"name": chart.name, "makespans": chart.makespans, "best": chart.best} for chart in charts]
        cells = [
            {"mode": c.name, "agent": row, "makespan": value} for c in charts for row, value in c.makespans.items()
        ]
        yield Data({"title": TITLE, "options": asdict(self), "charts": told}, cells)


@dataclass(frozen=True)
class Chart:
    """One workload.

    Attributes
    ----------
    name : str
        Which one.
    results : dict of str to Result
        Of all agents.
    """

    name: str
    results: Mapping[str, Result]

    @property
    def makespans(self) -> dict[str, float]:
        """Of all agents, in seconds."""
        return {row: float(result.metrics()["makespan"]) for row, result in self.results.items()}

    @property
    def best(self) -> str:
        """The heuristic with the shortest."""
        makespans = self.makespans
        return min((row for row in makespans if row != LACHESIS), key=makespans.__getitem__)

    def faults(self) -> Iterator[Fault]:
        """Yield what is to be said of records that are not valid."""
        return faults_of([[{"valid": is_valid(result, check=True)} for result in self.results.values()]])

    def drawing(self) -> Drawing:
        """Draw LACHESIS and the best heuristic."""
        shown = {row: self.results[row] for row in (LACHESIS, self.best)}
        panels = gantt(shown, labels=False)
        figure: Any = panels[0].figure
        for panel, row in zip(panels, shown, strict=True):
            panel.set_title(f"{self.name}: {row}", loc="left", fontsize=9)
        return Drawing(f"gantts_{self.name}.png", f"Gantt charts, {self.name}: {' and '.join(shown)}.", figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Gantts))
