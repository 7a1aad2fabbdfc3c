"""Tasks in other processes: all come back, whatever some of them do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from parallel_tasks import Step, environment, imported, meeting, noted, process, square, unpicklable

from desim.exceptions import DesimError, InvalidConfiguration, MissingDependency, WorkloadError
from desim.sweep import Failed, Finished, WorkerCrashed, Workers, run_tasks

HERE = Path(__file__).parent
WHO = [Workers(1), Workers(2), Workers(3)]


def results(function: Callable[[Any], Any], tasks: Any, workers: Workers) -> dict[Any, Any]:
    ended = list(run_tasks(function, tasks, workers))
    found = {one.task: one.outcome if isinstance(one, Finished) else one for one in ended}
    assert len(found) == len(ended)
    return found


@pytest.mark.parametrize("workers", WHO)
def test_every_task_ends_once(workers: Workers) -> None:
    assert results(square, range(20), workers) == {number: number * number for number in range(20)}
    assert list(run_tasks(square, [], workers)) == []
    assert [one.task for one in run_tasks(square, [3, 3, 3], workers)] == [3, 3, 3]


@pytest.mark.parametrize("workers", WHO)
def test_an_exception_ends_its_task_only(workers: Workers) -> None:
    found = results(square, [1, -1, 2, -2, -3, 3], workers)
    assert [found[number] for number in (1, 2, 3)] == [1, 4, 9]
    errors = [found[number] for number in (-1, -2, -3)]
    assert [(one.kind, one.message) for one in errors] == [
        ("WorkloadError", "line 7 is empty"),
        ("Awkward", "-2 is awkward"),
        ("SystemExit", "no more"),
    ]
    assert isinstance(errors[0].error, WorkloadError)
    assert str(errors[0].error) == "line 7 is empty"
    assert 'raise WorkloadError("line 7 is empty")' in errors[0].trace
    assert errors[0].trace.splitlines()[1].endswith("in square")  # nothing of what surrounds it


def test_an_exception_that_cannot_be_pickled_keeps_its_words() -> None:
    error = results(square, [-2], Workers(2))[-2].error
    assert type(error) is DesimError
    assert str(error) == "Awkward: -2 is awkward"


@pytest.mark.parametrize(
    ("function", "tasks", "words"),
    [(unpicklable, [0, 1, 2], "pickle"), (square, [0, (number for number in ()), 2], "pickle")],
)
def test_what_cannot_be_pickled_fails_alone(function: Any, tasks: list[Any], words: str) -> None:
    ended = list(run_tasks(function, tasks, Workers(2)))
    (failed,) = [one for one in ended if isinstance(one, Failed)]
    assert failed.task == tasks[1]
    assert words in failed.message
    assert not isinstance(failed.error, WorkerCrashed)
    assert sorted(one.outcome for one in ended if isinstance(one, Finished)) == [function(0), function(2)]


def test_the_death_of_a_worker_costs_only_its_task() -> None:
    found = results(square, [1, -5, 2, 3, -6, 4, 5, 6], Workers(2))
    assert [found.pop(number) for number in range(1, 7)] == [number * number for number in range(1, 7)]
    assert [(one.kind, type(one.error)) for one in found.values()] == [("WorkerCrashed", WorkerCrashed)] * 2
    assert "SIGKILL" in found[-5].message
    assert "EXIT(7)" in found[-6].message


def test_a_task_whose_worker_died_is_tried_again_when_it_is_alone(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    steps = [Step(number, trace, deaths={0: 1, 2: 2}.get(number, 0)) for number in range(6)]
    found = results(noted, steps, Workers(2))
    assert [found[step] for step in steps if step.number != 2] == [0, 1, 3, 4, 5]
    assert isinstance(found[steps[2]], Failed)
    lines = trace.read_text().splitlines()
    assert sorted(lines[:-3]) == sorted([f"begin {n}" for n in range(6)] + [f"end {n}" for n in (1, 3, 4, 5)])
    assert lines[-3:] == ["begin 0", "end 0", "begin 2"]  # one after the other, with nothing beside them


@pytest.mark.parametrize("workers", WHO)
def test_tasks_are_read_when_they_are_needed(tmp_path: Path, workers: Workers) -> None:
    drawn: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(10):
            drawn.append(number)
            yield number

    generator = run_tasks(square, tasks(), workers)
    assert drawn == []
    for ended in range(1, 11):
        next(generator)
        assert len(drawn) <= ended - 1 + 2 * workers.jobs
    assert drawn == list(range(10))
    assert next(generator, None) is None


def test_closing_gives_up_at_once_what_is_performed(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    generator = run_tasks(noted, [Step(0, trace), Step(1, trace, 600.0), Step(2, trace, 600.0)], Workers(2))
    assert next(generator).task.number == 0
    generator.close()  # the test would take minutes if it waited
    assert set(trace.read_text().splitlines()) <= {"begin 0", "end 0", "begin 1", "begin 2"}
    assert results(square, [4], Workers(2)) == {4: 16}


@pytest.mark.parametrize("workers", WHO)
def test_an_interruption_in_a_worker_is_one_here(workers: Workers) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(run_tasks(square, [1, -4, 2], workers))


def test_one_job_means_this_process_and_more_mean_others(tmp_path: Path) -> None:
    assert set(results(process, range(2), Workers(1)).values()) == {os.getpid()}
    others = {ended.outcome for ended in run_tasks(meeting, [tmp_path] * 2, Workers(2))}
    assert os.getpid() not in others
    assert len(others) == 2
    assert set(results(process, range(6), Workers(2)).values()) <= others  # they wait for more


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    from joblib import cpu_count

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert results(environment, ["OMP_NUM_THREADS"], Workers(2)) == {"OMP_NUM_THREADS": str(max(cpu_count() // 2, 1))}
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert results(environment, ["OMP_NUM_THREADS"], Workers(2)) == {"OMP_NUM_THREADS": "3"}


def test_a_process_knows_what_this_one_knows_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert results(square, [2], Workers(2)) == {2: 4}
    (tmp_path / "known_since_now.py").write_text("VALUE = 'found'\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert results(imported, ["known_since_now"], Workers(2)) == {"known_since_now": "found"}


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = (
        "import sys; from pathlib import Path; from parallel_tasks import *; from desim.sweep import *\n"
        "list(run_tasks(lingering, [Path(sys.argv[1])] * 4, Workers(2)))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(pipe)],
        env=os.environ | {"PYTHONPATH": f"{HERE.parents[1]}:{HERE}"},
        stderr=subprocess.DEVNULL,
    )
    with pipe.open() as file:
        assert [file.readline(), file.readline()] == ["here\n"] * 2
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert file.read() == ""  # a pipe ends when nobody is left to write to it


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"jobs": 0}, "jobs: got 0"),
        ({"backend": "slurm"}, "'slurm', expected one of 'local', 'ray', 'dask'"),
        ({"address": "10.0.0.1:1"}, "'10.0.0.1:1' with backend local, expected backend ray or dask"),
    ],
)
def test_unusable_arguments_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidConfiguration, match=words):
        Workers(**arguments)


@pytest.mark.parametrize(("backend", "module"), [("ray", "ray"), ("dask", "distributed")])
def test_what_is_not_installed_is_named(backend: Any, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match=rf"pip install 'desim\[{backend}\]'"):
        next(run_tasks(square, [1], Workers(1, backend)))


CLUSTER = """
import sys
from desim.sweep import Finished, Workers, run_tasks
from parallel_tasks import square

