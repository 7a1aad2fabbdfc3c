"""Allocation of GPUs under six placement policies, beside the published figures."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from desim.exceptions import InvalidConfiguration
from desim.experiments.blocks import (
    Beside,
    Besides,
    Block,
    Check,
    Checks,
    Data,
    Drawing,
    Paragraph,
    Table,
    with_interval,
)
from desim.experiments.drawing import legend_below, new_figure
from desim.experiments.measured import Choice, Measured, Panel
from desim.experiments.openb.policies import POLICIES
from desim.experiments.openb.simulate import MADE, REQUESTED, Setting, perform
from desim.experiments.study import Study, run_as_program
from desim.plotting.colors import line_styles

TITLE = "openb: GPUs in use, percent"
REFERENCE = "FGD"
METRICS = ("allocated_at_100", "allocated_at_130", "dropped")
WORKLOADS = ("default", "cpu050", "gpuspec10", "gpushare40", "multigpu20")
"""Those that have published figures."""
WITHIN = 0.5
QUICK_NODES = 60


@dataclass(frozen=True)
class Allocation(Study):
    """GPUs in use when 100 and 130 percent have been requested, and the curves between.

    Attributes
    ----------
    data : Path or None
        Directory with ``alibaba`` and ``gpu/openb``; without, nodes and pods are made up.
    workloads : tuple of str
        Those of the trace.
    """

    paper: ClassVar[str] = "openb"

    data: Path | None = None
    workloads: tuple[str, ...] = WORKLOADS

    def __post_init__(self) -> None:
        """Check that the data are where they should be."""
        super().__post_init__()
        if self.data is not None and not self.data.is_dir():
            raise InvalidConfiguration(f"data is {str(self.data)!r}, want a directory")

    @property
    def is_reduced(self) -> bool:
        """Whether the runs are smaller than the paper's."""
        return self.quick or self.data is None

    def blocks(self) -> Iterator[Block]:
        """Yield tables, what is published beside ours, files and the figure."""
        size = QUICK_NODES if self.quick else 0
        if self.data is None:
            columns = {MADE: Setting(MADE, num_nodes=QUICK_NODES // 3 if self.quick else 400, check=self.quick)}
        else:
            place = str(self.data.resolve())
            columns = {name: Setting(name, place, size, check=self.quick) for name in self.workloads}
        panel = Panel("allocation", "workload", columns, {name: Choice(name) for name in POLICIES})
        found: Measured = Measured.of(self, [panel], perform, reference=REFERENCE)
        yield from self.heading(TITLE, f"{len(self.seed_list)} orders of arrival of each workload")
        if self.data is None:
            yield Paragraph("Without --data, nodes and pods are made up, and nothing is published of them.")
        for metric, title in (
            ("allocated_at_100", "when 100 percent have been requested"),
            ("allocated_at_130", "when 130 percent have been requested"),
            ("dropped", "pods that found no room"),
        ):
            rows = [
                [row, *(with_interval(found.estimate(panel, column, row, metric)) for column in columns)]
                for row in panel.rows
            ]
            yield Table(title, ["policy", *columns], rows)
        published = {} if self.is_reduced or self.data is None else read_published(self.data)
        if published:
            yield from beside(found, panel, published)
        yield from found.faults()
        yield from found.runs
        yield data(found, panel)
        yield drawing(found, panel)


def read_published(directory: Path) -> dict[tuple[str, str], float]:
    """Return the published means when 130 percent have been requested, by workload and policy.

    Parameters
    ----------
    directory : Path
        Of the data.

    Returns
    -------
    dict
        Percent of the GPUs; empty if the file is not there.
    """
    path = directory / "gpu" / "openb" / "fgd_allocation.csv"
    if not path.is_file():
        return {}
    values: dict[tuple[str, str], list[float]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            values.setdefault((row["workload"], row["policy"]), []).append(float(row["allocated_pct_at_130"]))
    return {key: float(np.mean(of_seeds)) for key, of_seeds in values.items()}


def beside(found: Measured, panel: Panel, published: Mapping[tuple[str, str], float]) -> Iterator[Block]:
    """Yield published means beside ours, and whether they are near."""
    cells, checks = [], []
    for column in panel.columns:
        for row in panel.rows:
            if (column, row) in published:
                ours, theirs = found.estimate(panel, column, row, "allocated_at_130"), published[column, row]
                cells.append(Beside(f"{column}, {row}: GPUs in use at 130 percent", theirs, ours))
                text = f"{column}, {row}: {ours.mean:.2f}, published {theirs:.2f}: within {WITHIN} points"
                checks.append(Check(text, abs(ours.mean - theirs) <= WITHIN))
    yield Besides(cells)
    yield Checks(checks)


def data(found: Measured, panel: Panel) -> Data:
    """Return what programs read: a row a cell and metric."""
    rows: list[dict[str, Any]] = []
    for column, row, _ in panel.cells():
        for metric in METRICS:
            cell = {"panel": panel.name, "column": column, "agent": row, "metric": metric}
            values = found.values(panel, column, row, metric)
            rows.append(cell | found.summary(panel, column, row, metric) | {"by_seed": values.tolist()})
    curves = {
        column: {row: curve(found, panel, column, row, "allocated") for row in panel.rows} for column in panel.columns
    }
    told = {"title": TITLE, "options": asdict(found.study), "reference": found.reference}
    return Data(told | {"cells": rows, "allocated": curves}, rows, without="by_seed")


def curve(found: Measured, panel: Panel, column: str, row: str, name: str) -> list[float | None]:
    """Return the mean of a curve over the seeds, from 0 to 130 percent; None where no run has a value."""
    of_seeds = np.array([outcome[name] for outcome in found.outcomes[panel.name, column, row]], dtype=np.float64)
    known = ~np.isnan(of_seeds)
    sums, counts = np.where(known, of_seeds, 0.0).sum(axis=0), known.sum(axis=0)
    return [float(total / count) if count else None for total, count in zip(sums, counts, strict=True)]


def drawing(found: Measured, panel: Panel) -> Drawing:
    """Draw what is not in use, and what of it typical pods cannot use, against what has been requested."""
    figure, axes = new_figure(2, len(panel.columns), width=3.4, height=2.9)
    styles = line_styles(list(panel.rows))
    percent = np.arange(REQUESTED + 1)
    for place, column in enumerate(panel.columns):
        upper, lower = axes[0, place], axes[1, place]
        for row in panel.rows:
            look = {"color": styles[row].color, "linestyle": styles[row].dashes, "linewidth": 1.2}
            allocated = np.array(curve(found, panel, column, row, "allocated"), dtype=np.float64)
            fragmented = np.array(curve(found, panel, column, row, "fragmented"), dtype=np.float64)
            # what has been requested is not there to be used: less of it is in use only because pods found no room
            upper.plot(percent, np.minimum(percent, 100.0) - allocated, **look)
            lower.plot(percent, 100.0 * fragmented, **look)
        upper.set_title(column, fontsize=10)
        upper.set_xlim(80, REQUESTED)
        lower.set_xlim(0, REQUESTED)
        lower.set_xlabel("GPUs requested, percent")
        for ax in (upper, lower):
            ax.grid(alpha=0.3)
    axes[0, 0].set_ylabel("requested but not in use,\npercent of all GPUs")
    axes[1, 0].set_ylabel("of no use to typical pods,\npercent of the free GPUs")
    legend_below(figure, axes[0, 0].get_lines(), list(panel.rows), len(panel.rows))
    caption = "GPUs that were requested, of those that there are, but are not in use; and fragmentation. Means."
    return Drawing("allocation.png", caption, figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Allocation))
