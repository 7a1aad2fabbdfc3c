"""Identity of Python objects: a digest of their state and of own code, the same in every process."""

from __future__ import annotations

import dis
import hashlib
import marshal
import os
import sys
import uuid
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from desim.sweep.digest import BY_NAME, DECLARED, PACKAGES, is_installed
from desim.sweep.recording import DYNAMIC

__all__ = ["Identity", "identity_of"]

PLAIN = (type(None), bool, int, float, complex, str, bytes)
EMPTY = (tuple, list, dict)
#: Names in the code of functions that read variables of the environment.
ENVIRONMENT = {"environ", "getenv"}
#: Members of classes that say nothing about what they do, or only what others say, too.
UNTOLD = {"__dict__", "__weakref__", "__doc__", "__dataclass_fields__", "__dataclass_params__", "__annotations__"}


class Identity(NamedTuple):
    """Identity of an object.

    Attributes
    ----------
    digest : str
        Digest of its state, and of code that no file of a module contains, in hexadecimal. Objects that cannot be
        described, such as open files, have a new one each time.
    modules : tuple of str
        Modules of its classes and functions.
    parts : tuple of (str, str)
        Names of values in modules and classes of a user's own that it uses, with their digests.
    """

    digest: str
    modules: tuple[str, ...]
    parts: tuple[tuple[str, str], ...] = ()

    def differing(self, other: Identity) -> tuple[str, ...]:
        """Return the names of the values that another identity has not, or has otherwise."""
        return tuple(sorted({name for name, _ in {*self.parts} ^ {*other.parts}}))


def identity_of(value: Any) -> Identity:
    """Return the identity of an object.

    Parameters
    ----------
    value : object
        Problem, agent, or function that creates one; its state is read as for pickling.

    Returns
    -------
    Identity
        Identity; equal for objects with equal state and code.

    Examples
    --------
    >>> identity_of({"load": 0.9}) == identity_of({"load": 0.9}), identity_of([1]) == identity_of([1.0])
    (True, False)
    """
    walk = _Walk()
    try:
        walk.visit(value)
        digest = walk.hash.hexdigest()
    except Exception:  # any kind, since objects decide what pickling them does
        digest = uuid.uuid4().hex
    mine = str(type(value).__module__)  # counts even if it is installed, as all that is of its package
    modules = sorted(name for name in walk.modules if name in (mine, DYNAMIC) or _counts(name))
    return Identity(digest, tuple(modules), tuple(walk.parts.items()))


