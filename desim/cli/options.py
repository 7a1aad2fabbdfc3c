"""Options that several commands share, and commands whose options depend on the problem."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from tyro.conf import arg

from desim.exceptions import InvalidConfiguration
from desim.problem import kinds
from desim.scenario import system_of

__all__ = ["JsonFlag", "command_with_options", "listed", "named_as_given", "problem_of"]

JsonFlag = Annotated[bool, arg(name="json")]


def listed(text: str) -> list[str]:
    """Return the names in a comma-separated list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def problem_of(command: Any) -> str:
    """Return the problem that a command is to simulate.

    Parameters
    ----------
    command : object
        Options of the command, with an attribute ``problem``.

    Returns
    -------
    str
        Name of the problem.

    Raises
    ------
    InvalidConfiguration
        If no problem is named.
    """
    if command.problem is None:
        call, known = f"desim {type(command).__name__.lower()} PROBLEM", ", ".join(kinds())
        raise InvalidConfiguration(f"PROBLEM is missing: expected one of {known} or MODULE:FUNCTION; see {call} --help")
    return str(command.problem)


def named_as_given(message: str, command: Any) -> str:
    """Return a message in which arguments of the library are named as options of the command line.

    Parameters
    ----------
    message : str
        Message such as ``"num_cores: got 0, expected an integer >= 1"``.
    command : object
        Options of the command, a dataclass; None if they could not be read.

    Returns
    -------
    str
        Message such as ``"--cores: got 0, expected an integer >= 1"``.
    """
    for name, value in _options(command):
        option = f"--{name.replace('_', '-')}"
        # An argument of the same name that has another value is not this option.
        pattern = rf"(?<![-\w])(?:num_)?{name}( is|: got) {re.escape(repr(value))}(?=[,; ])"
        message = re.sub(pattern, rf"{option}\1 " + str(value).replace("\\", r"\\"), message)
    return message


def _options(command: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the options of a command, including nested groups and lists of commands."""
    if isinstance(command, tuple):
        for part in command:
            yield from _options(part)
    for item in dataclasses.fields(command) if dataclasses.is_dataclass(command) else ():
        value = getattr(command, item.name)
        if dataclasses.is_dataclass(value) or isinstance(value, tuple):
            yield from _options(value)
        elif value is not None:
            yield item.name, value


def with_typing_unions(kind: Any) -> None:
    """Write the unions in the annotations of options as ``typing.Union``, in place.

    For other unions, tyro loads typeguard, which takes .15 s.

    Parameters
    ----------
    kind : type
        Dataclass; those of its fields are changed as well.
    """
    for one in inspect.getmro(kind) if isinstance(kind, type) else ():
        if dataclasses.is_dataclass(one):
            hints = get_type_hints(one, include_extras=True)
            one.__annotations__ = {name: _with_typing_unions(hints[name]) for name in one.__annotations__}


def _with_typing_unions(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        return Annotated[_with_typing_unions(hint.__origin__), *hint.__metadata__]
    if isinstance(hint, UnionType):
        return Union[get_args(hint)]  # noqa: UP007  # see above
    with_typing_unions(hint)
    return hint


def command_with_options(base: type[Any], problem: str) -> type[Any]:
    """Return a command extended by all options of a problem.

    Parameters
    ----------
    base : type
        Dataclass with the options that all problems share and an attribute ``problem``.
    problem : str
        Problem to simulate.

    Returns
    -------
    type
        Dataclass for the parser; its field ``options`` holds the options of the problem.

    Raises
    ------
    InvalidConfiguration
        If the problem is unknown.
    """
    system = system_of(problem)
    made = dataclasses.make_dataclass(
        base.__name__,
        [("options", Annotated[system.options, arg(name=problem)], dataclasses.field(default_factory=system.options))],
        bases=(base,),
        namespace={"problem": problem},
        frozen=True,
    )
    made.__doc__ = f"{inspect.getdoc(base)}\n\n{inspect.getdoc(type(system))}"
    return made
