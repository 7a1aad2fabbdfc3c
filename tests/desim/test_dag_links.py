"""Transfers that share links in a cluster of DAG jobs."""

from __future__ import annotations

import json
import math
import pickle
import re
from collections.abc import Callable
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import polars as pl
import pytest
from dag_scripts import Script, assign, outage

from desim import InvalidConfiguration, Result, simulate
from desim.agents.dag import EFT, FIFO, HEFT, HRRN, CriticalPath, InsertionEFT, ListScheduler, RankUp
from desim.plotting import dag_drawing
from desim.problems.dag import Assign, DagCluster, DagObservation, Executors, Job, SharedLinks
from desim.problems.dag.figures import WORDS
from desim.processes import random_outages
from desim.validation import validate
from tests.properties.dag_reference import random_scenario

INF = math.inf
BUS = SharedLinks.bus(3, 1.0)
SCHEDULE = ("job_id", "node", "executor", "duplicate", "starting_time", "finish_time", "outcome")


def run(job: Job, links: SharedLinks, *answers: Any, executors: Executors | None = None, **options: Any) -> Result:
    """Run a job whose nodes are assigned as told, at once unless a process makes the cluster ask again."""
    executors = executors or Executors([1.0] * links.num_executors)
    options = {"plan_ahead": True, "transfers": "when_assigned", **options}
    return simulate(DagCluster([job], executors, links=links, **options), Script(*answers))


def inputs(result: Result) -> list[tuple[int, int, int, float, float]]:
    """Return parent, child, source, begin and arrival of all transfers."""
    return result.table("transfers").select("parent", "child", "source", "starting_time", "arrival_time").rows()


def starts(result: Result) -> list[tuple[Any, ...]]:
    return result.table("copies").select("node", "executor", "starting_time", "outcome").rows()