class _Walk:
    """Visit of an object and of everything that it holds."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.modules: set[str] = set()
        self.parts: dict[str, str] = {}
        self.seen: dict[int, tuple[int, Any]] = {}

    def visit(self, value: Any) -> None:
        """Add a value to the digest."""
        if type(value) in PLAIN:
            self.hash.update(marshal.dumps(value, 2))
        elif isinstance(value, tuple):
            self.sequence(value)
        elif id(value) in self.seen:
            self.tell("again", self.seen[id(value)][0])
        else:
            self.seen[id(value)] = len(self.seen), value  # kept, or another object may get its id
            next((method for kinds, method in METHODS if isinstance(value, kinds)), _Walk.state)(self, value)

    def tell(self, *words: str | int | bytes | None) -> None:
        self.hash.update(marshal.dumps(words, 2))

    def sequence(self, value: list[Any] | tuple[Any, ...]) -> None:
        self.visit(type(value))
        if all(type(one) in PLAIN or (type(one) in EMPTY and not one) for one in value):  # fast
            self.hash.update(marshal.dumps(list(value), 2))
            return
        self.tell("sequence", len(value))
        for one in value:
            self.visit(one)

    def mapping(self, value: Mapping[Any, Any]) -> None:
        self.visit(type(value))
        self.sequence([part for pair in value.items() for part in pair])

    def unordered(self, value: set[Any] | frozenset[Any]) -> None:
        self.tell("set", *sorted(self.apart(one) for one in value))

    def apart(self, value: Any) -> str:
        """Return a digest of a value alone."""
        walk = _Walk()
        walk.modules, walk.parts, walk.seen = self.modules, self.parts, dict(self.seen)
        walk.visit(value)
        return walk.hash.hexdigest()

    def array(self, value: np.ndarray[Any, Any] | np.generic) -> None:
        self.tell("array", value.dtype.str, *value.shape)
        if value.dtype.hasobject:
            self.visit(value.tolist())
        else:
            self.hash.update(np.ascontiguousarray(value).tobytes())

    def state(self, value: Any) -> None:
        """Add any other object, by what pickling takes of it; what it has computed and kept does not count."""
        if hasattr(value, "py_func"):  # compiled by Numba
            self.visit(value.py_func)
        elif hasattr(value, "__content_digest__"):  # a workload, however its columns are encoded
            self.visit(type(value))
            self.tell(value.__content_digest__())
        elif hasattr(value, "detach") and hasattr(value, "numpy"):  # a tensor
            self.array(value.detach().cpu().numpy())
        else:
            reduced = value.__reduce_ex__(4)
            if isinstance(reduced, str):
                self.tell(type(value).__module__, reduced)
                return
            function, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
            if isinstance(state, dict):
                computed = _computed(value.__class__)
                state = {name: part for name, part in state.items() if name not in computed}
            for part in (function, arguments, state, items and list(items), pairs and list(pairs)):
                self.visit(part)

    def module(self, value: ModuleType) -> None:
        self.tell("module", value.__name__)
        self.modules.add(value.__name__)

    def type(self, value: type) -> None:
        self.named(value)
        if _is_own(value.__module__):
            self.sequence(value.__bases__)
            for name, part in sorted(vars(value).items()):
                if name not in UNTOLD and not name.startswith("_abc_"):
                    self.tell(name)
                    self.part(f"{value.__module__}.{value.__qualname__}.{name}", part, value.__module__)

    def function(self, value: FunctionType) -> None:
        self.named(value)
        is_own = _is_own(value.__module__)
        if is_own or "<" in value.__qualname__:
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            for part in (value.__defaults__, value.__kwdefaults__, cells):
                self.visit(part)
            self.code(value.__code__, value.__globals__ if is_own else {})

    def method(self, value: MethodType | BuiltinFunctionType) -> None:
        self.tell("method", value.__name__)
        self.visit(value.__self__)
        self.visit(getattr(value, "__func__", None))

    def wrapped(self, value: Any) -> None:
        """Add the functions of a property or another decorator of methods."""
        for name in ("fget", "fset", "fdel", "func", "__func__"):
            self.visit(getattr(value, name, None))

    def code(self, code: CodeType, values: Mapping[str, Any]) -> None:
        """Add code, with the values that it finds in its module."""
        self.tell(code.co_code, *code.co_names, *code.co_varnames, *code.co_freevars)
        base = ""
        for step in dis.get_instructions(code):
            if step.opname == "IMPORT_NAME":
                base = step.argval
                self.modules.add(base)
            elif step.opname == "IMPORT_FROM":
                self.modules.add(f"{base}.{step.argval}")
        if not BY_NAME.isdisjoint(code.co_names):
            self.modules.add(DYNAMIC)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self.code(constant, values)
            else:
                self.visit(constant)
                if isinstance(constant, str) and not ENVIRONMENT.isdisjoint(code.co_names):
                    self.tell(os.environ.get(constant))
        for name in (*code.co_names, DECLARED):
            if name in values:
                self.tell(name)
                module = values.get("__name__", "__main__")
                self.part(f"{module}.{name}", values[name], module)
        for name in values.get(DECLARED, ()):
            self.tell(os.environ.get(name))

    def part(self, name: str, value: Any, module: str) -> None:
        """Add a value of a module; one that cannot be described counts by the file of the module."""
        count = len(self.parts)
        try:
            digest = self.apart(value)
            self.tell(digest)
            if len(self.parts) == count:  # else what it uses tells more
                self.parts.setdefault(name, digest[:16])
        except Exception:
            if module == "__main__":
                raise
            self.visit(type(value))

    def named(self, value: Any) -> None:
        """Add the name of a class or function, and note its module."""
        self.tell(value.__module__, value.__qualname__)
        self.modules.add(str(value.__module__))


@cache
def _computed(kind: type) -> frozenset[str]:
    """Return the names of the attributes that a class computes once and keeps."""
    return frozenset(
        name for base in kind.__mro__ for name, part in vars(base).items() if isinstance(part, cached_property)
    )


METHODS: tuple[tuple[Any, Callable[[_Walk, Any], None]], ...] = (
    (type, _Walk.type),
    (list, _Walk.sequence),
    ((dict, MappingProxyType), _Walk.mapping),
    ((set, frozenset), _Walk.unordered),
    ((np.ndarray, np.generic), _Walk.array),
    (FunctionType, _Walk.function),
    ((MethodType, BuiltinFunctionType), _Walk.method),
    (np.ufunc, lambda walk, value: walk.tell("ufunc", value.__name__)),
    (ModuleType, _Walk.module),
    ((property, cached_property, staticmethod, classmethod), _Walk.wrapped),
)


def _counts(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES or _is_own(module)


def _is_own(module: str) -> bool:
    """Return whether the code of a module belongs to the user."""
    top = module.partition(".")[0]
    if top in PACKAGES or top in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return module == "__main__" or file is None or not is_installed(Path(file))
