"""What the rules of every problem ask of a run's description."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = [
    "RUN_STATUSES",
    "choice_faults",
    "kind_faults",
    "lowest_faults",
    "name_faults",
    "planned_end",
    "time_faults",
]

RUN_STATUSES = ("complete", "truncated", "interrupted", "failed")
"""How a run can have ended."""


def kind_faults(info: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]]) -> list[str]:
    """Say which entries are missing or of another type.

    Parameters
    ----------
    info : mapping
        The description of the run.
    kinds : mapping of str to tuple of type
        What each entry can be; a boolean is no whole number.

    Returns
    -------
    list of str
        Nothing if all is well.
    """
    return [
        f"{key} is {info.get(key)!r}, want {' or '.join(kind.__name__ for kind in allowed)}"
        for key, allowed in kinds.items()
        if key not in info or not _is_one_of(info[key], allowed)
    ]


def _is_one_of(value: object, kinds: tuple[type, ...]) -> bool:
    """Tell whether a value is of one of some types; a number of numpy's is a float, if it is derived from it."""
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def planned_end(info: Mapping[str, Any]) -> float:
    """Return when a run was to end at the latest.

    Parameters
    ----------
    info : mapping
        The description of the run.

    Returns
    -------
    float
        Its ``until``, infinite if there is none.
    """
    return math.inf if info["until"] is None else info["until"]


def time_faults(info: Mapping[str, Any]) -> list[str]:
    """Say whether a run ended at an impossible time.

    Parameters
    ----------
    info : mapping
        The description of the run.

    Returns
    -------
    list of str
        Nothing if all is well.
    """
    if 0 <= info["end_time"] < math.inf and info["end_time"] <= planned_end(info):
        return []
    return [f"end_time is {info['end_time']!r}, want a time between 0 and until ({info['until']!r})"]


def lowest_faults(info: Mapping[str, Any], lowest: Mapping[str, int]) -> list[str]:
    """Say which entries are too low.

    Parameters
    ----------
    info : mapping
        The description of the run.
    lowest : mapping of str to int
        The least that each entry can be.

    Returns
    -------
    list of str
        Nothing if all is well.
    """
    return [f"{key} is {info[key]!r}, want at least {least}" for key, least in lowest.items() if info[key] < least]


def choice_faults(info: Mapping[str, Any], choices: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Say which entries are none of those that there are.

    Parameters
    ----------
    info : mapping
        The description of the run.
    choices : mapping of str to tuple of str
        What each entry can be.

    Returns
    -------
    list of str
        Nothing if all is well.
    """
    return [
        f"{key} is {info[key]!r}, want one of {', '.join(allowed)}"
        for key, allowed in choices.items()
        if info[key] not in allowed
    ]


def name_faults(names: list[Any]) -> list[str]:
    """Say whether resources have no proper names.

    Parameters
    ----------
    names : list
        The entry ``resources`` of the description.

    Returns
    -------
    list of str
        Nothing if all is well.
    """
    if not names or any(type(name) is not str for name in names) or len({*names}) < len(names):
        return [f"resources is {names!r}, want different names"]
    return []
