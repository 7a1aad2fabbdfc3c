"""DBF as printed: what its network sees and does, a choice that is not possible, what it learns from."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from desim import simulate
from desim.agents.batch import create
from desim.agents.batch.dbf import DBFAgent, DBFConfig
from desim.agents.batch.training import DBFTraining, EpisodeOptions, make_dbf_env
from desim.agents.learning.experience import Collector, evaluate
from desim.agents.learning.policy import to_tensors
from desim.agents.learning.training import TrainingConfig
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.env import BatchEnv
from desim.workloads import lublin

CORES = 32
JOBS = lublin.generate(250, CORES, seed=11, load=1.1, overestimate=2.0)
CONFIG = DBFConfig(5, 3, hidden=(16, 8), num_cores=CORES)
TINY = DBFTraining(
    agent=replace(CONFIG, num_cores=16),
    episodes=EpisodeOptions(num_traces=2, trace_jobs=120, num_jobs=30),
    training=TrainingConfig(400, num_envs=1, num_steps=600, whole_episodes=True, validation_episodes=2),
)


def policy_of(config: DBFConfig, seed: int = 0) -> Any:
    """Return a network that has opinions: new ones are near to indifferent."""
    policy = config.policy(np.random.default_rng(seed))
    rng = np.random.default_rng(seed + 1)
    with torch.no_grad():
        for parameter in policy.actor.parameters():
            parameter.add_(0.3 * torch.from_numpy(rng.normal(size=parameter.shape)).float())
    return policy


def starts(agent: Any, jobs: list[Job], cores: int, seed: int = 0) -> list[float | None]:
    table = simulate(BatchCluster(jobs, cores), agent, seed=seed, until=1e6).jobs.sort("job_id")
    found: list[float | None] = table["starting_time"].to_list()
    return found


class TestAgent:
    def test_the_network_is_the_paper_s(self) -> None:
        policy = DBFConfig(9, 1).policy(np.random.default_rng(0))
        for network, outputs in ((policy.actor, 11), (policy.critic, 1)):
            layers = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
            assert [layer.out_features for layer in layers] == [1024, 512, 256, outputs]
            assert layers[0].in_features == 256 + 3 * 10
        assert policy.mask is None

    def test_it_acts_in_a_run_as_its_policy_does_in_the_environment(self) -> None:
        config = replace(CONFIG, sampled=False)
        agent = DBFAgent(policy_of(config), config)
        gym_env = BatchEnv(
            lambda rng: BatchCluster(JOBS, CORES), CORES, window=(5, 3), observation=config.encoder(), until=1e6
        )
        seen, _ = gym_env.reset(seed=0)
        policy, over, num_invalid = policy_of(config), False, 0
        while not over:
            with torch.inference_mode():
                action = int(policy(to_tensors({key: array[None] for key, array in seen.items()}))[0].mode())
            seen, _, terminated, truncated, info = gym_env.step(action)
            num_invalid += info["invalid"]
            over = terminated or truncated
        expected = gym_env.result().jobs.sort("job_id")["starting_time"].to_list()
        assert starts(agent, JOBS, CORES) == expected
        assert num_invalid > 10
        assert sum(start is not None for start in expected) > 50

    def test_actions_are_drawn_from_the_network(self) -> None:
        config = DBFConfig(2, 0, hidden=(4,), num_cores=4)
        policy = config.policy(np.random.default_rng(0))
        with torch.no_grad():
            for parameter in policy.actor.parameters():
                parameter.zero_()
            policy.actor[-1].bias.copy_(torch.log(torch.tensor([0.2, 0.5, 0.3])))
        jobs = [Job(2 * n + k, float(n), 1, 0.25, 0.25) for n in range(400) for k in (0, 1)]
        agent = DBFAgent(policy, config)
        table = simulate(BatchCluster(jobs, 4), agent, seed=3).jobs
        at_once = float((table["waiting_time"] == 0.0).mean())
        # At each instant the first of two is asked about alone (0.2 starts it; the empty slot and Fwd end the cycle),
        # then the second. Few start with the first question, all but a few within the next instants.
        assert 0.1 < at_once < 0.6
        assert starts(agent, jobs, 4, seed=3) == starts(agent, jobs, 4, seed=3) != starts(agent, jobs, 4, seed=4)
        greedy = DBFAgent(policy, replace(config, sampled=False))
        assert starts(greedy, jobs[:2], 4) == [None, 0.0]  # always the second slot, which is empty at first

    def test_what_it_is_not_made_for_is_refused(self) -> None:
        agent = DBFAgent(policy_of(CONFIG), CONFIG)
        with pytest.raises(InvalidConfiguration, match="dbf: got a cluster of 64 cores, expected 32"):
            simulate(BatchCluster(JOBS, 64), agent)
        with pytest.raises(InvalidConfiguration, match=r"window: got \(0, 0\)"):
            DBFConfig(0, 0)


class TestReward:
    def test_a_choice_that_is_not_possible_ends_the_cycle_and_costs_what_forwarding_does(self) -> None:
        # Of 4 cores job 0 takes 3 until 9; job 1 needs 2 and comes at 1; job 2 needs 1 and comes at 3.
        jobs = [Job(0, 0.0, 3, 9.0, 9.0), Job(1, 1.0, 2, 5.0, 5.0), Job(2, 3.0, 1, 1.0, 1.0)]

        def rewards(actions: list[int]) -> list[float]:
            gym_env = BatchEnv(lambda rng: BatchCluster(jobs, 4), 4, window=(3, 0), observation="flat", reward="paper")
            gym_env.reset(seed=0)
            return [gym_env.step(action)[1] for action in actions]

        forward = rewards([0, 3, 3])
        # At 1: a quarter of the cores is idle, one job is queued, the most so far, and has not waited yet. At 3: two
        # jobs are queued, of which the first has waited for 2 s: both are the most so far.
        assert forward == pytest.approx([0.0, -(0.25 + 1.0) / 3, -(0.25 + 1.0 + 1.0) / 3])
        assert rewards([0, 0, 0]) == forward  # job 1 does not fit
        assert rewards([0, 2, 2]) == forward  # the slot is empty


class TestTraining:
    def test_everything_is_asked_and_values_are_noted_after_the_fact(self) -> None:
        narrow = replace(TINY, agent=replace(TINY.agent, head=1, tail=0))
        policy, make = policy_of(narrow.agent), partial(make_dbf_env, narrow)
        collector = Collector(make, [np.random.SeedSequence(1)], np.random.default_rng(2))
        found = collector.collect_episodes(policy, 600)
        shown = to_tensors({name: array[:, 0] for name, array in found.observations.items()})
        with torch.inference_mode():
            distribution, values = policy(shown)
            logs = distribution.log_prob(torch.from_numpy(found.actions[:, 0]))
        np.testing.assert_allclose(found.values[:, 0], values.numpy(), atol=1e-5)
        np.testing.assert_allclose(found.log_probs[:, 0], logs.numpy(), atol=1e-5)
        forced = ~found.observations["action_mask"][:, 0, :-1].any(1)
        assert forced.sum() >= 5
        assert len(np.unique(found.actions[forced, 0])) > 1  # drawn, although nothing depends on them
        assert (found.rewards[forced, 0] < 0).all()

    def test_a_validation_draws_actions_and_repeats_itself(self) -> None:
        policy, make = policy_of(TINY.agent), lambda: make_dbf_env(TINY, validation=True)
        rng = np.random.default_rng
        first, again = (evaluate(policy, make, [1, 2, 3], rng=rng(5)) for _ in range(2))
        assert first == again != evaluate(policy, make, [1, 2, 3], rng=rng(6))
        assert evaluate(policy, make, [1, 2, 3]) != first
        assert TINY.task().sampled

    def test_the_settings_are_the_paper_s(self) -> None:
        learning, training = DBFTraining().learning, DBFTraining().training
        assert (learning.algorithm, learning.learning_rate, learning.last_rate) == ("ppo", 3e-4, 1.0)
        assert (learning.clip_range, learning.discount, learning.minibatch_size) == (0.2, 0.99, 128)
        assert (training.num_envs, training.whole_episodes) == (1, True)
        env = make_dbf_env(DBFTraining(episodes=EpisodeOptions(num_traces=1, trace_jobs=2_500)))
        assert (type(env.reward).__name__, env.skip_forced, env.max_decisions) == ("PaperReward", False, 20_000)

    def test_it_trains_resumes_and_can_be_named(self, tmp_path: Path) -> None:
        whole = TINY.train(tmp_path / "whole")
        half = replace(TINY, training=replace(TINY.training, total_steps=200))
        half.train(tmp_path / "parts")
        parts = TINY.train(tmp_path / "parts")
        assert parts.history[-1]["steps"] == whole.history[-1]["steps"]
        assert parts.history[-1]["validation"] == whole.history[-1]["validation"]
        TINY.write(tmp_path / "mine", whole)
        agent = create(f"dbf:{tmp_path / 'mine'}")
        assert simulate(BatchCluster(JOBS[:20], 16, too_wide="reject"), agent, until=1e6).metrics()["jobs_started"] > 0
        assert TINY.compare_with_rules(whole.weights)[0].rule == "easy-fcfs"
