"""Durable files, which are written completely or not at all, even after a power failure; removal of leftovers."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from desim.exceptions import RecordError

__all__ = ["HOST", "StorageError", "draft_of", "is_alive", "process_mark", "remove_leftovers", "write_durably"]

#: Name of this machine.
HOST = os.uname().nodename
#: Age in seconds after which an incomplete file is a leftover; writing one takes milliseconds.
FORGOTTEN = 3_600.0
LEFTOVER = re.compile(r"\.(?P<pid>\d+)@(?P<host>[^@]*)\.partial$|\.partial$")


class StorageError(RecordError):
    """Outcomes cannot be written: the disk is full, read-only or missing; the message names the file and the reason."""


def draft_of(path: Path) -> Path:
    """Return a path for this process to prepare a file or directory; other processes get other paths."""
    return path.with_name(f".{path.name}.{os.getpid()}@{HOST}.partial")


def write_durably(path: Path, text: str) -> None:
    """Write a file completely or not at all; after the return, it survives a power failure.

    Parameters
    ----------
    path : Path
        File to write or replace; its directory is created if needed.
    text : str
        Content of the file.

    Raises
    ------
    StorageError
        If it cannot be written; the previous file is unchanged, and no incomplete file remains.
    """
    draft = draft_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write(draft, path, text)
        except (
            FileNotFoundError
        ):  # another process removed it as a leftover: process ids are not unique across machines
            _write(draft, path, text)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # in a read-only directory, the draft was never created
            draft.unlink(missing_ok=True)


def _write(draft: Path, path: Path, text: str) -> None:
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # before renaming, or a crash may leave an empty file under the name
    draft.replace(path)


def remove_leftovers(directory: Path) -> None:
    """Remove incomplete files of processes that no longer exist.

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
        assert found is not None
        is_left = found["host"] == HOST and not is_alive(int(found["pid"]))
        if is_left and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif is_left or (_age(path) > FORGOTTEN and not path.is_dir()):  # records may take hours
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


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