def job(*edges: tuple[int, int, float], work: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Job:
    return Job(1, work, edges)


# -- what follows from the model by hand --------------------------------------------------------------

TWO_PARENTS = job((0, 2, 10), (1, 2, 10))
APART = assign((0, 0), (1, 1), (2, 2))
SLOW_PAIR = Executors([1.0] * 3, [[1, 1, 0.25], [1, 1, 10], [1, 1, 1]], latency=[[0, 0, 0], [0, 0, 2], [0, 0, 0]])
KNOWN: dict[str, tuple[Job, SharedLinks, list[Any], dict[str, Any], list[tuple[int, int, int, float, float]]]] = {
    "two transfers share a bus": (TWO_PARENTS, BUS, [APART], {}, [(0, 2, 0, 1, 21), (1, 2, 1, 1, 21)]),
    "the longer one has the bus to itself in the end": (
        *(job((0, 2, 10), (1, 2, 4)), BUS, [APART], {}),
        [(0, 2, 0, 1, 15), (1, 2, 1, 1, 9)],
    ),
    "the speed of the pair limits, too: 1.5 units by 5, then 1.5 more": (
        *(job((0, 2, 1), (1, 2, 3)), BUS, [APART], {"executors": SLOW_PAIR}),
        [(0, 2, 0, 1, 5), (1, 2, 1, 1, 6.5)],
    ),
    "the downlink of a receiver is shared": (
        *(TWO_PARENTS, SharedLinks.star([5, 5, 5], [5, 5, 1]), [APART], {}),
        [(0, 2, 0, 1, 21), (1, 2, 1, 1, 21)],
    ),
    "the uplink of a sender is shared": (
        *(job((0, 1, 10), (0, 2, 10)), SharedLinks.star([1, 1, 1], [9, 9, 9]), [APART], {}),
        [(0, 1, 0, 1, 21), (0, 2, 0, 1, 21)],
    ),
    "data move while the executor computes": (
        *(job((0, 2, 5), (1, 3, 0), (2, 3, 0), work=(1, 8, 1, 1)), SharedLinks.bus(2, 1.0)),
        *([assign((0, 0), (1, 1), (2, 1), (3, 1))], {}),
        [(0, 2, 0, 1, 6), (1, 3, 1, 8, 8), (2, 3, 1, 9, 9)],
    ),
    "data do not set out before the node is assigned": (
        *(job((0, 2, 5), (1, 2, 0), work=(1, 4, 1)), SharedLinks.bus(2, 1.0)),
        *([assign((0, 0), (1, 1)), [Assign(1, 2, 1)]], {"plan_ahead": False}),
        [(0, 2, 0, 4, 9), (1, 2, 1, 4, 4)],
    ),
    "a copy waits for its parent ahead in its own queue": (
        *(job((0, 1, 100), work=(1, 1)), SharedLinks.bus(2, 1.0)),
        *([[Assign(1, 0, 0), Assign(1, 1, 1, duplicates=(0,))]], {"executors": Executors([1.0, 1 / 3])}),
        [(0, 1, 1, 3, 3)],
    ),
    "the nominally fastest of the finished copies is the source": (
        *(job((0, 2, 10), (1, 2, 0), work=(1, 6, 1)), SharedLinks.bus(3, 9.0)),
        [[Assign(1, 0, 0), Assign(1, 0, 1), Assign(1, 1, 0)], [Assign(1, 2, 2)]],
        {"executors": Executors([1.0] * 3, [[1, 1, 1], [1, 1, 2], [1, 1, 1]]), "plan_ahead": False},
        [(0, 2, 1, 7, 12), (1, 2, 0, 7, 7)],
    ),
    "a transfer from an executor that fails is lost and the parent runs again": (
        *(job((0, 1, 10), work=(1, 1)), BUS, [assign((0, 0), (1, 1)), assign((0, 2), (1, 1))]),
        {"processes": [outage(4, 5, 0)]},
        [(0, 1, 2, 5, 15)],
    ),
    "it goes on if outages lose no data": (
        *(job((0, 1, 10), work=(1, 1)), BUS, [assign((0, 0), (1, 1))]),
        {"processes": [outage(4, 5, 0)], "outages_lose_data": False},
        [(0, 1, 0, 1, 11)],
    ),
    "another copy takes over from the beginning": (
        *(job((0, 1, 10), work=(1, 1)), BUS, [[Assign(1, 0, 0), Assign(1, 0, 2), Assign(1, 1, 1)]]),
        {"processes": [outage(4, 5, 0)]},
        [(0, 1, 2, 4, 14)],
    ),
    "so it does when it finishes later": (
        *(job((0, 1, 10), work=(1, 1)), BUS, [[Assign(1, 0, 0), Assign(1, 0, 2), Assign(1, 1, 1)]]),
        {"processes": [outage(4, 5, 0)], "executors": Executors([1.0, 1.0, 1 / 6])},
        [(0, 1, 2, 6, 16)],
    ),
    "a transfer to an executor that fails frees the links": (
        *(job((0, 1, 10), (0, 2, 10)), BUS, [APART, assign((1, 0))]),
        {"processes": [outage(5, 6, 1)]},
        [(0, 1, 0, 1, 1), (0, 2, 0, 1, 13)],
    ),
}


@pytest.mark.parametrize("what", KNOWN)
def test_transfers_worked_out_by_hand(what: str) -> None:
    job, links, answers, options, expected = KNOWN[what]
    assert inputs(run(job, links, *answers, **options)) == expected


def test_racks_share_what_connects_them() -> None:
    edges = (0, 3, 10), (1, 4, 10), (2, 5, 10), (0, 4, 0), (0, 5, 0)
    places = assign((0, 0), (1, 1), (2, 2), (3, 1), (4, 3), (5, 4))
    for within, first in ((INF, 1), (2.0, 6)):
        result = run(job(*edges, work=(1.0,) * 6), SharedLinks.racks([3, 2], 1.0, within=within), places)
        arrival = {row[:2]: row[-1] for row in inputs(result)}
        assert (arrival[0, 3], arrival[1, 4], arrival[2, 5]) == (first, 21, 21)


@pytest.mark.parametrize("others", [0, 1])
def test_data_that_are_there_need_not_be_sent_further_and_their_transfer_frees_the_links(others: int) -> None:
    # Node 1 is assigned first and its data are under way; then a copy of node 0 gets in front of it. If another node on
    # executor 2 waits for as much of node 0, that has half of the bus from 1 to 2, then all of it.
    edges = [(0, 1, 50), *([(0, 4, 50)] * others), (2, 3, 0), (0, 3, 0), (1, 3, 0)]
    graph = job(*edges, work=(1.0, 1.0, 2.0, 2.0, *([1.0] * others)))
    nodes = {int(name.removeprefix("node")): place for place, name in enumerate(graph.names)}
    first = [(nodes[node], executor) for node, executor in ((0, 0), (1, 1), *([(4, 2)] * others), (2, 0))]
    answers = assign(*first), None, [Assign(1, nodes[0], 1, position=0), Assign(1, nodes[3], 0)]
    result = run(graph, BUS, *answers, executors=Executors([1.0] * 3, 1.0))
    way = {row[:2]: row[2:] for row in inputs(result)}
    assert way[nodes[0], nodes[1]] == (1, 2, 2)
    if others:
        assert way[nodes[0], nodes[4]] == (0, 1, 51.5)


def test_what_counted_on_a_withdrawn_duplicate_gets_its_data_elsewhere() -> None:
    # Node 2 waits on executor 1 for the duplicate of node 1 before it, whose own data are lost on their way from
    # executor 2 at 4. Node 1 has finished on executor 0: its data set out then, instead of being computed again.
    speeds = [[1.0, 0.1, 1.0], [1.0, 1.0, 1.0], [1e9, 1.0, 1.0]]
    answers = [Assign(1, 0, 2), Assign(1, 1, 0), Assign(1, 2, 1, duplicates=(1,))]
    options = {"executors": Executors([1.0] * 3, speeds), "processes": [outage(4, 5, 2)]}
    result = run(job((0, 1, 20), (1, 2, 10)), SharedLinks.bus(3, 1e9), answers, **options)
    assert starts(result) == [
        (0, 2, 0, "completed"),
        (1, 0, pytest.approx(1, abs=1e-7), "completed"),
        (1, 1, None, "withdrawn"),
        (2, 1, 104, "completed"),
    ]
    assert inputs(result)[-1] == (1, 2, 0, 4, 104)


def test_a_transfer_alone_begins_and_arrives_at_exact_times_however_the_clock_is_rounded() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        first, second, size, speed = rng.exponential([1.0, 30.0, 10.0, 3.0]).tolist()
        executors = Executors([1.0, 1.0], speed)
        graph = job((0, 1, 0.0), (1, 2, size), work=(first, second, 1.0))
        result = run(graph, SharedLinks.bus(2, INF), assign((0, 0), (1, 0), (2, 1)), executors=executors)
        finish = first + second
        assert inputs(result)[-1] == (1, 2, 0, finish, finish + size * (1 / speed))


class Watcher:
    """Looks at what is expected before it lets another agent answer."""

    name = "watcher"

    def __init__(self) -> None:
        self.agent = ListScheduler(RankUp(), EFT())
        self.asked = self.late = 0
        self.expected: dict[Any, float] = {}

    def act(self, observation: DagObservation) -> Any:
        self.asked += 1
        now = observation.time
        for executor, table in observation.executor_queues.items():
            time = now if table.running is None else table.running.finish
            for copy in table.waiting:
                assert copy.start >= max(time, now)
                time = copy.finish
                self.late += copy.start > self.expected.setdefault(copy, copy.start)
            assert observation.available_times[executor] == max(time, now)
        return self.agent.act(observation)


def test_expected_times_leave_contention_out_and_are_never_in_the_past() -> None:
    asked = late = 0
    for seed in range(12):
        agent = Watcher()
        scenario = random_scenario(Random(seed), exact=False)._replace(when_finished=False, plan_ahead=False)
        result = simulate(scenario.cluster(links=SharedLinks.bus(len(scenario.speeds), 0.4)), agent)
        assert set(result.jobs["status"]) == {"completed"}
        asked, late = asked + agent.asked, late + agent.late
    assert asked > 50 and late > 0


AGENTS: dict[str, Callable[[], Any]] = {
    "rank-up-EFT": lambda: ListScheduler(RankUp(), EFT()),
    "critical path-insertion": lambda: ListScheduler(CriticalPath(), InsertionEFT()),
    "HRRN-EFT": lambda: ListScheduler(HRRN(), EFT()),
    "HEFT": HEFT,
    "FIFO-DEFT": lambda: ListScheduler(FIFO()),
}


@pytest.mark.parametrize("name", AGENTS)
def test_links_that_never_limit_change_nothing(name: str) -> None:
    """With duplicates only where all pairs are equally fast: else a copy that finishes later may deliver first."""
    duplicates = name == "FIFO-DEFT"
    for seed in range(6):
        scenario = random_scenario(Random(seed), alike=duplicates or None)
        scenario = scenario._replace(when_finished=False, plan_ahead=name == "HEFT" or seed % 2 == 0)
        links = SharedLinks.star([INF] * len(scenario.speeds))
        for processes in ([], [] if duplicates else [random_outages(200.0, 20.0)]):
            one, other = (
                simulate(scenario.cluster(links=given, processes=processes), AGENTS[name](), seed=seed, until=3000.0)
                .table("copies")
                .select(SCHEDULE)
                .sort(SCHEDULE)  # to the last bit; rows of one instant may be in another order
                for given in (None, links)
            )
            assert one.height > 0 and one.equals(other)


# -- configuration ------------------------------------------------------------------------------------


def tree() -> nx.Graph:
    graph = nx.Graph()
    graph.add_edge("core", "left", bandwidth=4.0)
    graph.add_edge("core", "right", bandwidth=3.0)
    for name, router in (("a", "left"), ("b", "left"), ("c", "right")):
        graph.add_edge(router, name, bandwidth=1.0)
    return graph


def test_routes_of_the_usual_networks_and_of_routers() -> None:
    assert SharedLinks.bus(2, 3.0).routes == (((), (0,)), ((0,), ()))
    star = SharedLinks.star([1, 2, 3], [4, 5, 6])
    assert star.bandwidths.tolist() == [1, 2, 3, 4, 5, 6] and star.routes[0][2] == (0, 5)
    assert star.names == tuple(f"executor{k} {way}" for way in ("up", "down") for k in range(3))
    racks = SharedLinks.racks([1, 2], 7.0, within=9.0)
    assert racks.routes == (((), (0, 3), (0, 3)), ((1, 2), (), (5,)), ((1, 2), (5,), ()))
    assert repr(racks) == "SharedLinks(6 links between 3 executors)"
    links = SharedLinks.from_networkx(tree(), ["a", "b", "c"])
    names = [[[links.names[link] for link in route] for route in row] for row in links.routes]
    assert names[0] == [[], ["left - a", "left - b"], ["left - a", "core - left", "core - right", "right - c"]]
    assert names[2][0] == names[0][2][::-1]
    assert links.bandwidths[links.names.index("core - right")] == 3.0
    directed = SharedLinks.from_networkx(tree().to_directed(), ["a", "c"])
    assert not set(directed.routes[0][1]) & set(directed.routes[1][0]) and directed.num_links == 10


def changed(change: Callable[[nx.Graph], Any]) -> SharedLinks:
    graph = tree()
    change(graph)
    return SharedLinks.from_networkx(graph, ["a", "b", "c"])


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: changed(lambda graph: graph.add_edge("core", "x")), "edge 'core' - 'x': no attribute 'bandwidth'"),
    (
        lambda: changed(lambda graph: graph.add_edge("core", "x", bandwidth=0)),
        "bandwidth of core - x: got 0.0, expected a number > 0",
    ),
    (lambda: changed(lambda graph: graph.remove_edge("core", "left")), "graph: no path from 'a' to 'c'"),
    (lambda: changed(lambda graph: graph.remove_node("c")), "executors: got 'c', expected nodes of the graph"),
    (lambda: SharedLinks([[1.0]], []), "bandwidths: got shape (1, 1), expected (any,)"),
    (lambda: SharedLinks([1.0], []), "routes is empty"),
    (lambda: SharedLinks([1.0], [[(), (0,)], [()]]), "routes of executor 1: got 1, expected 2, one per executor"),
    (
        lambda: SharedLinks([1.0], [[(), (0,)], [(3,), ()]]),
        "route from executor 1 to 0: got (3,), expected distinct links",
    ),
    (lambda: SharedLinks.star([1, 2], [3]), "down: got 1 downlinks, expected 2"),
    (
        lambda: DagCluster([], Executors([1.0, 1.0]), links=SharedLinks.bus(2, 1.0)),
        "transfers: got 'when_finished', expected 'when_assigned' if links are given",
    ),
    (
        lambda: DagCluster([], Executors([1.0]), links=BUS, transfers="when_assigned"),
        "links: got routes for 3 executors, expected 1",
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=re.escape(message)):
        make()


