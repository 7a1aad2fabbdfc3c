"""Trainings of networks that score deferrable jobs: the same again, interrupted, and after demonstrations."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from desim import simulate
from desim.agents.deferrable._demonstrations import demonstrations
from desim.agents.deferrable.command import QUICK_STEPS, TrainingOptions
from desim.agents.deferrable.score_agent import ScoreAgent, ScoreConfig
from desim.agents.deferrable.training import (
    DEFAULT_PPO,
    DEFAULT_REINFORCE,
    DeferrableEpisodes,
    ScoreTraining,
    make_env,
    measure,
    train,
)
from desim.agents.learning.training import TrainingConfig, TrainingResult
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster
from desim.workloads import deferrable

SHORT: Any = replace(deferrable.DEFAULT, num_slots=12, arrival_rate=2.0)
AGENT = ScoreConfig(max_jobs=8, max_future_jobs=4, width=8, layers=1)
LOOP = TrainingConfig(60, num_envs=2, num_steps=15, validation_episodes=1, validate_every=1)
PPO_TRAINING = ScoreTraining(AGENT, DeferrableEpisodes((SHORT,)), training=LOOP)
TRAININGS = {
    "ppo": replace(PPO_TRAINING, warm_start=1),
    "reinforce": replace(PPO_TRAINING, algorithm=DEFAULT_REINFORCE, agent=replace(AGENT, auxiliary="high")),
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
    first = train(settings)
    assert first.status == "complete"
    assert [entry["updates"] for entry in first.history] == [0, 1, 2]
    assert ("auxiliary_loss" in first.history[-1]["figures"]) == (settings.agent.auxiliary != "none")
    assert {"total_reward", "utilization", "time_delay", "violation_penalty"} < first.best.keys()

    def press(entry: dict[str, Any]) -> None:
        if entry.get("updates") == 1:
            signal.raise_signal(signal.SIGINT)

    interrupted = train(settings, tmp_path, press)
    assert (interrupted.status, len(interrupted.history)) == ("interrupted", 2)
    resumed = train(settings, tmp_path)
    assert resumed.status == "complete"
    assert bits(resumed) == bits(first)


def test_other_seeds_and_rates_give_other_weights() -> None:
    short = replace(LOOP, total_steps=1)
    found = [
        bits(train(replace(PPO_TRAINING, training=training, auxiliary_rate=rate)))["history"]
        for training, rate in ((short, 100.0), (replace(short, seed=1), 100.0), (short, 1.0))
    ]
    assert len(set(found)) == 3


def test_another_training_is_not_gone_on_with(tmp_path: Path) -> None:
    train(replace(PPO_TRAINING, training=replace(LOOP, total_steps=1)), tmp_path)
    for changes, what in (
        ({"agent": replace(AGENT, width=9)}, "its agent is"),
        ({"auxiliary_rate": 3.0}, r"its auxiliary_rate is 100.0, not 3.0"),
        ({"warm_start": 1}, "its warm_start is 0, not 1"),
        ({"algorithm": DEFAULT_REINFORCE}, "its algorithm is"),
    ):
        with pytest.raises(InvalidConfiguration, match=f"holds a checkpoint of another training: {what}"):
            train(replace(PPO_TRAINING, **changes), tmp_path)


def test_what_counts_is_the_objective_of_a_whole_episode() -> None:
    gym_env = make_env(PPO_TRAINING)
    gym_env.reset(seed=3)
    earned, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, _ = gym_env.step(np.zeros(8, np.float32))
        earned += 10.0 * reward
        over = terminated or truncated
    found = measure(gym_env)
    assert found["total_reward"] == pytest.approx(earned)
    parts = [found[name] for name in ("utilization", "time_delay", "violation_penalty")]
    assert found["total_reward"] == pytest.approx(sum(parts))


def test_a_warm_start_is_the_same_again_and_its_own_for_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []

    def noting(*arguments: Any, **options: Any) -> Any:
        seeds.append([seed.generate_state(4).tolist() for seed in arguments[2]])
        return demonstrations(*arguments, **options)

    monkeypatch.setattr("desim.agents.deferrable.training.demonstrations", noting)
    settings = replace(PPO_TRAINING, warm_start=3, training=replace(LOOP, total_steps=1))
    other = replace(settings, training=replace(settings.training, seed=1))
    told: list[dict[str, Any]] = []
    results = [bits(train(one, report=told.append)) for one in (settings, settings, other)]
    assert results[0] == results[1] != results[2]
    assert seeds[0] == seeds[1] != seeds[2]
    assert len({tuple(state) for state in seeds[0] + seeds[2]}) == 6
    agreements = [entry["agreement"] for entry in told if "agreement" in entry]
    assert len(agreements) == 3
    assert all(0 < share <= 1 for share in agreements)
    told.clear()
    assert bits(train(replace(settings, warm_start=0), report=told.append)) != results[0]
    assert not any("agreement" in entry for entry in told)


def test_without_jobs_there_is_nothing_to_imitate() -> None:
    idle: Any = replace(SHORT, arrival_rate=0.0)
    settings = replace(PPO_TRAINING, episodes=DeferrableEpisodes((idle,)), warm_start=2)
    with pytest.raises(InvalidConfiguration, match="there is nothing to imitate"):
        train(settings)


class TestEpisodes:
    """What trainings take place in."""

    def test_workloads_and_settings_are_mixed(self) -> None:
        long: Any = replace(SHORT, num_slots=25)
        episodes = DeferrableEpisodes((SHORT, long), (False, True), 3.0, 7.0)
        clusters = [episodes(np.random.default_rng(seed)) for seed in range(20)]
        kinds = {(cluster.num_slots, cluster.real_time) for cluster in clusters}
        assert kinds == {(12, False), (12, True), (25, False), (25, True)}
        assert all(cluster.delay_weight == 3.0 and cluster.violation_weights.tolist() == [7.0] for cluster in clusters)
        again = episodes(np.random.default_rng(0))
        assert list(again.jobs) == list(clusters[0].jobs) != list(clusters[1].jobs)

    def test_known_names_are_enough(self) -> None:
        cluster = DeferrableEpisodes(("fluctuating",))(np.random.default_rng(0))
        assert isinstance(cluster, DeferrableCluster)
        assert cluster.num_slots == deferrable.FLUCTUATING.num_slots
        with pytest.raises(InvalidConfiguration, match="there is no case 'other'"):
            DeferrableEpisodes(("other",))(np.random.default_rng(0))

    @pytest.mark.parametrize("name", ["workloads", "real_time"])
    def test_nothing_to_draw_from_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidConfiguration, match=f"{name} is empty"):
            DeferrableEpisodes(**{name: ()})  # type: ignore[arg-type]


class TestCommandLine:
    """The options of ``desim train deferrable``."""

    def test_options_become_settings(self) -> None:
        found = TrainingOptions(
            network="pointer",
            auxiliary="low",
            rule="stop",
            hold_back=True,
            width=9,
            max_jobs=7,
            episodes_of=("core-1", "core-2"),
            real_time="half",
            delay_weight=3.0,
            warm_start=4,
            steps=999,
            learning_rate=2e-3,
            auxiliary_rate=5.0,
            minibatch=32,
            value_weight=0.25,
            averaging=0.5,
            seed=8,
            workers=3,
        ).settings()
        assert found.agent == ScoreConfig("pointer", "low", "stop", 0.0, 7, 7, width=9)
        assert found.episodes == DeferrableEpisodes(("core-1", "core-2"), (False, True), 3.0)
        assert (found.warm_start, found.auxiliary_rate) == (4, 5.0)
        rates = {"learning_rate": 2e-3, "final_learning_rate": 0.1 * 2e-3}
        assert found.algorithm == replace(DEFAULT_PPO, minibatch_size=32, value_weight=0.25, **rates)
        loop = ScoreTraining().training
        assert found.training == replace(loop, total_steps=999, seed=8, num_workers=3, averaging=0.5)

    def test_left_out_options_are_the_defaults(self) -> None:
        default = ScoreTraining()
        found = TrainingOptions().settings()
        assert replace(found, algorithm=default.algorithm) == default
        assert found.algorithm == replace(DEFAULT_PPO, final_learning_rate=0.1 * 1e-4)
        reinforce = TrainingOptions(algorithm="reinforce").settings().algorithm
        assert reinforce == replace(DEFAULT_REINFORCE, final_learning_rate=0.1 * 1e-3)
        assert TrainingOptions(real_time="yes").settings().episodes.real_time == (True,)
        quick = TrainingOptions(quick=True, steps=5).settings()
        assert quick.training == replace(default.training, total_steps=QUICK_STEPS, validate_every=5)
        assert TrainingOptions().command() == "desim train deferrable"
        told = TrainingOptions(warm_start=3, auxiliary="none").command()
        assert told == "desim train deferrable --auxiliary none --warm-start 3"

    @pytest.mark.parametrize("algorithm", ["ppo", "reinforce"])
    def test_groups_face_the_same_episodes(self, algorithm: Any) -> None:
        found = TrainingOptions(algorithm=algorithm, group=8).settings()
        assert (found.training.group_size, found.training.whole_episodes, found.algorithm.group_size) == (8, True, 8)
        assert algorithm == "ppo" or found.algorithm.baseline == "group"

    def test_it_trains_an_agent(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        full = TrainingOptions.settings

        def small(options: TrainingOptions) -> Any:
            """Return the settings of the options with short episodes and little to learn from."""
            found = full(options)
            training = replace(LOOP, total_steps=found.training.total_steps)
            return replace(found, episodes=replace(found.episodes, workloads=(SHORT,)), training=training)

        monkeypatch.setattr(TrainingOptions, "settings", small)
        options = TrainingOptions(auxiliary="high", steps=30, width=8, max_jobs=8, name="own")
        told: list[dict[str, Any]] = []
        outcome = options.train(tmp_path, told.append)
        assert outcome["status"] == "complete"
        assert outcome["weights"] == str(tmp_path / "own")
        assert outcome["validation"] in [entry["validation"] for entry in told]
        card = json.loads((tmp_path / "own.json").read_text())
        assert card["command"] == options.command() != ""
        assert card["training"]["algorithm"]["name"] == "ppo"
        assert (card["agent"], card["status"], card["config"]["auxiliary"]) == ("score", "complete", "high")
        agent = ScoreAgent.load(tmp_path / "own")
        assert agent.config == ScoreConfig(auxiliary="high", width=8, max_jobs=8, max_future_jobs=8)
        assert simulate(PPO_TRAINING.episodes(np.random.default_rng(0)), agent).metrics()["total_reward"] > 0

    def test_what_makes_no_sense_is_refused(self, tmp_path: Path) -> None:
        for options, what in (
            (TrainingOptions(warm_start=-1), "warm_start is -1, .*want at least 0"),
            (TrainingOptions(width=0), "width is 0"),
            (TrainingOptions(target_kl=-1.0), "target_kl -1.0, want at least 0"),
            (TrainingOptions(learning_rate=0.0), "learning_rate is 0.0"),
            (TrainingOptions(learning_rate=-1.0), "learning_rate is -1.0"),
            (TrainingOptions(episodes_of=()), "workloads is empty"),
        ):
            with pytest.raises(InvalidConfiguration, match=what):
                options.train(tmp_path, lambda entry: None)
