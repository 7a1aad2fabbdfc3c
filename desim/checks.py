"""One line a check: arguments that are out of range raise `InvalidConfiguration` with their name and value."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Number, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import DesimError, InvalidConfiguration

__all__ = [
    "check_choice",
    "check_float",
    "check_int",
    "did_you_mean",
    "items",
    "named",
    "names_of",
    "numbers",
    "places_of",
    "python_scalar",
    "short_repr",
]

Choice = TypeVar("Choice")
Part = TypeVar("Part")


def short_repr(value: Any) -> str:
    """Return a value as messages show it: long ones are cut.

    Parameters
    ----------
    value : object
        Any.

    Returns
    -------
    str
        A line of Python.

    Examples
    --------
    >>> short_repr("4"), short_repr(list(range(1_000)))
    ("'4'", '[0, 1, 2, 3, 4, 5, ...]')
    """
    text = " ".join(_SHORT.repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


_LONGEST = 120
_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxstring = _LONGEST


def python_scalar(value: Any) -> Any:
    """Return a scalar of NumPy as the number or text of Python that it is; anything else as it is.

    Parameters
    ----------
    value : object
        Such as a name or an identifier.

    Returns
    -------
    object
        Which isinstance, arithmetic with large numbers and JSON take as they take those of Python.

    Examples
    --------
    >>> import numpy as np
    >>> python_scalar(np.int64(2)), python_scalar(np.str_("a")), python_scalar(2)
    (2, 'a', 2)
    """
    return value.item() if isinstance(value, np.generic) else value


def did_you_mean(name: Any, choices: Iterable[Any]) -> str:
    """Return a question for a message about an unknown name: the one owner of suggestions.

    Parameters
    ----------
    name : object
        What was given.
    choices : iterable
        The names that there are; others are not looked at.

    Returns
    -------
    str
        With a blank before it; empty if no name is near.

    Examples
    --------
    >>> f"no agent 'eazy'{did_you_mean('eazy', ['fcfs', 'easy'])}"
    "no agent 'eazy' (did you mean 'easy'?)"
    """
    if not isinstance(name, str):
        return ""
    plain = {choice.lower().replace("_", "-"): choice for choice in choices if isinstance(choice, str)}
    near = difflib.get_close_matches(name.lower().replace("_", "-"), plain, n=1)
    return f" (did you mean {plain[near[0]]!r}?)" if near and plain[near[0]] != name else ""


def items(name: str, values: Any, what: str, attribute: str) -> Any:
    """Return what can be gone through; whether all in it is of use shows later.

    Parameters
    ----------
    name : str
        What the argument is called.
    values : object
        Its value.
    what : str
        What is to be in it, in the plural.
    attribute : str
        What each of these has, by which one is told from many.

    Returns
    -------
    object
        The same.

    Raises
    ------
    InvalidConfiguration
        If it is none, text, or just one of these.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable) or hasattr(values, attribute):
        raise InvalidConfiguration(f"{name} is {short_repr(values)}, want a list or another iterable of {what}")
    return values


def check_int(name: str, value: Any, *, least: int | None = None, most: int | None = None) -> int:
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
        raise InvalidConfiguration(f"{name} is {short_repr(value)}, want a whole number{_bounds(least, most)}")
    return int(value)


