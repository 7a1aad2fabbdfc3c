"""What an experiment says before and after its tables, and the files that it leaves in its directory."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from desim.cli.output import plain, print_text
from desim.records import write_atomically

__all__ = ["print_heading", "violation_lines", "write_results"]


class Measured(Protocol):
    """What a study tells of itself."""

    @property
    def title(self) -> str:
        """What it is."""

    @property
    def options(self) -> Any:
        """How it was run."""

    @property
    def num_invalid(self) -> int:
        """Runs in whose records a check has found a violation."""


def print_heading(study: Measured, how: str) -> None:
    """Print the title of a study, how it was measured, and whether it is a trial only.

    Parameters
    ----------
    study : Measured
        What was measured.
    how : str
        What stands in brackets behind the title.
    """
    print_text(f"{study.title} ({how})")
    if study.options.is_reduced:
        print_text("This is a trial in a smaller size: its figures cannot be compared with the paper's.")


def violation_lines(study: Measured) -> list[str]:
    """Return what is to be said of runs whose records are not valid.

    Parameters
    ----------
    study : Measured
        What was measured.

    Returns
    -------
    list of str
        Nothing if there are none.
    """
    if not study.num_invalid:
        return []
    return [f"The check has found violations in the records of {study.num_invalid} runs."]


def write_results(directory: Path, document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Write ``results.json`` and ``results.csv``, each all or nothing.

    Parameters
    ----------
    directory : Path
        Where; it is made if need be.
    document : mapping
        Everything, in values that JSON has.
    rows : sequence of mapping
        The table, whose columns are the keys of all rows; a row may lack some.

    Returns
    -------
    list of Path
        The files.
    """
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(plain(document), indent=1, allow_nan=False) + "\n"
    table = io.StringIO()
    writer = csv.DictWriter(table, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    paths = [directory / "results.json", directory / "results.csv"]
    for path, content in zip(paths, (text, table.getvalue()), strict=True):
        write_atomically(path, partial(Path.write_text, data=content))
    return paths
