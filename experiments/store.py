"""Outcomes of finished runs on disk, found again by what determines them.

A run is one JSON file. Its name ends in a hash of all that determines the outcome: the function that performs the run,
the setting, the agent, the seed and the source code. The file appears under its name only when it is complete, so that
a sweep may be killed at any moment, and several sweeps may share a store.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desim.cli.output import plain
from desim.exceptions import RecordError

__all__ = ["Store"]


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
        path = self.path(settings)
        try:
            document = json.loads(path.read_text())
            if json.loads(_text(settings)) != document["settings"]:
                raise RecordError(f"{path} holds the outcome of another run")
            outcome: dict[str, Any] = dict(document["outcome"])
        except FileNotFoundError:
            return None
        except RecordError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordError(f"{path} cannot be read ({type(error).__name__}: {error})") from error
        return outcome

    def save(self, settings: Mapping[str, Any], outcome: Mapping[str, Any]) -> Path:
        """Write the outcome of a run, all or nothing.

        Parameters
        ----------
        settings : mapping
            All that determines it.
        outcome : mapping
            Numbers, text, lists and mappings of these; numbers that are not finite are stored as null.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        RecordError
            If it cannot be written; nothing is left behind.
        """
        path = self.path(settings)
        # Two sweeps that share a store may perform the same run at the same time.
        temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
        text = json.dumps({"settings": plain(settings), "outcome": plain(outcome)}, allow_nan=False) + "\n"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text)
            temporary.replace(path)
        except OSError as error:
            raise RecordError(f"cannot write {path}: {error.strerror}") from error
        finally:
            temporary.unlink(missing_ok=True)
        return path


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(plain(settings), sort_keys=True, allow_nan=False)
