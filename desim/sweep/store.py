"""Outcomes of finished runs on disk, found again by what determines them.

A run is one JSON file. Its name ends in a hash of all that determines the outcome: the function that performs the run,
the setting, the agent, the seed and the source code. The file appears under its name only when it is complete, so that
a sweep may be killed at any moment, and several sweeps may share a store. A run that keeps its records has them in a
directory beside the file. Runs that have failed are in ``failures``, under the same names; ``sweeps`` says which runs
belong to which sweep.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from desim.cli.output import plain, print_note
from desim.exceptions import RecordError
from desim.sweep.files import (
    HOST,
    StorageError,
    draft_of,
    is_alive,
    process_mark,
    remove_leftovers,
    write_durably,
)
from desim.sweep.workers import Failed

__all__ = ["Entry", "StorageError", "Store", "StoredOutcome", "SweepStatus"]

#: Directories of failed runs and of sweeps in a store.
FAILURES, LEDGER = "failures", "sweeps"


class StoredOutcome(NamedTuple):
    """What is stored of a run.

    Attributes
    ----------
    outcome : dict
        What the run has brought.
    seconds : float or None
        How long it took, wall time; None if that was not stored.
    """

    outcome: dict[str, Any]
    seconds: float | None


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


@dataclass(frozen=True)
class Store:
    """A directory of outcomes.

    Attributes
    ----------
    directory : Path
        Where they are; it is made when it is needed.
    """

    directory: Path

    def path(self, settings: Mapping[str, Any]) -> Path:
        """Return the file of a run.

        Parameters
        ----------
        settings : mapping
            All that determines the outcome, as plain values. An entry ``name`` is for people: it begins the name of
            the file and is part of the hash as well.

        Returns
        -------
        Path
            It need not exist.
        """
        digest = hashlib.sha256(_text(settings).encode()).hexdigest()
        name = re.sub(r"[^\w.-]+", "-", str(settings.get("name", "run")))[:60]
        return self.directory / f"{name}-{digest[:20]}.json"

    def records(self, settings: Mapping[str, Any]) -> Path:
        """Return the directory of the records of a run, which need not exist."""
        return self.path(settings).with_suffix("")

    def recall(self, settings: Mapping[str, Any]) -> StoredOutcome | None:
        """Return the outcome of a run and how long it took.

        Parameters
        ----------
        settings : mapping
            All that determines it.

        Returns
        -------
        StoredOutcome or None
            None if the run has not finished.

        Raises
        ------
        RecordError
            If there is a file that does not hold what it should.
        """
        path = self.path(settings)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if json.loads(_text(settings)) != document["settings"]:
                raise RecordError(f"{path} holds the outcome of another run")
            outcome: dict[str, Any] = dict(document["outcome"])
            if document["digest"] != _digest(outcome):
                raise RecordError(f"{path} does not hold what was stored in it")
        except FileNotFoundError:
            return None
        except RecordError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordError(f"{path} cannot be read ({type(error).__name__}: {error})") from error
        return StoredOutcome(outcome, document.get("seconds"))

    def save(self, settings: Mapping[str, Any], outcome: Mapping[str, Any], *, seconds: float | None = None) -> Path:
        """Write the outcome of a run, all or nothing.

        Parameters
        ----------
        settings : mapping
            All that determines it.
        outcome : mapping
            Numbers, text, lists and mappings of these; numbers that are not finite are stored as null.
        seconds : float, optional
            How long the run took, wall time.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        StorageError
            If it cannot be written; nothing is left behind.
        """
        path = self.path(settings)
        kept = plain(outcome)
        document = {"settings": plain(settings), "outcome": kept, "digest": _digest(kept), "seconds": seconds}
        write_durably(path, json.dumps(document, allow_nan=False) + "\n")
        return path

    @contextmanager
    def draft(self, settings: Mapping[str, Any]) -> Iterator[Path]:
        """Give a directory for the records of a run, which gets its name if all goes well and else vanishes.

        Parameters
        ----------
        settings : mapping
            All that determines the run.

        Yields
        ------
        Path
            Not there yet.

        Raises
        ------
        StorageError
            If it cannot be given its name.
        """
        target = self.records(settings)
        draft = draft_of(target)
        shutil.rmtree(draft, ignore_errors=True)
        try:
            yield draft  # an OSError of the block may be one of the user's own code, and is left as it is
            shutil.rmtree(target, ignore_errors=True)  # records without an outcome
            try:
                draft.rename(target)
            except OSError as error:
                raise StorageError(f"cannot write {target}: {error.strerror}") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def set_aside(self, settings: Mapping[str, Any]) -> Path:
        """Rename the file of a run that cannot be used, so that it is neither found nor lost.

        Parameters
        ----------
        settings : mapping
            All that determines the run.

        Returns
        -------
        Path
            What the file is called now; its name ends in ``.corrupt``, or in ``.corrupt-2`` and so on.

        Raises
        ------
        StorageError
            If it cannot be renamed.
        """
        path = self.path(settings)
        names = (f"{path.name}.corrupt{f'-{number}' if number > 1 else ''}" for number in count(1))
        aside = next(other for other in map(path.with_name, names) if not other.exists())
        try:
            with suppress(FileNotFoundError):  # another sweep on this store was faster
                path.rename(aside)
        except OSError as error:
            raise StorageError(f"cannot rename {path}: {error.strerror}") from error
        return aside

    def failure_path(self, settings: Mapping[str, Any]) -> Path:
        """Return where it is written that a run has failed; the file need not exist."""
        return self.directory / FAILURES / self.path(settings).name

    def save_failure(self, settings: Mapping[str, Any], failed: Failed[Any]) -> Path:
        """Write down that a run has failed, and how.

        Parameters
        ----------
        settings : mapping
            All that determines the run.
        failed : Failed
            Its exception.

        Returns
        -------
        Path
            The file; it has the lines of the traceback.

        Raises
        ------
        StorageError
            If it cannot be written.
        """
        path = self.failure_path(settings)
        document = {
            "error": failed.kind,
            "message": failed.message,
            "traceback": failed.trace.splitlines(),
            "time": _now(),
            "settings": plain(settings),
        }
        write_durably(path, json.dumps(document, indent=1, allow_nan=False) + "\n")
        return path

    def forget_failure(self, settings: Mapping[str, Any]) -> None:
        """Remove what was written down of a failure, if anything was."""
        with suppress(OSError):  # it does not count any more where there is an outcome
            self.failure_path(settings).unlink(missing_ok=True)

    def prepare(self) -> None:
        """Remove what dead processes have left half written.

        Raises
        ------
        StorageError
            If the directory is something else.
        """
        if self.directory.exists() and not self.directory.is_dir():
            raise StorageError(f"{self.directory} is not a directory: want one, or nothing, where runs are stored")
        for directory in (self.directory, self.directory / FAILURES, self.directory / LEDGER):
            remove_leftovers(directory)

    @contextmanager
    def entered(self, title: str, names: Sequence[str], *, must_be_written: bool) -> Iterator[Entry]:
        """Write down that a sweep goes on while the block runs, and afterwards that it has come to an end.

        Parameters
        ----------
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
        entry = Entry(self, title, names)
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

    def entries(self, *, tell: bool = False) -> Iterator[dict[str, Any]]:
        """Yield what sweeps have written down; with ``tell``, name files that cannot be read on standard error."""
        for path in sorted((self.directory / LEDGER).glob("*.json")):
            try:
                entry = json.loads(path.read_text(encoding="utf-8"))
                for name, kind in (("title", str), ("started", str), ("host", str), ("pid", int), ("runs", list)):
                    if not isinstance(entry[name], kind):
                        raise TypeError(f"{name} is {entry[name]!r}")
                if not all(isinstance(name, str) for name in entry["runs"]):
                    raise TypeError("runs holds more than names")
            except (OSError, ValueError, KeyError, TypeError) as error:
                if tell:
                    print_note(f"{path} cannot be read ({type(error).__name__}: {error}); it is left out")
            else:
                yield entry

    def sweeps(self) -> list[SweepStatus]:
        """Return how far the sweeps on this store have come.

        Returns
        -------
        list of SweepStatus
            One a title, sorted. A file that cannot be read is named on standard error and left out.
        """
        stored, failed = _names(self.directory), _names(self.directory / FAILURES)
        return [
            SweepStatus(
                title=entry["title"],
                wanted=len(entry["runs"]),
                stored=len(stored & set(entry["runs"])),
                failed=len((failed - stored) & set(entry["runs"])),
                started=entry["started"],
                running=_is_running(entry),
            )
            for entry in self.entries(tell=True)
        ]


