"""Tables on the terminal and files of a study, with the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from desim.cli.output import print_table, print_text
from desim.experiments.beside import Beside, print_beside
from desim.experiments.compare import short, with_interval
from desim.experiments.ogasched.agents import RIVALS
from desim.experiments.ogasched.study import Cell, Key, Study
from desim.experiments.results import print_heading, violation_lines, write_results
from desim.statistics import Estimate

__all__ = ["METRIC_WORDS", "print_study", "verdict", "write_study"]

METRIC_WORDS = {
    "average_reward": "average reward",
    "cumulative_reward": "cumulative reward",
    "average_gain": "average gain",
    "average_overhead": "average overhead",
    "negative_slots": "share of slots with a negative reward",
}
"""What metrics are called in tables and figures."""


def print_study(
    study: Study,
    *,
    metrics: Sequence[str] = ("average_reward",),
    reference: str = "OGASched",
    rivals: Sequence[str] = tuple(RIVALS),
    remarks: Sequence[str] = (),
) -> None:
    """Print the tables of a study and say where the reference does not lead.

    Parameters
    ----------
    study : Study
        What was measured.
    metrics : sequence of str
        One table each in every panel.
    reference : str
        What the others are compared with, in words.
    rivals : sequence of str
        Rows that the reference is expected to be ahead of.
    remarks : sequence of str
        What to say at the end.
    """
    seeds = len(study.options.seed_list)
    print_heading(study, f"{seeds} seed{'s' * (seeds > 1)}, 95 % intervals, the paper's figures in brackets")
    for panel in study.panels:
        for metric in metrics:
            _print_panel(study, panel, METRIC_WORDS[metric], partial(_value, metric=metric))
        if any(cell.lead is not None for key, cell in study.cells.items() if key.panel == panel):
            _print_panel(study, panel, f"{reference} is ahead by, %", _lead)
    for line in [*verdict(study, reference, rivals), *remarks]:
        print_text(line)
    print_beside([row for key, cell in study.cells.items() for row in _beside(key, cell, reference)], study.options)


def _beside(key: Key, cell: Cell, reference: str) -> Iterator[Beside]:
    """Yield the paper's lead beside ours; its rewards depend on machines and requests that it does not print."""
    if cell.entry.paper_lead is not None and cell.lead is not None:
        column = "" if key.column in key.panel else f", {key.column}"
        yield Beside(f"{key.panel}{column}: {reference} above {key.row}, %", cell.entry.paper_lead, cell.lead, "more")


def _print_panel(study: Study, panel: str, title: str, text: Callable[[Cell], str]) -> None:
    columns, rows = study.columns(panel), study.rows(panel)
    table = []
    for row in rows:
        cells = [study.cells.get(Key(panel, column, row)) for column in columns]
        table.append([row, *("" if cell is None else text(cell) for cell in cells)])
    shown = [row for row in table if any(row[1:])]
    print_table(["", *columns], shown, title=f"{panel}: {title}")


def _value(cell: Cell, metric: str) -> str:
    text = with_interval(cell.metrics[metric])
    is_printed = metric == "average_reward" and cell.entry.paper is not None
    return f"{text} [{short(cell.entry.paper)}]" if is_printed else text


def _lead(cell: Cell) -> str:
    if cell.difference is None or cell.lead is None:
        return ""
    paper = "" if cell.entry.paper_lead is None else f" [{cell.entry.paper_lead:+.2f}]"
    if cell.lead.mean != cell.lead.mean:  # a loss: no ratio
        return f"by {with_interval(cell.difference)}{paper}"
    return f"{with_interval(cell.lead, digits=2)}{paper}"


def verdict(study: Study, reference: str, rivals: Sequence[str]) -> list[str]:
    """Return the lines that name every cell in which the reference does not lead.

    Parameters
    ----------
    study : Study
        What was measured.
    reference : str
        What it is called.
    rivals : sequence of str
        Rows that it is expected to be ahead of; the others are named apart.

    Returns
    -------
    list of str
        At least one.
    """
    compared = {key: cell for key, cell in study.cells.items() if cell.difference is not None}
    groups = {
        "rivals": [key for key in compared if key.row in rivals],
        "other rows": [key for key in compared if key.row not in rivals],
    }
    lines = []
    for name, keys in groups.items():
        if not keys:
            continue
        behind = study.behind({key.row for key in keys})
        clear = sum(_is_clear(compared[key]) and key not in behind for key in keys)
        ahead = len(keys) - len(behind)
        lines.append(f"{reference} is ahead of {name} in {ahead} of {len(keys)} cells, beyond doubt in {clear}.")
        for key, cell in behind.items():
            certainty = "beyond doubt" if _is_clear(cell) else "within the interval"
            lines.append(f"  not ahead, {certainty}: {key.panel}, {key.column}, {key.row}: {_lead(cell)}")
    return lines + violation_lines(study)


def _is_clear(cell: Cell) -> bool:
    return cell.difference is not None and cell.difference.excludes(0.0)


def write_study(study: Study, extra: Mapping[str, Any] | None = None) -> list[Path]:
    """Write ``results.json`` and ``results.csv`` into the directory of the options.

    Parameters
    ----------
    study : Study
        What was measured.
    extra : mapping, optional
        More for the JSON document.

    Returns
    -------
    list of Path
        The files.
    """
    document = {
        "title": study.title,
        "options": asdict(study.options),
        "cells": [_document(key, cell) for key, cell in study.cells.items()],
        **(extra or {}),
    }
    return write_results(study.options.directory, document, [_flat(key, cell) for key, cell in study.cells.items()])


def _document(key: Key, cell: Cell) -> dict[str, Any]:
    return {
        **key._asdict(),
        "setting": asdict(cell.setting),
        "agent": {"policy": cell.entry.choice.policy, **dict(cell.entry.choice.parameters)},
        "metrics": {name: _numbers(estimate) for name, estimate in cell.metrics.items()},
        "compared_with": None if cell.entry.reference is None else cell.entry.reference._asdict(),
        "difference": _numbers(cell.difference),
        "lead_percent": _numbers(cell.lead),
        "paper": {"average_reward": cell.entry.paper, "lead_percent": cell.entry.paper_lead},
        "by_seed": [outcome["average_reward"] for outcome in cell.outcomes],
        "valid": [outcome["valid"] for outcome in cell.outcomes],
    }


def _numbers(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}


def _flat(key: Key, cell: Cell) -> dict[str, Any]:
    row: dict[str, Any] = key._asdict() | {"num_seeds": len(cell.outcomes)}
    estimates = cell.metrics | {"difference": cell.difference, "lead_percent": cell.lead}
    for name, estimate in estimates.items():
        row[name] = None if estimate is None else estimate.mean
        row[f"{name}_half_width"] = None if estimate is None else estimate.half_width
    return row | {"paper_average_reward": cell.entry.paper, "paper_lead_percent": cell.entry.paper_lead}
