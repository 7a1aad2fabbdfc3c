"""Graph agents: what they decide does not hang on numbering, batching or on how it is computed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from desim import Simulation, simulate  # noqa: E402
from desim.agents.dag.graph_agent import GraphAgent, GraphConfig  # noqa: E402
from desim.agents.dag.graph_policy import from_data, to_data  # noqa: E402
from desim.agents.dag.training import EXPERTS, GraphEpisodes, GraphTraining, make_env  # noqa: E402
from desim.agents.learning.checkpoint import load_weights  # noqa: E402
from desim.agents.learning.policy import to_tensors  # noqa: E402
from desim.agents.learning.training import TrainingConfig  # noqa: E402
from desim.exceptions import InvalidConfiguration  # noqa: E402
from desim.problems.dag import DagCluster, Executors, Job  # noqa: E402
from desim.problems.dag.graph_encoder import FIXED_FEATURES, GraphSizes  # noqa: E402
from desim.validation import validate  # noqa: E402
from desim.workloads.dag.registry import draw  # noqa: E402

CONFIGS = [GraphConfig(kind, mode) for kind in ("messages", "local") for mode in ("idle", "immediate")]  # type: ignore[arg-type]
CONFIGS.append(GraphConfig("messages", "idle", relative=True))
PLANNED = GraphConfig(mode="planned")
SIZES = GraphSizes(jobs=12, candidates=100)


@cache
def policy_of(config: GraphConfig, seed: int = 0) -> Any:
    """Return a network that is far from indifferent, and waits in about half of the decisions; do not change it."""
    policy = config.policy(np.random.default_rng(seed))
    with torch.no_grad():
        for part in (policy.score, policy.wait):
            part[-1].weight.mul_(20.0)
        if config.only_idle:
            policy.wait[-1].bias.fill_(float(np.median(leads(policy, config))))
    return policy.eval()


def leads(policy: Any, config: GraphConfig) -> list[float]:
    """Return how much higher than waiting, without its bias, the best node is scored in the decisions of a run."""
    agent, encoder = GraphAgent(policy, replace(config, mode="immediate")), config.encoder(SIZES)
    found = []
    simulation = Simulation(cluster(0, 4))
    while (decision := simulation.advance()) is not None:
        encoded = encoder.encode(decision.observation)
        if encoded["action_mask"].sum() > 1:
            with torch.inference_mode():
                scores = policy(to_tensors({name: array[None] for name, array in encoded.items()}))[0]
            logs = scores.log_probabilities[0]
            found.append(float(logs[:-1].max() - logs[-1] + policy.wait[-1].bias[0]))
        decision.answer(agent.act(decision.observation))
    return [lead for lead in found if np.isfinite(lead)]


def cluster(seed: int, num_jobs: int = 8, num_executors: int = 4, **options: Any) -> DagCluster:
    """Return queries like those of TPC-H on a few executors."""
    rng = np.random.default_rng(seed)
    jobs, executors = draw(rng, num_jobs=num_jobs, num_executors=num_executors, mean_interval=60.0, ccr=1.0)
    return DagCluster(jobs, executors, **options)


def pools(seed: int) -> DagCluster:
    """Return similar queries whose nodes demand one to eight cores of two pools."""
    rng, drawn = np.random.default_rng(seed), cluster(seed).jobs
    jobs = []
    for job in drawn:
        edges = [(parent, child, size) for parent, row in enumerate(job.child_lists) for child, size in row]
        demands = [{"cores": float(rng.integers(1, 9))} for _ in range(job.num_nodes)]
        jobs.append(Job(job.job_id, job.work, edges, submission_time=job.submission_time, demands=demands))
    return DagCluster(jobs, Executors([2.1, 3.0], 1.0, capacities=[{"cores": 6}, {"cores": 8}]))


@pytest.mark.parametrize(
    ("config", "make"),
    [
        *((config, cluster) for config in CONFIGS),
        (PLANNED, partial(cluster, plan_ahead=True)),
        *((config, pools) for config in CONFIGS if config.only_idle),
    ],
    ids=lambda value: str(value) if isinstance(value, GraphConfig) else getattr(value, "__name__", "plan_ahead"),
)
def test_the_agent_does_what_the_network_says(config: GraphConfig, make: Callable[[int], DagCluster]) -> None:
    policy = policy_of(config, 1)
    agent, encoder = GraphAgent(policy, config), config.encoder(SIZES)
    simulation = Simulation(make(1))
    answers, kinds = 0, set()
    while (decision := simulation.advance()) is not None:
        seen = decision.observation
        answer = agent.act(seen)
        if encoder.is_forced(seen):
            assert answer is None
        else:
            encoded = {name: array[None] for name, array in encoder.encode(seen).items()}
            with torch.inference_mode():
                distribution, _ = policy(to_tensors(encoded))
            assert answer == encoder.decode(seen, int(distribution.mode()))[0]
            answers += 1
            kinds.add(answer is None)
        decision.answer(answer)
    assert answers > 60
    assert kinds == ({False, True} if config.only_idle else {False})
    result = simulation.finish()
    validate(result)
    assert result.jobs["status"].eq("completed").all()


def test_on_pools_what_fits_starts_at_once_in_the_order_of_the_scores() -> None:
    config = CONFIGS[0]
    agent, simulation = GraphAgent(policy_of(config), config), Simulation(pools(2))
    while (decision := simulation.advance()) is not None:
        seen = decision.observation
        scores, answer = agent.scores(seen), agent.act(seen)
        fitting = [pair for pair in seen.ready.values() if seen.fits(*pair).any()]
        if fitting:
            assert scores is not None and len(scores) == len(fitting) + 1
            if scores.argmax() < len(fitting):
                state, node = fitting[int(scores.argmax())]
                assert answer is not None and (answer.job_id, answer.node) == (state.job.job_id, node)
                assert seen.fits(state, node)[answer.executor]
        decision.answer(answer)


def test_on_empty_pools_a_node_is_assigned_while_its_data_are_on_their_way() -> None:
    """No decision follows the arrival of data: 1 s of the first node, 5 s of its transfer, 1 s of the second node."""
    demands = [{"cores": 1.0}] * 2
    job = Job(0, [1.0, 1.0], [(0, 1, 5.0)], eligible=[["a"], ["b"]], demands=demands)
    executors = Executors([1.0, 1.0], 1.0, names=["a", "b"], capacities=[{"cores": 2}] * 2)
    config = CONFIGS[0]
    result = simulate(DagCluster([job], executors), GraphAgent(policy_of(config), config))
    assert result.metrics()["makespan"] == 7.0


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_batch_gives_what_one_by_one_gives(config: GraphConfig) -> None:
    policy, rng = deepcopy(policy_of(config)).double(), np.random.default_rng(3)
    gym_env = make_env(GraphTraining(config, episodes=GraphEpisodes((3, 9), (3, 5))))
    seen, _ = gym_env.reset(seed=5)
    shown = []
    for _ in range(60):
        shown.append(seen)
        seen, _, over, _, _ = gym_env.step(int(rng.choice(np.flatnonzero(seen["action_mask"]))))
        if over:
            seen, _ = gym_env.reset()
    batch = {name: np.stack([one[name] for one in shown]) for name in shown[0]}
    tensors = to_tensors(batch)
    doubled = {name: one.double() if one.is_floating_point() else one for name, one in tensors.items()}
    with torch.inference_mode():
        together, values = policy(doubled)
        for number in range(len(shown)):
            alone, value = policy({name: one[number : number + 1] for name, one in doubled.items()})
            torch.testing.assert_close(alone.log_probabilities[0], together.log_probabilities[number])
            torch.testing.assert_close(value[0], values[number])


@pytest.mark.parametrize("kind", ["messages", "local"])
def test_what_is_kept_in_mind_is_what_would_be_computed(kind: Any) -> None:
    config = GraphConfig(kind)
    policy = deepcopy(policy_of(config))
    gym_env = make_env(GraphTraining(config, episodes=GraphEpisodes((6, 6), (4,))))
    seen, _ = gym_env.reset(seed=1)
    rng = np.random.default_rng(0)
    for step in range(60):
        tensors = to_tensors({name: array[None] for name, array in seen.items()})
        with torch.inference_mode():
            acting, value = policy(tensors)
        learning, expected = policy(tensors)  # which looks at everything anew
        torch.testing.assert_close(acting.log_probabilities, learning.log_probabilities.detach())
        torch.testing.assert_close(value, expected.detach())
        if step == 30:
            with torch.no_grad():
                for parameter in policy.parameters():
                    parameter.mul_(1.1)
        seen, _, terminated, _, _ = gym_env.step(int(rng.choice(np.flatnonzero(seen["action_mask"]))))
        if terminated:
            seen, _ = gym_env.reset()


def renumbered(job: Job, job_id: int, rng: np.random.Generator) -> Job:
    """Return the same job with its nodes given in another order, under their old names."""
    order = rng.permutation(job.num_nodes)
    edges = [
        (job.names[parent], job.names[child], size)
        for parent, children in enumerate(job.child_lists)
        for child, size in children
    ]
    rng.shuffle(edges)
    names = [job.names[node] for node in order]
    return Job(job_id, job.work[order], edges, submission_time=job.submission_time, names=names)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=6, deadline=None)
def test_numbering_changes_no_decision(config: GraphConfig, seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, executors = draw(rng, num_jobs=5, num_executors=4, mean_interval=0.0, ccr=1.0)
    # No two nodes alike, or which of them comes first is a matter of numbering.
    jobs = [scaled(job, float(rng.uniform(0.5, 2.0)), number) for number, job in enumerate(jobs)]
    agent = GraphAgent(policy_of(config), config)
    wanted = starts(simulate(DagCluster(jobs, executors), agent), jobs)
    order = rng.permutation(len(jobs)).tolist()
    moved = [renumbered(jobs[old], 100 + new, rng) for new, old in enumerate(order)]
    found = starts(simulate(DagCluster(moved, executors), agent), moved)
    names = {100 + new: jobs[old].job_id for new, old in enumerate(order)}
    assert {(names[job], *rest) for job, *rest in found} == set(wanted)


def scaled(job: Job, factor: float, job_id: int) -> Job:
    """Return a job with other amounts of work, each node with one of its own."""
    edges = [(parent, child, size) for parent, children in enumerate(job.child_lists) for child, size in children]
    work = job.work * factor * (1 + 0.01 * np.arange(job.num_nodes))
    names = [f"{job_id}.{node}" for node in range(job.num_nodes)]
    return Job(job_id, work, edges, submission_time=job.submission_time, names=names)


def starts(result: Any, jobs: list[Job]) -> list[tuple[Any, ...]]:
    """Return job, name of the node, executor and start of all copies."""
    by_id = {job.job_id: job for job in jobs}
    columns = ("job_id", "node", "executor", "starting_time")
    rows = result.table("copies").select(columns).iter_rows()
    return [(job, by_id[job].names[node], executor, round(start, 6)) for job, node, executor, start in rows]


def test_planning_ahead_and_one_executor_are_no_trouble() -> None:
    for config in CONFIGS:
        agent = GraphAgent(policy_of(config), config)
        for options in ({"plan_ahead": True}, {"num_executors": 1}):
            result = simulate(cluster(6, 3, **options), agent)
            validate(result)
            assert result.metrics()["jobs_completed"] == 3


def test_graphs_go_to_pytorch_geometric_and_back() -> None:
    simulation = Simulation(cluster(7))
    encoder = CONFIGS[0].encoder(SIZES)
    agent = GraphAgent(policy_of(CONFIGS[0]), CONFIGS[0])
    while (decision := simulation.advance()) is not None:
        graph = encoder.graph(decision.observation)
        data = to_data(graph)
        data.validate(raise_on_error=True)
        assert (data.num_nodes, data.num_edges) == (len(graph.nodes), len(graph.edges))
        assert data.x.shape[1] == len(FIXED_FEATURES)
        for name, array in vars(from_data(data)).items():
            np.testing.assert_array_equal(array, getattr(graph, name), err_msg=name)
        decision.answer(agent.act(decision.observation))


@pytest.mark.parametrize("objective", list(EXPERTS))
def test_experts_take_possible_actions_and_are_patient(objective: str) -> None:
    gym_env = make_env(GraphTraining(CONFIGS[0], episodes=GraphEpisodes((6, 6), (4,))))
    seen, _ = gym_env.reset(seed=2)
    over, waits = False, 0
    while not over:
        action = int(EXPERTS[objective]({name: array[None] for name, array in seen.items()})[0])
        assert seen["action_mask"][action]
        waits += action == len(seen["action_mask"]) - 1
        seen, _, over, _, _ = gym_env.step(action)
    assert waits > 0 or objective == "turnaround_time_mean"
    assert gym_env.result().metrics()["jobs_completed"] == 6


def small_training(config: GraphConfig, seed: int = 0, warm_start: int = 2, **changes: Any) -> GraphTraining:
    """Return a training of a few seconds."""
    training = TrainingConfig(
        300, seed, num_envs=4, num_steps=400, whole_episodes=True, group_size=4, validation_episodes=1, validate_every=1
    )
    episodes_of = GraphEpisodes((3, 4), (3,), (1.0,), (0.0,))
    settings_ = GraphTraining(config, episodes=episodes_of, warm_start=warm_start)
    return replace(settings_, training=replace(training, **changes))


def test_a_training_is_reproducible_and_its_weights_can_be_loaded(tmp_path: Path) -> None:
    settings_ = small_training(CONFIGS[0])
    results = [settings_.train() for _ in range(2)]
    curves = [[entry["validation"] for entry in result.history] for result in results]
    assert curves[0] == curves[1]
    for number, result in enumerate(results):
        settings_.write(tmp_path / f"a{number}", result)
    assert (tmp_path / "a0.safetensors").read_bytes() == (tmp_path / "a1.safetensors").read_bytes()
    agent = GraphAgent.load(tmp_path / "a0")
    assert (agent.name, agent.config) == (f"graph:{tmp_path}/a0", CONFIGS[0])
    validate(simulate(cluster(9, 3), agent))
    assert GraphTraining.of(load_weights(tmp_path / "a0")[1]) == settings_


def test_the_actor_critic_of_the_paper_learns_with_growing_episodes() -> None:
    default = small_training(CONFIGS[1], warm_start=0, first_length=5.0, num_steps=60)
    result = replace(default, learning=replace(default.learning, algorithm="a2c")).train()
    assert result.history[-1]["updates"] > 2
    assert "kl" not in result.history[-1]["figures"]


@pytest.mark.parametrize(
    ("config", "rounds", "least"), [pytest.param(CONFIGS[0], 12, 0.5, marks=pytest.mark.slow), (PLANNED, 20, 0.75)]
)
def test_an_imitator_comes_to_agree_with_its_expert(config: GraphConfig, rounds: int, least: float) -> None:
    told: list[dict[str, Any]] = []
    small_training(config, warm_start=rounds, total_steps=1).train(report=told.append)
    assert told[0]["agreement"] > least


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: GraphConfig(kind="other"), "kind: got 'other', expected one of 'messages', 'local'"),
        (lambda: GraphConfig(mode="other"), "mode: got 'other'"),
        (lambda: GraphConfig(width=0), "width and hidden: got 0"),
        (lambda: GraphEpisodes((0, 3)), r"num_jobs: got \(0, 3\)"),
        (lambda: GraphEpisodes(ccr=()), "ccr: got no value"),
    ],
)
def test_configurations_that_make_no_sense_are_refused(make: Any, what: str) -> None:
    with pytest.raises(InvalidConfiguration, match=what):
        make()


def test_relative_features_do_not_depend_on_the_unit_of_time() -> None:
    config = GraphConfig("messages", "idle", relative=True)
    jobs = list(cluster(4).jobs)
    executors = cluster(4).executors
    scaled = [  # by powers of 2, so that all quotients are equal to the bit
        Job(
            job.job_id,
            job.work / 64.0,
            [(int(parent), child, size / 64.0) for child, row in enumerate(job.parent_lists) for parent, size in row],
            submission_time=job.submission_time / 64.0,
        )
        for job in jobs
    ]
    found = []
    for given_jobs in (jobs, scaled):
        result = simulate(DagCluster(given_jobs, executors), GraphAgent(policy_of(config, 2), config))
        found.append(result.metrics()["makespan"])
    assert found[0] == 64.0 * found[1]
    absolute = replace(config, relative=False)
    other = [simulate(DagCluster(one, executors), GraphAgent(policy_of(config, 2), absolute)) for one in (jobs, scaled)]
    assert other[0].metrics()["makespan"] != 64.0 * other[1].metrics()["makespan"]
