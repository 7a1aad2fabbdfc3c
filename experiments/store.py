"""Outcomes of finished runs on disk, found again by what determines them.

A run is one JSON file. Its name ends in a hash of all that determines the outcome: the function that performs the run,
the setting, the agent, the seed and the source code. The file appears under its name only when it is complete, so that
a sweep may be killed at any moment, and several sweeps may share a store. Runs that have failed are in ``failures``,
under the same names; ``sweeps`` says which runs belong to which sweep.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from desim.cli.output import plain
from desim.exceptions import RecordError
from desim.experiments.files import StorageError, remove_leftovers, write_durably
from desim.experiments.ledger import LEDGER, SweepStatus, sweeps_of
from desim.parallel import Failed

__all__ = ["Kept", "StorageError", "Store", "SweepStatus"]

#: Directory of failed runs in a store.
FAILURES = "failures"


class Kept(NamedTuple):
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

    def find(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the outcome of a run.

        Parameters
        ----------
        settings : mapping
            All that determines it.

        Returns
        -------
        dict or None
            None if the run has not finished.

        Raises
        ------
        RecordError
            If there is a file that does not hold what it should.
        """
        kept = self.recall(settings)
        return None if kept is None else kept.outcome

    def recall(self, settings: Mapping[str, Any]) -> Kept | None:
        """Return the outcome of a run and how long it took; arguments and errors are those of :meth:`find`."""
        path = self.path(settings)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if json.loads(_text(settings)) != document["settings"]:
                raise RecordError(f"{path} holds the outcome of another run")
            outcome: dict[str, Any] = dict(document["outcome"])
            if document.get("digest", _digest(outcome)) != _digest(outcome):  # files of older versions have none
                raise RecordError(f"{path} does not hold what was stored in it")
        except FileNotFoundError:
            return None
        except RecordError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordError(f"{path} cannot be read ({type(error).__name__}: {error})") from error
        return Kept(outcome, document.get("seconds"))

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
            "time": datetime.now().astimezone().isoformat(sep=" ", timespec="seconds"),
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

    def sweeps(self) -> list[SweepStatus]:
        """Return how far the sweeps on this store have come.

        Returns
        -------
        list of SweepStatus
            One a title, sorted. A file that cannot be read is named on standard error and left out.
        """
        return sweeps_of(self.directory, self.directory / FAILURES)


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(plain(settings), sort_keys=True, allow_nan=False)


def _digest(outcome: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(outcome).encode()).hexdigest()[:16]
