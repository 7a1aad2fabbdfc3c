"""Nodes with resources: what fits where, what is refused, and that nothing is ever given away twice."""

from __future__ import annotations

import copy
import pickle
from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InfeasibleAction, InvalidConfiguration, WorkloadError, simulate
from desim.agents.batch import create
from desim.agents.batch.trace_replay import TraceReplay
from desim.core import Simulation
from desim.problems.batch import (
    PLACEMENTS,
    BatchCluster,
    FragmentationGradient,
    Job,
    Node,
    NodeAllocation,
    PlacementPolicy,
    Request,
    StartOnNodes,
    typical_requests,
)
from desim.processes.outages import Outage, planned_outages
from desim.validation import validate

NODES = [
    *Node.several(3, 8, memory=100, gpus=2, gpu_model="A", partition="fast"),
    *Node.several(2, 4, name="m", memory=400, resources={"licenses": 2}, features=frozenset({"local-disk"})),
    Node("big", 16, memory=900, gpus=4, gpu_model="B"),
]
AGENTS = ["fcfs", "sjf", "backfilling-sjf", "easy-fcfs", "easy-f1"]


def random_request(rng: np.random.Generator) -> Request:
    """Return a request of any kind; most fit on the nodes."""
    gpus = float(rng.choice([0, 0, 1, 2, 0.25, 0.5, 0.7]))
    return Request(
        tasks=int(rng.integers(1, 5)),
        cores=int(rng.integers(1, 5)),
        memory=int(rng.integers(0, 120)),
        gpus=gpus,
        gpu_models=("B",) if gpus and rng.random() < 0.2 else (),
        resources=(("licenses", 1),) if not gpus and rng.random() < 0.2 else (),
        partition="fast" if rng.random() < 0.2 else "",
        excluded_features=("local-disk",) if rng.random() < 0.1 else (),
        exclusive=bool(rng.random() < 0.1),
        tasks_per_node=int(rng.integers(1, 3)) if rng.random() < 0.2 else None,
    )


def random_jobs(seed: int, count: int = 40) -> list[Job]:
    """Return jobs that arrive faster than the nodes can serve them."""
    rng = np.random.default_rng(seed)
    times = rng.exponential(8.0, count).cumsum().round(1).tolist()
    runs = rng.integers(0, 100, count).tolist()
    return [
        Job.of_tasks(number, time, random_request(rng), run * float(rng.integers(1, 4)), float(run), number % 3)
        for number, (time, run) in enumerate(zip(times, runs, strict=True))
    ]


def cluster(jobs: list[Any], placement: str = "first-fit", **options: Any) -> BatchCluster:
    return BatchCluster(jobs, nodes=NODES, placement=placement, too_wide="reject", **options)


def most_held(result: Any) -> dict[tuple[int, str], float]:
    """Return how much of each resource of each node was held at most, added up start by start and end by end."""
    requests = {row["arrival_number"]: row for row in result.table("requests").iter_rows(named=True)}
    changes: list[tuple[float, int, tuple[int, str], float]] = []
    for row in result.table("placements").iter_rows(named=True):
        request = requests[row["arrival_number"]]
        amounts = {"cores": row["tasks"] * request["cores"], "memory": row["tasks"] * request["memory"]}
        amounts |= {f"gpu {gpu}": int(share) for gpu, _, share in (text.partition(":") for text in row["gpus"].split())}
        for text in request["resources"].split():
            name, amount = text.split("=")
            amounts[name] = row["tasks"] * int(amount)
        amounts["jobs"] = 1000 if request["exclusive"] else 1
        end = float("inf") if row["finish_time"] is None else row["finish_time"]
        for name, amount in amounts.items() if row["starting_time"] < end else ():
            place = row["node"], name
            changes += [(row["starting_time"], 1, place, amount), (end, 0, place, -amount)]
    held: dict[tuple[int, str], float] = defaultdict(float)
    most: dict[tuple[int, str], float] = defaultdict(float)
    for _, _, place, amount in sorted(changes):
        held[place] += amount
        most[place] = max(most[place], held[place])
    return most


