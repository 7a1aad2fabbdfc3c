"""Argument checks, one line per check; each raises `InvalidConfiguration` with the argument's name and value."""

from __future__ import annotations

import difflib
import math
import operator
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Number, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import DesimError, InvalidConfiguration

__all__ = [
    "MOST_CORES",
    "MOST_ITEMS",
    "UNITS",
    "check_action",
    "check_bool",
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
    "seconds_in",
    "sets_of_names",
    "short_repr",
]

MOST_CORES = 2**24
"""Largest number of cores of a cluster: each job's are a bit set, and the largest machine of 2025 has 11 million."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
"""Units of durations in texts, in seconds."""
MOST_ITEMS = 100_000_000
"""Largest number of jobs, slots and other things of which each takes memory."""

Choice = TypeVar("Choice")
Part = TypeVar("Part")


def short_repr(value: Any) -> str:
    """Return the representation of a value for a message, shortened if it is long.

    Parameters
    ----------
    value : object
        Any value.

    Returns
    -------
    str
        One line of text, at most 120 characters.

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
    """Return a NumPy scalar as the Python number or string that it equals; return anything else unchanged.

    Parameters
    ----------
    value : object
        Usually a name or an identifier.

    Returns
    -------
    object
        The value as a Python object, for isinstance checks, arithmetic with large integers, and JSON.

    Examples
    --------
    >>> import numpy as np
    >>> python_scalar(np.int64(2)), python_scalar(np.str_("a")), python_scalar(2)
    (2, 'a', 2)
    """
    return value.item() if isinstance(value, np.generic) else value


def did_you_mean(name: Any, choices: Iterable[Any]) -> str:
    """Return the suggestion that a message about an unknown name adds.

    Parameters
    ----------
    name : object
        The unknown name.
    choices : iterable
        The known names; choices that are not strings are ignored.

    Returns
    -------
    str
        The suggestion with a leading space; empty if no known name is similar or begins with the given one.

    Examples
    --------
    >>> f"no agent 'eazy'{did_you_mean('eazy', ['fcfs', 'easy'])}"
    "no agent 'eazy' (did you mean 'easy'?)"
    """
    if not isinstance(name, str):
        return ""
    plain = {choice.lower().replace("_", "-"): choice for choice in choices if isinstance(choice, str)}
    given = name.lower().replace("_", "-")
    near = difflib.get_close_matches(given, plain, n=1) or [one for one in plain if given and one.startswith(given)]
    return f" (did you mean {plain[near[0]]!r}?)" if near and plain[near[0]] != name else ""


def items(name: str, values: Any, what: str, attribute: str) -> Any:
    """Return a value if it is an iterable; its elements are not checked.

    Parameters
    ----------
    name : str
        Name of the argument.
    values : object
        Value of the argument.
    what : str
        What the iterable contains, in the plural, for the message.
    attribute : str
        An attribute that each element has; a value with this attribute is a single element, not an iterable.

    Returns
    -------
    object
        The value, unchanged.

    Raises
    ------
    InvalidConfiguration
        If the value is not iterable, is a string, or is a single element.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable) or hasattr(values, attribute):
        raise InvalidConfiguration(f"{name}: got {short_repr(values)}, expected a list or another iterable of {what}")
    return values


def check_int(name: str, value: Any, *, least: int | None = None, most: int | None = None) -> int:
    """Return a value as an integer within bounds.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : object
        Value of the argument; a float without a fractional part counts as an integer.
    least, most : int or None
        Inclusive bounds.

    Returns
    -------
    int
        The integer.

    Raises
    ------
    InvalidConfiguration
        If the value is not an integer or is out of bounds.
    """
    is_whole = _is_number(value) and value == math.floor(value)
    if not is_whole or not _within(value, least, most):
        raise InvalidConfiguration(f"{name}: got {short_repr(value)}, expected an integer{_bounds(least, most)}")
    return int(value)


def seconds_in(text: str) -> float:
    """Return the seconds that a text states as a plain number, or as one with a unit of `UNITS`.

    Parameters
    ----------
    text : str
        Text such as ``"90"``, ``"12h"`` or ``"1.5d"``.

    Returns
    -------
    float
        Seconds; of any sign, and not finite if the text says so.

    Raises
    ------
    ValueError
        If the text is of another form; the message tells which one is expected.

    Examples
    --------
    >>> seconds_in("90"), seconds_in("12h")
    (90.0, 43200.0)
    """
    given = text.strip()
    unit = UNITS.get(given[-1:])
    try:
        return float(given) if unit is None else float(given[:-1]) * unit
    except ValueError:
        raise ValueError(
            f"got {short_repr(text)}, expected a number of seconds, or a text such as 30m, 12h or 5d"
        ) from None


def check_bool(name: str, value: Any) -> bool:
    """Return a value if it is True or False, of Python or of NumPy; a text such as ``"no"`` would count as true.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : object
        Value of the argument.

    Returns
    -------
    bool
        The value.

    Raises
    ------
    InvalidConfiguration
        If the value is no truth value.
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidConfiguration(f"{name}: got {short_repr(value)}, expected True or False")
    return bool(value)


