"""Jobs that cannot be taken, and the messages that name them."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import pytest
import simpy
from small_agents import FirstFit, Recorder, make_jobs, random_jobs

from desim import InfeasibleAction, Simulation, WorkloadError, simulate
from desim.agents.batch import FCFS, create
from desim.problems.batch import BatchCluster, Job, Node, check_job
from desim.validation import validate

GOOD = Job(7, 1.0, 1, 5.0, 5.0)


@pytest.mark.parametrize(
    "change",
    [
        {"submission_time": -1.0},
        {"submission_time": math.nan},
        {"submission_time": math.inf},
        {"requested_cores": 0},
        {"requested_cores": -2},
        {"requested_cores": 1.5},
        {"requested_cores": math.nan},
        {"requested_time": -1.0},
        {"requested_time": math.nan},
        {"requested_time": math.inf},
        {"run_time": -1.0},
        {"run_time": math.nan},
        {"run_time": math.inf},
    ],
    ids=repr,
)
def test_a_field_out_of_range(change: dict[str, Any]) -> None:
    (field,) = change
    bad = GOOD._replace(**change)
    with pytest.raises(WorkloadError, match=rf"job 7: {field}: got {change[field]!r}"):
        check_job(bad)
    with pytest.raises(WorkloadError, match=r"job_id=7|job 7"):
        simulate(BatchCluster([bad], 4), FCFS())


@pytest.mark.parametrize("job_id", [7.5, None, 2**70])
def test_an_id_that_is_neither_text_nor_a_number_of_the_right_kind(job_id: Any) -> None:
    with pytest.raises(WorkloadError, match="job"):
        simulate(BatchCluster([GOOD._replace(job_id=job_id)], 4), FCFS())


def test_jobs_out_of_order() -> None:
    jobs = [Job(1, 5.0, 1, 1.0, 1.0), Job(2, 4.0, 1, 1.0, 1.0)]
    with pytest.raises(WorkloadError, match=r"job_id=2.* arrives at 4\.0, after a job that arrives at 5\.0; sort"):
        simulate(BatchCluster(jobs, 1), FCFS())


class TestTooWide:
    jobs = make_jobs((0.0, 2, 3.0), (1.0, 5, 3.0), (2.0, 4, 3.0))

    def test_an_error_by_default(self) -> None:
        with pytest.raises(WorkloadError, match="job 2 requests 5 cores, the cluster has 4"):
            simulate(BatchCluster(self.jobs, 4), FCFS())

    def test_or_recorded_and_never_seen_by_the_agent(self) -> None:
        rejected: list[tuple[float, int]] = []
        cluster = BatchCluster(self.jobs, 4, too_wide="reject")
        cluster.on("rejection", lambda time, job: rejected.append((time, job.job_id)))
        agent = Recorder(FirstFit())
        table = simulate(cluster, agent).jobs
        assert table["status"].to_list() == ["completed", "rejected", "completed"]
        assert table.row(1, named=True)["starting_time"] is None
        assert table.row(1, named=True)["allocated_resources"] is None
        assert table["attempts"].to_list() == [1, 0, 1]
        assert rejected == [(1.0, 2)]
        assert all(2 not in queue for _, queue, _ in agent.seen)


class TestIds:
    @pytest.mark.parametrize("name", ["fcfs", "easy-sjf", "conservative-sjf", "rollout:fcfs"])
    @pytest.mark.parametrize("machine", [{"num_cores": 3}, {"nodes": Node.several(1, 3)}])
    def test_several_jobs_of_one_id_are_in_the_system_at_once(self, name: str, machine: dict[str, Any]) -> None:
        jobs = random_jobs(30, 3)
        tables = []
        for ids in (range(30), [3] * 30, [number % 4 for number in range(30)]):
            named = [job._replace(job_id=each) for job, each in zip(jobs, ids, strict=True)]
            result = simulate(BatchCluster(named, **machine), create(name))
            validate(result, named).raise_if_invalid()
            tables.append(result.jobs.sort("arrival_number").drop("job_id"))
        assert tables[0].equals(tables[1]) and tables[0].equals(tables[2])

    def test_observations_show_ids_as_given_and_actions_name_rows(self) -> None:
        jobs = [Job(name, 0.0, 1, 9.0, 9.0) for name in ("a", "7", "a")]
        simulation = Simulation(BatchCluster(jobs, 3))
        decision = simulation.advance()
        assert decision is not None
        queue, running = decision.observation.queue, decision.observation.running
        assert queue.id.tolist() == queue["id"].tolist() == ["a", "7", "a"] and queue.id.dtype == object
        assert queue.row.tolist() == queue["row"].tolist() == [0, 1, 2] and queue.row.dtype == np.int64
        decision.answer(2)  # the second job with this id
        decision = simulation.advance()
        assert decision is not None
        assert (queue.row.tolist(), running.row.tolist(), running.id.tolist()) == ([0, 1], [2], ["a"])
        assert decision.observation.id_of(2) == decision.observation.id_of(0) == "a"
        decision.answer(1)
        decision = simulation.advance()
        assert decision is not None and queue.row.tolist() == [0] and queue.id.tolist() == ["a"]
        with pytest.raises(InfeasibleAction, match=r"job a \(row 2\) cannot start: it is already running"):
            decision.answer(2)
            simulation.advance()

    def test_what_named_jobs_by_id_is_told_what_to_write(self) -> None:
        class Old:
            def __init__(self, act: Any) -> None:
                self.act = act

        cluster = BatchCluster([Job(5, 0.0, 1, 9.0, 9.0)], 1)
        with pytest.raises(AttributeError, match=r"^queue\.job_id: actions name rows, so write queue\.row; queue\.id"):
            simulate(cluster, Old(lambda seen: seen.queue.job_id[0]))
        with pytest.raises(AttributeError, match=r"^queue\.job_id: actions name rows, so write queue\.row"):
            simulate(cluster, Old(lambda seen: seen.queue["job_id"][0]))
        with pytest.raises(AttributeError, match=r"^running\.job_id: actions name rows, so write running\.row"):
            simulate(cluster, Old(lambda seen: seen.running.job_id))
        with pytest.raises(InfeasibleAction, match=r"5 is not the row of a queued job; return one of queue\.row"):
            simulate(cluster, Old(lambda seen: 5))

    def test_an_id_is_free_again_when_its_job_has_ended(self) -> None:
        table = simulate(BatchCluster([Job(1, 0.0, 1, 2.0, 2.0), Job(1, 2.0, 1, 3.0, 3.0)], 1), FCFS()).jobs
        assert table["finish_time"].to_list() == [2, 5]

    def test_ids_are_names_and_nothing_else(self) -> None:
        rows = [(0.0, 2, 3.0), (0.0, 1, 4.0), (1.0, 2, 1.0), (1.5, 1, 2.0)]
        names = [900, -4, 2**60, 0]
        plain = make_jobs(*rows)
        renamed = [job._replace(job_id=name) for job, name in zip(plain, names, strict=True)]
        new_name = dict(zip((job.job_id for job in plain), names, strict=True))
        first, second = (
            {row[0]: row[1:] for row in simulate(BatchCluster(jobs, 2), FCFS()).jobs.rows()}
            for jobs in (plain, renamed)
        )
        assert {new_name[job_id]: row for job_id, row in first.items()} == second


class TestSubmit:
    """What a process of one's own may do."""

    @staticmethod
    def run(*jobs: Job, at: float = 4.0) -> Any:
        def process(cluster: BatchCluster) -> Generator[simpy.Event, Any, None]:
            yield cluster.env.timeout(at)
            for job in jobs:
                cluster.submit(job)

        return simulate(BatchCluster(make_jobs((0.0, 1, 9.0)), 2, processes=[process]), FirstFit())

    def test_a_job_that_was_submitted_before(self) -> None:
        table = self.run(Job(5, 3.0, 1, 1.0, 1.0)).jobs
        assert table.filter(table["job_id"] == 5)["waiting_time"].to_list() == [1]

    def test_a_job_of_the_future(self) -> None:
        with pytest.raises(WorkloadError, match=r"job 5 .*4\.0.*future"):
            self.run(Job(5, 4.5, 1, 1.0, 1.0))

    def test_a_job_that_makes_no_sense(self) -> None:
        with pytest.raises(WorkloadError, match="job 5: run_time: got nan"):
            self.run(Job(5, 4.0, 1, 1.0, math.nan))

    def test_an_id_in_use(self) -> None:
        table = self.run(Job(1, 4.0, 1, 1.0, 1.0)).jobs
        assert table.select("job_id", "arrival_number", "starting_time").rows() == [(1, 0, 0.0), (1, 1, 4.0)]


def test_an_iterator_is_read_one_job_ahead_of_the_clock() -> None:
    drawn: list[int] = []

    def stream() -> Iterator[Job]:
        for number in range(100):
            drawn.append(number)
            yield Job(number, 10.0 * number, 1, 1.0, 1.0)

    class Watching(FirstFit):
        def act(self, observation: Any) -> int | None:
            assert len(drawn) <= observation.time / 10 + 2
            return super().act(observation)

    result = simulate(BatchCluster(stream(), 1), Watching())
    assert len(result.jobs) == len(drawn) == 100


def test_an_endless_iterator_will_do_if_the_run_has_an_end() -> None:
    def stream() -> Iterator[Job]:
        number = 0
        while True:
            yield Job(number, float(number), 1, 1.0, 0.5)
            number += 1

    assert len(simulate(BatchCluster(stream(), 1), FCFS(), until=50.0).jobs) == 50