class Entry:
    """What a sweep has written into the ledger of its store.

    Parameters
    ----------
    store : Store
        Where.
    title : str
        Name of the sweep.
    names : sequence of str
        Files of its runs, without directory.
    """

    def __init__(self, store: Store, title: str, names: Sequence[str]) -> None:
        name = re.sub(r"[^\w.-]+", "-", title)[:100]
        self._path = store.directory / LEDGER / f"{name}.json"
        self._content = {
            "title": title,
            "started": _now(),
            "ended": None,
            "host": HOST,
            "pid": os.getpid(),
            "process": process_mark(os.getpid()),
            "runs": list(names),
        }
        self._written: tuple[int, int] | None = None
        mine = HOST, os.getpid()
        self._was_busy = any(_is_running(one) and (one["host"], one["pid"]) != mine for one in store.entries())

    def write(self, *, ended: str | None = None) -> None:
        """Write it."""
        write_durably(self._path, json.dumps(self._content | {"ended": ended}, indent=1) + "\n")
        self._written = self._mark()

    def is_ours(self) -> bool:
        """Return whether no other sweep has written its own over it."""
        return self._written is not None and self._written == self._mark()

    def has_company(self) -> bool:
        """Return whether another sweep is, or was a while ago, at work on the store."""
        if not self._was_busy:
            self._was_busy = self._written is not None and not self.is_ours()
        return self._was_busy

    def _mark(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


def _is_running(entry: Mapping[str, Any]) -> bool:
    if entry.get("ended") is not None:
        return False
    return entry["host"] != HOST or is_alive(entry["pid"], entry.get("process"))


def _names(directory: Path) -> set[str]:
    try:
        return {entry.name for entry in os.scandir(directory)}
    except OSError:
        return set()


def _now() -> str:
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(plain(settings), sort_keys=True, allow_nan=False)


def _digest(outcome: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(outcome).encode()).hexdigest()[:16]
