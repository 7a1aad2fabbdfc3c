"""Tables on the terminal and files of a study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from desim.cli.output import print_table, print_text
from desim.experiments.checks import Check
from desim.experiments.compare import with_interval
from desim.experiments.dbf.paper import CLAIMS
from desim.experiments.dbf.study import Panel, Study
from desim.experiments.results import print_heading, violation_lines, write_results

__all__ = [
    "METRIC_WORDS",
    "print_agents",
    "print_by_column",
    "print_end",
    "print_header",
    "print_missing",
    "write_study",
]

METRIC_WORDS = {
    "waiting_time_mean": "waiting time, s",
    "waiting_time_p99": "99th percentile, s",
    "waiting_time_max": "longest wait, s",
    "started_waiting_time_mean": "waiting time of started jobs, s",
    "started_waiting_time_p99": "99th percentile of started jobs, s",
    "started_waiting_time_max": "longest wait of started jobs, s",
    "bounded_slowdown_mean": "bounded slowdown",
    "queue_length_mean": "queue length",
    "queued_load_mean": "queued load, core-s",
    "utilization": "utilization",
    "jobs_queued": "jobs queued at the end",
    "num_decisions": "decisions",
    "num_cycles": "cycles ended",
    "invisible_jobs": "invisible jobs",
    "hidden_share": "share of decisions with invisible jobs",
    "return_paper": "return, paper's reward",
    "return_scaled": "return, scaled reward",
    "return_waiting": "return, waiting cost",
}
"""What metrics are called in tables and figures; of all jobs, those still queued included, if nothing else is said."""


def print_header(study: Study) -> None:
    """Say what was measured, on how many episodes."""
    options = study.options
    workloads = {options.fit(setting).workload for panel in study.panels for setting in panel.columns.values()}
    how = f"{options.num_episodes} episodes of {', '.join(sorted(workloads))}, means with 95 % intervals"
    print_heading(study, how)
    print_text("Jobs that are still queued at the end count with their waiting time so far, if nothing else is said.")


def print_missing(missing: Sequence[str]) -> None:
    """Say which rows are left out, since nothing is trained for them."""
    if missing:
        print_text(f"Not trained yet, so left out: {', '.join(missing)}.")


def print_agents(
    study: Study,
    panel: Panel,
    column: str,
    metrics: Sequence[str],
    *,
    title: str,
    against: Sequence[str] = (),
    compared: str = "waiting_time_mean",
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
        Which.
    title : str
        Of the table.
    against : sequence of str
        Rows that all others are compared with; the study's reference if empty.
    compared : str
        The metric of which the differences are, paired by episode.
    """
    others = list(against or [study.reference])
    rows = [row for row in panel.rows if study.has(panel, column, row)]
    if compared in metrics:
        rows.sort(key=lambda row: study.estimate(panel, column, row, compared).mean)
    table = []
    for row in rows:
        cells = [with_interval(study.estimate(panel, column, row, metric)) for metric in metrics]
        cells += [
            "–" if row == other else with_interval(study.versus(panel, column, row, other, compared), 0)
            for other in others
        ]
        table.append([row, *cells])
    word = METRIC_WORDS[compared].split(",")[0]
    heads = [METRIC_WORDS[metric].replace(" of started", "\nof started").replace(", ", ",\n") for metric in metrics]
    print_table(["", *heads, *(f"{word} less that of\n{other}" for other in others)], table, title=title)


def print_by_column(study: Study, panel: Panel, metric: str, *, title: str) -> None:
    """Print a table with one row a column of the panel and one column an agent.

    Parameters
    ----------
    study : Study
        What was measured.
    panel : Panel
        One of its panels.
    metric : str
        Which.
    title : str
        Of the table.
    """
    rows = [row for row in panel.rows if any(study.has(panel, column, row) for column in panel.columns)]
    table = [
        [
            column,
            *(
                with_interval(study.estimate(panel, column, row, metric)) if study.has(panel, column, row) else "–"
                for row in rows
            ),
        ]
        for column in panel.columns
    ]
    print_table([panel.parameter, *rows], table, title=f"{title}: {METRIC_WORDS[metric]}")


def print_end(study: Study) -> None:
    """Print what the paper says, and what a check of the records has found."""
    for line in [*CLAIMS.get(study.options.name, ()), *violation_lines(study)]:
        print_text(line)


def write_study(study: Study, checks: Sequence[Check], metrics: Sequence[str], **more: Any) -> list[Path]:
    """Write ``results.json`` and ``results.csv`` into the directory of the options.

    Parameters
    ----------
    study : Study
        What was measured.
    checks : sequence of Check
        What was to be shown.
    metrics : sequence of str
        What is written of every episode.
    **more
        Further entries of the document.

    Returns
    -------
    list of Path
        The files.
    """
    rows = list(_rows(study, metrics))
    document = {
        "title": study.title,
        "options": asdict(study.options),
        "reference": study.reference,
        "checks": [asdict(check) for check in checks],
        **more,
        "cells": rows,
    }
    flat = [{name: value for name, value in row.items() if name != "by_episode"} for row in rows]
    return write_results(study.options.directory, document, flat)


def _rows(study: Study, metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
    for panel in study.panels:
        for column, row, choice in panel.cells():
            for metric in metrics:
                estimate = study.estimate(panel, column, row, metric)
                compared = study.has(panel, column, study.reference)
                difference = study.difference(panel, column, row, metric) if compared else None
                yield {
                    "panel": panel.name,
                    "parameter": panel.parameter,
                    "column": column,
                    "agent": row,
                    "policy": choice.policy,
                    "weights": dict(choice.parameters).get("sha256"),
                    **asdict(study.options.fit(panel.columns[column])),
                    "metric": metric,
                    "num_episodes": study.options.num_episodes,
                    "mean": estimate.mean,
                    "half_width": estimate.half_width,
                    "above_reference": difference.mean if difference else None,
                    "above_reference_half_width": difference.half_width if difference else None,
                    "by_episode": study.values(panel, column, row, metric).tolist(),
                }
