"""Small files that would take all memory or time are refused within two seconds and 300 MB, imports included."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

BATCH = ["run", "batch", "--agent", "fcfs", "--jobs", "5"]
TRACE = ["run", "batch", "--agent", "fcfs", "--cores", "4", "--trace"]
DAG = ["run", "dag", "--agent", "heft", "--executors", "2", "--trace"]
MOST_SECONDS, MOST_MB = 2.0, 300
SIZE = 1 << 27


def packed(head: bytes, fill: bytes) -> Callable[[Path], object]:
    """Return a function that writes 128 MiB of one letter, packed."""

    def write(path: Path) -> None:
        opener = gzip.open if path.suffix == ".gz" else bz2.open
        with opener(path, "wb", compresslevel=9) as file:
            file.write(head)
            for _ in range(SIZE >> 20):
                file.write(fill * (1 << 20))

    return write


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def rows(path: Path) -> None:
    row = {"submission_time": 0.0, "requested_cores": 1, "requested_time": 10.0, "run_time": 10.0}
    pl.DataFrame([row]).sample(40_000_000, with_replacement=True).write_parquet(path)


def aliases(path: Path) -> None:
    lines = [
        "a: &a [x, x]",
        *(f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)),
    ]
    path.write_text("\n".join(lines))


def huge_machine(path: Path) -> None:
    job = {"id": "1", "subtime": 0, "res": 1, "profile": "d"}
    path.write_text(json.dumps({"nb_res": 10**9, "jobs": [job], "profiles": {"d": {"type": "delay", "delay": 1}}}))


#: Name of the file, what makes it, the command before its name, and a part of the answer.
BOMBS: list[tuple[str, Callable[[Path], object], list[str], str]] = [
    ("bomb.json.gz", packed(b'{"x": "', b" "), TRACE, "unpacks to more than 200 times its size"),
    ("bomb.csv.gz", packed(b"id,subtime\n", b" "), TRACE, "unpacks to more than 200 times its size"),
    ("bomb.swf.gz", packed(b"; MaxProcs: 4\n", b"\n"), TRACE, "unpacks to more than 200 times its size"),
    ("bomb.json.bz2", packed(b"", b" "), TRACE, "unpacks to more than 200 times its size"),
    ("bomb.dax.gz", packed(b"<adag>", b" "), DAG, "unpacks to more than 200 times its size"),
    ("bomb.yaml.gz", packed(b"- name: ", b" "), [*BATCH, "--nodes"], "unpacks to more than 200 times its size"),
    *((f"zero.{kind}", lambda path: path.symlink_to("/dev/zero"), TRACE, "is a device") for kind in ("swf", "csv")),
    ("zero.parquet", lambda path: path.symlink_to("/dev/zero"), TRACE, "is a device"),
    ("zero.dax", lambda path: path.symlink_to("/dev/zero"), DAG, "is a device"),
    ("sparse.swf", sparse, TRACE, "line 1 is longer than 1,048,576 bytes"),
    ("sparse.json", sparse, TRACE, "is larger than 1,073,741,824 bytes"),
    ("rows.parquet", rows, TRACE, "has 40,000,000 rows in"),
    ("aliases.yaml", aliases, [*BATCH, "--nodes"], "got an alias, expected none"),
    ("deep.yaml", lambda path: path.write_text("[" * 20_000), [*BATCH, "--nodes"], "nested deeper than 100 levels"),
    ("deep.json", lambda path: path.write_text('{"a":' * 100_000), TRACE, "nested too deeply"),
    ("count.csv", lambda path: path.write_text("count,cores\n1000000000,4\n"), [*BATCH, "--nodes"], "got 1000000000"),
    ("machine.json", huge_machine, ["run", "batch", "--agent", "fcfs", "--trace"], "got 1000000000"),
]


def refused(command: list[str]) -> tuple[int, str, float, float]:
    """Return status, errors, processor time in seconds and peak memory in MB of a command."""
    errors_end, into = os.pipe()
    process = subprocess.Popen([sys.executable, "-m", "desim", *command], stdout=subprocess.DEVNULL, stderr=into)
    os.close(into)
    with os.fdopen(errors_end) as file:
        errors = file.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, errors, used.ru_utime + used.ru_stime, used.ru_maxrss / 1_000


@pytest.mark.slow
def test_small_files_do_not_take_memory_or_time(tmp_path: Path) -> None:
    own = refused(["--version"])[3]  # of the process that this test runs in, which its children count as theirs
    for name, make, command, told in BOMBS:
        path = tmp_path / name
        make(path)
        status, errors, seconds, memory = refused([*command, str(path)])
        path.unlink()
        print(f"| {name} | {status} | {seconds:.2f} s | {memory:.0f} MB |", errors.strip())
        assert (status, errors.count("\n")) == (2, 1)
        assert told in errors
        assert seconds < MOST_SECONDS
        assert memory < max(own + 1.0, MOST_MB)
