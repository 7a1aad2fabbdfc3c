"""The agents that are compared, by their names in tables and figures."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.osdec.options import Options
from experiments.osdec.simulating import Choice

__all__ = ["AGENTS", "LEARNED", "MORE_ROWS", "OPTIMUM", "PAPER_ROWS", "PLANNING_ROWS", "rows_of"]

LEARNED: dict[str, Choice] = {}
"""The paper's learned agents stand here, by its names, once they are trained: every experiment then has them."""

PAPER_ROWS: dict[str, Choice] = {
    "FIFO": Choice("fifo", (("since", "window"), ("skip", False))),
    "SJF": Choice("sjf", (("measure", "work"), ("skip", False))),
    "Tetris": Choice("tetris", (("skip", False),)),
}
"""The paper's heuristics as they fit its tables best: the first job that does not fit ends the slot."""

MORE_ROWS: dict[str, Choice] = {
    "FIFO, passing over": Choice("fifo", (("since", "window"),)),
    "SJF, passing over": Choice("sjf", (("measure", "work"),)),
    "Tetris, passing over": Choice("tetris"),
    "earliest deadline": Choice("earliest-deadline"),
    "largest revenue": Choice("largest-revenue"),
    "least slack": Choice("least-slack"),
    "random order": Choice("random"),
}
"""The same when they pass over what does not fit, as do more rules that look at one slot only."""

PLANNING_ROWS: dict[str, Choice] = {
    f"rolling horizon, {forecast}": Choice("rolling-horizon", (("forecast", forecast),))
    for forecast in ("last value", "seasonal", "oracle")
}
"""Agents that plan the jobs they know on a forecast of the capacity; the oracle's is right."""

OPTIMUM = "offline optimum"
"""The row that no other can beat."""

AGENTS = [*PAPER_ROWS, *MORE_ROWS, *PLANNING_ROWS, OPTIMUM]
"""All names but those of learned agents, in the order that gives them their colours."""


def rows_of(options: Options, *, planning: Sequence[str] = tuple(PLANNING_ROWS)) -> dict[str, Choice]:
    """Return the rows of a table.

    Parameters
    ----------
    options : Options
        Whether agents that plan are wanted, and how long the optimum may be searched for.
    planning : sequence of str
        Which of those that plan.

    Returns
    -------
    dict of str to Choice
        In the order of the table.
    """
    rows = PAPER_ROWS | LEARNED | MORE_ROWS
    if not options.heuristics_only:
        rows = rows | {row: PLANNING_ROWS[row] for row in planning}
        rows[OPTIMUM] = Choice("optimum", (("time_limit", options.time_limit),))
    return rows
