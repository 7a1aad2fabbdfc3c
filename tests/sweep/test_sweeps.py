"""Sweeps that are killed, run out of disk, meet broken files and each other: all results, once, and the right ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sweep_runs import Walk, Walker, awkward, record, traced, walk, walks

from desim.exceptions import InvalidConfiguration, MissingDependency
from desim.files import write_durably
from desim.sweep import (
    Run,
    StorageError,
    Store,
    SweepFailed,
    SweepStatus,
    Workers,
    recording,
    run_all,
    runner,
    settings_of,
)

HERE = Path(__file__).parent
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{HERE.parents[1]}:{HERE}"}


def program(
    store: Store, trace: Path, count: int, *, jobs: int = 1, steps: int = 10, dies_at: int = 0, held_from: int = 10_000
) -> Any:
    """Start a sweep as a program of its own, one that dies when it writes, or one of which some runs do not end."""
    Path(f"{trace}.held").touch()
    arguments = [store.directory, trace, count, jobs, steps, dies_at]
    return subprocess.Popen(
        [sys.executable, str(HERE / "sweep_runs.py"), *map(str, arguments)],
        env=ENVIRONMENT | {"HELD_FROM": str(held_from)},
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(condition: Callable[[], bool], child: Any) -> None:
    """Wait for what a process is going to do, however long it takes."""
    while not condition():
        assert child.poll() is None, child.communicate()[1]
        time.sleep(0.002)


def contents(store: Store) -> dict[str, bytes]:
    """Return all files of runs, but for how long they took, which stands at their end."""
    files = {path.name: path.read_bytes() for path in store.directory.glob("*.json")}
    assert all(re.search(rb', "seconds": [0-9.e-]+}\]}\n$', text) for text in files.values())
    return {name: text.rpartition(b", ")[0] for name, text in files.items()}


def leftovers(store: Store) -> list[Path]:
    return list(store.directory.rglob(".*"))


def undisturbed(tmp_path: Path, runs: list[Run]) -> dict[str, bytes]:
    """Return the files of the same sweep on a store of its own."""
    store = Store(tmp_path / "undisturbed")
    run_all(walk, runs, store, workers=Workers(1))
    (tmp_path / "trace").unlink()
    return contents(store)


# -- performing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_run_is_performed_once_and_never_again(tmp_path: Path, jobs: int) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    (zero, one, two, three) = walks(trace, 4)
    same = Run(one.setting, Walker(length=1), 1)
    outcomes = run_all(walk, [two, zero, one, two, same], store, workers=Workers(jobs))
    assert traced(trace) == [0, 1, 2]
    assert list(outcomes) == [two, zero, one]
    assert (outcomes.performed, [run.reused for run in outcomes]) == (3, [False] * 3)
    assert outcomes[one]["end"] == walk(one)["end"]
    assert outcomes[one]["nothing"] is None
    again = run_all(walk, [two, three], store, workers=Workers(jobs))
    assert (again.performed, [run.reused for run in again], again[two]) == (1, [True, False], outcomes[two])
    assert traced(trace) == [0, 1, 1, 2, 3]
    assert 0 < again.seconds < 60


def test_without_a_store_nothing_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = walks(tmp_path / "trace", 3)
    for _ in range(2):
        outcomes = run_all(walk, runs, workers=Workers(1))
        assert [outcomes[run]["end"] for run in runs] == [walk(run)["end"] for run in runs]
    assert capsys.readouterr().err == ""
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]


def test_records_are_kept_beside_outcomes(tmp_path: Path) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    runs = walks(trace, 2, Walker("raises"))
    outcomes = run_all(record, runs, store, workers=Workers(1), with_records=True)
    notes = [run.records / "note.txt" for run in outcomes if run.records]
    assert [note.read_text() for note in notes] == ["0", "1"]
    shutil.rmtree(notes[1].parent)
    run_all(record, runs, store, workers=Workers(1), with_records=True)
    assert traced(trace) == [0, 1, 1]
    Path(f"{trace}.ill").touch()
    notes[1].parent.rename(tmp_path / "elsewhere")
    with pytest.raises(SweepFailed):
        run_all(record, runs, store, workers=Workers(1), with_records=True)
    assert not notes[1].exists()
    assert leftovers(store) == []
    assert run_all(record, runs[:1], workers=Workers(1), with_records=True)[runs[0]]["end"] == walk(runs[0])["end"]


@dataclass(frozen=True)
class Trace:
    """Told from others by the content of a file."""

    path: Path

    def identity(self) -> dict[str, Any]:
        return {"content": self.path.read_text()}


def test_whatever_determines_a_run_is_part_of_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("1")
    other.write_text("2")
    base = Run(Walk("a"), Walker("b"), 0)
    wanted = [base, *(Run(Walk("a"), agent, 0) for agent in ("b", "c", Walker("b", 3.0)))]
    wanted += [Run(Walk("c"), Walker("b"), 0), Run(Walk("a"), Walker("b"), 1), Run(Trace(one), "b", 0)]
    wanted += [Run(Trace(other), "b", 0)]
    keys = [settings_of(walk, run) for run in wanted] + [settings_of(record, base)]
    assert len({Store(tmp_path).path(key) for key in keys}) == len(keys)
    other.write_text("1")
    assert settings_of(walk, wanted[-1]) == settings_of(walk, wanted[-2])
    assert Store(tmp_path).path(keys[1]).name.startswith("b-seed-0-")
    with pytest.raises(InvalidConfiguration, match="expected plain values"):
        settings_of(walk, Run(object(), "b", 0))
    monkeypatch.setattr(walk, "__module__", "__main__")  # no change of its code would be noticed
    with pytest.raises(InvalidConfiguration, match="walk performs runs, so it must be defined in an importable module"):
        settings_of(walk, base)


def test_an_interruption_keeps_what_is_finished(tmp_path: Path) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    Path(f"{trace}.ill").touch()
    runs = walks(trace, 5, Walker("stops"))
    with pytest.raises(KeyboardInterrupt, match="2 of 5 runs are stored; run the same command again to continue"):
        run_all(walk, runs, store, workers=Workers(1))
    assert len(contents(store)) == 2
    with pytest.raises(KeyboardInterrupt, match=r"2 of 5 runs are done$"):
        run_all(walk, runs, workers=Workers(1))


def test_progress_without_a_terminal_is_a_line_now_and_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PERIOD", 0.0)
    Path(f"{tmp_path / 'trace'}.ill").touch()
    with pytest.raises(SweepFailed):
        run_all(walk, walks(tmp_path / "trace", 4, Walker("raises")), workers=Workers(1), title="walks")
    told = [re.sub(r"\d+ s left", "T left", line) for line in capsys.readouterr().err.splitlines()]
    assert told == [
        "walks: 1 of 4 runs",  # nothing is known yet, as processes and workloads take a while before
        "walks: 2 of 4 runs, 1 failed, about T left",
        "walks: 3 of 4 runs, 1 failed, about T left",
    ]
    words = [runner.duration(seconds) for seconds in (4.4, 89, 91, 5_300, 5_500)]
    assert words == ["4 s", "89 s", "2 min", "88 min", "1.5 h"]


# -- kills ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_again_and_again_a_sweep_ends_as_if_nothing_had_been(tmp_path: Path, jobs: int) -> None:
    """Of one process, whatever it is about to write; of several, while all of them perform a run."""
    count, trace, store = 24, tmp_path / "trace", Store(tmp_path / "runs")
    writes = (1, 2, 3, 5, 8, 12, 13, 14) if jobs == 1 else (0, 0)
    kills = len(writes)
    runs = walks(trace, count, steps=8_000)
    wanted = undisturbed(tmp_path, runs)
    for kill, dies_at in enumerate(writes):
        if jobs == 1:
            child = program(store, trace, count, steps=8_000, dies_at=dies_at)
        else:
            child = program(store, trace, count, jobs=jobs, steps=8_000, held_from=5 * kill)
            wait_until(lambda kill=kill: len(traced(trace)) >= 5 * kill + jobs * (1 + kill), child)
            child.kill()
        told = child.communicate()[1]
        assert child.returncode == -signal.SIGKILL, told
        assert set(contents(store).items()) <= set(wanted.items())
        assert not any(sweep.running for sweep in store.sweeps())
    assert 0 < len(contents(store)) < count
    child = program(store, trace, count, jobs=jobs, steps=8_000)
    assert "already stored" in child.communicate()[1]
    assert child.returncode == 0
    performed = len(traced(trace))
    outcomes = run_all(walk, runs, store, workers=Workers(1))
    assert len(traced(trace)) == performed <= count + kills * jobs  # only what was being performed was lost
    assert contents(store) == wanted
    assert leftovers(store) == []
    assert list(outcomes) == runs


# -- storage that cannot be written ----------------------------------------------------------------


FULL = """
import json, resource, subprocess, sys
from pathlib import Path
from desim.sweep import StorageError, Store, Workers, run_all, settings_of
from sweep_runs import walk, walks

