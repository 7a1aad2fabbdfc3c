"""The files that an experiment leaves in its directory."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from desim.cli.output import plain
from desim.records import write_atomically

__all__ = ["write_results"]


def write_results(directory: Path, document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Write ``results.json`` and ``results.csv``, each all or nothing.

    Parameters
    ----------
    directory : Path
        Where; it is made if need be.
    document : mapping
        Everything, in values that JSON has.
    rows : sequence of mapping
        The table, whose columns are the keys of its first row.

    Returns
    -------
    list of Path
        The files.
    """
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(plain(document), indent=1, allow_nan=False) + "\n"
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    paths = [directory / "results.json", directory / "results.csv"]
    for path, content in zip(paths, (text, table.getvalue()), strict=True):
        write_atomically(path, partial(Path.write_text, data=content))
    return paths
