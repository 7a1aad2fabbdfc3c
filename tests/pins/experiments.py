"""What the quick experiments of the four papers come to: their tables, and the outcomes of the runs in their stores.

``results.csv`` of an experiment is digested column by column. Outcomes are digested by what they call a number, over
all runs of the paper and in order of the digests: however runs and files are named, the numbers remain. What differs
between two repetitions, as measured times do, is not compared: :func:`write` runs everything twice.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.pins.digests import compare, digest_of_text, wanted
from tests.pins.renamed import RENAMED

__all__ = ["PAPERS", "check", "write"]

PAPERS = ("dbf", "lachesis", "osdec", "ogasched")
DIGESTS = Path(__file__).parent / "digests" / "experiments.json"


def reproduced(paper: str) -> dict[str, list[str]]:
    """Reproduce a paper in its quick settings, and return digests by experiment and column, and by outcome."""
    with tempfile.TemporaryDirectory() as directory:
        command = ["-m", "desim", "reproduce", paper, "--quick", "--jobs", "1", "--out", directory]
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{paper}: {' '.join(command)} has ended with {done.returncode}: {done.stderr[-2000:]}")
        return _tables(Path(directory)) | _outcomes(Path(directory))


def _tables(directory: Path) -> dict[str, list[str]]:
    found = {}
    for path in sorted(directory.glob("*/results.csv")):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        for name in dict.fromkeys(name for row in rows for name in row):
            found[f"{path.parent.name}.{name}"] = [digest_of_text(json.dumps([row.get(name) for row in rows]))]
    return found


def _outcomes(directory: Path) -> dict[str, list[str]]:
    values: dict[str, list[str]] = defaultdict(list)
    for path in sorted(directory.glob("runs/*.json")):
        outcome: dict[str, Any] = json.loads(path.read_text())["outcome"]
        for name, value in outcome.items():
            values[name].append(digest_of_text(json.dumps(value)))
    return {f"outcome.{name}": [digest_of_text(" ".join(sorted(digests)))] for name, digests in values.items()}


def _written() -> dict[str, dict[str, str]]:
    return json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}


def check(paper: str, only: list[str]) -> bool:
    """Compare a paper, and print a line."""
    begin = time.perf_counter()
    then = {name: [digest] for name, digest in _written()[paper].items()}
    difference = compare(then, reproduced(paper), RENAMED.get(paper, {}))
    restricted = difference.restricted(lambda name: wanted(name, only) and then.get(name) != [VOLATILE])
    print(f"{paper}: {restricted} [{time.perf_counter() - begin:.0f} s of wall time]", flush=True)
    return restricted.is_fine


VOLATILE = "*"
"""Stands for what is never the same twice."""


def write(paper: str, only: list[str]) -> None:
    """Write the digests of a paper, of all columns or of some; it is reproduced twice."""
    one, two = reproduced(paper), reproduced(paper)
    found = {name: digests[0] if two[name] == digests else VOLATILE for name, digests in one.items()}
    written = _written()
    kept = {name: digest for name, digest in written.get(paper, {}).items() if only and not wanted(name, only)}
    found = kept | {name: digest for name, digest in found.items() if wanted(name, only)}
    written[paper] = dict(sorted(found.items()))
    DIGESTS.write_text(json.dumps(dict(sorted(written.items())), indent=0) + "\n")
    print(f"{paper}: {len(found)} columns, of which {list(found.values()).count(VOLATILE)} never the same", flush=True)
