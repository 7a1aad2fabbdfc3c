"""Gantt charts: LACHESIS and the best heuristic on the same jobs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from desim import Result, simulate
from desim.agents.dag import create
from desim.cli.output import print_table
from desim.experiments.compare import short
from desim.experiments.drawing import write_figure
from desim.experiments.lachesis.agents import IDLE_ROWS, LACHESIS, LEARNED, LEARNED_IN_BATCHES, PAPER_ROWS, PLANNED_ROWS
from desim.experiments.lachesis.options import Options
from desim.experiments.lachesis.simulating import Choice, Setting, jobs_of
from desim.experiments.options import run_as_program
from desim.experiments.results import print_heading, write_results
from desim.experiments.run import is_valid
from desim.plotting import gantt
from desim.problems.dag import DagCluster
from desim.workloads import executors

__all__ = ["Chart", "Charts", "Gantts", "gantts"]


@dataclass(frozen=True)
class Gantts(Options):
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


@dataclass(frozen=True)
class Chart:
    """One workload.

    Attributes
    ----------
    name : str
        Which one.
    makespans : dict of str to float
        Of all agents, in seconds.
    best : str
        The heuristic with the shortest.
    """

    name: str
    makespans: Mapping[str, float]
    best: str


@dataclass(frozen=True)
class Charts:
    """All charts.

    Attributes
    ----------
    title : str
        What it is.
    options : Gantts
        How it was asked for.
    charts : tuple of Chart
        In batch and in continuous mode.
    num_invalid : int
        Runs in whose records a check has found a violation.
    """

    title: str
    options: Gantts
    charts: tuple[Chart, ...]
    num_invalid: int


def gantts(options: Gantts) -> Charts:
    """Simulate, print and draw.

    Parameters
    ----------
    options : Gantts
        Jobs, executors, directories.

    Returns
    -------
    Charts
        What was simulated.
    """
    count, machines = options.num_jobs, options.num_executors
    batch = options.fit(Setting(count, machines, options.ccr, check=True))
    stream = options.fit(Setting(count, machines, options.ccr, options.mean_interval, check=True))
    cases = {
        "batch": (batch, LEARNED_IN_BATCHES, PAPER_ROWS | PLANNED_ROWS),
        "continuous": (stream, LEARNED, PAPER_ROWS | IDLE_ROWS),
    }
    charts, invalid = [], 0
    for name, (setting, learned, heuristics) in cases.items():
        runs = {
            row: _run(setting, choice, options.seed)
            for row, choice in {LACHESIS: learned[LACHESIS], **heuristics}.items()
        }
        invalid += sum(not is_valid(result, check=True) for result in runs.values())
        makespans = {row: float(result.metrics()["makespan"]) for row, result in runs.items()}
        best = min(heuristics, key=makespans.__getitem__)
        charts.append(Chart(name, makespans, best))
        _draw({LACHESIS: runs[LACHESIS], best: runs[best]}, options, name)
    study = Charts("Gantt charts", options, tuple(charts), invalid)
    print_heading(study, f"{count} jobs, {machines} executors, CCR {options.ccr:g}, workload {options.seed}")
    for chart in charts:
        table = [[row, short(chart.makespans[row])] for row in chart.makespans]
        print_table(["", "makespan, s"], table, words=(0,), title=f"{chart.name}; best heuristic: {chart.best}")
    rows = [{"mode": c.name, "agent": row, "makespan": value} for c in charts for row, value in c.makespans.items()]
    document = {"title": study.title, "options": asdict(options), "charts": [asdict(chart) for chart in charts]}
    write_results(options.directory, document, rows)
    return study


def _run(setting: Setting, choice: Choice, seed: int) -> Result:
    machines = executors.heterogeneous(setting.num_executors, seed=seed)
    cluster = DagCluster(jobs_of(setting, seed), machines, plan_ahead=choice.plan_ahead)
    return simulate(cluster, create(choice.policy), seed=seed)


def _draw(results: dict[str, Result], options: Gantts, name: str) -> None:
    panels = gantt(results, labels=False)
    figure: Any = panels[0].figure
    for panel, row in zip(panels, results, strict=True):
        panel.set_title(f"{name}: {row}", loc="left", fontsize=9)
    caption = f"Gantt charts, {name}: {' and '.join(results)}."
    write_figure(figure, options.directory / f"gantts_{name}.png", caption)


if __name__ == "__main__":
    sys.exit(run_as_program(Gantts, gantts))
