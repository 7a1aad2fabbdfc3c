"""OSDEC as printed: what it sees, how its scores are read, and what its networks compute."""

from __future__ import annotations

import itertools
import math
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from desim import simulate  # noqa: E402
from desim.agents.deferrable import Oracle  # noqa: E402
from desim.agents.deferrable.osdec import COEFFICIENT, OsdecAgent, OsdecConfig  # noqa: E402
from desim.agents.deferrable.score_policy import KNOWN, TARGETS  # noqa: E402
from desim.agents.deferrable.training import OsdecTraining  # noqa: E402
from desim.exceptions import InvalidConfiguration  # noqa: E402
from desim.problems.deferrable import DeferrableCluster, Job  # noqa: E402
from desim.problems.deferrable.printed import JOB_SETS, PrintedEncoder  # noqa: E402
from desim.workloads import deferrable  # noqa: E402
from tests.agents.score_cases import Arrays, batch_of, met_arrays, policy_of, single  # noqa: E402

SMALL = OsdecConfig(max_jobs=9, width=8)
KINDS = ("none", "high", "low", "both")
NETWORKS = [replace(SMALL, auxiliary=kind) for kind in KINDS] + [
    replace(SMALL, network=name, auxiliary="none") for name in ("mlp", "pointer")
]


def drawn(config: OsdecConfig, seed: int, counts: tuple[int, int, int]) -> Arrays:
    """Return random numbers as an observation of so many running, current and future jobs."""
    rng = np.random.default_rng(seed)
    spaces = config.encoder().observation_space
    found = {name: rng.normal(0.0, 1.0, space.shape) for name, space in spaces.items()}
    for name, count in zip(JOB_SETS, counts, strict=True):
        found[name][:, 0] = 1.0
        found[name][count:] = 0.0
    found["action_mask"] = np.zeros(config.max_jobs, np.int8)
    found["action_mask"][: counts[1]] = 1
    return found


class _Seen:
    """An agent that starts a job of each slot and keeps what an encoder makes of what it sees."""

    name = "seen"

    def __init__(self, encoder: PrintedEncoder) -> None:
        self.encoder = encoder
        self.rows: list[Arrays] = []

    def act(self, observation: Any) -> list[int]:
        self.rows.append(self.encoder.encode(observation))
        return [0] if len(observation.current) else []


def test_the_state_is_that_of_equation_2() -> None:
    jobs = [
        Job(1, submission_time=0, earliest_start=0, latest_start=0, duration=4, cores=3),
        Job(2, submission_time=0, earliest_start=1, latest_start=6, duration=2, cores=1),
        Job(3, submission_time=1, earliest_start=2, latest_start=9, duration=1, cores=5),
        Job(4, submission_time=2, earliest_start=8, latest_start=9, duration=6, cores=7),
    ]
    agent = _Seen(PrintedEncoder(3, history=4, scale=10.0))
    simulate(DeferrableCluster(jobs, [9, 8, 7, 6, 5, 4], num_slots=6), agent)
    seen = agent.rows[2]
    # present, slots still to run, earliest, latest, submission (from now), cores
    assert seen["running"].tolist() == [[1, 2, -2, -2, -2, 3], [1, 1, -1, 4, -2, 1], [0] * 6]
    assert seen["current"].tolist() == [[1, 1, 0, 7, -1, 5], [0] * 6, [0] * 6]
    assert seen["future"].tolist() == [[1, 6, 6, 7, 0, 7], [0] * 6, [0] * 6]
    assert seen["capacity"].tolist() == [7]
    assert seen["action_mask"].tolist() == [1, 0, 0]
    # the log: three slots; capacity, used, violation, mean cores in tenths behind compressed counts
    assert seen["history"][:, 0].tolist() == [0, 1, 1, 1]
    np.testing.assert_allclose(seen["history"][3, 4:], [0.7, 0.4, 0, 0.5], rtol=1e-6)
    np.testing.assert_allclose(seen["history"][3, 1:4], [0.25 * math.log(2), 0, 0.25 * math.log(2)], rtol=1e-6)


