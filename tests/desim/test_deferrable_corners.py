"""Corners of clusters for deferrable jobs: submissions between slots, listeners that fail, names and types."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import simpy
from deferrable_agents import FirstFit, Scripted, all_of
from deferrable_scenarios import submitting

from desim import simulate
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.deferrable import DeferrableCluster, Job, foresee, real_time
from desim.processes import stepped_capacity


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
        with pytest.raises(WorkloadError, match="job 9: submitted at 2, when the slot of its latest start has begun"):
            simulate(DeferrableCluster([], [5], num_slots=6, processes=[own]), FirstFit())

    def test_what_is_submitted_at_the_end_is_not_part_of_the_run(self) -> None:
        late = Job(9, 3, 3, 5, 1, 1)
        as_workload = simulate(DeferrableCluster([late], [5], num_slots=3), FirstFit())
        by_process = simulate(DeferrableCluster([], [5], num_slots=3, processes=[submitting([late])]), FirstFit())
        assert by_process.jobs.height == as_workload.jobs.height


class TestListenersThatFail:
    """They end the run, and no record is lost."""

    @pytest.mark.parametrize(
        "event",
        [
            "arrival",
            "start",
            "completion",
            "expiry",
            "eviction",
            "slot",
        ],
    )
    def test_every_job_is_recorded_once(self, event: str) -> None:
        def listener(time: float, subject: Any) -> None:
            raise LookupError("my own mistake")

        jobs = [Job(1, 0, 0, 0, 1, 1), Job(2, 0, 0, 5, 4, 3), Job(3, 0, 0, 0, 1, 1)]
        cluster = DeferrableCluster(jobs, [4, 1], eviction="restarted")
        cluster.on(event, listener)
        with pytest.raises(LookupError) as caught:
            simulate(cluster, Scripted([0, 1], all_of))
        known = [1] if event == "arrival" else [1, 2, 3]
        assert caught.value.result.jobs["job_id"].to_list() == known  # type: ignore[attr-defined]


class TestTypes:
    """Numbers that are none, and names that are taken."""

    @pytest.mark.parametrize("time", ["0", None, [0]])
    def test_a_submission_time_that_is_no_number(self, time: Any) -> None:
        cluster = DeferrableCluster([Job(7, time, 0, 0, 1, 1)], [1])
        with pytest.raises(WorkloadError, match=r"job 7|job_id=7"):
            simulate(cluster, FirstFit())

    @pytest.mark.parametrize("others", [None, 3])
    def test_other_resources_that_have_no_length(self, others: Any) -> None:
        with pytest.raises(WorkloadError, match="job 7: others is"):
            list(real_time([Job(7, 0, 0, 0, 1, 1, others)]))

    def test_complex_cores(self) -> None:
        with pytest.raises(WorkloadError, match=r"job 7: it requests .* cores"):
            simulate(DeferrableCluster([Job(7, 0, 0, 0, 1, np.complex128(1 + 2j))], [1]), FirstFit())

    @pytest.mark.parametrize("arguments", [{"num_slots": True}, {"delay_weight": True}, {"violation_weight": "10"}])
    def test_arguments_that_are_no_numbers(self, arguments: dict[str, Any]) -> None:
        (name,) = arguments
        with pytest.raises(InvalidConfiguration, match=f"{name} is"):
            DeferrableCluster([], [1], **arguments)

    def test_a_resource_called_time(self) -> None:
        with pytest.raises(InvalidConfiguration, match="time"):
            DeferrableCluster([], [(1, 1)], resources=("cores", "time"))


class TestArguments:
    """What is none of the choices, or has no parts."""

    @pytest.mark.parametrize("arguments", [{"overcommit": "no"}, {"real_time": None}, {"resources": None}])
    def test_arguments_of_another_kind(self, arguments: dict[str, Any]) -> None:
        with pytest.raises(InvalidConfiguration, match=f"{next(iter(arguments))} (is|are)"):
            DeferrableCluster([], [1], **arguments)

    @pytest.mark.parametrize("steps", [None, [(0, 1), (1,)], [(0, 5), ("later", 4)], 7])
    def test_steps_that_are_no_pairs(self, steps: Any) -> None:
        with pytest.raises(InvalidConfiguration, match="want pairs"):
            stepped_capacity(steps)


class TestIterators:
    """Workloads that can be read once, or are out of order."""

    def test_an_iterator_is_not_foreseen(self) -> None:
        with pytest.raises(InvalidConfiguration, match="iterator"):
            foresee(DeferrableCluster(iter([Job(1, 0, 0, 0, 1, 1)]), [1]))

    def test_jobs_out_of_order_in_real_time(self) -> None:
        jobs = [Job(1, 5, 9, 9, 1, 1), Job(2, 1, 10, 10, 1, 1)]
        with pytest.raises(WorkloadError, match=r"job_id=2|job 2"):
            simulate(DeferrableCluster(jobs, [1], real_time=True), FirstFit())
