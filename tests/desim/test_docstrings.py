"""Every public object says what it is, what it takes, what it returns: numpydoc's own checks."""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil

import pytest
from numpydoc.validate import validate

import desim

#: Not experiments: they are programs, whose public objects only they themselves use.
PROGRAMS = "desim.experiments"
COMPLETE = {"GL08", "PR01", "PR02", "PR03", "RT01"}
PRESENT = {"GL08", "PR02", "PR03"}


def public_objects() -> list[str]:
    """Return the dotted names of all functions and classes that a public module lists in ``__all__``."""
    names = {}
    modules = ["desim", *(info.name for info in pkgutil.walk_packages(desim.__path__, "desim."))]
    for module_name in modules:
        if module_name.startswith(PROGRAMS) or any(part.startswith("_") for part in module_name.split(".")):
            continue
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                names[f"{thing.__module__}.{thing.__qualname__}"] = None
    return [name for name in names if not any(part.startswith("_") for part in name.split("."))]


def public_methods(name: str) -> list[str]:
    module, _, class_name = name.rpartition(".")
    thing = getattr(importlib.import_module(module), class_name)
    if not inspect.isclass(thing):
        return []
    functions = {member: value for member, value in vars(thing).items() if inspect.isfunction(value)}
    own = [
        member for member, value in functions.items() if value.__module__ == module
    ]  # not what PyG adds when it runs
    return [f"{name}.{member}" for member in own if member[0] != "_"]


def complaints(name: str, checks: set[str]) -> list[str]:
    return [f"{name}: {code} {text}" for code, text in validate(name)["errors"] if code in checks]


@pytest.mark.parametrize("name", public_objects())
def test_docstrings_are_complete(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    thing = getattr(importlib.import_module(module), attribute)
    fields_are_attributes = inspect.isclass(thing) and (
        hasattr(thing, "_fields")
        or hasattr(thing, "__dataclass_fields__")
        or issubclass(thing, (BaseException, enum.Enum))
        or getattr(thing, "_is_protocol", False)
    )
    found = complaints(name, PRESENT if fields_are_attributes else COMPLETE)
    for method in public_methods(name):
        found += complaints(method, PRESENT)
    assert not found


def test_the_walk_finds_what_users_import() -> None:
    names = public_objects()
    assert "desim.core.simulate" in names
    assert "desim.workloads.lublin.generate" in names
    assert len(names) > 80
