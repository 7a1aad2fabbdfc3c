"""Answers and arrivals that cannot be used: the message names what is at fault, and the records are kept."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from multiserver_references import Scripted, submissions

from desim import Result, simulate
from desim.exceptions import InfeasibleAction, InvalidConfiguration, WorkloadError
from desim.problems.multiserver import (
    UTILITIES,
    BipartiteGraph,
    Gang,
    MultiServerCluster,
    MultiSlotCluster,
    RewardModel,
    Utility,
    register_utility,
)

GRAPH = BipartiteGraph(
    [[2.0, 1.0], [3.0, 0.0]],
    [[4.0, 1.0], [2.5, 1.0]],
    [("red", "a"), ("red", "b"), ("blue", "a")],
    ports=["red", "blue"],
    nodes=["a", "b"],
    resources=["cpu", "gpu"],
)
REWARDS = RewardModel(GRAPH, "linear")
FINE = [[1.0, 0.5], [0.0, 0.0], [0.0, 0.0]]
GANG = Gang([[[1.0, 0.0], [1.0, 1.0], [2.0, 0.0]], [[1.0, 0.0]]], [2, 1])
WHOLE = Gang([[[1.0, 0.0], [1.0, 1.0], [2.0, 0.0]], [[1.0, 0.0]]], [2, 1], whole=True)


def amounts(rows: int, **entries: float) -> Any:
    """Return an allocation; ``c2r1=5`` stands for channel 2, resource 1."""
    table = np.zeros((rows, 2))
    for name, amount in entries.items():
        channel, resource = name.removeprefix("c").split("r")
        table[int(channel), int(resource)] = amount
    return table


def caught(error: type[Exception], message: str, run: Callable[[], Any]) -> Any:
    """Return the error that a run raises; its message is one string (notes are not part of it)."""
    with pytest.raises(error) as caught:
        run()
    assert len(caught.value.args) == 1
    assert re.search(message, str(caught.value))
    return caught.value


WRONG: list[tuple[Any, str]] = [
    (np.zeros((3, 1)), r"action: got shape (3, 1), expected (3, 2), one row per channel"),
    (np.zeros((2, 2, 2)), r"action: got shape (2, 2, 2), expected (3, 2)"),
    (1.0, "action: got shape (), expected (3, 2)"),
    ([[1.0], [1.0, 2.0]], "action: expected an array of numbers"),
    ("much", "action: expected an array of numbers"),
    ({"a": 1}, "action: expected an array of numbers"),
    (amounts(3, c1r0=math.nan), "the job at red gets nan of cpu from b, expected a number >= 0"),
    (amounts(3, c2r0=-0.5), "the job at blue gets -0.5 of cpu from a, expected a number >= 0"),
    (amounts(3, c0r1=-math.inf), "the job at red gets -inf of gpu from a, expected a number >= 0"),
    (amounts(3, c1r1=1.25), "the job at red gets 1.25 of gpu from b, expected at most its request, 1.0"),
    (amounts(3, c2r1=0.5), "the job at blue gets 0.5 of gpu from a, expected at most its request, 0.0"),
    (amounts(3, c0r0=math.inf), "the job at red gets inf of cpu from a, expected at most its request, 2.0"),
    (amounts(3, c0r0=1.75, c2r0=2.5), "a gives 4.25 of cpu, expected at most 4.0, which is free"),
]


@pytest.mark.parametrize(("answer", "message"), WRONG, ids=[message[:50] for _, message in WRONG])
def test_an_answer_that_cannot_be_carried_out(answer: Any, message: str, tmp_path: Path) -> None:
    cluster = MultiServerCluster(REWARDS, [[1, 1]] * 4)
    agent = Scripted(FINE, None, answer)
    error = caught(
        InfeasibleAction,
        f"^time 2: {re.escape(message)}",
        lambda: simulate(cluster, agent, out=tmp_path / "run"),
    )
    assert any("time 2" in note and "scripted" in note for note in error.__notes__)
    for result in (error.result, Result.load(tmp_path / "run")):
        assert (result.info["status"], result.info["end_time"]) == ("failed", 2)
        assert result.table("slots")["gain"].to_list() == [1.5, 0.0]
        assert result.table("allocations").select("slot", "job_id", "amount").rows() == [(0, 0, 1.0), (0, 0, 0.5)]
        statuses = ["completed", "unserved", "unserved", "unserved", "queued", "queued"]
        assert result.jobs["status"].to_list() == statuses
        assert result.jobs["job_id"].to_list() == list(range(6))


def test_jobs_of_the_slot_that_failed_keep_their_submission_time() -> None:
    cluster = MultiServerCluster(REWARDS, [[1, 1]] * 4)
    error = caught(InfeasibleAction, "time 1", lambda: simulate(cluster, Scripted(FINE, np.ones((9, 9)))))
    assert error.result.jobs["submission_time"].to_list() == [0, 0, 1, 1]


def test_rounding_is_not_an_error() -> None:
    slightly = np.array([[2.0 + 1e-10, -1e-10], [0.0, 1.0 + 1e-10], [2.0 + 1e-10, 0.0]])
    result = simulate(MultiServerCluster(REWARDS, [[1, 1]]), Scripted(slightly))
    assert result.table("allocations")["amount"].min() > 0
    assert result.jobs["gain"].to_list() == pytest.approx([3.0, 2.0])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (amounts(3, c0r0=2.00001), "red gets 2.00001 of cpu from a, expected at most its request, 2.0"),
        (amounts(3, c0r0=-0.00001), "red gets -1e-05 of cpu from a, expected a number >= 0"),
        (amounts(3, c0r0=2.0, c2r0=2.00001), "a gives 4.00001 of cpu, expected at most 4.0, which is free"),
    ],
)
def test_what_is_more_than_rounding_is_an_error(answer: Any, message: str) -> None:
    cluster = MultiServerCluster(REWARDS, [[1, 1]])
    caught(InfeasibleAction, re.escape(message), lambda: simulate(cluster, Scripted(answer)))


def test_reservations_for_ports_without_a_job_must_be_feasible_too() -> None:
    cluster = MultiServerCluster(REWARDS, [[0, 0]])
    caught(InfeasibleAction, "red gets 2.5 of cpu from a", lambda: simulate(cluster, Scripted(amounts(3, c0r0=2.5))))


def test_running_jobs_leave_less() -> None:
    cluster = MultiSlotCluster(REWARDS, [[1, 1], [1, 0]], 20.0)
    agent = Scripted(amounts(3, c0r0=1.5, c2r0=2.0), amounts(3, c0r0=1.0))
    error = caught(
        InfeasibleAction,
        "^time 1: a gives 1.0 of cpu, expected at most 0.5, which is free$",
        lambda: simulate(cluster, agent),
    )
    assert error.result.jobs["status"].to_list() == ["running", "running", "queued"]
    assert error.result.jobs["submission_time"].to_list() == [0, 0, 1]


GANGS: list[tuple[Gang, Any, str]] = [
    (
        GANG,
        amounts(7, c0r0=1.0),
        "the job at red gets resources for 1 of its 3 components, expected at least 2, or none",
    ),
    (GANG, amounts(7, c0r0=1.5), "the job at red/1 gets 1.5 of cpu from a, expected at most its request, 1.0"),
    (
        GANG,
        amounts(7, c0r0=1, c2r1=0.75, c3r1=0.5, c4r1=0.75),
        "the job at red/3 gets 0.75 of gpu from a, expected at most",
    ),
    (
        WHOLE,
        amounts(7, c0r0=1.0),
        "the job at red gets resources for 1 of its 3 components, expected at least 2, or none",
    ),
    (WHOLE, amounts(7, c0r0=1.0, c3r0=1.0), "red/2 is indivisible and gets part of its request from b"),
    (WHOLE, amounts(7, c0r0=1.0, c1r0=1.0, c4r0=2.0), "red/1 is indivisible and gets resources from several nodes"),
    (WHOLE, amounts(7, c6r0=0.5), "blue/1 is indivisible and gets part of its request from a"),
]


@pytest.mark.parametrize(("gang", "answer", "message"), GANGS, ids=[message[:40] for *_, message in GANGS])
def test_a_gang_that_is_served_in_part(gang: Gang, answer: Any, message: str) -> None:
    cluster = MultiServerCluster(REWARDS, [[0, 0], [1, 1]], gang=gang)
    error = caught(
        InfeasibleAction, f"^time 1: {re.escape(message)}", lambda: simulate(cluster, Scripted(None, answer))
    )
    assert error.result.jobs["status"].to_list() == ["queued", "queued"]
    twice = MultiServerCluster(REWARDS, [[0, 0], [2, 0]], gang=gang, jobs_per_port=2)
    shifted = np.vstack([np.zeros((6, 2)), answer[:6], np.zeros((2, 2))])
    if "red" in message:
        message = message.replace("red/", "red#2/").replace("red gets", "red#2 gets")
        caught(InfeasibleAction, f"^time 1: {re.escape(message)}", lambda: simulate(twice, Scripted(None, shifted)))


ROWS: list[tuple[Any, str]] = [
    ([1], "arrivals: got [1], expected 2 integers, one per port"),
    ([1, 0, 1], "arrivals: got [1, 0, 1], expected 2 integers"),
    ([0.5, 1.0], "arrivals: got [0.5, 1.0], expected 2 integers"),
    ([math.nan, 1.0], "arrivals: got [nan, 1.0], expected 2 integers"),
    (["1", "0"], "arrivals: got ['1', '0'], expected 2 integers"),
    (3, "arrivals: got 3, expected 2 integers"),
    (None, "arrivals: got None, expected 2 integers"),
    ([0, -2], "arrivals: got -2 at blue"),
]


@pytest.mark.parametrize("holding", [False, True])
@pytest.mark.parametrize(("row", "message"), ROWS, ids=[message for _, message in ROWS])
def test_arrivals_that_make_no_sense(row: Any, message: str, holding: bool) -> None:
    rows: list[Any] = [[1, 0], row]
    cluster = MultiSlotCluster(REWARDS, rows, 0.5) if holding else MultiServerCluster(REWARDS, rows)
    error = caught(WorkloadError, f"^slot 1: {re.escape(message)}", lambda: simulate(cluster, Scripted(FINE)))
    assert error.result.jobs["status"].to_list() == ["completed"]
    assert error.result.table("slots").height == 1


def test_a_row_with_a_hole() -> None:
    cluster = MultiServerCluster(REWARDS, [[1, 0], [1, [2]]])
    caught(WorkloadError, "slot 1", lambda: simulate(cluster, Scripted(FINE)))


def test_more_jobs_than_places() -> None:
    cluster = MultiServerCluster(REWARDS, [[0, 2], [3, 1]], jobs_per_port=2)
    error = caught(
        WorkloadError,
        "^time 1: got 3 jobs for one slot at red, expected at most jobs_per_port, 2$",
        lambda: simulate(cluster, Scripted()),
    )
    assert error.result.table("slots")["arrived"].to_list() == [2]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            [(0.5, "red"), (0.75, "red")],
            r"^time 0\.75: got 2 jobs for one slot at red, expected at most jobs_per_port, 1$",
        ),
        ([(1.0, "red")], "^time 1: got 2 jobs for one slot at red, expected at most jobs_per_port, 1$"),
        ([(0.5, 2)], r"^time 0\.5: port: got 2, expected"),
        ([(0.5, -1)], r"^time 0\.5: port: got -1, expected"),
        ([(0.5, "green")], r"^time 0\.5: port: got 'green', expected"),
        ([(0.5, 0.0)], r"^time 0\.5: port: got 0\.0, expected"),
    ],
)
def test_jobs_that_cannot_be_submitted(times: Any, message: str) -> None:
    cluster = MultiServerCluster(REWARDS, [[0, 0], [1, 0]], processes=[submissions(*times)])
    error = caught(WorkloadError, message, lambda: simulate(cluster, Scripted()))
    assert error.result.table("slots").height == 1


def test_too_many_jobs_are_submitted_before_the_first_slot() -> None:
    cluster = MultiServerCluster(REWARDS, [[0, 0]] * 3, processes=[submissions((0.0, "red"), (0.0, "red"))])
    error = caught(WorkloadError, "^time 0: got 2 jobs for one slot at red", lambda: simulate(cluster, Scripted()))
    assert error.result.info["status"] == "failed"


def test_too_many_jobs_are_submitted_at_the_last_port() -> None:
    cluster = MultiServerCluster(REWARDS, [[0, 0]] * 3, processes=[submissions((0.5, "blue"), (0.75, "blue"))])
    error = caught(
        WorkloadError, r"^time 0\.75: got 2 jobs for one slot at blue", lambda: simulate(cluster, Scripted())
    )
    assert error.result.info["status"] == "failed"


def test_too_many_jobs_at_one_port_leave_the_jobs_of_others_as_they_are() -> None:
    times = submissions((0.25, "blue"), (0.5, "red"), (0.75, "red"))
    cluster = MultiServerCluster(REWARDS, [[0, 0]] * 3, processes=[times])
    error = caught(WorkloadError, r"^time 0\.75: got 2 jobs for one slot at red", lambda: simulate(cluster, Scripted()))
    assert error.result.jobs.select("port", "submission_time").rows() == [("blue", 0.25), ("red", 0.5)]


def test_ports_that_a_random_generator_has_drawn() -> None:
    ports = np.random.default_rng(0).integers(0, 2, 1)
    cluster = MultiServerCluster(REWARDS, [[0, 0]] * 2, processes=[submissions((0.5, ports[0]))])
    assert simulate(cluster, Scripted()).jobs.height == 1


@pytest.mark.parametrize("work", [0.0, -1.0, math.nan, math.inf])
def test_work_that_is_drawn_out_of_range(work: float) -> None:
    draws = iter([1.0, work])
    cluster = MultiSlotCluster(REWARDS, [[1, 0], [0, 1]], lambda rng, port: next(draws))
    error = caught(
        WorkloadError,
        f"^job 1 at blue: work: got {work!r}, expected a number above 0$",
        lambda: simulate(cluster, Scripted(FINE)),
    )
    assert error.result.jobs["status"].to_list() == ["completed"]


@pytest.fixture
def treacherous() -> Iterator[str]:
    """A utility that passes for a good one, and is not a number beyond all amounts that were tried."""
    name = "treacherous"
    register_utility(
        Utility(
            name,
            lambda amount, weight: np.where(amount > 2e4, np.nan, weight * amount),
            lambda amount, weight: weight + np.zeros_like(amount),
        )
    )
    yield name
    del UTILITIES[name]


@pytest.mark.parametrize("holding", [False, True])
def test_a_reward_that_is_not_a_number(treacherous: str, holding: bool) -> None:
    graph = BipartiteGraph([[1.0], [1e5]], [[2e5]], ports=["red", "blue"])
    rewards = RewardModel(graph, treacherous, 1.0, 0.5)
    arrivals = [[1, 0], [1, 1]]
    cluster = MultiSlotCluster(rewards, arrivals, 0.25) if holding else MultiServerCluster(rewards, arrivals)
    message = (
        "^time 1: reward of the job at blue: got nan, .*; its gain is nan, its overhead 15000.0; check the utilities$"
    )
    agent = Scripted([[1.0], [9e4]], [[1.0], [3e4]])
    error = caught(InvalidConfiguration, message, lambda: simulate(cluster, agent))
    assert error.result.jobs["status"].to_list() == ["completed", "queued", "queued"]
