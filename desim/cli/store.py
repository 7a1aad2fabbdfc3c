"""Finished runs on disk, found again by their settings.

A run's directory holds its records and ``run.json``: settings, metrics, outcome of the check. It appears under its
name only when all of that is complete. Its name ends in a hash of the settings: problem, agent, workload (of a file,
the content), system, seed, and the source code of desim, of the agents and of the workloads, that of the user's own
included. After any change of these, a run is simulated anew.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from desim.cli.output import plain
from desim.cli.scenario import Scenario
from desim.cli.systems import system_of
from desim.exceptions import RecordError
from desim.records import write_atomically

__all__ = ["RunStore"]

RUN_FILE = "run.json"


@dataclass(frozen=True)
class RunStore:
    """A directory of runs.

    Attributes
    ----------
    directory : Path
        Where they are.
    code : str
        What stands for the code.
    own : mapping of str to str
        What stands for the code or weights of agents and problems that are no part of it, by their names.
    """

    directory: Path
    code: str
    own: Mapping[str, str] = field(default_factory=dict)

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
        own = {name: self.own[name] for name in (scenario.problem, scenario.agent) if self.own.get(name)}
        names = {"problem": scenario.problem, "agent": scenario.agent}
        options = plain(system_of(scenario.problem).identity(scenario.options))
        return {**names, "options": options, "code": self.code, **({"own": own} if own else {})}

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
            yield draft  # an OSError of the block may be one of the user's own code, and is left as it is
            shutil.rmtree(target, ignore_errors=True)  # what find() did not accept
            _rename(draft, target)
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


def _rename(draft: Path, target: Path) -> None:
    try:
        draft.rename(target)
    except OSError as error:
        raise RecordError(f"cannot write {target}: {error.strerror}") from error
