"""Finished runs on disk, found again by their settings.

A run's directory holds its records and ``run.json``: settings, metrics, outcome of the check. It appears under its
name only when all of that is complete. Its name ends in a hash of the settings: problem, agent, workload (of a file,
the content), system, seed, and the source code of desim, of the agents and of the workloads. After any change of
these, a run is simulated anew.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from desim import plugins
from desim.cli.output import plain
from desim.cli.scenario import Scenario
from desim.exceptions import RecordError
from desim.records import write_atomically

__all__ = ["RunStore", "code_digest", "file_digest"]

RUN_FILE = "run.json"
#: Parts of desim that do not touch what a run records.
UNRELATED = ("cli", "export", "plotting")


@dataclass(frozen=True)
class RunStore:
    """A directory of runs.

    Attributes
    ----------
    directory : Path
        Where they are.
    source : str
        What stands for the workload in the settings: its name, or the digest of its file.
    code : str
        What stands for the code.
    """

    directory: Path
    source: str
    code: str

    def settings(self, scenario: Scenario) -> dict[str, Any]:
        """Return all that determines the records of a run.

        Parameters
        ----------
        scenario : Scenario
            The run.

        Returns
        -------
        dict
            Plain values.
        """
        settings = asdict(scenario)
        settings["workload"]["trace"] = self.source
        return settings | {"code": self.code}

    def path(self, scenario: Scenario) -> Path:
        """Return the directory of a run.

        Parameters
        ----------
        scenario : Scenario
            The run.

        Returns
        -------
        Path
            It need not exist.
        """
        digest = hashlib.sha256(json.dumps(self.settings(scenario), sort_keys=True).encode()).hexdigest()
        name = re.sub(r"[^\w.-]+", "-", scenario.agent)[:60]
        return self.directory / f"{name}-seed-{scenario.seed}-{digest[:16]}"

    def find(self, scenario: Scenario) -> dict[str, Any] | None:
        """Return what is stored of a run besides its records.

        Parameters
        ----------
        scenario : Scenario
            The run.

        Returns
        -------
        dict or None
            What :meth:`describe` wrote; None if the run has not finished.

        Raises
        ------
        RecordError
            If there is something that cannot be read.
        """
        path = self.path(scenario) / RUN_FILE
        try:
            document = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RecordError(f"{path} cannot be read ({error}); remove its directory to simulate it anew") from error
        return document if isinstance(document, dict) and document.get("settings") == self.settings(scenario) else None

    @contextmanager
    def draft(self, scenario: Scenario) -> Iterator[Path]:
        """Give a directory for the records, which becomes that of the run if all goes well, else vanishes.

        Parameters
        ----------
        scenario : Scenario
            The run.

        Yields
        ------
        Path
            Not there yet.

        Raises
        ------
        RecordError
            If the directory of the run cannot be made.
        """
        target = self.path(scenario)
        draft = target.with_name(f".{target.name}.partial")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            yield draft
            shutil.rmtree(target, ignore_errors=True)  # what find() did not accept
            draft.rename(target)
        except OSError as error:
            if isinstance(error, RecordError):
                raise
            raise RecordError(f"cannot write {target}: {error.strerror}") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def describe(self, directory: Path, scenario: Scenario, document: Mapping[str, Any]) -> None:
        """Write what belongs to a run besides its records.

        Parameters
        ----------
        directory : Path
            Where its records are.
        scenario : Scenario
            The run.
        document : mapping
            Metrics, outcome of the check and the like.
        """
        text = json.dumps({"settings": self.settings(scenario), **plain(document)}, indent=2, allow_nan=False) + "\n"
        write_atomically(directory / RUN_FILE, lambda path: path.write_text(text))


def file_digest(path: Path) -> str:
    """Return a digest of the content of a file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    str
        Hexadecimal.

    Raises
    ------
    RecordError
        If the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return a digest of the source code that runs depend on.

    Returns
    -------
    str
        Hexadecimal.
    """
    digest = hashlib.sha256()
    for package in dict.fromkeys(["desim", *plugins.packages()]):
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations if spec else None) or ():
            for path in sorted(Path(root).rglob("*.py")):
                name = path.relative_to(root)
                if package != "desim" or name.parts[0] not in UNRELATED:
                    digest.update(f"{package}/{name}".encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
