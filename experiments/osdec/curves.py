"""What the cards of weights tell of their trainings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from desim.agents.learning.checkpoint import load_weights
from desim.agents.learning.pretrained import PRETRAINED
from desim.sweep import Run

__all__ = ["Card", "perform"]


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
