"""A digest of the source code that the outcome of a run depends on.

A run depends on the module that performs it and on the modules that this imports, directly or not. Of a package that
only passes names on, only the modules count from which the names come. Docstrings and comments are left out. So a
corrected sentence, or a new agent beside the others, does not make a week of runs worthless. Modules of other people,
such as NumPy, do not count; those of a project of your own do: whatever lies in the same directory as the module or
package that performs the runs, unless that is where packages are installed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["modules_behind", "source_digest"]

PACKAGES = ("desim",)
#: Parts that look at finished runs or hand them out, and so do not touch what a run records.
UNRELATED = (
    *(f"desim.{name}" for name in ("cli", "export", "parallel", "plotting", "validation")),
    *(f"desim.experiments.{name}" for name in ("files", "ledger", "progress", "runner", "source", "store")),
)
#: Only the modules of these count that are imported by name: a result finds them all, whichever it needs.
DISPATCHING = ("desim.metrics",)


@cache
def source_digest(module: str) -> str:
    """Return a digest of the code of a module and of all modules of the project that it needs.

    Parameters
    ----------
    module : str
        Its full name, such as ``"desim.experiments.ogasched.simulating"``.

    Returns
    -------
    str
        Hexadecimal; the same after a change of comments, docstrings or layout.
    """
    digest = hashlib.sha256()
    for name, path in modules_behind(module).items():
        digest.update(f"{name}\0{ast.dump(_without_docstrings(_tree(path)))}\0".encode())
    return digest.hexdigest()


def modules_behind(module: str) -> dict[str, Path]:
    """Return the modules of the project that a module needs, with itself.

    Parameters
    ----------
    module : str
        Its full name.

    Returns
    -------
    dict of str to Path
        Files by name, sorted; without the parts that only look at finished runs.
    """
    found: dict[str, Path] = {}
    home = _home(module.partition(".")[0])
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file_of(name, home)
        if path is not None and name not in found:
            found[name] = path
            waiting.extend(_imports(name, path, home))
    return dict(sorted(found.items()))


def _home(package: str) -> Path | None:
    """Return the directory of a project that is not this one; None if it is this one, or an installed package."""
    origin = None if package in PACKAGES else _origin_of(package)
    if origin is None or {"site-packages", "dist-packages"} & set(origin.parts):
        return None
    return origin.parent.parent if origin.name == "__init__.py" else origin.parent


@cache
def _origin_of(name: str) -> Path | None:
    """Return the file of a module."""
    try:
        spec = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):  # the name of a function or class, below that of a module
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def _imports(name: str, path: Path, home: Path | None) -> Iterator[str]:
    """Yield the modules that a module imports, be it inside of functions."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, name, path)
            yield from (_origin(base, alias.name, home) for alias in node.names)


def _origin(base: str, member: str, home: Path | None) -> str:
    """Return the module that ``from base import member`` leads to."""
    if _file_of(f"{base}.{member}", home) is not None:
        return f"{base}.{member}"
    path = _file_of(base, home)
    if path is not None and path.name == "__init__.py":
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ImportFrom):
                names = {alias.asname or alias.name: alias.name for alias in node.names}
                if member in names:
                    return _origin(_base(node, base, path), names[member], home)
    return base


def _base(node: ast.ImportFrom, name: str, path: Path) -> str:
    """Return the full name of what a statement in a module imports from."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    above = package[: len(package) - node.level + 1] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def _file_of(name: str, home: Path | None) -> Path | None:
    """Return the file of a module that counts; None for anything else."""
    package = name.partition(".")[0]
    unrelated = f"{name}.".startswith(tuple(f"{part}." for part in UNRELATED)) or name in DISPATCHING
    if unrelated or not (package in PACKAGES or _is_below(package, home)):
        return None
    return _origin_of(name)


def _is_below(package: str, home: Path | None) -> bool:
    origin = None if home is None else _origin_of(package)  # asking for a package does not import it
    return origin is not None and home is not None and origin.is_relative_to(home)


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_text(part)]  # type: ignore[attr-defined]
    return tree


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
