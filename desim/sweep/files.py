"""Files that are there in whole or not at all, even after a power failure; and what dead processes have left."""

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
#: Seconds after which nobody can still be writing a file that takes milliseconds.
FORGOTTEN = 3_600.0
LEFTOVER = re.compile(r"\.(?P<pid>\d+)@(?P<host>[^@]*)\.partial$|\.partial$")


class StorageError(RecordError):
    """Outcomes cannot be written: the disk is full, read-only or gone; the message names the file and the reason."""


def draft_of(path: Path) -> Path:
    """Return where this process may prepare a file or directory: others may do the same at the same time."""
    return path.with_name(f".{path.name}.{os.getpid()}@{HOST}.partial")


def write_durably(path: Path, text: str) -> None:
    """Write a file, all or nothing; when this returns, it survives a power failure.

    Parameters
    ----------
    path : Path
        The file to write or replace; its directory is made if need be.
    text : str
        Its content.

    Raises
    ------
    StorageError
        If it cannot be written; what was there before is still there, and nothing else is left behind.
    """
    draft = draft_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write(draft, path, text)
        except FileNotFoundError:  # somebody has taken it for a leftover: process numbers are not unique everywhere
            _write(draft, path, text)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # in a read-only directory, what cannot be removed cannot have been made either
            draft.unlink(missing_ok=True)


def _write(draft: Path, path: Path, text: str) -> None:
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # before the name, else a crash may leave the name with nothing behind it
    draft.replace(path)


def remove_leftovers(directory: Path) -> None:
    """Remove what processes that are gone have left half written.

    Parameters
    ----------
    directory : Path
        Where; it need not exist.
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
    """Return whether a process of this machine is there.

    Parameters
    ----------
    pid : int
        Its number.
    mark : str, optional
        What :func:`process_mark` returned for it: another process with its number does not count.

    Returns
    -------
    bool
        False as well for one that has ended and not been waited for.
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
    """Return what tells a process from a later one with the same number.

    Parameters
    ----------
    pid : int
        Its number.

    Returns
    -------
    str or None
        When it was started, in ticks since the machine was; ``"ended"`` if it has ended and not been waited for; None
        if this system does not tell.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "ended" if fields[0] in "ZX" else fields[19]
