"""Ctrl-C, agents that raise, processes that are killed: what has been recorded is kept."""

from __future__ import annotations

import json
import re
import signal
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from small_agents import FirstFit, python, random_jobs

from desim import Result, simulate
from desim.agents.batch import FCFS
from desim.problems.batch import BatchCluster

PREPARE = """
import os, signal, sys
sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests", "desim")]
from desim.agents.batch import FCFS
from desim import Result, SimulationInterrupted, simulate
from desim.problems.batch import BatchCluster
from small_agents import FirstFit, random_jobs

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

class Interrupting(FirstFit):
    def __init__(self, *decisions, number=signal.SIGINT):
        self.decisions, self.number, self.count = decisions, number, 0
    def act(self, observation):
        self.count += 1
        if self.count in self.decisions:
            os.kill(os.getpid(), self.number)
            if self.number == signal.SIGINT:
                observation.time  # the signal is handled before the agent goes on
        return super().act(observation)

cluster = BatchCluster(random_jobs(400, 8), 8)
"""


def test_ctrl_c_keeps_the_records_and_hands_out_the_result(tmp_path: Path) -> None:
    done = python(
        PREPARE
        + """
try:
    simulate(cluster, Interrupting(150), out=sys.argv[1])
except SimulationInterrupted as interruption:
    assert isinstance(interruption, KeyboardInterrupt)
    result = interruption.result
    assert result.info["status"] == "interrupted"
    assert result.jobs["status"].is_in(["completed", "running", "queued"]).all()
    print(len(result.jobs.filter(result.jobs["status"] == "completed")), interruption)
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("as before")
""",
        str(tmp_path / "run"),
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    completed, message = first.split(" ", 1)
    assert 20 < int(completed) < 150
    assert message.startswith("interrupted at time")
    assert second == "as before"
    loaded = Result.load(tmp_path / "run")
    assert loaded.info["status"] == "interrupted"
    whole = simulate(BatchCluster(random_jobs(400, 8), 8), FirstFit()).jobs
    ended = loaded.jobs.filter(pl.col("status") == "completed")
    assert len(ended) == int(completed)
    assert whole.join(ended, on=whole.columns, how="semi", nulls_equal=True).height == len(ended)


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    code = """
class Stubborn(FirstFit):
    def act(self, observation):
        os.kill(os.getpid(), signal.SIGINT)
        print("still thinking", flush=True)
        os.kill(os.getpid(), signal.SIGINT)
        print("never reached", flush=True)

try:
    simulate(cluster, Stubborn(), out=sys.argv[1])
except SimulationInterrupted:
    print("waited for the agent")
except KeyboardInterrupt:
    print("stopped")
"""
    done = python(PREPARE + code, str(tmp_path / "run"))
    assert done.stdout.split("\n") == ["still thinking", "stopped", ""], done.stderr
    assert Result.load(tmp_path / "run").info["status"] == "failed"


def test_an_agent_that_handles_ctrl_c_itself_is_left_alone(tmp_path: Path) -> None:
    code = """
heard = []
signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
result = simulate(cluster, Interrupting(10, 20))
assert heard == [signal.SIGINT] * 2
assert result.info["status"] == "complete"
"""
    done = python(PREPARE + code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["__del__", "_raw_object_cache_notify"])
def test_an_interrupt_is_not_lost_where_python_ignores_exceptions(name: str) -> None:
    """LLVM calls functions of its binding while numba compiles; an exception in them is printed and forgotten."""
    code = f"""
import ctypes, time
from desim.core import interrupt
signal.signal(signal.SIGINT, interrupt)

def {name}(self=None):
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1_000):
        pass

try:
    if "{name}" == "__del__":
        del type("Closed", (), dict(__del__=__del__))().missing
    else:
        ctypes.CFUNCTYPE(None)({name})()
except AttributeError:
    pass
try:
    time.sleep(30)
except KeyboardInterrupt:
    print("ended", signal.getsignal(signal.SIGALRM) is signal.SIG_DFL)
"""
    done = python(PREPARE + code)
    assert (done.stdout, done.stderr) == ("ended True\n", "")


def test_simulations_run_in_threads() -> None:
    results: list[Result] = []
    handler = signal.getsignal(signal.SIGINT)
    threads = [
        threading.Thread(target=lambda: results.append(simulate(BatchCluster(random_jobs(50, 4), 4), FCFS())))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    assert results[0].jobs.equals(results[1].jobs)
    assert signal.getsignal(signal.SIGINT) is handler


class Clumsy(FirstFit):
    """Raises an error of its own at the 100th decision."""

    name = "clumsy"

    def __init__(self, error: BaseException) -> None:
        self.error, self.left = error, 100

    def act(self, observation: Any) -> int | None:
        self.left -= 1
        if not self.left:
            raise self.error
        return super().act(observation)


@pytest.mark.parametrize("error", [ZeroDivisionError("my bug"), SystemExit(3)], ids=repr)
def test_an_agent_that_raises_leaves_its_error_and_the_records(error: BaseException, tmp_path: Path) -> None:
    with pytest.raises(type(error)) as caught:
        simulate(BatchCluster(random_jobs(400, 8), 8), Clumsy(error), out=tmp_path / "run")
    assert caught.value is error
    (note,) = caught.value.__notes__
    assert "clumsy" in note
    loaded = Result.load(tmp_path / "run")
    assert loaded.info["status"] == "failed"
    assert loaded.info["agent"] == "clumsy"
    assert f"time {loaded.info['end_time']} s" in note
    assert len(loaded.jobs.filter(pl.col("status") == "completed")) > 10


def test_a_reset_that_raises_leaves_a_failed_run(tmp_path: Path) -> None:
    class Unprepared(FirstFit):
        def reset(self, info: dict[str, Any], rng: Any) -> None:
            raise LookupError("no model of this size")

    with pytest.raises(LookupError, match="no model of this size"):
        simulate(BatchCluster(random_jobs(5, 8), 8), Unprepared(), out=tmp_path / "run")
    assert Result.load(tmp_path / "run").info["status"] == "failed"


def test_a_killed_process_leaves_parts_that_can_be_loaded(tmp_path: Path) -> None:
    code = (
        PREPARE
        + "simulate(BatchCluster(random_jobs(9_000, 8), 16_384), Interrupting(3_000, number=9), out=sys.argv[1])"
    )
    done = python(code, str(tmp_path / "run"))
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "running"
    loaded = Result.load(tmp_path / "run")
    assert loaded.info["status"] == "running"
    assert loaded.info["num_cores"] == 16_384
    assert 1_000 <= len(loaded.jobs) < 3_000
    whole = simulate(BatchCluster(random_jobs(9_000, 8), 16_384), FirstFit()).jobs
    assert whole.join(loaded.jobs, on=whole.columns, how="semi", nulls_equal=True).height == len(loaded.jobs)


def test_an_agent_that_goes_on_thinking_is_interrupted(tmp_path: Path) -> None:
    code = """
import time

class Slow(FirstFit):
    count = 0
    def act(self, observation):
        self.count += 1
        if self.count == 150:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        return super().act(observation)

begin = time.monotonic()
try:
    simulate(cluster, Slow(), out=sys.argv[1])
except SimulationInterrupted as interruption:
    print(interruption.result.info["status"], time.monotonic() - begin < 30)
"""
    done = python(PREPARE + code, str(tmp_path / "run"))
    assert done.stdout == "interrupted True\n", done.stderr
    assert Result.load(tmp_path / "run").info["status"] == "interrupted"


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_ctrl_c_ends_a_script_that_compares_as_python_does(workers: int, tmp_path: Path) -> None:
    code = f"""
import signal, os, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import desim
found = []
def notice(result):
    if result.info["seed"] == 2:
        os.killpg(0, signal.SIGINT)
    return 1.0
desim.compare("batch", ["fcfs"], seeds=40, jobs=30, cores=8, workers={workers}, out=sys.argv[1],
              metrics=[desim.Metric("notice", measure=notice)])
"""
    done = python(f"import os; os.setpgid(0, 0)\n{code}", str(tmp_path / "out"))
    assert done.returncode == -signal.SIGINT
    assert done.stderr.count("Traceback") == 1
    last = done.stderr.strip().splitlines()[-1]
    told = re.fullmatch(r"KeyboardInterrupt: (\d+) of 40 runs are stored; run the same command again to continue", last)
    assert told is not None, done.stderr
    stored = [path for path in (tmp_path / "out" / "runs").iterdir() if path.suffix == ".json"]
    assert 0 < len(stored) == int(told[1]) < 40
    assert not list((tmp_path / "out" / "runs").glob(".*"))
