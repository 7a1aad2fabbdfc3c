"""Options that several commands share, and commands whose options depend on the problem."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Annotated, Any

from tyro.conf import arg

from desim.exceptions import InvalidConfiguration
from desim.problem import kinds
from desim.scenario import system_of

__all__ = ["JsonFlag", "command_with_options", "listed", "named_as_given", "problem_of"]

JsonFlag = Annotated[bool, arg(name="json")]


def listed(text: str) -> list[str]:
    """Return names that stand in a row, with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def problem_of(command: Any) -> str:
    """Return what a command is to simulate.

    Parameters
    ----------
    command : object
        Its options, with an attribute ``problem``.

    Returns
    -------
    str
        The problem.

    Raises
    ------
    InvalidConfiguration
        If none is named.
    """
    if command.problem is None:
        call, known = f"desim {type(command).__name__.lower()} PROBLEM", ", ".join(kinds())
        raise InvalidConfiguration(f"PROBLEM is missing, one of {known} or MODULE:FUNCTION; see {call} --help")
    return str(command.problem)


def named_as_given(message: str, command: Any) -> str:
    """Return a message with options named as on the command line, where the library names an argument by its own name.

    Parameters
    ----------
    message : str
        Such as ``"num_cores is 0, want a whole number of at least 1"``.
    command : object
        Its options: a dataclass, or None if they could not be read.

    Returns
    -------
    str
        Such as ``"--cores is 0, want a whole number of at least 1"``.
    """
    for name, value in _options(command):
        option = f"--{name.replace('_', '-')}"
        # Only what has the value of the option is meant by it: other things may have the same name.
        pattern = rf"(?<![-\w])(?:num_)?{name} is {re.escape(repr(value))}(?=[,; ])"
        message = re.sub(pattern, lambda _, text=f"{option} is {value}": text, message)  # type: ignore[misc]
    return message


def _options(command: Any) -> Iterator[tuple[str, Any]]:
    """Yield the options of a command and their values: those of a problem, too, and those of several commands."""
    if isinstance(command, tuple):
        for part in command:
            yield from _options(part)
    for item in dataclasses.fields(command) if dataclasses.is_dataclass(command) else ():
        value = getattr(command, item.name)
        if dataclasses.is_dataclass(value) or isinstance(value, tuple):
            yield from _options(value)
        elif value is not None:
            yield item.name, value


def command_with_options(base: type[Any], problem: str) -> type[Any]:
    """Return a command with all options of a problem.

    Parameters
    ----------
    base : type
        A dataclass with the options that all problems share, and an attribute ``problem``.
    problem : str
        What is to be simulated.

    Returns
    -------
    type
        A dataclass for the parser, whose ``options`` are those of the problem.

    Raises
    ------
    InvalidConfiguration
        If there is no such problem.
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
