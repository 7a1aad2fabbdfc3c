"""Capacities, answers and arguments of clusters for deferrable jobs that make no sense."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simpy
from deferrable_agents import FirstFit, Scripted
from deferrable_scenarios import caught, setting

from desim import Result, at, simulate
from desim.core import Phase
from desim.exceptions import InfeasibleAction, InvalidConfiguration, WorkloadError
from desim.problems.deferrable import DeferrableCluster, Job, clairvoyant_view, real_time
from desim.processes import replayed_capacity, stepped_capacity

GOOD = Job(7, 1, 3, 5, 2, 4)
NAN, INF = math.nan, math.inf


SERIES: list[tuple[Any, str]] = [
    ([], r"capacity: got shape \(0,\), expected one row per slot, and at least one"),
    ([[]], r"capacity: got shape \(1, 0\)"),
    (np.zeros((0, 2)), r"capacity: got shape \(0, 2\)"),
    (np.zeros((2, 2, 2)), r"capacity: got shape \(2, 2, 2\)"),
    (5, r"capacity: got shape \(\)"),
    (None, "capacity: got nan"),
    ([1, NAN], r"capacity\[1\]: got nan, expected a finite number >= 0"),
    ([1, 2, INF], r"capacity\[2\]: got inf"),
    ([[1, 2], [3, -0.5]], r"capacity\[1\]\[1\]: got -0\.5"),
    ([-1], r"capacity\[0\]: got -1\.0"),
    (["much"], "capacity: got "),
    ([[1, 2], [3]], "capacity: got "),
    ({"cores": [1]}, "capacity: got "),
]
AMOUNTS: list[tuple[Any, str]] = [
    (NAN, "new capacity of cores: got nan, expected a number >= 0"),
    ([2, -1], r"new capacity of memory: got -1\.0, expected a number >= 0"),
    ([INF, 1], "new capacity of cores: got inf"),
    ([1, 2, 3], r"new capacity: got \[1, 2, 3\], expected a number for each of \('cores', 'memory'\)"),
    (5, r"new capacity: got 5, expected a number for each of \('cores', 'memory'\)"),
    ([], r"new capacity: got \[\], expected a number for each"),
    ("much", "new capacity: got 'much': could not convert"),
    (None, "new capacity: got None"),
    ([[1], [2, 3]], r"new capacity: got \[\[1\], \[2, 3\]\]"),
]
STEPS: list[tuple[list[tuple[float, Any]], str]] = [
    ([], r"steps: got \(\), expected the first at time 0"),
    ([(0.5, 1)], r"steps: got \(\(0\.5, 1\),\), expected the first at time 0"),
    ([(NAN, 1)], "expected the first at time 0"),
    ([(-1, 1), (0, 1)], "expected the first at time 0"),
    ([(0, 1), (3, 1), (2.5, 1)], r"steps: got time 2\.5 after time 3\.0; sort the steps"),
    ([(0, 1), (NAN, 1)], "steps: got time nan after time 0"),
    ([(0, 1), (INF, 1)], "steps: got time inf after time 0"),
]


class TestCapacities:
    """A capacity that is none."""

    @pytest.mark.parametrize(("series", "message"), SERIES, ids=[message for _, message in SERIES])
    def test_a_series(self, series: Any, message: str) -> None:
        caught(InvalidConfiguration, message, lambda: DeferrableCluster([], series))
        caught(InvalidConfiguration, message, lambda: replayed_capacity(series, repeat=True))

    @pytest.mark.parametrize(("steps", "message"), STEPS, ids=[message for _, message in STEPS])
    def test_steps(self, steps: Any, message: str) -> None:
        caught(InvalidConfiguration, message, lambda: stepped_capacity(steps))

    @pytest.mark.parametrize(("amounts", "message"), AMOUNTS, ids=[message for _, message in AMOUNTS])
    @pytest.mark.parametrize("time", [0, 1.5])
    def test_what_a_process_sets(self, amounts: Any, message: str, time: float) -> None:
        message = message if amounts is not NAN else "new capacity: got nan, expected a number for each"
        steps = [(0, (9.0, 9.0)), (1.5, amounts)] if time else [(0, amounts)]
        cluster = DeferrableCluster([], stepped_capacity(steps), num_slots=4, resources=("cores", "memory"))
        error = caught(WorkloadError, f"^time {time}: {message}", lambda: simulate(cluster, FirstFit()))
        assert error.result.table("slots").height == (2 if time else 0)

    def test_not_a_number_of_the_only_resource(self) -> None:
        cluster = DeferrableCluster([], stepped_capacity([(0, NAN)]), num_slots=1)
        caught(WorkloadError, "^time 0: new capacity of cores: got nan", lambda: simulate(cluster, FirstFit()))

    @pytest.mark.parametrize(("series", "resources"), [([[1, 2]], "cores"), ([1, 2], ("cores", "memory"))])
    def test_a_series_for_other_resources(self, series: Any, resources: Any) -> None:
        cluster = DeferrableCluster([], series, num_slots=1, resources=resources)
        caught(WorkloadError, "^time 0: .* expected a number for each of", lambda: simulate(cluster, FirstFit()))

    def test_a_process_that_sets_nothing(self) -> None:
        cluster = DeferrableCluster([GOOD], setting([]))
        caught(InvalidConfiguration, "^time 0: the capacity is not set; ", lambda: simulate(cluster, FirstFit()))

    def test_a_process_that_begins_too_late(self) -> None:
        def process(cluster: Any) -> Generator[simpy.Event, Any, None]:
            yield at(cluster.env, 1, Phase.CAPACITY)
            cluster.set_capacity(5)

        cluster = DeferrableCluster([GOOD], process)
        caught(InvalidConfiguration, "^time 0: the capacity is not set; ", lambda: simulate(cluster, FirstFit()))


# At 2, when it is asked: jobs 1 and 2 run on 3 of 5 cores, and jobs 5, 6 and 9 may be started.
CURRENT = [Job(5, 0, 2, 9, 1, 1), Job(6, 0, 2, 9, 1, 2), Job(9, 0, 2, 9, 1, 0.5)]
SYSTEM = [Job(1, 0, 0, 0, 9, 1), Job(2, 0, 0, 0, 9, 2), Job(3, 0, 0, 1, 9, 1), Job(8, 0, 4, 4, 9, 1), *CURRENT]
WANT = "expected positions in current of the jobs to start, or None"
ANSWERS: list[tuple[Any, str]] = [
    (0, f"action: got 0, {WANT}"),
    ("0", f"action: got '0', {WANT}"),
    (["0"], rf"action: got \['0'\], {WANT}"),
    ([0.0], rf"action: got \[0\.0\], {WANT}"),
    ([NAN], rf"action: got \[nan\], {WANT}"),
    (np.array([0.0]), rf"action: got array\(\[0\.\]\), {WANT}"),
    ([True, False, False], rf"action: got \[True, False, False\], {WANT}"),
    ([None], rf"action: got \[None\], {WANT}"),
    ([[0], [1]], rf"action: got \[\[0\], \[1\]\], {WANT}"),
    ([[0], [1, 2]], rf"action: got \[\[0\], \[1, 2\]\], {WANT}"),
    ([[]], rf"action: got \[\[\]\], {WANT}"),
    (np.zeros((0, 3), dtype=int), rf"action: got array\(.*\), {WANT}"),
    ({0}, rf"action: got \{{0\}}, {WANT}"),
    ({0: 1}, rf"action: got \{{0: 1\}}, {WANT}"),
    ((position for position in [0]), rf"action: got <generator.*, {WANT}"),
    ([2**70], rf"action: got \[{2**70}\], {WANT}"),
    ([3], "position: got 3, expected 0 <= position < 3, the number of current jobs"),
    ([0, -1], "position: got -1, expected 0 <= position < 3, the number of current jobs"),
    (
        np.array([2**63], dtype=np.uint64),
        f"position: got {2**63}, expected 0 <= position < 3, the number of current jobs",
    ),
    ([0, 1, 0], "job 5 is in the action twice, expected at most once"),
    ([2, 1, 2, 0, 1], "job 6 is in the action twice, expected at most once"),
]


class TestAnswers:
    """What an agent may not answer."""

    @pytest.mark.parametrize(("answer", "message"), ANSWERS, ids=[message[:50] for _, message in ANSWERS])
    def test_an_answer_that_cannot_be_carried_out(self, answer: Any, message: str, tmp_path: Path) -> None:
        cluster = DeferrableCluster(SYSTEM, [5])
        agent = Scripted([0, 1], None, answer)
        run = tmp_path / "run"
        error = caught(InfeasibleAction, f"(?s)^time 2: {message}$", lambda: simulate(cluster, agent, out=run))
        assert any("time 2" in note and "scripted" in note for note in error.__notes__)
        for result in (error.result, Result.load(run)):
            assert (result.info["status"], result.info["end_time"]) == ("failed", 2)
            assert result.table("slots")["reward"].to_list() == [27, 0]
            rows = result.jobs.select("job_id", "status").rows()
            assert rows[:3] == [(1, "running"), (2, "running"), (3, "expired")]
            assert rows[3:] == [(number, "queued") for number in (5, 6, 8, 9)]

    @pytest.mark.parametrize(
        "answer", [None, [], (), np.array([]), [0, 2], (2, 0), np.array([2, 0], dtype=np.uint8), range(0, 3, 2)]
    )
    def test_answers_of_all_kinds(self, answer: Any) -> None:
        result = simulate(DeferrableCluster(SYSTEM, [5]), Scripted([0, 1], None, answer))
        started = set(result.jobs.filter(result.jobs["starting_time"] == 2)["job_id"])
        assert started == (set() if answer is None or not len(answer) else {5, 9})

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            ([1, 2], r"job 9 requests 0\.5 cores, but only 0 cores are free"),
            ([2, 1], r"job 6 requests 2 cores, but only 1\.5 cores are free"),
            ([0, 1, 2], r"job 6 requests 2 cores, but only 1 cores are free"),
        ],
    )
    def test_more_than_fits(self, answer: list[int], message: str) -> None:
        agent = Scripted([0, 1], None, answer)
        cluster = DeferrableCluster(SYSTEM, [5], overcommit=False)
        error = caught(InfeasibleAction, f"^time 2: {message}$", lambda: simulate(cluster, agent))
        assert error.result.jobs["status"].to_list().count("queued") == 4
        assert simulate(DeferrableCluster(SYSTEM, [5]), agent).table("slots")["started"][2] == len(answer)

    def test_more_of_one_resource_than_fits(self) -> None:
        jobs = [Job(1, 0, 0, 0, 1, 1, (2, 0)), Job(2, 0, 0, 0, 1, 2, (3.5, 1))]
        cluster = DeferrableCluster(jobs, [(9, 5, 9)], overcommit=False, resources=("cores", "memory", "disk"))
        message = r"^time 0: job 2 requests 2 cores, 3\.5 memory, 1 disk, but only 8 cores, 3 memory, 9 disk are free$"
        caught(InfeasibleAction, message, lambda: simulate(cluster, Scripted([0, 1])))

    def test_nothing_may_be_started_where_nothing_is_open(self) -> None:
        message = "^time 0: position: got 0, expected 0 <= position < 0, the number of current jobs$"
        cluster = DeferrableCluster([GOOD], [5])
        caught(InfeasibleAction, message, lambda: simulate(cluster, Scripted([0])))


ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"num_slots": True}, "num_slots: got"),
    ({"delay_weight": True}, "delay_weight: got"),
    ({"violation_weight": "10"}, "violation_weight: got"),
    ({"overcommit": "no"}, "overcommit: got"),
    ({"real_time": None}, "real_time: got"),
    ({"resources": None}, "resources: got"),
    ({"resources": ("cores", "time")}, "time"),
    *(({"num_slots": value}, f"num_slots: got {value!r}, expected an integer from 1 to") for value in (0, 2.5, "5")),
    *(
        ({"delay_weight": value}, f"delay_weight: got {value!r}, expected a finite number from 0 to")
        for value in (-1, NAN, [1, 2])
    ),
    *(
        ({"violation_weight": value}, f"violation_weight: got {value!r}, expected finite numbers >= 0")
        for value in (NAN, INF, [1, -1])
    ),
    *(
        ({"violation_weight": value}, f"violation_weight: got {value!r}, expected one number or 2")
        for value in ([1, 2, 3], "w2", [[1], [2, 3]])
    ),
    *(
        ({"eviction": value}, f"eviction: got {value!r}, expected one of 'never', 'lost', 'restarted'")
        for value in ("always", None)
    ),
    *(
        ({"resources": value}, f"resources: got {value!r}, expected at least one name, all distinct")
        for value in ((), ("cores", "cores"), ("cores", ""), [None])
    ),
]


@pytest.mark.parametrize(("arguments", "message"), ARGUMENTS, ids=[message[:60] for _, message in ARGUMENTS])
def test_arguments_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    options = {"resources": ("cores", "memory")} | arguments
    caught(InvalidConfiguration, re.escape(message), lambda: DeferrableCluster([], [(1, 1)], **options))


def test_an_event_that_does_not_exist() -> None:
    message = "^deferrable has no event 'finish'; expected one of arrival, start, completion, expiry, eviction, slot$"
    caught(InvalidConfiguration, message, lambda: DeferrableCluster([], [1]).on("finish", print))


def of_job(*fields: Any, **options: Any) -> Callable[[], Any]:
    """Return a run of a single job."""
    return lambda: simulate(DeferrableCluster([Job(7, *fields)], [1], **options), FirstFit())


OTHERS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    *((of_job(time, 0, 0, 1, 1), WorkloadError, "job 7|job_id=7") for time in ("0", None, [0])),
    (of_job(0, 0, 0, 1, np.complex128(1 + 2j)), WorkloadError, "job 7: cores: got"),
    *(
        (lambda others=others: list(real_time([Job(7, 0, 0, 0, 1, 1, others)])), WorkloadError, "job 7: others: got")
        for others in (None, 3)
    ),
    *(
        (lambda steps=steps: stepped_capacity(steps), InvalidConfiguration, "expected pairs")
        for steps in (None, [(0, 1), (1,)], [(0, 5), ("later", 4)], 7)
    ),
    (lambda: clairvoyant_view(DeferrableCluster(iter([GOOD]), [1])), InvalidConfiguration, "iterator"),
    (
        lambda: simulate(DeferrableCluster([GOOD, Job(2, 0, 10, 10, 1, 1)], [1], real_time=True), FirstFit()),
        WorkloadError,
        "job_id=2|job 2",
    ),
]


@pytest.mark.parametrize(("run", "error", "message"), OTHERS)
def test_numbers_that_are_none_and_what_is_out_of_order(
    run: Callable[[], Any], error: type[Exception], message: str
) -> None:
    caught(error, message, run)
