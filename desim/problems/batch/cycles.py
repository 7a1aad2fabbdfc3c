"""When an agent is asked: the options of ``cycle``."""

from __future__ import annotations

import math
from typing import Any, Literal

from desim.checks import check_float, did_you_mean, seconds_in
from desim.exceptions import InvalidConfiguration

__all__ = ["CYCLES", "Cycle", "check_cycle", "describe_cycle", "next_multiple", "parse_cycle"]

Cycle = Literal["instant", "arrival", "event"] | float
"""When scheduling cycles open, see :class:`~desim.problems.batch.BatchCluster`."""

CYCLES = ("instant", "arrival", "event")
"""Names of the cycles that do not have a period."""


def check_cycle(cycle: Any) -> Cycle:
    """Return a checked value of ``cycle``: one of its names, or a period in seconds.

    Parameters
    ----------
    cycle : object
        Value to check.

    Returns
    -------
    str or float
        Name, or period in seconds.

    Raises
    ------
    InvalidConfiguration
        If it is neither a name nor a time above 0.
    """
    is_name = isinstance(cycle, str)
    if is_name and cycle not in CYCLES:
        near = did_you_mean(cycle, CYCLES)
        expected = f"{', '.join(map(repr, CYCLES))} or a period in seconds"
        raise InvalidConfiguration(f"cycle: got {cycle!r}{near}, expected {expected}")
    return cycle if is_name else check_float("cycle", cycle, above=0)


def describe_cycle(cycle: Cycle) -> dict[str, Any]:
    """Return the entries of a cycle in the description of a run.

    Parameters
    ----------
    cycle : str or float
        Name, or period in seconds.

    Returns
    -------
    dict
        ``cycle``, and ``cycle_period`` in seconds if it has one.
    """
    return {"cycle": cycle} if isinstance(cycle, str) else {"cycle": "periodic", "cycle_period": cycle}


def parse_cycle(text: str) -> Cycle:
    """Return the checked value of ``cycle`` that a text states, as on the command line; see :func:`check_cycle`."""
    try:
        return check_cycle(seconds_in(text))
    except ValueError:
        return check_cycle(text)


def next_multiple(time: float, period: float) -> float:
    """Return the first multiple of a period that is not before a time.

    Parameters
    ----------
    time, period : float
        Time, and period above 0, in seconds.

    Returns
    -------
    float
        The time itself if it is a multiple, apart from its last digit; else a later time.
    """
    if abs(time - round(time / period) * period) <= math.ulp(time):
        return time
    count = math.ceil(time / period)
    return count * period if count * period > time else (count + 1) * period
