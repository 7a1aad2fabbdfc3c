"""What a run is: a setting, an agent, a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Perform", "Run"]


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes
    ----------
    setting : dataclass instance
        The system and its workload; frozen.
    agent : dataclass instance
        What decides; frozen.
    seed : int
        Of workload and agent.
    """

    setting: Any
    agent: Any
    seed: int

    def __str__(self) -> str:
        """Name the run in messages."""
        return f"{self.setting}, {self.agent}, seed {self.seed}"


Perform = Callable[[Run], Mapping[str, Any]]
"""Performs a run and returns its outcome in plain values; a function of a module, so that processes find it."""
