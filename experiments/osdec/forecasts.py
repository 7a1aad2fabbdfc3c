"""What the auxiliary module predicts of the next slot, against forecasts that need no training."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from desim.experiments.blocks import Block, Check, Checks, Data, Drawing, Paragraph, Table, with_interval
from desim.experiments.drawing import new_figure
from desim.experiments.measured import Panel
from desim.experiments.osdec.agents import WORKLOADS
from desim.experiments.osdec.learned import MEASURES, MODULE, forecast_metric, perform_forecasts, sources_of
from desim.experiments.osdec.study import Measured, Study, deviations
from desim.experiments.study import run_as_program
from desim.statistics import Estimate, paired_difference

TITLE = "Forecasts of the next slot"
CASES = ("default", "fluctuating")
TASK_WORDS = {
    "capacity": "capacity, cores",
    "mean_cores": "mean cores of the jobs that can be started",
    "mean_duration": "their mean duration, a quarter of the logarithm of 1 + slots",
    "violation": "violation, cores",
}
"""What is predicted of the next slot."""


@dataclass(frozen=True)
class Forecasts(Study):
    """How well learned agents know what comes, on trajectories that they were not trained on."""

    def measured(self) -> Measured:
        """Return what the runs bring; no panels if no weights have an auxiliary module."""
        panels = self.learned_panels(CASES, lambda config: bool(config["auxiliary"] != "none"))
        return self.measure(*panels, reference="", learned_by=perform_forecasts)

    def blocks(self) -> Iterator[Block]:
        """Yield tables, checks, files and the figure."""
        found = self.measured()
        if not found.panels:
            yield Paragraph("There are no weights with an auxiliary module.")
            return
        yield from found.runs
        yield from self.heading(TITLE, f"{len(self.seed_list)} trajectories, means with 95 % intervals")
        for panel in found.panels:
            yield from (_table(found, panel, task) for task in TASK_WORDS)
        cells = [
            (f"{measure},\n{panel.name}", panel, panel.name, forecast_metric("capacity", MODULE, measure))
            for panel in found.panels
            for measure in MEASURES
        ]
        yield from deviations(found, cells, "the module's error of the capacity")
        checks = [] if self.is_reduced else [check for panel in found.panels for check in forecast_checks(found, panel)]
        yield Checks(checks)
        rows = list(_rows(found))
        told = {"title": TITLE, "options": asdict(self), "checks": asdict(Checks(checks))["checks"], "cells": rows}
        yield Data(told, rows)
        yield _drawing(found)


def forecast_checks(found: Measured, panel: Panel) -> list[Check]:
    """Tell whether the module is nearer to the next capacity than all other forecasts, paired by trajectory.

    One for each learned row and measure; it holds if all intervals are below 0.
    """
    checks = []
    for row in panel.rows:
        for measure in MEASURES:
            behind = {
                source: _behind(found, panel, row, ("capacity", source, measure)) for source in _others("capacity")
            }
            ours = found.estimate(panel, panel.name, row, forecast_metric("capacity", MODULE, measure))
            words = "; ".join(f"{source} {with_interval(estimate, 3)}" for source, estimate in behind.items())
            text = f"{panel.name}: {measure} of the capacity by the module of {row}: {ours.mean:.3f} cores; less that"
            checks.append(Check(f"{text} of {words}", all(estimate.high < 0 for estimate in behind.values())))
    return checks


def _others(task: str) -> tuple[str, ...]:
    return sources_of(task)[1:]


def _behind(found: Measured, panel: Panel, row: str, named: tuple[str, str, str]) -> Estimate:
    """Return the module's error less that of a source of a task: below 0 where the module is better."""
    task, source, measure = named
    names = [forecast_metric(task, name, measure) for name in (MODULE, source)]
    return paired_difference(*(found.values(panel, panel.name, row, name) for name in names))


def _table(found: Measured, panel: Panel, task: str) -> Table:
    lines = []
    for row in panel.rows:
        for measure in MEASURES:
            estimates = {
                source: found.estimate(panel, panel.name, row, forecast_metric(task, source, measure))
                for source in sources_of(task)
            }
            best = min(_others(task), key=lambda source: estimates[source].mean)
            lead = with_interval(_behind(found, panel, row, (task, best, measure)), 3)
            lines.append([row, measure, *map(with_interval, estimates.values()), lead])
    heads = ["", "", *sources_of(task), "less the best\nof the others"]
    return Table(f"{panel.name}: {TASK_WORDS[task]}", heads, lines, (1,))


def _rows(found: Measured) -> Iterator[dict[str, Any]]:
    for panel in found.panels:
        for row, choice in panel.rows.items():
            for task in TASK_WORDS:
                for source in sources_of(task):
                    for measure in MEASURES:
                        yield {
                            "workload": panel.name,
                            "agent": row,
                            "weights": "; ".join(dict(choice.parameters)["weights"]),
                            "task": task,
                            "source": source,
                            "measure": measure,
                            "num_trajectories": len(found.study.seed_list),
                            **found.summary(panel, panel.name, row, forecast_metric(task, source, measure)),
                        }


def _drawing(found: Measured) -> Drawing:
    """Draw how far predictions of the next capacity are off, one row of axes a workload."""
    figure, grid = new_figure(len(found.panels), len(MEASURES), width=5.0, height=2.6)
    for panel, axes in zip(found.panels, grid, strict=True):
        first = next(iter(panel.rows))
        labels = [f"module of {row}" for row in panel.rows] + list(_others("capacity"))
        colors = ["#0072B2"] * len(panel.rows) + ["#555555"] * (len(labels) - len(panel.rows))
        names = [(row, MODULE) for row in panel.rows] + [(first, source) for source in _others("capacity")]
        for ax, measure in zip(axes, MEASURES, strict=True):
            for place, ((row, source), color) in enumerate(zip(names, colors, strict=True)):
                error = found.estimate(panel, panel.name, row, forecast_metric("capacity", source, measure))
                width = np.nan_to_num(error.half_width)
                ax.errorbar(error.mean, place, xerr=width, color=color, marker="o", markersize=4, elinewidth=1.0)
            ax.set_yticks(range(len(labels)), labels if ax is axes[0] else [""] * len(labels), fontsize=8)
            ax.invert_yaxis()
            ax.set_xlabel(f"{measure}, cores", fontsize=8)
            ax.grid(axis="x", color="lightgrey", linewidth=0.5)
        axes[0].set_title(f"capacity of the next slot, {WORKLOADS[panel.name]}", loc="left", fontsize=9)
    caption = "How far predictions of the capacity are off, with 95 % intervals."
    return Drawing("forecasts.png", caption, figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Forecasts))