def test_the_lowest_scores_come_first_and_the_first_that_does_not_fit_ends_the_slot() -> None:
    requests = (3, 4, 2, 5)
    jobs = [Job(number, 0, 0, 9, 2, cores) for number, cores in enumerate(requests)]
    encoder = PrintedEncoder(6)

    class Scoring:
        name = "scoring"

        def __init__(self, scores: list[float]) -> None:
            self.scores = scores
            self.started: list[int] | None = None

        def act(self, observation: Any) -> list[int]:
            if self.started is None:
                self.started = encoder.decode(observation, [*self.scores, 0.0, 0.0])[0]
                answer = encoder.encode_action(observation, self.started)
                assert answer is not None
                assert sorted(encoder.decode(observation, answer)[0] or []) == sorted(self.started or [])
            return []

    for scores in itertools.permutations((-0.7, 0.1, 0.2, 0.9)):
        agent = Scoring(list(scores))
        simulate(DeferrableCluster(jobs, [8], num_slots=1), agent)
        order = np.argsort(scores)
        longest = [n for n in range(5) if sum(requests[place] for place in order[:n]) <= 8][-1]
        assert agent.started == order[:longest].tolist()
    agent = Scoring([math.nan, 0, 0, 0])
    with pytest.raises(AssertionError):
        simulate(DeferrableCluster(jobs, [8], num_slots=1), agent)
    assert agent.started is None  # scores that are not numbers start nothing


def slow_forward(policy: Any, seen: Arrays) -> tuple[np.ndarray, np.ndarray, float]:
    """Return means, deviations and value of an encoder in plain steps: sections 4.2.1 to 4.2.3."""
    array = {name: tensor.detach().numpy() for name, tensor in policy.state_dict().items()}

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ array[f"{name}.weight"].T + array[f"{name}.bias"]

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        return x * array[f"{name}.weight"] + array[f"{name}.bias"]

    context = seen["capacity"]
    if policy.auxiliary is not None:
        with torch.no_grad():
            low, high = policy.auxiliary.vectors(torch.from_numpy(seen["history"])[None])
        vectors = {"high": [high], "low": [low], "both": [high, low]}[policy.auxiliary_kind]
        context = np.concatenate([context, *(10.0 * vector[0].numpy() for vector in vectors)])
    tokens = [linear("of_system", context[None])]
    for name in JOB_SETS:
        rows = seen[name][seen[name][:, 0] > 0]
        tokens += [linear(f"of_jobs.{name}", np.concatenate([row, context])[None]) for row in rows]
    x = np.concatenate(tokens)
    for number in range(len(policy.layers)):
        layer = f"layers.{number}"
        inward = x @ array[f"{layer}.self_attn.in_proj_weight"].T + array[f"{layer}.self_attn.in_proj_bias"]
        query, key, value = np.split(inward, 3, axis=1)
        weights = np.exp(query @ key.T / math.sqrt(x.shape[1]))
        weights /= weights.sum(1, keepdims=True)
        x = norm(f"{layer}.norm1", x + linear(f"{layer}.self_attn.out_proj", weights @ value))
        forward = linear(f"{layer}.linear2", np.maximum(linear(f"{layer}.linear1", x), 0))
        x = norm(f"{layer}.norm2", x + forward)
    running, current = (int(seen[name][:, 0].sum()) for name in JOB_SETS[:2])
    jobs = x[1 + running : 1 + running + current]
    mean, deviation = (linear(f"{h}.2", np.maximum(linear(f"{h}.0", jobs), 0))[:, 0] for h in ("mean", "deviation"))
    return np.tanh(mean), np.log1p(np.exp(deviation)) + 0.02, float(linear("value", x).mean())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", [(2, 5, 3), (0, 1, 0), (9, 9, 9), (4, 0, 2)])
def test_it_is_the_network_of_the_paper(kind: Any, counts: tuple[int, int, int]) -> None:
    config = replace(SMALL, auxiliary=kind)
    policy, seen = policy_of(config), drawn(config, 3, counts)
    means, deviations, value = slow_forward(policy, seen)
    other = drawn(config, 4, (3, 7, 1))  # of another length in the same batch
    with torch.no_grad():
        distribution, values = policy(batch_of([seen, other]))
    np.testing.assert_allclose(distribution.mean[0, : counts[1]].numpy(), means, rtol=1e-9)
    np.testing.assert_allclose(distribution.deviation[0, : counts[1]].numpy(), deviations, rtol=1e-9)
    assert float(values[0]) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("config", NETWORKS, ids=lambda one: f"{one.network}-{one.auxiliary}")
def test_agents_score_as_in_the_training(config: OsdecConfig) -> None:
    policy = single(policy_of(config))
    rows = [*met_arrays(config), drawn(config, 1, (0, 9, 6)), drawn(config, 2, (5, 1, 0))]
    agent = OsdecAgent(policy, config)
    met = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in batch_of(rows).items()}
    with torch.inference_mode():
        wanted = deepcopy(policy).eval()(met)[0].mode()
    for place, row in enumerate(rows):
        scores = torch.from_numpy(agent.network({name: array.astype(np.float32) for name, array in row.items()}))
        torch.testing.assert_close(scores, wanted[place], rtol=1e-4, atol=1e-5)


