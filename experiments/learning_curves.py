"""Learning curves of the agents as printed, read from the model cards of their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from desim.agents.learning.pretrained import read_card
from desim.experiments.frame import BY, Choice, Frame
from desim.sweep import Run

__all__ = ["COLUMN", "EVALUATIONS", "LENGTHS", "Curve", "curves_of", "is_flat", "perform", "with_weights"]

COLUMN = "training"
"""Name of the column of a panel of trainings."""
LENGTHS = {
    "episodes": "episodes",
    "decisions": "decisions",
    "evaluations": "validations",
    "seconds": "wall-clock time, s",
    "change": "last quarter against the one before, %",
}
"""Labels of the metrics that tell how long a training was, and whether its curve had become flat."""
EVALUATIONS = 20
"""Validations that a learning curve must have before anything is said of it."""


@dataclass(frozen=True)
class Curve:
    """Which curves of a training are read.

    Attributes
    ----------
    metric : str
        Metric of the validation episodes that shows whether the curve is flat.
    curves : tuple of str
        Curves by episode, each a group of the card's history and a name in it, such as ``"figures/entropy"``.
    """

    metric: str
    curves: tuple[str, ...] = ()


def with_weights(kind: str, weights: str, *parameters: tuple[str, Any]) -> Choice:
    """Return an agent with weights that ship with the package; their digest tells them from others of that name.

    Parameters
    ----------
    kind : str
        Kind of agent, such as ``"lachesis"``.
    weights : str
        Name of the weights, perhaps with what the agent's name has behind ``@``.
    *parameters : (str, value)
        Further parameters of the choice.
    """
    digest = read_card(weights.partition("@")[0], kind)["sha256"]
    return Choice(f"{kind}:{weights}", (("sha256", digest), *parameters))


def perform(run: Run) -> dict[str, Any]:
    """Return the length of a training and its curves.

    Parameters
    ----------
    run : Run
        Run of a :class:`Curve` and a choice with weights.

    Returns
    -------
    dict
        ``episodes``, ``decisions``, ``evaluations`` and ``seconds`` (wall-clock time without validations) of the
        training; ``first``, ``lowest``, ``highest`` and ``last`` value of the metric; ``change``, percent by which its
        mean over the last quarter of the validations differs from that over the quarter before; the curves by episode,
        and of each its first value and the mean of its last quarter.
    """
    kind, _, weights = run.agent.policy.partition(":")
    card, curve = read_card(weights, kind), run.setting
    history = card["history"]
    episodes = _episodes(card)
    values = [entry["validation"][curve.metric] for entry in history]
    quarter = max(len(values) // 4, 1)
    late, before = np.mean(values[-quarter:]), np.mean(values[-2 * quarter : -quarter] or values[:1])
    points: dict[str, dict[int, float]] = {}
    for name in curve.curves:
        group, _, metric = name.partition("/")
        there = zip(episodes, (entry.get(group) or {} for entry in history), strict=True)
        points[name] = {count: entry[metric] for count, entry in there if metric in entry}
    begun_and_late = {
        f"{name}, {when}": float(np.mean(part))
        for name, by_episode in points.items()
        for seen in (list(by_episode.values()),)
        for when, part in (("first", seen[:1]), ("last quarter", seen[-len(seen) // 4 :]))
        if seen
    }
    return begun_and_late | {
        "episodes": episodes[-1],
        "decisions": history[-1]["steps"],
        "evaluations": len(history),
        "seconds": history[-1]["seconds"],
        "first": values[0],
        "lowest": min(values),
        "highest": max(values),
        "last": values[-1],
        "change": float(100.0 * (late - before) / abs(before)),
        "valid": None,
        f"{BY}episode": points,
    }


def _episodes(card: Mapping[str, Any]) -> list[int]:
    """Return how many episodes were begun before each validation; of fixed lengths of experience, how many ended."""
    settings, history = card["training"]["training"], card["history"]
    if settings["whole_episodes"]:
        return [settings["num_envs"] * entry["updates"] for entry in history]
    found: list[int] = np.cumsum([entry.get("episodes", 0) for entry in history]).tolist()
    return found


def curves_of(panel: str) -> str:
    """Return the name of the panel that holds the curves of a panel of trainings."""
    return f"{panel}, {COLUMN} {BY}episode"


def is_flat(frame: Frame | None, panel: str, row: str, within: float) -> tuple[bool, str]:
    """Return whether a training was long enough for a verdict, and a sentence on its length.

    Parameters
    ----------
    frame : Frame, optional
        Outcomes of :func:`perform`.
    panel, row : str
        Place of the training in it.
    within : float
        Percent by which the last quarter of a flat curve may differ from the quarter before.
    """
    if frame is None or not frame.has(panel, COLUMN, row):
        return False, "no learning curve"
    names = ("episodes", "decisions", "evaluations", "change")
    episodes, decisions, evaluations, change = (float(frame.values(panel, COLUMN, row, name)[0]) for name in names)
    length = f"{episodes:,.0f} episodes, {decisions:,.0f} decisions"
    if evaluations < EVALUATIONS:
        return False, f"{length}: {evaluations:.0f} validations, too few"
    if abs(change) > within:
        return False, f"{length}: not flat, the last quarter {change:+.1f} % from the one before"
    return True, f"{length}: flat, the last quarter {change:+.1f} % from the one before"
