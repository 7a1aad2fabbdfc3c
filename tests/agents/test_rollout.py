"""Rollout agents: better schedules by hand, never worse where all is known, and no knowledge of the future."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from dag_exhaustive import need_ortools
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import DesimError, InvalidConfiguration, Result, Simulation, simulate
from desim.agents.batch import FCFS, RolloutAgent, create
from desim.agents.dag import FIFO, ListScheduler
from desim.agents.dag import RolloutAgent as DagRolloutAgent
from desim.agents.dag import create as create_dag
from desim.agents.lookahead import Score
from desim.core import prepare_agent
from desim.exceptions import DisregardedWarning
from desim.problems.batch import BatchCluster, Job, Start
from desim.problems.dag import (
    Assign,
    DagCluster,
    DagObservation,
    Executors,
    JobState,
    SharedLinks,
    TaskCluster,
    TaskTimes,
)
from desim.problems.dag import Job as DagJob
from desim.processes import Outage, planned_outages, random_outages
from desim.validation import validate
from desim.workloads import lublin, random_dags
from tests.agents.below_optimum import random_pools

ONCE = settings(deadline=None, max_examples=12)


def starts(result: Result) -> dict[int, float]:
    return dict(result.jobs["job_id", "starting_time"].rows())


def exact(*rows: tuple[float, int, float]) -> list[Job]:
    """Make jobs 1, 2, ... of (submission time, cores, requested and run time)."""
    return [Job(number, *row, row[2]) for number, row in enumerate(rows, 1)]


class Noting:
    """Note the times and the actions of another agent; it may be given forks that know the future."""

    def __init__(self, agent: Any, *, cheating: bool = False) -> None:
        self.agent = agent
        self.cheating = cheating
        self.taken: list[tuple[float, Any]] = []

    def attach(self, fork: partial[Simulation]) -> None:
        self.agent.attach(partial(fork, foresight=True) if self.cheating else fork)

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        self.agent.reset(info, rng)

    def act(self, observation: Any) -> Any:
        action = self.agent.act(observation)
        self.taken.append((observation.time, action))
        return action


class TestBatchByHand:
    def test_a_job_that_would_wait_for_nothing_starts(self) -> None:
        # FCFS: job 3 waits behind the wide job 2 until 20. Started at 2 it has ended when job 2 can start.
        jobs = exact((0.0, 1, 10.0), (1.0, 2, 10.0), (2.0, 1, 8.0))
        assert starts(simulate(BatchCluster(jobs, 2), FCFS())) == {1: 0, 2: 10, 3: 20}
        agent = RolloutAgent(FCFS())
        assert starts(simulate(BatchCluster(jobs, 2), agent)) == {1: 0, 2: 10, 3: 2}
        # a choice at 2 only, between what FCFS does and job 3; that job 1 or 2 starts when nothing else fits is none
        assert (agent.num_forks, agent.num_improved) == (2, 1)

    def test_the_order_of_two_jobs(self) -> None:
        # At 1 both fit, one at a time: slowdowns 1 and 110 / 10 in FCFS order, 1 and 110 / 100 the other way.
        jobs = exact((0.0, 1, 1.0), (0.25, 1, 100.0), (0.5, 1, 10.0))
        assert starts(simulate(BatchCluster(jobs, 1), RolloutAgent(FCFS()))) == {1: 0, 3: 1, 2: 11}

    def test_waiting_for_a_wide_job(self) -> None:
        # One core is free from 10 on, both from 11 on. Whoever starts all that fits lets job 4 wait for 100 s.
        jobs = exact((0.0, 1, 10.0), (0.0, 1, 11.0), (1.0, 1, 100.0), (2.0, 2, 10.0))
        base = partial(create, "backfilling-sjf")
        assert starts(simulate(BatchCluster(jobs, 2), base())) == {1: 0, 2: 0, 3: 10, 4: 110}
        assert starts(simulate(BatchCluster(jobs, 2), RolloutAgent(base()))) == {1: 0, 2: 0, 4: 11, 3: 21}

    def test_the_objective_decides(self) -> None:
        # At 1: job 2 of 40 s on both cores, or first jobs 3 and 4 of 30 s each on one core; mean waits are 40 * 2 / 3
        # and 30 / 3. Slowdowns in the first case 1, 70 / 30 twice; in the second 70 / 40, 1 twice.
        jobs = exact((0.0, 2, 1.0), (1.0, 2, 40.0), (1.0, 1, 30.0), (1.0, 1, 30.0))
        short = [job._replace(requested_time=4.0, run_time=4.0) if job.job_id == 2 else job for job in jobs]
        for workload, objective, expected in (
            (jobs, "waiting_time_mean", {1: 0, 3: 1, 4: 1, 2: 31}),
            (short, "waiting_time_mean", {1: 0, 2: 1, 3: 5, 4: 5}),
            (short, "bounded_slowdown_mean", {1: 0, 2: 1, 3: 5, 4: 5}),
        ):
            blocked = [job._replace(submission_time=0.5 * (job.job_id > 1)) for job in workload]
            agent = RolloutAgent(create("lcfs"), objective=objective)  # type: ignore[arg-type]
            assert starts(simulate(BatchCluster(blocked, 2), agent)) == expected, objective

    def test_only_the_shortest_jobs_are_tried(self) -> None:
        jobs = exact((0.0, 1, 1.0), *((0.5, 1, 20.0 + number) for number in range(6)))
        for width, forks in ((0, 2), (2, 4), (9, 7)):
            agent = RolloutAgent(FCFS(), width=width)
            simulation = Simulation(BatchCluster(jobs, 1))
            agent.attach(partial(simulation.fork, foresight=False))
            agent.reset({}, simulation.stream("agent"))
            while (decision := simulation.advance()) is not None and not agent.num_forks:
                decision.answer(agent.act(decision.observation))
            assert agent.num_forks == forks  # FCFS, width of the five others at most, and to wait
        assert agent.alternatives(decision.observation, [1, Start(2, 1)]) == [2, 3, 4, 5, 6, [1], None]
        for action in (1, np.int64(1)):
            assert agent.alternatives(decision.observation, action) == [2, 3, 4, 5, 6, None]

    def test_a_horizon(self) -> None:
        jobs = exact((0.0, 1, 10.0), (1.0, 2, 10.0), (2.0, 1, 8.0))
        for horizon, expected in ((1.0, 20.0), (100.0, 2.0)):  # within a second no slowdown differs
            result = simulate(BatchCluster(jobs, 2), RolloutAgent(FCFS(), horizon=horizon))
            assert starts(result)[3] == expected
        # By 11 job 4 has waited for 9 s whatever is done at 10, and whoever looks no further starts job 3.
        jobs = exact((0.0, 1, 10.0), (0.0, 1, 11.0), (1.0, 1, 100.0), (2.0, 2, 10.0))
        near, far = (RolloutAgent(create("backfilling-sjf"), horizon=horizon) for horizon in (1.0, 1000.0))
        assert starts(simulate(BatchCluster(jobs, 2), near))[4] == 110
        assert starts(simulate(BatchCluster(jobs, 2), far))[4] == 11

    def test_jobs_that_can_never_start_count_first(self) -> None:
        # Core 1 is down for good: the wide job will not start, whatever happens; the others go on.
        jobs = exact((0.0, 1, 4.0), (2.0, 2, 5.0), (3.0, 1, 2.0), (3.5, 1, 1.0))
        cluster = BatchCluster(jobs, 2, processes=[planned_outages([Outage(1.0, np.inf, cores=[1])])])
        assert starts(simulate(cluster, create("easy"))) == {1: 0, 2: None, 3: 4, 4: 6}
        agent = RolloutAgent(create("easy"), objective="waiting_time_mean")
        assert starts(simulate(cluster, agent)) == {1: 0, 2: None, 3: 5, 4: 4}


def blocked(rows: list[tuple[int, int]], num_cores: int) -> list[Job]:
    """Make a job that takes the whole machine, and others of (cores, time) that arrive while it runs."""
    others = [
        Job(number, 0.25 + number / 64, min(cores, num_cores), float(time), float(time))
        for number, (cores, time) in enumerate(rows, 1)
    ]
    return [Job(0, 0.0, num_cores, 2.0, 2.0), *others]


def objective_of(result: Result, objective: str) -> float:
    jobs = result.jobs
    waiting, times = jobs["waiting_time"].to_numpy(), jobs["requested_time"].to_numpy()
    if objective == "waiting_time_mean":
        return float(waiting.sum())
    return float(np.maximum((waiting + times) / np.maximum(times, 10.0), 1.0).sum())


BASES = [
    "fcfs",
    "lcfs",
    "sjf",
    "f1",
    "backfilling-lcfs",
    "easy",
    "easy-specific-wfp3",
    "conservative",
    "window-random-3-1",
]


class TestWhereAllIsKnown:
    @pytest.mark.parametrize("base", BASES)
    @ONCE
    @given(
        st.sampled_from(["waiting_time_mean", "bounded_slowdown_mean"]),
        st.lists(st.tuples(st.integers(1, 4), st.integers(1, 40)), min_size=2, max_size=8),
        st.integers(1, 4),
    )
    def test_batch_is_never_worse(self, base: str, objective: Any, rows: list[tuple[int, int]], cores: int) -> None:
        cluster = BatchCluster(blocked(rows, cores), cores)
        plain = simulate(cluster, create(base), seed=3)
        ahead = simulate(cluster, RolloutAgent(create(base), objective=objective), seed=3)
        assert objective_of(ahead, objective) <= objective_of(plain, objective) * (1 + 1e-6)
        assert set(ahead.jobs["status"]) == {"completed"}

    @pytest.mark.parametrize(
        "base",
        ["fifo-eft", "rank-up-deft", "least-work-patient", "random-eft", "dls"],
    )
    def test_dags_are_never_worse(self, base: str) -> None:
        better = 0
        for seed, objective in product(range(2), ("makespan", "turnaround_time_mean")):
            cluster = dag_cluster(seed)
            plain = simulate(cluster, create_dag(base), seed=seed)
            ahead = simulate(cluster, DagRolloutAgent(create_dag(base), objective=objective), seed=seed)  # type: ignore[arg-type]
            assert validate(ahead).ok
            column = "makespan" if objective == "makespan" else "turnaround_time_mean"
            one, other = ahead.metrics()[column], plain.metrics()[column]
            assert one <= other * (1 + 1e-6)
            better += one < other * (1 - 1e-6)
        assert better > 0

    @pytest.mark.parametrize("base", ["rank-up-eft-idle", "sjf-deft-idle"])
    def test_pools_are_never_worse(self, base: str) -> None:
        better = 0
        for seed in range(4):
            cluster = DagCluster(*random_pools(seed))
            plain, ahead = simulate(cluster, create_dag(base)), simulate(cluster, create_dag(f"rollout:{base}"))
            assert validate(ahead).ok
            assert ahead.metrics()["makespan"] <= plain.metrics()["makespan"] * (1 + 1e-6)
            better += ahead.metrics()["makespan"] < plain.metrics()["makespan"]
        assert better > 0

    def test_nor_are_plans_tasks_and_shared_links(self) -> None:
        tasks = [DagJob(n, [8.0, 6.0], [(0, 1, 2.0)], num_tasks=[3, 2]) for n in range(3)]
        executors = Executors([1.0, 1.5, 2.0], 1.0)
        systems: list[tuple[DagCluster, str]] = [
            (dag_cluster(1, plan_ahead=True), "heft"),
            (dag_cluster(2, transfers="when_assigned", links=SharedLinks.bus(3, 0.5)), "rank-up-deft"),
            (TaskCluster(tasks, executors, moving_delay=1.0), "fifo-eft"),
        ]
        for system, base in systems:
            plain, ahead = simulate(system, create_dag(base)), simulate(system, create_dag(f"rollout:{base}"))
            assert ahead.metrics()["makespan"] <= plain.metrics()["makespan"] * (1 + 1e-6)
            assert validate(ahead).ok


def dag_cluster(seed: int, **options: Any) -> DagCluster:
    rng = np.random.default_rng(seed)
    jobs = [random_dags.generate(int(rng.integers(3, 7)), seed=rng, job_id=number) for number in range(3)]
    return DagCluster(jobs, Executors([1.0, 1.5, 2.0], 1.0, 0.1), **options)


class Unmoved(DagRolloutAgent):
    """Tries the base agent's action only, and notes what that leads to."""

    def __init__(self, base: Any) -> None:
        super().__init__(base)
        self.scores: list[tuple[float, Score]] = []

    def alternatives(self, observation: Any, action: Any) -> list[Any]:
        return [action]

    def tally(self, simulation: Simulation) -> Any:
        """Note the score of the first fork of a decision, in which the base agent goes on as it is; spare the other."""
        tally, begin = super().tally(simulation), simulation.env.now
        if self.num_forks % 2 == 0:
            return SimpleNamespace(is_over=lambda best: True, score=lambda: Score(9, 0.0))

        def score() -> Score:
            self.scores.append((begin, tally.score()))
            return tally.score()

        return SimpleNamespace(is_over=tally.is_over, score=score)