def test_the_description_says_what_the_links_are_in_plain_values() -> None:
    result = run(TWO_PARENTS, SharedLinks.star([1.0, INF, 1.0]), APART)
    description = json.loads(json.dumps(result.info["links"], allow_nan=False))
    assert description["bandwidths"] == [1.0, None, 1.0] * 2
    assert (description["up"][0], description["between"], description["down"][2]) == ([0], [[[]]], [5])
    assert SharedLinks.of(description).routes == SharedLinks.star([1.0, INF, 1.0]).routes
    assert DagCluster([], Executors([1.0])).describe()["links"] is None


def test_routes_of_many_executors_are_those_of_networkx_and_take_no_memory_per_pair() -> None:
    """A torus, where many paths are equally short: the first that a breadth-first search finds is taken."""
    network = nx.convert_node_labels_to_integers(nx.grid_2d_graph(30, 20, periodic=True))
    nx.set_edge_attributes(network, 10.0, "bandwidth")
    many = list(network)
    links = SharedLinks.from_networkx(network, many)
    number = {pair: at for at, edge in enumerate(network.edges) for pair in (edge, edge[::-1])}
    assert len(json.dumps(links.describe())) < 60_000  # 360,000 pairs
    again = SharedLinks.of(json.loads(json.dumps(links.describe())))
    part = links.only([7, 599, 300])
    for source in (0, 7, 311):
        paths = nx.single_source_shortest_path(network, source)
        expected = [tuple(number[step] for step in zip(paths[to], paths[to][1:], strict=False)) for to in many]
        assert [links.route(source, to) for to in many] == [again.route(source, to) for to in many] == expected
    assert part.route(0, 2) == links.route(7, 300)
    copy, used = pickle.loads(pickle.dumps(part)), pickle.dumps(part)
    assert copy.route(1, 0) == links.route(599, 7) and pickle.dumps(part) == used
    directed = nx.DiGraph(nx.path_graph(600))
    directed.remove_edge(4, 3)
    nx.set_edge_attributes(directed, 1.0, "bandwidth")
    with pytest.raises(InvalidConfiguration, match="no path from 4 to 0"):
        SharedLinks.from_networkx(directed, list(range(600)))


