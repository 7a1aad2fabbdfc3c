"""Tables on the terminal and files of a study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from desim.cli.output import print_table, print_text
from desim.experiments.compare import short, with_interval
from desim.experiments.lachesis.simulating import METRICS
from desim.experiments.lachesis.study import Panel, Study
from desim.experiments.results import print_heading, violation_lines, write_results
from desim.statistics import Estimate

__all__ = ["METRIC_WORDS", "MILLISECONDS", "percentiles", "print_objectives", "print_study", "write_study"]

METRIC_WORDS = {
    "makespan": "makespan, s",
    "speedup": "speedup",
    "slr": "schedule length ratio",
    "turnaround_time_mean": "mean job completion time, s",
    "gap_to_lower_bound": "gap to the lower bound, %",
    "lower_bound": "lower bound, s",
    "num_duplicates": "duplicates",
    "num_useful_duplicates": "useful duplicates",
    "data_moved": "data moved",
    "utilization": "utilization of executors",
}
"""What metrics are called in tables and figures."""

MILLISECONDS = 1_000.0


def print_study(
    study: Study,
    metrics: Sequence[str],
    *,
    compared: Sequence[str] = ("makespan",),
    remarks: Sequence[str] = (),
) -> None:
    """Print the tables of a study.

    Parameters
    ----------
    study : Study
        What was measured.
    metrics : sequence of str
        One table each in every panel.
    compared : sequence of str
        Metrics of which less is better: how far the others are above the reference.
    remarks : sequence of str
        What to say at the end.
    """
    workloads = len(study.options.seed_list)
    print_heading(study, f"{workloads} workloads a point, means with 95 % intervals")
    for panel in study.panels:
        for metric in metrics:
            _print_table(
                panel, METRIC_WORDS[metric], partial(study.estimate, panel, metric=metric), sorted_out(panel, metric)
            )
        for metric in compared:
            title = f"{METRIC_WORDS[metric].split(',')[0]} above that of {study.reference}, %, paired"
            rows = [row for row in panel.rows if row != study.reference]
            _print_table(panel, title, partial(study.lead, panel, metric=metric), rows, digits=2)
        _print_decision_times(study, panel)
    for line in [*remarks, *violation_lines(study)]:
        print_text(line)


def print_objectives(study: Study, for_completion: str, *, remarks: Sequence[str] = ()) -> None:
    """Print makespans beside those of the reference, and mean completion times beside those of another agent.

    Parameters
    ----------
    study : Study
        What was measured.
    for_completion : str
        The agent that keeps completion times short.
    remarks : sequence of str
        What to say at the end.
    """
    print_study(study, ("makespan", "lower_bound", "gap_to_lower_bound"))
    metrics = ("turnaround_time_mean",)
    print_study(replace(study, reference=for_completion), metrics, compared=metrics, remarks=remarks)


def sorted_out(panel: Panel, metric: str) -> list[str]:
    """Return the rows of a table: all agents, but one for what does not depend on them."""
    return list(panel.rows)[:1] if metric == "lower_bound" else list(panel.rows)


def _print_table(panel: Panel, title: str, estimate: Any, rows: Sequence[str], digits: int | None = None) -> None:
    one_for_all = len(rows) == 1 and len(panel.rows) > 2
    table = [
        [
            "any agent" if one_for_all else row,
            *(with_interval(estimate(column=column, row=row), digits) for column in panel.columns),
        ]
        for row in rows
    ]
    print_table([panel.parameter, *panel.columns], table, title=f"{panel.name}: {title}")


def _print_decision_times(study: Study, panel: Panel) -> None:
    rows = []
    for row in panel.rows:
        times = percentiles(study, panel, row, (0.5, 0.98, 0.999))
        rows.append([row, *(short(MILLISECONDS * time) for time in times)])
    print_table(["", "50 %", "98 %", "99.9 %"], rows, title=f"{panel.name}: time of a decision, ms")


def percentiles(study: Study, panel: Panel, row: str, shares: Sequence[float]) -> list[float]:
    """Return the seconds within which shares of an agent's decisions are taken.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    row : str
        The agent.
    shares : sequence of float
        Between 0 and 1.

    Returns
    -------
    list of float
        One for each share.
    """
    seconds, known = study.decision_seconds(panel, row)
    return [float(seconds[min(int(known.searchsorted(share)), len(seconds) - 1)]) for share in shares]


def write_study(study: Study) -> list[Path]:
    """Write ``results.json`` and ``results.csv`` into the directory of the options.

    Parameters
    ----------
    study : Study
        What was measured.

    Returns
    -------
    list of Path
        The files.
    """
    rows = list(_rows(study))
    document = {
        "title": study.title,
        "options": asdict(study.options),
        "reference": study.reference,
        "cells": rows,
        "decision_seconds": {
            panel.name: {row: _written_percentiles(study, panel, row) for row in panel.rows} for panel in study.panels
        },
    }
    flat = [{name: value for name, value in row.items() if name != "by_workload"} for row in rows]
    return write_results(study.options.directory, document, flat)


def _rows(study: Study) -> Iterator[dict[str, Any]]:
    for panel in study.panels:
        for column, setting in panel.columns.items():
            for row, choice in panel.rows.items():
                for metric in METRICS:
                    estimate = study.estimate(panel, column, row, metric)
                    yield {
                        "panel": panel.name,
                        panel.parameter: column,
                        "agent": row,
                        "policy": choice.policy,
                        "plan_ahead": choice.plan_ahead,
                        **asdict(study.options.fit(setting)),
                        "metric": metric,
                        "num_workloads": len(study.options.seed_list),
                        "mean": estimate.mean,
                        "half_width": estimate.half_width,
                        **_compared("percent_above_reference", study.lead(panel, column, row, metric)),
                        **_compared("above_reference", study.difference(panel, column, row, metric)),
                        "by_workload": study.values(panel, column, row, metric).tolist(),
                    }


def _compared(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.mean, f"{name}_half_width": estimate.half_width}


def _written_percentiles(study: Study, panel: Panel, row: str) -> dict[str, float]:
    shares = (0.5, 0.9, 0.98, 0.99, 0.999)
    return {f"{share:g}": time for share, time in zip(shares, percentiles(study, panel, row, shares), strict=True)}
