"""Search over plans: decoders against the simulator, plans against exhaustive search, and what agents make of them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from dag_exhaustive import assert_feasible, least_makespan, need_ortools
from dag_references import random_instance

from desim import Result, simulate
from desim.agents import dag
from desim.agents.dag import DEFT, EFT, SJF, InsertionDEFT, InsertionEFT, ListScheduler, RandomOrder, RankUp
from desim.agents.dag.orders import LeastWork, Order
from desim.core import Simulation
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, DagCluster, DagObservation, Executors, Job, SharedLinks, TaskCluster
from desim.processes import random_outages
from desim.workloads import random_dags

pytest.importorskip("numba")

from desim.agents.dag.search import DagSearchState, GuidedSearchAgent, SearchAgent
from desim.agents.search import Budget

ALLOCATIONS = {(False, False): EFT, (True, False): InsertionEFT, (False, True): DEFT, (True, True): InsertionDEFT}
Found = list[tuple[int, int, int, float, float]]


class Wanderer:
    """Assigns at random, and now and then nothing, until some decision; then notes what decoders say, and follows."""

    name = "wanderer"

    def __init__(self, order: Order, kind: tuple[bool, bool], after: int, rng: np.random.Generator) -> None:
        self.order, self.kind, self.after, self.rng = order, kind, after, rng
        self.random = ListScheduler(RandomOrder(), InsertionDEFT() if rng.random() < 0.5 else InsertionEFT())
        self.list_scheduler = ListScheduler(order, ALLOCATIONS[kind]())
        self.decoded: Found = []
        self.time = np.nan

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        """Begin a new run."""
        self.late = info["transfers"] == "when_assigned" and not info["plan_ahead"]
        self.random.reset(info, rng)
        self.list_scheduler.reset(info, rng)

    def act(self, observation: DagObservation) -> Assign | None:
        """Return an action."""
        self.after -= 1
        if self.after > 0:
            return None if self.rng.random() < 0.2 else self.random.act(observation)
        if self.after == 0:
            self.time = observation.time
            self.decoded = self.decode(observation)
        return self.list_scheduler.act(observation)

    def decode(self, observation: DagObservation) -> Found:
        """Return the copies of a plan by the order: job, node, executor, start and finish."""
        insertion, duplication = self.kind
        situation = DagSearchState(observation, "makespan", gaps=True, late=self.late)
        keys = np.concatenate([self.order.keys(observation, state) for state in situation.states])
        anywhere = np.full(len(situation.owners), -1)
        # Of equal keys the list scheduler takes the job first that it has seen first, by the numbers of its nodes.
        seen = {state: ticket for ticket, (state, _) in reversed(observation.ready.items())}
        order = situation.order_by(
            [(key, seen[situation.states[job]]) for key, (job, _) in zip(keys, situation.owners, strict=True)]
        )
        situation.value(order, anywhere, insertion=insertion, duplication=duplication)
        schedule = situation.schedule
        new = schedule.copies[len(schedule.copies) - 2 * len(situation.planned) : schedule.sizes[0]]
        owners = [situation.owners[node] for node in new["node"]]
        jobs = [situation.states[job].job.job_id for job, _ in owners]
        nodes = [node for _, node in owners]
        columns = new["executor"].tolist(), new["start"].tolist(), new["finish"].tolist()
        return list(zip(jobs, nodes, *columns, strict=True))


def scenario(seed: int) -> tuple[list[Job], Executors, dict[str, Any], np.random.Generator]:
    """Return random jobs, executors, and settings of a cluster."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 7))
    whole = rng.random() < 0.2  # equal times now and then
    jobs, time = [], 0.0
    for job_id in range(int(rng.integers(1, 7))):
        nodes = int(rng.integers(1, 13))
        share = rng.random()
        edges = [
            (parent, child, float(rng.integers(0, 9) if whole else rng.exponential(3.0)))
            for child in range(nodes)
            for parent in range(child)
            if rng.random() < share
        ]
        work = rng.integers(0, 5, nodes) if whole else rng.exponential(2.0, nodes)
        times = None if rng.random() < 0.5 else rng.integers(0, 6, (nodes, count)) + (0.0 if whole else rng.random())
        time += float(rng.integers(0, 4)) if whole else float(rng.exponential(2.0)) * (rng.random() < 0.5)
        job = Job(job_id, work, edges, run_times=times, submission_time=time, allow_disconnected=True)
        jobs.append(job)
    speeds = rng.integers(1, 3, count) if whole else rng.uniform(0.5, 2.0, count)
    latency = 0.0 if rng.random() < 0.5 else rng.integers(0, 3, (count, count)).astype(float)
    executors = Executors(speeds, rng.uniform(0.5, 4.0, (count, count)), latency)
    transfers = "when_assigned" if rng.random() < 0.3 else "when_finished"
    return jobs, executors, {"transfers": transfers, "plan_ahead": True}, rng


