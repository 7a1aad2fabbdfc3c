"""Mutants, one after the other in a copy of the tree."""

from __future__ import annotations

import compileall
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import Any

from tests.mutants.mutant import ROOMS, Mutant
from tests.mutants.tree import copied, find, replace, sources, test_paths

__all__ = ["KILLED", "Results", "run_all", "run_tests"]

KILLED = ("killed", "timeout")
"""Outcomes of mutants that were found out."""

LONGEST = 300.0
"""Seconds that one test module may take: a mutant that loops is found out, too."""

_PYTEST = ("-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=line")
_DERANDOMIZED = "--hypothesis-seed=0"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Results:
    """What has become of mutants, in a file that is written after each.

    Parameters
    ----------
    path : Path
        The file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.by_name: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
        self._lock = threading.Lock()

    def add(self, name: str, result: dict[str, Any]) -> None:
        """Keep a result."""
        with self._lock:
            self.by_name[name] = result
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lines = (f"{json.dumps(name)}: {json.dumps(self.by_name[name])}" for name in sorted(self.by_name))
            self.path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def run_tests(tree: Path, path: str) -> tuple[int | None, str]:
    """Run a test module or folder in a copy of the tree.

    Returns
    -------
    tuple of (int or None, str)
        The exit status of pytest, None if it took too long; and the first test that failed.
    """
    environment = os.environ | {
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    shutil.rmtree(tree / ".hypothesis", ignore_errors=True)  # no examples from other mutants
    command = [sys.executable, *_PYTEST, _DERANDOMIZED, path]
    with subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return None, ""
    found = _FAILED.search(output)
    return process.returncode, found[1] if found else output.strip().rpartition("\n")[2][:200]


def _try(mutant: Mutant, tree: Path, *, wide: bool) -> dict[str, Any]:
    """Run the tests of a mutant in a copy of the tree, and leave the copy as it was."""
    place = find(mutant, sources(tree))
    if isinstance(place, str):
        return {"outcome": place}
    paths = test_paths(tree, mutant.tests)
    if wide:
        paths += test_paths(tree, tuple(f"{folder}/" for folder in ROOMS[mutant.room]))
    begin = time.perf_counter()
    before = replace(place)
    result: dict[str, Any] = {"outcome": "survived" if paths else "no tests", "in": str(place.path.relative_to(tree))}
    try:
        for path in paths:
            status, failed = run_tests(tree, path)
            if status is None:
                result |= {"outcome": "timeout", "by": path}
            elif status in (1, 2):  # a test has failed, or a module cannot be imported any more
                result |= {"outcome": "killed", "by": failed}
            elif status:
                result |= {"outcome": f"pytest ended with {status}", "by": f"{path}: {failed}"}
            if status != 0:
                break
    finally:
        place.path.write_text(before, encoding="utf-8")
    return result | {"seconds": round(time.perf_counter() - begin, 1)}


def run_all(
    mutants: Iterable[Mutant],
    tree: Path,
    results: Results,
    *,
    jobs: int = 1,
    wide: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Run mutants that have no result yet.

    Parameters
    ----------
    mutants : iterable of Mutant
        Which.
    tree : Path
        The checkout; it is copied.
    results : Results
        What is known, and where new results go.
    jobs : int
        How many at a time; each has a copy of the tree.
    wide : bool
        Whether to go on with all tests of the room where the tests of a mutant do not find it.
    say : callable
        Takes a line on each.
    """
    copies: Queue[Path] = Queue()

    def one(mutant: Mutant) -> None:
        copy = copies.get()
        try:
            result = _try(mutant, copy, wide=wide)
        finally:
            copies.put(copy)
        results.add(mutant.name, result)
        details = " ".join(str(result[key]) for key in ("seconds", "by") if key in result)
        say(f"{result['outcome']:<9} {mutant.room:<12} {mutant.name}  {details}")

    with TemporaryDirectory(prefix="mutants-") as directory, ThreadPoolExecutor(jobs) as pool:
        for number in range(jobs):
            copy = copied(tree, Path(directory) / str(number))
            mode = py_compile.PycInvalidationMode.CHECKED_HASH  # two versions in one second are told apart
            compileall.compile_dir(copy, quiet=2, invalidation_mode=mode)
            copies.put(copy)
        for future in [pool.submit(one, mutant) for mutant in mutants]:
            future.result()
