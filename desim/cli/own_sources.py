"""The source files of modules of the user's own, and a digest of them."""

from __future__ import annotations

import ast
import hashlib
import site
import sys
import sysconfig
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType

from desim.exceptions import InvalidConfiguration
from desim.own_code import own_module

__all__ = ["source_digest", "source_files"]


def source_files(reference: str, *, without: Collection[str] = ()) -> list[Path]:
    """Return the files of which a module's code is made, as far as the text of the code tells.

    Parameters
    ----------
    reference : str
        Such as ``"my_agents:Shortest"``.
    without : collection of str
        Packages that do not count.

    Returns
    -------
    list of Path
        Those of the module, or of its whole package, and of the modules and packages beside it that these import.
        Of an installed one, its own.

    Raises
    ------
    InvalidConfiguration
        If there is no such module or it cannot be imported.
    """
    own_module(reference)
    top = reference.partition(":")[0].partition(".")[0]
    directory = _directory(sys.modules[top])
    if directory is None:
        return []
    is_installed = any(directory.is_relative_to(place) for place in _installed())
    found: dict[str, list[Path]] = {}
    waiting = [top]
    while waiting:
        following = waiting.pop()
        if following in found or following in without:
            continue
        found[following] = _files(directory, following)
        if not is_installed:
            waiting += [other for file in found[following] for other in _imported(file)]
    return sorted({file for files in found.values() for file in files})


def source_digest(reference: str, *, without: Collection[str] = ()) -> str:
    """Return a digest of the code of a module: of the content of its :func:`source_files`.

    Parameters
    ----------
    reference : str
        Such as ``"my_agents:Shortest"``.
    without : collection of str
        Packages that do not count.

    Returns
    -------
    str
        Hexadecimal.

    Raises
    ------
    InvalidConfiguration
        If there is no such module, or a file of it cannot be read.
    """
    digest = hashlib.sha256()
    for file in source_files(reference, without=without):
        try:
            digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
        except OSError as error:
            raise InvalidConfiguration(f"{reference}: {file} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _directory(module: ModuleType) -> Path | None:
    """Return where a module or package lies."""
    if getattr(module, "__file__", None) is None:
        places = list(getattr(module, "__path__", []))
        return Path(places[0]).resolve().parent if places else None
    file = Path(str(module.__file__)).resolve()
    return file.parent.parent if hasattr(module, "__path__") else file.parent


def _installed() -> list[Path]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return [Path(path).resolve() for path in [*paths, site.getusersitepackages()] if path]


def _files(directory: Path, name: str) -> list[Path]:
    package, file = directory / name, directory / f"{name}.py"
    if (package / "__init__.py").is_file() or (package.is_dir() and not file.is_file()):  # which Python imports, too
        return sorted(package.rglob("*.py"))
    return [file] if file.is_file() else []


def _imported(file: Path) -> Iterator[str]:
    """Yield the first part of the names of all modules that a file imports."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