def check(seed: int) -> int:
    """Compare what decoders say at one random state to what the simulator does; return how many copies there are."""
    jobs, executors, settings, rng = scenario(seed)
    kind = list(ALLOCATIONS)[seed % 4]
    order = [RankUp(), SJF(), LeastWork()][seed % 3]
    agent = Wanderer(order, kind, int(rng.integers(1, 30)), rng)
    cluster = DagCluster(jobs, executors, **settings)
    simulation = Simulation(cluster, seed=seed)
    assigned: Found = []

    def note(time: float, copy: Any) -> None:
        if agent.after <= 0 and time == agent.time:
            assigned.append((copy.state.job.job_id, copy.node, copy.executor, copy.start, copy.finish))

    simulation.problem.on("assignment", note)
    agent.reset(cluster.describe(), np.random.default_rng(seed))
    while (decision := simulation.advance()) is not None:
        decision.answer(agent.act(decision.observation))
    assert assigned == agent.decoded, f"seed {seed}"
    return len(assigned)


@pytest.mark.parametrize("first", range(0, 48, 12))
def test_what_decoders_say_is_what_the_simulator_does(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + 12)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 11_000, 500))
def test_decoders_and_the_simulator_agree_in_random_states(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + 500)) > 500


# -- plans -------------------------------------------------------------------------------------------


def run(jobs: list[Job], executors: Executors, agent: Any, seed: int = 0, **options: Any) -> Result:
    """Return the result of an agent."""
    return simulate(DagCluster(jobs, executors, **options), agent, seed=seed, until=1e5)


def four_jobs() -> tuple[list[Job], Executors]:
    """Return jobs that leave something to be found."""
    rng = np.random.default_rng(3)
    jobs = [random_dags.generate(12, ccr=3.0, job_id=job_id, seed=rng) for job_id in range(4)]
    return jobs, Executors([1.0, 2.0, 1.5])


class Planner(SearchAgent):
    """Notes the values of its plans."""

    def _plan(self, observation: DagObservation) -> None:
        super()._plan(observation)
        self.values = [*getattr(self, "values", []), self.value]


@pytest.mark.parametrize("plan_ahead", [True, False])
def test_what_is_planned_happens_or_better(plan_ahead: bool) -> None:
    for seed in range(20):
        jobs, executors, _, _ = scenario(seed)
        jobs = [job.submitted(0.0) for job in jobs]
        agent = Planner("turnaround_time_mean", Budget(30))
        result = run(jobs, executors, agent, plan_ahead=plan_ahead)
        assert_feasible(result, jobs, executors)
        assert len(agent.values) == 1
        assert result.metrics()["turnaround_time_mean"] <= agent.values[0] * (1 + 1e-9)


@pytest.mark.parametrize("objective", ["makespan", "turnaround_time_mean", "job_slr_mean"])
def test_more_moves_never_plan_worse(objective: Any) -> None:
    jobs, executors = four_jobs()
    values = []
    for moves in (0, 10, 100):
        agent = Planner(objective, Budget(moves))
        run(jobs, executors, agent)
        values.append(agent.values[0])
    assert values == sorted(values, reverse=True)
    assert values[-1] < values[0]


