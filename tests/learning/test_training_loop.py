"""The training loop: seeds, validation, best weights, logs; and that interruptions change nothing, to the last bit."""

from __future__ import annotations

import json
import math
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learning_cases import Line, Normalized, line_length, line_policy

from desim.agents.learning.checkpoint import DOCUMENT, load_checkpoint
from desim.agents.learning.experience import Experience, evaluate, mean_of
from desim.agents.learning.learner import Learner, LearningConfig
from desim.agents.learning.policy import MLPPolicy
from desim.agents.learning.policy_gradients import ActorCritic, Reinforce
from desim.agents.learning.ppo import PPO
from desim.agents.learning.training import Task, Training, TrainingConfig, TrainingResult, validation_seeds
from desim.exceptions import InvalidConfiguration, RecordError

LOOP = TrainingConfig(total_steps=240, num_envs=4, num_steps=10, validation_episodes=5, validate_every=2)
#: Ten updates, and one validation that is not at the end of a checkpoint's interval.
TINY = TrainingConfig(total_steps=300, num_envs=3, num_steps=10, validation_episodes=4, validate_every=3)
WHOLE = replace(TINY, num_envs=4, num_steps=20, whole_episodes=True, group_size=2, total_steps=200)
TASK = Task(Line, Line, line_length)


def ppo(policy: Callable[[], Any] = line_policy) -> PPO:
    config = LearningConfig(
        learning_rate=3e-3, entropy_coef=0.02, minibatch_size=8, epochs=3, discount=0.95, gae_lambda=0.9, time_unit=2.0
    )
    return PPO(policy(), config, np.random.default_rng(1))


class Scripted(PPO):
    """Does not learn: writes the number of its updates into a weight, and notes the experience."""

    def __init__(self) -> None:
        super().__init__(line_policy(), LearningConfig(), np.random.default_rng(0))
        self.seen: list[Experience] = []
        self.progress: list[float] = []

    def update(self, experience: Experience, progress: float) -> dict[str, float]:
        """Count."""
        self.seen.append(experience)
        self.progress.append(progress)
        with torch.no_grad():
            self.policy.get_parameter("critic.2.bias")[:] = len(self.seen)
        return {"number": float(len(self.seen))}


class Unknowing(Scripted):
    """Knows something of each update but the first two."""

    def update(self, experience: Experience, progress: float) -> dict[str, float]:
        """Count."""
        found = super().update(experience, progress)
        return found | {"known": math.nan if found["number"] < 3 else found["number"]}


class Graded(Line):
    """Counts episodes; a measure can tell which validation it is in."""


@pytest.mark.parametrize(("maximize", "best"), [(True, 3), (False, 5)])
def test_the_weights_that_did_best_are_kept(maximize: bool, best: int) -> None:
    left = iter([1, 2, 0, 9, 9, -4, 3])
    measure: Any = lambda env: {"grade": next(left) if isinstance(env, Graded) else 0.0}  # noqa: E731
    learner = Scripted()
    config = replace(LOOP, validation_episodes=1, validate_every=1)
    result = Training(Task(Line, Graded, measure, "grade", maximize), learner, config).run()
    assert result.weights["critic.2.bias"].item() == best  # of equal ones the first
    assert result.best["grade"] == (9 if maximize else -4)
    assert [entry["validation"]["grade"] for entry in result.history] == [1, 2, 0, 9, 9, -4, 3]
    assert learner.policy.get_parameter("critic.2.bias").item() == 6  # they are copies
    assert result.status == "complete"