@pytest.mark.parametrize("placement", PLACEMENTS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32), agent=st.sampled_from(AGENTS), fails=st.booleans())
def test_nothing_is_held_twice(placement: str, seed: int, agent: str, fails: bool) -> None:
    jobs = random_jobs(seed)
    outages = [planned_outages([Outage(50.0, 300.0, nodes=[0, 3]), Outage(100.0, 200.0, nodes=[5])])] if fails else []
    result = simulate(cluster(jobs, placement, processes=outages), create(agent), seed=1)
    assert validate(result, jobs).ok
    for (number, name), amount in most_held(result).items():
        node = NODES[number]
        capacity = {"cores": node.cores, "memory": node.memory, **node.resources}
        capacity |= {f"gpu {gpu}": 1000 for gpu in range(node.gpus)}
        assert amount <= capacity.get(name, 0) if name != "jobs" else amount <= 1000  # alone, or not
    requests = {row["arrival_number"]: row for row in result.table("requests").iter_rows(named=True)}
    for row in result.table("placements").iter_rows(named=True):
        node, request = NODES[row["node"]], requests[row["arrival_number"]]
        assert request["partition"] in ("", node.partition)
        assert not request["gpu_models"] or node.gpu_model in request["gpu_models"]
        assert node.features.isdisjoint(request["excluded_features"])
        assert row["tasks"] <= (request["tasks_per_node"] or row["tasks"])
    tasks = result.table("placements").group_by("arrival_number", "starting_time").agg(pl.col("tasks").sum())
    assert all(row["tasks"] == requests[row["arrival_number"]]["tasks"] for row in tasks.iter_rows(named=True))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_counts_are_those_of_loops(seed: int) -> None:
    """Tasks are put on a node one by one until one has no room."""
    rng = np.random.default_rng(seed)
    simulation = Simulation(cluster([]), seed=0)
    simulation.advance()
    room = simulation.problem.observation.nodes.room  # type: ignore[attr-defined]
    policy = PLACEMENTS["best-fit"]()
    for _ in range(12):
        shape = room.table.compile(random_request(rng))
        counts = room.counts(shape).tolist()
        for number, node in enumerate(NODES):
            free, gpus, count = room.free[number].tolist(), room.gpus[number].tolist(), 0
            request = shape.request
            suits = room.table.eligible(request)[number] and not (request.exclusive and room.jobs[number])
            while suits and count < (request.tasks_per_node or 99):
                free = [left - amount for left, amount in zip(free, shape.amounts, strict=True)]
                fitting = [gpu for gpu, left in enumerate(gpus) if left >= (shape.share or 1000)]
                if min(free) < 0 or len(fitting) < (shape.gpus or bool(shape.share)):
                    break
                for gpu in fitting[: shape.gpus or bool(shape.share)]:
                    gpus[gpu] -= shape.share or 1000
                count += 1
            assert counts[number] == count, (node, request)
        held = room.place(shape, policy)
        assert (held is None) == (sum(counts) < shape.tasks) == (not room.fits(shape))
        if held is not None:
            assert room.fault(shape, held) == ""
            room.take(held)


@pytest.mark.parametrize("agent", AGENTS)
def test_plain_jobs_on_one_node_are_those_of_cores(agent: str) -> None:
    """On one node of 16 cores, jobs that request cores alone start when they do on 16 cores."""
    rng = np.random.default_rng(5)
    times = rng.exponential(20.0, 300).cumsum().tolist()
    jobs = [
        Job(number, time, int(rng.integers(1, 17)), float(run) * 2, float(run))
        for number, (time, run) in enumerate(zip(times, rng.integers(1, 200, 300).tolist(), strict=True))
    ]
    cores = simulate(BatchCluster(jobs, 16), create(agent))
    nodes = simulate(BatchCluster(jobs, nodes=[Node("only", 16)]), create(agent))
    assert nodes.jobs["starting_time"].equals(cores.jobs["starting_time"])
    assert set(nodes.table_names) - set(cores.table_names) == {"nodes", "requests", "placements"}


