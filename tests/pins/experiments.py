"""What the quick experiments of the four papers come to: their tables, and the outcomes of the runs in their stores.

Each value has a digest: in ``frame.csv`` of an experiment by metric; in the outcomes of the runs by what a value is
called there, and in no order, so that they remain however runs and files are named. What differs between two
repetitions, as measured times do, and what a solver finds within its time, is not compared: :func:`write` runs
everything twice and keeps what is the same.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.pins.comparing import Difference, digest_of_text, present_name, wanted
from tests.pins.renamed import RENAMED

__all__ = ["PAPERS", "check", "write"]

PAPERS = ("dbf", "lachesis", "osdec", "ogasched")
WHOLE = "="
"""Begins the one digest of values that are always the same; the others have one each."""
SOLVED = {"osdec": ("outcome.*", "table4.*")}
"""Columns with values that depend on how far a solver comes in its time: one value in twenty may be another."""
DIGESTS = Path(__file__).parent / "digests" / "experiments.json"


def reproduced(paper: str) -> dict[str, list[str]]:
    """Reproduce a paper in its quick settings, and return digests by column and by outcome."""
    with tempfile.TemporaryDirectory() as directory:
        command = ["-m", "desim", "reproduce", paper, "--quick", "--jobs", "1", "--out", directory]
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{paper}: {' '.join(command)} has ended with {done.returncode}: {done.stderr[-2000:]}")
        return _tables(Path(directory)) | _outcomes(Path(directory))


def _tables(directory: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(directory.glob("*/frame.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                found[f"{path.parent.name}.{row['metric']}"].append(_digest(list(row.values())))
    return found


def _outcomes(directory: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(directory.glob("runs/*.json")):
        for name, value in json.loads(path.read_text())["outcomes"][0]["outcome"].items():
            found[f"outcome.{name}"].append(_digest(value))
    return found


def _digest(value: Any) -> str:
    return digest_of_text(json.dumps(value))[:8]


def _written() -> dict[str, dict[str, str]]:
    written: dict[str, dict[str, str]] = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    return written


def _num_different(then: str, now: list[str]) -> int:
    """Return how many of the values that were written are not there any more; all count if there is one digest."""
    if then.startswith(WHOLE):
        return 0 if then == _whole(now) else len(now)
    return (Counter(then.split()) - Counter(now)).total()


def _whole(digests: list[str]) -> str:
    return WHOLE + digest_of_text(" ".join(sorted(digests)))


def _tolerated(paper: str, name: str, now: list[str]) -> int:
    return len(now) // 20 if paper in SOLVED and wanted(name, SOLVED[paper]) else 0


def check(paper: str, only: list[str]) -> bool:
    """Compare a paper, and print a line; columns of which nothing is ever the same need only be there."""
    begin = time.perf_counter()
    now, found = reproduced(paper), Difference()
    names = {name: present_name(name, RENAMED.get(paper, {})) for name in _written()[paper]}
    for name, new in names.items():
        if new is None or not wanted(new, only):
            continue
        if new not in now:
            found.gone.append(new)
        elif (count := _num_different(_written()[paper][name], now[new])) > _tolerated(paper, new, now[new]):
            found.differ[new] = [0] * count
        else:
            found.equal.append(new)
    found.new = [name for name in now if wanted(name, only) and name not in names.values()]
    print(f"{paper}: {found.in_words('values')} [{time.perf_counter() - begin:.0f} s of wall time]", flush=True)
    return found.is_fine


def write(paper: str, only: list[str]) -> None:
    """Write the digests of a paper, of all columns or of some; it is reproduced twice."""
    one, two = reproduced(paper), reproduced(paper)
    found = {}
    for name, digests in one.items():
        same = Counter(digests) & Counter(two.get(name, ()))
        is_same = same.total() == len(digests) and not _tolerated(paper, name, digests)
        found[name] = _whole(digests) if is_same else " ".join(sorted(same.elements()))
    found = {name: digest for name, digest in found.items() if wanted(name, only)}
    written = _written()
    kept = {name: digests for name, digests in written.get(paper, {}).items() if only and not wanted(name, only)}
    written[paper] = dict(sorted((kept | found).items()))
    DIGESTS.write_text(json.dumps(dict(sorted(written.items())), indent=0) + "\n")
    varied = [name for name, digest in found.items() if not digest.startswith(WHOLE)]
    print(f"{paper}: {len(found)} columns; not always the same: {', '.join(varied) or 'none'}", flush=True)
