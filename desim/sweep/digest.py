"""Digests of everything that the outcome of a run depends on: files, weights, and source code.

A run depends on the module that performs it and on the modules that this imports, directly or indirectly. For a package
that only re-exports names, only the modules that define these names count. Docstrings and comments are ignored. So a
corrected sentence, or a new agent beside the others, does not invalidate a week of runs. Third-party modules, such as
NumPy, do not count. Modules of your project do: those in the same directory as the first module or package, unless
packages are installed there; for an installed package, its own modules.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from desim import plugins
from desim.exceptions import InvalidConfiguration, RecordError

__all__ = ["agent_digest", "file_digest", "modules_behind", "source_digest"]

PACKAGES = ("desim",)
#: Modules that read or report finished runs, and so do not affect the records of a run.
UNRELATED = (
    *(f"desim.{name}" for name in ("cli", "export", "plotting", "sweep", "validation")),
    *(
        f"desim.experiments.{name}"
        for name in ("claims", "drawing", "frame", "paper", "report", "report_blocks", "study", "tables")
    ),
)
#: Importing from a problem allows asking a result for its metrics, which are found by the name of the problem.
PROBLEM = re.compile(r"desim\.problems\.\w+")
#: A feature of a problem is a package whose modules are collected by the name of the feature.
FEATURE = re.compile(r"desim\.problems\.\w+\.parts\.\w+")


def file_digest(path: Path) -> str:
    """Return a digest of the content of a file.

    Parameters
    ----------
    path : Path
        Path of the file.

    Returns
    -------
    str
        Digest in hexadecimal.

    Raises
    ------
    RecordError
        If the file cannot be read.
    """
    try:
        return _kept(path, _file_digests, _digest_of_file)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error


def _digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _State(NamedTuple):
    """State of a file that changes with its content; of its three times, the last one cannot be set back."""

    number: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> _State:
        """Return the state of a file; raise OSError if there is none."""
        found = path.stat()
        return cls(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def is_settled(self) -> bool:
        """Whether the next change is certain to give another state, since file system clocks are coarse."""
        return self.changed < time.time_ns() - TICK


#: Upper bound of the clock resolution of file systems, in nanoseconds.
TICK = 100_000_000

_Made = TypeVar("_Made")
_file_digests: dict[Path, tuple[_State, str]] = {}


def _kept(path: Path, kept: dict[Path, tuple[_State, _Made]], make: Callable[[Path], _Made]) -> _Made:
    """Return a value computed from the content of a file, cached as long as the file does not change."""
    path = path.absolute()
    state = _State.of(path)
    if path in kept and kept[path][0] == state:
        return kept[path][1]
    made = make(path)
    if state.is_settled and _State.of(path) == state:
        kept[path] = state, made
    return made


def agent_digest(problem: str, agent: str) -> str | None:
    """Return a digest of everything that defines an agent beyond its name and the code of desim.

    Parameters
    ----------
    problem : str
        Name of the problem, such as ``"batch"``.
    agent : str
        Name of the agent.

    Returns
    -------
    str or None
        Digest in hexadecimal of the content of its files, such as weights with their model card, or a log; empty if
        there are none. None if it is unknown, because the agent may run code outside desim.

    Raises
    ------
    RecordError
        If a file cannot be read.
    """
    files = plugins.agent_files(problem, agent)
    if not files:
        return None if files is None else ""
    return hashlib.sha256("".join(map(file_digest, files)).encode()).hexdigest()


def source_digest(*modules: str) -> str:
    """Return a digest of the code of modules and of all modules of the project that they import.

    Parameters
    ----------
    *modules : str
        Full names of the modules, such as ``"desim.experiments.ogasched.simulate"``.

    Returns
    -------
    str
        Digest in hexadecimal; changes of comments, docstrings or layout do not affect it. For modules loaded by this
        process, it is that of the loaded code.

    Raises
    ------
    InvalidConfiguration
        If the file of a loaded module may have changed since, so that the loaded code is unknown.
    """
    key = (modules, PACKAGES, tuple(sys.path), os.getcwd())  # noqa: PTH109
    states, digest = _known.get(key, ({}, ""))
    if not states or any(_state(name, path) != state for (name, path), state in states.items()):
        files = modules_behind(*modules)
        states = {(name, path): _state(name, path) for name, path in files.items()}
        texts = (f"{name}\0{_read(name, path).digest}\0" for name, path in files.items())
        digest = hashlib.sha256("".join(texts).encode()).hexdigest()
        if all(state is not None and state.is_settled for state, _ in states.values()):
            _known[key] = (states, digest)
    return digest


#: Digests with the files that they depend on, cached because thousands of runs need the same.
_known: dict[tuple[Any, ...], tuple[dict[tuple[str, Path], tuple[_State | None, Any]], str]] = {}


def _state(name: str, path: Path) -> tuple[_State | None, Any]:
    """Return the state of a file, None if it no longer exists, and how its module was loaded, if it was."""
    try:
        return _State.of(path), _loading(name)
    except OSError:
        return None, None


def _loading(name: str) -> Any:
    """Return an object that is replaced when a module is loaded again; None if it is not loaded."""
    return getattr(sys.modules.get(name), "__spec__", None)


def modules_behind(*modules: str) -> dict[str, Path]:
    """Return the modules of the project that some modules import, including these.

    Parameters
    ----------
    *modules : str
        Full names of the modules.

    Returns
    -------
    dict of str to Path
        Files by module name, sorted; without the modules that only read finished runs.
    """
    found: dict[str, Path] = {}
    for module in modules:
        project = _Project(module.partition(".")[0])
        waiting = [module]
        while waiting:
            name = waiting.pop()
            path = project.file(name)
            if path is not None and name not in found:
                found[name] = path
                waiting.extend(project.imports(name, path))
    return dict(sorted(found.items()))


class _Import(NamedTuple):
    """Import statement ``from base import member``, or ``import member`` without base; ``level`` counts the dots."""

    base: str
    member: str
    alias: str
    level: int


class _Module(NamedTuple):
    """Relevant content of a module's source."""

    digest: str
    imports: tuple[_Import, ...]


