"""Durable files, which are written completely or not at all, even after a power failure; removal of leftovers."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from desim.checks import short_repr
from desim.exceptions import DesimError, RecordError
from desim.notes import print_note

__all__ = [
    "HOST",
    "StorageError",
    "draft_of",
    "is_alive",
    "is_storage_error",
    "locked",
    "process_mark",
    "read_fields",
    "read_json",
    "read_plain",
    "remove_leftovers",
    "synchronize",
    "synchronize_all",
    "write_atomically",
    "write_durably",
]

Document = TypeVar("Document")

#: Name of this machine.
HOST = os.uname().nodename
LEFTOVER = re.compile(r"\.(?P<pid>\d+)@(?P<host>[^@]*)\.partial$")
#: Largest size in bytes of a JSON file that desim has written itself.
MOST_JSON = 256 * 2**20
#: System errors caused by the storage, not by the arguments.
STORAGE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


class StorageError(RecordError):
    """Outcomes cannot be written: the disk is full, read-only or missing; the message names the file and the reason.

    Attributes
    ----------
    is_full : bool
        Whether the storage itself is full or fails, which no other argument would change.
    """

    is_full = False

    @classmethod
    def of(cls, path: Path, error: BaseException) -> StorageError:
        """Return the error for a file that cannot be written."""
        found = cls(f"cannot write {path}: {getattr(error, 'strerror', None) or str(error).partition(chr(10))[0]}")
        found.is_full = is_storage_error(error)  # also known where the error was sent to, without its cause
        return found


def is_storage_error(error: BaseException | None) -> bool:
    """Return whether the storage has caused an error: a full disk, a quota or a failing device."""
    while error is not None:
        told = re.search(r"\(os error (\d+)\)", str(error)) if getattr(error, "errno", None) is None else None
        number = int(told[1]) if told else getattr(error, "errno", None)  # polars tells the number in words only
        if getattr(error, "is_full", False) or number in STORAGE_ERRORS:
            return True
        error = error.__cause__
    return False


def draft_of(path: Path) -> Path:
    """Return a path for this process to prepare a file or directory; other processes get other paths."""
    return path.with_name(f".{path.name}.{os.getpid()}@{HOST}.partial")


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` on a draft and move it into place, so that no incomplete file is ever visible.

    After the return, the file survives a power failure. A file inside a draft directory does so only once
    :func:`synchronize_all` has been called, which must happen before the directory is moved into place.

    Parameters
    ----------
    path : Path
        File to write or replace.
    write : callable
        Called with the path of the draft, in the same directory.

    Raises
    ------
    StorageError
        If the file cannot be written; the previous file is unchanged, and no draft remains.
    """
    draft = draft_of(path)
    try:
        try:
            _write(draft, path, write)
        except FileNotFoundError:  # removed as a leftover: process ids are not unique across machines of one name
            _write(draft, path, write)
    except BaseException as error:
        with suppress(OSError):  # in a read-only directory, the draft was never created
            draft.unlink(missing_ok=True)
        is_of_storage = isinstance(error, OSError) or type(error).__module__.startswith("polars")
        if isinstance(error, DesimError) or not is_of_storage:
            raise
        raise StorageError.of(path, error) from error


def _write(draft: Path, path: Path, write: Callable[[Path], object]) -> None:
    write(draft)
    if any(map(LEFTOVER.search, path.parts[:-1])):  # the directory is removed after a crash
        draft.replace(path)
        return
    synchronize(draft)  # before renaming, or a crash may leave an empty file under the name
    draft.replace(path)
    synchronize(path.parent)


def synchronize_all(directory: Path) -> None:
    """Wait until a draft directory and everything in it is on the disk; call this before it is moved into place."""
    places = [(Path(place), [Path(place, name) for name in names]) for place, _, names in os.walk(directory)]
    files = [path for _, paths in places for path in paths if stat.S_ISREG(path.lstat().st_mode)]
    with ThreadPoolExecutor(8) as pool:  # file systems write together what is asked for at the same time
        for _ in pool.map(synchronize, files):
            pass
    for place, _ in places:
        synchronize(place)


