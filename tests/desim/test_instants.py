"""What happens at one instant, in which order, and what a decision sees of it."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st
from small_agents import FirstFit, Recorder, Scripted, drive, make_jobs

from desim import InvalidConfiguration, Phase, Simulation, at, simulate
from desim.agents.batch import FCFS
from desim.problems.batch import BatchCluster, Job


def test_completions_then_capacity_then_arrivals_then_decisions() -> None:
    seen: list[str] = []

    def process(label: str, phase: Any) -> Any:
        def run(cluster: BatchCluster) -> Generator[simpy.Event, Any, None]:
            yield at(cluster.env, 5.0, phase)
            seen.append(label)

        return run

    def later_timeout(cluster: BatchCluster) -> Generator[simpy.Event, Any, None]:
        yield cluster.env.timeout(4.0)
        yield cluster.env.timeout(1.0)
        seen.append("timeout")

    class Noting(FirstFit):
        def act(self, observation: Any) -> int | None:
            if observation.time == 5.0:
                seen.append("decision")
            return super().act(observation)

    processes = [process("arrival", Phase.ARRIVAL), process("capacity", Phase.CAPACITY), later_timeout]
    cluster = BatchCluster(make_jobs((0.0, 1, 5.0), (5.0, 1, 1.0)), 1, processes=processes)
    cluster.on("completion", lambda time, execution: seen.append("completion") if time == 5.0 else None)
    cluster.on("arrival", lambda time, job: seen.append("job arrives") if time == 5.0 else None)
    simulate(cluster, Noting())
    assert sorted(seen[:2]) == ["completion", "timeout"]
    assert seen[2] == "capacity"
    assert sorted(seen[3:5]) == ["arrival", "job arrives"]
    assert seen[5:] == ["decision"]


def test_a_core_that_is_freed_at_an_instant_is_used_at_that_instant() -> None:
    jobs = simulate(BatchCluster(make_jobs((0.0, 2, 3.0), (1.0, 2, 4.0), (7.0, 2, 1.0)), 2), FirstFit()).jobs
    assert jobs["starting_time"].to_list() == [0, 3, 7]
    assert jobs["finish_time"].to_list() == [3, 7, 8]


def test_all_completions_of_an_instant_are_seen_by_its_first_decision() -> None:
    agent = Recorder(FirstFit())
    simulate(BatchCluster(make_jobs((0.0, 1, 4.0), (1.0, 1, 3.0), (2.0, 2, 1.0)), 2), agent)
    assert agent.seen == [(0, [1], 2), (1, [2], 1), (2, [3], 0), (4, [3], 2)]


TOGETHER = make_jobs((3.0, 1, 1.0), (3.0, 1, 1.0), (3.0, 1, 1.0), (4.0, 1, 1.0))


def test_jobs_that_arrive_together_share_a_cycle() -> None:
    agent = Recorder(Scripted([None], then=FirstFit()))
    simulate(BatchCluster(TOGETHER, 4), agent)
    assert [queue for _, queue, _ in agent.seen] == [[1, 2, 3], [1, 2, 3, 4], [2, 3, 4], [3, 4], [4]]


def test_or_have_a_cycle_each() -> None:
    agent = Recorder(Scripted([None, None, None], then=FirstFit()))
    simulate(BatchCluster(TOGETHER, 4, cycle="arrival"), agent)
    assert [queue for time, queue, _ in agent.seen if time == 3] == [[1], [1, 2], [1, 2, 3]]
    assert [queue for time, queue, _ in agent.seen if time == 4] == [[1, 2, 3, 4], [2, 3, 4], [3, 4], [4]]


def test_completions_share_a_cycle_with_arrivals() -> None:
    agent = Recorder(FirstFit())
    simulate(BatchCluster(make_jobs((0.0, 1, 2.0), (1.0, 1, 1.0), (2.0, 1, 1.0)), 1), agent)
    assert agent.seen[:3] == [(0, [1], 1), (1, [2], 0), (2, [2, 3], 1)]


def test_or_have_a_cycle_of_their_own_before_arrivals_if_jobs_are_queued() -> None:
    agent = Recorder(Scripted([[0], None, None, None], then=FirstFit()))
    simulate(BatchCluster(make_jobs((0.0, 1, 2.0), (1.0, 1, 1.0), (2.0, 1, 1.0)), 1, cycle="arrival"), agent)
    assert agent.seen[:4] == [(0, [1], 1), (1, [2], 0), (2, [2], 1), (2, [2, 3], 1)]


def test_an_empty_queue_is_not_asked_unless_wanted() -> None:
    jobs = make_jobs((0.0, 1, 2.0), (5.0, 1, 2.0))
    agent = Recorder(FirstFit())
    simulate(BatchCluster(jobs, 2), agent)
    assert agent.seen == [(0, [1], 2), (5, [2], 2)]
    agent = Recorder(FirstFit())
    simulate(BatchCluster(jobs, 2, ask_when_empty=True), agent)
    assert agent.seen == [(0, [1], 2), (0, [], 1), (2, [], 2), (5, [2], 2), (5, [], 1)]  # the last job ends the run


def test_a_job_of_no_length_leaves_its_cores_at_the_instant_of_its_start() -> None:
    jobs = simulate(BatchCluster(make_jobs((2.0, 2, 0.0), (2.0, 2, 3.0)), 2), FCFS()).jobs
    assert jobs.select("starting_time", "execution_time", "finish_time").rows() == [(2, 0, 2), (2, 3, 5)]
    assert jobs["stretch"].to_list() == [None, 1]
    assert jobs["status"].to_list() == ["completed", "completed"]


def test_many_jobs_of_no_length_need_no_time() -> None:
    result = simulate(BatchCluster(make_jobs(*[(1.0, 3, 0.0)] * 50), 3), FCFS())
    assert set(result.jobs["finish_time"]) == {1.0}


def test_a_killed_job_ends_at_its_request_and_a_spared_one_later() -> None:
    jobs = [Job(1, 0.0, 1, 3.0, 9.0), Job(2, 0.0, 1, 9.0, 3.0)]
    killed = simulate(BatchCluster(jobs, 2), FCFS()).jobs
    assert killed.select("finish_time", "status", "success").rows() == [(3, "killed", False), (3, "completed", True)]
    spared = simulate(BatchCluster(jobs, 2, enforce_time_limit=False), FCFS()).jobs
    assert spared.select("finish_time", "status").rows() == [(9, "completed"), (3, "completed")]


class TestUntil:
    jobs = make_jobs((0.0, 1, 5.0), (1.0, 1, 2.0), (5.0, 1, 1.0), (6.0, 1, 1.0))

    def test_what_happens_at_until_is_no_longer_part_of_the_run(self) -> None:
        agent = Recorder(FirstFit())
        result = simulate(BatchCluster(self.jobs, 1), agent, until=5.0)
        assert result.jobs.select("job_id", "status", "starting_time", "finish_time").rows() == [
            (1, "running", 0, None),
            (2, "queued", None, None),
        ]
        assert result.info["end_time"] == 5
        assert result.info["until"] == 5
        assert max(time for time, _, _ in agent.seen) < 5

    def test_what_happens_just_before_until_is(self) -> None:
        result = simulate(BatchCluster(self.jobs, 1), FirstFit(), until=math.nextafter(5.0, 6.0))
        assert result.jobs["status"].to_list() == ["completed", "running", "queued"]

    def test_nothing_happens_after_it_however_often_one_asks(self) -> None:
        simulation = Simulation(BatchCluster(self.jobs, 1), until=4.0)
        drive(simulation, FirstFit())
        for _ in range(5):
            assert simulation.advance() is None
        assert simulation.env.now == 4
        assert simulation.finish().jobs["status"].to_list() == ["running", "queued"]

    @pytest.mark.parametrize("until", [0.0, -1.0, math.nan])
    def test_it_lies_after_the_beginning(self, until: float) -> None:
        with pytest.raises(InvalidConfiguration, match="until"):
            Simulation(BatchCluster(self.jobs, 1), until=until)

    def test_a_run_that_ends_before_it_is_complete(self) -> None:
        result = simulate(BatchCluster(self.jobs, 1), FirstFit(), until=1e9)
        assert set(result.jobs["status"]) == {"completed"}
        assert result.info["status"] == "complete"


class TestAt:
    @given(now=st.floats(0, 1e9), time=st.floats(0, 1e9))
    def test_an_event_happens_at_its_time_or_at_the_next_number(self, now: float, time: float) -> None:
        now, time = sorted((now, time))
        env = simpy.Environment(now)
        seen: list[float] = []
        at(env, time).callbacks.append(lambda event: seen.append(env.now))
        env.run()
        assert seen[0] in (time, math.nextafter(time, math.inf))

    @pytest.mark.parametrize("time", [1.0, -1.0, math.nan])
    def test_the_past_is_refused(self, time: float) -> None:
        with pytest.raises(InvalidConfiguration, match=repr(time)):
            at(simpy.Environment(2.0), time)

    def test_a_process_receives_the_value(self) -> None:
        env = simpy.Environment()

        def run() -> Generator[simpy.Event, Any, Any]:
            return (yield at(env, 3.0, value="hello"))

        assert env.run(env.process(run())) == "hello"


@given(gaps=st.lists(st.floats(0, 1e7), min_size=1, max_size=20), length=st.floats(0, 1e5))
def test_a_job_that_finds_free_cores_starts_when_it_arrives(gaps: list[float], length: float) -> None:
    time, jobs = 0.0, []
    for job_id, gap in enumerate(gaps):
        time += gap
        jobs.append(Job(job_id, time, 1, length, length))
    table = simulate(BatchCluster(jobs, len(jobs)), FCFS()).jobs
    waits = table["waiting_time"].to_numpy()
    assert (waits >= 0).all()
    assert (waits <= np.spacing(table["submission_time"].to_numpy())).all()
