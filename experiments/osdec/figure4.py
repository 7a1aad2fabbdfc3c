"""Figure 4: learning curves."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.cli.output import print_table, print_text
from desim.experiments.curves import Course, Curves
from desim.experiments.options import run_as_program
from desim.experiments.osdec import learned_pictures
from desim.experiments.osdec.agents import WORKLOADS, cards_of
from desim.experiments.osdec.options import Options
from desim.experiments.results import print_heading

__all__ = ["Curve", "Figure4", "by_workload", "figure4"]


@dataclass(frozen=True)
class Figure4(Options):
    """What the learned agents became better at in the course of their trainings, from the cards of their weights."""


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


def by_workload(curves: Sequence[Curve]) -> dict[str, dict[str, list[Curve]]]:
    """Return the curves of each row, for each workload.

    Parameters
    ----------
    curves : sequence of Curve
        In any order.

    Returns
    -------
    dict of str to dict of str to list of Curve
        By workload, then by row.
    """
    found: dict[str, dict[str, list[Curve]]] = {}
    for curve in curves:
        found.setdefault(curve.workload, {}).setdefault(curve.row, []).append(curve)
    return found


def figure4(options: Figure4) -> Curves[Curve]:
    """Print, write and draw the learning curves.

    Parameters
    ----------
    options : Figure4
        Directories.

    Returns
    -------
    Curves
        What has been learned.
    """
    study = Curves("Figure 4: learning curves", options, tuple(_trained(options)))
    print_heading(study, "total reward on validation episodes, core-slots")
    if not study.curves:
        print_text("There are no weights.")
        return study
    heads = ["", "", "warm start", "decisions", "wall time, s", "first", "best", "after decisions", "last"]
    for workload, rows in by_workload(study.curves).items():
        table = [_line(curve) for curves in rows.values() for curve in curves]
        print_table(heads, table, words=(1,), title=f"Weights for {WORKLOADS[workload]}")
    for curve in study.curves:
        print_text(f"{curve.name}: {curve.command}")
    study.write(_rows(study.curves))
    learned_pictures.draw_curves(by_workload(study.curves), options.directory / "figure4.png")
    return study


def _trained(options: Figure4) -> Iterator[Curve]:
    for workload in WORKLOADS:
        for row, cards in cards_of(options.weights, workload).items():
            for stem, card in cards:
                warm_start = card["training"].get("warm_start", 0)
                yield Curve(stem.name, row, workload, warm_start, card["command"], card["history"])


def _line(curve: Curve) -> list[str]:
    """Return where a training began, where it was best, and where it ended."""
    best = int(curve.values.argmax())
    counts = (curve.warm_start, curve.decisions[-1], curve.seconds[-1])
    values = [f"{curve.values[at]:,.1f}" for at in (0, best, -1)]
    values.insert(2, f"{curve.decisions[best]:,.0f}")
    return [curve.row, curve.name, *(f"{count:,.0f}" for count in counts), *values]


def _rows(curves: Sequence[Curve]) -> Iterator[dict[str, Any]]:
    for curve in curves:
        columns = curve.decisions, curve.episodes, curve.seconds, curve.values
        for decisions, episodes, seconds, value in zip(*columns, strict=True):
            yield {
                "workload": curve.workload,
                "agent": curve.row,
                "weights": curve.name,
                "decisions": decisions,
                "episodes": episodes,
                "seconds": seconds,
                "total_reward": value,
            }


if __name__ == "__main__":
    sys.exit(run_as_program(Figure4, figure4))
