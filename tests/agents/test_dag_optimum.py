"""The optimum by CP-SAT is that of trying all schedules, and its bounds hold."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pytest
from dag_exhaustive import assert_feasible, least_makespan, need_ortools
from dag_references import random_instance
from published_dags import topcuoglu

from desim import simulate
from desim.agents.dag import CPOP, HEFT, PEFT, TDCA, ListScheduler, Optimum, RankUp, create, optimal_schedule
from desim.exceptions import InvalidConfiguration, MissingDependency
from desim.problems.dag import DagCluster, Executors, Job, SharedLinks
from desim.processes.outages import random_outages
from desim.workloads.dag.jobshop import job_shop


@pytest.fixture(autouse=True)
def solver() -> None:
    """Skip without the solver."""
    need_ortools()


def makespan_with(agent: object, jobs: list[Job], executors: Executors) -> float:
    """Return the makespan of an agent."""
    result = simulate(DagCluster(jobs, executors, plan_ahead=True), agent)  # type: ignore[arg-type]
    assert_feasible(result, jobs, executors)
    return float(result.jobs["finish_time"].max())  # type: ignore[arg-type]


@pytest.mark.parametrize("duplication", [False, True])
def test_it_is_the_best_of_all_schedules(duplication: bool) -> None:
    exact = 0
    for seed in range(60):
        jobs, executors = random_instance(
            seed, max_nodes=5 if seed % 2 else 4, max_executors=2 if seed % 2 else 3, max_jobs=1
        )
        best = least_makespan(jobs, executors, duplication=duplication)
        schedule = optimal_schedule(jobs, executors, duplication=duplication)
        assert schedule.status == "optimal"
        assert schedule.makespan == pytest.approx(best, rel=1e-6, abs=1e-9)
        assert schedule.bound <= best + 1e-9
        assert schedule.bound == pytest.approx(best, rel=1e-6, abs=1e-9)
        if schedule.is_exact:
            assert schedule.makespan == schedule.bound == best
        exact += schedule.is_exact
    assert 5 < exact < 55


def test_several_jobs_and_submission_times_that_are_known() -> None:
    waits = 0
    for seed in range(100, 140):
        jobs, executors = random_instance(seed, max_nodes=2, max_executors=2, max_jobs=3, staggered=True)
        for duplication in (False, True):
            best = least_makespan(jobs, executors, duplication=duplication)
            schedule = optimal_schedule(jobs, executors, duplication=duplication)
            assert schedule.makespan == pytest.approx(best, rel=1e-6, abs=1e-9)
            assert schedule.bound <= best + 1e-9
            submitted = {job.job_id: job.submission_time for job in jobs}
            assert all(copy.start >= submitted[copy.job_id] for copy in schedule.copies)
        waits += jobs[-1].submission_time > 0
    assert waits > 10


def test_duplication_can_be_worth_it_and_needs_to_be_allowed() -> None:
    job = Job(1, [2.0, 3.0, 3.0], [(0, 1, 5.0), (0, 2, 5.0)])
    executors = Executors([1.0, 1.0], 1.0)
    assert optimal_schedule([job], executors, duplication=False).makespan == 8.0
    schedule = optimal_schedule([job], executors)
    assert (schedule.makespan, schedule.bound, schedule.status, schedule.is_exact) == (5.0, 5.0, "optimal", True)
    assert sorted((copy.node, copy.start, copy.finish) for copy in schedule.copies) == [
        (0, 0.0, 2.0),
        (0, 0.0, 2.0),
        (1, 2.0, 5.0),
        (2, 2.0, 5.0),
    ]
    assert {copy.executor for copy in schedule.copies if copy.node == 0} == {0, 1}


def test_the_published_example() -> None:
    job, executors = topcuoglu()
    for duplication, best in ((False, 73.0), (True, 69.0)):
        agent = Optimum(duplication=duplication)
        assert makespan_with(agent, [job], executors) == best
        assert [(schedule.bound, schedule.status) for schedule in agent.schedules] == [(best, "optimal")]


def test_no_agent_does_better() -> None:
    gains = 0
    for seed in range(200, 225):
        jobs, executors = random_instance(seed, max_nodes=8, max_executors=3, max_jobs=2)
        without, with_copies = (optimal_schedule(jobs, executors, duplication=allowed) for allowed in (False, True))
        assert with_copies.makespan <= without.makespan * (1 + 1e-6)
        for agent in (HEFT(), CPOP(), PEFT()):
            assert makespan_with(agent, jobs, executors) >= without.bound - 1e-9
        for agent in (TDCA(), ListScheduler(RankUp())):
            assert makespan_with(agent, jobs, executors) >= with_copies.bound - 1e-9
        planned = Optimum()
        assert makespan_with(planned, jobs, executors) == planned.schedules[0].makespan == with_copies.makespan
        gains += with_copies.makespan < makespan_with(HEFT(), jobs, executors) - 1e-9
    assert gains > 5


def test_coarse_ticks_give_true_bounds() -> None:
    for seed in range(300, 312):
        jobs, executors = random_instance(seed, max_nodes=4, max_executors=2, max_jobs=1)
        best = least_makespan(jobs, executors, duplication=True)
        for resolution in (0.01, 0.7, 50.0):
            schedule = optimal_schedule(jobs, executors, resolution=resolution)
            assert schedule.resolution == resolution
            assert schedule.bound <= best + 1e-9
            assert schedule.makespan >= best - 1e-9
        assert optimal_schedule(jobs, executors, resolution=0.01).makespan <= best + 0.01 * 2 * 2 * jobs[0].num_nodes


def test_ticks_that_fit() -> None:
    job = Job(1, [0.25, 0.5], [(0, 1, 0.75)])
    schedule = optimal_schedule([job], Executors([1.0]), resolution=0.25)
    assert schedule.is_exact
    assert schedule.makespan == schedule.bound == 0.75
    assert not optimal_schedule([job], Executors([1.0])).is_exact


def test_nodes_that_take_no_time() -> None:
    job = Job(1, [0.0, 0.0, 0.0], [(0, 1, 3.0), (0, 2, 3.0)])
    for agent in (Optimum(), Optimum(duplication=False)):
        assert makespan_with(agent, [job], Executors([1.0, 2.0], 1.0)) == 0.0


def test_no_time_to_search() -> None:
    unproved = 0
    for seed in range(400, 410):
        jobs, executors = random_instance(seed, max_nodes=12, max_executors=3, staggered=seed % 2 == 0)
        schedule = optimal_schedule(jobs, executors, time_limit=1e-9)
        unproved += schedule.status == "feasible"
        assert schedule.bound <= optimal_schedule(jobs, executors, time_limit=5.0).makespan + 1e-9
        assert {(copy.job_id, copy.node) for copy in schedule.copies} == {
            (job.job_id, node) for job in jobs for node in range(job.num_nodes)
        }
        assert schedule.makespan == max(copy.finish for copy in schedule.copies)
    assert unproved > 0


def test_the_limit_counts_processor_time() -> None:
    need_ortools()
    rng = np.random.default_rng(0)
    machines = [rng.permutation(12).tolist() for _ in range(12)]
    jobs, executors = job_shop(machines, rng.integers(1, 100, (12, 12)).tolist())
    options: dict[str, Any] = {"duplication": False, "resolution": 1.0}
    optimal_schedule(jobs, executors, time_limit=1e-9, **options)
    seconds, statuses = [], []
    for limit in (1e-9, 0.3):
        begin = time.process_time()
        statuses.append(optimal_schedule(jobs, executors, time_limit=limit, **options).status)
        seconds.append(time.process_time() - begin)
    assert statuses == ["feasible", "feasible"]
    assert 0.15 < seconds[1] - seconds[0] < 0.6


def test_later_jobs_and_outages() -> None:
    first = Job(1, [4.0, 4.0], [(0, 1, 1.0)])
    second = Job(2, [1.0, 3.0], [(0, 1, 1.0)], submission_time=1.0)
    agent = Optimum()
    executors = Executors([1.0, 0.5], 1.0)
    result = simulate(DagCluster([first, second], executors, plan_ahead=True), agent)
    assert_feasible(result, [first, second], executors)
    assert [schedule.makespan for schedule in agent.schedules] == [8.0, 9.0]  # the second job alone on the slow one
    for seed in range(5):
        cluster = DagCluster([first, second], executors, plan_ahead=True, processes=[random_outages(10.0, 2.0)])
        assert simulate(cluster, Optimum(), seed=seed, until=1000.0).jobs["success"].all()


def test_the_same_twice() -> None:
    jobs, executors = random_instance(7, max_nodes=9)
    assert optimal_schedule(jobs, executors) == optimal_schedule(jobs, executors)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limit": 0.0}, "time_limit: got 0.0, expected"),
        ({"time_limit": np.nan}, "time_limit: got nan"),
        ({"resolution": -1.0}, "resolution: got -1.0, expected"),
        ({"resolution": np.inf}, "resolution: got inf, expected"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, float], message: str) -> None:
    jobs, executors = random_instance(0)
    with pytest.raises(InvalidConfiguration, match=message):
        optimal_schedule(jobs, executors, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfiguration, match=message):
        Optimum(**options)  # type: ignore[arg-type]


def test_executors_that_are_out_of_the_question() -> None:
    """A time of 1e19 ticks is more than a whole number of 64 bits can hold, and nobody needs to know it."""
    times = [[1e-7, 1e9, 3e-7], [3e-7, 2e9, 1e-7]]
    job = Job(1, [1.0, 1.0], [(0, 1, 1e-7)], run_times=times)
    speeds = [[1.0, 1e-20, 4.0], [1e-20, 1.0, 1e-20], [1.0, 1e-20, 1.0]]
    schedule = optimal_schedule([job], Executors([1.0] * 3, speeds))
    assert [copy.executor for copy in schedule.copies] == [0, 2]
    assert schedule.makespan == pytest.approx(1e-7 + 1e-7 / 4 + 1e-7)
    assert schedule.status == "optimal"


def test_a_resolution_that_is_too_fine() -> None:
    with pytest.raises(InvalidConfiguration, match=r"resolution: got 1e-15 s, .* a schedule may take 2\.0 s"):
        optimal_schedule([Job(1, [2.0])], Executors([1.0]), resolution=1e-15)


def test_what_cannot_be_solved() -> None:
    with pytest.raises(InvalidConfiguration, match="jobs: got an empty sequence"):
        optimal_schedule([], Executors([1.0]))
    job = Job(1, np.ones(500), [(node, node + 1, 1.0) for node in range(499)])
    with pytest.raises(InvalidConfiguration, match="optimum: got 500 nodes and 499 edges on 50 executors, too many"):
        optimal_schedule([job], Executors(np.ones(50), 1.0))
    with pytest.raises(InvalidConfiguration, match=r"optimum: got a cluster without planning ahead"):
        simulate(DagCluster([job], Executors([1.0]), plan_ahead=False), Optimum())


def test_without_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)
    with pytest.raises(MissingDependency, match=r"pip install 'desim\[optimum\]'"):
        optimal_schedule([Job(1, [1.0])], Executors([1.0]))


def test_shared_links_are_refused() -> None:
    job = Job(1, [1.0, 2.0], [(0, 1, 3.0)])
    links = SharedLinks.bus(2, 1.0)
    cluster = DagCluster([job], Executors([1.0, 1.0], 4.0), plan_ahead=True, transfers="when_assigned", links=links)
    for name in ("optimum", "portfolio:heft+optimum"):
        with pytest.raises(
            InvalidConfiguration, match=r"optimum: got .* shared links, .* expected links=None; try portfolio"
        ):
            simulate(cluster, create(name))