class Sticky:
    """Keeps to the executor that was free first when it saw a job for the first time."""

    name = "sticky"

    def reset(self, info: Any, rng: Any) -> None:
        self.homes: dict[JobState, int] = {}

    def act(self, observation: DagObservation) -> Assign:
        state, node = next(iter(observation.ready.values()))
        home = self.homes.setdefault(state, int(observation.available_times.argmin()))
        return Assign(state.job.job_id, node, home)


PLANNERS = ("heft", "cpop", "peft", "tdca", "optimum")


@pytest.mark.parametrize(
    "base",
    [
        *("fifo-deft", "rank-up-eft", "sjf-eft-idle", "least-work-patient", "random-eft", "hrrn-node-deft", "dls"),
        *PLANNERS,
        "sticky",
    ],
)
def test_base_agents_go_on_in_forks_as_they_do_in_the_run(base: str) -> None:
    if base == "optimum":
        need_ortools()
    make = Sticky if base == "sticky" else partial(create_dag, base)
    jobs = [job.submitted(0.25 * place) for place, job in enumerate(dag_cluster(4).jobs)]
    problem = DagCluster(jobs, dag_cluster(4).executors, plan_ahead=base in PLANNERS)
    agent = Unmoved(make())
    result = simulate(problem, agent, seed=1)
    assert result.table("copies").equals(simulate(problem, make(), seed=1).table("copies"))
    late = [score for time, score in agent.scores if time >= jobs[-1].submission_time]
    assert len(late) > (0 if base in ("tdca", "optimum") else 2)  # these two assign all at once
    assert set(late) == {Score(0, result.metrics()["makespan"] + jobs[0].submission_time)}


