"""Copies of a tree, and texts in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.mutants.mutant import Mutant

__all__ = ["PACKAGES", "Place", "copied", "find", "replace", "sources", "test_paths"]

PACKAGES = ("desim", "agents", "workloads", "experiments")
_LEFT_OUT = (
    ".git",
    ".venv",
    "results",
    "build",
    "dist",
    "demo",
    "__pycache__",
    ".hypothesis",
    ".*_cache",
    "auto_examples",
)


class Place(NamedTuple):
    """Where a mutant goes, and as what.

    Attributes
    ----------
    path : Path
        The module.
    first : int
        Its line, from 0 on.
    original, replacement : str
        Which text there is replaced by which.
    """

    path: Path
    first: int
    original: str
    replacement: str


def copied(tree: Path, to: Path) -> Path:
    """Copy a tree without what git and tools keep in it; links stay links, and entry points are those of the tree."""
    shutil.copytree(tree, to, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    environment = os.environ | {"PYTHONPATH": str(to)}
    command = [sys.executable, "-c", "from setuptools import setup; setup()", "-q", "egg_info"]
    subprocess.run(command, cwd=to, env=environment, check=True, capture_output=True)
    return to


def sources(tree: Path) -> dict[Path, list[str]]:
    """Return the lines of all modules of the packages."""
    found = {}
    for package in PACKAGES:
        for directory, folders, names in os.walk(tree / package):  # does not follow desim/agents -> ../agents
            folders.sort()
            for name in sorted(names):
                if name.endswith(".py"):
                    path = Path(directory, name)
                    found[path] = path.read_text(encoding="utf-8").split("\n")
    return found


def find(mutant: Mutant, lines_of: dict[Path, list[str]]) -> Place | str:
    """Return where a mutant goes, or why it goes nowhere."""
    places = [
        Place(path, first, mutant.original, mutant.replacement)
        for path, lines in lines_of.items()
        for first in _places(mutant.original.split("\n"), lines)
    ]
    if len(places) == 1:
        return places[0]
    return f"found {len(places)} times" if places else "not found"


def _places(wanted: list[str], lines: list[str]) -> Iterator[int]:
    """Yield the lines at which a text begins; a single line may be part of one."""
    if len(wanted) == 1:
        for number, line in enumerate(lines):
            if wanted[0] in line:
                yield from [number] * line.count(wanted[0])
        return
    stripped = [line.strip() for line in lines]
    for number in range(len(lines) - len(wanted) + 1):
        if stripped[number : number + len(wanted)] == wanted:
            yield number


def replace(place: Place) -> str:
    """Put a mutant into its module, and return what was there before."""
    before = place.path.read_text(encoding="utf-8")
    lines = before.split("\n")
    originals, replacements = place.original.split("\n"), place.replacement.split("\n")
    if len(originals) == 1 and len(replacements) == 1:
        lines[place.first] = lines[place.first].replace(place.original, place.replacement)
    else:
        line = lines[place.first]
        indentation = line[: len(line) - len(line.lstrip())]
        lines[place.first : place.first + len(originals)] = [indentation + text for text in replacements]
    place.path.write_text("\n".join(lines), encoding="utf-8")
    return before


def test_paths(tree: Path, names: tuple[str, ...]) -> list[str]:
    """Return the paths of tests that there are, relative to the tree."""
    found = []
    for name in names:
        if name.endswith("/"):
            found += [f"tests/{name[:-1]}"] if (tree / "tests" / name).is_dir() else []
        else:
            found += [str(path.relative_to(tree)) for path in sorted((tree / "tests").rglob(f"{name}.py"))]
    return found
