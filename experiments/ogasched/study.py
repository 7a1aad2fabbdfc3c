"""What the studies of this paper share: sizes, panels with the paper's figures, tables, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from desim.experiments import measured, study
from desim.experiments.blocks import Beside, Besides, Block, Data, Paragraph, Table, lead_percent, short, with_interval
from desim.experiments.ogasched.agents import OGASCHED, RIVALS
from desim.experiments.ogasched.simulate import Setting, perform
from desim.statistics import Estimate, paired_difference

__all__ = ["METRIC_WORDS", "QUICK_NODES", "QUICK_SLOTS", "Measured", "Panel", "Study", "data", "tables", "verdict"]

#: With --quick: what T and the number of nodes are divided by.
QUICK_SLOTS, QUICK_NODES = 50, 2

METRIC_WORDS = {
    "average_reward": "average reward",
    "cumulative_reward": "cumulative reward",
    "average_gain": "average gain",
    "average_overhead": "average overhead",
    "negative_slots": "share of slots with a negative reward",
}
"""What metrics are called in tables and figures."""
#: What files tell of a run besides.
MORE = ("mean_utilization", "seconds_per_slot")


@dataclass(frozen=True)
class Study(study.Study):
    """What all studies of this paper take; with ``quick`` T is divided by 50, the number of nodes by 2.

    Attributes
    ----------
    divide_slots : int
        What T is divided by, for smaller trials.
    divide_nodes : int
        What the number of nodes is divided by, for smaller trials.
    """

    paper: ClassVar[str] = "ogasched"

    divide_slots: int = 1
    divide_nodes: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        self.require_positive("seeds", "divide_slots", "divide_nodes")

    @property
    def is_reduced(self) -> bool:
        """Whether the runs are smaller than the paper's."""
        return self.quick or self.divide_slots > 1 or self.divide_nodes > 1

    def fit(self, setting: Setting) -> Setting:
        """Return a setting in the size that is asked for.

        It has at least 10 slots and as many nodes as ports, unless it had fewer before.
        """
        slots = max(self.divide_slots, QUICK_SLOTS if self.quick else 1)
        nodes = max(self.divide_nodes, QUICK_NODES if self.quick else 1)
        return replace(
            setting,
            num_slots=max(setting.num_slots // slots, min(setting.num_slots, 10)),
            num_nodes=max(setting.num_nodes // nodes, min(setting.num_nodes, setting.num_ports)),
            check=setting.check or self.quick,
        )

    def measure(self, *panels: Panel) -> Measured:
        """Perform the runs of panels that are not stored yet."""
        found: Measured = Measured.of(self, panels, perform, reference=OGASCHED)
        return found


@dataclass(frozen=True)
class Panel(measured.Panel):
    """Settings that belong together, and what the paper says of them.

    Attributes
    ----------
    references : dict of str to str
        By row: the row that it is compared with; if empty, OGASched for all others.
    paper : dict of str to sequence of float
        The paper's average rewards by row, column after column.
    paper_leads : dict of str to sequence of float
        By how many percent the paper's reference is ahead.
    """

    references: Mapping[str, str] = field(default_factory=dict)
    paper: Mapping[str, Sequence[float]] = field(default_factory=dict)
    paper_leads: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def cells(self) -> Iterator[tuple[str, str, Any]]:
        """Yield column, row and agent of every cell, row by row unless agents differ from column to column."""
        if any(isinstance(choice, Mapping) for choice in self.rows.values()):
            yield from super().cells()
        else:
            yield from ((column, row, choice) for row, choice in self.rows.items() for column in self.columns)

    def reference(self, row: str) -> str | None:
        """Return the row that a row is compared with; None for the references themselves."""
        if self.references:
            return self.references.get(row)
        return None if row == OGASCHED else OGASCHED

    def printed(self, figures: Mapping[str, Sequence[float]], column: str, row: str) -> float | None:
        """Return the paper's figure for a cell, if it has one."""
        return figures[row][list(self.columns).index(column)] if row in figures else None


@dataclass(frozen=True)
class Measured(measured.Measured):
    """What the runs have brought; beside the metrics of a run there are ``cumulative_reward`` and
    ``mean_utilization``.
    """

    study: Study
    panels: tuple[Panel, ...]

    def values(self, panel: measured.Panel, column: str, row: str, metric: str) -> NDArray[np.float64]:
        """Return a metric by seed; arguments as for any study."""
        if metric == "cumulative_reward":
            num_slots = self.study.fit(panel.columns[column]).num_slots
            return num_slots * self.values(panel, column, row, "average_reward")
        if metric == "mean_utilization":
            outcomes = self.outcomes[panel.name, column, row]
            shares = [[share for share in one["utilization"].values() if share is not None] for one in outcomes]
            return np.array([np.mean(one) for one in shares])
        return super().values(panel, column, row, metric)

    def pair(self, panel: Panel, column: str, row: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return average rewards of the reference and of a row, by seed; None for the references themselves."""
        reference = panel.reference(row)
        if reference is None:
            return None
        ours, theirs = (self.values(panel, column, one, "average_reward") for one in (reference, row))
        return ours, theirs

    def behind(self, panel: Panel, column: str, row: str) -> Estimate | None:
        """Return the average reward of the reference less that of a row, paired by seed."""
        pair = self.pair(panel, column, row)
        return None if pair is None else paired_difference(*pair)

    def ahead(self, panel: Panel, column: str, row: str) -> Estimate | None:
        """Return the same in percent of the row's average reward; not a number where that is not above 0."""
        pair = self.pair(panel, column, row)
        return None if pair is None else lead_percent(*pair)

    def curve(self, panel: Panel, column: str, row: str) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return numbers of slots, and average rewards until then, of shape (num_seeds, n)."""
        curves = [outcome["curve"] for outcome in self.outcomes[panel.name, column, row]]
        return np.array(curves[0]["slots"]), np.array([curve["average_reward"] for curve in curves])


# -- tables -----------------------------------------------------------------------------------------


def tables(
    found: Measured,
    title: str,
    *,
    metrics: Sequence[str] = ("average_reward",),
    reference: str = OGASCHED,
    rivals: Sequence[str] = tuple(RIVALS),
) -> Iterator[Block]:
    """Yield the tables of a study, and say where the reference does not lead.

    Parameters
    ----------
    found : Measured
        What was measured.
    title : str
        What it is.
    metrics : sequence of str
        One table each in every panel.
    reference : str
        What the others are compared with, in words.
    rivals : sequence of str
        Rows that the reference is expected to be ahead of.

    Yields
    ------
    Block
        In the order of a report.
    """
    yield from found.runs
    seeds = len(found.study.seed_list)
    how = f"{seeds} seed{'s' * (seeds > 1)}, 95 % intervals, the paper's figures in brackets"
    yield from found.study.heading(title, how)
    for panel in found.panels:
        for metric in metrics:
            yield _table(panel, METRIC_WORDS[metric], partial(_value, found, panel, metric))
        if any(panel.reference(row) is not None for row in panel.rows):
            yield _table(panel, f"{reference} is ahead by, %", partial(_lead, found, panel))
    yield from (Paragraph(line) for line in verdict(found, reference, rivals))
    yield from found.faults()
    yield Besides(list(_beside(found, reference)), found.study.is_reduced)


def _beside(found: Measured, reference: str) -> Iterator[Beside]:
    """Yield the paper's lead beside ours; its rewards depend on machines and requests that it does not print."""
    for panel in found.panels:
        for column, row, _ in panel.cells():
            paper, ours = panel.printed(panel.paper_leads, column, row), found.ahead(panel, column, row)
            if paper is not None and ours is not None:
                where = "" if column in panel.name else f", {column}"
                yield Beside(f"{panel.name}{where}: {reference} above {row}, %", paper, ours, "more")


def _table(panel: Panel, title: str, text: Callable[[str, str], str]) -> Table:
    rows = [[row, *(text(column, row) for column in panel.columns)] for row in panel.rows]
    return Table(f"{panel.name}: {title}", ["", *panel.columns], [row for row in rows if any(row[1:])])


def _value(found: Measured, panel: Panel, metric: str, column: str, row: str) -> str:
    text = with_interval(found.estimate(panel, column, row, metric))
    paper = panel.printed(panel.paper, column, row) if metric == "average_reward" else None
    return text if paper is None else f"{text} [{short(paper)}]"


def _lead(found: Measured, panel: Panel, column: str, row: str) -> str:
    lead = found.ahead(panel, column, row)
    if lead is None:
        return ""
    printed = panel.printed(panel.paper_leads, column, row)
    paper = "" if printed is None else f" [{printed:+.2f}]"
    if lead.mean != lead.mean:  # a loss: no ratio
        return f"by {with_interval(found.behind(panel, column, row))}{paper}"
    return f"{with_interval(lead, digits=2)}{paper}"


def verdict(found: Measured, reference: str, rivals: Sequence[str]) -> list[str]:
    """Return the lines that name every cell in which the reference does not lead: it earns no more.

    Parameters
    ----------
    found : Measured
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
    leads = {
        (panel.name, column, row): (difference, _lead(found, panel, column, row))
        for panel in found.panels
        for column, row, _ in panel.cells()
        if (difference := found.behind(panel, column, row)) is not None
    }
    lines = []
    for name, are_rivals in (("rivals", True), ("other rows", False)):
        group = {key: lead for key, lead in leads.items() if (key[2] in rivals) == are_rivals}
        if not group:
            continue
        behind = {key: lead for key, lead in group.items() if not lead[0].mean > 0}
        clear = sum(difference.excludes(0.0) for key, (difference, _) in group.items() if key not in behind)
        ahead = len(group) - len(behind)
        lines.append(f"{reference} is ahead of {name} in {ahead} of {len(group)} cells, beyond doubt in {clear}.")
        for key, (difference, text) in behind.items():
            certainty = "beyond doubt" if difference.excludes(0.0) else "within the interval"
            lines.append(f"  not ahead, {certainty}: {', '.join(key)}: {text}")
    return lines


# -- files ------------------------------------------------------------------------------------------


def data(found: Measured, title: str, *, with_curves: bool = False) -> Data:
    """Return what programs read.

    Parameters
    ----------
    found : Measured
        What was measured.
    title : str
        What it is.
    with_curves : bool
        Whether running average rewards are told, too.

    Returns
    -------
    Data
        One entry and row a cell.
    """
    cells, rows, curves = [], [], []
    for panel in found.panels:
        for column, row, choice in panel.cells():
            key = {"panel": panel.name, "column": column, "row": row}
            outcomes, reference = found.outcomes[panel.name, column, row], panel.reference(row)
            metrics = {name: found.estimate(panel, column, row, name) for name in (*METRIC_WORDS, *MORE)}
            compared = {"difference": found.behind(panel, column, row), "lead_percent": found.ahead(panel, column, row)}
            paper = {
                "average_reward": panel.printed(panel.paper, column, row),
                "lead_percent": panel.printed(panel.paper_leads, column, row),
            }
            cells.append(
                key
                | {
                    "setting": asdict(found.study.fit(panel.columns[column])),
                    "agent": {"policy": choice.policy, **dict(choice.parameters)},
                    "metrics": {name: _numbers(estimate) for name, estimate in metrics.items()},
                    "compared_with": None if reference is None else key | {"row": reference},
                    **{name: _numbers(estimate) for name, estimate in compared.items()},
                    "paper": paper,
                    "by_seed": [outcome["average_reward"] for outcome in outcomes],
                    "valid": [outcome["valid"] for outcome in outcomes],
                }
            )
            flat: dict[str, Any] = key | {"num_seeds": len(outcomes)}
            for name, estimate in (metrics | compared).items():
                flat[name] = None if estimate is None else estimate.mean
                flat[f"{name}_half_width"] = None if estimate is None else estimate.half_width
            rows.append(flat | {f"paper_{name}": value for name, value in paper.items()})
            if with_curves:
                slots, averages = found.curve(panel, column, row)
                curves.append(
                    key | {"slots": slots.tolist(), "average_reward": averages.mean(axis=0).round(4).tolist()}
                )
    document = {"title": title, "options": asdict(found.study), "cells": cells}
    return Data(document | ({"curves": curves} if with_curves else {}), rows)


def _numbers(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}
