"""The pages of the documentation as texts, and what the reference documents, found without building it."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import Any, NamedTuple

from sphinx.pycode import ModuleAnalyzer

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.rst") if not {"_build", "auto_examples", "examples"} & set(path.parts))
EXAMPLES = sorted((DOCS / "examples").rglob("plot_*.py"))
PACKAGES = ("desim", "desim.agents", "desim.workloads")
#: Where the packages are, which need not be beside the tests.
FOLDERS = [Path(*importlib.import_module(package).__path__) for package in (*PACKAGES, "desim.experiments")]
SOURCES = sorted(path for folder in FOLDERS for path in folder.rglob("*.py"))

DIRECTIVE = re.compile(
    r"^\.\. (?:py:)?(?P<kind>auto\w+|currentmodule|data):: *(?P<name>\S+)\n(?P<body>(?:[ ]+.*\n)*)", re.M
)


def module_name(path: Path) -> str:
    """Return what the module of a source file is called."""
    folder = max((folder for folder in FOLDERS if path.is_relative_to(folder)), key=lambda folder: len(folder.parts))
    top = folder.parent if folder.name == "desim" else folder.parent.parent
    return ".".join(path.relative_to(top).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def thing_called(name: str) -> Any:
    """Return what a dotted name stands for; LookupError if there is none.

    A function that is called as the module that it comes from hides it, as ``desim.plotting.gantt`` does.
    """
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            break
        for part in parts[length:]:
            if part not in getattr(thing, "__annotations__", {}) and not hasattr(thing, part):
                break
            thing = getattr(thing, part, None)
        else:
            return thing
    raise LookupError(name)


def is_there(name: str) -> bool:
    try:
        thing_called(name)
    except LookupError:
        return False
    return True


class Shown(NamedTuple):
    """What the pages have directives for: objects by their full names, and modules that are shown with members."""

    names: list[str]
    modules: list[str]


@functools.cache
def documented() -> Shown:
    """Read all pages."""
    shown = Shown([], [])
    for page in PAGES:
        module = ""
        for found in DIRECTIVE.finditer(read(page)):
            kind, name, body = found.groups()
            if kind in ("currentmodule", "automodule"):
                module = name
            if kind == "automodule" and ":members:" in body:
                shown.modules.append(name)
                shown.names.extend(f"{name}.{member}" for member in members_shown(name, body))
            elif kind not in ("autosummary", "automodule", "currentmodule"):
                full = name.split(".")[0] == "desim"
                shown.names.append(name if full else f"{module}.{name}")
    return shown


def members_shown(module: str, options: str) -> list[str]:
    """Return what ``automodule`` shows of a module: what it is told to, or all that has a docstring."""
    listed = re.sub(r"(?s).*:members:([^\n]*).*", r"\1", options).replace(",", " ").split()
    names = getattr(importlib.import_module(module), "__all__", ())
    commented = ModuleAnalyzer.for_module(module).find_attr_docs()
    return listed or [
        name
        for name in names
        if inspect.isroutine(thing_called(f"{module}.{name}"))
        or inspect.isclass(thing_called(f"{module}.{name}"))
        or ("", name) in commented
    ]
