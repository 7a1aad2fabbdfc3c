"""Regret against the horizon T: under the bound of theorem 1, and how fast it grows.

The policies reserve before they see the jobs, as definition 2 has it. Every horizon has runs of its own, so that the
values to which a power of T is fitted are independent. The paper proves the bound and measures no regret.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.agents.multiserver.regret import Growth, growth_exponent
from desim.experiments.blocks import Block, Data, Drawing, Fault, Paragraph, Runs, Table, with_interval
from desim.experiments.drawing import draw_estimates, new_figure
from desim.experiments.measured import perform_groups
from desim.experiments.ogasched.simulate import ARRIVALS, Learner, RegretSetting, perform_regret
from desim.experiments.ogasched.study import QUICK_NODES, QUICK_SLOTS, Study
from desim.experiments.study import run_as_program
from desim.plotting.colors import line_styles
from desim.statistics import mean_interval
from desim.sweep import Run

TITLE = "Regret against the horizon"
POLICIES = ("OGASched, theory", "OGASched, half of it", "OGASched", "AdaGrad", "LineSearch")
#: The first is the one that theorem 1 is about.
THEORY = POLICIES[0]
#: Shorter horizons say nothing, longer ones are not for trials.
LEAST, MOST_QUICK = 10, 200


@dataclass(frozen=True)
class Regret(Study):
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

    def measure_regrets(self) -> Regrets:
        """Perform the runs that are not stored yet."""
        groups = {
            (arrivals, policy, size): [
                Run(RegretSetting(arrivals, size, num_nodes=self.num_nodes), Learner(policy), seed)
                for seed in self.seed_list
            ]
            for arrivals in ARRIVALS
            for policy in POLICIES
            for size in self.sizes
        }
        outcomes, runs = perform_groups(groups, self, perform_regret)

        def collected(arrivals: str, policy: str, name: str) -> NDArray[np.float64]:
            return np.array([[outcome[name] for outcome in outcomes[arrivals, policy, size]] for size in self.sizes])

        regrets = {pair: collected(*pair, "regret") for pair in product(ARRIVALS, POLICIES)}
        bounds = {arrivals: collected(arrivals, THEORY, "bound") for arrivals in ARRIVALS}
        growth = {key: _growth(self.sizes, values) for key, values in regrets.items()}
        return Regrets(self, regrets, bounds, growth, runs)

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and the figure."""
        found = self.measure_regrets()
        yield found.runs
        seeds = len(self.seed_list)
        yield Paragraph(f"{TITLE} ({seeds} seed{'s' * (seeds > 1)}, 95 % intervals)")
        yield from found.tables()
        above = found.above_bound
        if above:
            yield Fault(f"Above the bound: {above}")
        else:
            yield Paragraph(f"{THEORY}: the regret is under the bound in all runs.")
        for (arrivals, policy), growth in found.growth.items():
            if growth is not None and growth.low >= 1:
                yield Paragraph(f"Not sublinear: {arrivals} arrivals, {policy}")
        yield found.data()
        yield found.drawing()


