"""An agent as plain values, and whether the records of a run are valid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from desim import Result

__all__ = ["Choice", "is_valid"]


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


def is_valid(result: Result, workload: Any = None, *, check: bool) -> bool | None:
    """Check the records of a run with `desim.validation` if that is asked for; None if it is not.

    Parameters
    ----------
    result : Result
        The run.
    workload : iterable, optional
        What was simulated.
    check : bool
        Whether to check at all.
    """
    if not check:
        return None
    from desim.validation import validate

    return validate(result, workload).ok
