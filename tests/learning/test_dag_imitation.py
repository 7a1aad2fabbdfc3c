"""Networks for DAG jobs that learn from agents: what their answers mean as actions, and what becomes of advice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from desim import simulate
from desim.agents.dag import create
from desim.agents.dag.graph_agent import GraphConfig
from desim.agents.dag.training import GraphEpisodes, GraphTraining, make_env
from desim.agents.learning.imitation import EXPERT, ExpertLabelledEnv
from desim.agents.learning.pretrained import pretrained_stem
from desim.agents.learning.training import TrainingConfig
from desim.core import prepare_agent
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Assign, DagCluster, Executors, Job
from desim.problems.dag.env import DagEnv
from desim.problems.dag.graph_encoder import GraphSizes
from desim.validation import validate

EVERYTHING = GraphEpisodes((3, 6), (3, 5), graphs=("tpch", "random"), loads=(0.0, 0.8))


def test_episodes_may_be_of_several_kinds_and_loads() -> None:
    labels, last = set(), []
    for seed in range(8):
        jobs = list(EVERYTHING.draw(np.random.default_rng(seed)).jobs)
        labels.add(jobs[0].label.startswith("random"))
        last.append(jobs[-1].submission_time)
    assert labels == {True, False}
    assert min(last) == 0.0 < max(last)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("rank-up-deft-patient", "idle"),
        ("fifo-deft-idle", "idle"),
        ("graph:tpch-completion", "idle"),
        ("rank-up-deft", "immediate"),
        ("rank-up-insertion-deft", "planned"),
    ],
)
def test_who_follows_advice_does_what_the_expert_does(name: str, mode: Any) -> None:
    settings_ = GraphTraining(GraphConfig(mode=mode), episodes=EVERYTHING, expert=name)
    for seed in range(3):
        advised = ExpertLabelledEnv(make_env(settings_), create(name))
        seen, _ = advised.reset(seed=seed)
        over = False
        while not over:
            seen, _, over, _, _ = advised.step(int(seen[EXPERT]))
        other = make_env(settings_)
        other.reset(seed=seed)
        simulation, agent = other.simulation, create(name)
        prepare_agent(agent, simulation)
        while (decision := simulation.advance()) is not None:
            decision.answer(agent.act(decision.observation))
        assert advised.unwrapped.result().jobs.equals(simulation.finish().jobs)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["rank-up-eft", "fifo-eft"])
def test_pairs_of_node_and_executor_tell_what_rules_answer(name: str) -> None:
    episodes: Any = [DagCluster(*_small(seed)) for seed in range(2)]
    advised = ExpertLabelledEnv(DagEnv(episodes, 3, max_nodes=64), create(name))
    seen, _ = advised.reset(seed=1)
    problem = advised.unwrapped.simulation.problem  # type: ignore[attr-defined]
    over = False
    while not over:
        assert seen["action_mask"][int(seen[EXPERT])]
        seen, _, over, _, _ = advised.step(int(seen[EXPERT]))
    there = simulate(DagCluster(problem.jobs, problem.executors), create(name))
    assert advised.unwrapped.result().jobs.equals(there.jobs)  # type: ignore[attr-defined]


def _small(seed: int) -> tuple[list[Job], Executors]:
    """Return six jobs of both kinds on three executors."""
    made = GraphEpisodes((6, 6), (3,), graphs=("tpch", "random"), loads=(0.8,)).draw(np.random.default_rng(seed))
    return list(made.jobs), made.executors


@pytest.mark.parametrize("guide", ["", ":graph:tpch-completion"])
def test_a_search_gives_advice_whatever_is_done_with_it(guide: str) -> None:
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    for seed in range(3):
        gym_env = make_env(GraphTraining(GraphConfig(), episodes=EVERYTHING))
        advised = ExpertLabelledEnv(gym_env, create(f"search:dag:turnaround_time_mean:20{guide}"))
        seen, _ = advised.reset(seed=seed)
        over, advice_ = False, []
        while not over:
            advice_.append(int(seen[EXPERT]))
            possible = np.flatnonzero(seen["action_mask"])
            assert advice_[-1] == -1 or advice_[-1] in possible
            follow = advice_[-1] >= 0 and rng.random() < 0.5
            seen, _, over, _, _ = advised.step(advice_[-1] if follow else int(rng.choice(possible)))
        assert len({one for one in advice_ if one >= 0}) > 3
        validate(gym_env.result())


def test_answers_become_nodes() -> None:
    encoder = GraphConfig().encoder(GraphSizes(jobs=1, candidates=3))
    found: dict[str, int | None] = {}

    class Asking:
        def act(self, seen: Any) -> None:
            if not found:
                placed = [encoder.decode(seen, node)[0] for node in range(3)]
                first, second = placed[0], placed[1]
                other = second._replace(executor=1 - second.executor)
                for name, answer in {
                    "waits": None,
                    "waits, too": [None],
                    "one": second,
                    "elsewhere": other,
                    "several": [other, first, None],
                    "none as the allocation": [other, first._replace(executor=1 - first.executor)],
                    "hidden": Assign(0, 3, 0),
                    "hidden first": [Assign(0, 3, 0), second],
                }.items():
                    found[name] = encoder.encode_action(seen, answer)

    jobs = [Job(0, [3.0, 2.0, 1.0, 1.0], allow_disconnected=True)]
    simulate(DagCluster(jobs, Executors([1.0, 1.5])), Asking(), until=0.5)
    assert list(found.values()) == [3, 3, 1, 1, 0, 0, None, 1]
    assert GraphConfig(mode="immediate").encoder(GraphSizes(jobs=1, candidates=3)).encode_action(None, None) is None


def test_a_network_learns_from_an_agent_that_sees_everything() -> None:
    pytest.importorskip("numba")
    told: list[dict[str, Any]] = []
    training = TrainingConfig(0, 0, num_envs=4, num_steps=400, whole_episodes=True, validation_episodes=1)
    expert = "search:dag:turnaround_time_mean:10"
    settings = GraphTraining(training=training, episodes=EVERYTHING, warm_start=3, expert=expert)
    result = settings.train(report=told.append)
    assert "--expert search:dag:turnaround_time_mean:10" in settings.command()
    assert 0.2 < told[0]["agreement"] < 1.0
    assert len(result.history) == 1
    with pytest.raises(InvalidConfiguration, match="nobody"):
        GraphTraining(expert="nobody")


def test_a_training_may_begin_with_given_weights() -> None:
    config, policy = GraphConfig.load(pretrained_stem("local-imitating-search", "graph"))
    training = TrainingConfig(total_steps=0, num_envs=1, validation_episodes=1)
    settings_ = GraphTraining(config, training=training, episodes=EVERYTHING, start="local-imitating-search")
    assert "--start local-imitating-search" in settings_.command()
    found = settings_.train().weights
    assert all(found[name].equal(tensor) for name, tensor in policy.state_dict().items())
    with pytest.raises(InvalidConfiguration, match=r"start: got weights for GraphConfig\(kind='local'"):
        GraphTraining(training=training, episodes=EVERYTHING, start="local-imitating-search").train()
