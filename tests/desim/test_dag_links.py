"""Transfers that share links in a cluster of DAG jobs."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import networkx as nx
import numpy as np
import pytest

from desim import InvalidConfiguration, Result, simulate
from desim.agents.dag import EFT, FIFO, HEFT, HRRN, CriticalPath, InsertionEFT, ListScheduler, RankUp
from desim.problems.dag import Assign, DagCluster, DagObservation, Executors, Job, SharedLinks
from desim.processes import Outage, planned_outages, random_outages

INF = math.inf
SCHEDULE = ("job_id", "node", "executor", "duplicate", "starting_time", "finish_time", "outcome")


class Script:
    """Gives answers one after the other, as soon as the cluster asks."""

    name = "script"

    def __init__(self, *answers: Assign | list[Assign] | None) -> None:
        self.answers = list(answers)

    def act(self, observation: DagObservation) -> Any:
        return self.answers.pop(0) if self.answers else None


def run(job: Job, links: SharedLinks, *answers: Any, executors: Executors | None = None, **options: Any) -> Result:
    """Run a job whose nodes are assigned as told, at once unless a process makes the cluster ask again."""
    executors = executors or Executors([1.0] * links.num_executors)
    options = {"plan_ahead": True, "transfers": "when_assigned", **options}
    return simulate(DagCluster([job], executors, links=links, **options), Script(*answers))


def assign(*places: tuple[int, int]) -> list[Assign]:
    return [Assign(1, node, executor) for node, executor in places]


def inputs(result: Result) -> list[tuple[int, int, int, float, float]]:
    """Return parent, child, source, begin and arrival of all transfers."""
    return result.table("transfers").select("parent", "child", "source", "starting_time", "arrival_time").rows()


def two_parents(*sizes: float) -> Job:
    return Job(1, [1.0, 1.0, 1.0], [(0, 2, sizes[0]), (1, 2, sizes[1])])


# -- what follows from the model by hand --------------------------------------------------------------


def test_two_transfers_share_a_bus() -> None:
    result = run(two_parents(10, 10), SharedLinks.bus(3, 1.0), assign((0, 0), (1, 1), (2, 2)))
    assert inputs(result) == [(0, 2, 0, 1, 21), (1, 2, 1, 1, 21)]
    assert result.jobs["finish_time"].to_list() == [22]


def test_the_longer_one_has_the_bus_to_itself_in_the_end() -> None:
    result = run(two_parents(10, 4), SharedLinks.bus(3, 1.0), assign((0, 0), (1, 1), (2, 2)))
    assert inputs(result) == [(0, 2, 0, 1, 15), (1, 2, 1, 1, 9)]


def test_the_speed_of_the_pair_limits_a_transfer_too() -> None:
    executors = Executors([1.0] * 3, [[1, 1, 0.25], [1, 1, 10], [1, 1, 1]], latency=[[0, 0, 0], [0, 0, 2], [0, 0, 0]])
    result = run(two_parents(1, 3), SharedLinks.bus(3, 1.0), assign((0, 0), (1, 1), (2, 2)), executors=executors)
    assert inputs(result) == [(0, 2, 0, 1, 5), (1, 2, 1, 1, 6.5)]  # 1.5 units by 5, then 1.5 more


def test_the_downlink_of_the_receiver_is_shared_and_uplinks_are_not() -> None:
    result = run(two_parents(10, 10), SharedLinks.star([5, 5, 5], [5, 5, 1]), assign((0, 0), (1, 1), (2, 2)))
    assert [row[-1] for row in inputs(result)] == [21, 21]


def test_the_uplink_of_a_sender_is_shared() -> None:
    job = Job(1, [1.0, 1.0, 1.0], [(0, 1, 10), (0, 2, 10)])
    result = run(job, SharedLinks.star([1, 1, 1], [9, 9, 9]), assign((0, 0), (1, 1), (2, 2)))
    assert [row[-1] for row in inputs(result)] == [21, 21]


def test_racks_share_what_connects_them() -> None:
    job = Job(1, [1.0] * 6, [(0, 3, 10), (1, 4, 10), (2, 5, 10), (0, 4, 0), (0, 5, 0)])
    places = assign((0, 0), (1, 1), (2, 2), (3, 1), (4, 3), (5, 4))
    result = run(job, SharedLinks.racks([3, 2], 1.0), places)
    arrival = {row[:2]: row[-1] for row in inputs(result)}
    assert (arrival[0, 3], arrival[1, 4], arrival[2, 5]) == (1, 21, 21)
    within = run(job, SharedLinks.racks([3, 2], 1.0, within=2.0), places)
    assert {row[:2]: row[-1] for row in inputs(within)}[0, 3] == 6


def test_data_move_while_the_executor_computes() -> None:
    job = Job(1, [1.0, 8.0, 1.0, 1.0], [(0, 2, 5), (1, 3, 0), (2, 3, 0)])
    result = run(job, SharedLinks.bus(2, 1.0), assign((0, 0), (1, 1), (2, 1), (3, 1)))
    assert inputs(result)[0] == (0, 2, 0, 1, 6)
    assert result.table("copies").filter(node=2)["starting_time"].to_list() == [8]


def test_data_do_not_set_out_before_the_node_is_assigned() -> None:
    job = Job(1, [1.0, 4.0, 1.0], [(0, 2, 5), (1, 2, 0)])
    result = run(job, SharedLinks.bus(2, 1.0), assign((0, 0), (1, 1)), [Assign(1, 2, 1)], plan_ahead=False)
    assert inputs(result) == [(0, 2, 0, 4, 9), (1, 2, 1, 4, 4)]


def test_a_copy_waits_for_its_parent_ahead_in_its_own_queue() -> None:
    # Node 0 finishes on executor 0 at 1, its duplicate on executor 1 at 1 + 3 = 4; the transfer would take 100.
    job = Job(1, [1.0, 1.0], [(0, 1, 100)])
    executors = Executors([1.0, 1 / 3])
    answers = [Assign(1, 0, 0), Assign(1, 1, 1, duplicates=(0,))]
    result = run(job, SharedLinks.bus(2, 1.0), answers, executors=executors)
    assert inputs(result) == [(0, 1, 1, 3, 3)]


def test_data_that_are_there_need_not_be_sent_further() -> None:
    # Node 1 is assigned first and its data are under way; then a copy of node 0 gets in front of it.
    job = Job(1, [1.0, 1.0, 2.0, 2.0], [(0, 1, 50), (2, 3, 0), (0, 3, 0), (1, 3, 0)])
    answers = ([*assign((0, 0), (1, 1), (2, 0))], None, [Assign(1, 0, 1, position=0), Assign(1, 3, 0)])
    result = run(job, SharedLinks.bus(2, 1.0), *answers, executors=Executors([1.0, 1.0], 1.0))
    assert {row[:2]: row[2:] for row in inputs(result)}[0, 1] == (1, 2, 2)
    assert result.table("copies").select("node", "executor", "starting_time", "duplicate").rows() == [
        (0, 0, 0, False),
        (0, 1, 1, True),
        (2, 0, 1, False),
        (1, 1, 2, False),
        (3, 0, 3, False),
    ]


def test_a_transfer_that_is_broken_off_frees_the_links() -> None:
    # As above, with node 2 on executor 2 that waits for as much of node 0: at 0.5 from 1 to 2, then at full speed.
    job = Job(1, [1.0, 1.0, 1.0, 2.0, 2.0], [(0, 1, 50), (0, 2, 50), (3, 4, 0), (0, 4, 0), (1, 4, 0)])
    answers = ([*assign((0, 0), (1, 1), (2, 2), (3, 0))], None, [Assign(1, 0, 1, position=0), Assign(1, 4, 0)])
    result = run(job, SharedLinks.bus(3, 1.0), *answers, executors=Executors([1.0] * 3, 1.0))
    assert {row[:2]: row[2:] for row in inputs(result)}[0, 2] == (0, 1, 51.5)


def test_a_transfer_alone_begins_and_arrives_at_exact_times_however_the_clock_is_rounded() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        first, second, size, speed = rng.exponential([1.0, 30.0, 10.0, 3.0]).tolist()
        job = Job(1, [first, second, 1.0], [(0, 1, 0.0), (1, 2, size)])
        executors = Executors([1.0, 1.0], speed)
        result = run(job, SharedLinks.bus(2, INF), assign((0, 0), (1, 0), (2, 1)), executors=executors)
        finish = first + second
        assert inputs(result)[-1] == (1, 2, 0, finish, finish + size * (1 / speed))


def test_the_nominally_fastest_of_the_finished_copies_is_the_source() -> None:
    job = Job(1, [1.0, 6.0, 1.0], [(0, 2, 10), (1, 2, 0)])
    executors = Executors([1.0] * 3, [[1, 1, 1], [1, 1, 2], [1, 1, 1]])
    first = [Assign(1, 0, 0), Assign(1, 0, 1), Assign(1, 1, 0)]
    result = run(job, SharedLinks.bus(3, 9.0), first, [Assign(1, 2, 2)], executors=executors, plan_ahead=False)
    assert inputs(result)[0] == (0, 2, 1, 7, 12)


def test_expected_times_leave_contention_out_and_are_never_in_the_past() -> None:
    jobs = [random_job(number, 30, np.random.default_rng(number)) for number in range(3)]
    agent = Watcher(ListScheduler(RankUp(), EFT()))
    cluster = DagCluster(
        jobs,
        Executors([1.0, 2.0, 1.5], 1.0),
        links=SharedLinks.bus(3, 0.4),
        transfers="when_assigned",
        plan_ahead=False,
    )
    result = simulate(cluster, agent)
    assert agent.asked > 50 and agent.late > 0
    copies = result.table("copies")
    assert (copies["outcome"] == "completed").all()


class Watcher:
    """Looks at what is expected before it lets another agent answer."""

    name = "watcher"

    def __init__(self, agent: ListScheduler) -> None:
        self.agent = agent
        self.asked = 0
        self.late = 0
        self.expected: dict[Any, float] = {}

    def reset(self, info: Any, rng: Any) -> None:
        self.agent.reset(info, rng)

    def act(self, observation: DagObservation) -> Any:
        self.asked += 1
        now = observation.time
        assert (observation.available_times >= now).all()
        for executor, table in observation.timetables.items():
            time = now if table.running is None else table.running.finish
            for copy in table.waiting:
                assert copy.start >= max(time, now)
                time = copy.finish
                self.late += copy.start > self.expected.setdefault(copy, copy.start)
            assert observation.available_times[executor] == max(time, now)
        return self.agent.act(observation)


# -- outages ------------------------------------------------------------------------------------------


def outage(start: float, end: float, *executors: int) -> Any:
    return planned_outages([Outage(start, end, sum(1 << executor for executor in executors))])


def test_a_transfer_from_an_executor_that_fails_is_lost_and_the_parent_runs_again() -> None:
    job = Job(1, [1.0, 1.0], [(0, 1, 10)])
    answers = (assign((0, 0), (1, 1)), assign((0, 2), (1, 1)))
    result = run(job, SharedLinks.bus(3, 1.0), *answers, processes=[outage(4, 5, 0)])
    assert result.table("copies").select("node", "executor", "starting_time", "outcome").rows() == [
        (0, 0, 0, "completed"),
        (1, 1, None, "withdrawn"),
        (0, 2, 4, "completed"),
        (1, 1, 15, "completed"),
    ]
    assert inputs(result) == [(0, 1, 2, 5, 15)]


def test_it_goes_on_if_outages_lose_no_data() -> None:
    job = Job(1, [1.0, 1.0], [(0, 1, 10)])
    result = run(
        job, SharedLinks.bus(3, 1.0), assign((0, 0), (1, 1)), processes=[outage(4, 5, 0)], outages_lose_data=False
    )
    assert inputs(result) == [(0, 1, 0, 1, 11)]


def test_another_copy_takes_over_from_the_beginning() -> None:
    job = Job(1, [1.0, 1.0], [(0, 1, 10)])
    answers = [Assign(1, 0, 0), Assign(1, 0, 2), Assign(1, 1, 1)]
    result = run(job, SharedLinks.bus(3, 1.0), answers, processes=[outage(4, 5, 0)])
    assert inputs(result) == [(0, 1, 2, 4, 14)]


def test_so_it_does_when_it_finishes_later() -> None:
    job = Job(1, [1.0, 1.0], [(0, 1, 10)])
    answers = [Assign(1, 0, 0), Assign(1, 0, 2), Assign(1, 1, 1)]
    executors = Executors([1.0, 1.0, 1 / 6])
    result = run(job, SharedLinks.bus(3, 1.0), answers, executors=executors, processes=[outage(4, 5, 0)])
    assert inputs(result) == [(0, 1, 2, 6, 16)]


def test_a_transfer_to_an_executor_that_fails_frees_the_links() -> None:
    job = Job(1, [1.0, 1.0, 1.0], [(0, 1, 10), (0, 2, 10)])
    answers = (assign((0, 0), (1, 1), (2, 2)), assign((1, 0)))
    result = run(job, SharedLinks.bus(3, 1.0), *answers, processes=[outage(5, 6, 1)])
    assert inputs(result) == [(0, 1, 0, 1, 1), (0, 2, 0, 1, 13)]


def test_what_counted_on_a_withdrawn_duplicate_gets_its_data_elsewhere() -> None:
    # Node 2 waits on executor 1 for the duplicate of node 1 before it, whose own data are lost on their way from
    # executor 2 at 4. Node 1 has finished on executor 0: its data set out then, instead of being computed again.
    job = Job(1, [1.0, 1.0, 1.0], [(0, 1, 20), (1, 2, 10)])
    speeds = [[1.0, 0.1, 1.0], [1.0, 1.0, 1.0], [1e9, 1.0, 1.0]]
    answers = [Assign(1, 0, 2), Assign(1, 1, 0), Assign(1, 2, 1, duplicates=(1,))]
    result = run(
        job, SharedLinks.bus(3, 1e9), answers, executors=Executors([1.0] * 3, speeds), processes=[outage(4, 5, 2)]
    )
    assert result.table("copies").select("node", "executor", "starting_time", "outcome").rows() == [
        (0, 2, 0, "completed"),
        (1, 0, pytest.approx(1, abs=1e-7), "completed"),
        (1, 1, None, "withdrawn"),
        (2, 1, 104, "completed"),
    ]
    assert inputs(result)[-1] == (1, 2, 0, 4, 104)


# -- whole runs ---------------------------------------------------------------------------------------


def random_job(job_id: int, num_nodes: int, rng: np.random.Generator, time: float = 0.0, size: float = 10.0) -> Job:
    edges = [
        (int(parent), child, float(rng.exponential(size)))
        for child in range(1, num_nodes)
        for parent in rng.choice(child, size=min(child, int(rng.integers(1, 4))), replace=False)
    ]
    return Job(job_id, rng.exponential(10, num_nodes), edges, submission_time=time)


def scenario(seed: int) -> tuple[list[Job], Executors]:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 6))
    times = np.cumsum(rng.exponential(30, 3)).tolist()
    jobs = [random_job(number, int(rng.integers(1, 20)), rng, time) for number, time in enumerate(times)]
    return jobs, Executors(rng.integers(1, 4, count), rng.integers(1, 5, (count, count)), rng.choice([0.0, 0.5]))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("plan_ahead", [False, True])
def test_links_that_never_limit_change_nothing(seed: int, plan_ahead: bool) -> None:
    jobs, executors = scenario(seed + 100)
    links = SharedLinks.star([INF] * executors.num_executors)
    agents = [
        ListScheduler(RankUp(), EFT()),
        ListScheduler(CriticalPath(), InsertionEFT()),
        ListScheduler(HRRN(), EFT()),
        *([HEFT()] if plan_ahead else []),
    ]
    for agent in agents:
        for processes in ([], [random_outages(200.0, 20.0)]):
            runs = [
                simulate(
                    DagCluster(
                        jobs,
                        executors,
                        plan_ahead=plan_ahead,
                        transfers="when_assigned",
                        links=given,
                        processes=processes,
                    ),
                    agent,
                    seed=seed,
                    until=3000.0,
                )
                for given in (None, links)
            ]
            # To the last bit; rows of one instant may be in another order.
            one, other = (result.table("copies").select(SCHEDULE).sort(SCHEDULE) for result in runs)
            assert one.equals(other)


@pytest.mark.parametrize("seed", range(3))
def test_nor_with_duplicates_where_all_pairs_are_equally_fast(seed: int) -> None:
    # With pairs of different speeds, a copy that finishes later may deliver first; with links, it is not waited for.
    jobs, executors = scenario(seed + 200)
    executors = Executors(executors.speeds, 0.5)
    links = SharedLinks.bus(executors.num_executors, INF)
    for plan_ahead in (False, True):
        for order in (RankUp(), FIFO()):
            one, other = (
                simulate(
                    DagCluster(jobs, executors, plan_ahead=plan_ahead, transfers="when_assigned", links=given),
                    ListScheduler(order),
                )
                .table("copies")
                .select(SCHEDULE)
                .sort(SCHEDULE)
                for given in (None, links)
            )
            assert one.equals(other)
            assert one.height > 0


# -- configuration ------------------------------------------------------------------------------------


def test_routes_of_the_usual_networks() -> None:
    assert SharedLinks.bus(2, 3.0).routes == (((), (0,)), ((0,), ()))
    star = SharedLinks.star([1, 2, 3], [4, 5, 6])
    assert star.bandwidths.tolist() == [1, 2, 3, 4, 5, 6] and star.routes[0][2] == (0, 5)
    assert star.names == tuple(f"executor{k} {way}" for way in ("up", "down") for k in range(3))
    racks = SharedLinks.racks([1, 2], 7.0, within=9.0)
    assert racks.bandwidths.tolist() == [7, 7, 7, 7, 9, 9]
    assert racks.routes == (((), (0, 3), (0, 3)), ((1, 2), (), (5,)), ((1, 2), (5,), ()))
    assert repr(racks) == "SharedLinks(6 links between 3 executors)"


def tree() -> nx.Graph:
    graph = nx.Graph()
    graph.add_edge("core", "left", bandwidth=4.0)
    graph.add_edge("core", "right", bandwidth=3.0)
    for name, router in (("a", "left"), ("b", "left"), ("c", "right")):
        graph.add_edge(router, name, bandwidth=1.0)
    return graph


def test_a_network_of_routers() -> None:
    links = SharedLinks.from_networkx(tree(), ["a", "b", "c"])
    names = [[[links.names[link] for link in route] for route in row] for row in links.routes]
    assert names[0] == [[], ["left - a", "left - b"], ["left - a", "core - left", "core - right", "right - c"]]
    assert names[2][0] == names[0][2][::-1]
    assert links.bandwidths[links.names.index("core - right")] == 3.0


def test_directions_are_links_of_their_own_in_a_directed_graph() -> None:
    links = SharedLinks.from_networkx(tree().to_directed(), ["a", "c"])
    assert not set(links.routes[0][1]) & set(links.routes[1][0])
    assert links.num_links == 10


def test_a_weight_decides_which_path_is_short() -> None:
    graph = tree()
    graph.add_edge("a", "c", bandwidth=0.1, cost=10)
    for edge in list(graph.edges)[:-1]:
        graph.edges[edge].setdefault("cost", 1)
    assert [len(SharedLinks.from_networkx(graph, ["a", "c"], weight=key).routes[0][1]) for key in (None, "cost")] == [
        1,
        4,
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda graph: graph.add_edge("core", "x"), "the edge 'core' - 'x' has no bandwidth"),
        (lambda graph: graph.add_edge("core", "x", bandwidth=0), "bandwidth of core - x is 0.0, want"),
        (lambda graph: graph.remove_edge("core", "left"), "there is no path from 'a' to 'c'"),
        (lambda graph: graph.remove_node("c"), "executor 'c' is not in the graph"),
    ],
)
def test_networks_that_make_no_sense(change: Any, message: str) -> None:
    graph = tree()
    change(graph)
    with pytest.raises(InvalidConfiguration, match=re.escape(message)):
        SharedLinks.from_networkx(graph, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0]], []), "bandwidths has shape (1, 1)"),
        (([1.0, -1.0], [[()]]), "bandwidth of link1 is -1.0"),
        (([1.0], []), "there are no routes"),
        (([1.0], [[(), (0,)], [()]]), "executor 1 has routes to 1 executors, there are 2"),
        (([1.0], [[(), (0,)], [(3,), ()]]), "the route from executor 1 to 0 is (3,), want different links of 1"),
    ],
)
def test_links_that_make_no_sense(arguments: tuple[Any, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=re.escape(message)):
        SharedLinks(*arguments)


def test_uplinks_without_downlinks() -> None:
    with pytest.raises(InvalidConfiguration, match="there are 2 uplinks and 1 downlinks"):
        SharedLinks.star([1, 2], [3])


def test_a_cluster_refuses_links_that_do_not_fit() -> None:
    executors = Executors([1.0, 1.0])
    with pytest.raises(InvalidConfiguration, match="transfers is 'when_finished', want 'when_assigned' with links"):
        DagCluster([], executors, links=SharedLinks.bus(2, 1.0))
    with pytest.raises(InvalidConfiguration, match="the links are for 3 executors, there are 2"):
        DagCluster([], executors, links=SharedLinks.bus(3, 1.0), transfers="when_assigned")


def test_the_description_says_what_the_links_are_in_plain_values() -> None:
    result = run(two_parents(1, 1), SharedLinks.star([1.0, INF, 1.0]), assign((0, 0), (1, 1), (2, 2)))
    description = json.loads(json.dumps(result.info["links"], allow_nan=False))
    assert description["bandwidths"] == [1.0, None, 1.0] * 2
    assert description["routes"][0][2] == [0, 5]
    assert DagCluster([], Executors([1.0])).describe()["links"] is None