def synchronize(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk; some file systems do not offer this."""
    with suppress(PermissionError):
        file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
        try:
            os.fsync(file)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(file)


def write_durably(path: Path, text: str) -> None:
    """Write a text file as :func:`write_atomically` does; its directory is created if needed.

    Parameters
    ----------
    path : Path
        File to write or replace.
    text : str
        Content of the file.

    Raises
    ------
    StorageError
        If it cannot be written; the previous file is unchanged, and no incomplete file remains.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError.of(path, error) from error
    write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8"))


def read_plain(path: Path, most: int = MOST_JSON) -> bytes:
    """Return the content of a file that desim should have written itself, and that may have been changed since.

    Parameters
    ----------
    path : Path
        File to read.
    most : int
        Largest size in bytes.

    Returns
    -------
    bytes
        Content.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is not a plain file of this size.
    """
    found = path.stat()  # a pipe must not even be opened
    if not stat.S_ISREG(found.st_mode) or found.st_size > most:
        raise ValueError(f"expected a plain file of at most {most >> 20} MiB")
    try:
        return path.read_bytes()
    except OSError as error:
        if error.errno != errno.ESTALE:  # another machine has replaced the file on a network file system
            raise
        return path.read_bytes()


def read_json(path: Path) -> Any:
    """Return the content of a JSON file that desim should have written itself; errors are those of `read_plain`.

    Parameters
    ----------
    path : Path
        File to read.

    Returns
    -------
    object
        Plain values.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is not a plain file of a bearable size, or not JSON.
    """
    try:
        return json.loads(read_plain(path).decode("utf-8"))
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def read_fields(path: Path, kind: type[Document]) -> Document:
    """Return a JSON file that desim should have written itself, whose fields have the types that they should have.

    Parameters
    ----------
    path : Path
        File to read.
    kind : type
        TypedDict that names the fields which the caller uses. There may be others.

    Returns
    -------
    mapping
        All fields.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    RecordError
        If it cannot be read, is not JSON, or a field is missing or has another type; the message names it.
    """
    try:
        document = read_json(path)
        fault = _fault(document, kind, "content")
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        fault = str(error)
    if fault:
        raise RecordError(f"{path} cannot be read: {fault}")
    return cast(Document, document)


def _fault(value: Any, kind: Any, name: str) -> str:
    """Return the first fault of a value whose type a schema tells; empty if there is none."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        faults = [_fault(value, part, name) for part in parts]
        return "" if "" in faults else f"{name}: got {short_repr(value)}, expected {_words(kind)}"
    if kind is Any or (origin is Literal and value in parts):
        return ""
    if is_typeddict(kind) and isinstance(value, dict):
        return next(filter(None, (_fault_of_field(value, key, name, *field) for key, *field in _fields(kind))), "")
    plain: Any = dict if is_typeddict(kind) else () if origin is Literal else origin or kind
    allowed = (int, float) if kind is float else plain
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        return f"{name}: got {short_repr(value)}, expected {_words(kind)}"
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next(filter(None, (_fault(one, parts[-1], f"{name}[{key!r}]") for key, one in entries if parts)), "")


def _fields(kind: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield name and type of the fields of a TypedDict, and whether they must be there."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        needed = get_origin(hint) is not NotRequired  # which the class does not know of annotations as text
        yield name, hint if needed else get_args(hint)[0], needed


def _fault_of_field(value: dict[str, Any], key: str, name: str, kind: Any, needed: bool) -> str:
    if key not in value:
        return f"{name}: {key} is missing" if needed else ""
    return _fault(value[key], kind, f"{name}.{key}".removeprefix("content."))


def _words(kind: Any) -> str:
    """Return the name of a type that JSON has."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(map(_words, get_args(kind)))
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    return "null" if kind is NoneType else "an object" if is_typeddict(kind) else (get_origin(kind) or kind).__name__


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other processes from writing the same result, as long as the block runs or until this process ends.

    Parameters
    ----------
    directory : Path
        Directory to lock, which is created if needed. On a file system without locks, a note says that there is none;
        on a network file system, the lock holds for the processes of one machine. Drafts, whose names belong to one
        process, need none.

    Raises
    ------
    RecordError
        If another process holds the lock, or the directory cannot be created or has a name that is no text.
    """
    if "\0" in (name := str(directory)) or name != name.encode(errors="replace").decode():
        raise RecordError(f"{name!r}: expected a name in UTF-8 without null characters")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise StorageError.of(directory, error) from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told = "wait until it has ended, or choose another directory"
            raise RecordError(f"{directory} is being written by another run; {told}") from None
        except OSError as error:
            if not LEFTOVER.search(directory.name):
                _tell_unlocked(error.strerror)
        yield
    finally:
        os.close(file)


@cache
def _tell_unlocked(reason: str) -> None:
    """Print one note per reason, however many directories are written."""
    print_note(f"desim: results cannot be locked ({reason}): do not write one directory by two runs at the same time")


def remove_leftovers(directory: Path) -> None:
    """Remove incomplete files of processes of this machine that no longer exist; those of others are left alone.

    Parameters
    ----------
    directory : Path
        Directory to clean; it need not exist.
    """
    try:
        entries = [Path(entry.path) for entry in os.scandir(directory) if entry.name.endswith(".partial")]
    except OSError:
        return
    for path in entries:
        found = LEFTOVER.search(path.name)
        if found is None or found["host"] != HOST or is_alive(int(found["pid"])):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def is_alive(pid: int, mark: str | None = None) -> bool:
    """Return whether a process of this machine is alive.

    Parameters
    ----------
    pid : int
        Process id.
    mark : str, optional
        Mark that :func:`process_mark` returned, to exclude another process with the same id.

    Returns
    -------
    bool
        Whether it is alive; False also for a zombie process.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    current = process_mark(pid)
    return current != "ended" and (mark is None or current is None or current == mark)


def process_mark(pid: int) -> str | None:
    """Return a mark that distinguishes a process from a later one with the same id.

    Parameters
    ----------
    pid : int
        Process id.

    Returns
    -------
    str or None
        Start time in clock ticks since boot; ``"ended"`` for a zombie process; None if the system does not provide
        it.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "ended" if fields[0] in "ZX" else fields[19]
