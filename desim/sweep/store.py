"""Store of the outcomes of finished runs on disk, found by everything that determines them.

A run is one JSON file. Its name ends in a hash of what was asked for: the function that performs the run, the setting,
the agent and the seed. The file holds an outcome for each state of code, files and environment that the run was
performed with, and is found again only in that state. It appears under its name only when it is complete, so a sweep
may be killed at any time, and several sweeps may share a store, on a network file system as well: nothing is locked,
and a name appears or changes in one step. Records of a run, if kept, are in a directory beside
the file. Failed runs are listed in ``failures`` under the same names; ``sweeps`` lists which runs belong to which
sweep.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

from desim.exceptions import RecordError
from desim.files import (
    HOST,
    StorageError,
    draft_of,
    is_alive,
    process_mark,
    read_fields,
    remove_leftovers,
    synchronize_all,
    write_durably,
)
from desim.notes import plain, print_note
from desim.records import is_plain_name
from desim.sweep.recording import change_of
from desim.sweep.workers import Failed

__all__ = ["Entry", "StorageError", "Store", "StoredOutcome", "SweepStatus"]

#: Directories of failed runs and of sweeps in a store.
FAILURES, LEDGER = "failures", "sweeps"


class _Outcome(TypedDict):
    """An outcome in a file."""

    outcome: dict[str, Any]
    seconds: float | None
    used: dict[str, Any]
    digest: str


class _Outcomes(TypedDict):
    """File of a run."""

    settings: Any
    outcomes: list[_Outcome]


class _LedgerEntry(TypedDict):
    """Entry of a sweep."""

    title: str
    started: str
    host: str
    pid: int
    runs: dict[str, int | None]


class StoredOutcome(NamedTuple):
    """Stored data of a run.

    Attributes
    ----------
    outcome : dict
        Outcome of the run.
    seconds : float or None
        Wall-clock duration of the run; None if it was not stored.
    used : dict
        What the run has used, see :meth:`desim.sweep.recording.Recording.used`; empty if that was not recorded.
    records : Path or None
        Directory of the records, which exists if records were kept; None without a store.
    """

    outcome: dict[str, Any]
    seconds: float | None
    used: Mapping[str, Any] = MappingProxyType({})
    records: Path | None = None


@dataclass(frozen=True)
class SweepStatus:
    """Progress of a sweep.

    Attributes
    ----------
    title : str
        Name of the sweep.
    wanted : int
        Number of its runs.
    stored : int
        Number of stored runs.
    failed : int
        Number of runs that failed and are not stored.
    started : str
        Time of the last start, in local time.
    running : bool
        Whether the sweep is still running; for a sweep on another machine, whether it has not ended properly.
    """

    title: str
    wanted: int
    stored: int
    failed: int
    started: str
    running: bool


@dataclass(frozen=True)
class Store:
    """Directory of stored outcomes.

    Attributes
    ----------
    directory : Path
        Path of the directory, which is created when needed.
    """

    directory: Path

    def path(self, settings: Mapping[str, Any]) -> Path:
        """Return the path of a run's file.

        Parameters
        ----------
        settings : mapping
            Everything that was asked for, as plain values. An entry ``name`` is for readability: it starts
            the name of the file, and is also part of the hash.

        Returns
        -------
        Path
            Path of the file, which need not exist.
        """
        digest = hashlib.sha256(_text(settings).encode()).hexdigest()
        name = re.sub(r"[^\w.-]+", "-", str(settings.get("name", "run")))[:60]
        return self.directory / f"{name}-{digest[:20]}.json"

    def recall(self, settings: Mapping[str, Any]) -> StoredOutcome | None:
        """Return the outcome of a run, if nothing that it used has changed.

        Parameters
        ----------
        settings : mapping
            Everything that was asked for.

        Returns
        -------
        StoredOutcome or None
            The latest such outcome; None if there is none.

        Raises
        ------
        RecordError
            If the file does not contain valid outcomes of this run.
        InvalidConfiguration
            If a module that the run used, and this process has loaded, differs from its file.
        """
        path = self.path(settings)
        for one in self._outcomes(path, settings):
            if not change_of(one["used"]):
                return StoredOutcome(one["outcome"], one["seconds"], one["used"], _records(path, one["used"]))
        return None

    def _outcomes(self, path: Path, settings: Mapping[str, Any]) -> list[_Outcome]:
        """Return all outcomes in the file of a run, the latest first."""
        try:
            document = read_fields(path, _Outcomes)
        except FileNotFoundError:
            return []
        if json.loads(_text(settings)) != document["settings"]:
            raise RecordError(f"{path} contains the outcome of another run")
        found = document["outcomes"]
        if any(one["digest"] != _digest({"outcome": one["outcome"], "used": one["used"]}) for one in found):
            raise RecordError(f"{path} does not contain what was stored in it")
        return found

    def save(self, settings: Mapping[str, Any], found: StoredOutcome) -> StoredOutcome:
        """Write the outcome of a run, completely or not at all, beside those that it had in other states.

        Parameters
        ----------
        settings : mapping
            Everything that was asked for.
        found : StoredOutcome
            Outcome: numbers, strings, and lists and mappings of these; numbers that are not finite are stored as null.

        Returns
        -------
        StoredOutcome
            Outcome as it is stored.

        Raises
        ------
        StorageError
            If it cannot be written; no incomplete file remains.
        """
        path, kept = self.path(settings), plain(found.outcome)
        try:
            others = [one for one in self._outcomes(path, settings) if one["used"] != found.used]
        except RecordError:  # it was reported when it was looked up
            others = []
        digest = _digest({"outcome": kept, "used": found.used})
        mine = {"used": found.used, "outcome": kept, "digest": digest, "seconds": found.seconds}
        document = {"settings": plain(settings), "outcomes": [mine, *others]}
        write_durably(path, json.dumps(document, allow_nan=False) + "\n")
        return found._replace(outcome=kept)

    def keep_records(self, settings: Mapping[str, Any], used: Mapping[str, Any], draft: Path) -> Path | None:
        """Rename a directory of records to its place, once its files are on the disk.

        Parameters
        ----------
        settings : mapping
            Everything that was asked for.
        used : mapping
            What the run has used.
        draft : Path
            Directory that :meth:`draft` has provided.

        Returns
        -------
        Path or None
            Path of the directory; None if the run has written none.

        Raises
        ------
        StorageError
            If it cannot be written or renamed.
        """
        if not draft.exists():
            return None
        target = _records(self.path(settings), used)
        try:
            synchronize_all(draft)
        except OSError as error:
            raise StorageError.of(target, error) from error
        with suppress(OSError):  # earlier records; if they are open, a network file system does not remove them at once
            target.rename(aside := draft_of(target))
            shutil.rmtree(aside, ignore_errors=True)
        try:
            draft.rename(target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another sweep has just stored the same run
                raise StorageError(f"cannot write {target}: {error.strerror}") from error
        return target

    @contextmanager
    def draft(self, settings: Mapping[str, Any]) -> Iterator[Path]:
        """Provide a directory for the records of a run, which is removed afterwards unless it was stored.

        Parameters
        ----------
        settings : mapping
            Everything that was asked for.

        Yields
        ------
        Path
            Path of the directory, which does not exist yet.
        """
        draft = draft_of(self.path(settings).with_suffix(""))
        shutil.rmtree(draft, ignore_errors=True)
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def set_aside(self, settings: Mapping[str, Any]) -> Path:
        """Rename the unusable file of a run, so that it is neither found nor lost.

        Parameters
        ----------
        settings : mapping
            Everything that was asked for.

        Returns
        -------
        Path
            New path of the file; its name ends in ``.corrupt``, ``.corrupt-2`` and so on.

        Raises
        ------
        StorageError
            If it cannot be renamed.
        """
        path = self.path(settings)
        names = (f"{path.name}.corrupt{f'-{number}' if number > 1 else ''}" for number in count(1))
        aside = next(other for other in map(path.with_name, names) if not other.exists())
        try:
            with suppress(FileNotFoundError):  # another sweep on this store has renamed it
                path.rename(aside)
        except OSError as error:
            raise StorageError(f"cannot rename {path}: {error.strerror}") from error
        return aside

    def failure_path(self, settings: Mapping[str, Any]) -> Path:
        """Return the path of the file about a run's failure, which need not exist."""
        return self.directory / FAILURES / self.path(settings).name

    def save_failure(self, settings: Mapping[str, Any], failed: Failed[Any]) -> Path:
        """Store that a run failed, with its exception.

        Parameters
        ----------
        settings : mapping
            Everything that was asked for.
        failed : Failed
            Failed run with its exception.

        Returns
        -------
        Path
            Path of the file, which contains the traceback.

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
        """Remove the file about a run's failure, if there is one."""
        with suppress(OSError):  # a failure no longer counts once there is an outcome
            self.failure_path(settings).unlink(missing_ok=True)

    def prepare(self) -> None:
        """Remove incomplete files of processes that no longer exist.

        Raises
        ------
        StorageError
            If the path exists and is not a directory.
        """
        if self.directory.exists() and not self.directory.is_dir():
            raise StorageError(f"{self.directory} is not a directory; choose another path for stored runs")
        for directory in (self.directory, self.directory / FAILURES, self.directory / LEDGER):
            remove_leftovers(directory)

    @contextmanager
    def entered(self, title: str, names: Iterable[str], found: Set[str], *, must_be_written: bool) -> Iterator[Entry]:
        """Record that a sweep is running while the block runs, and afterwards that it has ended.

        Parameters
        ----------
        title : str
            Name of the sweep.
        names : iterable of str
            Names of the files of its runs, without directory.
        found : set of str
            Those of runs whose outcomes were found.
        must_be_written : bool
            Whether an unwritable store is an error; otherwise nothing is recorded in it.

        Yields
        ------
        Entry
            Entry of the running sweep.

        Raises
        ------
        StorageError
            If the start cannot be recorded.
        """
        entry = Entry(self, title, {name: None if name in found else self._time(name) for name in names})
        try:
            entry.write()
        except StorageError:
            if must_be_written:
                raise
        try:
            yield entry
        finally:
            with suppress(StorageError):  # harmless: a process that no longer exists counts as ended
                if entry.is_ours():
                    entry.write(ended=_now())

    def entries(self, *, tell: bool = False) -> Iterator[_LedgerEntry]:
        """Yield the entries of sweeps; with ``tell``, report unreadable files on standard error."""
        for path in sorted((self.directory / LEDGER).glob("*.json")):
            try:
                entry = read_fields(path, _LedgerEntry)
            except (RecordError, FileNotFoundError) as error:
                if tell:
                    print_note(f"{error}; it is ignored")
            else:
                yield entry

    def sweeps(self) -> list[SweepStatus]:
        """Return the progress of the sweeps on this store.

        Returns
        -------
        list of SweepStatus
            One status per title, sorted. Unreadable files are reported on standard error and ignored.
        """
        failed, found = _names(self.directory / FAILURES), []
        for entry in self.entries(tell=True):
            stored = {name for name, time in entry["runs"].items() if self._time(name) not in (0, time)}
            failures = len((failed - stored) & entry["runs"].keys())
            running = _is_running(entry)
            found.append(
                SweepStatus(entry["title"], len(entry["runs"]), len(stored), failures, entry["started"], running)
            )
        return found

    def _time(self, name: str) -> int:
        """Return when a file was written, in nanoseconds; 0 if there is none."""
        try:
            return 0 if not is_plain_name(name) else (self.directory / name).stat().st_mtime_ns
        except OSError:
            return 0