class TestDagsByHand:
    def test_the_longest_job_first(self) -> None:
        # Three jobs of one node on two executors: 2 and 2, then 3 makes 5; 3, and 2 behind 2 makes 4.
        jobs = [DagJob(number, [work]) for number, work in enumerate((2.0, 2.0, 3.0))]
        cluster = DagCluster(jobs, Executors([1.0, 1.0]))
        assert simulate(cluster, create_dag("fifo-eft")).metrics()["makespan"] == 5
        agent = DagRolloutAgent(ListScheduler(FIFO()))
        result = simulate(cluster, agent)
        assert result.metrics()["makespan"] == 4
        assert agent.num_improved > 0

    def test_the_longest_job_first_on_a_pool(self) -> None:
        # As above, with two cores of one pool; and a node that fits beside nothing is only tried where it fits.
        times, demands = (2.0, 2.0, 3.0, 1.0), (1, 1, 1, 2)
        jobs = [
            DagJob(n, [time], demands=[{"cores": cores}])
            for n, (time, cores) in enumerate(zip(times, demands, strict=True))
        ]
        cluster = DagCluster(jobs, Executors([1.0], capacities=[{"cores": 2}]))
        with warnings.catch_warnings():
            warnings.simplefilter("error", DisregardedWarning)
            assert simulate(cluster, create_dag("fifo-eft-idle")).metrics()["makespan"] == 6
            assert simulate(cluster, create_dag("rollout:fifo-eft-idle")).metrics()["makespan"] == 5
        with pytest.warns(DisregardedWarning, match="rollout:fifo-eft does not take into account: demands"):
            simulate(cluster, create_dag("rollout:fifo-eft"))

    def test_the_executor_that_a_node_does_not_finish_on_first(self) -> None:
        # A small job and a large one: on the fast executor both take 30.5 / 8 s, side by side 30 / 8 s.
        cluster = DagCluster([DagJob(1, [0.5]), DagJob(2, [30.0])], Executors([1.0, 8.0]))
        assert simulate(cluster, create_dag("fifo-eft")).metrics()["makespan"] == 30.5 / 8
        agent = DagRolloutAgent(create_dag("fifo-eft"), nodes=0)
        result = simulate(cluster, agent)
        assert result.metrics()["makespan"] == 30 / 8
        assert sorted(result.table("copies")["job_id", "executor"].rows()) == [(1, 0), (2, 1)]
        assert agent.num_improved == 1

    def test_what_a_tally_counts(self) -> None:
        assert Score(0, 5.0).beats(Score(0, 5.1))
        assert not Score(0, 5.0).beats(Score(0, 5.0 + 1e-10))
        assert not Score(0, 5.0).beats(Score(0, 5.0))
        assert Score(0, 9.0).beats(Score(1, 5.0))
        assert not Score(1, 5.0).beats(Score(0, 9.0))


