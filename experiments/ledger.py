"""What a sweep is going to do, written down before it begins, so that others can tell how far it has come."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from desim.cli.output import remark
from desim.experiments.files import HOST, StorageError, is_alive, process_mark, write_durably

__all__ = ["LEDGER", "Entry", "SweepStatus", "entered", "is_busy", "sweeps_of"]

#: Directory of the ledger in a store.
LEDGER = "sweeps"


@dataclass(frozen=True)
class SweepStatus:
    """How far a sweep has come.

    Attributes
    ----------
    title : str
        Its name.
    wanted : int
        Its runs.
    stored : int
        How many of them are stored.
    failed : int
        How many have failed and are not stored.
    started : str
        When it was begun for the last time, in local time.
    running : bool
        Whether it is still going on. Of a sweep on another machine: whether it has not come to an end.
    """

    title: str
    wanted: int
    stored: int
    failed: int
    started: str
    running: bool


class Entry:
    """What a sweep has written into the ledger of its store.

    Parameters
    ----------
    directory : Path
        Of the store.
    title : str
        Name of the sweep.
    names : sequence of str
        Files of its runs, without directory.
    """

    def __init__(self, directory: Path, title: str, names: Sequence[str]) -> None:
        name = re.sub(r"[^\w.-]+", "-", title)[:100]
        self.path = directory / LEDGER / f"{name}.json"
        self.content: dict[str, Any] = {
            "title": title,
            "started": _now(),
            "ended": None,
            "host": HOST,
            "pid": os.getpid(),
            "process": process_mark(os.getpid()),
            "runs": list(names),
        }
        self.mark: tuple[int, int] | None = None
        self.was_busy = is_busy(directory)

    def write(self, *, ended: str | None = None) -> None:
        """Write it."""
        write_durably(self.path, json.dumps(self.content | {"ended": ended}, indent=1) + "\n")
        self.mark = self._mark()

    def is_ours(self) -> bool:
        """Return whether no other sweep has written its own over it."""
        return self.mark is not None and self.mark == self._mark()

    def has_company(self) -> bool:
        """Return whether another sweep is, or was a while ago, at work on the store."""
        if not self.was_busy:
            self.was_busy = self.mark is not None and not self.is_ours()
        return self.was_busy

    def _mark(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


@contextmanager
def entered(directory: Path, title: str, names: Sequence[str], *, must_be_written: bool) -> Iterator[Entry]:
    """Write down that a sweep goes on while the block runs, and afterwards that it has come to an end.

    Parameters
    ----------
    directory : Path
        Of the store.
    title : str
        Name of the sweep.
    names : sequence of str
        Files of its runs, without directory.
    must_be_written : bool
        Whether a store that cannot be written is an error; otherwise nothing is written down in it.

    Yields
    ------
    Entry
        While it goes on.

    Raises
    ------
    StorageError
        If it cannot be written down at the beginning.
    """
    entry = Entry(directory, title, names)
    try:
        entry.write()
    except StorageError:
        if must_be_written:
            raise
    try:
        yield entry
    finally:
        with suppress(StorageError):  # of no consequence: the process will be gone sooner or later
            if entry.is_ours():
                entry.write(ended=_now())


def _now() -> str:
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")


def is_busy(directory: Path) -> bool:
    """Return whether another process is performing a sweep on a store.

    Parameters
    ----------
    directory : Path
        Of the store.

    Returns
    -------
    bool
        As far as the ledger tells.
    """
    mine = HOST, os.getpid()
    return any(_is_running(entry) and (entry["host"], entry["pid"]) != mine for entry in _entries(directory))


def sweeps_of(directory: Path, failures: Path) -> list[SweepStatus]:
    """Return how far the sweeps of a store have come.

    Parameters
    ----------
    directory : Path
        Of the store.
    failures : Path
        Where failed runs are.

    Returns
    -------
    list of SweepStatus
        By title. A file of the ledger that cannot be read is named on standard error and left out.
    """
    stored, failed = _names(directory), _names(failures)
    return [
        SweepStatus(
            title=str(entry["title"]),
            wanted=len(entry["runs"]),
            stored=len(stored & set(entry["runs"])),
            failed=len((failed - stored) & set(entry["runs"])),
            started=str(entry["started"]),
            running=_is_running(entry),
        )
        for entry in _entries(directory, tell=True)
    ]


def _names(directory: Path) -> set[str]:
    try:
        return {entry.name for entry in os.scandir(directory)}
    except OSError:
        return set()


def _entries(directory: Path, *, tell: bool = False) -> Iterator[dict[str, Any]]:
    for path in sorted((directory / LEDGER).glob("*.json")):
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            _check(entry)
        except (OSError, ValueError, KeyError, TypeError) as error:
            if tell:
                remark(f"{path} cannot be read ({type(error).__name__}: {error}); it is left out")
        else:
            yield entry


def _check(entry: dict[str, Any]) -> None:
    for name, kind in (("title", str), ("started", str), ("host", str), ("pid", int), ("runs", list)):
        if not isinstance(entry[name], kind):
            raise TypeError(f"{name} is {entry[name]!r}")
    if not all(isinstance(name, str) for name in entry["runs"]):
        raise TypeError("runs holds more than names")


def _is_running(entry: dict[str, Any]) -> bool:
    if entry.get("ended") is not None:
        return False
    return entry["host"] != HOST or is_alive(entry["pid"], entry.get("process"))
