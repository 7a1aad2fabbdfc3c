"""Moldable jobs: sizes are chosen at the start, kept from then on, and told by the records."""

from __future__ import annotations

import copy
import pickle
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InfeasibleAction, InvalidConfiguration, Simulation, WorkloadError, simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, BatchObservation, Job, Node, Request, Size, StartWithSize
from desim.processes.outages import Outage, planned_outages
from desim.validation import validate
from desim.workloads.batch.moldable import downey_speedup, moldable
from tests.jobs import of_sizes


def sized(job_id: int, submission: float, *sizes: tuple[int, float] | tuple[int, float, float]) -> Job:
    """Return a job with sizes (cores, requested time, run time if it is another)."""
    return of_sizes(Job(job_id, submission, size[0], size[1], size[-1]) for size in sizes)


def run(jobs: list[Any], num_cores: int, agent: Any, **options: Any) -> list[tuple[float, float, int]]:
    """Return start, end and cores of all jobs, by id; the records are valid."""
    result = simulate(BatchCluster(jobs, num_cores, **options), create(agent) if isinstance(agent, str) else agent)
    validate(result, jobs).raise_if_invalid()
    columns = ["starting_time", "finish_time", "requested_number_of_resources"]
    return result.jobs.sort("job_id").select(columns).rows()


