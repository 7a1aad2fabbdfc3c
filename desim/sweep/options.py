"""Problem options from keyword arguments, named as on the command line."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from desim.checks import did_you_mean, seconds_in, short_repr
from desim.exceptions import InvalidConfiguration
from desim.scenario import IN_SECONDS

__all__ = ["Option", "options_in", "options_of"]


class Option(NamedTuple):
    """Option of a nested dataclass.

    Attributes
    ----------
    path : tuple of str
        Names of the groups that contain it, and its own.
    kinds : tuple
        Allowed types.
    takes_list : bool
        Whether one text may name several things, separated by commas.
    in_seconds : bool
        Whether it is a duration, and so may be a text such as 12h.
    """

    path: tuple[str, ...]
    kinds: tuple[Any, ...]
    takes_list: bool = False
    in_seconds: bool = False

    @property
    def is_sweepable(self) -> bool:
        """Whether several values mean several comparisons: numbers, choices, and names without commas."""
        simple = all(kind in (int, float, str, type(None)) or get_origin(kind) is Literal for kind in self.kinds)
        return simple and not self.takes_list and self.path[0] == "options" and self.path[-1] != "seed"


def options_of(start: Any, given: Mapping[str, Any]) -> Any:
    """Return options with given values.

    Parameters
    ----------
    start : dataclass instance or type
        Options to begin with; frozen, and nested at will. A type stands for its defaults.
    given : mapping of str to object
        Values by name, as on the command line, with ``_`` instead of ``-``.

    Returns
    -------
    object
        Dataclass instance, with the other options as they were.

    Raises
    ------
    InvalidConfiguration
        If an option is unknown, or a value has the wrong type.

    Examples
    --------
    >>> from desim.problems.batch.options import BatchOptions
    >>> options_of(BatchOptions, {"cores": 64, "load": 0.9}).workload.cores
    64
    """
    found = start() if isinstance(start, type) else start
    known = options_in(type(found))
    for name, value in given.items():
        if name not in known:
            raise InvalidConfiguration(
                f"unknown option {name!r}{did_you_mean(name, known)}; expected one of {', '.join(known)}"
            )
        try:
            value = seconds_in(value) if known[name].in_seconds and isinstance(value, str) else value  # noqa: PLW2901
        except ValueError as error:
            raise InvalidConfiguration(f"{name}: {error}") from None
        found = _replaced(found, known[name].path, _converted(name, value, known[name].kinds))
    return found


def options_in(kind: type[Any]) -> dict[str, Option]:
    """Return the options of a nested dataclass by name, and by each other spelling."""
    return dict(_known(kind, ()))


def _known(kind: type[Any], above: tuple[str, ...]) -> Iterator[tuple[str, Option]]:
    """Yield the options by name, once per spelling."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is ClassVar:
            continue
        inner, *settings = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if dataclasses.is_dataclass(inner):
            yield from _known(inner, (*above, name))  # type: ignore[arg-type]
            continue
        kinds = get_args(inner) if get_origin(inner) in (Union, types.UnionType) else (inner,)
        aliases = (alias for part in settings for alias in getattr(part, "aliases", None) or ())
        takes_list = any("," in (getattr(part, "metavar", None) or "") for part in settings)
        for spelling in (name, *(alias.lstrip("-").replace("-", "_") for alias in aliases)):
            yield spelling, Option((*above, name), kinds, takes_list, IN_SECONDS in settings)


def _replaced(options: Any, path: tuple[str, ...], value: Any) -> Any:
    """Return options with one value replaced, at any depth."""
    name, *rest = path
    return dataclasses.replace(
        options, **{name: _replaced(getattr(options, name), tuple(rest), value) if rest else value}
    )


def _converted(name: str, value: Any, kinds: tuple[Any, ...]) -> Any:
    """Return a value converted as on the command line; raise InvalidConfiguration if that is impossible."""
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    is_truth = isinstance(value, bool)
    is_list = any(get_origin(kind) is tuple for kind in kinds)
    converters: tuple[tuple[bool, Any], ...] = (  # the first that applies
        (value is None and type(None) in kinds, lambda none: none),
        (is_truth and bool in kinds, bool),
        (not is_truth and isinstance(value, Integral) and int in kinds, int),
        (not is_truth and isinstance(value, Real) and float in kinds, float),
        (isinstance(value, str | PathLike) and str in kinds, fspath),
        (isinstance(value, str | PathLike) and Path in kinds, Path),
        (isinstance(value, str) and value in choices, str),
        (isinstance(value, list | tuple) and is_list, tuple),
    )
    for suits, convert in converters:
        if suits:
            return convert(value)
    words = {int: "an integer", float: "a number", str: "a string", Path: "a path"}
    words |= {bool: "True or False", type(None): "None"}
    wanted = [*map(repr, choices), *(words.get(kind, "a list") for kind in kinds if get_origin(kind) is not Literal)]
    raise InvalidConfiguration(f"{name}: got {short_repr(value)}, expected {' or '.join(wanted)}")