def check_float(
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
    raise InvalidConfiguration(f"{name} is {short_repr(value)}, want a finite number{' and'.join(parts)}")


def check_choice(name: str, value: Choice, choices: Iterable[Choice]) -> Choice:
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
        near = did_you_mean(value, known)
        raise InvalidConfiguration(f"{name} is {short_repr(value)}{near}, want one of {', '.join(map(repr, known))}")
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
        near = did_you_mean(given, choices)
        raise InvalidConfiguration(f"no {what} {given!r}{near}; there are {', '.join(choices)}")
    return choices[given]()


def numbers(
    what: str,
    values: ArrayLike,
    *,
    shape: tuple[int | None, ...] | None = None,
    least: float | None = None,
    above: float | None = None,
    whole: bool = False,
    infinite: bool = False,
    names: Sequence[Sequence[str]] = (),
    error: type[DesimError] = InvalidConfiguration,
) -> NDArray[np.float64]:
    """Return numbers as a read-only array, a copy.

    Parameters
    ----------
    what : str
        What they are called.
    values : array_like
        The numbers.
    shape : tuple of int or None, optional
        Of the array; None stands for any length.
    least, above : float or None
        The lower bound, included or excluded; without one any value will do.
    whole, infinite : bool
        Whether they have to be whole numbers, and whether infinity is one.
    names : sequence of sequence of str
        What the entries are called in messages, by axis.
    error : type of DesimError
        What to raise.

    Returns
    -------
    numpy.ndarray of float
        The numbers.

    Raises
    ------
    DesimError
        If they are none, of another shape, or one of them is out of bounds.
    """
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise error(f"{what}: want numbers ({problem})") from problem
    if shape is not None:
        pairs = zip(array.shape, shape, strict=False)
        if array.ndim != len(shape) or any(want not in (None, found) for found, want in pairs):
            raise error(f"{what} has shape {array.shape}, want {str(shape).replace('None', 'any')}")
    if least is not None or above is not None:
        bound: Any = above if least is None else least
        good = array > bound if least is None else array >= bound
        if not infinite:
            good &= array < np.inf
        if whole:
            good &= array == np.floor(array)
        if not good.all():
            place = np.argwhere(~good)[0].tolist()
            where = " to ".join(axis[index] for axis, index in zip(names, place, strict=False))
            kind = "a whole number" if whole else "a number" if infinite else "a finite number"
            limit = _bounds(least, None) if above is None else f" above {above}"
            raise error(f"{what}{' of ' * bool(where)}{where} is {array[tuple(place)].item()!r}, want {kind}{limit}")
    array.flags.writeable = False
    return array


def names_of(
    what: str, names: Sequence[Any] | None, count: int, error: type[DesimError] = InvalidConfiguration
) -> tuple[str, ...]:
    """Return names as text, made up if there are none.

    Parameters
    ----------
    what : str
        What has the names, such as ``"executor"``; its last word begins the names that are made up.
    names : sequence or None
        The names.
    count : int
        How many there have to be.
    error : type of DesimError
        What to raise.

    Returns
    -------
    tuple of str
        The names.

    Raises
    ------
    DesimError
        If there are fewer or more, or two are equal.
    """
    if names is None:
        return tuple(f"{what.rsplit(maxsplit=1)[-1]}{index}" for index in range(count))
    result = tuple(map(str, names))
    if len(result) != count:
        raise error(f"{what}: {len(result)} names, want {count}")
    if len(set(result)) < count:
        twice = next(name for name, times in Counter(result).items() if times > 1)
        raise error(f"{what}: two are called {twice!r}")
    return result


def places_of(names: Sequence[str], given: Sequence[Any] | None) -> dict[Any, int]:
    """Return the place of each name, by all that may stand for it: the one owner of what is a name, what a position.

    Parameters
    ----------
    names : sequence of str
        The names as text.
    given : sequence or None
        The names as they were given.

    Returns
    -------
    dict
        By name, as text and as given, and by position unless one of the names is a number itself. Scalars of NumPy are
        found like those of Python, which they are equal to.
    """
    places: dict[Any, int] = {name: place for place, name in enumerate(names)}
    plain = [] if given is None else [python_scalar(name) for name in given]
    places |= {name: place for place, name in enumerate(plain)}
    if not any(isinstance(name, Number) for name in plain):
        places |= {place: place for place in range(len(names))}
    return places


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and value is not True and value is not False and math.isfinite(value)


def _within(value: Any, least: Any, most: Any) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def _bounds(least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f" from {least} to {most}"
    return f" of at least {least}" if least is not None else f" of at most {most}" if most is not None else ""
