"""What a run has used: own modules, files and environment variables, noted while it runs, checked before it is reused.

An audit hook hears of every file that Python opens. Libraries that read files without Python, such as Polars, are not
heard; code that uses them opens the file once, or its path is an option of the problem, which counts by its content.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

from desim.exceptions import InvalidConfiguration, RecordError
from desim.sweep.digest import (
    PACKAGES,
    State,
    file_digest,
    is_installed,
    own_modules,
    source_digest,
    traits_of,
)
from desim.user_code import LOADED

__all__ = ["DYNAMIC", "Recording", "change_of", "include", "recording"]

#: Directories of files that say nothing about a run, and endings of compiled code.
SYSTEM = ("/dev/", "/proc/", "/sys/")
COMPILED = (".nbc", ".nbi", ".so")
#: Name in the place of a module for code that may use any own module that is loaded.
DYNAMIC = "*"


@dataclass(eq=False)
class Recording:
    """Files that are opened and modules that are loaded by reference while a block runs.

    Attributes
    ----------
    files : dict of str to State or None
        States at the time when files were opened for reading, by full path; None for a file that was missing.
    written : set of str
        Paths of files that the block itself has written.
    modules : set of str
        Modules that user code was loaded from.
    """

    files: dict[str, State | None] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)

    def open(self, path: str, *, is_written: bool) -> None:
        """Note that a file is about to be opened."""
        if path.endswith(".pyc"):
            with suppress(ValueError):
                path = source_from_cache(path)
        if is_written:
            self.written.add(path)
        elif path not in self.written and not path.startswith(SYSTEM) and not path.endswith(COMPILED):
            self.files.setdefault(path, _state_of(path))

    def include(self, other: Recording) -> None:
        """Add what another recording has noted, for what was read once and is used again."""
        for path, state in other.files.items():
            self.files.setdefault(path, state)
        self.written |= other.written
        self.modules |= other.modules

    def used(self, modules: Iterable[str] = (), declared: Iterable[Path] = ()) -> dict[str, Any]:
        """Return everything that was used, as plain values.

        Parameters
        ----------
        modules : iterable of str
            Modules whose code was used, with what they import.
        declared : iterable of Path
            Files that identify the run by their content anyway, wherever they are.

        Returns
        -------
        dict
            ``modules``, ``code``, the digest of them and of what they import; ``files``, digests by path; and
            ``environment``, values of variables.

        Raises
        ------
        InvalidConfiguration
            If a file has changed since it was read.
        """
        read = {path: state for path, state in self.files.items() if not is_installed(Path(path))}
        own = {str(path): name for name, path in own_modules().items()} if any(map(_is_code, read)) else {}
        roots = {*modules, *self.modules, *(own[path] for path in read if path in own)} - {"__main__", DYNAMIC}
        is_dynamic, variables = traits_of(sorted(roots))
        if is_dynamic or DYNAMIC in modules:
            roots.update(own_modules())
            _, variables = traits_of(sorted(roots))
        known = {str(path.absolute()) for path in declared} | self.written | own.keys()
        if any(map(_is_code, read)):
            known |= {str(getattr(one, "__file__", "")) for name, one in [*sys.modules.items()] if _is_ours(name)}
        files = {path: _digest(path, state) for path, state in read.items() if path not in known}
        if not all(map(_is_ours, roots)) or DYNAMIC in modules:
            files = {path: text for path, text in _earlier.items() if path not in known} | files
            _earlier.update(files)  # own code may keep what it has read for the next run
        names = sorted(roots)
        return {
            "modules": names,
            "code": source_digest(*names),
            "files": dict(sorted(files.items())),
            "environment": {name: os.environ.get(name) for name in variables},
        }


def change_of(used: Mapping[str, Any]) -> str:
    """Return what has changed since a run used it; empty if nothing has.

    Parameters
    ----------
    used : mapping
        What the run has used, see :meth:`Recording.used`.

    Returns
    -------
    str
        Path of a file, name of an environment variable, or names of modules.

    Raises
    ------
    InvalidConfiguration
        If a module that this process has loaded differs from its file.
    """
    if source_digest(*used["modules"], as_in_files=True) != used["code"]:
        return ", ".join(used["modules"])
    for name, value in used["environment"].items():
        if os.environ.get(name) != value:
            return str(name)
    for path, digest in used["files"].items():
        if _digest(path, _state_of(path)) != digest:
            return str(path)
    return ""


@contextmanager
def recording() -> Iterator[Recording]:
    """Record what is used while the block runs."""
    found = Recording()
    _active.append(found)
    try:
        yield found
    finally:
        _active.remove(found)


def include(earlier: Recording) -> None:
    """Add what was recorded before to the recordings that are under way."""
    for one in _active:
        one.include(earlier)


#: Recordings under way, and digests of files that runs of own code have read in this process.
_active: list[Recording] = []
_earlier: dict[str, str | None] = {}


def _is_code(path: str) -> bool:
    return path.endswith(".py")


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def _state_of(path: str) -> State | None:
    """Return the state of a file; None if there is none, or something that is not a plain file."""
    try:
        return State.of(Path(path)) if stat.S_ISREG(os.stat(path).st_mode) else None  # noqa: PTH116 - for speed
    except (OSError, ValueError):
        return None


def _digest(path: str, state: State | None) -> str | None:
    """Return the digest of a file that had a state when it was read."""
    with suppress(RecordError):
        found = None if state is None else file_digest(Path(path))
        if _state_of(path) == state:
            return found
    raise InvalidConfiguration(
        f"{path} has changed since it was read, so code or files have changed since the run was requested, and nothing "
        "is stored; start again"
    )


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    """Note files that are opened or written, and modules that user code is loaded from."""
    if event == "open":
        if _active and isinstance(arguments[0], str | bytes | os.PathLike):
            path, flags = os.path.abspath(os.fsdecode(arguments[0])), arguments[2]  # noqa: PTH100 - for speed
            for one in _active:
                one.open(path, is_written=isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR)))
    elif event == "os.rename":
        for one in _active:
            one.written.add(os.path.abspath(os.fsdecode(arguments[1])))  # noqa: PTH100
    elif event == LOADED:
        for one in _active:
            one.modules.add(arguments[0])


sys.addaudithook(_hear)
