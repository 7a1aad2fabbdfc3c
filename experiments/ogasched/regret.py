"""Regret against the horizon T: under the bound of theorem 1, and how fast it grows.

The policies reserve before they see the jobs, as definition 2 has it. Every horizon has runs of its own, so that the
values to which a power of T is fitted are independent. The paper proves the bound and measures no regret.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from desim.agents.multiserver.regret import Growth, growth_exponent
from desim.cli.output import print_table, print_text
from desim.experiments.compare import with_interval
from desim.experiments.drawing import write_figure
from desim.experiments.ogasched.options import QUICK_NODES, QUICK_SLOTS, Options
from desim.experiments.ogasched.regret_runs import ARRIVALS, Learner, RegretSetting, perform_regret
from desim.experiments.options import run_as_program
from desim.experiments.panels import outcomes_by
from desim.experiments.results import write_results
from desim.plotting.colors import line_styles
from desim.statistics import Estimate, mean_interval
from desim.sweep import Run

__all__ = ["POLICIES", "Regret", "RegretStudy", "regret"]

POLICIES = ("OGASched, theory", "OGASched, half of it", "OGASched", "AdaGrad")
#: The first is the one that theorem 1 is about.
THEORY = POLICIES[0]
#: Shorter horizons say nothing, longer ones are not for trials.
LEAST, MOST_QUICK = 10, 200


@dataclass(frozen=True)
class Regret(Options):
    """Regret against the horizon, for random, periodic and adversarial arrivals.

    Attributes
    ----------
    horizons : tuple of int
        Values of T.
    """

    seeds: int = 5
    horizons: tuple[int, ...] = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)

    @property
    def sizes(self) -> list[int]:
        """The horizons in the size that is asked for."""
        divisor = max(self.divide_slots, QUICK_SLOTS if self.quick else 1)
        shorter = sorted({max(LEAST, horizon // divisor) for horizon in self.horizons})
        return [size for size in shorter if size <= MOST_QUICK] if self.quick else shorter

    @property
    def num_nodes(self) -> int:
        """Nodes in the size that is asked for."""
        return max(10, 128 // max(self.divide_nodes, QUICK_NODES if self.quick else 1))


@dataclass(frozen=True)
class RegretStudy:
    """What was measured.

    Attributes
    ----------
    options : Regret
        How it was run.
    regrets : dict of (str, str) to numpy.ndarray
        By arrivals and policy, of shape (num_horizons, num_seeds).
    bounds : dict of str to numpy.ndarray
        Of theorem 1, by arrivals.
    growth : dict of (str, str) to Growth or None
        None where a regret is not above 0.
    """

    options: Regret
    regrets: dict[tuple[str, str], np.ndarray]
    bounds: dict[str, np.ndarray]
    growth: dict[tuple[str, str], Growth | None]

    @property
    def above_bound(self) -> list[tuple[str, int, int]]:
        """Runs of theorem 1's policy whose regret is above its bound: arrivals, horizon, seed."""
        sizes, seeds = self.options.sizes, self.options.seed_list
        return [
            (arrivals, sizes[row], seeds[column])
            for arrivals in ARRIVALS
            for row, column in np.argwhere(self.regrets[arrivals, THEORY] > self.bounds[arrivals]).tolist()
        ]

    @property
    def num_invalid(self) -> int:
        """Runs that contradict theorem 1."""
        return len(self.above_bound)


