"""Jobs as graphs for learners: arrays padded and not, features, masks, and what actions mean."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import pytest
from dag_cases import decisions, fixed_features, log
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.agents.dag import DEFT
from desim.agents.dag.orders import mean_run_times, mean_transfer_times, upward_rank
from desim.core import Simulation
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, DagCluster, Executors, Job
from desim.problems.dag.graph_encoder import (
    CANDIDATE_FEATURES,
    FIXED_FEATURES,
    JOB_FEATURES,
    SYSTEM_GRAPH_FEATURES,
    GraphEncoder,
    GraphSizes,
)

SIZES = GraphSizes(jobs=6, nodes=7, edges=12, candidates=30)


def encoder_of(rng: Random, sizes: GraphSizes = SIZES) -> GraphEncoder:
    return GraphEncoder(DEFT().allocate, only_idle=rng.random() < 0.7, sizes=sizes)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_nothing_is_lost_in_padding(seed: int) -> None:
    rng = Random(seed)
    encoder = encoder_of(rng)
    for _, decision in decisions(rng, encoder, tasks=False):
        graph, encoded = encoder.graph(decision.observation), encoder.encode(decision.observation)
        for name, array in unpadded(encoded).items():
            np.testing.assert_array_equal(array, getattr(graph, name), err_msg=name)
        assert all(encoded[name] in encoder.observation_space[name] for name in encoded)


def unpadded(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays of a graph that was padded."""
    present = arrays["present"].astype(bool)
    counts = present.sum(1)
    num_jobs = int(np.count_nonzero(counts))
    job_start = np.concatenate([[0], np.cumsum(counts[:num_jobs])])
    there = arrays["edges"][:, :, 0] >= 0
    edge_start = np.concatenate([[0], np.cumsum(there.sum(1)[:num_jobs])])
    job_of_edge = np.repeat(np.arange(num_jobs), np.diff(edge_start))
    shown = arrays["candidate_nodes"][arrays["candidate_nodes"][:, 0] >= 0].astype(np.int64)
    return {
        "job_start": job_start,
        "edge_start": edge_start,
        "keys": arrays["keys"][:num_jobs],
        "nodes": arrays["nodes"][present],
        "edges": arrays["edges"][there].astype(np.int64) + job_start[job_of_edge, None],
        "edge_times": arrays["edge_times"][there],
        "unassigned": arrays["unassigned"][present].astype(bool),
        "jobs": arrays["jobs"][:num_jobs],
        "candidate_nodes": job_start[shown[:, 0]] + shown[:, 1],
        "candidates": arrays["candidates"][: len(shown)],
        "system": arrays["system"],
    }


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_graphs_are_those_of_the_jobs(seed: int) -> None:
    rng = Random(seed)
    encoder = encoder_of(rng)
    for _, decision in decisions(rng, encoder, tasks=False):
        seen = decision.observation
        graph = encoder.graph(seen)
        states = list(seen.jobs.values())
        wanted, found = nx.DiGraph(), nx.DiGraph()
        for number, state in enumerate(states):
            wanted.add_nodes_from((number, node) for node in range(state.job.num_nodes))
            for parent, children in enumerate(state.job.child_lists):
                wanted.add_edges_from(((number, parent), (number, child)) for child, _ in children)
        where = [(int(job), int(node - graph.job_start[job])) for node, job in enumerate(graph.job_of_node)]
        found.add_nodes_from(where)
        found.add_edges_from((where[parent], where[child]) for parent, child in graph.edges)
        assert nx.utils.graphs_equal(found, wanted)
        ready = [(state.job.job_id, node) for state, node in seen.ready.values()]
        assert [(states[where[n][0]].job.job_id, where[n][1]) for n in graph.candidate_nodes] == ready
        unassigned = [not done for state in states for done in state.assigned.tolist()]
        assert graph.unassigned.tolist() == unassigned


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_features_are_those_that_are_described(seed: int) -> None:
    rng = Random(seed)
    encoder = encoder_of(rng)
    for _, decision in decisions(rng, encoder, tasks=False):
        seen = decision.observation
        graph = encoder.graph(seen)
        expected = slow_features(seen, encoder.only_idle)
        counted = [CANDIDATE_FEATURES.index(name) for name in ("before_by_rank", "before_by_work")]
        for name, table in expected.items():
            found = getattr(graph, name).copy()
            if name == "candidates":
                assert_counts(found, *keys_of(seen))
                found[:, counted] = table[:, counted] = 0.0
            np.testing.assert_allclose(found, table, rtol=2e-5, atol=2e-6, err_msg=name)


