"""What networks learn beside scheduling: targets from real episodes, a series that is learned, and learning rates."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from score_cases import BUSY, batch_of, cluster_of, met_arrays, policy_of, random_cluster, single  # noqa: E402

from desim.agents.deferrable.score_agent import ScoreConfig  # noqa: E402
from desim.agents.deferrable.score_policy import KNOWN, TARGETS, UNITS, AuxiliaryTasks, next_slots  # noqa: E402
from desim.agents.learning.experience import Collector, Experience  # noqa: E402
from desim.agents.learning.learner import LearningConfig  # noqa: E402
from desim.agents.learning.policy import one_thread  # noqa: E402
from desim.agents.learning.ppo import PPO  # noqa: E402
from desim.problems.deferrable.encoder import HISTORY_FEATURES  # noqa: E402
from desim.problems.deferrable.env import DeferrableEnv  # noqa: E402

CONFIG = ScoreConfig(max_jobs=8, width=8, layers=1)
NETWORKS = [replace(CONFIG, network=network) for network in ("attention", "mlp", "pointer")]  # type: ignore[arg-type]
every_network = pytest.mark.parametrize("config", NETWORKS, ids=lambda config: config.network)
FIRST = len(HISTORY_FEATURES)


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Let torch use one thread while a test runs."""
    with one_thread():
        yield


