"""What the command line knows of problems: one module each, behind one protocol."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Annotated, Any

from tyro.conf import arg

from desim import own_code
from desim.exceptions import InvalidConfiguration
from desim.scenario import Instance, System

__all__ = ["SYSTEMS", "Instance", "System", "command_with_options", "problem_of", "shared_instance", "system_of"]

#: The modules of desim's own problems.
SYSTEMS: Mapping[str, str] = {
    name: f"desim.cli.systems.{name}" for name in ("batch", "dag", "deferrable", "multiserver")
}


def system_of(problem: str) -> System:
    """Return what is known of a problem.

    Parameters
    ----------
    problem : str
        A name, or ``module:name`` of a function that makes a problem.

    Returns
    -------
    System
        Of desim's own problems and of those of users alike.

    Raises
    ------
    InvalidConfiguration
        If there is no such problem.
    """
    if problem in SYSTEMS:
        system: System = import_module(SYSTEMS[problem]).SYSTEM
        return system
    if own_code.is_reference(problem):
        from desim.cli.systems.own import OwnSystem

        return OwnSystem(problem)
    raise InvalidConfiguration(
        f"no problem {problem!r}; there are {', '.join(SYSTEMS)}, and MODULE:FUNCTION of your own"
    )


@lru_cache(maxsize=1)
def shared_instance(problem: str, options: Any) -> Instance:
    """Make what several runs in a row simulate.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.
    options : object
        The problem's own options.

    Returns
    -------
    Instance
        The same object as in the call before, if the arguments are the same.
    """
    return system_of(problem).instance(options)


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
        call, known = f"desim {type(command).__name__.lower()} PROBLEM", ", ".join(SYSTEMS)
        raise InvalidConfiguration(f"PROBLEM is missing, one of {known} or MODULE:FUNCTION; see {call} --help")
    return str(command.problem)


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
