"""Learning curves of the agents as printed, read from the model cards of their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from desim.agents.learning.pretrained import pretrained_names, read_card
from desim.experiments.frame import BY, SEED, Choice, Frame, Panel
from desim.sweep import Run

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
TRAININGS = 3
"""Largest number of trainings of an agent, with the seeds 0, 1 and 2."""


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


def trained_rows(kind: str, weights: Mapping[str, str], *, several: bool) -> dict[str, Choice]:
    """Return the rows of agents whose weights ship with the package.

    Parameters
    ----------
    kind : str
        Kind of agent, such as ``"dbf"``.
    weights : mapping of str to str
        Names of the weights of the first training, by row.
    several : bool
        Whether trainings from further seeds are rows, too, such as ``"OSDEC, seed 1"``.
    """
    there = pretrained_names(kind)
    names = {
        row + (f"{SEED}{seed}" if seed else ""): name + (f"-seed{seed}" if seed else "")
        for row, name in weights.items()
        for seed in range(TRAININGS if several else 1)
    }
    return {row: with_weights(kind, name) for row, name in names.items() if name in there}


def panel_of(name: str, curve: Curve, rows: Mapping[str, Choice]) -> Panel:
    """Return a panel of trainings; of one that went on without better weights, only its length tells that it did.

    Parameters
    ----------
    name : str
        Name of the panel.
    curve : Curve
        Curves to read.
    rows : mapping of str to Choice
        Agents with weights.
    """
    lengths = {row: ("decisions", _card_of(choice)["history"][-1]["steps"]) for row, choice in rows.items()}
    told = {row: replace(choice, parameters=(*choice.parameters, lengths[row])) for row, choice in rows.items()}
    return Panel(name, "", {COLUMN: curve}, told)


def _card_of(choice: Choice) -> dict[str, Any]:
    kind, _, weights = choice.policy.partition(":")
    return read_card(weights, kind)


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
    card, curve = _card_of(run.agent), run.setting
    history = card["history"]
    episodes = _episodes(card)
    values = [entry["validation"][curve.metric] for entry in history]
    late, before = (float(np.mean(part)) for part in _quarters(values))
    points: dict[str, dict[int, float]] = {}
    for name in curve.curves:
        group, _, metric = name.partition("/")
        there = zip(episodes, (entry.get(group) or {} for entry in history), strict=True)
        points[name] = {count: entry[metric] for count, entry in there if metric in entry}
    begun_and_late = {
        f"{name}, {when}": float(np.mean(part))
        for name, by_episode in points.items()
        for seen in (list(by_episode.values()),)
        if seen
        for when, part in (("first", seen[:1]), ("last quarter", _quarters(seen)[0]))
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
        "change": 100.0 * (late - before) / abs(before),
        "valid": None,
        f"{BY}episode": points,
    }


def _quarters(values: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """Return the last quarter of a curve, at least one value, and the quarter before, or else the first value."""
    quarter = max(len(values) // 4, 1)
    return values[-quarter:], values[-2 * quarter : -quarter] or values[:1]


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
    """Return whether all trainings of an agent were long enough for a verdict, and a sentence on their length.

    Parameters
    ----------
    frame : Frame, optional
        Outcomes of :func:`perform`.
    panel, row : str
        Panel and agent, see :meth:`Frame.trainings`.
    within : float
        Percent by which the last quarter of a flat curve may differ from the quarter before.
    """
    rows = [] if frame is None else frame.trainings(panel, row)
    if frame is None or not rows:
        return False, "no learning curve"
    found = {
        name: [float(frame.values(panel, COLUMN, one, name)[0]) for one in rows]
        for name in ("episodes", "decisions", "evaluations", "change")
    }
    number = f"{len(rows)} trainings of " if len(rows) > 1 else ""
    length = f"{number}{_range(found['episodes'])} episodes, {_range(found['decisions'])} decisions"
    if min(found["evaluations"]) < EVALUATIONS:
        return False, f"{length}: {_range(found['evaluations'])} validations, too few"
    flat = max(map(abs, found["change"])) <= within
    changes = ", ".join(f"{change:+.1f}" for change in found["change"])
    return flat, f"{length}: {'' if flat else 'not '}flat, the last quarter {changes} % from the one before"


def _range(values: Sequence[float]) -> str:
    """Return a number, or the smallest and the largest."""
    return " to ".join(f"{value:,.0f}" for value in sorted({min(values), max(values)}))
