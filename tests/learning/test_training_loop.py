"""The training loop: seeds, validation, best weights, early stopping, what a rollout is, logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learning_cases import Line, line_length, line_policy

from desim.agents.learning.evaluation import evaluate, mean_of
from desim.agents.learning.learner import Discounting, Learner
from desim.agents.learning.ppo import PPO, PPOConfig
from desim.agents.learning.rollout import Rollout
from desim.agents.learning.training import Task, Training, TrainingConfig, TrainingResult, validation_seeds
from desim.exceptions import InvalidConfiguration

TINY = TrainingConfig(total_steps=240, num_envs=4, num_steps=10, validation_episodes=5, validate_every=2)
TASK = Task(Line, Line, line_length)


def ppo(seed: int = 0) -> PPO:
    config = PPOConfig(learning_rate=3e-3, minibatch_size=16, epochs=2)
    return PPO(line_policy(seed), config, np.random.default_rng(seed))


def curve(result: TrainingResult) -> list[dict[str, Any]]:
    """Return the history without wall times."""
    return [{key: entry[key] for key in entry if key not in ("seconds", "throughput")} for entry in result.history]


class Scripted(Learner):
    """Does not learn: writes the number of its updates into a weight, and notes the rollouts."""

    def __init__(self) -> None:
        super().__init__(line_policy(), Discounting(), 1e-3, np.random.default_rng(0))
        self.rollouts: list[Rollout] = []
        self.progress: list[float] = []

    def update(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """Count."""
        self.rollouts.append(rollout)
        self.progress.append(progress)
        with torch.no_grad():
            self.policy.get_parameter("critic.2.bias")[:] = len(self.rollouts)
        return {"number": float(len(self.rollouts))}


class Graded(Line):
    """Counts episodes; a measure can tell which validation it is in."""


def graded(grades: list[float]) -> Task:
    """Return a task whose validations, each of one episode, give these grades."""
    left = iter(grades)
    return Task(Line, Graded, lambda env: {"grade": next(left) if isinstance(env, Graded) else 0.0}, "grade")


class TestBest:
    config = replace(TINY, validation_episodes=1, validate_every=1)

    @pytest.mark.parametrize(("maximize", "best"), [(True, 3), (False, 5)])
    def test_the_weights_that_did_best_are_kept(self, maximize: bool, best: int) -> None:
        task = replace(graded([1, 2, 0, 9, 9, -4, 3]), maximize=maximize)
        learner = Scripted()
        result = Training(task, learner, self.config).run()
        assert result.weights["critic.2.bias"].item() == best  # of equal ones the first
        assert result.best["grade"] == (9 if maximize else -4)
        assert [entry["validation"]["grade"] for entry in result.history] == [1, 2, 0, 9, 9, -4, 3]
        assert learner.policy.get_parameter("critic.2.bias").item() == 6  # they are copies
        assert result.status == "complete"

    def test_a_training_without_improvement_is_stopped(self) -> None:
        learner = Scripted()
        result = Training(graded([1, 2, 0, 3, 3, 2, 1, 9]), learner, replace(self.config, patience=3)).run()
        assert result.status == "stopped"
        assert len(learner.rollouts) == 6
        assert result.weights["critic.2.bias"].item() == 3
        assert result.history[-1]["updates"] == 6

    def test_the_first_weights_may_be_the_best(self) -> None:
        result = Training(graded([5, 1, 1, 1]), Scripted(), replace(self.config, patience=2)).run()
        assert result.weights["critic.2.bias"].item() == 0
        assert result.best["grade"] == 5


class TestSteps:
    def test_it_goes_on_until_there_were_enough(self) -> None:
        learner = Scripted()
        reported: list[dict[str, Any]] = []
        result = Training(TASK, learner, replace(TINY, total_steps=201)).run(reported.append)
        assert [rollout.num_steps for rollout in learner.rollouts] == [40] * 6
        assert learner.progress == pytest.approx([40 * number / 201 for number in range(6)])
        assert [entry["steps"] for entry in result.history] == [0, 80, 160, 240]
        assert reported == result.history

    def test_what_is_left_at_the_end_is_validated_too(self) -> None:
        result = Training(TASK, Scripted(), replace(TINY, total_steps=120)).run()
        assert [entry["updates"] for entry in result.history] == [0, 2, 3]
        assert result.history[-1]["figures"] == {"number": 3.0}

    def test_an_entry_covers_what_happened_since_the_last(self) -> None:
        learner = Scripted()
        result = Training(TASK, learner, TINY).run()
        for number, entry in enumerate(result.history[1:]):
            parts = learner.rollouts[2 * number : 2 * number + 2]
            episodes = [episode for part in parts for episode in part.episodes]
            assert entry["episodes"] == len(episodes) > 0
            assert entry["training"] == mean_of(episodes)
            assert set(entry["training"]) == {"return", "length", "place"}
            assert entry["figures"] == {"number": 2 * number + 1.5}
            assert entry["throughput"]["decisions"] == 80
            assert set(entry["throughput"]) == {"decisions", "simulate", "infer", "update"}

    def test_a_rollout_may_be_whole_episodes(self) -> None:
        learner = Scripted()
        Training(TASK, learner, replace(TINY, whole_episodes=True, num_steps=50)).run()
        for rollout in learner.rollouts:
            assert rollout.ends.sum(0).tolist() == [1] * 4
            assert rollout.num_steps == sum(episode["length"] for episode in rollout.episodes)
        assert sum(rollout.num_steps for rollout in learner.rollouts) >= 240
        assert sum(rollout.num_steps for rollout in learner.rollouts[:-1]) < 240

    def test_episodes_grow_longer(self) -> None:
        config = replace(TINY, whole_episodes=True, first_length=1.0, total_steps=1_000, num_steps=20)
        training = Training(TASK, ppo(), config)
        lengths: list[tuple[float, int]] = []
        collect = training.collector.collect_episodes

        def noting(policy: Any, longest: int) -> Any:
            lengths.append((training.steps / config.total_steps, longest))
            return collect(policy, longest)

        training.collector.collect_episodes = noting  # type: ignore[method-assign]
        training.run()
        early = [length for progress, length in lengths if progress < 0.3]
        late = [length for progress, length in lengths if progress > 0.7]
        assert min(early) >= 1
        assert max(late) <= config.num_steps
        assert np.mean(early) < 0.6 * np.mean(late)
        again = Training(TASK, ppo(), config)
        assert again.run().history[-1]["updates"] == len(lengths)

    def test_averaged_weights_are_validated_and_kept(self) -> None:
        seen: list[dict[str, torch.Tensor]] = []

        class Noting(PPO):
            def update(self, rollout: Rollout, progress: float) -> dict[str, float]:
                figures = super().update(rollout, progress)
                seen.append({name: tensor.clone() for name, tensor in self.policy.state_dict().items()})
                return figures

        learner = Noting(line_policy(), ppo().config, np.random.default_rng(1))
        config = replace(TINY, averaging=0.75, validate_every=1)
        task = replace(TASK, objective="never", measure=lambda env: {"never": next(rising)})
        rising = iter(np.arange(1e6))
        result = Training(task, learner, config).run()
        average = seen[0]
        for weights in seen[1:]:
            average = {name: 0.75 * average[name] + 0.25 * tensor for name, tensor in weights.items()}
        for name, tensor in result.weights.items():
            torch.testing.assert_close(tensor, average[name])
            assert torch.equal(learner.policy.state_dict()[name], seen[-1][name])
        assert any(not torch.equal(tensor, seen[-1][name]) for name, tensor in average.items())

    def test_groups_face_the_same_episodes(self) -> None:
        learner = Scripted()
        Training(TASK, learner, replace(TINY, whole_episodes=True, num_steps=50, group_size=2)).run()
        for rollout in learner.rollouts:
            first = rollout.observations["x"][0]
            assert (first[0] == first[1]).all()
            assert (first[2] == first[3]).all()
            assert (first[0] != first[2]).any()


class TestSeeds:
    def test_the_same_seed_gives_the_same_numbers(self) -> None:
        results = [Training(TASK, ppo(), replace(TINY, seed=seed)).run() for seed in (3, 3, 4)]
        assert curve(results[0]) == curve(results[1])
        for name, tensor in results[0].weights.items():
            assert torch.equal(tensor, results[1].weights[name])
        assert curve(results[0]) != curve(results[2])
        # ... but for the validation of the first weights, which are the same, on the same episodes.
        assert results[0].history[0]["validation"] == results[2].history[0]["validation"]

    def test_a_validation_is_an_evaluation_on_seeds_of_its_own(self) -> None:
        seen: dict[str, set[int | None]] = {"training": set(), "validation": set()}

        def spied(kind: str) -> type[Line]:
            class Spied(Line):
                def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
                    seen[kind].add(seed)
                    return super().reset(seed=seed)

            return Spied

        result = Training(Task(spied("training"), spied("validation"), line_length), ppo(), TINY).run()
        assert seen["validation"] == set(validation_seeds(5))
        assert len(seen["training"]) > 20
        assert seen["training"].isdisjoint(seen["validation"])
        expected = mean_of(evaluate(line_policy(), Line, validation_seeds(5), measure=line_length))
        assert result.history[0]["validation"] == expected

    def test_more_validation_episodes_are_those_and_others(self) -> None:
        assert validation_seeds(50)[:7] == validation_seeds(7)
        assert len(set(validation_seeds(1000))) == 1000

    def test_the_global_generators_are_left_alone(self) -> None:
        learner = ppo()
        states = (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # noqa: NPY002
        Training(TASK, learner, TINY).run()
        assert states == (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # noqa: NPY002


def test_threads_are_left_as_they_were() -> None:
    torch.set_num_threads(2)  # the fixture sets it back
    Training(TASK, ppo(), replace(TINY, num_threads=1)).run()
    assert torch.get_num_threads() == 2


def test_scalars_are_there_for_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = Training(TASK, ppo(), TINY, tmp_path).run()
    log = EventAccumulator(str(tmp_path / "tensorboard"))
    log.Reload()
    for group in ("validation", "training", "figures", "throughput"):
        entries = [entry for entry in result.history if entry.get(group)]
        assert len(entries) >= 3
        for name in entries[-1][group]:
            scalars = log.Scalars(f"{group}/{name}")
            assert [scalar.step for scalar in scalars] == [entry["steps"] for entry in entries]
            np.testing.assert_allclose([s.value for s in scalars], [e[group][name] for e in entries], rtol=1e-6)
    assert {"validation/place", "figures/entropy", "throughput/simulate"} <= set(log.Tags()["scalars"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"total_steps": 0},
        {"num_envs": 0},
        {"num_steps": 0},
        {"group_size": 0},
        {"validation_episodes": 0},
        {"validate_every": 0},
        {"num_envs": 3, "group_size": 2},
        {"seed": -1},
        {"num_workers": -1},
        {"num_threads": 0},
        {"patience": 0},
        {"first_length": 0.5, "whole_episodes": True},
        {"first_length": 300.0, "whole_episodes": True},
        {"first_length": 5.0},
        {"averaging": 1.0},
        {"averaging": -0.5},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidConfiguration, match=str(next(iter(wrong.values())))):
        TrainingConfig(**wrong)
