"""Order search: decodings equal the simulator's, plans equal the best of all orders, and agents know no future."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest

from desim import Simulation, simulate
from desim.agents.batch import EASYBackfilling, Priority, SimpleBackfilling, create
from desim.agents.search import Budget
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, BatchObservation, Job, Queue
from desim.problems.batch.cores import to_core_ids
from desim.processes import Outage, planned_outages
from desim.validation import validate
from desim.workloads import lublin

pytest.importorskip("numba", reason="needs numba")

from desim.agents.batch.search import OrderDecoder, SearchAgent


class InOrder(Priority):
    """The order of a list of rows."""

    name = "in-order"

    def __init__(self, rows: list[int]) -> None:
        self.ranks = {row: rank for rank, row in enumerate(rows)}

    def scores(self, queue: Queue, time: float) -> np.ndarray:
        return np.array([self.ranks[row] for row in queue.row.tolist()], np.float64)


def back_filling(rows: list[int], easy: bool) -> SimpleBackfilling | EASYBackfilling:
    return EASYBackfilling(InOrder(rows)) if easy else SimpleBackfilling(InOrder(rows))


def random_cluster(rng: np.random.Generator) -> BatchCluster:
    """Return a busy cluster: times whole or not, some of them 0, jobs that end early, cores that fail."""
    number, cores, whole = int(rng.integers(2, 40)), int(rng.integers(1, 30)), rng.random() < 0.5
    arrivals = rng.exponential(30.0 * rng.random(), number).cumsum()
    times = np.where(rng.random(number) < 0.3, rng.choice([0.0, 1.0, 5.0, 10.0], number), rng.exponential(100, number))
    if whole:
        arrivals, times = arrivals.round(), times.round()
    used = times * rng.choice([1.0, 0.5, 0.1], number)
    jobs = [
        Job(each, float(arrivals[each]), int(rng.integers(1, cores + 1)), float(times[each]), float(used[each]))
        for each in range(number)
    ]
    begin, units = float(rng.integers(1, 200)), int(rng.integers(1, 1 << min(cores, 20)))
    outages = [planned_outages([Outage(begin, begin + 300.0, cores=to_core_ids(units))])] if rng.random() < 0.3 else []
    return BatchCluster(jobs, cores, processes=outages)


def finish(simulation: Simulation, agent: Priority | SimpleBackfilling | EASYBackfilling) -> dict[int, float]:
    """Run a fork to its end; return when jobs started from now on."""
    started: dict[int, float] = {}
    simulation.problem.on("start", lambda time, execution: started.update({execution.row: time}))
    while (decision := simulation.advance()) is not None:
        decision.answer(agent.act(decision.observation))
    return started


def check_decodings(simulation: Simulation, rng: np.random.Generator, decoder: OrderDecoder) -> None:
    """Compare the decodings of an order of the queue with forks that carry it out."""
    observation: BatchObservation = simulation.advance().observation
    queue, now = observation.queue, observation.time
    order = rng.permutation((queue.requested_cores <= observation.num_cores - observation.down_cores).nonzero()[0])
    weights = rng.random(len(queue))
    decoder.see(observation, weights)
    rows = queue.row[order].tolist()
    too_wide = [row for row in queue.row.tolist() if row not in rows]
    for easy in (False, True):
        score = decoder.decode(order, easy=easy)
        agent = back_filling([*rows, *too_wide], easy)
        starts = finish(simulation.fork(foresight=False), agent)
        assert dict(zip(rows, decoder.starts[order].tolist(), strict=True)) == starts
        answer = agent.act(observation) or []
        assert queue.row[decoder.due].tolist() == [one for one in answer if isinstance(one, int)]
        expected = sum(weights[each] * (starts[queue.row[each]] - now) for each in order.tolist())
        assert score == pytest.approx(expected, abs=1e-9)
        assert decoder.decode(order, easy=easy, limit=score + 1e-9) == score
        assert decoder.decode(order, easy=easy, limit=score - 1e-9) == np.inf or score < 1e-9


def check_states(number: int, seed: int) -> None:
    """Check so many states of random runs."""
    rng, decoder = np.random.default_rng(seed), OrderDecoder(np.random.default_rng(seed))
    checked = 0
    while checked < number:
        simulation = Simulation(random_cluster(rng))
        agent = create(str(rng.choice(["easy", "sjf", "fcfs", "backfilling-f1"])))
        while (decision := simulation.advance()) is not None:
            if rng.random() < 0.2 and checked < number:
                check_decodings(simulation, rng, decoder)
                checked += 1
            decision.answer(agent.act(decision.observation))


def test_decodings_are_what_the_simulator_does() -> None:
    check_states(200, seed=0)


@pytest.mark.slow
def test_decodings_are_what_the_simulator_does_in_ten_thousand_states() -> None:
    check_states(10_000, seed=1)


def due_decision(cluster: BatchCluster, time: float) -> Simulation:
    """Return a simulation whose next decision is the first one at or after a time; FCFS decides until then."""
    simulation, agent = Simulation(cluster), create("fcfs")
    while (decision := simulation.advance()) is not None and simulation.env.now < time:
        decision.answer(agent.act(decision.observation))
    return simulation


def small_cluster(rng: np.random.Generator) -> BatchCluster:
    """Return a cluster that is full until after a time of 6, when two to six jobs are queued."""
    blocking = [Job(100 + each, 0.0, 2, float(rng.integers(7, 20)), 1e9) for each in range(4)]
    jobs = [
        Job(each, 1.0 + each, int(rng.integers(1, 9)), float(rng.integers(1, 30)), 1e9)
        for each in range(int(rng.integers(2, 7)))
    ]
    return BatchCluster([*blocking, *jobs], 8)


def test_search_finds_the_best_of_all_orders() -> None:
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(40):
        simulation = due_decision(small_cluster(rng), 6.0)
        observation = simulation.advance().observation
        decoder = OrderDecoder(rng)
        decoder.see(observation)
        orders = [np.array(order) for order in permutations(range(len(observation.queue)))]
        best = min(decoder.decode(order, easy=easy) for order in orders for easy in (False, True))
        agent = SearchAgent("waiting_time_mean", Budget(moves=2_000))
        agent.reset({}, rng)
        agent.act(observation)
        assert agent.score >= best
        missed += agent.score > best
    assert missed <= 2


def test_what_the_plan_starts_now_is_started_and_nothing_else() -> None:
    jobs = [
        Job(1, 0.0, 3, 10.0, 10.0),
        Job(2, 1.0, 4, 2.0, 2.0),  # first by the plan: it waits for job 1
        Job(3, 2.0, 1, 100.0, 100.0),  # fits, and would keep job 2 from starting
    ]
    result = simulate(BatchCluster(jobs, 4), create("search:batch"))
    assert result.jobs.sort("job_id")["starting_time"].to_list() == [0.0, 10.0, 12.0]


def test_jobs_that_are_too_wide_for_what_is_up_do_not_count() -> None:
    outage = planned_outages([Outage(1.0, 50.0, cores=[0, 1])])
    jobs = [Job(1, 2.0, 4, 5.0, 5.0), Job(2, 3.0, 2, 5.0, 5.0), Job(3, 3.5, 2, 1.0, 1.0)]
    result = simulate(BatchCluster(jobs, 4, processes=[outage]), create("search:batch"))
    assert result.jobs.sort("job_id")["starting_time"].to_list() == [50.0, 3.0, 8.0]


@pytest.mark.parametrize(
    "name", ["search:batch", "search:batch:bounded_slowdown_mean:9", "search:batch:slowdown_mean:0"]
)
def test_runs_are_valid_and_repeated_by_their_seed(name: str) -> None:
    cluster = BatchCluster(lublin.generate(150, 64, seed=3, load=1.1, overestimate=3.0), 64)
    one, two = (simulate(cluster, create(name), seed=5) for _ in range(2))
    assert one.jobs.equals(two.jobs)
    assert not validate(one).violations


def test_the_name_tells_all() -> None:
    assert create("search:batch").name == SearchAgent().name == "search:batch:waiting_time_mean:300"
    assert create("search:batch:slowdown_mean:0.5s").name == "search:batch:slowdown_mean:0.5s"


def test_an_agent_needs_no_past() -> None:
    cluster = BatchCluster(lublin.generate(120, 64, seed=4, load=1.1), 64)
    simulation, agent, other = Simulation(cluster), create("easy"), SearchAgent()
    while (decision := simulation.advance()) is not None:
        fresh = SearchAgent()
        for one in (other, fresh):
            starts = one.act(decision.observation) or []
            queue = decision.observation.queue
            cores = dict(zip(queue.row.tolist(), queue.requested_cores.tolist(), strict=True))
            assert sum(cores[row] for row in starts) <= decision.observation.free_cores
            assert len(set(starts)) == len(starts)
        decision.answer(agent.act(decision.observation))


def test_more_moves_find_plans_that_are_no_worse() -> None:
    cluster = BatchCluster(lublin.generate(200, 64, seed=5, load=1.3), 64)
    simulation, agent = Simulation(cluster), create("fcfs")
    scores: list[list[float]] = []
    while (decision := simulation.advance()) is not None:
        found = []
        for moves in (0, 100, 1_000):
            search = SearchAgent("waiting_time_mean", Budget(moves=moves))
            search.act(decision.observation)
            found.append(search.score)
        scores.append(found)
        decision.answer(agent.act(decision.observation))
    none, some, many = np.array(scores).T
    assert (some <= none).all()
    assert (many <= some).all()
    assert many.sum() < some.sum() < none.sum()


@pytest.mark.parametrize("again", [copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
def test_a_copy_goes_on_as_the_agent_does(again: Callable[[SearchAgent], SearchAgent]) -> None:
    cluster = BatchCluster(lublin.generate(120, 64, seed=6, load=1.3), 64)
    simulation, agent, twin = Simulation(cluster), SearchAgent("bounded_slowdown_mean", Budget(moves=20)), None
    while (decision := simulation.advance()) is not None:
        if twin is None and simulation.env.now > cluster.jobs[60].submission_time:
            twin = again(agent)
        answer = agent.act(decision.observation)
        assert twin is None or twin.act(decision.observation) == answer
        decision.answer(answer)
    assert twin is not None


def test_seconds_are_a_budget_too() -> None:
    cluster = BatchCluster(lublin.generate(30, 64, seed=5, load=1.3), 64)
    assert len(simulate(cluster, create("search:batch:waiting_time_mean:0.0001s")).jobs) == 30


@pytest.mark.parametrize("name", ["search:batch:makespan", "search:batch:waiting_time_mean:1:2", "search:dag"])
def test_names_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(InvalidConfiguration):
        create(name)
