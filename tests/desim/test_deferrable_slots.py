"""Clusters for deferrable jobs, slot by slot: windows, revenue, delays and violations worked out by hand."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import polars as pl
import pytest
import simpy
from deferrable_agents import FirstFit, Scripted, Showing, all_of, never
from deferrable_scenarios import idling, setting, submitting

from desim import Result, simulate
from desim.exceptions import InfeasibleAction, WorkloadError
from desim.problems.deferrable import DeferrableCluster, DeferrableObservation, Job
from desim.processes import replayed_capacity, stepped_capacity


def run(jobs: list[Job], capacity: Any, *answers: Any, **options: Any) -> Result:
    return simulate(DeferrableCluster(jobs, capacity, **options), Scripted(*answers))


def fates(result: Result) -> list[tuple[Any, ...]]:
    """Return job, start, end and status."""
    return result.jobs.select("job_id", "starting_time", "finish_time", "status").rows()


class TestObjective:
    """Equation (1) on four jobs: 6 + 8 + 4 + 2 of revenue, delays of 2 + 1, violations of 1 + 5 + 2."""

    def result(self, **options: Any) -> Result:
        jobs = [
            Job(1, 0, 0, 0, duration=2, cores=3),
            Job(2, 0, 0, 2, duration=1, cores=4),
            Job(3, 0, 1, 1, duration=4, cores=2),
            Job(4, 0.5, 2, 4, duration=2, cores=1),
        ]
        return run(jobs, [5, 4, 1], [0], [1], [0], [0], num_slots=4, **options)

    def test_slots(self) -> None:
        slots = self.result().table("slots")
        assert slots.rows(named=True)[2] == {
            "slot": 2,
            "arrived": 0,
            "current": 2,
            "future": 0,
            "started": 1,
            "expired": 0,
            "evicted": 0,
            "running": 2,
            "current_work": 6,
            "future_work": 0,
            "revenue": 4,
            "delay": 2,
            "reward": 4 - 2 * 2 - 10 * 5,
            "capacity_cores": 1,
            "used_cores": 6,
            "violation_cores": 5,
        }
        assert slots["reward"].to_list() == [6, 8 - 10, -50, 2 - 2 - 20]
        assert slots["arrived"].to_list() == [3, 1, 0, 0]
        assert slots["future"].to_list() == [1, 1, 0, 0]
        assert slots["future_work"].to_list() == [8, 2, 0, 0]
        assert slots["capacity_cores"].to_list() == [5, 4, 1, 1]
        assert slots["running"].to_list() == [1, 2, 2, 2]
        assert slots["reward"].sum() == 20 - 2 * 3 - 10 * 8

    def test_jobs(self) -> None:
        result = self.result()
        assert fates(result) == [
            (1, 0, 2, "completed"),
            (2, 2, 3, "completed"),
            (3, 1, None, "running"),
            (4, 3, None, "running"),
        ]
        assert result.jobs["delay"].to_list() == [0, 2, 0, 1]
        assert result.jobs["revenue"].to_list() == [6, 4, 8, 2]
        assert result.jobs["waiting_time"].to_list() == [0, 2, 1, 2.5]
        assert result.jobs["execution_time"].to_list() == [2, 1, None, None]
        assert result.jobs["turnaround_time"].to_list() == [2, 3, None, None]
        assert result.info["end_time"] == 4

    def test_weights(self) -> None:
        slots = self.result(delay_weight=0.5, violation_weight=3).table("slots")
        assert slots["reward"].to_list() == [6, 8 - 3, 4 - 1 - 15, 2 - 0.5 - 6]
        unsigned = self.result(delay_weight=np.uint8(2), violation_weight=np.array([10], dtype=np.uint8))
        assert unsigned.table("slots").equals(self.result().table("slots"))

    def test_types_of_the_columns(self) -> None:
        whole = ["slot", "arrived", "current", "future", "started", "expired", "evicted", "running"]
        result, empty = self.result(), run([], [1])
        for slots in (result.table("slots"), empty.table("slots")):
            assert [name for name, dtype in slots.schema.items() if dtype == pl.Int64()] == whole
            assert [name for name, dtype in slots.schema.items() if dtype == pl.Float64()] == slots.columns[
                len(whole) :
            ]
        assert set(empty.table("evictions").schema.values()) == {pl.Int64()}


class TestWindows:
    """From when to when a job can be started."""

    def test_a_job_is_known_then_open_then_gone(self) -> None:
        agent = Showing(never)
        result = simulate(DeferrableCluster([Job(7, 1, 3, 4, 2, 1)], [9], num_slots=7), agent)
        shown = [([job.job_id for job in view.current], [job.job_id for job in view.future]) for view in agent.views]
        assert shown == [([], []), ([], [7]), ([], [7]), ([7], []), ([7], []), ([], []), ([], [])]
        assert result.table("slots")["expired"].to_list() == [0, 0, 0, 0, 1, 0, 0]
        assert fates(result) == [(7, None, None, "expired")]

    def test_the_last_slot_of_the_window_is_part_of_it(self) -> None:
        result = run([Job(7, 1, 3, 4, 2, 1)], [9], *[None] * 4, [0])
        assert fates(result) == [(7, 4, 6, "completed")]
        assert result.jobs["delay"].to_list() == [1]

    def test_the_last_slot_of_the_run(self) -> None:
        jobs = [Job(number, 0, min(last, 2), last, 1, 1) for number, last in enumerate((1, 2, 3, 9))]
        result = run([*jobs, Job(5, 0, 3, 3, 1, 1)], [9], num_slots=3)
        assert result.jobs["status"].to_list() == ["expired", "expired", "queued", "queued", "queued"]
        assert result.table("slots")["expired"].to_list() == [0, 1, 1]

    def test_a_job_that_outlives_the_run_has_earned_everything(self) -> None:
        jobs = [Job(number, 0, 0, 9, duration, 3) for number, duration in enumerate((1, 2, 100))]
        result = run(jobs, [9], None, None, [0, 1, 2], num_slots=4)
        assert fates(result) == [(0, 2, 3, "completed"), (1, 2, 4, "completed"), (2, 2, None, "running")]
        assert result.table("slots")["revenue"].to_list() == [0, 0, 3 * 103, 0]
        assert result.jobs["success"].to_list() == [True, True, False]

    def test_what_is_submitted_when_a_slot_begins_belongs_to_it(self) -> None:
        jobs = [Job(1, 1, 1, 1, 1, 1), Job(2, 1.25, 2, 2, 1, 1), Job(3, 2, 2, 2, 1, 1), Job(4, 2.5, 3, 3, 1, 1)]
        result = run(jobs, [9], *[all_of] * 3, num_slots=3)
        assert result.table("slots")["arrived"].to_list() == [0, 1, 2]
        assert [status for *_, status in fates(result)] == ["completed", "completed", "completed", "queued"]

    def test_what_is_submitted_at_the_end_is_not_part_of_the_run(self) -> None:
        jobs = [Job(1, 2.875, 3, 3, 1, 1), Job(2, 3, 3, 3, 1, 1), Job(3, 4, 4, 4, 1, 1)]
        assert fates(run(jobs, [9], num_slots=3)) == [(1, None, None, "queued")]

    def test_what_ends_when_a_slot_begins_has_left(self) -> None:
        agent = Showing(lambda view: [0] if view.current else None)
        jobs = [Job(1, 0, 0, 0, 2, 5), Job(2, 0, 2, 2, 1, 5)]
        result = simulate(DeferrableCluster(jobs, [5]), agent)
        assert [[job.job_id for job in view.running] for view in agent.views] == [[], [1], []]
        assert [view.used for view in agent.views] == [[0], [5], [0]]
        assert result.table("slots")["violation_cores"].to_list() == [0, 0, 0]

    def test_an_id_is_free_again_when_its_job_has_gone(self) -> None:
        jobs = [Job(1, 0, 0, 0, 2, 1), Job(1, 2, 2, 2, 3, 1), Job(1, 3, 3, 3, 1, 1)]
        assert fates(run(jobs, [9], [0], num_slots=3)) == [(1, 0, 2, "completed"), (1, None, None, "expired")]


class TestEnd:
    """When a run ends that has no given length."""

    def test_with_its_last_job(self) -> None:
        result = run([Job(1, 0, 0, 0, 2, 1), Job(2, 0, 0, 4, 3, 1)], [9], [0], None, [0])
        assert (result.table("slots").height, result.info["end_time"]) == (5, 5)
        result = run([Job(1, 0, 0, 4, 2, 1)], [9])
        assert (result.table("slots").height, result.info["end_time"]) == (5, 5)

    def test_nothing_to_do(self) -> None:
        result = run([], [9])
        assert (result.table("slots").height, result.jobs.height, result.info["end_time"]) == (0, 0, 0)
        result = run([], [9], num_slots=3)
        assert (result.table("slots").height, result.jobs.height, result.info["end_time"]) == (3, 0, 3)

    def test_it_waits_for_jobs_that_are_still_to_come(self) -> None:
        jobs = [Job(1, 0, 0, 0, 1, 1), Job(2, 5.5, 8, 8, 1, 1)]
        assert run(jobs, [9], [0]).table("slots")["slot"].to_list() == list(range(9))

    @pytest.mark.parametrize(("until", "slots"), [(2.0, 2), (2.5, 3), (0.0, 1)])
    def test_it_waits_for_processes(self, until: float, slots: int) -> None:
        result = run([Job(1, 0, 0, 0, 1, 1)], [9], [0], processes=[idling(until)])
        assert result.table("slots").height == slots

    def test_it_does_not_wait_for_processes_in_the_background(self) -> None:
        forever = setting([(time, (9.0,)) for time in range(1000)])
        forever.background = True  # type: ignore[attr-defined]
        assert run([Job(1, 0, 0, 0, 1, 1)], [9], [0], processes=[forever]).info["end_time"] == 1
        assert run([Job(1, 0, 0, 0, 1, 1)], [9.0] * 50, [0]).info["end_time"] == 1
        for process in (replayed_capacity([9.0] * 50), stepped_capacity([(0, 9), (50, 8)])):
            assert run([Job(1, 0, 0, 0, 1, 1)], [9.0], [0], processes=[process]).info["end_time"] == 1

    def test_a_process_submits_jobs(self) -> None:
        own = submitting([Job(2, 0.5, 1, 1, 1, 1), Job(3, 2, 2, 2, 1, 1)])
        result = run([Job(1, 2, 2, 2, 1, 1)], [9], *[all_of] * 5, processes=[own])
        assert fates(result) == [(2, 1, 2, "completed"), (1, 2, 3, "completed"), (3, 2, 3, "completed")]


class TestCapacity:
    """What is left for the jobs, and when it is too little."""

    def used_and_short(self, result: Result) -> list[tuple[float, ...]]:
        return result.table("slots").select("capacity_cores", "used_cores", "violation_cores").rows()

    def test_it_falls_below_what_runs_and_rises_again(self) -> None:
        result = run([Job(1, 0, 0, 0, 5, 4)], [4, 3.5, 0, 4, 1e9], [0])
        assert self.used_and_short(result) == [(4, 4, 0), (3.5, 4, 0.5), (0, 4, 4), (4, 4, 0), (1e9, 4, 0)]
        assert result.table("slots")["reward"].to_list() == [20, -5, -40, 0, 0]
        assert fates(result) == [(1, 0, 5, "completed")]

    def test_the_last_value_of_a_series_stays(self) -> None:
        result = run([Job(1, 0, 0, 0, 5, 1)], [3, 2], [0])
        assert result.table("slots")["capacity_cores"].to_list() == [3, 2, 2, 2, 2]

    def test_what_counts_is_the_capacity_when_a_slot_begins(self) -> None:
        steps = stepped_capacity([(0, 9), (0.5, 8), (0.75, 7), (1.5, 0), (2, 6), (3, 5), (3, 4)])
        assert run([], steps, num_slots=5).table("slots")["capacity_cores"].to_list() == [9, 7, 6, 4, 4]

    def test_every_resource_has_its_weight(self) -> None:
        jobs = [Job(1, 0, 0, 0, 1, 3, (5,)), Job(2, 0, 0, 0, 1, 1, (0,))]
        options: dict[str, Any] = {"resources": ("cores", "memory"), "violation_weight": (10, 0.5)}
        slots = run(jobs, [(2, 1)], [0, 1], **options).table("slots")
        assert slots.select("used_cores", "violation_cores", "used_memory", "violation_memory").row(0) == (4, 2, 5, 4)
        assert slots["reward"].to_list() == [4 - 20 - 2]
        assert run(jobs, [(2, 1)], [1], **options).jobs["requested_memory"].to_list() == [5, 0]

    def test_what_needs_nothing_of_what_is_short_still_fits(self) -> None:
        jobs = [Job(1, 0, 0, 0, 3, 1, (5,)), Job(2, 0, 1, 1, 1, 1, (0,)), Job(3, 0, 1, 1, 1, 1, (1,))]
        options: dict[str, Any] = {"resources": ("cores", "memory"), "overcommit": False}
        result = run(jobs, [(9, 5), (9, 2)], [0], [0], **options)
        assert result.jobs["status"].to_list() == ["completed", "completed", "expired"]


LIMIT = 1 + 1e-9  # of a capacity of 1


class TestRounding:
    """Amounts that are not whole: up to the limit, which lies a little above the capacity, all is well."""

    def test_free_and_limit(self) -> None:
        seen: list[Any] = []

        def look(observation: DeferrableObservation) -> list[int]:
            seen.append((observation.free.tolist(), (observation.limit - observation.capacity).tolist()))
            return [0] if len(observation.current) else []

        run([Job(1, 0, 0, 0, 3, 4)], [5, 1e6, 0.5], look, look, look)
        assert seen == [
            ([1.0 * free], [pytest.approx(room)]) for free, room in ((5, 5e-9), (1e6 - 4, 1e-3), (-3.5, 1e-9))
        ]

    def test_rounding_is_no_violation(self) -> None:
        jobs = [Job(number, 0, 0, 0, 1, 0.1) for number in range(3)]
        assert np.sum([0.1] * 3) > 0.3
        for overcommit in (True, False):
            result = run(jobs, [0.3], [0, 1, 2], overcommit=overcommit)
            assert result.table("slots")["violation_cores"].to_list() == [0]
        result = run(jobs, [0.3 - 1e-6], [0, 1, 2])
        assert result.table("slots")["violation_cores"].to_list() == [pytest.approx(1e-6)]
        assert simulate(DeferrableCluster(jobs, [0.3], eviction="lost"), FirstFit()).table("slots")["started"][0] == 3

    def test_rounding_evicts_nobody(self) -> None:
        jobs = [Job(number, 0, 0, 0, 2, 0.1) for number in range(3)]
        assert run(jobs, [0.3], [0, 1, 2], eviction="lost").table("evictions").height == 0
        assert run(jobs, [0.3, 0.3 - 1e-6], [0, 1, 2], eviction="lost").table("evictions").height == 1

    def test_the_limit_itself_is_kept(self) -> None:
        result = run([Job(1, 0, 0, 0, 2, LIMIT)], [1], [0], overcommit=False, eviction="lost")
        assert result.table("slots")["violation_cores"].to_list() == [0, 0]
        assert result.jobs["status"].to_list() == ["completed"]
        beyond = [Job(1, 0, 0, 0, 2, float(np.nextafter(LIMIT, 2)))]
        assert run(beyond, [1], [0]).table("slots")["violation_cores"].to_list() == [pytest.approx(1e-9)] * 2
        assert run(beyond, [1], [0], eviction="lost").jobs["status"].to_list() == ["evicted"]
        with pytest.raises(InfeasibleAction, match=r"job 1 requests 1\.000000001 cores, but only 1 cores are free"):
            run(beyond, [1], [0], overcommit=False)

    def test_who_holds_only_what_is_exactly_used_up_stays(self) -> None:
        jobs = [Job(1, 0, 0, 0, 2, 0.5, (2,)), Job(2, 0, 0, 0, 2, LIMIT - 0.5, (0,))]
        result = run(jobs, [(1, 2), (1, 1)], [0, 1], eviction="lost", resources=("cores", "memory"))
        assert result.table("evictions")["job_id"].to_list() == [1]


class TestLateSubmissions:
    """Jobs that become known when the slot of their instant has been served."""

    @staticmethod
    def after_slot(slot: int, job: Job) -> Any:
        """Return a process that submits a job once a slot has been served."""

        def process(cluster: Any) -> Generator[simpy.Event, Any, None]:
            served = cluster.env.event()
            cluster.on("slot", lambda time, outcome: served.succeed() if outcome.slot == slot else None)
            yield served
            cluster.submit(job)

        return process

    def test_they_are_seen_in_the_next_slot(self) -> None:
        own = self.after_slot(2, Job(9, 2, 2, 4, 1, 1))
        result = simulate(DeferrableCluster([], [5], num_slots=6, processes=[own]), FirstFit())
        assert result.jobs.select("submission_time", "starting_time", "delay").rows() == [(2, 3, 1)]
        assert result.table("slots")["arrived"].to_list() == [0, 0, 0, 1, 0, 0]

    def test_nothing_is_submitted_after_its_window(self) -> None:
        own = self.after_slot(2, Job(9, 2, 2, 2, 1, 1))
        with pytest.raises(WorkloadError, match=r"job 9: latest_start: got .*, expected a slot that has not begun"):
            simulate(DeferrableCluster([], [5], num_slots=6, processes=[own]), FirstFit())

    def test_what_is_submitted_at_the_end_is_not_part_of_the_run(self) -> None:
        late = Job(9, 3, 3, 5, 1, 1)
        as_workload = simulate(DeferrableCluster([late], [5], num_slots=3), FirstFit())
        by_process = simulate(DeferrableCluster([], [5], num_slots=3, processes=[submitting([late])]), FirstFit())
        assert by_process.jobs.height == as_workload.jobs.height