def regret(options: Regret) -> RegretStudy:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Regret
        Horizons, seeds, size, directories.

    Returns
    -------
    RegretStudy
        What was measured.
    """
    groups = {
        (arrivals, policy, size): [
            Run(RegretSetting(arrivals, size, num_nodes=options.num_nodes), Learner(policy), seed)
            for seed in options.seed_list
        ]
        for arrivals in ARRIVALS
        for policy in POLICIES
        for size in options.sizes
    }
    outcomes = outcomes_by(groups, options, perform_regret)

    def collected(arrivals: str, policy: str, name: str) -> np.ndarray:
        return np.array([[outcome[name] for outcome in outcomes[arrivals, policy, size]] for size in options.sizes])

    regrets = {pair: collected(*pair, "regret") for pair in product(ARRIVALS, POLICIES)}
    bounds = {arrivals: collected(arrivals, THEORY, "bound") for arrivals in ARRIVALS}
    growth = {key: _growth(options.sizes, values) for key, values in regrets.items()}
    study = RegretStudy(options, regrets, bounds, growth)
    _print(study)
    _write(study)
    _draw(study)
    return study


def _growth(sizes: list[int], values: np.ndarray) -> Growth | None:
    return growth_exponent(sizes, values) if len(sizes) > 1 and (values > 0).all() else None


def _rows(study: RegretStudy) -> list[tuple[str, str, int, Estimate, Estimate]]:
    """Return arrivals, policy, horizon, regret and bound of each cell."""
    return [
        (arrivals, policy, size, mean_interval(values[row]), mean_interval(study.bounds[arrivals][row]))
        for (arrivals, policy), values in study.regrets.items()
        for row, size in enumerate(study.options.sizes)
    ]


def _print(study: RegretStudy) -> None:
    seeds = len(study.options.seed_list)
    print_text(f"Regret against the horizon ({seeds} seed{'s' * (seeds > 1)}, 95 % intervals)")
    rows = _rows(study)
    for arrivals in ARRIVALS:
        lines = []
        for policy in POLICIES:
            cells = [with_interval(row[3]) for row in rows if row[:2] == (arrivals, policy)]
            lines.append([policy, *cells, _growth_words(study.growth[arrivals, policy])])
        bounds = [with_interval(row[4]) for row in rows if row[:2] == (arrivals, THEORY)]
        lines.append(["bound of theorem 1", *bounds, "0.5"])
        heads = ["", *(f"T {size:,}" for size in study.options.sizes), "grows as T to the"]
        print_table(heads, lines, title=f"{arrivals} arrivals: regret")
    above = study.above_bound
    print_text(f"{THEORY}: the regret is under the bound in all runs." if not above else f"Above the bound: {above}")
    steep = [key for key, growth in study.growth.items() if growth is not None and growth.low >= 1]
    for arrivals, policy in steep:
        print_text(f"Not sublinear: {arrivals} arrivals, {policy}")


def _growth_words(growth: Growth | None) -> str:
    return "–" if growth is None else f"{growth.exponent:.3f} [{growth.low:.3f}, {growth.high:.3f}]"


def _write(study: RegretStudy) -> None:
    names = ("arrivals", "policy", "num_slots", "regret", "regret_half_width", "bound")
    cells = [
        dict(zip(names, (*row[:3], row[3].mean, row[3].half_width, row[4].mean), strict=True)) for row in _rows(study)
    ]
    document: dict[str, Any] = {
        "title": "Regret against the horizon",
        "options": asdict(study.options),
        "cells": cells,
        "growth": [
            {"arrivals": arrivals, "policy": policy, **(asdict(growth) if growth else {"exponent": None})}
            for (arrivals, policy), growth in study.growth.items()
        ],
        "above_bound": study.above_bound,
    }
    write_results(study.options.directory, document, cells)


def _draw(study: RegretStudy) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 4.0), layout="constrained")
    styles = line_styles(POLICIES)
    sizes = np.array(study.options.sizes)
    for ax, arrivals in zip(figure.subplots(1, len(ARRIVALS), sharey=True), ARRIVALS, strict=True):
        ax.plot(sizes, study.bounds[arrivals].mean(axis=1), color="black", label="bound of theorem 1")
        for policy in POLICIES:
            values, growth = study.regrets[arrivals, policy], study.growth[arrivals, policy]
            style = styles[policy]
            power = "" if growth is None else f", $T^{{{growth.exponent:.2f}}}$"
            above = np.where(values > 0, values, np.nan)
            ax.plot(sizes, above, color=style.color, marker="o", markersize=3, linestyle="", alpha=0.6)
            ax.plot(sizes, above.mean(axis=1), color=style.color, label=f"{policy}{power}")
        ax.set(xscale="log", yscale="log", xlabel="horizon T, slots", title=f"{arrivals} arrivals")
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8)
        ax.set_ylabel("regret" if arrivals == ARRIVALS[0] else "")
    caption = "Regret against the horizon: dots are seeds, lines their means; black is the bound of theorem 1."
    write_figure(figure, study.options.directory / f"{study.options.name}.png", caption)


if __name__ == "__main__":
    sys.exit(run_as_program(Regret, regret))