class Noting(DeferrableEnv):
    """Notes what is true in each slot that is shown: episode, jobs, their means, capacity and violation."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.notes: list[dict[str, float]] = []
        self.episode = 0
        super().__init__(*arguments, **options)

    def reset(self, **options: Any) -> Any:
        found = super().reset(**options)
        self.episode += 1
        self.note()
        return found

    def advance(self, action: Any) -> Any:
        found = super().advance(action)
        if not (found.terminated or found.truncated):
            self.note()
        return found

    def note(self) -> None:
        seen = self.simulation.problem.observation
        jobs, held = list(seen.current), sum(job.cores for job in seen.running)
        self.notes.append(
            {
                "episode": self.episode,
                "jobs": len(jobs),
                "capacity": float(seen.capacity[0]),
                "cores": sum(job.cores for job in jobs) / max(len(jobs), 1),
                "duration": sum(job.duration for job in jobs) / max(len(jobs), 1),
                "violation": max(held - float(seen.capacity[0]), 0.0),
            }
        )


def noted_experience(
    config: ScoreConfig, collect: Callable[[Collector, Any], Experience], **options: Any
) -> tuple[Experience, list[list[dict[str, float]]]]:
    """Return the experience of three environments and the notes of each."""
    made: list[Noting] = []

    def make() -> Noting:
        resources = config.num_resources
        clusters = [random_cluster(Random(n), resources, overcommit=True, num_slots=9 + n) for n in range(5)]
        made.append(Noting(clusters, observation=config.encoder(), **options))
        return made[-1]

    collector = Collector(make, np.random.SeedSequence(1).spawn(3), np.random.default_rng(2))
    seen_together = collect(collector, single(policy_of(config)))
    return seen_together, [one.notes for one in made]


@pytest.mark.parametrize("num_resources", [1, 2])
@pytest.mark.parametrize(
    ("whole", "options"), [(False, {}), (False, {"max_decisions": 7}), (True, {}), (True, {"until": 9.5})], ids=str
)
def test_targets_are_what_the_next_slot_brings(num_resources: int, whole: bool, options: dict[str, Any]) -> None:
    def collect(collector: Collector, policy: Any) -> Experience:
        return collector.collect_episodes(policy, 30) if whole else collector.collect(policy, 40)

    config = replace(CONFIG, num_resources=num_resources)
    seen_together, notes = noted_experience(config, collect, **options)
    found = next_slots(seen_together, num_resources)
    assert found[TARGETS].shape == found[KNOWN].shape == (*seen_together.rewards.shape, 4)
    counts = {"known": 0, "ends": 0, "idle": 0, "violated": 0}
    for number, shown in enumerate(notes):
        length = int(seen_together.valid[:, number].sum())
        assert not found[KNOWN][length:, number].any()
        for step in range(length):
            known = found[KNOWN][step, number].tolist()
            following = shown[step + 1]
            if step + 1 == length or following["episode"] != shown[step]["episode"]:
                assert known == [0.0] * 4
                counts["ends"] += 1
                continue
            cores, duration = following["cores"] / 32, math.log1p(following["duration"]) / 4
            wanted = [following["capacity"] / 32, cores, duration, following["violation"] / 32]
            assert known == [1.0, float(following["jobs"] > 0), float(following["jobs"] > 0), 1.0]
            assert found[TARGETS][step, number] == pytest.approx(wanted, rel=1e-5, abs=1e-7)
            counts["known"] += 1
            counts["idle"] += not following["jobs"]
            counts["violated"] += following["violation"] > 0
    assert counts["ends"] >= (3 if whole else 9)
    assert counts["known"] > 15
    assert counts["violated"] > 0
    assert counts["idle"] > 0 or options


def drawn_history(rng: np.random.Generator, num_resources: int, length: int) -> np.ndarray:
    """Return slots, some of them without jobs and some before the run, as an encoder shows them."""
    rows = rng.uniform(0.1, 1.0, (length, FIRST + 4 * num_resources)).astype(np.float32)
    idle = rng.random(length) < 0.4
    rows[idle, 1] = 0.0
    rows[idle, 3] = 0.0
    rows[idle, FIRST + 3 * num_resources :] = 0.0
    rows[: int(rng.integers(length))] = 0.0
    return rows


def slow_expectation(history: np.ndarray, num_resources: int) -> list[float]:
    """Return what is expected without learning: the capacity of now, and means over the slots with jobs."""
    cores = [row[FIRST + 3 * num_resources] for row in history if row[1] > 0]
    durations = [row[3] for row in history if row[1] > 0]
    capacity = history[-1][FIRST]
    return [capacity, sum(cores) / max(len(cores), 1), sum(durations) / max(len(durations), 1), 0.0]


@pytest.mark.parametrize("num_resources", [1, 2])
def test_without_learning_all_stays_as_it_is(num_resources: int) -> None:
    rng = np.random.default_rng(num_resources)
    module = AuxiliaryTasks(FIRST + 4 * num_resources, num_resources, rng)
    histories = [drawn_history(rng, num_resources, 6) for _ in range(20)]
    histories.append(np.zeros_like(histories[0]))
    found = module.predictions(torch.from_numpy(np.array(histories))).detach().numpy()
    wanted = [slow_expectation(history, num_resources) for history in histories]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


def test_the_loss_is_that_of_what_is_known() -> None:
    rng = np.random.default_rng(3)
    module = AuxiliaryTasks(FIRST + 4, 1, rng)
    histories = torch.from_numpy(np.array([drawn_history(rng, 1, 5) for _ in range(9)]))
    targets, known = rng.normal(size=(9, 4)).astype(np.float32), (rng.random((9, 4)) < 0.5).astype(np.float32)
    predicted = module.predictions(histories).detach().numpy()
    errors = [
        ((predicted[row, task] - targets[row, task]) / UNITS[task]) ** 2
        for row in range(9)
        for task in range(4)
        if known[row, task]
    ]
    seen = {"history": histories, TARGETS: torch.from_numpy(targets), KNOWN: torch.from_numpy(known)}
    assert module.loss(seen).item() == pytest.approx(sum(errors) / len(errors), rel=1e-5)
    assert module.loss(seen | {KNOWN: torch.zeros(9, 4)}).item() == 0.0


def test_a_wave_is_learned_and_foretold_better_than_by_the_last_value() -> None:
    rng = np.random.default_rng(0)
    level = 1.0 + 0.4 * np.sin(2 * math.pi * np.arange(400) / 17.3)
    rows = np.zeros((400, FIRST + 4), np.float32)
    rows[:, 0] = 1.0
    rows[:, FIRST] = level
    windows = torch.from_numpy(np.stack([rows[end - 12 : end] for end in range(12, 400)]))
    targets = np.zeros((388, 4), np.float32)
    targets[:, 0] = level[12:]
    known = torch.zeros(388, 4)
    known[:, 0] = known[:, 3] = 1.0
    module = AuxiliaryTasks(FIRST + 4, 1, rng)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    for _ in range(80):
        places = torch.from_numpy(rng.integers(0, 250, 48))
        seen = {"history": windows[places], TARGETS: torch.from_numpy(targets)[places], KNOWN: known[places]}
        optimizer.zero_grad()
        module.loss(seen).backward()
        optimizer.step()
    found = module.predictions(windows[260:]).detach().numpy()
    last = rows[11:-1, FIRST][260:]
    errors = [np.abs(guess - targets[260:, 0]).mean() for guess in (found[:, 0], last)]
    assert errors[0] < 0.4 * errors[1]


@every_network
def test_policies_do_not_learn_the_predictions_and_predictions_do_not_learn_policies(config: ScoreConfig) -> None:
    policy = policy_of(config)
    seen = batch_of(met_arrays(config, count=9))
    seen |= {TARGETS: torch.ones(9, 4), KNOWN: torch.ones(9, 4)}
    distribution, values = policy(seen)
    (distribution.log_prob(distribution.mode()).sum() + values.sum()).backward()
    for name, parameter in policy.named_parameters():
        assert (parameter.grad is None) == name.startswith("auxiliary."), name
    policy.zero_grad()
    policy.auxiliary_loss(seen).backward()
    for name, parameter in policy.named_parameters():
        assert (parameter.grad is not None and bool(parameter.grad.any())) == name.startswith("auxiliary."), name


@every_network
def test_what_the_policy_has_seen_serves_the_predictions_until_the_weights_change(config: ScoreConfig) -> None:
    policy, fresh = policy_of(config), policy_of(config)
    seen = batch_of(met_arrays(config, count=9))
    seen |= {TARGETS: torch.ones(9, 4), KNOWN: torch.ones(9, 4)}
    for change in (0.0, 0.1):
        policy(seen)
        for one in (policy, fresh):
            with torch.no_grad():
                one.auxiliary.tasks.weight.add_(change)
        losses = [one.auxiliary_loss(seen) for one in (policy, fresh)]
        assert losses[0] == losses[1]
        for one, loss in zip((policy, fresh), losses, strict=True):
            one.zero_grad()
            loss.backward()
        gradients = [one.auxiliary.recurrent.weight_hh_l0.grad for one in (policy, fresh)]
        assert torch.equal(*gradients)


@every_network
def test_what_was_is_seen_through_the_module_alone(config: ScoreConfig) -> None:
    seen = batch_of(met_arrays(config, count=9)[-1:])
    earlier = seen | {"history": seen["history"] + 0.5}
    for auxiliary in ("none", "high", "low", "both"):
        policy = policy_of(replace(config, auxiliary=auxiliary)).requires_grad_(False)  # type: ignore[arg-type]
        assert (policy(seen)[1] == policy(earlier)[1]).all() == (auxiliary == "none")
        values = policy(seen)[1].clone()
        if auxiliary == "none":
            assert policy.auxiliary_loss(seen) is None
            continue
        policy.auxiliary.tasks.weight.add_(0.3)  # which are behind the low-level vector
        assert (policy(seen)[1] == values).all() == (auxiliary == "low")


def learner_of(config: ScoreConfig, **changes: Any) -> PPO:
    settings = LearningConfig(learning_rate=3e-4, minibatch_size=16, epochs=2)
    return PPO(config.policy(np.random.default_rng(4)), replace(settings, **changes), np.random.default_rng(5))


def experience_of(config: ScoreConfig, count: int) -> list[Experience]:
    make = partial(DeferrableEnv, [cluster_of(BUSY, seed) for seed in range(3)], observation=config.encoder())
    collector = Collector(make, np.random.SeedSequence(1).spawn(2), np.random.default_rng(2))
    policy = config.policy(np.random.default_rng(4))
    return [collector.collect(policy, 10) for _ in range(count)]


@every_network
def test_the_critic_learns_twice_and_the_module_a_hundred_times_as_fast(config: ScoreConfig) -> None:
    for auxiliary, factors in (("both", (1, 2, 100)), ("none", (1, 2))):
        learner = learner_of(replace(config, auxiliary=auxiliary))  # type: ignore[arg-type]
        names = {id(parameter): name for name, parameter in learner.policy.named_parameters()}
        for progress, rate in ((0.0, 3e-4), (1.0, 3e-5)):
            learner.schedule(progress)
            groups = learner.optimizer.param_groups
            assert [group["lr"] for group in groups] == pytest.approx([factor * rate for factor in factors])
        for group, factor in zip(groups, factors, strict=True):
            for parameter in group["params"]:
                part = names.pop(id(parameter)).split(".")[0]
                assert {"value": 2, "auxiliary": 100}.get(part, 1) == factor
        assert not names


@every_network
def test_a_learner_goes_on_from_where_it_was(config: ScoreConfig) -> None:
    parts = experience_of(config, 3)
    first, resumed = learner_of(config), learner_of(config)
    figures = [first.update(part, 0.0) for part in parts[:2]]
    assert all(math.isfinite(one["auxiliary_loss"]) for one in figures)
    resumed.restore(first.tensors(), json.loads(json.dumps(first.state())))
    assert resumed.update(parts[2], 0.6) == first.update(parts[2], 0.6)
    found, wanted = resumed.tensors(), first.tensors()
    assert found.keys() == wanted.keys()
    assert sum(name.startswith("optimizer.") for name in found) > 2 * sum(name.startswith("policy.") for name in found)
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())
    assert resumed.state() == first.state()
    assert resumed.optimizer.param_groups[1]["lr"] == first.optimizer.param_groups[1]["lr"]


def test_however_wrong_predictions_are_the_policy_takes_the_same_step() -> None:
    seen_together = experience_of(CONFIG, 1)[0]
    weights = []
    for scale in (1.0, 1000.0):
        learner = learner_of(CONFIG, epochs=1, minibatch_size=100)
        plain = learner.policy.auxiliary_loss
        learner.policy.auxiliary_loss = lambda seen, plain=plain, scale=scale: scale * plain(seen)  # type: ignore[misc]
        assert learner.update(seen_together, 0.0)["optimizer_steps"] == 1
        state = learner.policy.state_dict()
        weights.append({name: tensor for name, tensor in state.items() if not name.startswith("auxiliary.")})
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
