"""A training that was interrupted goes on as if it had not been, to the last bit."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learning_cases import Line, line_length, line_policy

from desim.agents.learning.actor_critic import ActorCritic, ActorCriticConfig
from desim.agents.learning.checkpoint import DOCUMENT, load_checkpoint
from desim.agents.learning.learner import Discounting, Learner
from desim.agents.learning.normalizers import ObservationNormalizer
from desim.agents.learning.policy import MLPPolicy
from desim.agents.learning.ppo import PPO, PPOConfig
from desim.agents.learning.reinforce import Reinforce, ReinforceConfig
from desim.agents.learning.rollout import Rollout
from desim.agents.learning.training import Task, Training, TrainingConfig, TrainingResult
from desim.exceptions import InvalidConfiguration, RecordError

TASK = Task(Line, Line, line_length)
#: Ten updates, and one validation that is not at the end of a checkpoint's interval.
TINY = TrainingConfig(total_steps=300, num_envs=3, num_steps=10, validation_episodes=4, validate_every=3)
WHOLE = replace(TINY, num_envs=4, num_steps=20, whole_episodes=True, group_size=2, total_steps=200)


class Normalized(MLPPolicy):
    """A policy that scales what it sees."""

    def __init__(self) -> None:
        super().__init__({"x": 3}, 3, np.random.default_rng(0), hidden=(8,), mask="mask")
        self.normalizer = ObservationNormalizer(3)

    def forward(self, observations: dict[str, torch.Tensor]) -> Any:
        """Scale first."""
        return super().forward(observations | {"x": self.normalizer(observations["x"])})

    def observe(self, observations: dict[str, torch.Tensor]) -> None:
        """Take in what was seen."""
        self.normalizer.update(observations["x"])


class Tied(MLPPolicy):
    """A policy whose actor and critic begin with the same layer."""

    def __init__(self) -> None:
        super().__init__({"x": 3}, 3, np.random.default_rng(0), hidden=(8,), mask="mask")
        self.critic[0].weight = self.actor[0].weight


def _ppo(policy: Callable[[], Any] = line_policy) -> PPO:
    weights = {"learning_rate": 3e-3, "final_learning_rate": 1e-4, "entropy": 0.02}
    discounting = Discounting(0.95, 0.9, 2.0)
    return PPO(
        policy(), PPOConfig(**weights, minibatch_size=8, epochs=3, discounting=discounting), np.random.default_rng(1)
    )


def _reinforce(baseline: Any) -> Reinforce:
    return Reinforce(line_policy(), ReinforceConfig(baseline=baseline, group_size=2), np.random.default_rng(1))


def _actor_critic() -> ActorCritic:
    return ActorCritic(line_policy(), ActorCriticConfig(), np.random.default_rng(1))


CASES: dict[str, tuple[Callable[[], Learner], TrainingConfig]] = {
    "ppo": (_ppo, TINY),
    "ppo, whole episodes": (_ppo, WHOLE),
    "ppo, growing episodes": (_ppo, replace(WHOLE, first_length=4.0)),
    "ppo, averaged": (_ppo, replace(TINY, averaging=0.8)),
    "ppo, normalized": (lambda: _ppo(Normalized), TINY),
    "ppo, tied": (lambda: _ppo(Tied), replace(TINY, total_steps=120)),
    "ppo, patient": (_ppo, replace(TINY, patience=1, validate_every=1)),
    "reinforce, group": (lambda: _reinforce("group"), WHOLE),
    "reinforce, value": (lambda: _reinforce("value"), TINY),
    "actor-critic": (_actor_critic, TINY),
}


class Interrupting:
    """A learner that presses Ctrl-C in the middle of some of its updates."""

    def __init__(self, learner: Learner, at: set[int]) -> None:
        self.learner, self.at, self.number = learner, at, 0
        self.plain_update = learner.update
        learner.update = self.update  # type: ignore[method-assign]

    def update(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """Press, then learn."""
        self.number += 1
        if self.number in self.at:
            signal.raise_signal(signal.SIGINT)
        return self.plain_update(rollout, progress)


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Let Ctrl-C do what it does, also where the tests run in the background."""
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
        "counts": (training.steps, training.updates, training.stale),
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
    assert expected["status"] == ("stopped" if "patient" in case else "complete")
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


