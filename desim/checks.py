"""One line a check: arguments that are out of range raise `InvalidConfiguration` with their name and value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any, TypeVar

from desim.exceptions import InvalidConfiguration

__all__ = ["finite", "named", "one_of", "whole"]

Choice = TypeVar("Choice")
Part = TypeVar("Part")


def whole(name: str, value: Any, *, least: int | None = None, most: int | None = None) -> int:
    """Return a whole number within bounds.

    Parameters
    ----------
    name : str
        What the argument is called.
    value : object
        Its value; a float without a fraction is a whole number.
    least, most : int or None
        The bounds, included.

    Returns
    -------
    int
        The number.

    Raises
    ------
    InvalidConfiguration
        If it is none, or out of bounds.
    """
    is_whole = _is_number(value) and value == math.floor(value)
    if not is_whole or not _within(value, least, most):
        raise InvalidConfiguration(f"{name} is {value!r}, want a whole number{_bounds(least, most)}")
    return int(value)


def finite(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """Return a finite number within bounds.

    Parameters
    ----------
    name : str
        What the argument is called.
    value : object
        Its value.
    least, most : float or None
        The bounds, included.
    above, below : float or None
        The bounds, excluded.

    Returns
    -------
    float
        The number.

    Raises
    ------
    InvalidConfiguration
        If it is none, or out of bounds.
    """
    is_inside = _is_number(value) and (above is None or value > above) and (below is None or value < below)
    if is_inside and _within(value, least, most):
        return float(value)
    parts = [_bounds(least, most)] if least is not None or most is not None else []
    parts += [f" above {above}"] if above is not None else []
    parts += [f" below {below}"] if below is not None else []
    raise InvalidConfiguration(f"{name} is {value!r}, want a finite number{' and'.join(parts)}")


def one_of(name: str, value: Choice, choices: Iterable[Choice]) -> Choice:
    """Return a value if it is one of some.

    Parameters
    ----------
    name : str
        What the argument is called.
    value : object
        Its value.
    choices : iterable
        What it can be.

    Returns
    -------
    object
        The value.

    Raises
    ------
    InvalidConfiguration
        If it is none of them.
    """
    known = tuple(choices)
    if value not in known:
        raise InvalidConfiguration(f"{name} is {value!r}, want one of {', '.join(map(repr, known))}")
    return value


def named(what: str, given: str | Part, choices: Mapping[str, Callable[[], Part]]) -> Part:
    """Return a part by its name; what is no name is returned as it is.

    Parameters
    ----------
    what : str
        What kind of part it is, for the message.
    given : str or object
        A name, or the part itself.
    choices : mapping of str to callable
        What makes each part, by name.

    Returns
    -------
    object
        The part.

    Raises
    ------
    InvalidConfiguration
        If there is none of this name.
    """
    if not isinstance(given, str):
        return given
    if given not in choices:
        raise InvalidConfiguration(f"no {what} {given!r}; there are {', '.join(choices)}")
    return choices[given]()


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and value is not True and value is not False and math.isfinite(value)


def _within(value: Any, least: Any, most: Any) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def _bounds(least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f" from {least} to {most}"
    return f" of at least {least}" if least is not None else f" of at most {most}" if most is not None else ""
