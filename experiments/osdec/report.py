"""Tables on the terminal and files of a study, with the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from desim.cli.output import print_table, print_text
from desim.experiments.checks import Check, print_checks
from desim.experiments.compare import short, with_interval
from desim.experiments.osdec.agents import OPTIMUM
from desim.experiments.osdec.paper import LEARNED_ROWS
from desim.experiments.osdec.simulating import METRICS
from desim.experiments.osdec.study import Panel, Study
from desim.experiments.results import print_heading, violation_lines, write_results
from desim.statistics import Estimate, mean_interval

__all__ = [
    "METRIC_WORDS",
    "cells_of",
    "print_deviations",
    "print_findings",
    "print_header",
    "print_metrics",
    "shortfall",
    "write_study",
]

METRIC_WORDS = {
    "utilization": "utilization",
    "time_delay": "time delay",
    "violation_penalty": "violation",
    "total_reward": "total reward",
    "acceptance": "acceptance",
    "acceptance_by_work": "acceptance by work",
    "expiry_rate": "expiry rate",
    "capacity_share_cores": "share of the capacity used",
    "delay_mean": "mean delay, slots",
    "violation": "cores above the capacity times slots",
    "violation_slots": "share of slots violated",
}
"""What metrics are called in tables and figures; the first four are in core-slots."""


def print_header(study: Study) -> None:
    """Say what was measured, on how many trajectories."""
    number = len(study.options.seed_list)
    print_heading(study, f"{number} trajectories, means with 95 % intervals, the paper's figures in brackets")


def shortfall(study: Study, panel: Panel, column: str, row: str) -> Estimate | None:
    """Return by how many percent the total reward is below the optimum's bound, paired by trajectory.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    column, row : str
        Where in it.

    Returns
    -------
    Estimate or None
        None where there is no optimum.
    """
    if OPTIMUM not in panel.rows:
        return None
    bounds = np.array([outcome["bound"] for outcome in study.outcomes[panel.name, column, OPTIMUM]])
    return mean_interval(100.0 * (1.0 - study.values(panel, column, row, "total_reward") / bounds))


def print_metrics(
    study: Study,
    panel: Panel,
    column: str,
    metrics: Sequence[str],
    paper: Mapping[str, Sequence[float | None]],
    *,
    title: str,
) -> None:
    """Print a table with one row an agent and one column a metric.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    column : str
        The setting.
    metrics : sequence of str
        Which; the total reward's lead over the reference and distance from the optimum follow.
    paper : mapping of str to sequence of float or None
        The paper's figures by row, one for each metric. Agents that are not trained for this setting have these alone.
    title : str
        Of the table.
    """
    known = {row for other in study.panels for row in other.rows} | set(paper)
    waiting = [row for row in LEARNED_ROWS if row in known and row not in panel.rows]
    table = []
    for row in [*panel.rows, *waiting]:
        printed = paper.get(row, [None] * len(metrics))
        cells = []
        for metric, figure in zip(metrics, printed, strict=True):
            ours = with_interval(study.estimate(panel, column, row, metric)) if row in panel.rows else "–"
            cells.append(ours if figure is None else f"{ours} [{short(figure)}]")
        table.append([row, *cells, *_compared(study, panel, column, row)])
    heads = [METRIC_WORDS[metric] for metric in metrics]
    print_table(["", *heads, f"above {study.reference}, %", "below the optimum, %"], table, title=title)


def _compared(study: Study, panel: Panel, column: str, row: str) -> list[str]:
    if row not in panel.rows:
        return ["–", "–"]
    lead = None if row == study.reference else study.lead(panel, column, row, "total_reward")
    return [with_interval(lead, 2), with_interval(shortfall(study, panel, column, row), 2)]


def print_deviations(study: Study, cells: Sequence[tuple[str, Panel, str, str]], *, of: str = "the means") -> None:
    """Print how far the trainings of a learned agent are apart, if there are several of any.

    Parameters
    ----------
    study : Study
        What was measured.
    cells : sequence of (str, Panel, str, str)
        The heads of the columns, and what they are: panel, column, metric.
    of : str
        What is told of, for the title.
    """
    table = []
    for row in dict.fromkeys(row for _, panel, _, _ in cells for row in panel.rows):
        there = [(panel, column, row, metric) if row in panel.rows else None for _, panel, column, metric in cells]
        numbers = {len(study.training_means(*place)) for place in there if place is not None}
        if max(numbers) > 1:
            found = [short(None if place is None else study.deviation(*place)) for place in there]
            table.append([row, "/".join(str(number) for number in sorted(numbers)), *found])
    if table:
        heads = ["", "trainings", *(head for head, *_ in cells)]
        print_table(heads, table, title=f"Standard deviation of {of} between trainings with other seeds")


def print_findings(study: Study, checks: Sequence[Check]) -> None:
    """Print what was to be shown, whether it holds, and violations.

    Parameters
    ----------
    study : Study
        What was measured.
    checks : sequence of Check
        What was to be shown; a trial in a smaller size need not.
    """
    print_checks(checks)
    for line in violation_lines(study):
        print_text(line)


def write_study(
    study: Study, checks: Sequence[Check], paper: Mapping[tuple[str, str, str], float | None]
) -> list[Path]:
    """Write ``results.json`` and ``results.csv`` into the directory of the options.

    Parameters
    ----------
    study : Study
        What was measured.
    checks : sequence of Check
        What was to be shown.
    paper : mapping of (column, row, metric) to float
        The paper's figures.

    Returns
    -------
    list of Path
        The files.
    """
    rows = list(_rows(study, paper))
    document = {
        "title": study.title,
        "options": asdict(study.options),
        "reference": study.reference,
        "checks": [asdict(check) for check in checks],
        "cells": rows,
    }
    flat = [{name: value for name, value in row.items() if name != "by_trajectory"} for row in rows]
    return write_results(study.options.directory, document, flat)


def _rows(study: Study, paper: Mapping[tuple[str, str, str], float | None]) -> Iterator[dict[str, Any]]:
    for panel in study.panels:
        for column, setting in panel.columns.items():
            for row, choice in panel.rows.items():
                cell = {
                    "panel": panel.name,
                    "column": column,
                    "agent": row,
                    "policy": choice.policy,
                    "parameters": dict(choice.parameters),
                    **asdict(study.options.fit(setting)),
                    "num_trajectories": len(study.options.seed_list),
                }
                for metric in METRICS:
                    yield cell | {
                        "metric": metric,
                        **cells_of(study, panel, column, row, metric),
                        "paper": paper.get((column, row, metric)),
                        "by_trajectory": study.values(panel, column, row, metric).tolist(),
                    }


def cells_of(study: Study, panel: Panel, column: str, row: str, metric: str) -> dict[str, float | None]:
    """Return what files tell of a metric.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    column, row, metric : str
        Where in it, and of what.

    Returns
    -------
    dict of str to float
        Mean, difference from the reference, and the deviation between trainings.
    """
    estimate = study.estimate(panel, column, row, metric)
    found: dict[str, float | None] = {"mean": estimate.mean, "half_width": estimate.half_width}
    if study.reference in panel.rows:
        difference = study.difference(panel, column, row, metric)
        found |= {"above_reference": difference.mean, "above_reference_half_width": difference.half_width}
    deviation = study.deviation(panel, column, row, metric)
    number = len(study.training_means(panel, column, row, metric))
    return found | {"num_trainings": number, "deviation_of_trainings": deviation if number > 1 else None}
