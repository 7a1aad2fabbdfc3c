"""Signals, full and read-only disks, and two processes on one directory: nothing is lost or half written."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from command_line import INTERRUPTIBLE

from desim import Result
from desim.validation import validate

CALL = [sys.executable, "-c", f"{INTERRUPTIBLE}import sys; from desim.cli import main; sys.exit(main())"]
RUN = ["run", "batch", "--jobs", "400000", "--cores", "64", "--agent", "fcfs", "--stream", "--out"]
COMPILED = ["run", "batch", "--jobs", "300000", "--cores", "64", "--agent", "fcfs", "--engine", "compiled", "--out"]
COMPARE = ["compare", "batch", "--jobs", "3000", "--agents", "fcfs,easy", "--seeds", "4", "--json"]
SWEEP = ["compare", "batch", "--jobs", "1000", "--agents", "fcfs,easy", "--seeds", "2", "--load", "0.7,0.9", "--json"]
TRAIN = [
    "train", "batch", "--num-cores", "16", "--head", "4", "--tail", "2", "--num-traces", "2", "--trace-jobs", "60",
    "--num-jobs", "15", "--num-envs", "2", "--num-steps", "20", "--validation-episodes", "1", "--validate-every", "10",
    "--total-steps", "4000", "--seed", "1",
]  # fmt: skip
REPRODUCE = ["reproduce", "ogasched", "--only", "figure7", "--quick", "--seeds", "1", "--jobs", "1"]
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
            assert "part-000003" not in phase  # the first with rows is complete once result.json says so
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
@pytest.mark.parametrize("phase", ["result.json", "jobs/part-000002.parquet"])
def test_a_signal_ends_a_compiled_run_at_a_whole_part(tmp_path: Path, number: int, phase: str) -> None:
    out = tmp_path / "run"
    status, errors, seconds = ended([*COMPILED, str(out)], number, (out / phase).exists)
    print(signal.Signals(number).name, "compiled run", phase, status, f"{seconds:.2f} s", errors.strip())
    assert seconds < SOON
    assert status == (-number if number == signal.SIGKILL else 1)
    if number == signal.SIGKILL:
        subprocess.run([*CALL, "recover", str(out)], capture_output=True, check=False)
    if phase != "result.json":
        assert Result.load(out).info["status"] == "interrupted"
        assert validate(Result.load(out)).ok


def steps_of(out: Path) -> int:
    """Return the number of decisions of a training that are stored."""
    path = out / "checkpoint" / "checkpoint.json"
    return int(json.loads(path.read_text())["steps"]) if path.exists() else 0


def num_stored(out: Path) -> int:
    """Return the number of runs that are stored."""
    found = os.walk(out)  # which directories may leave meanwhile
    return sum(name.endswith(".json") for place, _, names in found if Path(place).name == "runs" for name in names)


#: Commands that continue, when they are in which phase, and files that do not depend on interruptions.
CONTINUED: dict[str, tuple[list[str], dict[str, Callable[[Path], bool]], list[str]]] = {
    "compare, 1 worker": (
        [*COMPARE, "--workers", "1"],
        {"start": Path.exists, "middle": lambda out: num_stored(out) >= 2, "late": lambda out: num_stored(out) >= 7},
        ["comparison.csv"],
    ),
    "compare, 2 workers": (
        [*COMPARE, "--workers", "2"],
        {"start": Path.exists, "middle": lambda out: num_stored(out) >= 2, "late": lambda out: num_stored(out) >= 6},
        ["comparison.csv"],
    ),
    "sweep": (
        [*SWEEP, "--workers", "1"],
        {"start": Path.exists, "middle": lambda out: num_stored(out) >= 3, "late": lambda out: num_stored(out) >= 7},
        ["load=0.7/comparison.csv", "load=0.9/comparison.csv", "sweep.csv"],
    ),
    "train": (
        TRAIN,
        {
            "start": lambda out: (out / "checkpoint").exists(),
            "middle": lambda out: steps_of(out) >= 800,
            "late": lambda out: steps_of(out) >= 3_200,
        },
        ["split-window-4-2.safetensors"],
    ),
    "reproduce": (
        REPRODUCE,
        {"start": Path.exists, "middle": lambda out: num_stored(out) >= 1, "late": lambda out: num_stored(out) >= 6},
        ["figure7/frame.csv"],
    ),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the directory of a command that was not interrupted."""
    found: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in found:
            found[name] = tmp_path_factory.mktemp("whole") / "out"
            command = [*CALL, *CONTINUED[name][0], "--out", str(found[name])]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return found[name]

    return make


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("name", CONTINUED)
def test_what_continues_after_a_signal_ends_with_the_same_bytes(
    tmp_path: Path, whole: Callable[[str], Path], name: str, number: int
) -> None:
    options, phases, files = CONTINUED[name]
    for phase, is_time in phases.items():
        out = tmp_path / phase
        command = [*options, "--out", str(out)]
        status, errors, seconds = ended(command, number, partial(is_time, out))
        before = num_stored(out)
        told = errors.strip().splitlines()[-1:] or [""]
        print(signal.Signals(number).name, name, phase, status, f"{seconds:.2f} s", f"{before} stored:", told[0][-120:])
        assert seconds < SOON
        assert status == (-number if number == signal.SIGKILL else 1)
        again = subprocess.run([*CALL, *command], capture_output=True, text=True, check=False)
        assert again.returncode == 0, again.stderr
        assert list(out.rglob("*.partial")) == []
        assert num_stored(out) >= before
        for file in files:
            assert (out / file).read_bytes() == (whole(name) / file).read_bytes(), (phase, file)


@pytest.mark.slow
def test_limits_of_the_machine_are_one_sentence(tmp_path: Path) -> None:
    small = ["run", "batch", "--jobs", "20000", "--agent", "fcfs", "--stream", "--out", str(tmp_path / "run")]
    compare = [*COMPARE, "--workers", "1", "--out", str(tmp_path / "compare")]
    other = [*small[:-1], str(tmp_path / "other")]
    large = ["run", "batch", "--jobs", "90000000", "--agent", "fcfs"]
    for limit, most, command, told in (
        (resource.RLIMIT_FSIZE, 50_000, small, "File too large"),
        (resource.RLIMIT_FSIZE, 50_000, compare, "File too large"),
        (resource.RLIMIT_AS, 1 << 30, large, "memory is exhausted"),
        (resource.RLIMIT_NOFILE, 8, other, "Too many open files"),
    ):
        done = subprocess.run(
            [*CALL, *command],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda limit=limit, most=most: resource.setrlimit(limit, (most, most)),
        )
        print("rlimit", limit, command[0], done.returncode, done.stderr.strip()[-200:])
        if limit != resource.RLIMIT_NOFILE:  # with few files, Python itself may not start
            assert done.returncode == 1
            assert told in done.stderr.splitlines()[-1]
            assert "Traceback" not in done.stderr
        assert list(tmp_path.rglob("*.partial")) == []
    again = subprocess.run([*CALL, *compare], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr


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
desim(*compare, "--out", f"{place}/another")
desim("train", "batch", "--quick", "--out", f"{place}/training")
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
    kept, *full, again, _, _, _, _ = found = json.loads(done.stdout)
    print(done.stdout)
    assert (kept[1], again[1]) == (0, 0)
    for name, status, errors in full:
        assert (name, status) == (name, 1)
        assert "No space left on device" in errors
        assert errors.rstrip().splitlines()[-1].startswith("desim: error: cannot ")
    for _, status, errors in found[-4:]:
        assert (status, errors.count("\n")) == (2, 1), errors
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
