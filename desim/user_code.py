"""User code by reference: ``module:Name`` of an agent, or of a function that creates a problem.

Modules are searched for in Python's import path and, last, in the current directory.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from desim.core import Agent
from desim.exceptions import DesimError, InvalidConfiguration

__all__ = [
    "LOADED",
    "is_reference",
    "load",
    "load_agent",
    "load_problem_factory",
    "named_by",
    "place_of",
    "user_module",
]

_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
#: Audit event that tells which module is loaded by reference.
LOADED = "desim.user_code"
#: File that names the references which are loaded.
_FILE = ContextVar("file", default="")
_REFERENCE = re.compile(f"{_DOTTED}:{_DOTTED}")


def is_reference(name: str) -> bool:
    """Return whether a name has the form of a reference to an object in a module.

    Parameters
    ----------
    name : str
        Any name.

    Returns
    -------
    bool
        Whether the name has the form ``module:Name``; nothing is imported.

    Examples
    --------
    >>> is_reference("my_agents:Shortest"), is_reference("fcfs")
    (True, False)
    """
    return _REFERENCE.fullmatch(name) is not None


@contextmanager
def named_by(file: str) -> Iterator[None]:
    """Import nothing that is not trusted, while references come from a file.

    A file alone imports nothing: modules must be imported already, or be in the environment variable ``DESIM_TRUST``, a
    list of modules separated by commas.

    Parameters
    ----------
    file : str
        Name of the file, for messages.
    """
    token = _FILE.set(file)
    try:
        yield
    finally:
        _FILE.reset(token)


def load(reference: str) -> Any:
    """Return the object that a reference names.

    Parameters
    ----------
    reference : str
        Reference such as ``"my_agents:Shortest"``.

    Returns
    -------
    object
        The object with this name in the module.

    Raises
    ------
    InvalidConfiguration
        If the module or the name in it does not exist, or the module cannot be imported; the message says which. Also
        if a file names a module that is not trusted, see :func:`named_by`.
    """
    module, file = reference.partition(":")[0], _FILE.get()
    if file and module not in sys.modules and module not in os.environ.get("DESIM_TRUST", "").split(","):
        raise InvalidConfiguration(
            f"{file} names {reference}, and a file alone does not import code; if you trust it, import {module} "
            f"before, or set DESIM_TRUST={module}"
        )
    found: Any = user_module(reference)
    for part in reference.partition(":")[2].split("."):
        if not hasattr(found, part):
            there = ", ".join(sorted(_public(found))) or "nothing public"
            raise InvalidConfiguration(f"{reference}: no {part!r} in {_place(found)}; there is {there}")
        found = getattr(found, part)
    return found


def user_module(reference: str) -> ModuleType:
    """Return the module that a reference names.

    Parameters
    ----------
    reference : str
        Reference such as ``"my_agents:Shortest"``.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    InvalidConfiguration
        If the module does not exist or cannot be imported.
    """
    return _module(reference, reference.partition(":")[0])


def load_agent(reference: str) -> Agent:
    """Return a new agent by reference.

    Parameters
    ----------
    reference : str
        Reference to a class or function without required arguments, or to an agent, which is copied.

    Returns
    -------
    Agent
        Object with a method ``act``.

    Raises
    ------
    InvalidConfiguration
        If the object has no method ``act``, arguments are missing, or :func:`load` raises.
    """
    found = load(reference)
    if not isinstance(found, type) and callable(getattr(found, "act", None)):
        agent: Agent = copy.deepcopy(found)  # so that state of one run does not reach the next
        return agent
    make = load_problem_factory(reference, found)
    try:
        made = make()
    except DesimError:
        raise
    except (Exception, SystemExit) as error:
        told = f"{type(error).__name__}: {error}{place_of(error)}"
        raise InvalidConfiguration(f"{reference} cannot be created: {told}") from error
    if not callable(getattr(made, "act", None)):
        raise InvalidConfiguration(f"{reference}: {type(made).__name__} has no method act(observation)")
    own: Agent = made
    return own


def load_problem_factory(reference: str, found: Any, *arguments: Any, **settings: Any) -> Callable[[], Any]:
    """Return an object as a function without arguments that is ready to be called.

    Parameters
    ----------
    reference : str
        Reference as the user gave it.
    found : object
        Object that :func:`load` returned.
    *arguments, **settings
        Arguments of the later call.

    Returns
    -------
    callable
        Function without arguments.

    Raises
    ------
    InvalidConfiguration
        If it cannot be called with these arguments; the message says which arguments it takes.
    """
    if not callable(found):
        raise InvalidConfiguration(f"{reference}: got {found!r}, expected an agent, a class or a function")
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):  # some builtins have no signature
        return lambda: found(*arguments, **settings)
    try:
        signature.bind(*arguments, **settings)
    except TypeError as error:
        raise InvalidConfiguration(f"{reference}: {error}; it takes {signature}") from None
    return lambda: found(*arguments, **settings)


def _search_here() -> str:
    """Append the current directory to the import path, and return it."""
    here, checkout = str(Path.cwd()), Path(__file__).parents[1]
    if here not in sys.path:
        sys.path.append(here)  # last, so that no local file shadows an installed module
    # The folders of a checkout of desim, such as agents/, are importable only as desim.agents.
    if (checkout / "setup.cfg").exists() and Path(here) != checkout:
        _Here.names = {one.stem for one in checkout.iterdir()} - {"desim"}
        if _Here not in sys.meta_path:
            sys.meta_path.insert(0, _Here)
    importlib.invalidate_caches()
    return here


class _Here:
    """Finder of modules in the current directory that are called like a folder of the checkout."""

    names: ClassVar[set[str]] = set()

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the module in the current directory; None for any other name."""
        return PathFinder.find_spec(name, [str(Path.cwd())]) if path is None and name in cls.names else None


def _module(reference: str, name: str) -> ModuleType:
    if name.partition(".")[0] in sys.stdlib_module_names:
        raise InvalidConfiguration(f"{reference}: {name} is a module of Python itself, expected one of yours")
    here = _search_here()
    sys.audit(LOADED, name)
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
    place = "" if isinstance(error, SyntaxError) else place_of(error)
    return f"{reference}: module {name} cannot be imported: {type(error).__name__}: {error}{place}"


def place_of(error: BaseException) -> str:
    """Return the file and line that an error comes from, in brackets; empty if no file is known."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    ours = [frame for frame in frames if not frame.filename.startswith("<") and Path(frame.filename) != Path(__file__)]
    return f" ({ours[-1].filename}, line {ours[-1].lineno})" if ours else ""


def _public(found: Any) -> Iterator[str]:
    """Yield the public names that an object defines, except modules and imported objects."""
    for name, value in vars(found).items() if hasattr(found, "__dict__") else ():
        if not name.startswith("_") and not isinstance(value, ModuleType):
            home = getattr(value, "__module__", None)
            if home is None or not isinstance(found, ModuleType) or home == found.__name__:
                yield name


def _place(found: Any) -> str:
    if isinstance(found, ModuleType):
        return f"{found.__name__} ({getattr(found, '__file__', None) or 'no file'})"
    return str(getattr(found, "__qualname__", repr(found)))
