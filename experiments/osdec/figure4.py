"""Figure 4: what the agents as printed reached in the course of their trainings."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from desim.agents.learning.checkpoint import load_weights
from desim.agents.learning.pretrained import PRETRAINED
from desim.experiments.blocks import Block, Drawing, Table, short
from desim.experiments.drawing import facets
from desim.experiments.frame import Frame, Panel
from desim.experiments.osdec.simulate import LEARNED, learned_rows
from desim.experiments.study import Study, run_as_program
from desim.sweep import Run

PANEL, COLUMN = "figure 4", "training"
CURVES = f"{PANEL}, {COLUMN} by decisions"


@dataclass(frozen=True)
class Card:
    """What a run reads: the curve of a card, in decisions."""

    unit: str = "decisions"


def perform(run: Run) -> dict[str, Any]:
    """Return the curve of the card of some weights, and whether it had become flat.

    Parameters
    ----------
    run : Run
        Of a :class:`Card` and a choice with weights.

    Returns
    -------
    dict
        ``decisions`` and ``seconds`` of the training, ``best``, ``gain`` of the last quarter over the one before in
        total reward, and the curve.
    """
    history = load_weights(PRETRAINED / run.agent.policy.partition(":")[2])[1]["history"]
    rewards = [entry["validation"]["total_reward"] for entry in history]
    quarter = max(len(rewards) // 4, 1)
    before = rewards[-2 * quarter : -quarter] or rewards[:1]
    return {
        "decisions": history[-1]["steps"],
        "seconds": history[-1]["seconds"],
        "evaluations": len(history),
        "best": max(rewards),
        "gain": sum(rewards[-quarter:]) / quarter - sum(before) / len(before),
        "by decisions": {
            "total_reward": {entry["steps"]: reward for entry, reward in zip(history, rewards, strict=True)}
        },
        "valid": None,
    }


@dataclass(frozen=True)
class Figure4(Study):
    """Curves of the cards of the weights that come with desim."""

    paper: ClassVar[str] = "osdec"
    perform = staticmethod(perform)

    seeds: int = 1

    def panels(self) -> Sequence[Panel]:
        """Return the learned agents."""
        return [Panel(PANEL, "", {COLUMN: Card()}, learned_rows())]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield how long each was trained, and the curves."""
        metrics = ("decisions", "evaluations", "seconds", "best", "gain")
        rows = [
            [row, *(short(frame.estimate(PANEL, COLUMN, row, metric).mean) for metric in metrics)]
            for row in LEARNED
            if frame.has(PANEL, COLUMN, row)
        ]
        heads = ["", "decisions", "evaluations", "seconds", "best reward", "last quarter above the one before"]
        yield Table("Trainings, total reward of the validation episodes in core-slots", heads, rows)
        labels = {"total_reward": "total reward of a\nvalidation episode"}
        figure = facets(frame, labels, {CURVES: "decisions"}, width=7.0, height=4.0)
        yield Drawing("figure4.png", "Total reward of validation episodes in the course of the trainings.", figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure4))
