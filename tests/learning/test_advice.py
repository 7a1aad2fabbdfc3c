"""Answers of agents as actions of encoders with many numbers, and networks that learn from these agents."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from learning_cases import Bandit, bandit_policy, collector

from desim import simulate
from desim.agents.deferrable import create
from desim.agents.deferrable.score_agent import ScoreConfig
from desim.agents.deferrable.training import DeferrableEpisodes, ScoreTraining
from desim.agents.learning.imitation import EXPERT, ExpertLabelledEnv, imitate
from desim.agents.learning.learner import LearningConfig
from desim.agents.learning.ppo import PPO
from desim.agents.learning.training import TrainingConfig
from desim.agents.multiserver import create as create_multiserver
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster
from desim.problems.deferrable.encoder import ScoreEncoder
from desim.problems.deferrable.env import DeferrableEnv
from desim.problems.multiserver.env import AllocationEncoder, MultiServerEnv
from desim.workloads import deferrable

SHORT: Any = replace(deferrable.DEFAULT, num_slots=24, arrival_rate=3.0)
EPISODES = DeferrableEpisodes((SHORT,))


class Told:
    """Does as an agent does, and notes what an encoder makes of its answers."""

    def __init__(self, agent: Any, encoder: Any) -> None:
        self.agent, self.encoder = agent, encoder
        self.pairs: list[tuple[list[int], list[int] | None]] = []

    def act(self, seen: Any) -> Any:
        """Return the agent's answer."""
        answer = self.agent.act(seen)
        action = self.encoder.encode_action(seen, answer)
        decoded = None if action is None else self.encoder.decode(seen, action)[0] or []
        self.pairs.append((list(answer or []), decoded))
        return answer


@pytest.mark.parametrize("rule", ["stop", "skip", "reserve"])
@pytest.mark.parametrize("threshold", [-1.0, -0.5, 0.0, 0.6])
def test_scores_that_start_the_same_jobs(rule: Any, threshold: float) -> None:
    scenario = deferrable.generate(SHORT, seed=3)
    cluster = DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=24, overcommit=False)
    encoder = ScoreEncoder(rule=rule, threshold=threshold)
    for name in ("fifo", "list-plan", "sjf"):
        told = Told(create(name), encoder)
        simulate(cluster, told)
        known = [(answer, found) for answer, found in told.pairs if found is not None]
        assert all(sorted(answer) == sorted(found) for answer, found in known)
        if threshold > -1 and rule != "reserve":
            assert len(known) == len(told.pairs)  # whoever can hold jobs back can do as everybody does
        assert sum(bool(answer) for answer, _ in known) >= 5
    small = ScoreEncoder(1, rule=rule, threshold=threshold)
    told = Told(create("fifo"), small)
    simulate(cluster, told)
    assert any(found is None for _, found in told.pairs)  # jobs that it does not show


def test_shares_that_are_the_same_allocation() -> None:
    gym_env = MultiServerEnv(num_slots=20)
    gym_env.reset(seed=0)
    encoder: Any = gym_env.encoder
    agent: Any = create_multiserver("fairness")
    for _ in range(19):
        seen = gym_env.observation
        answer = agent.act(seen)
        action = encoder.encode_action(seen, answer)
        assert gym_env.action_space.contains(np.clip(action, -1, 1))
        np.testing.assert_allclose(encoder.decode(seen, action)[0], answer, rtol=1e-4, atol=1e-4)
        gym_env.step(action)
    seen = gym_env.observation
    assert (encoder.encode_action(seen, None) == -1).all()
    assert encoder.encode_action(seen, 3.0 * np.ones(encoder.shape) * seen.graph.channel_requests) is None
    assert isinstance(encoder, AllocationEncoder)


def test_environments_with_several_numbers_tell_what_the_agent_would_do() -> None:
    gym_env = ExpertLabelledEnv(DeferrableEnv(EPISODES, max_jobs=2, rule="skip", threshold=0.0), create("fifo"))
    shown, _ = gym_env.reset(seed=1)
    unknown, over = 0, False
    while not over:
        assert shown[EXPERT].dtype == np.float32
        assert shown[EXPERT].shape == (2,)
        unknown += bool(np.isnan(shown[EXPERT]).any())
        shown, _, terminated, truncated, _ = gym_env.step(np.nan_to_num(shown[EXPERT]))
        over = terminated or truncated
    assert unknown


def test_a_network_for_deferrable_jobs_learns_from_any_agent() -> None:
    training = TrainingConfig(0, 1, num_envs=4, num_steps=60, validation_episodes=2)
    settings = ScoreTraining(
        ScoreConfig(max_jobs=12, width=16, layers=1, rule="skip", threshold=0.0, auxiliary="none"),
        training=training,
        episodes=EPISODES,
        warm_start=8,
        expert="list-plan-worth",
    )
    result = settings.train()
    at_first = replace(settings, warm_start=1).train().history[0]["agreement"]
    assert result.history[0]["agreement"] > max(0.4, at_first + 0.05)
    assert "--expert list-plan-worth" in settings.command()
    again = settings.train()
    assert again.history[0]["validation"] == result.history[0]["validation"]
    with pytest.raises(InvalidConfiguration, match="nobody"):
        replace(settings, expert="nobody")


def test_an_expert_that_cannot_be_told_teaches_nothing() -> None:
    learner = PPO(bandit_policy(), LearningConfig(), np.random.default_rng(0))
    collect = partial(collector(2, make=Bandit).collect, learner.policy, 4)
    with pytest.raises(InvalidConfiguration, match="nothing to imitate"):
        imitate(learner, collect, lambda shown: np.full(len(shown["sign"]), -1), rounds=1)
