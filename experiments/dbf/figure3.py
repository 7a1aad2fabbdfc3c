"""Figure 3: learning curves with a window of 20 slots."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.experiments.blocks import Block, Data, Drawing, Paragraph, Runs, Table, short
from desim.experiments.dbf.agents import SEED, SPLIT_WINDOW, TrainingSetting, find_weights, perform_training
from desim.experiments.dbf.study import METRIC_WORDS, Study
from desim.experiments.drawing import legend_below, line_handles, new_figure
from desim.experiments.measured import Choice, Course, perform_groups
from desim.experiments.study import run_as_program
from desim.plotting.axes import group_digits
from desim.plotting.colors import line_styles
from desim.sweep import Run

TITLE = "Figure 3"
PAPER = (
    "The paper: utilization, waiting time and queue length improve most within 5,000 episodes, and little "
    "afterwards; at M = 20 the queue is 31 jobs long on average."
)
METRICS = ("utilization", "waiting_time_mean", "queue_length_mean")
PARTS = ("training", "validation")
TRIALS = {
    "paper's network and reward": Choice("mlp", (("reward", "paper"),)),
    "scorer, waiting cost": Choice("scorer", (("reward", "waiting"),)),
}
"""With --quick: what is trained, for seconds."""
TRIAL_STEPS = 6_000


@dataclass(frozen=True)
class Curve(Course):
    """The course of a training, from validation to validation.

    Attributes
    ----------
    name : str
        Of the weights.
    reward : str
        What the training earned.
    network : str
        What was trained.
    history : sequence of dict
        Entries of :class:`desim.agents.learning.training.Training`.
    """

    name: str
    reward: str
    network: str
    history: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, name: str, card: Mapping[str, Any]) -> Curve:
        """Return the curve that a card holds."""
        training = card.get("training") or {}
        network = card["config"].get("network", "")
        return cls(name, str(training.get("reward", "")), str(network), card.get("history") or [])

    def values(self, part: str, metric: str) -> NDArray[np.float64]:
        """Return a metric at each validation.

        Parameters
        ----------
        part : {"training", "validation"}
            Of the training episodes since the last one, in which actions are drawn, or of the validation episodes, in
            which the likeliest is taken.
        metric : str
            One of those of the figure.

        Returns
        -------
        array of float
            Not a number where no episode has ended.
        """
        return np.array([(entry.get(part) or {}).get(metric) for entry in self.history], dtype=np.float64)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield what programs read of it."""
        values = {f"{part}_{metric}": self.values(part, metric) for part in PARTS for metric in METRICS}
        for number, entry in enumerate(self.history):
            told = {"agent": self.name, "reward": self.reward, "network": self.network, "decisions": entry["steps"]}
            yield told | {"episodes": self.episodes[number]} | {name: found[number] for name, found in values.items()}


@dataclass(frozen=True)
class Figure3(Study):
    """Utilization, waiting time and queue length in the course of the trainings, from the cards of the weights.

    Attributes
    ----------
    size : int
        Slots of the windows that are shown.
    """

    size: int = 20

    def curves(self) -> tuple[list[Curve], list[Runs]]:
        """Return the course of each training, and what trials took."""
        if self.quick:
            setting = TrainingSetting(self.size, 0, TRIAL_STEPS)
            groups = {name: [Run(setting, choice, 0)] for name, choice in TRIALS.items()}
            found, runs = perform_groups(groups, self, perform_training, title="trainings")
            return [Curve.of(name, outcome["card"]) for name, (outcome,) in found.items()], [runs]
        curves = [
            Curve.of(name, one.card)
            for name, one in find_weights(self.weights).items()
            if one.agent == SPLIT_WINDOW and sum(one.window) == self.size and not name.endswith("-any")
        ]
        return [curve for curve in curves if curve.history], []

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        curves, runs = self.curves()
        yield from runs
        yield from self.heading(TITLE, f"learning curves, windows of {self.size} slots")
        if not curves:
            yield Paragraph(f"No agent with a window of {self.size} slots is trained yet.")
            return
        heads = ["", "reward", "", "episodes", "decisions", *(METRIC_WORDS[metric] for metric in METRICS)]
        for part in PARTS:
            lines = [line for curve in curves for line in _lines(curve, part)]
            yield Table(f"{TITLE}, {part} episodes", heads, lines, (1, 2))
        yield Paragraph(PAPER)
        document = {"title": TITLE, "options": asdict(self), "curves": [asdict(curve) for curve in curves]}
        yield Data(document, [row for curve in curves for row in curve.rows()])
        yield _drawing(curves)


def _lines(curve: Curve, part: str) -> Iterator[list[str]]:
    """Yield where a training began, where it was best and where it ended."""
    waits = curve.values(part, "waiting_time_mean")
    known = np.flatnonzero(~np.isnan(waits)).tolist()
    if known:
        best = min(known, key=lambda number: waits[number])
        for when, number in (("first", known[0]), ("best", best), ("last", known[-1])):
            figures = [short(float(curve.values(part, metric)[number])) for metric in METRICS]
            counts = [f"{values[number]:,.0f}" for values in (curve.episodes, curve.decisions)]
            yield [curve.name, curve.reward, when, *counts, *figures]


def _drawing(curves: Sequence[Curve]) -> Drawing:
    """Draw the curves, against training episodes, and in validation against decisions; seeds share a colour."""
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, grid = new_figure(2, len(METRICS), width=4.2, height=3.0)
    trainings = list(dict.fromkeys(SEED.sub("", curve.name) for curve in curves))
    styles = line_styles(trainings)
    for part, axes in zip(PARTS, grid, strict=True):
        for metric, ax in zip(METRICS, axes, strict=True):
            for curve in curves:
                values = curve.values(part, metric)
                known = ~np.isnan(values)
                places = (curve.episodes if part == "training" else curve.decisions)[known]
                style = styles[SEED.sub("", curve.name)]
                look: dict[str, Any] = {"color": style.color, "linestyle": style.dashes, "linewidth": 1.1}
                ax.plot(places, values[known], marker="o", markersize=3, **look)
            if metric != "utilization":
                ax.set_yscale("log")
                ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
                ax.yaxis.set_minor_formatter(NullFormatter())
                group_digits(ax.yaxis)
            ax.locator_params(axis="x", nbins=4)
            group_digits(ax.xaxis)
            ax.set_ylabel(METRIC_WORDS[metric], fontsize=8)
            ax.set_xlabel("training episodes" if part == "training" else "decisions learned from", fontsize=8)
            ax.set_title(part, loc="left", fontsize=9)
            ax.tick_params(labelsize=7, which="both")
    legend_below(figure, line_handles(trainings, styles, ["o"] * len(trainings)), trainings, min(len(trainings), 5))
    caption = "Learning curves: in training, and in validation on fixed episodes; seeds of a training share a colour."
    return Drawing("figure3.png", caption, figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure3))
