"""Backfilling on scenarios that were worked out on paper."""

from __future__ import annotations

import pytest

from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Job


def starts(name: str, num_cores: int, *rows: tuple[float, int, float] | tuple[float, int, float, float]) -> list[float]:
    """Return the starts of jobs (submission, cores, requested time, run time if it is another)."""
    jobs = [Job(number, *row[:3], row[-1]) for number, row in enumerate(rows)]
    return simulate(BatchCluster(jobs, num_cores), create(name)).jobs.sort("job_id")["starting_time"].to_list()


# Two of four cores are busy until 10; the next job wants three, and so starts at 10.
BLOCKED = ((0.0, 2, 10.0), (1.0, 3, 5.0))
EASY = ("easy", "easy-specific")
CONSERVATIVE = ("conservative", "conservative-specific")


class TestBesideAReservation:
    @pytest.mark.parametrize("name", ["backfilling", *EASY, *CONSERVATIVE])
    def test_a_job_that_ends_just_in_time(self, name: str) -> None:
        assert starts(name, 4, *BLOCKED, (2.0, 2, 8.0)) == [0, 10, 2]

    def test_a_job_that_would_end_too_late(self) -> None:
        row = (2.0, 2, 8.5)
        assert starts("fcfs", 4, *BLOCKED, row) == [0, 10, 15]
        assert starts("backfilling", 4, *BLOCKED, row) == [0, 10.5, 2]
        for name in (*EASY, *CONSERVATIVE):
            assert starts(name, 4, *BLOCKED, row) == [0, 10, 15]

    @pytest.mark.parametrize("name", [*EASY, *CONSERVATIVE])
    def test_a_long_job_on_the_core_that_is_left_over(self, name: str) -> None:
        assert starts(name, 4, *BLOCKED, (2.0, 1, 99.0)) == [0, 10, 2]

    @pytest.mark.parametrize("name", [*EASY, *CONSERVATIVE])
    def test_the_core_that_is_left_over_is_left_over_once(self, name: str) -> None:
        assert starts(name, 4, *BLOCKED, (2.0, 1, 99.0), (3.0, 1, 50.0)) == [0, 10, 2, 15]

    @pytest.mark.parametrize("name", [*EASY, *CONSERVATIVE])
    def test_a_reservation_goes_by_requests_and_a_job_that_ends_early_brings_it_forward(self, name: str) -> None:
        rows = ((0.0, 2, 10.0, 6.0), (1.0, 3, 5.0))
        assert starts(name, 4, *rows) == [0, 6]
        assert starts(name, 4, *rows, (2.0, 2, 8.0)) == [0, 10, 2]  # allowed at 2, in the way at 6


class TestWhichCores:
    @pytest.mark.parametrize("kind", ["easy", "conservative"])
    def test_cores_are_counted_or_named(self, kind: str) -> None:
        # From 1 on core 0 is free, and cores 1-2 are busy until 9, when the third job gets two cores.
        jobs = [
            Job(0, 0.0, 1, 1.0, 1.0),
            Job(1, 0.0, 2, 9.0, 9.0),
            Job(2, 1.0, 2, 5.0, 5.0),
            Job(3, 1.0, 1, 50.0, 50.0),
        ]
        by_number, by_name = (
            simulate(BatchCluster(jobs, 3), create(kind + suffix)).jobs.select("starting_time", "allocated_resources")
            for suffix in ("", "-specific")
        )
        assert by_number.rows() == [(0, "0"), (0, "1-2"), (9, "1-2"), (1, "0")]
        assert by_name.rows() == [(0, "0"), (0, "1-2"), (9, "0-1"), (9, "2")]  # no core was free from 1 on

    @pytest.mark.parametrize("name", ["easy-specific", "conservative-specific"])
    def test_a_job_goes_around_reserved_cores(self, name: str) -> None:
        # Cores 0-1 are busy until 4; the blocked job gets 0-2, and a long job may have core 3.
        jobs = [Job(1, 0.0, 2, 4.0, 4.0), Job(2, 1.0, 3, 4.0, 4.0), Job(3, 2.0, 1, 50.0, 50.0)]
        table = simulate(BatchCluster(jobs, 4), create(name)).jobs
        assert table["allocated_resources"].to_list() == ["0-1", "0-2", "3"]
        assert table["starting_time"].to_list() == [0, 4, 2]


class TestWhoseTurn:
    def test_easy_reserves_for_the_first_only(self) -> None:
        rows = ((0.0, 2, 4.0), (1.0, 3, 2.0), (1.0, 4, 2.0), (2.0, 1, 9.0))
        assert starts("easy", 4, *rows) == [0, 4, 11, 2]
        assert starts("conservative", 4, *rows) == [0, 4, 6, 8]

    def test_orders_decide_who_is_first_and_who_fills(self) -> None:
        rows = ((0.0, 4, 4.0), (1.0, 3, 6.0), (1.0, 2, 3.0), (1.0, 1, 5.0), (1.0, 2, 4.0))
        assert starts("easy-fcfs", 4, *rows) == [0, 4, 10, 4, 10]
        assert starts("easy-sjf", 4, *rows) == [0, 8, 4, 7, 4]
        assert starts("backfilling-lcfs", 4, *rows) == [0, 11, 8, 4, 4]

    def test_simple_back_filling_lets_a_wide_job_starve(self) -> None:
        stream = [(float(time), 1, 2.0) for time in range(30)]
        wide = (0.5, 2, 1.0)
        rows = sorted([*stream, wide])
        position = rows.index(wide)
        assert starts("backfilling", 2, *rows)[position] == 31
        assert starts("easy", 2, *rows)[position] == 2
