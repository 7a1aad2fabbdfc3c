"""The environment of a batch cluster of nodes: masks are what the cluster accepts, features are those described."""

from __future__ import annotations

import math
import pickle
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from env_cases import Masked, make, play, same
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from node_cases import NODES, decisions, fitting_jobs, node_settings

from desim import simulate
from desim.agents.batch import EASYBackfilling, SimpleBackfilling
from desim.core import Simulation
from desim.exceptions import InfeasibleAction, InvalidConfiguration
from desim.problems.batch import (
    PLACEMENTS,
    BatchCluster,
    FragmentationGradient,
    Job,
    Node,
    NodeAllocation,
    NodeTable,
    StartOnNodes,
    typical_requests,
)
from desim.problems.batch.encoders import SplitWindow
from desim.problems.batch.env import TraceEpisodes, make_encoder
from desim.problems.batch.node_encoder import NodeFeatureEncoder, are_alike
from tests.agents.plain_nodes import Free, free_at, nodes_of, running

TABLE = NodeTable(NODES)
WINDOWS = st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(any)
ACTIONS = ["job", "job-on-node"]


def shown(window: tuple[int, int], queue: list[Any]) -> list[Any]:
    """Return what the slots show: the first jobs, then the last ones, the very last first."""
    head, tail = window
    return queue if len(queue) <= head + tail else queue[:head] + list(reversed(queue))[:tail]


def is_accepted(simulation: Simulation, answer: Any) -> bool:
    """Tell whether the cluster starts a job now, and on the nodes that are named; else that it refuses."""
    fork = simulation.fork()
    started: list[int] = []
    fork.problem.on("start", lambda time, execution: started.append(execution.row))
    decision = fork.advance()
    assert decision is not None
    row = answer.row if isinstance(answer, StartOnNodes) else answer
    try:
        decision.answer(answer)
    except InfeasibleAction as error:
        assert f"job {simulation.problem.observation.id_of(row)}" in str(error)  # type: ignore[attr-defined]
        return False
    assert started == [row]
    if isinstance(answer, StartOnNodes):
        assert fork.problem.observation.nodes.allocation_of(row) == answer.held  # type: ignore[attr-defined]
    return True


def compare_masks(seed: int, window: tuple[int, int], action: Any, placement: str, count: int, every: int) -> None:
    """Ask loops over nodes about all actions of a random run, and the cluster at every few decisions."""
    rng = np.random.default_rng(seed)
    slots = sum(window) + int(rng.integers(0, 2))
    encoder = NodeFeatureEncoder(SplitWindow(*window), TABLE, slots, action=action)
    choices = len(NODES) if action == "job-on-node" else 1
    for number, (simulation, decision) in enumerate(decisions(rng, encoder, placement=placement, count=count)):
        seen: Any = decision.observation
        mask = encoder.encode(seen)["action_mask"]
        assert mask.shape == (slots * choices + 1,)
        waits = seen.can_wait or not mask[:-1].any()
        assert (mask[-1], encoder.decode(seen, slots * choices)) == (waits, (None, waits))
        assert encoder.is_forced(seen) == (not mask[:-1].any())
        jobs = shown(window, seen.queue.row.tolist())
        table = mask[:-1].reshape(slots, choices)
        assert not table[len(jobs) :].any()
        free = free_at(seen, running(seen), seen.time)
        for slot, row in enumerate(jobs):
            shape = nodes_of(seen).compiled_request(row)
            fits = free.place(shape) is not None
            for choice in range(choices):
                possible = fits and (action == "job" or free.on_node(shape, choice, 1) is not None)
                answer, is_possible = encoder.decode(seen, slot * choices + choice)
                assert is_possible == bool(table[slot, choice]) == possible
                if not possible:
                    assert answer is None
                if number % every:
                    continue
                if action == "job":
                    assert is_accepted(simulation, row) == possible
                elif possible:
                    assert (answer.row, answer.held[0].node) == (row, choice)
                    assert answer.held[0].tasks == free.on_node(shape, choice, shape.tasks).tasks  # type: ignore[union-attr]
                    assert is_accepted(simulation, answer)
                else:
                    gpus = ((0, 1000 if shape.gpus else shape.share),) if shape.gpus or shape.share else ()
                    asked = NodeAllocation(choice, 1, shape.amounts, gpus)
                    assert not is_accepted(simulation, StartOnNodes(row, (asked,)))


@pytest.mark.parametrize("action", ACTIONS)
@given(seed=st.integers(0, 2**32), window=WINDOWS, placement=st.sampled_from(sorted(PLACEMENTS)))
@settings(max_examples=15, deadline=None)
def test_the_mask_is_what_the_cluster_accepts(action: str, seed: int, window: tuple[int, int], placement: str) -> None:
    compare_masks(seed, window, action, placement, 14, every=4)


