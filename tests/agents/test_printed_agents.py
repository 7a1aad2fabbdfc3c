"""LACHESIS as printed and Decima as released: their networks against plain loops, and what the agents do with them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from desim import Simulation, simulate  # noqa: E402
from desim.agents.dag import DEFT  # noqa: E402
from desim.agents.dag.printed import DecimaAgent, DecimaConfig, LachesisAgent, LachesisConfig  # noqa: E402
from desim.agents.dag.training import DecimaTraining, LachesisTraining  # noqa: E402
from desim.agents.learning.learned import plain  # noqa: E402
from desim.agents.learning.policy import to_tensors  # noqa: E402
from desim.exceptions import InvalidConfiguration  # noqa: E402
from desim.problems.dag import DagCluster  # noqa: E402
from desim.problems.dag.graph_encoder import GraphSizes  # noqa: E402
from desim.validation import validate  # noqa: E402
from desim.workloads.dag.registry import draw  # noqa: E402

SIZES = GraphSizes(jobs=10, candidates=60)
KINDS: dict[str, tuple[Any, Any]] = {
    "lachesis": (LachesisAgent, LachesisConfig()),
    "decima": (DecimaAgent, DecimaConfig()),
}


@cache
def policy_of(config: Any, seed: int = 0) -> Any:
    """Return a network in double precision that is far from indifferent; do not change it."""
    policy = config.policy(np.random.default_rng(seed)).double()
    with torch.no_grad():
        for score in [policy.actor.score] if hasattr(policy, "actor") else [policy.score]:
            score[-1].weight.mul_(30.0)
    return policy.eval()


def cluster(seed: int, **options: Any) -> DagCluster:
    """Return queries like those of TPC-H on a few executors."""
    options = {"num_jobs": 7, "num_executors": 5, "mean_interval": 40.0, "ccr": 2.0} | options
    return DagCluster(*draw(np.random.default_rng(seed), **options))


def decisions(seed: int, config: Any, count: int = 30) -> list[tuple[Any, Any]]:
    """Return observations of a run, encoded as batches of one, with what is seen as a graph."""
    encoder, rng, found = config.encoder(SIZES), np.random.default_rng(seed), []
    simulation = Simulation(cluster(seed))
    while (decision := simulation.advance()) is not None:
        seen = decision.observation
        tensors = to_tensors({name: array[None] for name, array in encoder.encode(seen).items()})
        doubled = {name: one.double() if one.is_floating_point() else one for name, one in tensors.items()}
        found.append((doubled, encoder.graph(seen)))
        state, node = list(seen.ready.values())[int(rng.integers(len(seen.ready)))]
        decision.answer(DEFT().allocate(seen, state, node))
    return [found[at] for at in rng.choice(len(found), min(count, len(found)), replace=False)]


def of_job(graph: Any) -> Any:
    """Return the job of each node."""
    return np.repeat(np.arange(len(graph.job_start) - 1), np.diff(graph.job_start))


@pytest.mark.parametrize("config", [LachesisConfig(), LachesisConfig(layers=1, executor_state=False)])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=4, deadline=None)
def test_lachesis_follows_equation_7(config: LachesisConfig, seed: int) -> None:
    net = policy_of(config).actor
    for tensors, graph in decisions(seed, config, 6):
        job = of_job(graph)
        x = torch.tensor(np.concatenate([graph.jobs[job][:, [0, 2]], graph.nodes[:, :5]], axis=1)).double()
        e = list(x)
        with torch.no_grad():
            for _ in range(config.layers):
                new = []
                for node in range(len(x)):
                    below = np.flatnonzero(graph.edges[:, 0] == node)
                    heard = sum((e[child] for child in graph.edges[below, 1]), torch.zeros(7).double())
                    sizes = torch.tensor([float(graph.edge_times[below].astype(float).sum())]).double()
                    new.append(net.g(heard) + net.h(sizes) + x[node])
                e = new
            y = [net.of_job(sum(e[n] for n in np.flatnonzero(job == j))) for j in range(len(graph.jobs))]  # type: ignore[arg-type]
            z = net.of_all(sum(y))  # type: ignore[arg-type]
            if config.executor_state:
                z = torch.cat([z, torch.tensor(graph.system[[5, 6, 7]]).double()])
            wanted = [net.score(torch.cat([e[n], y[job[n]], z])) for n in graph.candidate_nodes.tolist()]
            found = net(tensors)[0, : len(wanted)]
        torch.testing.assert_close(found, torch.cat(wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", [DecimaConfig(), DecimaConfig(depth=2)])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=4, deadline=None)
def test_decima_sees_and_adds_up_what_its_program_does(config: DecimaConfig, seed: int) -> None:
    net = policy_of(config)
    for tensors, graph in decisions(seed, config, 6):
        job = of_job(graph)
        with torch.no_grad():
            running, free = np.expm1(4 * graph.jobs[:, 1].astype(float)), 50 * float(graph.system[5])
            seconds = np.expm1(4 * graph.nodes[:, 0].astype(float))
            rows = [
                [running[job[n]] / 20, free / 20, seconds[n] / 100 * graph.unassigned[n], graph.unassigned[n] / 200]
                for n in range(len(job))
            ]
            x = torch.tensor(rows).double()
            own = net.prepare(x)

            def level(node: int, graph: Any = graph) -> int:
                below = graph.edges[graph.edges[:, 0] == node, 1]
                return max((level(child) + 1 for child in below), default=0)

            def embedded(node: int, own: Any = own, graph: Any = graph) -> Any:
                below = graph.edges[graph.edges[:, 0] == node, 1]
                if not len(below) or level(node) > config.depth:
                    return own[node]
                return own[node] + net.gather(sum(net.message(embedded(child)) for child in below))

            e = [embedded(node) for node in range(len(job))]
            told = [net.of_node(torch.cat([x[n], e[n]])) * float(graph.unassigned[n]) for n in range(len(job))]
            y = [sum(told[n] for n in np.flatnonzero(job == j)) for j in range(len(graph.jobs))]
            z = sum(net.of_job(one) for one in y)
            wanted = [net.score(torch.cat([x[n], e[n], y[job[n]], z])) for n in graph.candidate_nodes.tolist()]  # type: ignore[list-item]
            logs = net(tensors)[0].log_probabilities[0, : len(wanted)]
        torch.testing.assert_close(logs, torch.cat(wanted).log_softmax(-1), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_gives_what_one_by_one_gives(kind: str) -> None:
    config = KINDS[kind][1]
    policy, shown = policy_of(config), [tensors for tensors, _ in decisions(4, config, 40)]
    with torch.inference_mode():
        together, values = policy({name: torch.cat([one[name] for one in shown]) for name in shown[0]})
        assert not values.any()
        for number, one in enumerate(shown):
            torch.testing.assert_close(policy(one)[0].log_probabilities[0], together.log_probabilities[number])


@pytest.mark.parametrize("kind", KINDS)
def test_the_agent_assigns_by_deft_what_its_network_finds_best(kind: str) -> None:
    agent_class, config = KINDS[kind]
    policy = config.policy(np.random.default_rng(5))
    agent, encoder, deft = agent_class(policy, config, name=kind), config.encoder(SIZES), DEFT()
    simulation = Simulation(cluster(3))
    choices = set()
    while (decision := simulation.advance()) is not None:
        seen = decision.observation
        answer = agent.act(seen)
        with torch.inference_mode():
            tensors = to_tensors({name: array[None] for name, array in encoder.encode(seen).items()})
            best = int(policy(tensors)[0].mode())
        assert answer == deft.allocate(seen, *list(seen.ready.values())[best])
        choices.add(best)
        decision.answer(answer)
    assert len(choices) > 5
    validate(simulate(cluster(3), agent))


def test_an_entropy_is_a_share_of_the_most_that_it_can_be() -> None:
    config = DecimaConfig()
    policy = config.policy(np.random.default_rng(0)).double()
    with torch.no_grad():
        policy.score[-1].weight.zero_()
        for tensors, graph in decisions(2, config, 20):
            wanted = 1.0 if len(graph.candidate_nodes) > 1 else 0.0
            assert float(policy(tensors)[0].entropy()) == pytest.approx(wanted, abs=1e-6)


def small(settings_class: Any) -> Any:
    """Return a training of seconds."""
    quick = settings_class.quick()
    changes = {"total_steps": 60, "num_steps": 30, "validation_episodes": 2, "validate_every": 1, "first_length": 9.0}
    training = replace(quick.training, **changes)
    return replace(quick, training=training, episodes=replace(quick.episodes, num_jobs=(1, 3), num_executors=(4,)))


@pytest.mark.parametrize("settings_class", [LachesisTraining, DecimaTraining])
def test_a_training_writes_weights_that_the_agent_reads(settings_class: Any, tmp_path: Path) -> None:
    chosen = small(settings_class)
    result = chosen.train(tmp_path / "checkpoint")
    assert result.status == "complete"
    assert [b["steps"] > a["steps"] for a, b in pairwise(result.history)] == [True] * (len(result.history) - 1)
    chosen.write(tmp_path / chosen.default_name, result)
    agent = KINDS[chosen.agent.agent_kind][0].load(tmp_path / chosen.default_name)
    assert agent.config == chosen.agent
    assert agent.name == f"{chosen.agent.agent_kind}:{tmp_path / chosen.default_name}"
    assert simulate(cluster(1), agent).metrics()["jobs_completed"] == 7
    assert f"desim train {chosen.trained}" in chosen.command()
    assert settings_class.of({"training": chosen.plain(), "config": plain(chosen.agent)}) == chosen


def test_trainings_are_those_of_the_papers() -> None:
    lachesis, decima = LachesisTraining(), DecimaTraining()
    assert (lachesis.agent.layers, lachesis.agent.hidden) == (3, (32, 16, 8))
    assert lachesis.learning.algorithm == "q_actor_critic"
    assert lachesis.training.first_length is not None
    assert lachesis.training.num_envs == 1
    assert (decima.agent.inner, decima.agent.width, decima.agent.depth) == ((16, 8), 8, 8)
    assert (decima.learning.algorithm, decima.learning.standardize) == ("reinforce", False)
    assert decima.training.num_envs == decima.training.group_size == 16
    for one in (lachesis, decima):
        assert one.learning.discount == 1.0
        assert one.episodes.num_executors == (50,)
        assert one.episodes.intervals == (0.0,)


@pytest.mark.parametrize("make", [lambda: LachesisConfig(hidden=()), lambda: LachesisConfig(layers=0)])
def test_configurations_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(InvalidConfiguration):
        make()
