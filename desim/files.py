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
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

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
    "read_json",
    "remove_leftovers",
    "synchronize",
    "write_atomically",
    "write_durably",
]

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

    After the return, the file survives a power failure.

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
    synchronize(draft)  # before renaming, or a crash may leave an empty file under the name
    draft.replace(path)
    synchronize(path.parent)


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


def read_json(path: Path) -> Any:
    """Return the content of a JSON file that desim should have written itself, and that may have been changed since.

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
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_JSON:
            raise ValueError(f"expected a plain file of at most {MOST_JSON >> 20} MiB")
        try:
            return json.loads(file.read().decode("utf-8"))
        except RecursionError:
            raise ValueError("its values are nested too deeply") from None


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
        If another process holds the lock, or the directory cannot be created.
    """
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
    """Say once that a file system has no locks."""
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