def test_processes_go_on_like_this_one(tmp_path: Path) -> None:
    config = replace(TINY, num_workers=2, total_steps=150, validate_every=2)

    def report(entry: dict[str, Any]) -> None:
        if entry["updates"] == 2:
            shutil.copytree(tmp_path / "all", tmp_path / "part")

    first = Training(TASK, _ppo(), config, tmp_path / "all")
    result = first.run(report)
    second = Training(TASK, _ppo(), config, tmp_path / "part")
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
    assert len(collectors[0]["workers"]) == 2


def test_a_longer_training_goes_on_from_a_shorter_one(tmp_path: Path) -> None:
    first = Training(TASK, _ppo(), replace(TINY, total_steps=120), tmp_path).run()
    second = Training(TASK, _ppo(), TINY, tmp_path).run()
    assert second.history[: len(first.history)] == first.history
    assert second.history[-1]["steps"] == 300


def test_the_log_for_tensorboard_has_every_step_once(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    class Crash(BaseException):
        """The end of the process."""

    def crash() -> None:
        raise Crash

    first = Training(TASK, _ppo(), TINY, tmp_path)
    store = first._store
    first._store = lambda: store() if first.updates < 6 else crash()  # type: ignore[method-assign]
    with pytest.raises(Crash):
        first.run()  # the second validation is in the log already
    result = Training(TASK, _ppo(), TINY, tmp_path).run()
    log = EventAccumulator(str(tmp_path / "tensorboard"))
    log.Reload()
    assert [one.step for one in log.Scalars("validation/return")] == [entry["steps"] for entry in result.history]


class TestRefusals:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Return the directory of a training that was interrupted."""
        learner = _ppo()
        Interrupting(learner, {4})
        Training(TASK, learner, TINY, tmp_path, {"network": {"hidden": (8,)}}).run()
        return tmp_path

    @pytest.mark.parametrize(
        ("config", "settings", "what"),
        [
            (replace(TINY, seed=1), {"hidden": (8,)}, "its seed is 0, not 1"),
            (replace(TINY, num_envs=2), {"hidden": (8,)}, "its num_envs is 3, not 2"),
            (TINY, {"hidden": (9,)}, r"its network is {'hidden': \[8\]}, not {'hidden': \(9,\)}"),
        ],
    )
    def test_another_training_is_not_gone_on_with(
        self, folder: Path, config: TrainingConfig, settings: dict[str, Any], what: str
    ) -> None:
        before = {path.name: path.read_bytes() for path in folder.glob("*.*")}
        with pytest.raises(InvalidConfiguration, match=f"holds a checkpoint of another training: {what}"):
            Training(TASK, _ppo(), config, folder, {"network": settings})
        assert before == {path.name: path.read_bytes() for path in folder.glob("*.*")}
        Training(TASK, _ppo(), TINY, folder, {"network": {"hidden": (8,)}})

    @pytest.mark.parametrize("missing", ["settings", "learner", "collector", "since", "history", "best", "stale"])
    def test_a_document_with_a_hole_is_named(self, missing: str, folder: Path) -> None:
        document = json.loads((folder / DOCUMENT).read_text())
        del document[missing]
        (folder / DOCUMENT).write_text(json.dumps(document))
        with pytest.raises(RecordError, match=f"does not fit this training .KeyError: '{missing}'"):
            Training(TASK, _ppo(), TINY, folder, {"network": {"hidden": (8,)}})

    def test_a_network_of_another_shape_is_named(self, folder: Path) -> None:
        wide = PPO(
            MLPPolicy({"x": 3}, 3, np.random.default_rng(0), hidden=(9,), mask="mask"),
            PPOConfig(),
            np.random.default_rng(0),
        )
        with pytest.raises(RecordError, match=r"does not fit this training .RuntimeError: .*size mismatch"):
            Training(TASK, wide, TINY, folder, {"network": {"hidden": (8,)}})


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
        Training(Task(Impatient, Line, line_length), _ppo(), TINY, tmp_path).run()
    resumed = Training(TASK, _ppo(), TINY, tmp_path)
    assert resumed.updates == 3
    uninterrupted = Training(TASK, _ppo(), TINY)
    expected = final(uninterrupted, uninterrupted.run())
    assert_same(final(resumed, resumed.run()), expected)
