"""Trainings of networks that score deferrable jobs: the same again, interrupted, after demonstrations, by command."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from desim import Simulation, simulate
from desim.agents.deferrable import training as module
from desim.agents.deferrable.list_plan import ListPlan
from desim.agents.deferrable.score_agent import ScoreAgent, ScoreConfig
from desim.agents.deferrable.score_policy import KNOWN, TARGETS, seen_of
from desim.agents.deferrable.training import (
    EXPERT,
    DeferrableEpisodes,
    Demonstrator,
    ScoreTraining,
    agreement,
    demonstrations,
    distance,
    make_env,
    measure,
)
from desim.agents.learning.policy import Gaussian, to_tensors
from desim.agents.learning.training import TrainingConfig, TrainingResult
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster
from desim.workloads import deferrable

SHORT: Any = replace(deferrable.DEFAULT, num_slots=12, arrival_rate=2.0)
AGENT = ScoreConfig(max_jobs=8, width=8, layers=1)
LOOP = TrainingConfig(60, num_envs=2, num_steps=15, validation_episodes=1, validate_every=1)
TRAINING = ScoreTraining(AGENT, training=LOOP, episodes=DeferrableEpisodes((SHORT,)))
TRAININGS = {
    "ppo": replace(TRAINING, warm_start=1),
    "reinforce": replace(
        TRAINING,
        learning=replace(TRAINING.learning, algorithm="reinforce"),
        agent=replace(AGENT, auxiliary="high"),
        training=replace(LOOP, whole_episodes=True),
    ),
}


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Let Ctrl-C do what it does, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def bits(result: TrainingResult) -> dict[str, Any]:
    """Return all that has come of a training but for wall times."""
    timed = ("seconds", "throughput")
    history = [{key: entry[key] for key in entry if key not in timed} for entry in result.history]
    weights = {name: tensor.numpy().tobytes() for name, tensor in result.weights.items()}
    return {"history": json.dumps(history), "best": result.best, "weights": weights}


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_is_the_same_again_and_after_an_interruption(name: str, tmp_path: Path) -> None:
    settings = TRAININGS[name]
    first = settings.train()
    assert first.status == "complete"
    assert len(first.history) >= 3
    assert ("auxiliary_loss" in first.history[-1]["figures"]) == (settings.agent.auxiliary != "none")
    assert {"total_reward", "revenue", "time_delay", "violation_penalty"} < first.best.keys()

    def press(entry: dict[str, Any]) -> None:
        if entry.get("updates") == 1:
            signal.raise_signal(signal.SIGINT)

    interrupted = settings.train(tmp_path, press)
    assert (interrupted.status, len(interrupted.history)) == ("interrupted", 2)
    with pytest.raises(InvalidConfiguration, match="interrupted"):
        settings.write(tmp_path / "agent", interrupted)
    resumed = settings.train(tmp_path)
    assert resumed.status == "complete"
    assert bits(resumed) == bits(first)


def test_what_counts_is_the_objective_of_a_whole_episode() -> None:
    gym_env = make_env(TRAINING)
    gym_env.reset(seed=3)
    earned, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, _ = gym_env.step(np.zeros(8, np.float32))
        earned += 10.0 * reward
        over = terminated or truncated
    found = measure(gym_env)
    assert found["total_reward"] == pytest.approx(earned)
    parts = [found[name] for name in ("revenue", "time_delay", "violation_penalty")]
    assert found["total_reward"] == pytest.approx(sum(parts))


def test_a_warm_start_is_the_same_again_and_its_own_for_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []

    def noting(*arguments: Any, **options: Any) -> Any:
        seeds.append([seed.generate_state(4).tolist() for seed in arguments[2]])
        return demonstrations(*arguments, **options)

    monkeypatch.setattr("desim.agents.deferrable.training.demonstrations", noting)
    settings = replace(TRAINING, warm_start=3, training=replace(LOOP, total_steps=1))
    other = replace(settings, training=replace(settings.training, seed=1))
    told: list[dict[str, Any]] = []
    results = [bits(one.train(report=told.append)) for one in (settings, settings, other)]
    assert results[0] == results[1] != results[2]
    assert seeds[0] == seeds[1] != seeds[2]
    assert len({tuple(state) for state in seeds[0] + seeds[2]}) == 6
    agreements = [entry["agreement"] for entry in told if "agreement" in entry]
    assert len(agreements) == 3
    assert all(0 < share <= 1 for share in agreements)
    idle: Any = replace(SHORT, arrival_rate=0.0)
    with pytest.raises(InvalidConfiguration, match="nothing to imitate"):
        replace(settings, episodes=DeferrableEpisodes((idle,))).train()


class TestEpisodes:
    def test_workloads_and_settings_are_mixed(self) -> None:
        long: Any = replace(SHORT, num_slots=25)
        episodes = DeferrableEpisodes((SHORT, long), "half", 3.0, 7.0)
        clusters = [episodes(np.random.default_rng(seed)) for seed in range(20)]
        kinds = {(cluster.num_slots, cluster.real_time) for cluster in clusters}
        assert kinds == {(12, False), (12, True), (25, False), (25, True)}
        assert all(cluster.delay_weight == 3.0 and cluster.violation_weights.tolist() == [7.0] for cluster in clusters)
        again = episodes(np.random.default_rng(0))
        assert list(again.jobs) == list(clusters[0].jobs) != list(clusters[1].jobs)

    def test_known_names_are_enough_and_others_are_refused(self) -> None:
        cluster = DeferrableEpisodes(("fluctuating",))(np.random.default_rng(0))
        assert cluster.num_slots == deferrable.FLUCTUATING.num_slots
        with pytest.raises(InvalidConfiguration, match="unknown deferrable workload 'other'"):
            DeferrableEpisodes(("other",))(np.random.default_rng(0))
        with pytest.raises(InvalidConfiguration, match="workloads: got none"):
            DeferrableEpisodes(())


def test_weights_are_written_with_their_settings_and_make_an_agent(tmp_path: Path) -> None:
    settings = replace(TRAINING, agent=replace(AGENT, auxiliary="high"), training=replace(LOOP, total_steps=30))
    result = settings.train()
    settings.write(tmp_path / "own", result)
    card = json.loads((tmp_path / "own.json").read_text())
    assert (card["agent"], card["status"], card["config"]["auxiliary"]) == ("score", "complete", "high")
    assert card["validation"] in [entry["validation"] for entry in card["history"]]
    assert card["training"]["learning"]["algorithm"] == "ppo"
    assert ScoreTraining.of(card | {"training": {**card["training"], "episodes": {}}}).agent == settings.agent
    agent = ScoreAgent.load(tmp_path / "own")
    assert (agent.config, agent.name) == (settings.agent, f"score:{tmp_path}/own")
    assert simulate(TRAINING.episodes(np.random.default_rng(0)), agent).metrics()["total_reward"] > 0


def test_settings_that_do_not_go_together_are_refused() -> None:
    for learning, what in (
        ({"algorithm": "reinforce"}, "whole_episodes: got False, expected True"),
        ({"algorithm": "dqn"}, "algorithm: got 'dqn', expected one of"),
    ):
        with pytest.raises(InvalidConfiguration, match=what):
            replace(TRAINING, learning=replace(TRAINING.learning, **learning))


FEW: Any = replace(deferrable.DEFAULT, num_slots=12, arrival_rate=1.0, capacity_mean=9.0)
EPISODES = DeferrableEpisodes((FEW,))


def seeds_of(count: int, seed: int = 5) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(seed).spawn(count)


class TestDemonstrations:
    """What a list plan shows to networks: what it notes, and how far from it networks are."""

    def test_they_are_those_of_the_episodes(self) -> None:
        shown, done = demonstrations(AGENT, EPISODES, seeds_of(4))
        spaces = AGENT.encoder().observation_space
        assert shown.keys() == {*spaces.keys(), TARGETS, KNOWN}
        assert done.shape == (len(shown["current"]), 8)
        assert (shown["action_mask"].sum(1) > 0).all()
        np.testing.assert_array_equal(done != 0, shown["action_mask"] == 1)
        assert 0.1 < (done > 0).sum() / (done != 0).sum() < 1.0
        np.testing.assert_array_equal((done > 0) <= (shown["current"][:, :, 1] > 0), True)  # a plan starts what fits
        self.assert_targets_are_seen_later(shown)
        parts = [demonstrations(AGENT, EPISODES, part) for part in (seeds_of(4)[:2], seeds_of(4)[2:])]
        np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), done)  # each hangs on its own seed
        for name, array in shown.items():
            np.testing.assert_array_equal(np.concatenate([part[0][name] for part in parts]), array)
        for episodes, seed in ((EPISODES, 6), (replace(EPISODES, real_time="yes"), 5)):
            assert demonstrations(AGENT, episodes, seeds_of(4, seed))[1].tolist() != done.tolist()

    @staticmethod
    def assert_targets_are_seen_later(shown: dict[str, np.ndarray]) -> None:
        """Compare what a slot was to predict with what the next observation remembers of the slot after it."""
        slots = np.round(shown["system"][:, 0] * FEW.num_slots).astype(int)
        gaps = np.diff(slots)
        assert (gaps == 1).sum() > 10
        assert (gaps > 1).sum() > 2  # slots without jobs, which are not noted
        for place in np.flatnonzero(gaps > 0):
            targets, known = seen_of(shown["history"][place + 1, -gaps[place]], 1)
            tasks = slice(4 if gaps[place] == 1 else 3)  # what is held later is another thing
            np.testing.assert_array_equal(shown[TARGETS][place, tasks], targets[tasks])
            np.testing.assert_array_equal(shown[KNOWN][place], known)
        assert not shown[KNOWN][slots == FEW.num_slots - 1].any()

    @pytest.mark.parametrize("noise", [0.0, 1.0])
    def test_what_is_noted_is_what_a_list_plan_starts(self, noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "NOISE", (noise,))
        jobs, capacity, num_slots = deferrable.generate(FEW, seed=4)
        cluster = DeferrableCluster(jobs, capacity, num_slots=num_slots)
        shown, done = demonstrations(replace(AGENT, max_jobs=32), lambda rng: cluster, seeds_of(1))
        planned = simulate(cluster, ListPlan()).table("slots")["started"].to_numpy()
        noted = np.zeros(num_slots)
        noted[np.round(shown["system"][:, 0] * num_slots).astype(int)] = (done > 0).sum(1)
        assert (noted.tolist() == planned.tolist()) == (noise == 0.0)

    def test_scores_that_are_shown_lead_to_the_plan_where_jobs_keep_their_place(self) -> None:
        config = replace(AGENT, max_jobs=32, rule="reserve")
        encoder, planned, shown = config.encoder(), ListPlan(), 0
        agree = []
        for seed in range(3):
            jobs, capacity, num_slots = deferrable.generate(replace(FEW, num_slots=40), seed=seed)
            simulation = Simulation(DeferrableCluster(jobs, capacity, num_slots=num_slots))
            demonstrator = Demonstrator(config, np.random.default_rng(seed))
            demonstrator.noise = 0.0
            while (decision := simulation.advance()) is not None:
                seen = decision.observation
                answer = demonstrator.act(seen)
                assert answer == planned.act(seen)
                if answer or len(seen.current):
                    agree.append(encoder.decode(seen, demonstrator.noted[-1][EXPERT])[0] == answer)
                    shown += bool((demonstrator.noted[-1][EXPERT][32:] != 0).any())
                decision.answer(answer)
        assert np.mean(agree) > 0.98  # placed in the order of its starts, a plan may hold a job that starts sooner
        assert len(agree) > 60
        assert shown > 20

    def test_means_are_drawn_towards_the_scores_of_the_expert(self) -> None:
        rng = np.random.default_rng(0)
        means, wanted = rng.uniform(-0.9, 0.9, (5, 3)), rng.choice([-0.5, 0.5], (5, 3))
        mask = rng.random((5, 3)) < 0.6
        tensors = [torch.from_numpy(array) for array in (means, np.ones((5, 3)), mask)]
        found = distance(Gaussian(*tensors), torch.from_numpy(wanted))
        agreed = agreement(torch.from_numpy(means * mask), torch.from_numpy(wanted * mask))
        for row in range(5):
            expected = sum((means[row, job] - wanted[row, job]) ** 2 for job in np.flatnonzero(mask[row]))
            assert found[row].item() == pytest.approx(expected)
            assert agreed[row].item() == all((means[row] > 0)[mask[row]] == (wanted[row] > 0)[mask[row]])
        config = replace(AGENT, network="pointer", auxiliary="none")  # which is to point at what was started
        shown, done = demonstrations(config, EPISODES, seeds_of(1))
        with torch.no_grad():
            distribution, _ = config.policy(np.random.default_rng(0))(to_tensors(shown))
            torch.testing.assert_close(
                distance(distribution, torch.from_numpy(done)), -distribution.log_prob(torch.from_numpy(done))
            )