def test_with_outages_and_shared_links_all_jobs_end() -> None:
    for seed in range(12):
        jobs, executors, _, _ = scenario(seed)
        options = {"plan_ahead": seed % 2 == 0, "processes": [random_outages(20.0, 3.0)]}
        if seed % 3 == 0:
            links = SharedLinks.bus(executors.num_executors, 1.0)
            options |= {"transfers": "when_assigned", "links": links}
        result = run(jobs, executors, SearchAgent("turnaround_time_mean", Budget(20)), seed, **options)
        assert result.jobs["success"].all()


def test_one_seed_gives_one_result_and_another_one_another() -> None:
    jobs, executors = four_jobs()
    results = [run(jobs, executors, SearchAgent("makespan", Budget(40)), seed) for seed in (1, 1, 2)]
    tables = [result.table("copies") for result in results]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])


def test_a_copy_of_an_agent_goes_on_as_the_agent() -> None:
    jobs, executors = four_jobs()
    agent = SearchAgent("turnaround_time_mean", Budget(40))
    first = run(jobs, executors, agent)
    second = run(jobs, executors, deepcopy(agent))
    assert first.table("copies").equals(second.table("copies"))


def test_seconds_are_kept() -> None:
    jobs, executors = random_instance(3)
    agent = dag.create("search:dag:makespan:0.01s")
    assert agent.name == "search:dag:makespan:0.01s"
    assert_feasible(run(jobs, executors, agent), jobs, executors)


def test_who_is_guided_plans_no_worse_and_follows_guides_that_know_better() -> None:
    alike = better = 0
    for seed in range(16):
        jobs, executors, _, _ = scenario(seed)
        jobs = [job.submitted(0.0) for job in jobs]
        alone, guide = (Planner("turnaround_time_mean", Budget(moves)) for moves in (0, 400))
        for agent in (alone, guide):
            run(jobs, executors, agent, plan_ahead=True)
        guided = GuidedSearchAgent(guide, "turnaround_time_mean", Budget(0))
        result = run(jobs, executors, guided, plan_ahead=True)
        assert_feasible(result, jobs, executors)
        assert guided.value <= alone.values[0]
        assert (guided.num_plans, guided.num_guided) == (1, int(guided.value < alone.values[0]))
        if guide.values[0] < alone.values[0] * (1 - 1e-9):
            better += 1
            alike += guided.value <= guide.values[0] * (1 + 1e-9)
    assert better > 8
    assert 3 * alike >= 2 * better  # the others have copies of parents that the search makes elsewhere


def test_guides_know_only_what_is_known() -> None:
    """With jobs that arrive, outages and links: all jobs end, and one seed gives one result."""
    plans = guided = 0
    for seed in range(8):
        jobs, executors, settings, _ = scenario(seed)
        settings |= {"processes": [random_outages(20.0, 3.0)], "plan_ahead": seed % 2 == 0}
        agents = [GuidedSearchAgent(dag.create("random-eft"), "makespan", Budget(5)) for _ in range(2)]
        first, second = (run(jobs, executors, agent, seed, **settings) for agent in agents)
        assert first.jobs["success"].all()
        assert first.table("copies").equals(second.table("copies"))
        plans, guided = plans + agents[0].num_plans, guided + agents[0].num_guided
    assert plans > guided > 0


def test_a_guide_cannot_look_ahead_itself_and_forks_must_be_there() -> None:
    with pytest.raises(InvalidConfiguration, match="rollout:fifo-deft: the guide looks ahead itself"):
        dag.create("search:dag:makespan:10:rollout:fifo-deft")
    simulation = Simulation(DagCluster(*four_jobs()))
    decision = simulation.advance()
    assert decision is not None
    with pytest.raises(InvalidConfiguration, match=r"search:dag:makespan:10:fifo-deft: got no forks"):
        dag.create("search:dag:makespan:10:fifo-deft").act(decision.observation)


