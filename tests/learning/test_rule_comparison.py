"""How trained weights stand against rules, and what a bar is told while they are trained."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from desim import simulate
from desim.agents.batch import create
from desim.agents.batch.split_window import SplitWindowAgent, SplitWindowConfig
from desim.agents.batch.training import EpisodeOptions, SplitWindowTraining, make_env
from desim.agents.dag.training import GraphEpisodes, GraphTraining
from desim.agents.deferrable.training import DeferrableEpisodes, ScoreTraining
from desim.agents.learning.rule_comparison import RuleComparison, compare_with_rules
from desim.agents.learning.training import TrainingConfig, validation_seeds
from desim.statistics import Estimate
from desim.workloads import deferrable

LOOP = TrainingConfig(60, 1, num_envs=2, num_steps=10, validation_episodes=3, validate_every=2)
BATCH = SplitWindowTraining(
    agent=SplitWindowConfig(4, 2, hidden=(8,), num_cores=16),
    episodes=EpisodeOptions(load=(1.5,), num_traces=2, trace_jobs=60, num_jobs=15),
    training=LOOP,
)


def test_differences_are_those_of_the_agents_on_the_same_episodes() -> None:
    told: list[int] = []
    result = BATCH.train(progress=told.append)
    assert told == [20, 40, 60]
    found = BATCH.compare_with_rules(result.weights)
    assert [one.rule for one in found] == ["easy-fcfs", "easy-sjf"]
    policy = BATCH.agent.policy(np.random.default_rng(0))
    policy.load_state_dict(result.weights)
    agents: dict[str, Any] = {"ours": SplitWindowAgent(policy, BATCH.agent)}
    agents |= {one.rule: create(one.rule) for one in found}
    waits: dict[str, list[float]] = {name: [] for name in agents}
    for seed in validation_seeds(3):
        for name, agent in agents.items():
            gym_env = make_env(BATCH, validation=True)
            gym_env.reset(seed=seed)
            run = simulate(gym_env.simulation.problem, agent)
            waits[name].append(run.metrics(unfinished="include")["waiting_time_mean"])
    assert np.mean(waits["ours"]) == pytest.approx(result.best["waiting_time_mean"])
    for one in found:
        assert one.mean == pytest.approx(np.mean(waits[one.rule]))
        assert one.difference.mean == pytest.approx(np.mean(waits["ours"]) - np.mean(waits[one.rule]))
        assert one.difference.num_values == 3


@pytest.mark.parametrize("problem", ["dag", "deferrable"])
def test_all_problems_have_rules_to_compare_with(problem: str) -> None:
    short: Any = replace(deferrable.DEFAULT, num_slots=12, arrival_rate=2.0)
    settings: Any = {
        "dag": GraphTraining(episodes=GraphEpisodes((1, 2), (2,), (1.0,), (0.0,)), training=LOOP),
        "deferrable": ScoreTraining(training=LOOP, episodes=DeferrableEpisodes((short,))),
    }[problem]
    weights = dict(settings.agent.policy(np.random.default_rng(0)).state_dict())
    found = settings.compare_with_rules(weights)
    assert [one.rule for one in found] == list(settings.rules)
    assert all(np.isfinite(one.difference.mean) for one in found)
    assert compare_with_rules(settings, weights, ["fifo-deft" if problem == "dag" else "fifo"])[0].rule.startswith(
        "fifo"
    )


def test_a_return_is_no_measure_of_rules() -> None:
    by_return = replace(BATCH, reward="long-waits")
    assert by_return.compare_with_rules(dict(by_return.agent.policy(np.random.default_rng(0)).state_dict())) == []


@pytest.mark.parametrize(
    ("change", "maximize", "words"),
    [
        (-20.0, False, r"better than easy \(wait 200\): -10.0 ± 2.5 %"),
        (20.0, False, "worse than easy"),
        (20.0, True, "better than easy"),
        (4.0, True, "level with easy"),
    ],
)
def test_it_is_told_in_words(change: float, maximize: bool, words: str) -> None:
    text = str(RuleComparison("easy", "wait", 200.0, Estimate(change, 5.0, 9, 0.95), maximize))
    assert re.match(words, text)
