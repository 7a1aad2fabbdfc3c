"""The split-window agent: the policy of the environment, in simulate(); its network; its files and names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import Simulation, simulate
from desim.agents.batch.split_window import SplitWindowAgent, SplitWindowConfig, WindowScorer, greedy
from desim.agents.batch.training import EpisodeOptions, SplitWindowTraining, make_env, measure, trace_episodes
from desim.agents.learning.checkpoint import load_weights
from desim.agents.learning.policy import MaskedCategorical, Policy, to_tensors
from desim.agents.learning.training import TrainingConfig, validation_seeds
from desim.envs import ACTION_MASK
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.encoders import CLUSTER_FEATURES, JOB_FEATURES
from desim.problems.batch.env import BatchEnv
from desim.workloads import lublin

CORES = 32
JOBS = lublin.generate(250, CORES, seed=11, load=1.1, overestimate=2.0)
CONFIGS = {
    "scorer": SplitWindowConfig(5, 3, hidden=(16, 8)),
    "unmasked scorer": SplitWindowConfig(5, 3, hidden=(16, 8), masked=False),
    "reserving scorer": SplitWindowConfig(5, 3, hidden=(16, 8), reserve_after=2_000.0),
}


def policy_of(config: SplitWindowConfig, seed: int = 0, spread: float = 3.0) -> Any:
    """Return a network that has opinions: new ones are near to indifferent."""
    policy = config.policy(np.random.default_rng(seed))
    rng = np.random.default_rng(seed + 1)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if not name.startswith("critic"):
                parameter.add_(spread * 0.1 * torch.from_numpy(rng.normal(size=parameter.shape)).float())
    return policy


def agent_of(name: str, seed: int = 0) -> SplitWindowAgent:
    return SplitWindowAgent(policy_of(CONFIGS[name], seed), CONFIGS[name])


def starts(agent: Any, jobs: list[Job] = JOBS, seed: int = 0) -> dict[int, float | None]:
    table = simulate(BatchCluster(jobs, CORES), agent, seed=seed, until=1e6).jobs
    return dict(zip(table["job_id"].to_list(), table["starting_time"].to_list(), strict=True))


class TestAgent:
    @pytest.mark.parametrize("skip", [True, False])
    @pytest.mark.parametrize("name", CONFIGS)
    def test_it_acts_in_a_run_as_its_policy_does_in_the_environment(self, name: str, skip: bool) -> None:
        agent, config = agent_of(name), CONFIGS[name]
        gym_env = BatchEnv(
            lambda rng: BatchCluster(JOBS, CORES),
            CORES,
            window=(5, 3),
            skip_forced=skip,
            until=1e6,
            reserve_after=config.reserve_after_or_never,
        )
        seen, _ = gym_env.reset(seed=0)
        over, num_invalid = False, 0
        while not over:
            if not skip and gym_env.encoder.is_forced(gym_env.simulation.problem.observation):  # type: ignore[attr-defined]
                action = 8  # the network is not asked where there is no choice
            else:
                with torch.inference_mode():
                    batch = to_tensors({key: array[None] for key, array in seen.items()})
                    action = int(agent.policy(batch)[0].mode())
            seen, _, terminated, truncated, info = gym_env.step(action)
            num_invalid += info["invalid"]
            over = terminated or truncated
        table = gym_env.result().jobs
        expected = dict(zip(table["job_id"].to_list(), table["starting_time"].to_list(), strict=True))
        assert starts(agent) == expected
        assert (num_invalid > 0) == (not config.masked)
        assert sum(start is not None for start in expected.values()) > 50

    @pytest.mark.parametrize(
        ("slot", "masked", "expected"),
        [
            # At 2 job 1 does not fit beside job 0, and job 2, which would, is not asked about. At 9 both start.
            (0, False, [0.0, 9.0, 9.0]),
            (0, True, [0.0, 9.0, 2.0]),
            # Job 0 is always in slot 0, and slot 1 is empty but for the moments at which job 1 and job 2 arrive.
            (1, False, [None, 1.0, 2.0]),
            (1, True, [0.0, 9.0, 2.0]),
        ],
    )
    def test_without_a_mask_the_impossible_ends_the_cycle(self, slot: int, masked: bool, expected: list[Any]) -> None:
        class Stubborn(Policy):
            """Wants the same slot all the time."""

            def forward(self, observations: dict[str, torch.Tensor]) -> Any:
                logits = -0.1 * torch.arange(9.0) + 50.0 * (torch.arange(9) == slot)
                mask = observations[ACTION_MASK] if masked else None
                return MaskedCategorical(logits[None], mask), torch.zeros(1)

        jobs = [Job(0, 0.0, 3, 9.0, 9.0), Job(1, 1.0, 2, 5.0, 5.0), Job(2, 2.0, 1, 1.0, 1.0)]
        agent = SplitWindowAgent(Stubborn(), CONFIGS["unmasked scorer"])
        table = simulate(BatchCluster(jobs, 4), agent, until=100.0).jobs.sort("job_id")
        assert table["starting_time"].to_list() == expected

    def test_a_network_for_one_cluster_serves_another(self) -> None:
        assert simulate(BatchCluster(JOBS, 64), agent_of("scorer")).metrics()["jobs_started"] > 50


def random_observations(seed: int, rows: int, slots: int, *, at_most: int | None = None) -> dict[str, torch.Tensor]:
    """Return encoded observations, whose last slots may be empty."""
    rng = np.random.default_rng(seed)
    jobs = rng.normal(size=(rows, slots, len(JOB_FEATURES))).astype(np.float32)
    present = np.arange(slots) < rng.integers(1, (at_most or slots) + 1, size=(rows, 1))
    jobs[:, :, 0] = 1.0
    jobs[~present] = 0.0
    mask = np.ones((rows, slots + 1), np.int8)
    mask[:, :-1] = present & (rng.random((rows, slots)) < 0.6)
    cluster = rng.normal(size=(rows, len(CLUSTER_FEATURES))).astype(np.float32)
    return to_tensors({"jobs": jobs, "cluster": cluster, ACTION_MASK: mask})


class TestScorer:
    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**6), st.integers(1, 9), st.booleans())
    def test_it_is_what_it_says(self, seed: int, slots: int, masked: bool) -> None:
        scorer = policy_of(SplitWindowConfig(1, 1, hidden=(16, 8), masked=masked), seed)
        seen = random_observations(seed, 3, slots)
        distribution, values = scorer(seen)
        for row in range(3):
            jobs, cluster, mask = seen["jobs"][row], seen["cluster"][row], seen[ACTION_MASK][row]
            shown = [job for job in jobs if job[0] == 1]
            summary = torch.cat([cluster, torch.stack(shown).mean(0)])
            scores = [scorer.job_score(torch.cat([job, summary])) for job in jobs] + [scorer.wait_score(summary)]
            logits = torch.cat(scores)
            if masked:
                logits = logits.masked_fill(mask == 0, -torch.inf)
            torch.testing.assert_close(
                distribution.log_probabilities[row].exp(), logits.softmax(0), atol=1e-6, rtol=1e-4
            )
            torch.testing.assert_close(values[row], scorer.critic(summary)[0])

    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**6), st.integers(1, 9))
    def test_the_fast_choice_is_the_most_likely_one(self, seed: int, slots: int) -> None:
        scorer = policy_of(SplitWindowConfig(1, 1, hidden=(16, 8)), seed)
        seen = random_observations(seed, 8, slots)
        seen[ACTION_MASK][::2, -1] = (seen[ACTION_MASK][::2, :-1].sum(1) == 0).to(torch.int8)  # waiting is masked
        choose = greedy(scorer)
        assert choose is not None
        likely = scorer(seen)[0].mode().tolist()
        assert [choose({name: each[row].numpy() for name, each in seen.items()}) for row in range(8)] == likely

    def test_it_begins_by_starting_what_fits(self) -> None:
        seen = random_observations(3, 200, 8)
        fits = seen[ACTION_MASK][:, :-1].any(1)
        probability = WindowScorer(np.random.default_rng(0))(seen)[0].log_probabilities.exp()
        assert (probability[fits, -1] < 0.2).all()
        assert (probability[~fits, -1] == 1.0).all()

    def test_gradients_are_finite(self) -> None:
        for masked in (True, False):
            scorer = WindowScorer(np.random.default_rng(0), masked=masked)
            distribution, values = scorer(random_observations(5, 20, 6))
            actions = distribution.mode()
            (distribution.log_prob(actions).mean() + distribution.entropy().mean() + values.mean()).backward()
            assert all(torch.isfinite(parameter.grad).all() for parameter in scorer.parameters())  # type: ignore[arg-type]


class TestConfig:
    @pytest.mark.parametrize(
        ("wrong", "what"),
        [
            ({"network": "oracle"}, "network: got 'oracle'"),
            ({"head": 0, "tail": 0}, r"window: got \(0, 0\)"),
            ({"head": -1}, r"window: got \(-1, "),
            ({"head": 0, "tail": 4, "reserve_after": 5.0}, "at least one slot at the head for the oldest job"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, wrong: dict[str, Any], what: str) -> None:
        with pytest.raises(InvalidConfiguration, match=what):
            SplitWindowConfig(**wrong)

    def test_networks_have_the_sizes_that_are_asked_for(self) -> None:
        def widths(network: Any) -> list[int]:
            return [layer.out_features for layer in network if isinstance(layer, torch.nn.Linear)]

        rng = np.random.default_rng(0)
        scorer: Any = SplitWindowConfig().policy(rng)
        assert widths(scorer.job_score) == [64, 32, 1]


TINY = SplitWindowTraining(
    agent=SplitWindowConfig(4, 2, hidden=(8,), num_cores=16),
    episodes=EpisodeOptions(num_traces=2, trace_jobs=120, num_jobs=30),
    training=TrainingConfig(total_steps=200, num_envs=2, num_steps=50, validation_episodes=2, validate_every=2),
)


class TestTraining:
    def test_it_is_determined_by_its_settings_and_its_weights_are_those_of_an_agent(self, tmp_path: Path) -> None:
        other = replace(TINY, training=replace(TINY.training, seed=5))
        first, second, third = (one.train() for one in (TINY, TINY, other))
        assert [entry["validation"] for entry in first.history] == [entry["validation"] for entry in second.history]
        assert all(torch.equal(tensor, second.weights[name]) for name, tensor in first.weights.items())
        assert not all(torch.equal(tensor, third.weights[name]) for name, tensor in first.weights.items())
        TINY.write(tmp_path / "tiny", first)
        agent = SplitWindowAgent.load(tmp_path / "tiny")
        assert agent.config == TINY.agent
        _, card = load_weights(tmp_path / "tiny")
        assert SplitWindowTraining.of(card) == TINY
        assert card["validation"] == first.best
        assert len(card["history"]) == len(first.history)
        # It does in the validation episodes what the card says.
        found = []
        for seed in validation_seeds(2):
            gym_env = make_env(TINY, validation=True)
            gym_env.reset(seed=seed)
            simulation: Simulation = gym_env.simulation
            while (decision := simulation.advance()) is not None:
                decision.answer(agent.act(decision.observation))
            found.append(measure(gym_env)["waiting_time_mean"])
        assert np.mean(found) == pytest.approx(first.best["waiting_time_mean"])

    def test_workloads_for_validation_are_others(self) -> None:
        traces = [trace_episodes(TINY.episodes, 16, validation=validation).traces for validation in (False, True)]
        assert [len(part) for part in traces] == [2, 1]
        assert all(trace != traces[1][0] for trace in traces[0])
        assert traces[0][0] != traces[0][1]

    def test_episodes_are_of_all_loads_requests_and_clusters(self) -> None:
        options = EpisodeOptions((0.5, 1.5), (1.0, 4.0), (8, 16), num_traces=1, trace_jobs=60, num_jobs=5)
        draw = trace_episodes(options, 99, validation=False)
        rng = np.random.default_rng(0)
        drawn = [draw(rng) for _ in range(40)]
        assert {cluster.num_cores for cluster in drawn} == {8, 16}
        exact = [all(job.run_time == job.requested_time for job in cluster.jobs) for cluster in drawn]
        assert {True, False} == set(exact)
        one = trace_episodes(replace(options, cluster_sizes=(8,)), 99, validation=True)
        assert one.num_cores == 8
        assert len(one.traces) == 4
        assert EpisodeOptions(load=0.9) == EpisodeOptions(load=(0.9,))
        for wrong in ({"load": ()}, {"load": (0.9, 0.0)}, {"cluster_sizes": (0,)}):
            with pytest.raises(InvalidConfiguration, match=next(iter(wrong))):
                EpisodeOptions(**wrong)

    def test_any_agent_can_be_the_expert_and_the_only_teacher(self) -> None:
        alone = replace(TINY.training, total_steps=0)
        settings = replace(TINY, expert="easy-sjf", warm_start=2, training=alone)
        notes: list[dict[str, Any]] = []
        first, second = settings.train(None, notes.append), settings.train()
        assert 0 < notes[0]["agreement"] <= 1
        assert notes == first.history  # whoever is told of a warm start is told what it has brought, too
        assert notes[0]["validation"] == first.best
        assert [entry["steps"] for entry in first.history] == [0]
        assert all(torch.equal(tensor, second.weights[name]) for name, tensor in first.weights.items())
        before = replace(settings, warm_start=0).train()
        assert not all(torch.equal(tensor, before.weights[name]) for name, tensor in first.weights.items())
        with pytest.raises(InvalidConfiguration, match="unknown batch agent 'nobody'"):
            replace(settings, expert="nobody")

    def test_windows_of_any_size_have_a_slot_at_the_tail(self) -> None:
        gym_env = make_env(replace(TINY, any_window=True))
        sizes = set()
        for seed in range(12):
            gym_env.reset(seed=seed)
            window = gym_env.encoder.window  # type: ignore[attr-defined]
            assert window.tail >= 1
            sizes.add(window.size)
        assert len(sizes) > 2
        assert min(sizes) >= 8
