"""Digests of files and of source code.

Code depends on its module and on the modules that this imports, directly or indirectly. For a package that only
re-exports names, only the modules that define these names count. Docstrings and comments are ignored. So a corrected
sentence, or a new agent beside the others, does not invalidate a week of runs. Installed modules, such as NumPy, do not
count, except those of a package that is asked about.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from desim.exceptions import InvalidConfiguration, RecordError
from desim.executed import executed, importing

__all__ = [
    "State",
    "file_digest",
    "is_installed",
    "modules_behind",
    "one_moment",
    "own_modules",
    "source_digest",
    "traits_of",
]

PACKAGES = ("desim",)
#: Modules that read or report finished runs, and so do not affect the records of a run.
UNRELATED = (
    *(
        f"desim.{name}"
        for name in ("cli", "comparing", "export", "formatting", "plotting", "provenance", "sweep", "validation")
    ),
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


class State(NamedTuple):
    """State of a file that changes with its content; of its three times, the last one cannot be set back."""

    number: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> State:
        """Return the state of a file; raise OSError if there is none."""
        return cls.at(path.stat())

    @classmethod
    def at(cls, found: os.stat_result) -> State:
        """Return the state that a call of ``stat`` has found."""
        return cls(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def is_settled(self) -> bool:
        """Whether the next change is certain to give another state, since file system clocks are coarse."""
        return self.changed < time.time_ns() - TICK


#: Upper bound of the clock resolution of file systems, in nanoseconds.
TICK = 100_000_000

_Made = TypeVar("_Made")
_file_digests: dict[Path, tuple[State, str]] = {}


def _kept(path: Path, kept: dict[Path, tuple[State, _Made]], make: Callable[[Path], _Made]) -> _Made:
    """Return a value computed from the content of a file, cached as long as the file does not change."""
    path = path.absolute()
    state = State.of(path)
    if path in kept and kept[path][0] == state:
        return kept[path][1]
    made = make(path)
    if state.is_settled and State.of(path) == state:
        kept[path] = state, made
    return made


def source_digest(*modules: str, as_in_files: bool = False) -> str:
    """Return a digest of the code of modules and of all modules of the project that they import.

    Parameters
    ----------
    *modules : str
        Full names of the modules, such as ``"desim.experiments.ogasched.simulate"``.
    as_in_files : bool
        Whether to raise if a module that this process has loaded differs from its file.

    Returns
    -------
    str
        Digest in hexadecimal; changes of comments, docstrings or layout do not affect it. For modules loaded by this
        process, it is that of the loaded code.

    Raises
    ------
    InvalidConfiguration
        If the file of a loaded module has changed since, so that the loaded code is unknown or another.
    """
    return _code(modules, as_in_files=as_in_files).digest


class _Code(NamedTuple):
    """Code of modules with all that they import."""

    digest: str
    is_dynamic: bool
    variables: tuple[str, ...]


def _code(modules: tuple[str, ...], *, as_in_files: bool = False) -> _Code:
    key = (modules, as_in_files, PACKAGES, tuple(sys.path), os.getcwd())  # noqa: PTH109
    states, code = _known.get(key, ({}, None))
    if code is None or (
        (_checked is None or key not in _checked)
        and any(_state(name, path) != state for (name, path), state in states.items())
    ):
        files = modules_behind(*modules)
        states = {(name, path): _state(name, path) for name, path in files.items()}
        found = {name: _read(name, path) for name, path in files.items()}
        for name, path in files.items() if as_in_files else ():
            if _kept(path, _modules, _parsed) != found[name]:
                raise InvalidConfiguration(f"{path} has changed since module {name} was loaded; {AGAIN}")
        texts = "".join(f"{name}\0{one.digest}\0" for name, one in found.items())
        own = [one for name, one in found.items() if not _is_ours(name)]
        variables = tuple(sorted({name for one in own for name in one.environment}))
        code = _Code(hashlib.sha256(texts.encode()).hexdigest(), any(one.is_dynamic for one in own), variables)
        if all(state is not None and state.is_settled for state, _ in states.values()):
            _known[key] = (states, code)
    if _checked is not None and _known.get(key, ({}, None))[1] == code:  # not that of a file that was just written
        _checked.add(key)
    return code


@contextmanager
def one_moment() -> Iterator[None]:
    """Check the files of modules once while the block runs, not for each of thousands of runs that are looked up."""
    global _checked  # noqa: PLW0603
    _checked = set()
    try:
        yield
    finally:
        _checked = None


#: Keys of digests that were checked in the present moment; None if each use is to check.
_checked: set[Any] | None = None


AGAIN = "reload it, or start again in a new process"

#: Digests with the files that they depend on, cached because thousands of runs need the same.
_known: dict[tuple[Any, ...], tuple[dict[tuple[str, Path], tuple[State | None, Any]], _Code]] = {}


def _state(name: str, path: Path) -> tuple[State | None, Any]:
    """Return the state of a file, None if it no longer exists, and how its module was loaded, if it was."""
    try:
        return State.of(path), _loading(name)
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
    waiting = [(module, module.partition(".")[0]) for module in modules]
    while waiting:
        name, package = waiting.pop()
        path = _file(name, package)
        if path is not None and name not in found:
            found[name] = path
            waiting.extend((one, package) for one in _imports(name, path, package))
    return dict(sorted(found.items()))


def traits_of(modules: Iterable[str]) -> tuple[bool, tuple[str, ...]]:
    """Return whether own modules may import others that cannot be found, and the environment variables they name.

    Parameters
    ----------
    modules : iterable of str
        Modules with all that they import.

    Returns
    -------
    tuple of bool and tuple of str
        Whether one of them imports by name, or executes text; and names of variables.
    """
    code = _code(tuple(modules))
    return code.is_dynamic, code.variables


def own_modules() -> dict[str, Path]:
    """Return the files of all loaded modules that are neither installed nor part of desim, by name."""
    found = {}
    for name, module in list(sys.modules.items()):
        place = getattr(module, "__file__", None)
        if place and not _is_ours(name) and (path := _file(name, "")) is not None and path == Path(place):
            found[name] = path
    return found


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


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
    is_dynamic: bool
    environment: tuple[str, ...]


_modules: dict[Path, tuple[State, _Module]] = {}


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
    state = State.of(path)
    if state.changed >= STARTED and not _is_as_executed(path, state):
        raise InvalidConfiguration(
            f"{path} has changed since this process started, which has loaded module {name}: the version that runs is "
            f"unknown, so nothing may be stored; {AGAIN}"
        )
    _loaded[name] = loading, path, found
    return found


def _is_as_executed(path: Path, state: State) -> bool:
    """Return whether a file in a state is the one whose code was executed when its module was loaded."""
    name = str(path)
    if name in executed:
        return State.at(executed[name]) == state
    return name in importing and compile(path.read_bytes(), name, "exec", dont_inherit=True) == importing[name]


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
    tree, imports, names, variables = ast.parse(path.read_bytes()), [], set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [_Import("", alias.name, alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            imports += [_Import(base, alias.name, alias.asname or alias.name, node.level) for alias in node.names]
        elif isinstance(node, ast.Name | ast.Attribute):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.Assign) and any(getattr(one, "id", "") == DECLARED for one in node.targets):
            variables |= _texts(node.value)
        elif isinstance(node, ast.Subscript | ast.Call) and _is_environment(node):
            variables |= _texts(node.slice if isinstance(node, ast.Subscript) else node.args[0])
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_text(part)]  # type: ignore[attr-defined]
    content = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
    return _Module(content, tuple(imports), not BY_NAME.isdisjoint(names), tuple(sorted(variables)))


#: Names in code that may import modules which no import statement names.
BY_NAME = frozenset({"__import__", "import_module", "module_from_spec", "run_module", "run_path", "exec", "eval"})
#: Name in a module for a tuple of the environment variables that its results depend on.
DECLARED = "ENVIRONMENT_VARIABLES"


def _is_environment(node: ast.Subscript | ast.Call) -> bool:
    """Return whether an expression reads a variable: os.environ[...], os.environ.get(...) or os.getenv(...)."""
    if isinstance(node, ast.Subscript):
        return "environ" in (getattr(node.value, "attr", ""), getattr(node.value, "id", ""))
    if not node.args:
        return False
    owner = getattr(node.func, "value", None)
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name == "getenv" or (name == "get" and "environ" in (getattr(owner, "attr", ""), getattr(owner, "id", "")))


def _texts(node: ast.AST) -> set[str]:
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _file(name: str, package: str) -> Path | None:
    """Return the file of a module that counts, besides those of a package; None for any other module."""
    top = name.partition(".")[0]
    if top in PACKAGES:
        return None if f"{name}.".startswith(tuple(f"{part}." for part in UNRELATED)) else _origin_of(name)
    if top in sys.stdlib_module_names:
        return None
    path = _origin_of(name)
    return path if top == package or (path is not None and not is_installed(path)) else None


def _imports(name: str, path: Path, package: str) -> Iterator[str]:
    """Yield the modules that a module imports, also inside functions; for project modules, their packages, too."""
    if not _is_ours(name):
        yield from (name[:end] for end, letter in enumerate(name) if letter == ".")
    if problem := PROBLEM.match(name):
        yield f"{problem[0]}.metrics"
    if FEATURE.fullmatch(name) and path.name == "__init__.py":
        yield from (f"{name}.{module.stem}" for module in sorted(path.parent.glob("[!_]*.py")))
    for one in _read(name, path).imports:
        if one.base or one.level:
            yield _source(_base(one, name, path), one.member, package)
        else:
            yield one.member


def _source(base: str, member: str, package: str) -> str:
    """Return the module that ``from base import member`` refers to."""
    path = _file(base, package)
    if path is not None and path.name == "__init__.py":
        if _file(f"{base}.{member}", package) is not None:
            return f"{base}.{member}"
        for one in _read(base, path).imports:
            if one.alias == member and (one.base or one.level) and (above := _base(one, base, path)) != base:
                return _source(above, one.member, package)
    return base


def _base(one: _Import, name: str, path: Path) -> str:
    """Return the full name of the module that an import statement imports from."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    above = package[: len(package) - one.level + 1] if one.level else []
    return ".".join([*above, *([one.base] if one.base else [])])


def _origin_of(name: str) -> Path | None:
    """Return the file of a module as a new process would find it, without importing anything."""
    top, *below = name.split(".")
    key = top, tuple(sys.path), os.getcwd()  # noqa: PTH109
    spec = _specs.get(key)
    if spec is None:
        finders = (finder for finder in sys.meta_path if hasattr(finder, "find_spec"))
        try:
            spec = next((spec for finder in finders if (spec := finder.find_spec(top, None)) is not None), None)
        except ImportError:  # a finder refuses the module
            spec = None
        if spec is None:
            return None
        _specs[key] = spec
    if not below:
        return Path(spec.origin) if spec.has_location and spec.origin is not None else None
    for place in (Path(folder).joinpath(*below) for folder in spec.submodule_search_locations or ()):
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if file.is_file():
                return file
    return None


#: Where packages and modules were found; what is not found may appear later.
_specs: dict[tuple[Any, ...], ModuleSpec] = {}


def is_installed(path: Path) -> bool:
    """Return whether a file belongs to Python or to an installed package."""
    return bool({"site-packages", "dist-packages"} & set(path.parts)) or str(path).startswith(PLACES)


#: Directories of Python's own files.
PLACES = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib"))