class TestSteps:
    def test_it_goes_on_until_there_were_enough(self) -> None:
        learner = Scripted()
        reported: list[dict[str, Any]] = []
        result = Training(TASK, learner, replace(LOOP, total_steps=201)).run(reported.append)
        assert [seen.num_steps for seen in learner.seen] == [40] * 6
        assert learner.progress == pytest.approx([40 * number / 201 for number in range(6)])
        assert [entry["steps"] for entry in result.history] == [0, 80, 160, 240]
        assert reported == result.history
        for number, entry in enumerate(result.history[1:]):  # each covers what happened since the last
            parts = learner.seen[2 * number : 2 * number + 2]
            episodes = [episode for part in parts for episode in part.episodes]
            assert entry["episodes"] == len(episodes) > 0
            assert entry["training"] == mean_of(episodes)
            assert set(entry["training"]) == {"return", "length", "place"}
            assert entry["figures"] == {"number": 2 * number + 1.5}
            assert entry["throughput"]["decisions"] == 80
            assert set(entry["throughput"]) == {"decisions", "simulate", "infer", "update"}

    def test_what_is_left_at_the_end_is_validated_too(self) -> None:
        result = Training(TASK, Scripted(), replace(LOOP, total_steps=120)).run()
        assert [entry["updates"] for entry in result.history] == [0, 2, 3]
        assert result.history[-1]["figures"] == {"number": 3.0}

    def test_what_is_not_known_of_an_update_spoils_no_mean(self) -> None:
        result = Training(TASK, Unknowing(), replace(LOOP, total_steps=280, validate_every=2)).run()
        figures = [entry.get("figures", {}) for entry in result.history]
        assert [one.get("known") for one in figures] == [None, None, 3.5, 5.5, 7.0]

    def test_it_may_learn_from_whole_episodes_in_groups(self) -> None:
        learner = Scripted()
        Training(TASK, learner, replace(LOOP, whole_episodes=True, num_steps=50, group_size=2)).run()
        for seen in learner.seen:
            assert seen.ends.sum(0).tolist() == [1] * 4
            assert seen.num_steps == sum(episode["length"] for episode in seen.episodes)
            assert seen.group_size == 2
            first = seen.observations["x"][0]
            assert (first[0] == first[1]).all()
            assert (first[2] == first[3]).all()
            assert (first[0] != first[2]).any()
        assert sum(seen.num_steps for seen in learner.seen[:-1]) < 240 <= sum(seen.num_steps for seen in learner.seen)

    def test_episodes_grow_longer(self) -> None:
        config = replace(LOOP, whole_episodes=True, first_length=1.0, total_steps=1_000, num_steps=20)
        training = Training(TASK, Scripted(), config)
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

    def test_averaged_weights_are_validated_and_kept(self) -> None:
        seen: list[dict[str, torch.Tensor]] = []

        class Noting(PPO):
            def update(self, experience: Experience, progress: float) -> dict[str, float]:
                figures = super().update(experience, progress)
                seen.append({name: tensor.clone() for name, tensor in self.policy.state_dict().items()})
                return figures

        learner = Noting(line_policy(), ppo().config, np.random.default_rng(1))
        rising = iter(np.arange(1e6))
        task = replace(TASK, objective="never", measure=lambda env: {"never": next(rising)})
        result = Training(task, learner, replace(LOOP, averaging=0.75, validate_every=1)).run()
        average = seen[0]
        for weights in seen[1:]:
            average = {name: 0.75 * average[name] + 0.25 * tensor for name, tensor in weights.items()}
        for name, tensor in result.weights.items():
            torch.testing.assert_close(tensor, average[name])
            assert torch.equal(learner.policy.state_dict()[name], seen[-1][name])
        assert any(not torch.equal(tensor, seen[-1][name]) for name, tensor in average.items())