class Entry:
    """Entry of a sweep in the ledger of its store.

    Parameters
    ----------
    store : Store
        Store that contains the ledger.
    title : str
        Name of the sweep.
    runs : mapping of str to int or None
        Names of the files of its runs, without directory, and when those were written whose outcomes were not found.
    """

    def __init__(self, store: Store, title: str, runs: Mapping[str, int | None]) -> None:
        name = re.sub(r"[^\w.-]+", "-", title)[:100]
        self._path = store.directory / LEDGER / f"{name}.json"
        self._content = {
            "title": title,
            "started": _now(),
            "ended": None,
            "host": HOST,
            "pid": os.getpid(),
            "process": process_mark(os.getpid()),
            "runs": dict(runs),
        }
        self._written: tuple[int, int] | None = None
        mine = HOST, os.getpid()
        self._was_busy = any(_is_running(one) and (one["host"], one["pid"]) != mine for one in store.entries())

    def write(self, *, ended: str | None = None) -> None:
        """Write the entry."""
        write_durably(self._path, json.dumps(self._content | {"ended": ended}, indent=1) + "\n")
        self._written = self._mark()

    def is_ours(self) -> bool:
        """Return whether the file still holds this entry, not one of another sweep."""
        return self._written is not None and self._written == self._mark()

    def has_company(self) -> bool:
        """Return whether another sweep is using the store, or was until recently."""
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


def _records(path: Path, used: Mapping[str, Any]) -> Path:
    """Return the directory for the records of a run that used something."""
    return path.with_name(f"{path.stem}-{_digest(used)[:8]}")


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(plain(settings), sort_keys=True, allow_nan=False)


def _digest(outcome: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(outcome).encode()).hexdigest()[:16]