@pytest.mark.slow
@pytest.mark.parametrize("placement", sorted(PLACEMENTS))
@pytest.mark.parametrize("action", ACTIONS)
@given(seed=st.integers(0, 2**32), window=WINDOWS)
@settings(max_examples=200, deadline=None)
def test_the_mask_is_what_the_cluster_accepts_in_thousands_of_runs(
    placement: str, action: str, seed: int, window: tuple[int, int]
) -> None:
    compare_masks(seed, window, action, placement, 18, every=10)


# -- features against loops over plain lists --------------------------------------------------------


def log(value: float) -> float:
    return math.log1p(value) / 4


def slow_features(window: tuple[int, int], seen: Any) -> dict[str, Any]:
    """Return what is shown with a row for each node, written as it is described."""
    free = Free(seen)
    for one in running(seen):
        free.take(one.held)
    names, nodes, time = TABLE.resources, TABLE.nodes, seen.time
    amounts_of = [[node.cores, node.memory, node.resources.get("licenses", 0)] for node in nodes]
    most = [max(column) for column in zip(*amounts_of, strict=True)]
    total = [sum(column) for column in zip(*amounts_of, strict=True)]
    ends = {
        number: [max(one.end - time, 0.0) for one in running(seen) if any(held.node == number for held in one.held)]
        for number in range(len(nodes))
    }
    node_rows = []
    for number, node in enumerate(nodes):
        up = not free.down[number]
        gpus = free.gpus[number]
        row = {
            "present": 1.0,
            "nodes": log(1),
            "up": float(up),
            "speed": 1.0,
            "jobs": log(len(ends[number])),
            "time_to_next_end": log(min(ends[number], default=0.0)),
            "time_to_last_end": log(max(ends[number], default=0.0)),
        }
        for column, name in enumerate(names):
            have = amounts_of[number][column]
            row[f"free_{name}"] = free.amounts[number][column] / have if have and up else 0.0
            row[name] = have / most[column]
        row["free_gpus"] = sum(gpus) / 1000 / node.gpus if node.gpus and up else 0.0
        row["whole_gpus"] = gpus.count(1000) / node.gpus if node.gpus and up else 0.0
        row["gpus"] = node.gpus / 4
        row |= {f"model:{model}": float(node.gpu_model == model) for model in ("A", "B")}
        row["partition:fast"] = float(node.partition == "fast")
        node_rows.append(row)
    queue = list(zip(seen.queue.row.tolist(), seen.queue.requested_time.tolist(), strict=True))
    submitted = dict(zip(seen.queue.row.tolist(), seen.queue.submission_time.tolist(), strict=True))
    jobs = shown(window, queue)
    job_rows, room, eligible, fitting = [], [], [], 0
    for slot, (key, requested) in enumerate(jobs):
        shape = nodes_of(seen).compiled_request(key)
        request = shape.request
        eligible.append([_will_do(request, node) for node in nodes])
        places = [free.on_node(shape, number, shape.tasks) for number in range(len(nodes))]
        counts = [place.tasks if place else 0 for place in places]
        fits = sum(counts) >= shape.tasks
        fitting += fits
        row = {
            "present": 1.0,
            "requested_time": log(requested),
            "waiting_time": log(time - submitted[key]),
            "tasks": log(request.tasks),
            "exclusive": float(request.exclusive),
            "fits": float(fits),
            "tasks_with_room": min(sum(counts), shape.tasks) / shape.tasks,
            "eligible_nodes": sum(eligible[-1]) / len(nodes),
            "nodes_with_room": sum(count > 0 for count in counts) / len(nodes),
            "gpu_share": request.gpus if request.gpus < 1 else 0.0,
            "from_tail": float(len(queue) > sum(window) and slot >= window[0]),
        }
        each = [request.cores, request.memory, dict(request.resources).get("licenses", 0)]
        for name, amount, largest in zip(names, each, most, strict=True):
            row[f"{name}_per_task"] = amount / largest
        row["gpus_per_task"] = request.gpus / 4
        for name, amount, all_of_it in zip(names, each, total, strict=True):
            row[name] = amount * request.tasks / all_of_it
        row["gpus"] = request.gpus * request.tasks / sum(node.gpus for node in nodes)
        job_rows.append(row)
        room.append([count / shape.tasks for count in counts])
    live = [number for number in range(len(nodes)) if not free.down[number]]
    cluster = {
        "queue_length": log(len(queue)),
        "invisible_jobs": log(len(queue) - len(jobs)),
        "jobs_that_fit": log(fitting),
        "running_jobs": log(len(running(seen))),
        "time_to_next_end": log(min((max(one.end - time, 0.0) for one in running(seen)), default=0.0)),
        "oldest_waiting_time": log(max((time - submission for submission in submitted.values()), default=0.0)),
        "nodes_up": len(live) / len(nodes),
    }
    for column, name in enumerate(names):
        cluster[f"free_{name}"] = sum(free.amounts[number][column] for number in live) / total[column]
    cluster["free_gpus"] = sum(sum(free.gpus[number]) for number in live) / 1000 / sum(node.gpus for node in nodes)
    return {"jobs": job_rows, "nodes": node_rows, "room": room, "cluster": cluster, "eligible": eligible}


