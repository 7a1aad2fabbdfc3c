"""Jobs that must go when the capacity falls: who, when, what is taken back, and who may be started again."""

from __future__ import annotations

from typing import Any

import pytest
from deferrable_agents import Scripted, Showing, View, all_of

from desim import Result, simulate
from desim.problems.deferrable import DeferrableCluster, Job


def run(jobs: list[Job], capacity: Any, *answers: Any, **options: Any) -> Result:
    return simulate(DeferrableCluster(jobs, capacity, **options), Scripted(*answers))


def evictions(result: Result) -> list[tuple[int, int, int]]:
    """Return job, start and time of every eviction."""
    return result.table("evictions").select("job_id", "starting_time", "eviction_time").rows()


def fates(result: Result) -> list[tuple[Any, ...]]:
    """Return job, start, end, status and number of evictions."""
    return result.jobs.select("job_id", "starting_time", "finish_time", "status", "evictions").rows()


def three(**options: Any) -> Job:
    return Job(**({"job_id": 1, "submission_time": 0, "earliest_start": 0, "latest_start": 9, "duration": 9} | options))


FIRST, SECOND, THIRD = (three(job_id=number, cores=cores) for number, cores in ((1, 4), (2, 1), (3, 2)))


class TestWho:
    """Those that were started last, until the others fit."""

    @pytest.mark.parametrize(
        ("falls_to", "gone"), [(7, []), (6.5, [3]), (5, [3]), (4.5, [2, 3]), (4, [2, 3]), (3.5, [1, 2, 3])]
    )
    def test_the_newest_first(self, falls_to: float, gone: list[int]) -> None:
        result = run([FIRST, SECOND, THIRD], [7, 7, 7, falls_to], [0], [0], [0], eviction="lost", num_slots=5)
        assert [job_id for job_id, *_ in evictions(result)] == gone
        assert {time for *_, time in evictions(result)} <= {3}

    def test_of_one_slot_the_last_of_the_answer(self) -> None:
        result = run([FIRST, SECOND, THIRD], [7, 6.5], [2, 0, 1], eviction="lost", num_slots=3)
        assert [job_id for job_id, *_ in evictions(result)] == [2]
        result = run([FIRST, SECOND, THIRD], [7, 4], [1, 2, 0], eviction="lost", num_slots=3)
        assert [job_id for job_id, *_ in evictions(result)] == [1]

    def test_who_holds_nothing_of_what_is_short_stays(self) -> None:
        jobs = [three(job_id=number, cores=1, others=(memory,)) for number, memory in enumerate((1, 0, 2, 0))]
        options: dict[str, Any] = {"resources": ("cores", "memory"), "eviction": "lost", "num_slots": 3}
        for falls_to, gone in (((4, 2), [2]), ((4, 0), [0, 2]), ((3, 2), [2, 3]), ((3, 9), [3]), ((2, 0), [0, 2, 3])):
            result = run(jobs, [(4, 3), falls_to], [0, 1, 2, 3], **options)
            assert [job_id for job_id, *_ in evictions(result)] == gone, falls_to

    def test_what_ends_when_the_capacity_falls_has_ended(self) -> None:
        result = run([three(duration=2, cores=4)], [4, 4, 0], [0], eviction="lost")
        assert fates(result) == [(1, 0, 2, "completed", 0)]

    def test_nobody_unless_wanted(self) -> None:
        result = run([FIRST], [4, 0], [0], num_slots=3)
        assert evictions(result) == []
        assert fates(result) == [(1, 0, None, "running", 0)]
        assert result.table("slots")["violation_cores"].to_list() == [0, 4, 4]

    def test_who_was_started_beyond_the_capacity_runs_for_one_slot(self) -> None:
        result = run([FIRST, SECOND], [4], [0, 1], eviction="lost", num_slots=3)
        assert evictions(result) == [(2, 0, 1)]
        assert result.table("slots")["violation_cores"].to_list() == [1, 0, 0]


class TestLost:
    """What becomes of the job, and what is taken back."""

    def test_revenue_and_delay_are_taken_back(self) -> None:
        job = three(latest_start=3, duration=5, cores=2)
        result = run([job], [2, 2, 2, 1], None, [0], eviction="lost")
        slots = result.table("slots")
        assert slots["revenue"].to_list() == [0, 10, 0, -10]
        assert slots["delay"].to_list() == [0, 1, 0, -1]
        assert slots["reward"].to_list() == [0, 10 - 2, 0, -10 + 2]
        assert slots["evicted"].to_list() == [0, 0, 0, 1]
        assert slots["used_cores"].to_list() == [0, 2, 2, 0]
        assert slots["violation_cores"].to_list() == [0, 0, 0, 0]
        assert fates(result) == [(1, 1, 3, "evicted", 1)]
        assert result.jobs.select("execution_time", "revenue", "delay", "success").row(0) == (2, 10, 1, False)
        assert result.info["end_time"] == 4

    def test_its_id_is_free_again_and_its_end_is_no_event(self) -> None:
        jobs = [three(duration=3, cores=2), three(submission_time=2, earliest_start=2, duration=1, cores=1)]
        result = run(jobs, [2, 1], [0], None, [0], eviction="lost")
        assert fates(result) == [(1, 0, 1, "evicted", 1), (1, 2, 3, "completed", 0)]


