"""The published score functions, by values that were worked out by hand."""

from __future__ import annotations

import pytest

from desim import Simulation, simulate
from desim.agents.batch import PRIORITIES, create
from desim.problems.batch import BatchCluster, Job

# At 2,100 s: r = 100 s, n = 4 cores, s = 1,000 s, and so w = 1,100 s; then r = 10,000 s, n = 16, s = 100 s.
ROWS = [Job(2, 100.0, 16, 10_000.0, 1.0), Job(1, 1_000.0, 4, 100.0, 1.0), Job(3, 2_100.0, 1, 400.0, 1.0)]


def scores(name: str) -> dict[int, float]:
    simulation = Simulation(BatchCluster(ROWS, 16))
    observation = None
    while (decision := simulation.advance()) is not None:
        observation = decision.observation
        if observation.time == 2_100:
            values = PRIORITIES[name]().scores(observation.queue, observation.time).tolist()
            return dict(zip(observation.queue.id.tolist(), values, strict=True))
        decision.answer(None)
    raise AssertionError("the third job never arrived")


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("f1", 2 * 4 + 870 * 3, 4 * 16 + 870 * 2),
        ("f2", 10 * 4 + 25_600 * 3, 100 * 16 + 25_600 * 2),
        ("f3", 100 * 4 + 6_860_000 * 3, 10_000 * 16 + 6_860_000 * 2),
        ("f4", 100 * 2 + 530_000 * 3, 10_000 * 4 + 530_000 * 2),
        ("wfp3", -(11**3) * 4, -(0.2**3) * 16),
        ("unicep", -1_100 / (2 * 100), -2_000 / (4 * 10_000)),
    ],
)
def test_scores(name: str, first: float, second: float) -> None:
    found = scores(name)
    assert found[1] == pytest.approx(first, rel=1e-12)
    assert found[2] == pytest.approx(second, rel=1e-12)


def test_a_job_that_has_just_arrived_has_no_claim_by_waiting() -> None:
    assert scores("wfp3")[3] == 0
    assert scores("unicep")[3] == 0


@pytest.mark.parametrize("name", ["f1", "f2", "f3", "f4", "wfp3", "unicep"])
def test_scores_are_finite_where_the_formulas_are_not(name: str) -> None:
    # log10(0) of the submission, division by a requested time of 0, log2(1) of the cores
    jobs = [Job(1, 0.0, 1, 0.0, 0.0), Job(2, 0.0, 1, 5.0, 5.0), Job(3, 1.0, 1, 5.0, 5.0), Job(4, 1.0, 1, 0.0, 0.0)]
    result = simulate(BatchCluster(jobs, 1), create(name))
    assert set(result.jobs["status"]) == {"completed"}


def test_scores_decide_who_goes_first() -> None:
    # A core is held until 2,000 s. Of three jobs each score prefers another one.
    jobs = [
        Job(0, 1.0, 1, 2_000.0, 1_999.0),
        Job(1, 1_000.0, 1, 4_000.0, 4_000.0),
        Job(2, 1_020.0, 1, 10.0, 10.0),
        Job(3, 1_900.0, 1, 1.0, 1.0),
    ]

    def order(name: str) -> list[int]:
        return simulate(BatchCluster(jobs, 1), create(name)).jobs.sort("starting_time")["job_id"].to_list()[1:]

    assert order("fcfs") == [1, 2, 3]
    assert order("lcfs") == [3, 2, 1]
    assert order("sjf") == [3, 2, 1]
    assert order("f1") == [1, 2, 3]  # 870 log10(1.02) = 7.5 outweighs log10(4,000 / 10) = 2.6
    assert order("f2") == [1, 2, 3]  # 25,600 log10(1.02) = 220 outweighs sqrt(4,000) - sqrt(10) = 60
    assert order("f3") == [1, 2, 3]
    assert order("f4") == [1, 2, 3]
    assert order("wfp3") == [3, 2, 1]  # slowdowns 100, then 98.1 and 0.25
    assert order("unicep") == [3, 2, 1]


def test_requested_time_counts_where_submissions_are_close() -> None:
    jobs = [Job(0, 1.0, 1, 2_000.0, 1_999.0), Job(1, 1_000.0, 1, 40_000.0, 9.0), Job(2, 1_000.5, 1, 10.0, 9.0)]

    def first(name: str) -> int:
        return int(simulate(BatchCluster(jobs, 1), create(name)).jobs.sort("starting_time")["job_id"][1])

    assert {name: first(name) for name in ("fcfs", "f1", "f2", "f3", "f4")} == {
        "fcfs": 1,
        "f1": 2,  # log10(4,000) = 3.6 against 870 log10(1.0005) = 0.19
        "f2": 2,  # 200 - 3 against 25,600 log10(1.0005) = 5.6
        "f3": 2,  # 39,990 against 6.86e6 log10(1.0005) = 1,489
        "f4": 2,  # 39,990 against 5.3e5 log10(1.0005) = 115
    }
