"""Figure 3: learning curves with a window of 20 slots."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from desim.cli.output import print_table, print_text
from desim.experiments.compare import short
from desim.experiments.curves import Curves
from desim.experiments.dbf import pictures
from desim.experiments.dbf.curves import CURVE_METRICS, Curve, TrainingSetting, perform_training
from desim.experiments.dbf.options import Options
from desim.experiments.dbf.paper import CLAIMS
from desim.experiments.dbf.report import METRIC_WORDS
from desim.experiments.dbf.simulating import Choice
from desim.experiments.dbf.weights import SPLIT_WINDOW, find_weights
from desim.experiments.options import run_as_program
from desim.experiments.results import print_heading
from desim.sweep import Run, perform_all

__all__ = ["Figure3", "figure3"]

PARTS = ("training", "validation")
TRIALS = {
    "paper's network and reward": Choice("mlp", (("reward", "paper"),)),
    "scorer, waiting cost": Choice("scorer", (("reward", "waiting"),)),
}
"""With --quick: what is trained, for seconds."""
TRIAL_STEPS = 6_000


@dataclass(frozen=True)
class Figure3(Options):
    """Utilization, waiting time and queue length in the course of the trainings, from the cards of the weights.

    Attributes
    ----------
    size : int
        Slots of the windows that are shown.
    """

    size: int = 20


def figure3(options: Figure3) -> Curves[Curve]:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure3
        Size of the window, directories.

    Returns
    -------
    Curves
        What has been learned.
    """
    study = Curves("Figure 3", options, tuple(_trials(options) if options.quick else _trained(options)))
    print_heading(study, f"learning curves, windows of {options.size} slots")
    if not study.curves:
        print_text(f"No agent with a window of {options.size} slots is trained yet.")
        return study
    for part in PARTS:
        _print(study, part)
    for line in CLAIMS["figure3"]:
        print_text(line)
    study.write(_rows(study.curves))
    pictures.draw_curves(study.curves, options.directory / "figure3.png")
    return study


def _trained(options: Figure3) -> Iterator[Curve]:
    for name, one in find_weights(options.weights).items():
        if one.agent == SPLIT_WINDOW and sum(one.window) == options.size and not name.endswith("-any"):
            curve = Curve.of(name, one.card)
            if curve.history:
                yield curve


def _trials(options: Figure3) -> Iterator[Curve]:
    runs = {name: Run(TrainingSetting(options.size, 0, TRIAL_STEPS), choice, 0) for name, choice in TRIALS.items()}
    found = perform_all(perform_training, list(runs.values()), options.runs, workers=options.workers, title="trainings")
    for name, run in runs.items():
        yield Curve.of(name, found[run]["card"])


def _print(study: Curves[Curve], part: str) -> None:
    """Print where each training began, where it was best and where it ended."""
    table = []
    for curve in study.curves:
        waits = curve.values(part, "waiting_time_mean")
        known = np.flatnonzero(~np.isnan(waits)).tolist()
        if not known:
            continue
        best = min(known, key=lambda number: waits[number])
        for when, number in (("first", known[0]), ("best", best), ("last", known[-1])):
            figures = [short(float(curve.values(part, metric)[number])) for metric in CURVE_METRICS]
            counts = [f"{values[number]:,.0f}" for values in (curve.episodes, curve.decisions)]
            table.append([curve.name, curve.reward, when, *counts, *figures])
    heads = ["", "reward", "", "episodes", "decisions", *(METRIC_WORDS[metric] for metric in CURVE_METRICS)]
    print_table(heads, table, words=(1, 2), title=f"Figure 3, {part} episodes")


def _rows(curves: Sequence[Curve]) -> Iterator[dict[str, Any]]:
    for curve in curves:
        for number, entry in enumerate(curve.history):
            yield {
                "agent": curve.name,
                "reward": curve.reward,
                "network": curve.network,
                "decisions": entry["steps"],
                "episodes": curve.episodes[number],
                **{
                    f"{part}_{metric}": curve.values(part, metric)[number] for part in PARTS for metric in CURVE_METRICS
                },
            }


if __name__ == "__main__":
    sys.exit(run_as_program(Figure3, figure3))