store, trace, jobs, how = Store(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
runs = walks(trace, 24, steps=1_000)
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
if how == "tmpfs":
    store.directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192k", "tmpfs", str(store.directory)], check=True)
else:
    runs = runs[:5] + walks(trace, 24, steps=4_000)[5:]
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limits[1]))
try:
    run_all(walk, runs, store, workers=Workers(jobs))
    raise SystemExit("nothing went wrong")
except StorageError as error:
    message = str(error)
found = [run.seed for run in runs if store.recall(settings_of(walk, run)) is not None]
left = [path.name for path in store.directory.rglob(".*")]
began = len(trace.read_text().split())
if how == "tmpfs":
    subprocess.run(["mount", "-o", "remount,size=16m", str(store.directory)], check=True)
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
outcomes = run_all(walk, runs, store, workers=Workers(jobs))
right = [outcomes[run]["end"] == walk(run)["end"] for run in runs]
print(json.dumps({"message": message, "found": found, "left": left, "began": began, "right": right}))
"""


def in_a_namespace(*command: str) -> list[str]:
    """Return a command that may mount what only it sees; skip the test where this is not allowed."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespaces here")
    return [*unshare, *command]


@pytest.mark.parametrize(("how", "jobs"), [("tmpfs", 1), ("tmpfs", 2), ("limit", 1)])
def test_a_full_disk_ends_a_sweep_and_costs_nothing_that_was_stored(tmp_path: Path, how: str, jobs: int) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path / "runs"), str(tmp_path / "trace"), str(jobs), how]
    done = subprocess.run(
        in_a_namespace(*command) if how == "tmpfs" else command,
        env=ENVIRONMENT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    reason = "No space left on device" if how == "tmpfs" else "File too large"
    (stored,) = map(int, re.findall(r"(\d+) of 24 runs are stored, and the sweep ended early", told["message"]))
    assert stored <= len(told["found"]) < stored + jobs  # the other process may have stored one meanwhile
    assert reason in told["message"]
    assert 2 <= len(told["found"]) <= 12
    assert len(told["found"]) < told["began"] <= len(told["found"]) + 2 * jobs  # it has not gone on for nothing
    assert told["left"] == []
    assert told["right"] == [True] * 24


READ_ONLY = """
import json, subprocess, sys
from pathlib import Path
from desim.sweep import StorageError, Store, Workers, run_all
from sweep_runs import walk, walks

store, trace = Store(Path(sys.argv[1])), Path(sys.argv[2])
runs = walks(trace, 6)
run_all(walk, runs[:4], store, workers=Workers(1))
trace.unlink()
subprocess.run(["mount", "--bind", str(store.directory), str(store.directory)], check=True)
subprocess.run(["mount", "-o", "remount,bind,ro", str(store.directory)], check=True)
reused = len(run_all(walk, runs[:4], store, workers=Workers(1)))
try:
    run_all(walk, runs, store, workers=Workers(1))
    message = "nothing went wrong"
except StorageError as error:
    message = str(error)
print(json.dumps({"reused": reused, "message": message, "performed": trace.exists()}))
"""


def test_a_read_only_store_gives_what_it_has_and_refuses_what_it_lacks(tmp_path: Path) -> None:
    done = subprocess.run(
        in_a_namespace(sys.executable, "-c", READ_ONLY, str(tmp_path / "runs"), str(tmp_path / "trace")),
        env=ENVIRONMENT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["reused"] == 4
    assert "Read-only file system; 4 of 6 runs are stored" in told["message"]
    assert told["performed"] is False  # it is noticed before the first run


def test_a_file_where_the_store_should_be_is_named_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("mine")
    for directory in (tmp_path / "runs", tmp_path / "runs" / "below"):
        with pytest.raises(StorageError, match="runs"):
            run_all(walk, walks(tmp_path / "trace", 2), Store(directory), workers=Workers(1))
    assert (tmp_path / "runs").read_text() == "mine"
    assert not (tmp_path / "trace").exists()


# -- files that are not what they should be --------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    path.write_text('{"settings": {"seed": 3}, "outcome": {"end": 1.0}}')


def turned(path: Path) -> None:
    """Change one digit of the outcome, so that it is still a document."""
    text = path.read_text()
    place = text.index('"end": ') + 10
    path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


def test_files_that_cannot_be_used_are_set_aside_and_their_runs_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    spoils, runs = [cut, emptied, foreign, turned, garbage], walks(trace, 6)
    outcomes, before = run_all(walk, runs, store, workers=Workers(1)), contents(store)
    paths = [store.path(settings_of(walk, run)) for run in runs]
    for number in (1, 2):
        for spoil, path in zip(spoils, paths, strict=False):
            spoil(path)
        spoiled = [path.read_bytes() for path in paths]
        assert run_all(walk, runs, store, workers=Workers(1)) == outcomes
        assert contents(store) == before
        told = capsys.readouterr().err
        for path, content in zip(paths[:5], spoiled, strict=False):
            aside = path.with_name(f"{path.name}.corrupt{'' if number == 1 else '-2'}")
            assert aside.read_bytes() == content
            assert f"{path} " in told
            assert f"the file is kept as {aside.name}" in told
    assert traced(trace) == sorted([*range(6), *range(5), *range(5)])


def test_a_changed_configuration_is_another_run_and_the_old_outcome_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    old = run_all(walk, walks(trace, 2), store, workers=Workers(1))
    kept = contents(store)
    new = run_all(walk, walks(trace, 2, Walker(length=2.0)), store, workers=Workers(1))
    assert [one["end"] for one in new.values()] == pytest.approx([2 * one["end"] for one in old.values()])
    with monkeypatch.context() as patched:
        for module in (runner, recording):
            patched.setattr(module, "source_digest", lambda *modules, as_in_files=False: "edited")
        run_all(walk, walks(trace, 2), store, workers=Workers(1))
    assert traced(trace) == [0, 0, 0, 1, 1, 1]
    after = contents(store)
    assert len(after) == 4
    for name, text in kept.items():
        (one,) = json.loads(text + b"}]}")["outcomes"]
        edited, same = json.loads(after[name] + b"}]}")["outcomes"]
        assert same == one and edited["used"]["code"] == "edited"
    assert run_all(walk, walks(trace, 2), store, workers=Workers(1)) == old
    assert len(traced(trace)) == 6


# -- several sweeps --------------------------------------------------------------------------------


def test_two_sweeps_at_once_on_one_store_leave_what_one_alone_leaves(tmp_path: Path) -> None:
    trace, store, count = tmp_path / "trace", Store(tmp_path / "runs"), 30
    runs = walks(trace, count, steps=2_000)
    wanted = undisturbed(tmp_path, runs)
    children = [program(store, trace, count, jobs=jobs, steps=2_000) for jobs in (1, 2)]
    told = [child.communicate()[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], told
    assert contents(store) == wanted
    assert leftovers(store) == []
    assert set(traced(trace)) == set(range(count))
    assert not store.sweeps()[0].running


def test_a_sweep_leaves_out_what_another_one_has_stored_meanwhile(tmp_path: Path) -> None:
    trace, store, count = tmp_path / "trace", Store(tmp_path / "runs"), 12
    child = program(store, trace, count, held_from=3)
    wait_until(lambda: len(traced(trace)) == 4, child)  # it performs the fourth run
    run_all(walk, walks(trace, count), store, workers=Workers(1))
    assert traced(trace) == sorted([*range(count), 3])
    Path(f"{trace}.held").unlink()
    told = child.communicate()[1]
    assert child.returncode == 0, told
    assert traced(trace) == sorted([*range(count), 3])


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [Workers(1), Workers(2)])
def test_failed_runs_are_written_down_the_others_go_on_and_the_next_call_tries_again(
    tmp_path: Path, workers: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    runs = walks(trace, 14, Walker("raises"))
    ill = Path(f"{trace}.ill")
    ill.touch()
    for _ in range(2):
        with pytest.raises(SweepFailed) as caught:
            run_all(walk, runs, store, workers=workers, title="walks")
        message = str(caught.value)
        assert message.startswith(
            "5 of 14 runs of walks failed, 9 are stored; run the same command again to retry them"
        )
        assert message.endswith("and 2 more")
        failures = sorted(store.directory.glob("failures/*.json"))
        assert sum(str(path) in message for path in failures) == 3
        assert message.count("WorkloadError: step") == 3
        assert "a run failed, the others continue" in capsys.readouterr().err
        assert {path.name for path in failures} == {
            store.path(settings_of(walk, runs[n])).name for n in range(1, 14, 3)
        }
        (status,) = store.sweeps()
        assert (status.title, status.wanted, status.stored, status.failed) == ("walks", 14, 9, 5)
    document = json.loads(store.failure_path(settings_of(walk, runs[4])).read_text())
    assert (document["error"], document["message"]) == ("WorkloadError", "step 4 leads nowhere")
    assert document["traceback"][0] == "Traceback (most recent call last):"
    assert any("in misbehave" in line for line in document["traceback"])
    assert document["settings"]["seed"] == 4
    assert traced(trace) == sorted([*range(14), *range(1, 14, 3)])
    ill.unlink()
    outcomes = run_all(walk, runs, store, workers=workers, title="walks")
    assert [outcomes[run]["end"] for run in runs] == [walk(run)["end"] for run in runs]
    assert not list(store.directory.glob("failures/*"))
    assert store.sweeps()[0].failed == 0


def test_a_failure_is_forgotten_when_another_sweep_has_brought_the_outcome(tmp_path: Path) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    (run,) = walks(trace, 1)
    settings = settings_of(walk, run)
    run_all(walk, [run], store, workers=Workers(1))
    write_durably(store.failure_path(settings), "{}")
    assert store.sweeps()[0].failed == 0
    run_all(walk, [run], store, workers=Workers(1))
    assert not store.failure_path(settings).exists()


def test_an_outcome_that_cannot_be_stored_as_text_is_a_failed_run(tmp_path: Path) -> None:
    with pytest.raises(SweepFailed, match="TypeError: Object of type set is not JSON"):
        run_all(awkward, walks(tmp_path / "trace", 1), Store(tmp_path / "runs"), workers=Workers(1))


def test_a_worker_that_is_killed_costs_only_its_run(tmp_path: Path) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    runs = walks(trace, 8, Walker("dies"))
    ill = Path(f"{trace}.ill")
    ill.touch()
    for stored in (7, 7):
        with pytest.raises(SweepFailed, match=r"seed 2: WorkerCrashed: .*SIGKILL"):
            run_all(walk, runs, store, workers=Workers(2))
        assert len(contents(store)) == stored
    assert traced(trace) == sorted([*range(8), 2, 2, 2])  # two attempts in each sweep
    ill.unlink()
    assert len(run_all(walk, runs, store, workers=Workers(2))) == 8
    assert leftovers(store) == []


# -- the ledger and progress -----------------------------------------------------------------------


def test_the_ledger_tells_while_a_sweep_runs_and_after_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    assert store.sweeps() == []
    child = program(store, trace, 50, held_from=3)
    wait_until(lambda: len(traced(trace)) == 4, child)
    (status,) = store.sweeps()
    assert (status.title, status.wanted, status.failed, status.running) == ("walks", 50, 0, True)
    assert status.stored == 3
    child.kill()
    child.communicate()
    (status,) = store.sweeps()
    assert (status.running, status.wanted) == (False, 50)
    runs = walks(trace, 2)
    run_all(walk, runs, store, workers=Workers(1), title="a/b: c")
    other, first = store.sweeps()
    assert other == SweepStatus("a/b: c", 2, 2, 0, other.started, False)
    assert first == status
    for text in ("", "{", "[]", '{"title": "x"}', json.dumps({"title": 1, "runs": 3})):
        (store.directory / "sweeps" / "walks.json").write_text(text)
        capsys.readouterr()
        assert [one.title for one in store.sweeps()] == ["a/b: c"]
        assert "walks.json cannot be read" in capsys.readouterr().err
        run_all(walk, runs, store, workers=Workers(1), title="a/b: c")
        run_all(walk, walks(trace, 3), store, workers=Workers(1), title="walks")  # nor does it stop a sweep
        assert [one.wanted for one in store.sweeps()] == [2, 3]


# -- clusters --------------------------------------------------------------------------------------


def test_a_cluster_is_not_asked_for_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, runs = Store(tmp_path / "runs"), walks(tmp_path / "trace", 2)
    outcomes = run_all(walk, runs, store, workers=Workers(1))
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run_all(walk, runs, store, workers=Workers(2, "ray")) == outcomes
    with pytest.raises(MissingDependency, match="needs Ray"):
        run_all(walk, walks(tmp_path / "trace", 3), store, workers=Workers(2, "ray"))


def test_a_machine_with_other_code_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = iter(["mine"] + ["theirs"] * 9)
    monkeypatch.setattr(runner, "source_digest", lambda *modules, as_in_files=False: next(digests))
    real = runner.run_tasks
    monkeypatch.setattr(runner, "run_tasks", lambda method, jobs, workers: real(method, jobs, Workers(1)))
    with pytest.raises(SweepFailed, match=r"has other code for sweep_runs \(theirs\) .*\(mine\); install the"):
        run_all(walk, walks(tmp_path / "trace", 1), Store(tmp_path / "runs"), workers=Workers(2, "dask"))
    assert traced(tmp_path / "trace") == []


CLUSTER = """
import json, sys
from pathlib import Path
from desim.sweep import Store, SweepFailed, Workers, run_all
from sweep_runs import Walker, walk, walks

def sweep(backend, address):
    trace, store = Path(sys.argv[3]), Store(Path(sys.argv[2]))
    runs = walks(trace, 8, Walker("raises"), steps=300)
    try:
        run_all(walk, runs, store, workers=Workers(2, backend, address))
    except SweepFailed as error:
        print("found", json.dumps(str(error)))
    once = Path(f"{trace}.once")
    Path(f"{once}.ill").touch()
    kept = Store(once.with_name("kept"))
    outcomes = run_all(walk, walks(once, 6, Walker("dies once")), kept, workers=Workers(2, backend, address))
    print("found", json.dumps([outcomes[run]["end"] for run in outcomes]))

if __name__ == "__main__":
    if sys.argv[1] == "dask":
        from distributed import LocalCluster
        with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as one:
            sweep("dask", one.scheduler_address)
    else:
        sweep("ray", None)
"""


@pytest.mark.parametrize("backend", ["dask", pytest.param("ray", marks=pytest.mark.slow)])
def test_a_cluster_stores_the_same_to_the_last_bit(tmp_path: Path, backend: str) -> None:
    """On two workers, of which one is killed: its run is repeated."""
    pytest.importorskip({"dask": "distributed"}.get(backend, backend))
    trace, store = tmp_path / "trace", Store(tmp_path / "runs")
    runs = walks(trace, 8, Walker("raises"), steps=300)
    wanted = undisturbed(tmp_path, runs)
    Path(f"{trace}.ill").touch()
    (tmp_path / "cluster.py").write_text(CLUSTER)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "cluster.py"), backend, str(store.directory), str(trace)],
        env=ENVIRONMENT | {"RAY_AUTH_TOKEN": os.urandom(16).hex()},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    message, ends = map(json.loads, re.findall(r"^found (.*)", done.stdout, re.M))  # Ray prints what it does, too
    once = walks(tmp_path / "trace.once", 6, Walker("dies once"))
    done_twice = traced(tmp_path / "trace.once")  # a run whose outcome was lost with the worker is repeated, too
    assert done_twice.count(2) == 2 and set(done_twice) == set(range(6))
    assert ends == [walk(run)["end"] for run in once]
    assert message.startswith("3 of 8 runs of runs failed, 5 are stored")
    assert "WorkloadError: step 1 leads nowhere" in message
    assert store.sweeps()[0].failed == 3
    Path(f"{trace}.ill").unlink()
    outcomes = run_all(walk, runs, store, workers=Workers(1))  # goes on here with what has failed there
    assert traced(trace) == sorted([*range(8), 1, 4, 7])
    assert contents(store) == wanted
    assert [outcomes[run]["end"] for run in runs] == [walk(run)["end"] for run in runs]
    assert leftovers(store) == []