def test_forks_go_on_alike() -> None:
    jobs = random_jobs(3)
    agent = create("easy-sjf")
    simulation = Simulation(cluster(jobs, "best-fit"), seed=0)
    decision = simulation.advance()
    for _ in range(60):
        assert decision is not None
        decision.answer(agent.act(decision.observation))
        decision = simulation.advance()
    fork = simulation.fork()
    assert not fork.replayed
    ends = []
    for each in (simulation, fork):
        decision = each.advance() if each is fork else decision
        while decision is not None:
            decision.answer(agent.act(decision.observation))
            decision = each.advance()
        ends.append(each.finish())
    assert all(ends[0].table(name).equals(ends[1].table(name)) for name in ends[0].table_names)


class Answers:
    """An agent that gives one answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def act(self, observation: Any) -> Any:
        return self.answer


ONE = Job.of_tasks(7, 0.0, Request(cores=4, memory=50, gpus=0.5), 10.0, 5.0)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ((NodeAllocation(0, 1, (4, 50, 0), ((0, 400),)),), "GPUs"),
        ((NodeAllocation(0, 1, (4, 40, 0), ((0, 500),)),), "amounts on node"),
        ((NodeAllocation(3, 1, (4, 50, 0), ((0, 500),)),), "room for 0"),
        ((NodeAllocation(9, 1, (4, 50, 0), ((0, 500),)),), "no node 9"),
        ((), "1 tasks, got 0"),
        ((NodeAllocation(0, 1, (4, 50, 0), ((0, 500),)), NodeAllocation(0, 1, (4, 50, 0), ((1, 500),))), "twice"),
    ],
)
def test_places_that_a_job_cannot_have_are_refused(held: Any, message: str) -> None:
    with pytest.raises(InfeasibleAction, match=message):
        simulate(cluster([ONE]), Answers(StartOnNodes(0, held)))


def test_a_place_that_a_job_can_have_is_taken() -> None:
    result = simulate(cluster([ONE]), Answers([StartOnNodes(0, (NodeAllocation(2, 1, (4, 50, 0), ((1, 500),)),))]))
    assert result.table("placements").select("node", "gpus").rows() == [(2, "1:500")]
    assert result.jobs["allocated_resources"].to_list() == ["16-19"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gpus": 1.5}, "job 1: gpus: got 1.5, expected an integer or less than 1"),
        ({"gpus": 0.12345}, "multiple of 0.001 below 1"),
        ({"memory": -1}, "job 1: memory: got -1, expected an integer >= 0"),
        ({"tasks": 0}, "job 1: tasks: got 0"),
        ({"cores": 2.5}, "job 1: cores: got 2.5"),
        ({"tasks_per_node": 0}, "job 1: tasks_per_node: got 0"),
    ],
)
def test_requests_that_make_no_sense(values: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Job.of_tasks(1, 0.0, Request(**values), 10.0, 5.0)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request(cores=17), "job 1 does not fit on the nodes, even if all are free"),
        (Request(tasks=3, resources=(("licenses", 2),)), "job 1 does not fit on the nodes"),
        (Request(partition="slow"), "job 1: partition: got 'slow', expected one of: fast"),
        (
            Request(gpus=1, gpu_models=("H100",)),
            "job 1: gpu_models: got H100, expected some of: A, B",
        ),
        (
            Request(resources=(("tokens", 1),)),
            "job 1: resources: got 'tokens', expected some of: cores, memory, licenses",
        ),
    ],
)
def test_jobs_that_can_never_start(request_: Request, message: str) -> None:
    jobs = [Job.of_tasks(1, 0.0, request_, 10.0, 5.0)]
    with pytest.raises(WorkloadError, match=message):
        simulate(BatchCluster(jobs, nodes=NODES), create("fcfs"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Node("a", 0), "node 'a': cores: got 0"),
        (lambda: Node("a", 4, memory=-1), "node 'a': memory: got -1"),
        (lambda: Node("a", 4, resources={"x": 0.5}), "node 'a': x: got 0.5"),  # type: ignore[dict-item]
        (lambda: BatchCluster([], nodes=[]), "nodes: got none"),
        (lambda: BatchCluster([], nodes=[Node("a", 1), Node("a", 2)]), "the name 'a' occurs twice"),
        (lambda: BatchCluster([], nodes=["a"]), "nodes: got 'a', expected Node objects"),  # type: ignore[list-item]
        (lambda: BatchCluster([], nodes=[Node("a", 1, resources={"memory": 2})]), "'memory' is a built-in resource"),
        (lambda: BatchCluster([], 4, nodes=NODES), "nodes: got num_cores as well"),
        (lambda: BatchCluster([]), "give num_cores or nodes"),
        (lambda: BatchCluster([], 4, placement="best-fit"), "placement: needs nodes"),
        (lambda: BatchCluster([], nodes=NODES, placement="tight"), "tight"),
    ],
)
def test_clusters_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make()


class Oldest:
    """Answers what it is given, and then the row of the oldest job."""

    def __init__(self, first: Any = ()) -> None:
        self.first = list(first)

    def act(self, observation: Any) -> Any:
        return self.first.pop() if self.first else int(observation.queue.row[0])


class Chosen(PlacementPolicy):
    """Names some nodes, and a GPU, whatever has room."""

    name = "chosen"

    def __init__(self, nodes: list[int], gpu: int = 0) -> None:
        self.nodes, self.gpu = nodes, gpu

    def order(self, room: Any, shape: Any, nodes: Any) -> Any:
        return iter(self.nodes)

    def device(self, room: Any, shape: Any, node: int, free: Any) -> int:
        return self.gpu


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Chosen([1]), "names too few nodes, 2 of 6 tasks have no node"),
        (Chosen([]), "names too few nodes, 6 of 6 tasks have no node"),
        (Chosen([0, 0]), "names node 0 twice"),
        (Chosen([2, 0]), "names node 2, which has no room for a task"),
        (Chosen([-1, 0]), "names node -1, which has no room for a task"),
        (Chosen([0, 7]), "names node 7, which has no room for a task"),
    ],
)
def test_placements_that_name_nodes_as_they_should_not(policy: PlacementPolicy, message: str) -> None:
    nodes = [Node("a", 4), Node("b", 4), Node("c", 1)]
    jobs = [Job.of_tasks(3, 0.0, Request(1, 1), 5.0, 5.0), Job.of_tasks(7, 1.0, Request(6, 1), 9.0, 9.0)]
    first = [StartOnNodes(0, (NodeAllocation(2, 1, (1, 0), ()),))]
    with pytest.raises(InvalidConfiguration, match=f"job 7: placement 'chosen' {message}"):
        simulate(BatchCluster(jobs, nodes=nodes, placement=policy), Oldest(first))


@pytest.mark.parametrize("agent", ["fcfs", "backfilling-fcfs", "easy-fcfs", "conservative-fcfs"])
def test_agents_name_the_job_whose_placement_fails(agent: str) -> None:
    job = Job.of_tasks(7, 0.0, Request(6, 1), 9.0, 9.0)
    with pytest.raises(InvalidConfiguration, match="job 7: placement 'chosen' names too few nodes, 2 of 6 tasks"):
        simulate(BatchCluster([job], nodes=Node.several(2, 4), placement=Chosen([1])), create(agent))


def test_a_policy_chooses_gpus_on_recorded_nodes_before_it_has_chosen_any_node() -> None:
    job = Job.of_tasks(7, 0.0, Request(2, 1, gpus=0.5), 9.0, 9.0)
    policy = FragmentationGradient(typical_requests([job.request]))
    cluster = BatchCluster([job], nodes=Node.several(2, 4, gpus=2), placement=policy)
    result = simulate(cluster, TraceReplay({7: 0.0}, name="log", nodes={7: [("n1", 2)]}))
    assert result.table("placements").select("node", "tasks", "gpus").rows() == [(1, 2, "0:1000")]


def test_placements_that_name_a_gpu_without_room() -> None:
    nodes = [Node("a", 4, gpus=2)]
    job = Job.of_tasks(7, 0.0, Request(2, 1, gpus=0.6), 9.0, 9.0)
    for gpu in (0, 2, -1):
        with pytest.raises(InvalidConfiguration, match=rf"job 7: placement 'chosen' names GPU {gpu} of node 0, which"):
            simulate(BatchCluster([job], nodes=nodes, placement=Chosen([0], gpu)), Oldest())


class Derived(BatchCluster):
    """Knows what it has started."""

    def begin(self) -> None:
        self.started: list[int] = []
        super().begin()

    def _start(self, job: Job, row: int, cores: int) -> None:
        self.started.append(job.job_id)
        super()._start(job, row, cores)


class DerivedWithNodes(Derived):
    """Has nodes that nobody gives it."""

    def __init__(self, jobs: list[Job]) -> None:
        super().__init__(jobs, nodes=[Node("a", 4, 3), Node("b", 4, 3)])


@pytest.mark.parametrize("own", [False, True])
def test_derived_classes_have_nodes_as_well(own: bool) -> None:
    jobs: list[Job] = [
        Job.of_tasks(1, 0.0, Request(2, 2, 3), 5.0, 5.0),
        Job.of_tasks(2, 0.0, Request(1, 1, 3), 5.0, 5.0),
    ]
    nodes = [Node("a", 4, 3), Node("b", 4, 3)]  # memory for one task each
    cluster = DerivedWithNodes(jobs) if own else Derived(jobs, nodes=nodes)
    for each in (cluster, copy.copy(cluster), copy.deepcopy(cluster), pickle.loads(pickle.dumps(cluster))):
        assert type(each) is type(cluster)
        agent, simulation = create("fcfs"), Simulation(each)
        while (decision := simulation.advance()) is not None:
            decision.answer(agent.act(decision.observation))
        assert simulation.problem.started == [1, 2]
        result = simulation.finish()
        assert result.jobs["starting_time"].to_list() == [0.0, 5.0]
        assert result.info["num_nodes"] == 2
        assert validate(result, jobs).ok
    with pytest.raises(InvalidConfiguration, match="nodes: got num_cores as well"):
        Derived(jobs, 4, nodes=nodes)


def test_a_job_made_without_its_request_is_one_of_single_cores() -> None:
    made = [Job(1, 0.0, 2, 5.0, 5.0), Job(2, 1.0, 3, 5.0, 5.0)]
    stated = [Job.of_tasks(job.job_id, job.submission_time, Request(job.requested_cores), 5.0, 5.0) for job in made]
    assert [job[:6] for job in made] == [job[:6] for job in stated]
    results = []
    for jobs in (made, stated):
        simulation = Simulation(BatchCluster(jobs, nodes=Node.several(2, 2)))
        decision = simulation.advance()
        copy = simulation.fork(foresight=False)
        while decision is not None:
            decision.answer(create("fcfs").act(decision.observation))
            decision = simulation.advance()
        assert copy.advance() is not None
        results.append(simulation.finish())
        assert validate(results[-1], jobs).ok
    assert results[0].jobs.equals(results[1].jobs)
    assert results[0].table("placements").equals(results[1].table("placements"))