def check_action(action: Any, count: int) -> int:
    """Return an action as an integer, if it is an element of ``Discrete(count)``.

    Parameters
    ----------
    action : object
        Integer, possibly as a NumPy scalar or an array without dimensions. Floats are not rounded.
    count : int
        Number of actions.

    Returns
    -------
    int
        Number of the action, from 0 to count - 1.

    Raises
    ------
    InvalidConfiguration
        If the action is not an integer or is out of range.

    Examples
    --------
    >>> check_action(np.int64(2), 3)
    2
    """
    try:
        number = -1 if isinstance(action, bool) else operator.index(action)
    except TypeError:
        number = -1
    if not 0 <= number < count:
        raise InvalidConfiguration(
            f"action: got {short_repr(action)}, expected an integer from 0 to {count - 1}; the environment's "
            "action_masks() shows which ones are possible now"
        )
    return number


def check_float(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """Return a value as a finite float within bounds.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : object
        Value of the argument.
    least, most : float or None
        Inclusive bounds.
    above, below : float or None
        Exclusive bounds.

    Returns
    -------
    float
        The number.

    Raises
    ------
    InvalidConfiguration
        If the value is not a finite number or is out of bounds.
    """
    is_inside = _is_number(value) and (above is None or value > above) and (below is None or value < below)
    if is_inside and _within(value, least, most):
        return float(value)
    parts = [_bounds(least, most)] if least is not None or most is not None else []
    parts += [f" > {above}"] if above is not None else []
    parts += [f" < {below}"] if below is not None else []
    raise InvalidConfiguration(f"{name}: got {short_repr(value)}, expected a finite number{' and'.join(parts)}")


def check_choice(name: str, value: Choice, choices: Iterable[Choice]) -> Choice:
    """Return a value if it is one of the choices.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : object
        Value of the argument.
    choices : iterable
        The allowed values.

    Returns
    -------
    object
        The value, unchanged.

    Raises
    ------
    InvalidConfiguration
        If the value is not one of the choices.
    """
    known = tuple(choices)
    if value not in known:
        near = did_you_mean(value, known)
        raise InvalidConfiguration(
            f"{name}: got {short_repr(value)}{near}, expected one of {', '.join(map(repr, known))}"
        )
    return value


def named(what: str, given: str | Part, choices: Mapping[str, Callable[[], Part]]) -> Part:
    """Return the object that a name stands for; return anything but a string unchanged.

    Parameters
    ----------
    what : str
        What the name denotes, such as ``"priority"``, for the message.
    given : str or object
        A name, or the object itself.
    choices : mapping of str to callable
        Function that creates the object, by name.

    Returns
    -------
    object
        The object.

    Raises
    ------
    InvalidConfiguration
        If the name is unknown.
    """
    if not isinstance(given, str):
        return given
    if given not in choices:
        near = did_you_mean(given, choices)
        raise InvalidConfiguration(f"unknown {what} {given!r}{near}; expected one of {', '.join(choices)}")
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
    """Return numbers as a read-only array copied from the values.

    Parameters
    ----------
    what : str
        Name of the values, for the message.
    values : array_like
        The numbers.
    shape : tuple of int or None, optional
        Expected shape; None stands for any length.
    least, above : float or None
        Lower bound, inclusive or exclusive; without one, any value is allowed.
    whole, infinite : bool
        Whether all values have to be integers, and whether infinity is allowed.
    names : sequence of sequence of str
        Names of the entries along each axis, for the message.
    error : type of DesimError
        Exception to raise.

    Returns
    -------
    numpy.ndarray of float
        The numbers.

    Raises
    ------
    DesimError
        If the values are not numbers, have another shape, or one of them is out of bounds.
    """
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise error(f"{what}: expected numbers ({problem})") from problem
    if shape is not None:
        pairs = zip(array.shape, shape, strict=False)
        if array.ndim != len(shape) or any(want not in (None, found) for found, want in pairs):
            raise error(f"{what}: got shape {array.shape}, expected {str(shape).replace('None', 'any')}")
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
            kind = "an integer" if whole else "a number" if infinite else "a finite number"
            limit = _bounds(least, None) if above is None else f" > {above}"
            raise error(
                f"{what}{' of ' * bool(where)}{where}: got {array[tuple(place)].item()!r}, expected {kind}{limit}"
            )
    array.flags.writeable = False
    return array


def names_of(
    what: str, names: Sequence[Any] | None, count: int, error: type[DesimError] = InvalidConfiguration
) -> tuple[str, ...]:
    """Return names as strings, or numbered names if none are given.

    Parameters
    ----------
    what : str
        What the names denote, such as ``"executor"``; its last word begins the numbered names.
    names : sequence or None
        The names.
    count : int
        Required number of names.
    error : type of DesimError
        Exception to raise.

    Returns
    -------
    tuple of str
        The names.

    Raises
    ------
    DesimError
        If the number of names differs from the count, or two names are equal.
    """
    if names is None:
        return tuple(f"{what.rsplit(maxsplit=1)[-1]}{index}" for index in range(count))
    result = tuple(map(str, names))
    if len(result) != count:
        raise error(f"{what}: got {len(result)} names, expected {count}")
    if len(set(result)) < count:
        twice = next(name for name, times in Counter(result).items() if times > 1)
        raise error(f"{what}: the name {twice!r} is given twice")
    return result


def sets_of_names(
    what: str, values: Any, of: Sequence[str], error: type[DesimError] = InvalidConfiguration
) -> list[frozenset[str] | None]:
    """Return a set of names, or None, for each of several things.

    Parameters
    ----------
    what : str
        Name of the values, for the message.
    values : sequence of (iterable of str or None)
        Names of each thing.
    of : sequence of str
        Names of the things.
    error : type of DesimError
        Exception to raise.

    Returns
    -------
    list of (frozenset of str or None)
        The sets.

    Raises
    ------
    DesimError
        If the number of sets differs from that of the things, or a set is not one of strings.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Sequence) or len(values) != len(of):
        raise error(f"{what}: got {short_repr(values)}, expected {len(of)} sets of names, one each")
    found: list[frozenset[str] | None] = []
    for name, given in zip(of, values, strict=True):
        names = None if given is None or isinstance(given, str) or not isinstance(given, Iterable) else list(given)
        if given is not None and (names is None or not all(isinstance(one, str) for one in names)):
            raise error(f"{what} of {name}: got {short_repr(given)}, expected a set of names")
        found.append(None if names is None else frozenset(map(str, names)))
    return found


def places_of(names: Sequence[str], given: Sequence[Any] | None) -> dict[Any, int]:
    """Return the position of each name, by every key that may denote it: the one owner of names and positions.

    Parameters
    ----------
    names : sequence of str
        The names as strings.
    given : sequence or None
        The names as the user gave them.

    Returns
    -------
    dict
        Positions by name, as a string and as given; also by position, unless one of the names is itself a number.
        NumPy scalars are found, too, since they equal the Python scalars.
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
    return f" >= {least}" if least is not None else f" <= {most}" if most is not None else ""