if __name__ == "__main__":
    unwieldy = (number for number in ())
    ended = run_tasks(square, [1, -1, 2, unwieldy, -5, 3], Workers(2, sys.argv[1]))
    found = {one.task: one.outcome if isinstance(one, Finished) else one for one in ended}
    assert [found[number] for number in (1, 2, 3)] == [1, 4, 9]
    assert found[-1].message == "line 7 is empty", found
    assert found[-1].trace.splitlines()[1].endswith("in square"), found[-1].trace
    assert found[-5].kind == "WorkerCrashed", found
    assert "cannot be submitted" in found[unwieldy].message, found[unwieldy]
    print("all right")
"""


@pytest.mark.parametrize("backend", ["dask", pytest.param("ray", marks=pytest.mark.slow)])
def test_a_cluster_brings_back_the_same(tmp_path: Path, backend: str) -> None:
    """In a process of its own: both start threads and warn as they like when they end."""
    pytest.importorskip({"dask": "distributed"}.get(backend, backend))
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    quickly = {"RAY_AUTH_TOKEN": os.urandom(16).hex(), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    done = subprocess.run(
        [sys.executable, str(script), backend],
        env=os.environ | {"PYTHONPATH": f"{HERE.parents[1]}:{HERE}"} | quickly,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1:] == ["all right"], done.stderr  # Ray itself tells there of what has died


def test_a_cluster_that_is_not_there_is_named() -> None:
    pytest.importorskip("distributed")
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "100ms"}),
        pytest.raises(DesimError, match=r"cannot reach a Dask scheduler at tcp://127\.0\.0\.1:9"),
    ):
        next(run_tasks(square, [1], Workers(2, "dask", "tcp://127.0.0.1:9")))