_modules: dict[Path, tuple[_State, _Module]] = {}


#: Modules as they were loaded; their files may have changed since.
_loaded: dict[str, tuple[Any, Path, _Module]] = {}


def _read(name: str, path: Path) -> _Module:
    loading = _loading(name)
    if loading is None:
        return _kept(path, _modules, _parsed)
    kept = _loaded.get(name)
    if kept is not None and kept[0] is loading and kept[1] == path:
        return kept[2]
    found = _kept(path, _modules, _parsed)
    state = _State.of(path)
    if state.changed >= STARTED and _executed.get(str(path)) != state:
        raise InvalidConfiguration(
            f"{path} has changed since this process started, which has loaded module {name}: the version that runs is "
            "unknown, so nothing may be stored; start again in a new process"
        )
    _loaded[name] = loading, path, found
    return found


#: States of module files at the time their code was executed, for modules loaded after this one.
_executed: dict[str, _State] = {}


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    """Record the state of a file whose code is about to be executed as a module."""
    if event == "exec" and getattr(arguments[0], "co_name", "") == "<module>":
        with suppress(OSError, ValueError):
            _executed[arguments[0].co_filename] = _State.of(Path(arguments[0].co_filename))


sys.addaudithook(_note)


def _started() -> int:
    """Return the start time of this process in nanoseconds or, if unknown, a later time before the first digest."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        ago = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return time.time_ns()
    return time.time_ns() - int(ago * 1e9)


STARTED = _started()


def _parsed(path: Path) -> _Module:
    tree, imports = ast.parse(path.read_bytes()), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [_Import("", alias.name, alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            imports += [_Import(base, alias.name, alias.asname or alias.name, node.level) for alias in node.names]
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_text(part)]  # type: ignore[attr-defined]
    return _Module(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), tuple(imports))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


class _Project:
    """The project of a given package: decides which modules count."""

    def __init__(self, package: str) -> None:
        self.package = package
        place = None if package in PACKAGES else _place_of(package)
        self.home = None if place is None or _is_installed(place) else place.parent

    def file(self, name: str) -> Path | None:
        """Return the file of a module that counts; None for any other module."""
        package = name.partition(".")[0]
        if package in PACKAGES:
            counts = not f"{name}.".startswith(tuple(f"{part}." for part in UNRELATED))
        elif package == self.package:
            counts = True
        else:
            place = None if self.home is None else _place_of(package)  # finding a package does not import it
            counts = place is not None and place.is_relative_to(str(self.home)) and not _is_installed(place)
        return _origin_of(name) if counts else None

    def imports(self, name: str, path: Path) -> Iterator[str]:
        """Yield the modules that a module imports, also inside functions; for project modules, their packages, too."""
        if name.partition(".")[0] not in PACKAGES:
            yield from (name[:end] for end, letter in enumerate(name) if letter == ".")
        if problem := PROBLEM.match(name):
            yield f"{problem[0]}.metrics"
        if FEATURE.fullmatch(name) and path.name == "__init__.py":
            yield from (f"{name}.{module.stem}" for module in sorted(path.parent.glob("[!_]*.py")))
        for one in _read(name, path).imports:
            if one.base or one.level:
                yield self._source(_base(one, name, path), one.member)
            else:
                yield one.member

    def _source(self, base: str, member: str) -> str:
        """Return the module that ``from base import member`` refers to."""
        if self.file(f"{base}.{member}") is not None:
            return f"{base}.{member}"
        path = self.file(base)
        if path is not None and path.name == "__init__.py":
            for one in _read(base, path).imports:
                if one.alias == member and (one.base or one.level):
                    return self._source(_base(one, base, path), one.member)
        return base


def _base(one: _Import, name: str, path: Path) -> str:
    """Return the full name of the module that an import statement imports from."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    above = package[: len(package) - one.level + 1] if one.level else []
    return ".".join([*above, *([one.base] if one.base else [])])


def _origin_of(name: str) -> Path | None:
    """Return the file of a module."""
    return _found(name, tuple(sys.path), os.getcwd())[0]  # noqa: PTH109


def _place_of(package: str) -> Path | None:
    """Return the file of a module, or the directory of a package."""
    return _found(package, tuple(sys.path), os.getcwd())[1]  # noqa: PTH109


@cache
def _found(name: str, path: tuple[str, ...], here: str) -> tuple[Path | None, Path | None]:
    """Return the file of a module, and the directory of a package or else that file, without importing anything."""
    top, *below = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # __main__
        spec = None
    if spec is None:
        return None, None
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    if not below:
        file = Path(spec.origin) if spec.has_location and spec.origin is not None else None
        return file, folders[0] if folders else file
    for place in (folder.joinpath(*below) for folder in folders):
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if file.is_file():
                return file, place if file.parent == place else file
    return None, None


def _is_installed(place: Path) -> bool:
    return bool({"site-packages", "dist-packages"} & set(place.parts))
