"""The agents that are compared, by their names in tables and figures."""

from __future__ import annotations

from collections.abc import Mapping

from desim.experiments.dbf.weights import INSPECTOR, SPLIT_WINDOW, Weights, learned
from desim.experiments.run import Choice

__all__ = [
    "BASELINES",
    "BOUND",
    "CONTROLS",
    "LEARNED",
    "PAPER_ROWS",
    "REFERENCE",
    "RULE_ROWS",
    "control",
    "inspector_rows",
    "other_windows",
    "window_rows",
]

PAPER_ROWS: dict[str, Choice] = {
    "FCFS, back-filling": Choice("backfilling-fcfs"),
    "LCFS, back-filling": Choice("backfilling-lcfs"),
    "SJF by cores, back-filling": Choice("backfilling-sjf-cores"),
}
"""The paper's heuristics: its SJF starts the job with the fewest cores first."""

REFERENCE = "SJF, back-filling"
"""Shortest run time first: the strongest of the rules that see the whole queue."""
BOUND = "FCFS, EASY"
"""Whose longest waiting time nobody should exceed."""

RULE_ROWS: dict[str, Choice] = {
    REFERENCE: Choice("backfilling-sjf"),
    "F1, back-filling": Choice("backfilling-f1"),
    BOUND: Choice("easy-fcfs"),
    "SJF, EASY": Choice("easy-sjf"),
    "F1, EASY": Choice("easy-f1"),
    "WFP3, EASY": Choice("easy-wfp3"),
    "UNICEP, EASY": Choice("easy-unicep"),
    "FCFS, conservative": Choice("conservative-fcfs"),
}
"""More rules that see the whole queue. EASY does not differ for SJF by cores: if the first does not fit, none does."""

BASELINES = PAPER_ROWS | RULE_ROWS
"""All rules that see the whole queue."""

LEARNED = "learned"
"""The row of the learned agents where there is one for each window."""

CONTROLS = {
    "random in the window": "random",
    "shortest in the window": "shortest",
    "reserving in the window": "reserving",
}
"""Rules without learning that see no more than a window, see :mod:`desim.agents.batch.window_rules`."""


def control(rule: str, head: int, tail: int) -> Choice:
    """Return a rule in a window."""
    return Choice(f"window-{rule}-{head}-{tail}")


def window_rows(weights: Mapping[str, Weights], size: int, tails: tuple[int, ...]) -> dict[str, dict[str, Choice]]:
    """Return the learned agents and the controls of windows of one size.

    Parameters
    ----------
    weights : mapping of str to Weights
        Of :func:`desim.experiments.dbf.weights.find_weights`.
    size : int
        Slots of the windows.
    tails : tuple of int
        Slots at the tail.

    Returns
    -------
    dict of str to dict of str to Choice
        By row, then by the number of slots at the tail, as text. Windows without trained weights are left out.
    """
    found = {tail: learned(weights, size - tail, tail) for tail in tails}
    rows = {LEARNED: {str(tail): choice for tail, choice in found.items() if choice is not None}}
    for row, rule in CONTROLS.items():
        rows[row] = {str(tail): control(rule, size - tail, tail) for tail in tails}
    return rows


def inspector_rows(weights: Mapping[str, Weights]) -> dict[str, Choice]:
    """Return the inspectors that are trained, by the names of their base policies."""
    rows: dict[str, Choice] = {}
    for name, one in weights.items():
        if one.agent == INSPECTOR:
            config = one.card["config"]
            row = f"SchedInspector, {config['base'].upper().replace('-CORES', ' by cores')}"
            row += "" if config.get("keeps_accepted", True) else ", picks anew"
            rows[f"{row}, {name}" if row in rows else row] = one.choice()
    return rows


def other_windows(
    weights: Mapping[str, Weights], windows: tuple[tuple[int, int], ...], prefix: str
) -> dict[str, Choice]:
    """Return the split-window agents whose names begin with a prefix, those for all windows once for each window.

    Parameters
    ----------
    weights : mapping of str to Weights
        Of :func:`desim.experiments.dbf.weights.find_weights`.
    windows : tuple of pairs of ints
        For the agents for all windows.
    prefix : str
        What names begin with.

    Returns
    -------
    dict of str to Choice
        By name.
    """
    rows: dict[str, Choice] = {}
    for name, one in weights.items():
        if one.agent != SPLIT_WINDOW or not name.startswith(prefix):
            continue
        if name.endswith("-any"):
            rows |= {f"{name}@{head}-{tail}": one.choice((head, tail)) for head, tail in windows}
        else:
            rows[name] = one.choice()
    return rows
