"""Figure 6: learning curves."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.agents.learning.checkpoint import load_weights
from desim.agents.learning.pretrained import PRETRAINED, pretrained_names
from desim.cli.output import print_table, print_text
from desim.experiments.compare import short
from desim.experiments.curves import Course, Curves
from desim.experiments.lachesis import pictures
from desim.experiments.lachesis.options import Options
from desim.experiments.lachesis.paper import FIGURE_6
from desim.experiments.options import run_as_program
from desim.experiments.results import print_heading

__all__ = ["Curve", "Figure6", "figure6"]

MEASURES = {"makespan": "makespan", "completion_time": "turnaround_time_mean"}
"""What a training is about, by its objective."""


@dataclass(frozen=True)
class Figure6(Options):
    """What the learned agents became better at in the course of their trainings, from the cards of their weights.

    Attributes
    ----------
    weights : Path or None
        Directory of weights; those that come with the package if left out.
    """

    weights: Path | None = None


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


def figure6(options: Figure6) -> Curves[Curve]:
    """Print, write and draw the learning curves.

    Parameters
    ----------
    options : Figure6
        Directories.

    Returns
    -------
    Curves
        What has been learned.
    """
    study = Curves("Figure 6: learning curves", options, tuple(_trained(options.weights)))
    print_heading(study, "validation episodes, seconds")
    print_table(["", "", "decisions", "episodes", "wall time, s", "measure"], _table(study.curves), words=(0, 1))
    for curve in study.curves:
        print_text(f"{curve.name}: {curve.command}")
    for line in FIGURE_6:
        print_text(line)
    study.write(_rows(study.curves))
    pictures.draw_curves(study.curves, options.directory / "figure6.png")
    return study


def _trained(directory: Path | None) -> Iterator[Curve]:
    paths = [PRETRAINED / name for name in pretrained_names("graph")]
    if directory is not None:
        paths = [path.with_suffix("") for path in sorted(directory.glob("*.json"))]
    for path in paths:
        card = load_weights(path)[1]
        objective = card["training"]["objective"]
        yield Curve(path.name, MEASURES[objective], card["command"], card["history"])


def _table(curves: Sequence[Curve]) -> list[list[str]]:
    """Return where each training began, where it was best, and where it ended."""
    table = []
    for curve in curves:
        for when, at in (("first", 0), ("best", int(curve.values.argmin())), ("last", len(curve.history) - 1)):
            counts = [f"{values[at]:,.0f}" for values in (curve.decisions, curve.episodes, curve.seconds)]
            table.append([curve.name, when, *counts, short(float(curve.values[at]))])
    return table


def _rows(curves: Sequence[Curve]) -> Iterator[dict[str, Any]]:
    for curve in curves:
        columns = curve.decisions, curve.episodes, curve.seconds, curve.values, curve.losses
        for decisions, episodes, seconds, value, loss in zip(*columns, strict=True):
            yield {
                "agent": curve.name,
                "measure": curve.measure,
                "decisions": decisions,
                "episodes": episodes,
                "seconds": seconds,
                "value": value,
                "loss": loss,
            }


if __name__ == "__main__":
    sys.exit(run_as_program(Figure6, figure6))