@dataclass(frozen=True)
class Regrets:
    """What was measured.

    Attributes
    ----------
    study : Regret
        How.
    regrets : dict of (str, str) to numpy.ndarray
        By arrivals and policy, of shape (num_horizons, num_seeds).
    bounds : dict of str to numpy.ndarray
        Of theorem 1, by arrivals.
    growth : dict of (str, str) to Growth or None
        None where a regret is not above 0.
    runs : Runs
        What that took.
    """

    study: Regret
    regrets: Mapping[tuple[str, str], NDArray[np.float64]]
    bounds: Mapping[str, NDArray[np.float64]]
    growth: Mapping[tuple[str, str], Growth | None]
    runs: Runs

    @property
    def above_bound(self) -> list[tuple[str, int, int]]:
        """Runs of theorem 1's policy whose regret is above its bound: arrivals, horizon, seed."""
        sizes, seeds = self.study.sizes, self.study.seed_list
        return [
            (arrivals, sizes[row], seeds[column])
            for arrivals in ARRIVALS
            for row, column in np.argwhere(self.regrets[arrivals, THEORY] > self.bounds[arrivals]).tolist()
        ]

    def tables(self) -> Iterator[Block]:
        """Yield a table for each kind of arrivals."""
        heads = ["", *(f"T {size:,}" for size in self.study.sizes), "grows as T to the"]
        for arrivals in ARRIVALS:
            rows = []
            for policy in POLICIES:
                cells = [with_interval(mean_interval(values)) for values in self.regrets[arrivals, policy]]
                rows.append([policy, *cells, _growth_words(self.growth[arrivals, policy])])
            bounds = [with_interval(mean_interval(values)) for values in self.bounds[arrivals]]
            rows.append(["bound of theorem 1", *bounds, "0.5"])
            yield Table(f"{arrivals} arrivals: regret", heads, rows)

    def data(self) -> Data:
        """Return what programs read."""
        cells = []
        for (arrivals, policy), values in self.regrets.items():
            for place, size in enumerate(self.study.sizes):
                regret, bound = mean_interval(values[place]), mean_interval(self.bounds[arrivals][place])
                measured = {"regret": regret.mean, "regret_half_width": regret.half_width, "bound": bound.mean}
                cells.append({"arrivals": arrivals, "policy": policy, "num_slots": size, **measured})
        growth = [
            {"arrivals": arrivals, "policy": policy, **(asdict(growth) if growth else {"exponent": None})}
            for (arrivals, policy), growth in self.growth.items()
        ]
        told = {"title": TITLE, "options": asdict(self.study), "cells": cells, "growth": growth}
        return Data(told | {"above_bound": self.above_bound}, cells)

    def drawing(self) -> Drawing:
        """Draw regrets and bounds against the horizon, one axes a kind of arrivals, with its own legend below."""
        figure, grid = new_figure(1, len(ARRIVALS), width=4.3, height=4.6)
        styles = line_styles(POLICIES)
        sizes = np.array(self.study.sizes)
        for ax, arrivals in zip(grid[0], ARRIVALS, strict=True):
            ax.plot(sizes, self.bounds[arrivals].mean(axis=1), color="black", label="bound of theorem 1")
            for policy in POLICIES:
                growth = self.growth[arrivals, policy]
                power = "" if growth is None else f", $T^{{{growth.exponent:.2f}}}$"
                estimates = [mean_interval(values) for values in self.regrets[arrivals, policy]]
                look: dict[str, Any] = {"color": styles[policy].color, "marker": "o", "markersize": 3}
                draw_estimates(ax, sizes, estimates, capsize=2, label=f"{policy}{power}", **look)
            ax.set(xscale="log", yscale="log", xlabel="horizon T, slots", title=f"{arrivals} arrivals")
            ax.grid(alpha=0.3)
            ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0.0, -0.16), frameon=False)
            ax.set_ylabel("regret" if arrivals == ARRIVALS[0] else "")
        highest = max(ax.get_ylim()[1] for ax in grid[0])
        lowest = min(ax.get_ylim()[0] for ax in grid[0])
        for ax in grid[0]:
            ax.set_ylim(lowest, highest)
        caption = "Regret against the horizon: means with 95 % intervals; black is the bound of theorem 1."
        return Drawing("regret.png", caption, figure)


def _growth(sizes: list[int], values: NDArray[np.float64]) -> Growth | None:
    return growth_exponent(sizes, values) if len(sizes) > 1 and (values > 0).all() else None


def _growth_words(growth: Growth | None) -> str:
    return "–" if growth is None else f"{growth.exponent:.3f} [{growth.low:.3f}, {growth.high:.3f}]"


if __name__ == "__main__":
    sys.exit(run_as_program(Regret))