def _will_do(request: Any, node: Node) -> bool:
    return (
        (not request.partition or node.partition == request.partition)
        and (not request.gpu_models or node.gpu_model in request.gpu_models)
        and all(feature in node.features for feature in request.features)
        and not any(feature in node.features for feature in request.excluded_features)
    )


@given(seed=st.integers(0, 2**32), window=WINDOWS)
@settings(max_examples=15, deadline=None)
def test_features_are_those_that_are_described(seed: int, window: tuple[int, int]) -> None:
    encoder = NodeFeatureEncoder(SplitWindow(*window), TABLE)
    summed = NodeFeatureEncoder(SplitWindow(*window), TABLE, rows="alike")
    classes = [[0, 1, 2], [3, 4], [5]]
    for _, decision in decisions(np.random.default_rng(seed), encoder):
        found, plain = encoder.encode(decision.observation), slow_features(window, decision.observation)
        assert list(plain["cluster"]) == list(encoder.cluster_features)
        for name, names in (("jobs", encoder.job_features), ("nodes", encoder.node_features)):
            expected = np.zeros(found[name].shape)
            for number, row in enumerate(plain[name]):
                assert row.keys() == set(names)
                expected[number] = [row[column] for column in names]
            np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["cluster"], list(plain["cluster"].values()), rtol=1e-5, atol=1e-6)
        room = np.array(plain["room"]).reshape(-1, len(NODES))
        np.testing.assert_allclose(found["room"][: len(room)], room, rtol=1e-5)
        assert not found["room"][len(room) :].any()
        eligible = np.zeros(found["eligible"].shape)
        eligible[: len(room)] = np.array(plain["eligible"]).reshape(-1, len(NODES))
        assert np.array_equal(found["eligible"], eligible)
        together = summed.encode(decision.observation)
        for name in ("jobs", "cluster", "action_mask"):
            assert np.array_equal(together[name], found[name])
        assert np.array_equal(together["eligible"], eligible[:, [0, 3, 5]])
        for row, members in enumerate(classes):
            means = found["nodes"][members].mean(axis=0)
            means[encoder.node_features.index("nodes")] = log(len(members))
            np.testing.assert_allclose(together["nodes"][row], means, rtol=1e-5, atol=1e-6)
            shares = np.minimum(room[:, members].sum(axis=1), 1.0)
            np.testing.assert_allclose(together["room"][: len(room), row], shares, rtol=1e-5)


def test_nodes_are_alike_if_they_differ_in_their_names_only() -> None:
    assert are_alike(TABLE).tolist() == [0, 0, 0, 1, 1, 2]
    same_but = [{"memory": 1}, {"gpus": 1}, {"speed": 2.0}, {"features": frozenset("x")}, {"resources": {"disk": 1}}]
    nodes = [Node("a", 4), *(Node(f"b{number}", 4, **one) for number, one in enumerate(same_but)), Node("c", 4)]  # type: ignore[arg-type]
    assert are_alike(NodeTable(nodes)).tolist() == [0, 1, 2, 3, 4, 5, 0]


# -- the environment --------------------------------------------------------------------------------


FGD = FragmentationGradient(typical_requests(job.request for job in fitting_jobs(9, 100)))


def named(placement: Any) -> str:
    """Return the name of a placement."""
    return getattr(placement, "name", placement)


@pytest.mark.parametrize("placement", [*sorted(PLACEMENTS), FGD], ids=named)
def test_the_first_job_that_fits_is_simple_backfilling(placement: Any) -> None:
    jobs = fitting_jobs(4, 80)
    expected = simulate(BatchCluster(jobs, nodes=NODES, placement=placement), SimpleBackfilling("fcfs"))
    episodes = partial(_always, jobs, placement)
    gym_env = make("desim/Batch-v0", **node_settings(jobs=episodes, placement=None, window=(80, 0)))
    play(gym_env, lambda gym_env, seen: int(gym_env.action_masks().argmax()), seed=0)
    result = gym_env.result()
    for table in ("jobs", "placements"):
        assert result.table(table).equals(expected.table(table))


