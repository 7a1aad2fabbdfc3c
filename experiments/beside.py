"""Figures of a paper beside ours, and whether ours is worse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from desim.cli.output import Text, print_table
from desim.cli.transcript import keep
from desim.experiments.compare import short, with_interval
from desim.statistics import Estimate

__all__ = ["Beside", "print_beside"]

Better = Literal["more", "less", ""]


@dataclass(frozen=True)
class Beside:
    """Something that a paper states as a number, and the same as it was measured here.

    Attributes
    ----------
    what : str
        What it is, with its unit.
    paper : float
        The paper's number. How certain it is, papers hardly say.
    ours : Estimate
        Ours, with its interval; one without an interval counts as it is.
    better : {"more", "less", ""}
        What would be better; nothing if it is only to be near.
    """

    what: str
    paper: float
    ours: Estimate
    better: Better = ""

    @property
    def verdict(self) -> str:
        """Whether ours is better or worse than the paper beyond the interval, as in the paper, other, or a dash."""
        if not math.isfinite(self.ours.mean):
            return "–"
        known = math.isfinite(self.ours.half_width)
        low, high = (self.ours.low, self.ours.high) if known else (self.ours.mean, self.ours.mean)
        if low <= self.paper <= high:
            return "as in the paper"
        if not self.better:
            return "other"
        return "better" if (low > self.paper) == (self.better == "more") else "worse"


def print_beside(rows: Sequence[Beside], options: Any) -> None:
    """Print the paper's figures beside ours.

    Parameters
    ----------
    rows : sequence of Beside
        What is compared; nothing is printed if there is nothing.
    options : Options
        Of the experiment: a trial in a smaller size is not compared with a paper.
    """
    if not rows:
        return
    trial = bool(options.is_reduced)
    kept = [asdict(row) | {"ours": row.ours._asdict(), "verdict": "trial" if trial else row.verdict} for row in rows]
    with keep("beside", rows=kept):
        cells: list[list[str | Text]] = [
            [row.what, short(row.paper), with_interval(row.ours), "trial" if trial else _emphasized(row.verdict)]
            for row in rows
        ]
        print_table(["", "the paper", "ours", ""], cells, words=(3,), title="The paper's figures beside ours")


def _emphasized(verdict: str) -> str | Text:
    return Text(verdict) if verdict == "worse" else verdict
