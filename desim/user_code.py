"""Code of users by name: ``module:Name`` leads to an agent, or to a function that makes a problem.

Modules are looked for where Python looks for all modules and, last, in the current directory.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from desim.core import Agent
from desim.exceptions import DesimError, InvalidConfiguration

__all__ = ["is_reference", "is_there", "load", "load_agent", "load_problem_factory", "user_module"]

_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_REFERENCE = re.compile(f"{_DOTTED}:{_DOTTED}")


def is_reference(name: str) -> bool:
    """Tell whether a name may stand for an object of a module.

    Parameters
    ----------
    name : str
        Any name.

    Returns
    -------
    bool
        Whether it is written like ``module:Name``; nothing is imported.

    Examples
    --------
    >>> is_reference("my_agents:Shortest"), is_reference("fcfs")
    (True, False)
    """
    return _REFERENCE.fullmatch(name) is not None


def is_there(name: str) -> bool:
    """Tell whether a name leads to a module.

    Parameters
    ----------
    name : str
        Any name.

    Returns
    -------
    bool
        Whether it is written like ``module:Name``, and there is such a module or package; it is not imported.
    """
    _search_here()
    try:
        return is_reference(name) and importlib.util.find_spec(name.partition(":")[0].partition(".")[0]) is not None
    except ValueError:  # a module without a specification, such as __main__
        return False


def load(reference: str) -> Any:
    """Return an object of a module.

    Parameters
    ----------
    reference : str
        Such as ``"my_agents:Shortest"``.

    Returns
    -------
    object
        Whatever the module calls by this name.

    Raises
    ------
    InvalidConfiguration
        If there is no such module or no such name in it, or the module cannot be imported; the message says which.
    """
    found: Any = user_module(reference)
    for part in reference.partition(":")[2].split("."):
        if not hasattr(found, part):
            there = ", ".join(sorted(_public(found))) or "nothing public"
            raise InvalidConfiguration(f"{reference}: no {part!r} in {_place(found)}; there is {there}")
        found = getattr(found, part)
    return found


def user_module(reference: str) -> ModuleType:
    """Return the module of a reference.

    Parameters
    ----------
    reference : str
        Such as ``"my_agents:Shortest"``.

    Returns
    -------
    module
        Imported.

    Raises
    ------
    InvalidConfiguration
        If there is no such module, or it cannot be imported.
    """
    return _module(reference, reference.partition(":")[0])


def load_agent(reference: str) -> Agent:
    """Return a new agent.

    Parameters
    ----------
    reference : str
        Of a class or function that is called without arguments, or of an agent, of which a copy is taken.

    Returns
    -------
    Agent
        What has a method ``act``.

    Raises
    ------
    InvalidConfiguration
        If it has none, arguments are missing, or for what :func:`load` refuses.
    """
    found = load(reference)
    if not isinstance(found, type) and callable(getattr(found, "act", None)):
        agent: Agent = copy.deepcopy(found)  # what one run leaves in it must not reach the next
        return agent
    made = load_problem_factory(reference, found)()
    if not callable(getattr(made, "act", None)):
        raise InvalidConfiguration(f"{reference}: {type(made).__name__} has no method act(observation)")
    own: Agent = made
    return own


def load_problem_factory(reference: str, found: Any, *arguments: Any, **settings: Any) -> Callable[[], Any]:
    """Return an object as a function that is ready to be called.

    Parameters
    ----------
    reference : str
        What users call it.
    found : object
        What :func:`load` has found.
    *arguments, **settings
        What it is to be called with.

    Returns
    -------
    callable
        Takes nothing.

    Raises
    ------
    InvalidConfiguration
        If it cannot be called so; the message says which arguments it takes.
    """
    if not callable(found):
        raise InvalidConfiguration(f"{reference} is {found!r}, which can neither act nor be called")
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):  # some builtins have none
        return lambda: found(*arguments, **settings)
    try:
        signature.bind(*arguments, **settings)
    except TypeError as error:
        raise InvalidConfiguration(f"{reference}: {error}; it takes {signature}") from None
    return lambda: found(*arguments, **settings)


def _search_here() -> str:
    """Let modules be found in the current directory, and return it."""
    here, checkout = str(Path.cwd()), Path(__file__).parents[1]
    if here not in sys.path:
        # Behind all others, so that no file here takes the place of an installed module; but the folders of a checkout
        # of desim, such as agents/, are importable as desim.agents only.
        is_checkout = (checkout / "setup.cfg").exists() and str(checkout) in sys.path
        sys.path.insert(sys.path.index(str(checkout)) if is_checkout else len(sys.path), here)
    importlib.invalidate_caches()
    return here


def _module(reference: str, name: str) -> ModuleType:
    here = _search_here()
    try:
        return importlib.import_module(name)
    except DesimError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            message = f"{reference}: there is no module {error.name!r}, neither installed nor in {here}"
            raise InvalidConfiguration(message) from None
        raise InvalidConfiguration(_complaint(reference, name, error)) from error
    except (Exception, SystemExit) as error:
        raise InvalidConfiguration(_complaint(reference, name, error)) from error


def _complaint(reference: str, name: str, error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    ours = [frame for frame in frames if not frame.filename.startswith("<") and Path(frame.filename) != Path(__file__)]
    place = "" if isinstance(error, SyntaxError) or not ours else f" ({ours[-1].filename}, line {ours[-1].lineno})"
    return f"{reference}: module {name} cannot be imported: {type(error).__name__}: {error}{place}"


def _public(found: Any) -> Iterator[str]:
    """Yield the names that an object offers, but for modules and what comes from elsewhere."""
    for name, value in vars(found).items() if hasattr(found, "__dict__") else ():
        if not name.startswith("_") and not isinstance(value, ModuleType):
            home = getattr(value, "__module__", None)
            if home is None or not isinstance(found, ModuleType) or home == found.__name__:
                yield name


def _place(found: Any) -> str:
    if isinstance(found, ModuleType):
        return f"{found.__name__} ({getattr(found, '__file__', None) or 'no file'})"
    return str(getattr(found, "__qualname__", repr(found)))