def test_the_module_predicts_amounts_and_learns_by_the_mean_squared_error() -> None:
    policy = policy_of(SMALL)
    module, rows = policy.auxiliary, [drawn(SMALL, seed, (1, 2, 3)) for seed in range(3)]
    history = batch_of(rows)["history"]
    with torch.no_grad():
        high = module.vectors(history)[1].reshape(3, 4, 5)
        predicted = (high * module.outputs).sum(2) + module.biases
        targets, known = torch.full((3, 4), 0.3).double(), torch.ones(3, 4).double()
        known[1, 2] = 0.0
        found = module.loss({"history": history, TARGETS: targets, KNOWN: known})
    torch.testing.assert_close(module.predictions(history), predicted)
    assert float(found) == pytest.approx(float(((predicted - 0.3) ** 2 * known).sum() / 11))
    assert COEFFICIENT == 10.0


def test_pointing_at_a_job_first_gives_it_the_lowest_score() -> None:
    config = replace(SMALL, network="pointer", auxiliary="none")
    policy = policy_of(config)
    batch = batch_of([drawn(config, seed, (0, 5, 0)) for seed in range(40)])
    with torch.no_grad():
        distribution, _ = policy(batch)
        scores = distribution.sample(np.random.default_rng(1))
        rest = distribution.log_prob(scores)
    pointed = scores[:, :5] < 0
    assert pointed.any(), "pointed at none"
    assert (scores[:, :5][~pointed] == 1.0).all()
    assert (scores[:, :5].min(1).values[pointed.any(1)] == -1.0).all()
    assert torch.isfinite(rest).all()
    assert (rest <= 0).all()


def test_it_trains_as_table_3_says() -> None:
    settings = OsdecTraining()
    learning, training = settings.learning, settings.training
    assert (training.num_envs * training.num_steps, learning.minibatch_size, learning.discount) == (2048, 64, 0.99)
    assert training.num_envs == 16
    learner = settings.learner(settings.agent.policy(np.random.default_rng(0)), np.random.default_rng(0))
    rates: Any = learner
    for progress in (0.0, 0.5, 1.0):  # the rates are constant
        rates.schedule(progress)
        found = sorted(group["lr"] for group in rates.optimizer.param_groups)
        assert found == pytest.approx([1e-4, 2e-4, 1e-2])


@pytest.mark.parametrize(
    "change", [{"rule": "skip"}, {"threshold": 0.0}, {"plans": True}, {"network": "tests.agents:Own"}]
)
def test_what_the_paper_has_not_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfiguration, match=r"expected|custom"):
        replace(SMALL, **change)


def test_nobody_is_imitated() -> None:
    with pytest.raises(InvalidConfiguration, match="warm_start: got 3, expected 0"):
        OsdecTraining(warm_start=3)


def test_schedules_are_the_same_again() -> None:
    agent = OsdecAgent(single(policy_of(SMALL)), SMALL)
    settings = replace(deferrable.named("osdec-table-1"), num_slots=40)
    jobs, capacity, num_slots = deferrable.generate(settings, seed=2)
    runs = [simulate(DeferrableCluster(jobs, capacity, num_slots=num_slots), agent).metrics() for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0]["jobs_started"] > 0


def test_behind_a_shield_the_lowest_scores_come_first_too(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [Job(1, 0, 0, 0, 3, 4), Job(2, 0, 0, 0, 1, 4), Job(3, 0, 0, 0, 1, 5)]
    monkeypatch.setattr(OsdecAgent, "scores", lambda self, seen: np.array([0.9, -0.5, 0.1], np.float32))
    policy = single(policy_of(SMALL))
    for ahead, started in (([9.0, 9.0, 9.0], [2, 3]), ([9.0, 3.0, 3.0], [2, 3])):
        agent = OsdecAgent(policy, SMALL, forecast=Oracle(np.array(ahead)[:, None]))
        result = simulate(DeferrableCluster(jobs, ahead, num_slots=3), agent)
        taken = result.jobs.filter(result.jobs["starting_time"].is_not_null())["job_id"].to_list()
        assert sorted(taken) == started
    monkeypatch.setattr(OsdecAgent, "scores", lambda self, seen: np.array([-0.9, -0.5, 0.1], np.float32))
    agent = OsdecAgent(policy, SMALL, forecast=Oracle(np.array([[9.0], [3.0], [3.0]])))
    result = simulate(DeferrableCluster(jobs, [9, 3, 3], num_slots=3), agent)
    assert result.metrics()["jobs_started"] == 0  # the first in order does not fit for as long as it runs