def assert_counts(candidates: np.ndarray, ranks: list[float], work: list[float]) -> None:
    """Assert how many candidates come before each, give or take those whose keys are equal but for rounding."""
    delays = candidates[:, CANDIDATE_FEATURES.index("delay")]
    by_work = [left - 0.01 * rank for left, rank in zip(work, ranks, strict=True)]
    for name, keys, most in (("rank", [-rank for rank in ranks], 1e-6), ("work", by_work, 0.3)):
        found = np.expm1(4 * candidates[:, CANDIDATE_FEATURES.index(f"before_by_{name}")])
        others = [key for key, delay in zip(keys, delays, strict=True) if delay <= most]
        for key, count in zip(keys, found, strict=True):
            rounding = 1e-9 * (1 + abs(key))
            fewest = sum(other < key - rounding for other in others)
            assert fewest - 1e-3 <= count <= sum(other < key + rounding for other in others) + 1e-3


def keys_of(seen: Any) -> tuple[list[float], list[float]]:
    """Return the upward ranks of the ready nodes, and the work that is left of their jobs."""
    ranks, work = [], []
    for state, node in seen.ready.values():
        times = mean_run_times(state.job, seen.executors)
        ranks.append(upward_rank(state.job, seen.executors)[node])
        work.append(sum(times[other] for other in range(state.job.num_nodes) if not state.assigned[other]))
    return ranks, work


def slow_features(seen: Any, only_idle: bool) -> dict[str, np.ndarray]:
    """Return all features, written as they are described."""
    executors, now = seen.executors, seen.time
    idle_at = seen.available_times.tolist()
    idle = [k for k, time in enumerate(idle_at) if time <= now]
    usable = idle if only_idle else [k for k, time in enumerate(idle_at) if time < math.inf]
    nodes, jobs, edge_times, left_of_all, longest = [], [], [], 0.0, 0.0
    for state in seen.jobs.values():
        job = state.job
        times, transfers = mean_run_times(job, executors), mean_transfer_times(job, executors)
        edge_times += [log(time) for time in transfers]
        up = upward_rank(job, executors)
        nodes += fixed_features(job, executors)
        left = [node for node in range(job.num_nodes) if not state.assigned[node]]
        work, critical = sum(times[node] for node in left), max((up[node] for node in left), default=0.0)
        left_of_all, longest = left_of_all + work, max(longest, critical)
        running = int((state.assigned & ~state.finished).sum())
        jobs.append([log(v) for v in (len(left), running, work, critical, now - job.submission_time)])
    candidates = []
    ranks, works = keys_of(seen)
    for (state, node), rank, work in zip(seen.ready.values(), ranks, works, strict=True):
        ready = state.ready_times(node)
        run = state.run_times[node]
        finish = [max(at, ready[k]) + run[k] - now for k, at in enumerate(idle_at)]
        best = min(range(len(finish)), key=finish.__getitem__)
        chosen = min(usable, key=finish.__getitem__) if usable else best
        ratio = math.log((finish[chosen] + 1) / (finish[best] + 1)) if finish[best] < math.inf else 3.0
        waiting = max(ready[chosen] - now, 0.0)
        row = [log(finish[best]), log(finish[chosen]), min(ratio, 3.0), log(run[chosen]), log(waiting), 0.0, 0.0]
        row += [max(math.log((rank + 1) / (max(ranks) + 1)), -3.0), min(math.log((work + 1) / (min(works) + 1)), 3.0)]
        candidates.append(row)
    busy = [time - now for time in idle_at if time > now]
    next_idle = min(busy, default=math.inf)
    delays = [row[2] for row in candidates]
    counts = [len(jobs), len(candidates), 0, sum(delay <= 1e-6 for delay in delays)]
    system = [*map(log, counts), min(delays, default=3.0), len(idle) / len(idle_at)]
    backlogs = [max(time - now, 0.0) for time in idle_at if time < math.inf]
    system += [log(next_idle), log(sum(backlogs) / max(len(backlogs), 1)), log(max(backlogs, default=0.0))]
    system += [log(left_of_all / len(idle_at)), log(longest), float(next_idle < math.inf)]
    return {
        "nodes": np.array(nodes).reshape(-1, len(FIXED_FEATURES)),
        "edge_times": np.array(edge_times),
        "jobs": np.array(jobs).reshape(-1, len(JOB_FEATURES)),
        "candidates": np.array(candidates).reshape(-1, len(CANDIDATE_FEATURES)),
        "system": np.array(system).reshape(len(SYSTEM_GRAPH_FEATURES)),
    }


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_actions_assign_candidates_or_wait(seed: int) -> None:
    rng = Random(seed)
    encoder = encoder_of(rng)
    for _, decision in decisions(rng, encoder, tasks=False):
        seen = decision.observation
        mask = encoder.encode(seen)["action_mask"]
        available = seen.available_times
        busy = ((available > seen.time) & (available < np.inf)).any()
        if encoder.only_idle:
            available = np.where(available <= seen.time, available, np.inf)
        stuck = available.min() == np.inf
        assert encoder.is_forced(seen) == stuck
        nodes = list(seen.ready.values())
        for action in range(SIZES.candidates):
            answer, valid = encoder.decode(seen, action)
            if stuck or action >= len(nodes):
                assert answer is None
                assert valid == bool(mask[action])
                continue
            state, node = nodes[action]
            assert (answer, valid) == (DEFT().allocate(seen, state, node, available), True)
            assert mask[action]
            assert isinstance(answer, Assign)
            assert available[answer.executor] < np.inf
        if encoder.only_idle:
            answer, valid = encoder.decode(seen, SIZES.candidates)
            assert answer is None
            assert bool(mask[-1]) == bool(busy or stuck) == valid
        assert mask.any()


