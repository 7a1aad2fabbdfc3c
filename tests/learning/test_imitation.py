"""Behavioural cloning, and what it leaves alone."""

from __future__ import annotations

import json
from functools import partial
from itertools import combinations
from typing import Literal

import numpy as np
import pytest
import torch
from learning_cases import Bandit, bandit_policy

from desim import simulate
from desim.agents.batch import SimpleBackfilling
from desim.agents.batch.split_window import SplitWindowAgent, SplitWindowConfig
from desim.agents.batch.training import EXPERTS, aged, reserving, shortest
from desim.agents.batch.window_rules import WindowRule
from desim.agents.learning.imitation import Expert, imitate
from desim.agents.learning.learner import Discounting
from desim.agents.learning.ppo import PPO, PPOConfig
from desim.agents.learning.rollout import Collector
from desim.envs import ACTION_MASK
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, BatchObservation, Job
from desim.problems.batch.encoders import FeatureEncoder, FlatEncoder, SplitWindow, WindowEncoder
from desim.problems.batch.env import BatchEnv, TraceEpisodes
from desim.workloads import lublin

#: All masks of the bandit.
PAIRS = np.array([[number in pair for number in range(4)] for pair in combinations(range(4), 2)], int)


def best_arm(observations: dict[str, np.ndarray]) -> np.ndarray:
    worth = observations["sign"] @ Bandit.worth
    return np.where(observations["action_mask"] == 1, worth, -1.0).argmax(1)


def test_the_best_arm_is_learned_from_an_expert() -> None:
    learner = PPO(bandit_policy(), PPOConfig(discounting=Discounting(0.0, 0.0)), np.random.default_rng(0))
    collector = Collector(Bandit, np.random.SeedSequence(0).spawn(8), np.random.default_rng(0))
    before = json.dumps(learner.optimizer.state_dict()["state"])
    agreements = imitate(
        learner,
        lambda: collector.collect(learner.policy, 64),
        best_arm,
        num_rollouts=15,
        minibatch_size=64,
        learning_rate=1e-2,
    )
    assert len(agreements) == 15
    assert 0.3 < agreements[0] < 0.95
    assert agreements[-1] > 0.99
    assert json.dumps(learner.optimizer.state_dict()["state"]) == before  # its own optimizer is not touched
    # The critic learns as well: what is earned at once, on average over the masks.
    signs = torch.eye(3)
    values = learner.moments.restored(learner.policy.critic(signs).detach().squeeze(1).numpy())
    shown, mask = np.repeat(np.eye(3), 6, 0), np.tile(PAIRS, (3, 1))
    earned = np.take_along_axis(shown @ Bandit.worth, best_arm({"sign": shown, "action_mask": mask})[:, None], 1)
    np.testing.assert_allclose(values, earned.reshape(3, 6).mean(1), atol=0.05)


def test_no_more_rollouts_than_asked_for() -> None:
    learner = PPO(bandit_policy(), PPOConfig(), np.random.default_rng(0))
    weights = {name: tensor.clone() for name, tensor in learner.policy.state_dict().items()}
    assert imitate(learner, lambda: pytest.fail("asked"), best_arm, num_rollouts=0) == []
    assert all(torch.equal(tensor, weights[name]) for name, tensor in learner.policy.state_dict().items())


TRACE = lublin.generate(1_500, 32, seed=5, load=1.0)


class Compared:
    """Acts by a rule and notes whether the expert agrees."""

    def __init__(self, rule: WindowRule, expert: Expert, encoder: WindowEncoder) -> None:
        self.rule, self.expert, self.encoder = rule, expert, encoder
        self.answers: list[tuple[int | None, int | None]] = []

    def act(self, seen: BatchObservation) -> int | None:
        """Return the rule's answer."""
        wanted = self.rule.act(seen)
        batch = {name: array[None] for name, array in self.encoder.encode(seen).items()}
        self.answers.append((wanted, self.encoder.decode(seen, self.expert(batch)[0])[0]))
        return wanted


@pytest.mark.parametrize(
    ("name", "observation"),
    [("shortest", "features"), ("shortest", "flat"), ("reserving", "features"), ("aged", "features")],
)
def test_the_experts_of_the_warm_start_are_the_rules(
    name: Literal["shortest", "reserving", "aged"], observation: str
) -> None:
    split, longest = SplitWindow(5, 3), max(job.requested_time for job in TRACE)
    encoder: WindowEncoder = FlatEncoder(split, 32, longest_time=longest)
    if observation == "features":
        encoder = FeatureEncoder(split, reserve_after=3_000.0 if name == "aged" else np.inf)
    agent = Compared(WindowRule(name, 5, 3), EXPERTS[name], encoder)
    simulate(BatchCluster(TRACE, 32), agent)
    assert len(agent.answers) > 1_500
    assert sum(wanted is not None for wanted, _ in agent.answers) == len(TRACE)
    assert all(wanted == found for wanted, found in agent.answers)


@pytest.mark.parametrize("expert", [reserving, aged])
def test_other_experts_need_features(expert: Expert) -> None:
    with pytest.raises(InvalidConfiguration, match="needs features"):
        expert({ACTION_MASK: np.ones((1, 2)), "jobs": np.zeros((1, 1, 3))})


def test_a_cloned_agent_does_as_the_rule_does() -> None:
    config = SplitWindowConfig(8, 4, hidden=(32, 16))
    make = partial(
        BatchEnv, TraceEpisodes([TRACE], 32, num_jobs=150), 32, window=(8, 4), num_jobs=150, skip_forced=True
    )
    learner = PPO(config.policy(np.random.default_rng(0)), PPOConfig(), np.random.default_rng(0))
    collector = Collector(make, np.random.SeedSequence(0).spawn(8), np.random.default_rng(0))
    agreements = imitate(
        learner,
        lambda: collector.collect(learner.policy, 100),
        shortest,
        num_rollouts=14,
        epochs=6,
        minibatch_size=200,
        learning_rate=3e-3,
    )
    assert agreements[-1] > 0.95
    jobs: list[Job] = lublin.generate(400, 32, seed=77, load=1.0)
    found, wanted, other = (
        simulate(BatchCluster(jobs, 32), agent).metrics()["waiting_time_mean"]
        for agent in (SplitWindowAgent(learner.policy, config), WindowRule("shortest", 8, 4), SimpleBackfilling("fcfs"))
    )
    assert found == pytest.approx(wanted, rel=0.15)
    assert abs(found - wanted) < abs(other - wanted)


def test_waiting_is_the_expert_s_answer_where_nothing_fits() -> None:
    mask = np.array([[0, 0, 0, 1], [0, 1, 1, 1]], np.int8)
    jobs = np.array([[[1, 0.1, 0], [1, 0.2, 0], [1, 0.3, 0]]] * 2, np.float32)
    assert shortest({ACTION_MASK: mask, "jobs": jobs}).tolist() == [3, 1]