class Answers:
    """Gives one answer after another."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def act(self, observation: BatchObservation) -> Any:
        return self.answers.pop(0) if self.answers else None


class TestStarts:
    JOB = sized(1, 0.0, (2, 8.0), (1, 14.0, 12.0), (4, 5.0))

    def test_without_a_choice_the_first_size_counts(self) -> None:
        assert run([self.JOB], 4, "fcfs") == [(0, 8, 2)]
        assert self.JOB[:4] == (1, 0.0, 2, 8.0)

    @pytest.mark.parametrize(("size", "row"), [(0, (0, 8, 2)), (1, (0, 12, 1)), (2, (0, 5, 4))])
    def test_the_chosen_size_is_recorded(self, size: int, row: tuple[float, float, int]) -> None:
        assert run([self.JOB], 4, Answers(StartWithSize(0, size))) == [row]

    @pytest.mark.parametrize(
        "where", [{"num_cores": 4}, {"nodes": [Node("n", 4)]}, {"nodes": [Node("n", 4, speed=2.0)]}]
    )
    def test_who_was_cut_in_the_first_size_keeps_it(self, where: dict[str, Any]) -> None:
        unit: dict[str, Any] = {"nodes" if "nodes" in where else "cores": [0]}
        outages = [planned_outages([Outage(1.0, 2.0, **unit), Outage(3.0, 4.0, **unit)])]
        cluster = BatchCluster([self.JOB], **where, infeasible="forward", processes=outages)
        result = simulate(cluster, Answers(0, None, StartWithSize(0, 2), None, 0))
        validate(result, [self.JOB]).raise_if_invalid()
        assert result.jobs.select("requested_number_of_resources", "attempts").rows() == [(2, 2)]

    def test_sizes_are_seen(self) -> None:
        simulation = Simulation(BatchCluster([self.JOB, Job(2, 0.0, 3, 7.0, 6.0)], 4))
        decision = simulation.advance()
        assert decision is not None
        assert decision.observation.sizes_of(0) == [(2, 8.0), (1, 14.0), (4, 5.0)]
        assert decision.observation.sizes_of(1) == [(3, 7.0)]

    @pytest.mark.parametrize(
        ("answer", "what"),
        [
            (StartWithSize(2, 3), "names a size that does not exist: the job has 3 sizes"),
            (StartWithSize(2, -1), "names a size that does not exist: the job has 3 sizes"),
            (StartWithSize(1, 1), "names a size that does not exist: the job has only size 0"),
            (StartWithSize(3, 0), "is not the row of a queued job"),
            (StartWithSize(2, 2), "job 1 cannot start in size 2: it requests 4 cores and 3 are free"),
        ],
    )
    def test_answers_that_make_no_sense(self, answer: StartWithSize, what: str) -> None:
        jobs = [Job(0, 0.0, 1, 9.0, 9.0), Job(2, 0.0, 1, 1.0, 1.0), self.JOB]
        with pytest.raises(InfeasibleAction, match=what):
            run(jobs, 4, Answers(0, answer))

    def test_a_size_is_kept_after_an_outage(self) -> None:
        outages = planned_outages([Outage(3.0, 5.0, cores=[0])])
        assert run([self.JOB], 4, Answers(StartWithSize(0, 2), None, 0), processes=[outages]) == [(5, 10, 4)]

    def test_a_fork_does_not_tell_how_long_sizes_run(self) -> None:
        simulation = Simulation(BatchCluster([self.JOB], 4))
        simulation.advance()
        fork = simulation.fork(foresight=False)
        decision = fork.advance()
        assert decision is not None
        decision.answer(StartWithSize(0, 1))
        assert fork.advance() is None
        assert fork.env.now == 14.0


class TestJobs:
    @pytest.mark.parametrize(
        ("size", "what"),
        [
            (Size(0, 1.0, 1.0), "job 1: requested_cores: got 0"),
            (Size(2, 1.0, -1.0), "job 1: run_time: got -1.0"),
            (
                Size(2, 1.0, 1.0, Request(3)),
                "requested_cores: got 2, but 3 tasks of 1 cores request 3; try Job.of_tasks",
            ),
            (Size(2, 1.0, 1.0, run_times={"A": inf}), "got inf, expected a finite time"),
        ],
    )
    def test_what_are_no_sizes_of_a_job(self, size: Size, what: str) -> None:
        with pytest.raises(WorkloadError, match=what):
            run([Job(1, 0.0, 1, 1.0, 1.0, sizes=(size,))], 4, "fcfs")

    def test_copies_are_equal(self) -> None:
        job = TestStarts.JOB
        assert pickle.loads(pickle.dumps(job)) == job == copy.deepcopy(job)
        assert job != job.in_size(0) == Job(*job[:6])
        assert [size.submission_time for size in job._replace(submission_time=3.0).in_all_sizes()] == [3.0] * 3


class TestOnNodes:
    NODES = (Node("a", 4, memory=10), Node("b", 4, memory=10))
    JOB = of_sizes(
        [
            Job.of_tasks(1, 0.0, Request(tasks=4, cores=2), 8.0, 8.0),
            Job.of_tasks(1, 0.0, Request(tasks=2, cores=2, memory=9), 15.0, 15.0),
        ]
    )

    def test_the_size_is_chosen_recorded_and_explained(self) -> None:
        jobs = [self.JOB, self.JOB._replace(job_id=2)]
        result = simulate(BatchCluster(jobs, nodes=self.NODES), Answers(StartWithSize(0, 1), None, 1))
        validate(result, jobs).raise_if_invalid()
        assert result.table("requests").select("job_id", "tasks", "memory").rows() == [(1, 2, 9), (2, 4, 0)]
        assert result.jobs["starting_time"].to_list() == [0, 15]
        with pytest.raises(InfeasibleAction, match="job 2 cannot start in size 1"):
            simulate(
                BatchCluster(jobs, nodes=self.NODES),
                Answers(StartWithSize(0, 1), StartWithSize(1, 1), StartWithSize(1, 1)),
            )

    def test_the_rule_for_cores_says_that_it_knows_no_nodes(self) -> None:
        with pytest.raises(InvalidConfiguration, match="easy-moldable-sjf: got a cluster with nodes"):
            simulate(BatchCluster([self.JOB], nodes=self.NODES), create("easy-moldable-sjf"))


class TestMolding:
    def test_alone_a_job_ends_as_soon_as_it_can(self) -> None:
        assert run([sized(0, 0.0, (2, 8.0), (4, 5.0), (8, 1.0))], 4, "easy-moldable") == [(0, 5, 4)]

    def test_it_waits_for_cores_that_are_worth_it(self) -> None:
        blocking = Job(0, 0.0, 2, 2.0, 2.0)
        assert run([blocking, sized(1, 0.0, (2, 9.0), (4, 5.0))], 4, "easy-moldable") == [(0, 2, 2), (2, 7, 4)]
        assert run([blocking, sized(1, 0.0, (2, 7.0), (4, 5.0))], 4, "easy-moldable") == [(0, 2, 2), (0, 7, 2)]

    def test_in_a_queue_cores_are_dear(self) -> None:
        jobs = [sized(number, 0.0, (1, 8.0), (4, 5.0)) for number in range(4)]
        first = Job(9, 0.0, 4, 1.0, 1.0)
        assert run([first, *jobs], 4, "easy-moldable-fcfs")[:4] == [(1, 9, 1)] * 4

    def test_a_reservation_is_not_delayed(self) -> None:
        jobs = [
            Job(0, 0.0, 3, 10.0, 10.0),
            Job(1, 1.0, 4, 5.0, 5.0),
            sized(2, 2.0, (1, 9.0), (2, 6.0)),
            Job(3, 2.0, 1, 8.0, 8.0),
        ]
        assert run(jobs, 4, "easy-moldable") == [(0, 10, 3), (10, 15, 4), (15, 21, 2), (2, 10, 1)]

    @given(st.integers(0, 10**6), st.sampled_from(["fcfs", "sjf", "f1", "lcfs"]))
    @settings(max_examples=40, deadline=None)
    def test_rigid_jobs_are_those_of_easy(self, seed: int, order: str) -> None:
        jobs = [job.in_size(0) for job in random_jobs(seed)]
        assert run(jobs, 8, f"easy-moldable-{order}") == run(jobs, 8, f"easy-{order}")
        overrun = [job._replace(run_time=job.requested_time + job.run_time) for job in jobs]
        starts = [run(overrun, 8, f"{kind}-{order}", enforce_time_limit=False) for kind in ("easy-moldable", "easy")]
        assert starts[0] == starts[1]

    @given(st.integers(0, 10**6), st.sampled_from(["fcfs", "sjf", "f1", "lcfs"]))
    @settings(max_examples=40, deadline=None)
    def test_it_does_what_its_definition_says(self, seed: int, order: str) -> None:
        jobs = random_jobs(seed)
        assert run(jobs, 8, f"easy-moldable-{order}") == run(jobs, 8, Slow(order))

    @pytest.mark.slow
    @given(st.integers(0, 10**6), st.sampled_from(["fcfs", "sjf", "f1", "lcfs"]))
    @settings(max_examples=1000, deadline=None)
    def test_it_does_what_its_definition_says_in_a_thousand_scenarios(self, seed: int, order: str) -> None:
        jobs = random_jobs(seed)
        assert run(jobs, 8, f"easy-moldable-{order}") == run(jobs, 8, Slow(order))


def random_jobs(seed: int) -> list[Job]:
    """Return jobs of one to three sizes that arrive faster than eight cores serve them."""
    rng = np.random.default_rng(seed)
    times = rng.exponential(4.0, 40).cumsum().round(1).tolist()
    jobs = []
    for number, time in enumerate(times):
        widths = rng.choice(np.arange(1, 9), int(rng.integers(1, 4)), replace=False).tolist()
        requests = rng.integers(1, 30, len(widths)).tolist()
        runs = [float(rng.integers(0, request + 1)) for request in requests]
        jobs.append(sized(number, time, *zip(widths, map(float, requests), runs, strict=True)))
    return jobs


class Slow:
    """The definition of molding backfilling, on a table of free cores at every time that matters."""

    def __init__(self, order: str) -> None:
        self.easy: Any = create(f"easy-{order}")

    def act(self, observation: BatchObservation) -> list[StartWithSize]:
        now, queue = observation.time, observation.queue
        running = observation.running
        held = list(zip(running.requested_cores.tolist(), np.maximum(running.expected_end, now).tolist(), strict=True))
        started: list[StartWithSize] = []
        reserved: tuple[int, float] | None = None
        weight = (len(queue) - 1) / observation.num_cores
        for position in self.easy.priority.order(queue, now).tolist():
            row = int(queue.row[position])
            choices = []
            for size, (cores, request) in enumerate(observation.sizes_of(row)):
                start = self.first_time(now, cores, request, held, reserved)
                if reserved is None or start == now:
                    choices.append((start + request + weight * cores * request, cores, size, start, start + request))
            if not choices:
                continue
            _, cores, size, start, end = min(choices)
            if start == now:
                started.append(StartWithSize(row, size))
                held.append((cores, end))
            elif reserved is None:
                reserved = cores, start
        return started

    def first_time(
        self, now: float, cores: int, request: float, held: list[tuple[int, float]], reserved: tuple[int, float] | None
    ) -> float:
        """Return when so many cores are free; only now, where someone has a reservation, which keeps its cores."""
        for time in sorted({now, *(end for _, end in held)}):
            if 8 - sum(width for width, end in held if end > time or (time == now and end == now)) >= cores:
                break
        else:
            return inf
        if reserved is None or time > now:
            return time
        width, shadow = reserved
        beside = sum(other for other, end in held if end > shadow) + (cores if now + request > shadow else 0)
        return now if 8 - beside >= width else inf


class TestSpeedup:
    def test_known_values(self) -> None:
        assert [downey_speedup(n, 8, 0.0) for n in (1, 4, 8, 20)] == [1, 4, 8, 8]
        assert downey_speedup(4, 8, 0.5) == pytest.approx(32 / 8.75)
        assert downey_speedup(10, 8, 0.5) == pytest.approx(80 / (3.75 + 7.5))
        assert downey_speedup(8, 8, 1.0) == pytest.approx(128 / 23)
        assert downey_speedup(1000, 8, 2.0) == 8

    @given(st.floats(1, 100), st.floats(0, 4), st.floats(1, 300), st.floats(1, 3))
    @settings(deadline=None)
    def test_more_cores_are_never_slower_and_never_more_than_linear(
        self, parallelism: float, sigma: float, cores: float, times: float
    ) -> None:
        one, more = (downey_speedup(n, parallelism, sigma) for n in (cores, cores * times))
        assert 1 - 1e-9 <= one <= more * (1 + 1e-9) <= one * times * (1 + 1e-6)
        assert more <= parallelism * (1 + 1e-9)

    def test_sizes_follow_the_speedup(self) -> None:
        (job,) = moldable([Job(1, 0.0, 4, 100.0, 50.0)], 12, factors=(1, 0.1, 2, 4), sigma=0.0)
        assert [size[2:5] for size in job.in_all_sizes()] == [
            (4, 100, 50),
            (1, 400, 200),
            (8, 50, 25),
            (12, 100 / 3, 50 / 3),
        ]

    @pytest.mark.parametrize(
        ("options", "what"),
        [
            ({"factors": ()}, "factors: got an empty sequence, expected at least one number > 0"),
            ({"factors": (1.0, 0.0)}, "factors: got 0"),
            ({"sigma": -1.0}, "sigma: got -1"),
            ({"parallelism": 0.5}, "parallelism: got 0.5"),
        ],
    )
    def test_arguments_out_of_range(self, options: dict[str, Any], what: str) -> None:
        with pytest.raises(InvalidConfiguration, match=what):
            moldable([Job(1, 0.0, 4, 100.0, 50.0)], 12, **options)