def test_the_names() -> None:
    assert dag.create("search:dag:makespan:7:rank-up-deft").name == "search:dag:makespan:7:rank-up-deft"
    name = "search:dag:makespan:0.5s:graph:tpch-completion"
    assert dag.create(name).name == name
    assert dag.create("search:dag").name == "search:dag:makespan:1000"
    assert dag.create("search:dag:job_slr_mean:7").name == "search:dag:job_slr_mean:7"
    for wrong in ("search:dag:energy", "search:dag:makespan:-1", "search:dag:makespan:7:8"):
        with pytest.raises(InvalidConfiguration):
            dag.create(wrong)


def test_tasks_are_refused() -> None:
    jobs, executors = random_instance(3)
    with pytest.raises(InvalidConfiguration, match="got a cluster of tasks, expected a DagCluster of whole nodes"):
        simulate(TaskCluster(jobs, executors), SearchAgent())


class Doubter(SearchAgent):
    """Decodes the best plan from its beginning once more."""

    def _improve(self, situation: DagSearchState, order: Any, own: Any, insertion: bool, duplication: bool) -> Any:
        search = super()._improve(situation, order, own, insertion, duplication)
        again = situation.value(search.best_order, search.best_own, insertion=insertion, duplication=duplication)
        assert search.values[1] == again
        assert sorted(search.best_order) == situation.planned.tolist()
        return search


@pytest.mark.parametrize("objective", ["makespan", "turnaround_time_mean", "job_slr_mean"])
def test_what_plans_share_decodes_to_the_same(objective: Any) -> None:
    for seed in range(8):
        jobs, executors, settings, _ = scenario(seed)
        run(jobs, executors, Doubter(objective, Budget(60)), seed, **settings)


@pytest.mark.parametrize("rule", ["least-work-deft-patient", "sjf-deft-patient", "rank-up-deft-patient"])
def test_plans_begin_no_worse_than_patient_schedulers(rule: str) -> None:
    """Where data move at once, nothing is duplicated, and what they assign can only start earlier in a plan."""
    for seed in range(10):
        jobs, executors, _, _ = scenario(seed)
        jobs, executors = [job.submitted(0.0) for job in jobs], Executors(executors.speeds)
        agent = Planner("turnaround_time_mean", Budget(0))
        run(jobs, executors, agent)
        least = run(jobs, executors, dag.create(rule)).metrics()["turnaround_time_mean"]
        assert agent.values[0] <= least * (1 + 1e-9)


def test_tiny_plans_are_those_of_exhaustive_search() -> None:
    for seed in range(12):
        jobs, executors = random_instance(seed, max_nodes=4, max_executors=2, max_jobs=1)
        last = run(jobs, executors, SearchAgent("makespan", Budget(1_000)), seed).jobs["finish_time"].max()
        assert last == pytest.approx(least_makespan(jobs, executors, duplication=True))


def ratio_to_optimum(seed: int, moves: int) -> float:
    """Return the makespan that a search finds over the least there is."""
    jobs, executors = random_instance(seed, max_nodes=10, max_executors=4, max_jobs=2)
    least = dag.optimal_schedule(jobs, executors).makespan
    jobs = [job.submitted(0.0) for job in jobs]
    last: float = run(jobs, executors, SearchAgent("makespan", Budget(moves))).jobs["finish_time"].max()  # type: ignore[assignment]
    return last / least if least else 1.0


def test_small_plans_are_optimal() -> None:
    need_ortools()
    assert sum(ratio_to_optimum(seed, 3_000) <= 1 + 1e-9 for seed in range(200, 206)) >= 5


@pytest.mark.slow
def test_plans_are_optimal_in_95_of_100() -> None:
    need_ortools()
    assert sum(ratio_to_optimum(seed, 30_000) <= 1 + 1e-9 for seed in range(100, 200)) >= 95
