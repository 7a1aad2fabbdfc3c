"""Behavioural cloning: while the policy acts, and from an expert's notes alone; and what it leaves alone."""

from __future__ import annotations

import json
from functools import partial
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pytest
import torch
from learning_cases import Bandit, PointPolicy, bandit_policy, collector
from torch import Tensor, nn

from desim import simulate
from desim.agents.batch import SimpleBackfilling, create
from desim.agents.batch.split_window import SplitWindowAgent, SplitWindowConfig
from desim.agents.batch.window_rules import EXPERTS, WindowRule, aged, reserving, shortest
from desim.agents.learning.imitation import EXPERT, Expert, ExpertLabelledEnv, advice, clone, imitate
from desim.agents.learning.learner import Learner, LearningConfig
from desim.agents.learning.policy import Distribution, MLPPolicy, to_tensors
from desim.agents.learning.ppo import PPO
from desim.core import prepare_agent
from desim.envs import ACTION_MASK
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, BatchObservation, Job, Start, WaitForCores, WaitUntil
from desim.problems.batch.encoders import FeatureEncoder, FlatEncoder, SplitWindow, WindowEncoder
from desim.problems.batch.env import BatchEnv, TraceEpisodes
from desim.workloads import lublin

#: All masks of the bandit.
PAIRS = np.array([[number in pair for number in range(4)] for pair in combinations(range(4), 2)], int)
TRACE = lublin.generate(800, 32, seed=5, load=1.0)


def learner_of(policy: Any, seed: int = 0, **changes: Any) -> Learner:
    return PPO(policy, LearningConfig(**changes), np.random.default_rng(seed))


def best_arm(observations: dict[str, np.ndarray]) -> np.ndarray:
    worth = observations["sign"] @ Bandit.worth
    return np.where(observations["action_mask"] == 1, worth, -1.0).argmax(1)


