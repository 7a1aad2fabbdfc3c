"""Signals, full and read-only disks, and two processes on one directory: nothing is lost or half written."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import INTERRUPTIBLE

from desim import Result
from desim.validation import validate

CALL = [sys.executable, "-c", f"{INTERRUPTIBLE}import sys; from desim.cli import main; sys.exit(main())"]
RUN = ["run", "batch", "--jobs", "400000", "--cores", "64", "--agent", "fcfs", "--stream", "--out"]
COMPARE = ["compare", "batch", "--jobs", "3000", "--agents", "fcfs,easy", "--seeds", "4", "--json", "--out"]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
#: Seconds in which a command ends after a signal, on a machine that others use as well.
SOON = 5.0


def ended(arguments: list[str], number: int, is_time: Callable[[], bool]) -> tuple[int, str, float]:
    """Start a command, send it a signal when it is time, and return its status, its errors and how long it went on."""
    process = subprocess.Popen([*CALL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not is_time() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()
    begin = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors, time.monotonic() - begin


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("phase", ["result.json", "jobs/part-000001.parquet", "jobs/part-000003.parquet"])
def test_a_signal_ends_a_run_with_what_it_has_recorded(tmp_path: Path, number: int, phase: str) -> None:
    out = tmp_path / "run"
    status, errors, seconds = ended([*RUN, str(out)], number, (out / phase).exists)
    print(signal.Signals(number).name, "run", phase, status, f"{seconds:.2f} s", errors.strip())
    assert seconds < SOON
    if number == signal.SIGKILL:
        assert status == -number
        done = subprocess.run([*CALL, "recover", str(out)], capture_output=True, text=True, check=False)
        if done.returncode == 2:
            assert "before a part was complete" in done.stderr
            assert "part-000001" not in phase
            assert "part-000003" not in phase
            return
    else:
        assert status == 1
        assert errors.count("\n") == 1
        assert "interrupted" in errors
        if phase == "result.json":  # before the first decision, perhaps
            return
    result = Result.load(out)
    assert result.info["status"] == "interrupted"
    assert validate(result).ok
    assert [path.name for path in out.rglob("*.partial")] == []


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_a_comparison_continues_after_a_signal_and_ends_with_the_same_bytes(tmp_path: Path, number: int) -> None:
    for workers in ("1", "2"):
        out = tmp_path / workers
        command = [*COMPARE, str(out), "--workers", workers]
        status, errors, seconds = ended(command, number, lambda out=out: len(list(out.glob("runs/*.json"))) >= 2)
        print(
            signal.Signals(number).name, "compare, workers", workers, status, f"{seconds:.2f} s", errors[-120:].strip()
        )
        assert seconds < SOON
        assert status == (-number if number == signal.SIGKILL else 1)
        again = subprocess.run([*CALL, *command], capture_output=True, text=True, check=False)
        assert again.returncode == 0, again.stderr
        assert list(out.rglob("*.partial")) == []
    whole = tmp_path / "whole"
    subprocess.run([*CALL, *COMPARE, str(whole), "--workers", "1"], capture_output=True, check=True)
    for workers in ("1", "2"):
        assert (tmp_path / workers / "comparison.csv").read_bytes() == (whole / "comparison.csv").read_bytes()


SMALL_DISK = """
import contextlib, io, json, subprocess, sys
from desim.cli import main

def mount(*options):
    subprocess.run(["mount", *options, sys.argv[1]], check=True)

found = []
def desim(*arguments):
    error = io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        status = main(list(arguments))
    found.append([arguments[0], status, error.getvalue()])

place = sys.argv[1]
compare = ["compare", "batch", "--jobs", "400", "--agents", "fcfs,easy", "--seeds", "3", "--workers", "1"]
desim("run", "batch", "--jobs", "3000", "--agent", "fcfs", "--out", f"{place}-kept")
mount("-t", "tmpfs", "-o", "size=48k", "tmpfs")
desim("run", "batch", "--jobs", "30000", "--agent", "fcfs", "--out", f"{place}/run")
subprocess.run(["rm", "-rf", f"{place}/run"])
desim("convert", f"{place}-kept", f"{place}/jobs.csv")
desim("view", f"{place}-kept", "--out", f"{place}/view.html")
desim("plot", f"{place}-kept", "--out", f"{place}/figures")
desim(*compare, "--out", f"{place}/compare")
mount("-o", "remount,size=64m")
desim(*compare, "--out", f"{place}/compare")
mount("-o", "remount,ro")
desim("run", "batch", "--jobs", "5", "--agent", "fcfs", "--out", f"{place}/other")
desim("convert", f"{place}-kept", f"{place}/other.csv")
print(json.dumps(found))
"""


@pytest.mark.slow
def test_a_full_or_read_only_disk_is_one_sentence_and_a_sweep_continues_later(tmp_path: Path) -> None:
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespaces here")
    (tmp_path / "disk").mkdir()
    command = [*unshare, sys.executable, "-c", SMALL_DISK, str(tmp_path / "disk")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kept, *full, again, read_only, unwritten = json.loads(done.stdout)
    print(done.stdout)
    assert (kept[1], again[1]) == (0, 0)
    for name, status, errors in full:
        assert (name, status) == (name, 1)
        assert "No space left on device" in errors
        assert errors.rstrip().splitlines()[-1].startswith("desim: error: cannot ")
    for _, status, errors in (read_only, unwritten):
        assert (status, errors.count("\n")) == (2, 1)
        assert "Read-only file system" in errors


@pytest.mark.slow
def test_a_second_process_does_not_touch_the_directory_of_the_first(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = subprocess.Popen([*CALL, *RUN, str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (out / "jobs" / "part-000001.parquet").exists():
        assert first.poll() is None
        time.sleep(0.01)
    for command in ([*RUN, str(out), "--force"], ["recover", str(out)]):
        second = subprocess.run([*CALL, *command], capture_output=True, text=True, check=False)
        assert second.returncode == 2
        assert "is being written by another run" in second.stderr
    first.send_signal(signal.SIGTERM)
    first.communicate()
    assert validate(Result.load(out)).ok
