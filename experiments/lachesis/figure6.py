"""Figure 6: learning curves."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.agents.learning.checkpoint import load_weights
from desim.agents.learning.pretrained import PRETRAINED, pretrained_names
from desim.experiments.blocks import Block, Data, Drawing, Paragraph, Table, short
from desim.experiments.drawing import legend_below, line_handles, new_figure
from desim.experiments.lachesis.study import Study
from desim.experiments.measured import Course
from desim.experiments.study import run_as_program
from desim.plotting.colors import line_styles

TITLE = "Figure 6: learning curves"
PAPER = "The paper: the loss falls until about 800 episodes and is flat from there on."
MEASURES = {"makespan": "makespan", "completion_time": "turnaround_time_mean"}
"""What a training is about, by its objective."""


@dataclass(frozen=True)
class Curve(Course):
    """The course of a training, from validation to validation.

    Attributes
    ----------
    name : str
        Of the weights.
    measure : str
        What the training should make small.
    command : str
        What trains them again.
    history : sequence of dict
        Entries of :class:`desim.agents.learning.training.Training`.
    """

    name: str
    measure: str
    command: str
    history: Sequence[Mapping[str, Any]]

    @property
    def values(self) -> NDArray[np.float64]:
        """The measure on the validation episodes, in seconds."""
        return np.array([entry["validation"][self.measure] for entry in self.history], dtype=np.float64)

    @property
    def losses(self) -> NDArray[np.float64]:
        """The critic's loss, on its own scale; not a number before the first update."""
        found = [(entry.get("figures") or {}).get("value_loss") for entry in self.history]
        return np.array(found, dtype=np.float64)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield what programs read of it."""
        columns = self.decisions, self.episodes, self.seconds, self.values, self.losses
        names = ("decisions", "episodes", "seconds", "value", "loss")
        for values in zip(*columns, strict=True):
            yield {"agent": self.name, "measure": self.measure, **dict(zip(names, values, strict=True))}


@dataclass(frozen=True)
class Figure6(Study):
    """What the learned agents became better at in the course of their trainings, from the cards of their weights.

    Attributes
    ----------
    weights : Path or None
        Directory of weights; those that come with the package if left out.
    """

    weights: Path | None = None

    def curves(self) -> list[Curve]:
        """Return the course of each training; those that ended with the warm start have none."""
        paths = [PRETRAINED / name for name in pretrained_names("graph")]
        if self.weights is not None:
            paths = [path.with_suffix("") for path in sorted(self.weights.glob("*.json"))]
        cards = {path.name: load_weights(path)[1] for path in paths}
        return [
            Curve(name, MEASURES[card["training"]["objective"]], card["command"], card["history"])
            for name, card in cards.items()
            if len(card["history"]) > 1
        ]

    def blocks(self) -> Iterator[Block]:
        """Yield the table, files and the figure."""
        curves = self.curves()
        yield from self.heading(TITLE, "validation episodes, seconds")
        heads = ["", "", "decisions", "episodes", "wall time, s", "measure"]
        yield Table("", heads, [line for curve in curves for line in _lines(curve)], (1,))
        yield from (Paragraph(f"{curve.name}: {curve.command}") for curve in curves)
        yield Paragraph(PAPER)
        document = {"title": TITLE, "options": asdict(self), "curves": [asdict(curve) for curve in curves]}
        yield Data(document, [row for curve in curves for row in curve.rows()])
        yield _drawing(curves)


def _lines(curve: Curve) -> Iterator[list[str]]:
    """Yield where a training began, where it was best, and where it ended."""
    for when, at in (("first", 0), ("best", int(curve.values.argmin())), ("last", len(curve.history) - 1)):
        counts = [f"{values[at]:,.0f}" for values in (curve.decisions, curve.episodes, curve.seconds)]
        yield [curve.name, when, *counts, short(float(curve.values[at]))]


def _drawing(curves: Sequence[Curve]) -> Drawing:
    """Draw what was to become small, against where it began, and the critic's loss."""
    figure, grid = new_figure(1, 2, width=5.0, height=3.4)
    names = [curve.name for curve in curves]
    styles = line_styles(names)
    for curve in curves:
        style: dict[str, Any] = {"color": styles[curve.name].color, "linestyle": styles[curve.name].dashes}
        change = 100.0 * (curve.values / curve.values[0] - 1.0)
        grid[0, 0].plot(curve.episodes, change, marker=".", markersize=3, linewidth=1.1, **style)
        grid[0, 1].plot(curve.episodes, curve.losses, linewidth=1.1, **style)
    grid[0, 0].axhline(0.0, color="grey", linewidth=0.7, linestyle=":")
    grid[0, 0].set_ylabel("objective on validation episodes,\n% from where it began", fontsize=8)
    grid[0, 1].set_ylabel("critic's loss", fontsize=8)
    grid[0, 1].set_yscale("log")
    for ax in grid[0]:
        ax.set_xlabel("training episodes", fontsize=8)
    legend_below(figure, line_handles(names, styles, [""] * len(names)), names, 2)
    return Drawing("figure6.png", "Learning curves: the objective in validation, and the critic's loss.", figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure6))