def _always(jobs: list[Any], placement: Any, rng: np.random.Generator) -> BatchCluster:
    return BatchCluster(jobs, nodes=NODES, placement=placement)


@pytest.mark.parametrize("placement", [*sorted(PLACEMENTS), FGD], ids=named)
@pytest.mark.parametrize("action", ACTIONS)
def test_what_an_agent_answers_is_an_action(action: Any, placement: Any) -> None:
    """Every answer of a backfilling agent on nodes has its action, whose answer starts the same jobs there."""
    encoder = NodeFeatureEncoder(SplitWindow(60, 0), TABLE, action=action)
    jobs = fitting_jobs(7, 60)
    easy, simulation = EASYBackfilling("sjf"), Simulation(BatchCluster(jobs, nodes=NODES, placement=placement))
    count = 0
    while (decision := simulation.advance()) is not None:
        seen = decision.observation
        answer = easy.act(seen)
        number = encoder.encode_action(seen, answer)
        assert number is not None
        assert encoder.encode_action(seen, encoder.decode(seen, number)[0]) == number
        starts = [one for one in (answer if isinstance(answer, list) else [answer]) if isinstance(one, StartOnNodes)]
        meant, _ = encoder.decode(seen, number)
        if starts:
            assert (meant if action == "job" else meant.row) == starts[0].row
            if action == "job-on-node":
                assert meant.held[0].node == starts[0].held[0].node
                view = nodes_of(seen)
                placed = view.room.place(view.compiled_request(starts[0].row), view.policy)
                by_policy = encoder.encode_action(seen, starts[0].row)  # it names no nodes
                assert encoder.decode(seen, by_policy)[0] == StartOnNodes(starts[0].row, placed)
            count += 1
        else:
            assert meant is None
        decision.answer(meant)
        hidden = encoder.encode_action(simulation.problem.observation, 10**6)
        assert hidden is None
    assert count > 30


def build(**more: Any) -> gymnasium.Env:
    """Make an environment, perhaps in another process."""
    return gymnasium.make("desim.envs:desim/Batch-v0", **node_settings(num_jobs=30, window=(4, 2), **more))


@pytest.mark.parametrize("more", [{}, {"action": "job-on-node"}, {"observation": "node-classes"}], ids=str)
@pytest.mark.parametrize("kind", [SyncVectorEnv, partial(AsyncVectorEnv, context="forkserver")], ids=["sync", "async"])
def test_vectors_of_environments_do_what_each_does_alone(kind: Any, more: dict[str, Any]) -> None:
    vector = kind([partial(build, **more)] * 2)
    try:
        alone = [build(**more), build(**more)]
        seen, _ = vector.reset(seed=3)
        rng = np.random.default_rng(0)
        firsts = [gym_env.reset(seed=3 + number)[0] for number, gym_env in enumerate(alone)]
        for _ in range(15):
            for number, one in enumerate(firsts):
                assert same({key: array[number] for key, array in seen.items()}, one)
            actions = [int(rng.choice(np.flatnonzero(one["action_mask"]))) for one in firsts]
            seen, rewards, *_ = vector.step(np.array(actions))
            steps = [gym_env.step(action) for gym_env, action in zip(alone, actions, strict=True)]
            assert rewards.tolist() == [step[1] for step in steps]
            firsts = [step[0] for step in steps]
    finally:
        vector.close()


@pytest.mark.parametrize("action", ACTIONS)
def test_maskable_ppo_trains(action: str) -> None:
    MaskablePPO = pytest.importorskip("sb3_contrib").MaskablePPO
    gym_env = build(action=action)
    model = MaskablePPO("MultiInputPolicy", gym_env, n_steps=64, batch_size=32, n_epochs=1, seed=0, device="cpu")
    assert model.learn(128).num_timesteps == 128


@pytest.mark.parametrize("more", [{}, {"action": "job-on-node"}, {"observation": "node-classes"}], ids=str)
def test_clusters_may_have_fewer_nodes_than_are_shown(more: dict[str, Any]) -> None:
    episodes = TraceEpisodes([fitting_jobs(1, 300, NODES[1:5])], nodes=NODES[1:5], num_jobs=25)
    gym_env = make("desim/Batch-v0", **node_settings(jobs=episodes, placement=None, **more))
    steps = play(gym_env, Masked(), seed=0)
    for seen, *_, info in steps:
        assert seen["nodes"][:, 0].tolist() == ([1.0] * 4 + [0.0] * 2 if "observation" not in more else [1.0, 1.0, 0.0])
        assert not info["invalid"]
        assert all(array in gym_env.observation_space[name] for name, array in seen.items())
    assert gym_env.result().metrics()["jobs_started"] == 25