def shown(count: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return what is seen of the bandit, two arms of which are open, and the better one of them."""
    rng = np.random.default_rng(seed)
    signs = np.eye(3, dtype=np.float32)[rng.integers(3, size=count)]
    seen = {"sign": signs, "action_mask": PAIRS[rng.integers(6, size=count)].astype(np.int8)}
    return seen, best_arm(seen)


def improbability(distribution: Distribution, wanted: Tensor) -> Tensor:
    return -distribution.log_prob(wanted)


class TestWhileActing:
    def test_the_best_arm_is_learned_from_an_expert(self) -> None:
        learner = learner_of(bandit_policy(), discount=0.0, gae_lambda=0.0)
        together = collector(8, make=Bandit)
        before = json.dumps(learner.optimizer.state_dict()["state"])
        collect = partial(together.collect, learner.policy, 64)
        agreements = imitate(learner, collect, best_arm, rounds=15, minibatch_size=64, learning_rate=1e-2)
        assert len(agreements) == 15
        assert 0.3 < agreements[0] < 0.95
        assert agreements[-1] > 0.99
        assert json.dumps(learner.optimizer.state_dict()["state"]) == before  # its own optimizer is not touched
        # The critic learns as well: what is earned at once, on average over the masks.
        signs = torch.eye(3)
        values = learner.moments.restored(learner.policy.critic(signs).detach().squeeze(1).numpy())
        seen = {"sign": np.repeat(np.eye(3), 6, 0), "action_mask": np.tile(PAIRS, (3, 1))}
        earned = np.take_along_axis(seen["sign"] @ Bandit.worth, best_arm(seen)[:, None], 1)
        np.testing.assert_allclose(values, earned.reshape(3, 6).mean(1), atol=0.05)

    def test_a_cloned_agent_does_as_the_rule_does(self) -> None:
        config = SplitWindowConfig(8, 4, hidden=(32, 16))
        episodes = TraceEpisodes([TRACE], 32, num_jobs=150, arrivals="open")
        make = partial(BatchEnv, episodes, 32, window=(8, 4), num_jobs=150, skip_forced=True)
        learner = learner_of(config.policy(np.random.default_rng(0)))
        collect = partial(collector(8, make=make).collect, learner.policy, 100)
        options: dict[str, Any] = {"epochs": 6, "minibatch_size": 200, "learning_rate": 3e-3}
        assert imitate(learner, collect, shortest, rounds=8, **options)[-1] > 0.9
        jobs: list[Job] = lublin.generate(400, 32, seed=77, load=1.0)
        agents = SplitWindowAgent(learner.policy, config), WindowRule("shortest", 8, 4), SimpleBackfilling("fcfs")
        found, wanted, other = (simulate(BatchCluster(jobs, 32), one).metrics()["waiting_time_mean"] for one in agents)
        assert found == pytest.approx(wanted, rel=0.15)
        assert abs(found - wanted) < abs(other - wanted)


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
    assert len(agent.answers) > len(TRACE)
    assert sum(wanted is not None for wanted, _ in agent.answers) == len(TRACE)
    assert all(wanted == found for wanted, found in agent.answers)


def test_other_experts_need_features_and_wait_where_nothing_fits() -> None:
    for expert in (reserving, aged):
        with pytest.raises(InvalidConfiguration, match="got flat observations, expected features"):
            expert({ACTION_MASK: np.ones((1, 2)), "jobs": np.zeros((1, 1, 3))})
    mask = np.array([[0, 0, 0, 1], [0, 1, 1, 1]], np.int8)
    jobs = np.array([[[1, 0.1, 0], [1, 0.2, 0], [1, 0.3, 0]]] * 2, np.float32)
    assert shortest({ACTION_MASK: mask, "jobs": jobs}).tolist() == [3, 1]


class Watching(MLPPolicy):
    """Notes which samples it is shown, and learns something else beside."""

    def __init__(self) -> None:
        super().__init__({"sign": 3}, 4, np.random.default_rng(0), hidden=(8,), mask="action_mask")
        self.used: list[list[int]] = []
        self.beside = nn.Parameter(torch.zeros(()))

    def forward(self, observations: dict[str, Tensor]) -> Any:
        """Note, and do as others do."""
        self.used.append(observations["number"].tolist())
        return super().forward(observations)

    def auxiliary_loss(self, observations: dict[str, Tensor]) -> Tensor:
        """Return how far a number is from 1."""
        assert observations["number"].tolist() == self.used[-1]
        return (self.beside - 1.0).square()


class TestFromNotes:
    def test_a_rule_is_learned_and_the_rest_of_the_learner_is_left_alone(self) -> None:
        learner = learner_of(bandit_policy())
        before = {name: tensor.clone() for name, tensor in learner.policy.state_dict().items()}
        found = clone(learner, *shown(600), improbability, epochs=8, minibatch_size=64, learning_rate=2e-2)
        assert len(found) == 8
        assert 0.3 < found[0] < 0.95
        assert found[-1] > 0.99
        others, wanted = shown(200, seed=1)
        with torch.no_grad():
            agreed = learner.policy(to_tensors(others))[0].mode().numpy() == wanted
        assert agreed.mean() > 0.99
        for name, tensor in learner.policy.state_dict().items():
            assert torch.equal(tensor, before[name]) == name.startswith("critic."), name
        assert json.dumps(learner.optimizer.state_dict()["state"]) == "{}"
        assert learner.moments.count == 0

    def test_numbers_are_learned_as_well(self) -> None:
        def near(likely: Tensor, wanted: Tensor) -> Tensor:
            return ((likely - wanted).abs() < 0.2).all(1)

        learner = learner_of(PointPolicy())
        seen = {"observation": np.random.default_rng(3).normal(size=(600, 2)).astype(np.float32)}
        wanted = 0.5 * seen["observation"]
        found = clone(learner, seen, wanted, improbability, agrees=near, epochs=12, learning_rate=2e-2)
        assert found[0] < 0.3
        assert found[-1] > 0.8

    def test_every_sample_is_used_once_an_epoch_and_shares_are_of_all_of_them(self) -> None:
        policy = Watching()
        seen, best = shown(50)
        seen["number"] = np.arange(50)

        def distance(distribution: Distribution, wanted: Tensor) -> Tensor:
            assert wanted.tolist() == best[policy.used[-1]].tolist()
            return improbability(distribution, wanted)

        def agrees(likely: Tensor, wanted: Tensor) -> Tensor:
            assert likely.shape == wanted.shape
            return torch.tensor(policy.used[-1]) < 5 * len(policy.used)

        found = clone(learner_of(policy), seen, best, distance, agrees=agrees, epochs=3, minibatch_size=20)
        assert [len(places) for places in policy.used] == [20, 20, 10] * 3
        epochs = [[place for places in policy.used[first : first + 3] for place in places] for first in (0, 3, 6)]
        assert all(sorted(places) == list(range(50)) for places in epochs)
        assert len({tuple(places) for places in epochs}) == 3
        agreed = [sum(place < 5 * number for place in places) for number, places in enumerate(policy.used, start=1)]
        assert found == [sum(agreed[first : first + 3]) / 50 for first in (0, 3, 6)]
        assert 0 < policy.beside.item() < 0.1

    def test_the_learning_rate_falls_to_a_twentieth(self) -> None:
        policy = Watching()
        seen, best = shown(40)
        seen["number"] = np.arange(40)
        places: list[float] = []

        def distance(distribution: Distribution, wanted: Tensor) -> Tensor:
            places.append(policy.beside.item())
            return improbability(distribution, wanted)

        clone(learner_of(policy), seen, best, distance, epochs=10, minibatch_size=10, learning_rate=1e-4)
        steps = np.diff([*places, policy.beside.item()])
        # Adam's steps are as long as the rate, while the gradient has one sign.
        np.testing.assert_allclose(steps, 1e-4 * (1.0 - 0.95 * np.arange(40) / 40), rtol=0.02)

    def test_the_same_generator_gives_the_same_weights_and_no_samples_are_refused(self) -> None:
        weights = []
        for seed in (0, 0, 1):
            learner = learner_of(bandit_policy(), seed)
            clone(learner, *shown(300), improbability, epochs=2, minibatch_size=32)
            weights.append({name: tensor.numpy().tobytes() for name, tensor in learner.policy.state_dict().items()})
        assert weights[0] == weights[1] != weights[2]
        with pytest.raises(InvalidConfiguration, match="nothing to imitate"):
            clone(learner_of(bandit_policy()), *shown(0), improbability)


EPISODES = TraceEpisodes([TRACE], 32, num_jobs=60, arrivals="open")


def batch_env() -> BatchEnv:
    return BatchEnv(EPISODES, 32, window=(6, 2), num_jobs=60, skip_forced=True)


class TestAdvice:
    @pytest.mark.parametrize("name", ["fcfs", "easy-sjf", "conservative", "rollout:easy-sjf", "window-shortest-6-2"])
    def test_who_follows_an_agent_does_what_the_agent_does(self, name: str) -> None:
        advised = ExpertLabelledEnv(batch_env(), create(name))
        seen, _ = advised.reset(seed=3)
        over, wanted = False, []
        while not over:
            wanted.append(int(seen[EXPERT]))
            seen, _, terminated, truncated, _ = advised.step(wanted[-1] if wanted[-1] >= 0 else 8)
            over = terminated or truncated
        assert int(seen[EXPERT]) == -1  # nothing is asked any more
        if -1 in wanted:  # the agent starts what the window does not show
            assert name != "window-shortest-6-2"
            return
        other = batch_env()
        other.forks = True
        other.reset(seed=3)
        simulation, agent = other.simulation, create(name)
        prepare_agent(agent, simulation)
        while (decision := simulation.advance()) is not None:
            decision.answer(agent.act(decision.observation))
        assert advised.unwrapped.result().jobs.equals(simulation.finish().jobs)

    def test_answers_become_actions(self) -> None:
        jobs = [Job(number, 0.0, cores, 10.0, 10.0) for number, cores in enumerate((2, 3, 4, 8, 1))]
        encoder = FeatureEncoder(SplitWindow(2, 1))
        found: dict[str, int | None] = {}

        class Asking:
            def act(self, seen: BatchObservation) -> None:
                if len(seen.queue) == 5:
                    for answer in (
                        None,
                        [],
                        0,
                        1,
                        4,
                        2,
                        3,
                        [2, 1],
                        Start(1, 0b111),
                        [WaitForCores(3)],
                        WaitUntil(9.0),
                        77,
                    ):
                        found[repr(answer)] = encoder.encode_action(seen, answer)

        simulate(BatchCluster(jobs, 8), Asking(), until=1.0)
        assert found.pop("Start(row=1, cores=7)") == 1
        assert list(found.values()) == [3, 3, 0, 1, 2, None, None, 1, 3, 3, None]

    def test_all_rounds_are_remembered_and_what_is_unknown_is_left_out(self) -> None:
        sizes: list[int] = []

        class Counting(PPO):
            def samples(self, experience: Any) -> Any:
                """Note how much there is."""
                assert EXPERT not in experience.observations
                found = super().samples(experience)
                sizes.append(len(found.targets))
                return found

        policy = SplitWindowConfig(6, 2, hidden=(8,)).policy(np.random.default_rng(0))
        learner = Counting(policy, LearningConfig(), np.random.default_rng(0))
        used: list[int] = []

        def half(seen: dict[str, np.ndarray]) -> np.ndarray:
            wanted = advice(seen).copy()
            wanted[::2] = -1
            used.append(int((wanted >= 0).sum()))
            return wanted

        together = collector(2, make=lambda: ExpertLabelledEnv(batch_env(), create("easy-sjf")))
        shares: list[int] = []
        original = policy.forward

        def forward(observations: dict[str, Tensor]) -> Any:
            if torch.is_grad_enabled():
                shares.append(len(observations["jobs"]))
            return original(observations)

        policy.forward = forward  # type: ignore[method-assign]
        options: dict[str, Any] = {"rounds": 3, "epochs": 1, "minibatch_size": 10_000}
        agreements = imitate(learner, partial(together.collect, policy, 40), half, memory=2, **options)
        assert len(agreements) == 3
        assert all(0 <= share <= 1 for share in agreements)
        assert all(known <= size // 2 for known, size in zip(used, sizes, strict=True))
        assert shares == [used[0], used[0] + used[1], used[1] + used[2]]

    def test_who_cannot_be_asked_is_refused(self) -> None:
        gym_env = batch_env()
        gym_env.encoder = object()  # type: ignore[assignment]
        with pytest.raises(InvalidConfiguration, match="object has no encode_action, which fcfs needs as an expert"):
            ExpertLabelledEnv(gym_env, create("fcfs"))
