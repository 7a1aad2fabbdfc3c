"""What a run is: a setting, an agent, a seed; and whether its records are valid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from desim import Result

__all__ = ["Choice", "Perform", "Run", "is_valid"]


@dataclass(frozen=True)
class Choice:
    """An agent with all its parameters, in plain values.

    Attributes
    ----------
    policy : str
        What the function that performs runs knows it by.
    parameters : tuple of (str, value)
        What it is called with.
    """

    policy: str
    parameters: tuple[tuple[str, Any], ...] = ()


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


def is_valid(result: Result, workload: Any = None, *, check: bool) -> bool | None:
    """Check the records of a run with `desim.validation` if that is asked for.

    Parameters
    ----------
    result : Result
        The run.
    workload : iterable, optional
        What was simulated.
    check : bool
        Whether to check at all.

    Returns
    -------
    bool or None
        None if unchecked.
    """
    if not check:
        return None
    from desim.validation import validate

    return validate(result, workload).ok
