"""Figure 4: learning curves."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.experiments.blocks import Block, Data, Drawing, Paragraph, Table
from desim.experiments.drawing import legend_below, line_handles, new_figure
from desim.experiments.measured import Course
from desim.experiments.osdec.agents import WORKLOADS, cards_of
from desim.experiments.osdec.study import Study, styles_of
from desim.experiments.study import run_as_program

TITLE = "Figure 4: learning curves"
HEADS = ("", "", "warm start", "decisions", "wall time, s", "first", "best", "after decisions", "last")


@dataclass(frozen=True)
class Curve(Course):
    """The course of a training, from validation to validation.

    Attributes
    ----------
    name : str
        Of the weights.
    row : str
        Of the tables.
    workload : str
        What it was trained for.
    warm_start : int
        Episodes of a list plan that it had learned from before.
    command : str
        What trains them again.
    history : sequence of dict
        Entries of :class:`desim.agents.learning.training.Training`.
    """

    name: str
    row: str
    workload: str
    warm_start: int
    command: str
    history: Sequence[Mapping[str, Any]]

    @property
    def values(self) -> NDArray[np.float64]:
        """The total reward on the validation episodes, in core-slots."""
        return np.array([entry["validation"]["total_reward"] for entry in self.history], dtype=np.float64)

    def line(self) -> list[str]:
        """Return where the training began, where it was best, and where it ended."""
        best = int(self.values.argmax())
        counts = (self.warm_start, self.decisions[-1], self.seconds[-1])
        values = [f"{self.values[at]:,.1f}" for at in (0, best, -1)]
        values.insert(2, f"{self.decisions[best]:,.0f}")
        return [self.row, self.name, *(f"{count:,.0f}" for count in counts), *values]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield what programs read of it."""
        columns = self.decisions, self.episodes, self.seconds, self.values
        names = ("decisions", "episodes", "seconds", "total_reward")
        for values in zip(*columns, strict=True):
            told = dict(zip(names, values, strict=True))
            yield {"workload": self.workload, "agent": self.row, "weights": self.name, **told}


@dataclass(frozen=True)
class Figure4(Study):
    """What the learned agents became better at in the course of their trainings, from the cards of their weights."""

    def curves(self) -> dict[str, dict[str, list[Curve]]]:
        """Return the curves of each row, for each workload."""
        found: dict[str, dict[str, list[Curve]]] = {}
        for workload in WORKLOADS:
            for row, cards in cards_of(self.weights, workload).items():
                found.setdefault(workload, {})[row] = [
                    Curve(
                        stem.name,
                        row,
                        workload,
                        card["training"].get("warm_start", 0),
                        card["command"],
                        card["history"],
                    )
                    for stem, card in cards
                ]
        return found

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        groups = self.curves()
        curves = [curve for rows in groups.values() for found in rows.values() for curve in found]
        yield from self.heading(TITLE, "total reward on validation episodes, core-slots")
        if not curves:
            yield Paragraph("There are no weights.")
            return
        for workload in groups:
            lines = [curve.line() for curve in curves if curve.workload == workload]
            yield Table(f"Weights for {WORKLOADS[workload]}", HEADS, lines, (1,))
        yield from (Paragraph(f"{curve.name}: {curve.command}") for curve in curves)
        document = {"title": TITLE, "options": asdict(self), "curves": [asdict(curve) for curve in curves]}
        yield Data(document, [row for curve in curves for row in curve.rows()])
        yield _drawing(groups)


def _drawing(groups: Mapping[str, Mapping[str, Sequence[Curve]]]) -> Drawing:
    """Draw one line a row: the mean of its trainings, and a band from the lowest to the highest."""
    across = min(len(groups), 2)
    figure, grid = new_figure(-(-len(groups) // across), across, width=5.2, height=3.6)
    names = list(dict.fromkeys(row for rows in groups.values() for row in rows))
    styles = styles_of(names)
    for ax, (workload, rows) in zip(grid.flat, groups.items(), strict=False):
        for row, curves in rows.items():
            places, values = _aligned(curves)
            look: dict[str, Any] = {"color": styles[row].color, "linestyle": styles[row].dashes}
            ax.plot(places, values.mean(axis=0), linewidth=1.3, **look)
            if len(values) > 1:
                ax.fill_between(places, values.min(axis=0), values.max(axis=0), color=look["color"], alpha=0.15, lw=0)
        ax.set_title(WORKLOADS[workload], loc="left", fontsize=9)
        ax.set_xlabel("decisions, thousands", fontsize=8)
        ax.set_ylabel("total reward, core-slots", fontsize=8)
        ax.grid(axis="y", color="lightgrey", linewidth=0.5)
    for ax in list(grid.flat)[len(groups) :]:
        ax.set_visible(False)
    legend_below(figure, line_handles(names, styles, [""] * len(names)), names, 4)
    caption = "Learning curves: validation reward; bands hold all trainings of a row."
    return Drawing("figure4.png", caption, figure)


def _aligned(curves: Sequence[Curve]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return thousands of decisions, and the values of all trainings there, as far as all of them go."""
    end = min(curve.decisions[-1] for curve in curves)
    places = np.unique(np.concatenate([curve.decisions for curve in curves]))
    places = places[places <= end]
    return places / 1000.0, np.array([np.interp(places, curve.decisions, curve.values) for curve in curves])


if __name__ == "__main__":
    sys.exit(run_as_program(Figure4))