def test_what_there_is_no_room_for_is_counted() -> None:
    jobs = [Job(number, [1.0, 1.0], submission_time=0.0, allow_disconnected=True) for number in range(3)]
    cluster = DagCluster(jobs, Executors([1.0], 1.0))
    encoder = GraphEncoder(DEFT().allocate, sizes=GraphSizes(jobs=2, nodes=2, edges=0, candidates=3))
    decision = Simulation(cluster).advance()
    assert decision is not None
    graph = encoder.graph(decision.observation)
    assert (len(graph.keys), graph.candidate_nodes.tolist()) == (2, [0, 1, 2])
    counts = [SYSTEM_GRAPH_FEATURES.index(name) for name in ("candidates", "hidden_candidates")]
    np.testing.assert_allclose(graph.system[counts], [log(3), log(3)], rtol=1e-6)
    assert encoder.decode(decision.observation, 3) == (None, False)  # nothing would ever happen


def test_jobs_without_an_executable_node_give_way() -> None:
    first = Job(0, [5.0, 1.0], [(0, 1, 0.0)])
    others = [Job(number, [1.0], submission_time=1.0) for number in (1, 2)]
    simulation = Simulation(DagCluster([first, *others], Executors([1.0, 1.0], 1.0)))
    decision = simulation.advance()
    assert decision is not None
    decision.answer(Assign(0, 0, 0))
    decision = simulation.advance()
    assert decision is not None
    encoder = GraphEncoder(DEFT().allocate, sizes=GraphSizes(jobs=2, nodes=2, edges=1, candidates=3))
    states, offer = encoder.shown(decision.observation)
    assert [state.job.job_id for state in states] == [1, 2]
    assert [state.job.job_id for state, _ in offer.nodes] == [1, 2]


def test_keys_tell_graphs_apart() -> None:
    executors = Executors([1.0, 2.0], 1.0)
    jobs = [
        Job(0, [1.0, 2.0], [(0, 1, 3.0)]),
        Job(1, [1.0, 2.0], [(0, 1, 3.0)]),
        Job(2, [1.0, 2.0], [(0, 1, 4.0)]),
        Job(3, [2.0, 2.0], [(0, 1, 3.0)]),
    ]
    decision = Simulation(DagCluster(jobs, executors)).advance()
    assert decision is not None
    keys = GraphEncoder(DEFT().allocate).graph(decision.observation).keys.tolist()
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_what_does_not_fit_is_refused() -> None:
    job = Job(0, [1.0] * 3, [(0, 1, 1.0), (1, 2, 1.0)])
    decision = Simulation(DagCluster([job], Executors([1.0], 1.0))).advance()
    assert decision is not None
    wrong: list[tuple[Any, str]] = [
        (
            lambda: encoder(nodes=2).encode(decision.observation),
            "got 1 jobs with up to 3 nodes and 2 edges, expected at most",
        ),
        (
            lambda: encoder(edges=1).encode(decision.observation),
            "got 1 jobs with up to 3 nodes and 2 edges, expected at most",
        ),
        (lambda: encoder(jobs=0), r"sizes: got GraphSizes\(jobs=0, .*\), expected at least 1 each"),
        (
            lambda: encoder(candidates=2).decode(decision.observation, 3),
            "action: got 3, expected an integer from 0 to 2",
        ),
    ]
    for make, message in wrong:
        with pytest.raises(InvalidConfiguration, match=message):
            make()


def encoder(**sizes: int) -> GraphEncoder:
    return GraphEncoder(DEFT().allocate, sizes=GraphSizes(**sizes))
