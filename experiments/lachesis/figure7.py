"""Figure 7: batch mode with small numbers of jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from desim.experiments.lachesis.curves import DECIMA, OWN, RANK_UP, ROWS, Curves
from desim.experiments.lachesis.simulate import AHEAD
from desim.experiments.learning_curves import with_weights

RIVALS = ("FIFO-DEFT", "HEFT", "TDCA", DECIMA)
BESIDE = {RANK_UP: ROWS[RANK_UP], OWN: with_weights("graph", "tpch-batch", AHEAD)}
"""Agents that the paper does not plot: its HighRankUp-DEFT, and desim's network, which plans batches with insertion."""


@dataclass(frozen=True)
class Figure7(Curves):
    """Up to 20 jobs, all submitted at time 0."""

    title = "Figure 7: batch mode, 1 to 20 jobs"
    counts: ClassVar = (1, 2, 5, 10, 15, 20)
    rivals = RIVALS
    others = BESIDE