class TestSeeds:
    def test_the_same_seed_gives_the_same_numbers_and_global_generators_are_left_alone(self) -> None:
        torch.set_num_threads(2)  # the fixture sets it back
        learners = [ppo() for _ in range(3)]
        states = (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # noqa: NPY002
        trainings = [replace(LOOP, seed=seed) for seed in (3, 3, 4)]
        results = [Training(TASK, *pair).run() for pair in zip(learners, trainings, strict=True)]
        assert states == (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # noqa: NPY002
        assert torch.get_num_threads() == 2
        curves = [
            [{key: entry[key] for key in entry if key not in ("seconds", "throughput")} for entry in result.history]
            for result in results
        ]
        assert curves[0] == curves[1] != curves[2]
        for name, tensor in results[0].weights.items():
            assert torch.equal(tensor, results[1].weights[name])
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

        result = Training(Task(spied("training"), spied("validation"), line_length), ppo(), LOOP).run()
        assert seen["validation"] == set(validation_seeds(5))
        assert len(seen["training"]) > 20
        assert seen["training"].isdisjoint(seen["validation"])
        expected = mean_of(evaluate(line_policy(), Line, validation_seeds(5), measure=line_length))
        assert result.history[0]["validation"] == expected
        assert validation_seeds(50)[:7] == validation_seeds(7)
        assert len(set(validation_seeds(1000))) == 1000


def scalars(folder: Path) -> Any:
    """Return what was logged for TensorBoard."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = EventAccumulator(str(folder / "tensorboard"))
    log.Reload()
    return log


def test_scalars_are_there_for_tensorboard(tmp_path: Path) -> None:
    result = Training(TASK, ppo(), LOOP, tmp_path).run()
    log = scalars(tmp_path)
    for group in ("validation", "training", "figures", "throughput"):
        entries = [entry for entry in result.history if entry.get(group)]
        assert len(entries) >= 3
        for name in entries[-1][group]:
            found = log.Scalars(f"{group}/{name}")
            assert [scalar.step for scalar in found] == [entry["steps"] for entry in entries]
            np.testing.assert_allclose([s.value for s in found], [e[group][name] for e in entries], rtol=1e-6)
    assert {"validation/place", "figures/entropy", "throughput/simulate"} <= set(log.Tags()["scalars"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"total_steps": -1},
        *({name: 0} for name in ("num_envs", "num_steps", "group_size", "validation_episodes")),
        {"validate_every": 0},
        {"num_envs": 3, "group_size": 2, "whole_episodes": True},
        {"group_size": 2},
        {"seed": -1},
        {"num_workers": -1},
        {"first_length": 0.5, "whole_episodes": True},
        {"first_length": 300.0, "whole_episodes": True},
        {"first_length": 5.0},
        {"averaging": 1.0},
        {"averaging": -0.5},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfiguration, match=str(next(iter(wrong.values())))):
        TrainingConfig(**wrong)


class Tied(MLPPolicy):
    """A policy whose actor and critic begin with the same layer."""

    def __init__(self) -> None:
        super().__init__({"x": 3}, 3, np.random.default_rng(0), hidden=(8,), mask="mask")
        self.critic[0].weight = self.actor[0].weight


CASES: dict[str, tuple[Callable[[], Learner], TrainingConfig]] = {
    "ppo": (ppo, TINY),
    "ppo, growing episodes": (ppo, replace(WHOLE, first_length=4.0)),
    "ppo, averaged and normalized": (lambda: ppo(Normalized), replace(TINY, averaging=0.8)),
    "ppo, tied": (lambda: ppo(Tied), replace(TINY, total_steps=120)),
    "reinforce": (lambda: Reinforce(line_policy(), LearningConfig(), np.random.default_rng(1)), WHOLE),
    "actor-critic": (lambda: ActorCritic(line_policy(), LearningConfig(), np.random.default_rng(1)), TINY),
}


class Interrupting:
    """A learner that presses Ctrl-C in the middle of some of its updates."""

    def __init__(self, learner: Learner, at: set[int]) -> None:
        self.learner, self.at, self.number = learner, at, 0
        self.plain_update = learner.update
        learner.update = self.update  # type: ignore[method-assign]

    def update(self, experience: Experience, progress: float) -> dict[str, float]:
        """Press, then learn."""
        self.number += 1
        if self.number in self.at:
            signal.raise_signal(signal.SIGINT)
        return self.plain_update(experience, progress)


@pytest.fixture(autouse=True)
def interruptible(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make Ctrl-C raise KeyboardInterrupt in background jobs too, and give updates enough time on a busy machine."""
    monkeypatch.setattr("desim.core.GRACE", 60.0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def final(training: Training, result: TrainingResult) -> dict[str, Any]:
    """Return all that has come of a training but for wall times, bit by bit."""
    timed = ("seconds", "throughput")
    history = [{key: entry[key] for key in entry if key not in timed} for entry in result.history]
    tensors = {name: (t.dtype, t.numpy().tobytes()) for name, t in training.learner.tensors().items()}
    weights = {name: t.numpy().tobytes() for name, t in result.weights.items()}
    return json.loads(json.dumps({"history": history, "best": result.best})) | {
        "tensors": tensors,
        "weights": weights,
        "learner": training.learner.state(),
        "collector": training.collector.state(),
        "counts": (training.steps, training.updates),
        "status": result.status,
    }


def text_of(value: Any) -> str:
    """Return all bits of a value, whatever the order of its names; NaN is equal to NaN."""
    if isinstance(value, dict):
        return repr([(name, text_of(value[name])) for name in sorted(value)])
    return repr([text_of(part) for part in value]) if isinstance(value, list) else repr(value)


def assert_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert text_of(value) == text_of(second[name]), name


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("every", [True, False], ids=["at every update", "at some updates"])
def test_interrupted_trainings_end_like_others(case: str, every: bool, tmp_path: Path) -> None:
    make, config = CASES[case]
    uninterrupted = Training(TASK, make(), config)
    expected = final(uninterrupted, uninterrupted.run())
    assert expected["status"] == "complete"
    assert len(expected["history"]) >= 3
    num_interruptions = 0
    while True:
        learner = make()
        Interrupting(learner, {1} if every else {2 + num_interruptions})
        training = Training(TASK, learner, config, tmp_path)
        result = training.run()
        if result.status != "interrupted":
            break
        num_interruptions += 1
        assert training.updates == (num_interruptions if every else num_interruptions * (num_interruptions + 3) // 2)
    assert num_interruptions >= 1
    assert_same(final(training, result), expected)
    # Once more there is nothing left to do, and the same to be told.
    again = Training(TASK, make(), config, tmp_path)
    assert_same(final(again, again.run()), expected)


def test_an_update_that_takes_long_is_left_and_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desim.core.GRACE", 0.5)
    make, config = CASES["ppo"]
    uninterrupted = Training(TASK, make(), config)
    expected = final(uninterrupted, uninterrupted.run())
    training = Training(TASK, make(), config, tmp_path)
    update = training.learner.update

    def long(experience: Experience, progress: float) -> Any:
        found = update(experience, progress)  # of which nothing must remain
        if training.updates == 1:
            signal.raise_signal(signal.SIGINT)
            time.sleep(60)
        return found

    training.learner.update = long
    begin = time.monotonic()
    assert training.run().status == "interrupted"
    assert time.monotonic() - begin < 30
    again = Training(TASK, make(), config, tmp_path)
    assert again.updates == 1
    assert_same(final(again, again.run()), expected)


def test_processes_go_on_like_this_one(tmp_path: Path) -> None:
    config = replace(TINY, num_workers=1, total_steps=150, validate_every=2)

    def report(entry: dict[str, Any]) -> None:
        if entry["updates"] == 2:
            shutil.copytree(tmp_path / "all", tmp_path / "part")

    first = Training(TASK, ppo(), config, tmp_path / "all")
    result = first.run(report)
    second = Training(TASK, ppo(), config, tmp_path / "part")
    assert second.updates == 2
    resumed = second.run()
    collectors = []
    for training, folder in ((first, "all"), (second, "part")):
        found = load_checkpoint(tmp_path / folder)
        assert found is not None
        collectors.append(found[1]["collector"])
        training.collector.state = dict  # type: ignore[method-assign]  # they are closed
    assert_same(final(second, resumed), final(first, result))
    assert collectors[0] == collectors[1]
    assert len(collectors[0]["workers"]) == 1


def test_a_longer_training_goes_on_from_a_shorter_one(tmp_path: Path) -> None:
    first = Training(TASK, ppo(), replace(TINY, total_steps=120), tmp_path).run()
    second = Training(TASK, ppo(), TINY, tmp_path).run()
    assert second.history[: len(first.history)] == first.history
    assert second.history[-1]["steps"] == 300
    steps = [one.step for one in scalars(tmp_path).Scalars("validation/return")]
    assert steps == [entry["steps"] for entry in second.history]  # each step is logged once


def test_a_second_ctrl_c_ends_at_once_and_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    class Impatient(Line):
        """Presses twice."""

        def step(self, action: Any) -> Any:
            """Press."""
            if self.num_steps == 45:  # in the fifth update, after the checkpoint of the third
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
            return super().step(action)

    with pytest.raises(KeyboardInterrupt):
        Training(Task(Impatient, Line, line_length), ppo(), TINY, tmp_path).run()
    resumed = Training(TASK, ppo(), TINY, tmp_path)
    assert resumed.updates == 3
    uninterrupted = Training(TASK, ppo(), TINY)
    expected = final(uninterrupted, uninterrupted.run())
    assert_same(final(resumed, resumed.run()), expected)


def test_another_training_or_a_broken_checkpoint_is_not_gone_on_with(tmp_path: Path) -> None:
    learner = ppo()
    Interrupting(learner, {4})
    own = {"network": {"hidden": (8,)}}
    Training(TASK, learner, TINY, tmp_path, own).run()
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}
    for config, settings, what in (
        (replace(TINY, seed=1), own, "seed: got 0, expected 1"),
        (replace(TINY, num_envs=2), own, "num_envs: got 3, expected 2"),
        (TINY, {"network": {"hidden": (9,)}}, r"network: got {'hidden': \[8\]}, expected {'hidden': \(9,\)}"),
    ):
        with pytest.raises(InvalidConfiguration, match=f"holds a checkpoint of another training: {what}"):
            Training(TASK, ppo(), config, tmp_path, settings)
    assert before == {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}
    Training(TASK, ppo(), TINY, tmp_path, own)
    wide = PPO(MLPPolicy({"x": 3}, 3, np.random.default_rng(0), hidden=(9,), mask="mask"), ppo().config, learner.rng)
    with pytest.raises(RecordError, match=r"does not fit this training .RuntimeError: .*size mismatch"):
        Training(TASK, wide, TINY, tmp_path, own)
    document = json.loads((tmp_path / DOCUMENT).read_text())
    for missing in ("settings", "learner", "collector", "since", "history", "best"):
        (tmp_path / DOCUMENT).write_text(json.dumps({key: document[key] for key in document if key != missing}))
        with pytest.raises(RecordError, match=f"does not fit this training .KeyError: '{missing}'"):
            Training(TASK, ppo(), TINY, tmp_path, own)