def test_an_encoder_is_the_same_elsewhere() -> None:
    encoder = NodeFeatureEncoder(SplitWindow(3, 2), TABLE)
    for _, decision in decisions(np.random.default_rng(1), encoder):
        assert same(
            pickle.loads(pickle.dumps(encoder)).encode(decision.observation), encoder.encode(decision.observation)
        )


def test_the_default_jobs_keep_the_nodes_busy() -> None:
    gym_env = make("desim/Batch-v0", num_cores=None, nodes=Node.several(4, 16))
    play(gym_env, Masked(), seed=0)
    metrics = gym_env.result().metrics()
    assert metrics["jobs_started"] == 40
    assert gym_env.simulation.problem.num_cores == 64


def test_what_jobs_request_stays_with_them() -> None:
    jobs = fitting_jobs(2, 60)
    problem = TraceEpisodes([jobs], nodes=NODES, num_jobs=20, arrivals="closed").at(17)
    shifted = list(problem.jobs)
    assert [job.request for job in shifted] == [job.request for job in jobs[17:37]]
    assert [job.submission_time + jobs[17].submission_time for job in shifted] == [
        job.submission_time for job in jobs[17:37]
    ]


CORES = TraceEpisodes([[Job(1, 0.0, 1, 1.0, 1.0)]], 4, num_jobs=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_cores": 4}, "nodes: got num_cores as well"),
        ({"nodes": None, "jobs": None}, "placement='best-fit' and action='job' without nodes; give nodes"),
        ({"nodes": None, "jobs": None, "placement": None, "action": "job-on-node"}, "give nodes"),
        ({"nodes": None, "jobs": None, "placement": None, "observation": "node-classes"}, "give nodes"),
        ({"observation": "flat"}, "observation: got 'flat', expected one of 'features', 'node-classes'"),
        ({"observation": "node-classes", "action": "job-on-node"}, "needs one row per node"),
        ({"action": "node"}, "action: got 'node'"),
        ({"reserve_after": 5.0}, "nodes support no reservation"),
        ({"placement": "worst"}, "placement: got 'worst'"),
        pytest.param({"jobs": CORES}, "placement: needs a trace", id="clusters of their own"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make("desim/Batch-v0", **node_settings(**settings)).reset(seed=0)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (Node.several(7, 8), "has 7 nodes, the encoder shows at most 6"),
        ([Node("a", 8, gpus=1, gpu_model="C")], "GPU model 'C', unknown to the encoder"),
        ([Node("a", 8, partition="slow")], "partition 'slow'"),
        ([Node("a", 8, resources={"disk": 1})], "resource 'disk'"),
    ],
)
def test_nodes_that_cannot_be_shown_are_named(nodes: list[Node], message: str) -> None:
    decision = Simulation(BatchCluster([Job(1, 0.0, 1, 1.0, 1.0)], nodes=nodes)).advance()
    assert decision is not None
    with pytest.raises(InvalidConfiguration, match=message):
        NodeFeatureEncoder(SplitWindow(2, 0), TABLE).encode(decision.observation)


def test_nodes_and_counted_cores_are_told_apart() -> None:
    with pytest.raises(InvalidConfiguration, match="but the problem of this episode has none"):
        make("desim/Batch-v0", **node_settings(jobs=CORES, placement=None)).reset(seed=0)
    episodes = TraceEpisodes([fitting_jobs(0, 40)], nodes=NODES, num_jobs=5)
    with pytest.raises(InvalidConfiguration, match="give nodes to the environment"):
        make("desim/Batch-v0", jobs=episodes).reset(seed=0)
    decision = Simulation(BatchCluster([Job(1, 0.0, 1, 1.0, 1.0)], 2)).advance()
    assert decision is not None
    encoder = make_encoder("features", SplitWindow(2, 0), nodes=TABLE)
    for ask in (encoder.encode, encoder.is_forced, partial(encoder.decode, action=0)):
        with pytest.raises(InvalidConfiguration, match="the cluster has counted cores"):
            ask(decision.observation)
    with pytest.raises(InvalidConfiguration, match="action: got 3, expected an integer from 0 to 2"):
        encoder.decode(Simulation(BatchCluster([Job(1, 0.0, 1, 1.0, 1.0)], nodes=NODES)).advance().observation, 3)  # type: ignore[union-attr]