def batch_run(jobs: list[Job], base: str, **options: Any) -> list[tuple[float, Any]]:
    agent = Noting(RolloutAgent(create(base)), **options)
    simulate(BatchCluster(jobs, 16), agent)
    return agent.taken


class TestTheFutureIsUnknown:
    @staticmethod
    def other_future(jobs: list[Job], base: str, time: float, seed: int) -> list[Job]:
        """Return jobs that are the same to an agent until a time, and other ones afterwards."""
        rng = np.random.default_rng(seed)
        table = simulate(BatchCluster(jobs, 16), RolloutAgent(create(base))).jobs
        times = {job: (start, finish) for job, start, finish in table["job_id", "starting_time", "finish_time"].rows()}
        found = []
        for job in jobs:
            start, finish = times[job.job_id]
            if job.submission_time >= time:
                found.append(job._replace(requested_cores=int(rng.integers(1, 17)), run_time=1.0))
            elif finish <= time:
                found.append(job)
            else:
                shortest = max(time - start, 0.0) if start is not None else 0.0
                found.append(
                    job._replace(run_time=float(rng.uniform(min(shortest, job.requested_time), job.requested_time)))
                )
        return found

    @pytest.mark.parametrize("base", ["fcfs", "easy-sjf", "conservative"])
    @pytest.mark.parametrize("seed", range(2))
    def test_batch_decisions_do_not_depend_on_it(self, base: str, seed: int) -> None:
        jobs = lublin.generate(60, 16, seed=seed, load=1.0, overestimate=3.0)
        time = jobs[40].submission_time
        other = self.other_future(jobs, base, time, seed)
        assert sum(one != two for one, two in zip(jobs, other, strict=True)) > 20
        one, two = batch_run(jobs, base), batch_run(other, base)
        before = [entry for entry in one if entry[0] < time]
        assert len(before) > 40
        assert [entry for entry in two if entry[0] < time] == before
        assert one != two

    def test_this_would_find_an_agent_that_looks(self) -> None:
        differing = 0
        for seed in range(3):
            jobs = lublin.generate(60, 16, seed=seed, load=1.0, overestimate=3.0)
            time = jobs[40].submission_time
            other = self.other_future(jobs, "fcfs", time, seed)
            one, two = (batch_run(each, "fcfs", cheating=True) for each in (jobs, other))
            before, then = ([entry for entry in run if entry[0] < time] for run in (one, two))
            differing += before != then
        assert differing > 0

    @pytest.mark.parametrize("base", ["fifo-eft", "rank-up-deft"])
    def test_dag_decisions_do_not_depend_on_it(self, base: str) -> None:
        rng = np.random.default_rng(5)
        jobs = [random_dags.generate(5, seed=rng, job_id=number).submitted(4.0 * number) for number in range(6)]
        executors = Executors([1.0, 2.0], 1.0)

        def run(workload: list[DagJob], *processes: Any) -> list[tuple[float, Any]]:
            agent = Noting(DagRolloutAgent(create_dag(base), objective="turnaround_time_mean"))
            simulate(DagCluster(workload, executors, processes=processes), agent)
            return agent.taken

        whole = run(jobs)
        time = jobs[3].submission_time
        for other in (run(jobs[:3]), run(jobs, planned_outages([Outage(time, time + 30.0, executors=[1])]))):
            assert other != whole
            before = [entry for entry in whole if entry[0] < time]
            assert [entry for entry in other if entry[0] < time] == before
        assert len(before) > 10

    def test_what_tasks_will_take_is_not_known(self) -> None:
        def run(seed: int) -> list[tuple[float, Any]]:
            times = TaskTimes([1], [[1.0, 3.0]], [[1.0, 3.0, 5.0]], [[2.0, 8.0]])
            jobs = [
                DagJob(number, [6.0, 4.0], [(0, 1, 0.0)], num_tasks=[3, 2], task_times=[times] * 2)
                for number in range(2)
            ]
            agent = Noting(DagRolloutAgent(create_dag("fifo-eft")))
            simulate(TaskCluster(jobs, Executors([1.0, 1.0])), agent, seed=seed)
            return agent.taken

        one, two = run(1), run(2)
        assert [entry for entry in one if entry[0] == 0] == [entry for entry in two if entry[0] == 0]
        assert len(one) >= 10


