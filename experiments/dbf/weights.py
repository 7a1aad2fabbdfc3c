"""Trained weights in a directory: what their cards say, and the agents that they make."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desim.agents.learning.pretrained import PRETRAINED
from desim.exceptions import RecordError
from desim.experiments.run import Choice

__all__ = ["Weights", "best_split", "find_weights", "learned"]

SPLIT_WINDOW, INSPECTOR = "split-window", "inspector"
SEED = re.compile(r"-seed\d+$")


@dataclass(frozen=True)
class Weights:
    """Trained weights.

    Attributes
    ----------
    name : str
        Of their files.
    source : str
        The name, or the path if they do not come with the package.
    card : dict
        What is known of them.
    """

    name: str
    source: str
    card: Mapping[str, Any]

    @property
    def agent(self) -> str:
        """What kind of agent they are for."""
        return str(self.card.get("agent"))

    @property
    def window(self) -> tuple[int, int]:
        """Slots at the head and at the tail of the queue."""
        config = self.card["config"]
        return int(config["head"]), int(config["tail"])

    @property
    def validation(self) -> Mapping[str, float]:
        """Measures on the validation episodes."""
        found: Mapping[str, float] = self.card.get("validation") or {}
        return found

    def choice(self, window: tuple[int, int] | None = None) -> Choice:
        """Return the agent.

        Parameters
        ----------
        window : tuple of two ints, optional
            Another window than that of the training.

        Returns
        -------
        Choice
            It holds a digest of the weights: runs with others of the same name are other runs.
        """
        at = "" if window is None else f"@{window[0]}-{window[1]}"
        return Choice(f"{self.agent}:{self.source}{at}", (("sha256", str(self.card.get("sha256"))),))


def find_weights(directory: Path | None = None) -> dict[str, Weights]:
    """Return the weights in a directory.

    Parameters
    ----------
    directory : Path, optional
        Those that come with the package if left out.

    Returns
    -------
    dict of str to Weights
        By name, in order; only those of agents of the batch cluster.

    Raises
    ------
    RecordError
        If a card cannot be read.
    """
    found = {}
    for path in sorted((directory or PRETRAINED).glob("*.json"), key=lambda path: path.stem):
        try:
            card = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise RecordError(f"{path} cannot be read ({type(error).__name__}: {error})") from error
        if isinstance(card, dict) and card.get("agent") in (SPLIT_WINDOW, INSPECTOR):
            source = path.stem if directory is None else str(path.resolve().with_suffix(""))
            found[path.stem] = Weights(path.stem, source, card)
    return found


def learned(weights: Mapping[str, Weights], head: int, tail: int, family: str = "lublin256") -> Choice | None:
    """Return the learned agent of a window: the one trained for it, else the one for all windows.

    Parameters
    ----------
    weights : mapping of str to Weights
        Of :func:`find_weights`.
    head, tail : int
        Slots at the head and at the tail of the queue.
    family : str
        What names begin with: the workload of the training.

    Returns
    -------
    Choice or None
        None if there is neither. The one for all windows has never seen a window without a slot at the tail, and
        does not stand in for those that have.
    """
    dedicated = weights.get(f"{family}-m{head + tail}-t{tail}")
    if dedicated is not None:
        return dedicated.choice()
    general = weights.get(f"{family}-any")
    return general.choice((head, tail)) if general is not None and tail else None


def best_split(weights: Mapping[str, Weights], size: int, family: str = "lublin256") -> tuple[int, int]:
    """Return how to split a window: as validation says where several splits were trained for, else into halves.

    Parameters
    ----------
    weights : mapping of str to Weights
        Of :func:`find_weights`.
    size : int
        Slots of the window.
    family : str
        What names begin with.

    Returns
    -------
    tuple of two ints
        Slots at the head and at the tail.
    """
    pattern = re.compile(rf"{family}-m{size}-t[1-9]\d*$")
    measured = {
        one.window: one.validation["waiting_time_mean"]
        for name, one in weights.items()
        if pattern.match(name) and "waiting_time_mean" in one.validation
    }
    return min(measured, key=lambda window: measured[window], default=(size - size // 2, size // 2))