class TestRestarted:
    """Jobs whose window is still open when they must go."""

    def test_it_is_started_again_and_runs_in_full(self) -> None:
        result = run([three(latest_start=4, duration=3, cores=2)], [2, 1, 2], [0], None, [0], eviction="restarted")
        assert fates(result) == [(1, 2, 5, "completed", 1)]
        assert evictions(result) == [(1, 0, 1)]
        slots = result.table("slots")
        assert slots["revenue"].to_list() == [6, -6, 6, 0, 0]
        assert slots["delay"].to_list() == [0, 0, 2, 0, 0]
        assert slots["current"].to_list() == [1, 1, 1, 0, 0]
        assert slots["arrived"].to_list() == [1, 0, 0, 0, 0]
        assert result.jobs["delay"].to_list() == [2]

    @pytest.mark.parametrize("latest", [0, 1, 2, 3])
    def test_the_last_slot_of_the_window_is_part_of_it(self, latest: int) -> None:
        result = run([three(latest_start=latest, cores=1)], [1, 1, 0.5, 1], [0], None, all_of, eviction="restarted")
        assert evictions(result) == [(1, 0, 2)]
        assert fates(result) == [(1, 0, 2, "evicted", 1) if latest < 2 else (1, 2, 11, "completed", 1)]
        assert result.table("slots")["violation_cores"][2] == (0 if latest < 2 else 0.5)

    def test_it_expires_if_it_is_not_started_again(self) -> None:
        result = run([three(latest_start=2, cores=1)], [1, 0], [0], eviction="restarted")
        assert fates(result) == [(1, None, None, "expired", 1)]
        assert result.jobs.select("starting_time", "delay", "execution_time").row(0) == (None, None, None)
        assert result.table("slots")["reward"].sum() == 0

    def test_it_is_pending_if_the_run_ends_before_its_window(self) -> None:
        result = run([three(cores=1)], [1, 0], [0], eviction="restarted", num_slots=3)
        assert fates(result) == [(1, None, None, "queued", 1)]

    def test_it_may_go_many_times(self) -> None:
        jobs = [three(latest_start=5, duration=2, cores=1)]
        result = run(jobs, [1, 0, 1, 0, 1, 0], [0], [], [0], [], [0], eviction="restarted")
        assert evictions(result) == [(1, 0, 1), (1, 2, 3), (1, 4, 5)]
        assert fates(result) == [(1, None, None, "expired", 3)]
        result = run(jobs, [1, 0, 1, 0, 1, 1], [0], [], [0], [], [0], eviction="restarted")
        assert fates(result) == [(1, 4, 6, "completed", 2)]
        assert result.table("slots")["reward"].sum() == 2 - 2 * 4

    def test_it_keeps_its_place_in_the_system(self) -> None:
        jobs = [three(cores=1, latest_start=3), three(submission_time=1, earliest_start=1, cores=1)]
        with pytest.raises(ValueError, match="job 1: submitted at 1, while another job with this id is in the system"):
            run(jobs, [1, 0], [0], eviction="restarted")

    def test_those_that_came_back_are_shown_last_in_the_order_of_their_starts(self) -> None:
        jobs = [three(job_id=number, cores=1) for number in (1, 2, 3)]
        jobs += [three(job_id=4, submission_time=2, earliest_start=2, cores=1)]
        agent = Showing(lambda view: {0: [2, 0], 1: [0]}.get(view.slot))
        simulate(DeferrableCluster(jobs, [3, 3, 1], eviction="restarted", num_slots=3), agent)
        last = agent.views[2]
        assert [job.job_id for job in last.running] == [3]
        assert [(job.job_id, job.evictions, job.start) for job in last.current] == [
            (4, 0, None),
            (1, 1, None),
            (2, 1, None),
        ]

    def test_an_old_end_does_not_end_the_new_run(self) -> None:
        ends: list[float] = []
        cluster = DeferrableCluster([three(duration=4, cores=1)], [1, 0, 1], eviction="restarted", num_slots=9)
        cluster.on("completion", lambda time, job: ends.append(time))

        def choose(view: View) -> list[int]:
            return [0] if view.current and view.slot in (0, 2) else []

        agent = Showing(choose)
        simulate(cluster, agent)
        assert ends == [6]
        assert [len(view.running) for view in agent.views] == [0, 0, 0, 1, 1, 1, 0, 0, 0]