@pytest.mark.parametrize("shares", [False, True])
def test_channels_of_many_executors_are_described_and_not_listed(shares: bool) -> None:
    wide = job((0, 2, 4.0), (1, 2, 4.0))
    executors = Executors(np.linspace(1.0, 2.0, 600), 2.0, 0.5)
    network = nx.star_graph(600)  # the router is in the middle
    nx.set_edge_attributes(network, 3.0, "bandwidth")
    links = SharedLinks.from_networkx(network, list(range(1, 601))) if shares else None
    cluster = DagCluster([wide], executors, links=links, transfers="when_assigned" if shares else "when_finished")
    result = simulate(cluster, ListScheduler(FIFO(), EFT()))
    assert result.table("channels").is_empty() and result.info["transfer_speed"] == 2.0
    assert validate(result, [wide]).ok
    found = WORDS.realized(result)
    assert found["transfer speed"] == 2.0
    mean = float(np.mean(1.0 / executors.speeds))
    assert found["communication-to-computation ratio"] == pytest.approx((8.0 / 2.0 / 2.0 + 0.5) / mean)
    assert dag_drawing(1, result=result).get_title("left") is not None
    copies = result.table("transfers").with_columns(pl.col("arrival_time") - 1.5)
    tables = {name: result.table(name).lazy() for name in result.table_names}
    assert not validate(Result({**tables, "transfers": copies.lazy()}, result.info)).ok