class TestRuns:
    def test_the_same_every_time(self) -> None:
        jobs = lublin.generate(40, 16, seed=1, load=1.2)
        cluster = BatchCluster(jobs, 16, processes=[random_outages(50_000.0, 5_000.0)])
        agent = create("rollout:window-random-3-1")
        results = [simulate(cluster, each, seed=2) for each in (agent, agent, create("rollout:window-random-3-1"))]
        for result in results:
            assert result.jobs.equals(results[0].jobs)
            assert validate(result).ok
        assert results[0].info["agent"] == "rollout:window-random-3-1"

    @pytest.mark.parametrize("number", range(4))
    def test_requests_that_are_too_long_or_too_short(self, number: int) -> None:
        rng = np.random.default_rng(number)
        jobs = [
            Job(index, 3.0 * index, int(rng.integers(1, 5)), float(rng.integers(1, 20)), float(rng.integers(0, 25)))
            for index in range(30)
        ]
        for kill in (True, False):
            result = simulate(BatchCluster(jobs, 4, enforce_time_limit=kill), create("rollout:conservative"), seed=1)
            assert validate(result).ok
            assert set(result.jobs["status"]) <= {"completed", "killed"}


class TestRefusals:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (
                lambda: RolloutAgent(FCFS(), objective="makespan"),
                "objective: got 'makespan', expected one of 'bounded_slowdown_mean'",
            ),  # type: ignore[arg-type]
            (lambda: RolloutAgent(FCFS(), width=-1), "width: got -1"),
            (lambda: RolloutAgent(FCFS(), horizon=0.0), r"horizon: got 0\.0, expected a time in seconds above 0"),
            (lambda: RolloutAgent(RolloutAgent(FCFS())), "rollout:rollout:fcfs: the base agent looks ahead itself"),
            (lambda: DagRolloutAgent(ListScheduler(FIFO()), nodes=1.5), r"nodes: got 1\.5"),  # type: ignore[arg-type]
            (lambda: DagRolloutAgent(ListScheduler(FIFO()), executors=-2), "executors: got -2"),
            (lambda: create("rollout:nobody"), "unknown batch agent 'nobody'"),
            (lambda: create("rollout-makespan:fcfs"), "unknown batch agent 'rollout-makespan:fcfs'"),
            (
                lambda: create_dag("rollout-waiting_time_mean:heft"),
                "unknown dag agent 'rollout-waiting_time_mean:heft'",
            ),
        ],
    )
    def test_arguments(self, make: Callable[[], Any], message: str) -> None:
        with pytest.raises(InvalidConfiguration, match=message):
            make()

    def test_without_forks(self) -> None:
        simulation = Simulation(BatchCluster(exact((0.0, 1, 1.0), (0.0, 1, 1.0), (0.5, 1, 1.0)), 1))
        agent = RolloutAgent(create("fcfs"))
        agent.reset({}, simulation.stream("agent"))
        with pytest.raises(InvalidConfiguration, match=r"rollout:fcfs: got no forks .*; try desim.simulate"):
            while (decision := simulation.advance()) is not None:
                decision.answer(agent.act(decision.observation))

    def test_an_iterator(self) -> None:
        with pytest.raises(InvalidConfiguration, match="pass a list to be able to fork"):
            simulate(BatchCluster(iter(exact((0.0, 1, 1.0))), 1), create("rollout:fcfs"))

    def test_a_base_agent_that_answers_nonsense(self) -> None:
        class Nonsense:
            def act(self, observation: Any) -> int:
                return 77

        with pytest.raises(DesimError, match="77 is not the row of a queued job"):
            simulate(BatchCluster(exact((0.0, 1, 1.0)), 1), RolloutAgent(Nonsense()))

    def test_where_the_base_agent_cannot_go_on_is_not_gone(self) -> None:
        class Planned:
            """Starts jobs in an order that it has in mind, whatever is in the queue by then."""

            def __init__(self) -> None:
                self.left = [0, 1, 2, 3]

            def act(self, observation: Any) -> int | None:
                return self.left.pop(0) if observation.free_cores else None

        jobs = exact((0.0, 1, 2.0), (1.0, 1, 50.0), (1.25, 1, 9.0), (1.5, 1, 1.0))
        assert starts(simulate(BatchCluster(jobs, 1), RolloutAgent(FCFS()))) == {1: 0, 4: 2, 3: 3, 2: 12}
        assert starts(simulate(BatchCluster(jobs, 1), RolloutAgent(Planned()))) == {1: 0, 2: 2, 3: 52, 4: 61}


@pytest.mark.parametrize("name", ["rollout:easy-f1", "rollout-waiting_time_mean:conservative"])
def test_a_copy_goes_on_alike_in_a_fork(name: str) -> None:
    run, agent = Simulation(BatchCluster(lublin.generate(30, 8, seed=3, load=1.2), 8), seed=1), create(name)
    prepare_agent(agent, run)
    for _ in range(15):
        decision = run.advance()
        assert decision is not None
        decision.answer(agent.act(decision.observation))
    fork, other, before = run.fork(), copy.deepcopy(agent), agent.num_forks
    with pytest.raises(InvalidConfiguration, match=r"got no forks before the first decision"):
        copy.deepcopy(agent)._try(None, None, None)
    other.attach(partial(fork.fork, foresight=False))
    ended = []
    for simulation, one in ((run, agent), (fork, other)):
        while (decision := simulation.advance()) is not None:
            decision.answer(one.act(decision.observation))
        ended.append(simulation.finish().jobs)
    assert ended[0].equals(ended[1]) and agent.num_forks == other.num_forks > before
