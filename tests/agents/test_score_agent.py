"""Agents that score jobs: they do what an environment does with the same scores, and come back from their files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from score_cases import BUSY, cluster_of, policy_of, random_cluster, single  # noqa: E402

from desim import Simulation, simulate  # noqa: E402
from desim.agents.deferrable.forecasts import Oracle, Persistence  # noqa: E402
from desim.agents.deferrable.score_agent import ScoreAgent, ScoreConfig  # noqa: E402
from desim.agents.learning.policy import one_thread, to_tensors  # noqa: E402
from desim.exceptions import InvalidConfiguration  # noqa: E402
from desim.problems.deferrable import DeferrableObservation, Job, JobSet, clairvoyant_view  # noqa: E402
from desim.problems.deferrable.env import DeferrableEnv  # noqa: E402
from desim.problems.deferrable.job import rows_of  # noqa: E402
from desim.validation import validate  # noqa: E402

SMALL = ScoreConfig(max_jobs=8, width=8, layers=1)
CONFIGS = [
    SMALL,
    replace(SMALL, rule="stop"),
    replace(SMALL, threshold=-0.7),
    replace(SMALL, network="mlp", auxiliary="high", rule="stop", threshold=0.2),
    replace(SMALL, network="pointer", auxiliary="low", threshold=0.0),
    replace(SMALL, network="pointer", auxiliary="none", plans=False),
]
RESERVING = [replace(SMALL, rule="reserve"), replace(SMALL, rule="reserve", network="mlp", threshold=-0.5)]
every_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda one: f"{one.network}-{one.rule}-{one.threshold}")


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Let torch use one thread while a test runs."""
    with one_thread():
        yield


@cache
def agent_of(config: ScoreConfig, seed: int = 0, forecast: Any = None) -> ScoreAgent:
    """Return an agent that is far from indifferent."""
    return ScoreAgent(single(policy_of(config, seed)), config, forecast=forecast)


@pytest.mark.parametrize(
    ("config", "num_resources"),
    [*((config, 1) for config in CONFIGS + RESERVING), *((config, 2) for config in (*CONFIGS[1:4:2], RESERVING[0]))],
    ids=str,
)
def test_an_agent_does_what_an_environment_does_with_its_scores(config: ScoreConfig, num_resources: int) -> None:
    config = replace(config, num_resources=num_resources)
    clusters = [random_cluster(Random(4), num_resources)]
    clusters += [cluster_of(replace(BUSY, num_slots=14), 1)] if num_resources == 1 else []
    policy = single(policy_of(config))
    started = 0
    for cluster in clusters:
        gym_env = DeferrableEnv([cluster], observation=config.encoder())
        seen, _ = gym_env.reset(seed=0)
        over = False
        while not over:
            with torch.inference_mode():
                scores = policy(to_tensors({name: array[None] for name, array in seen.items()}))[0].mode()[0]
            seen, _, terminated, truncated, _ = gym_env.step(scores.numpy())
            over = terminated or truncated
        expected, found = gym_env.result(), simulate(cluster, agent_of(config))
        # Which of two equal jobs is started is a matter of the last bits of their scores.
        assert found.metrics() == pytest.approx(expected.metrics(), nan_ok=True)
        started += found.jobs["starting_time"].is_not_null().sum()
    assert started > 3 or config.threshold > -1


@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[3]], ids=lambda one: one.network)
def test_an_agent_does_not_learn_with_its_network(config: ScoreConfig) -> None:
    decision = Simulation(cluster_of(BUSY, 1)).advance()
    assert decision is not None
    policy = single(policy_of(config))
    agent = ScoreAgent(policy, config)
    before = agent.scores(decision.observation)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(-2.0)
    np.testing.assert_array_equal(agent.scores(decision.observation), before)


@every_config
def test_an_agent_starts_jobs_by_its_scores(config: ScoreConfig) -> None:
    agent, started = agent_of(config), 0
    simulation = Simulation(cluster_of(BUSY, 3))
    while (decision := simulation.advance()) is not None:
        seen = decision.observation
        answer = agent.act(seen)
        scores = agent.scores(seen).tolist()
        count = min(len(seen.current), config.max_jobs)
        order = sorted(range(count), key=lambda position: -scores[position])
        wanted, free = [], float(seen.limit[0] - seen.used[0])
        for position in order:
            cores = float(seen.current.cores[position])
            if config.threshold > -1 and scores[position] <= config.threshold:
                break
            if cores <= free:
                wanted.append(position)
                free -= cores
            elif config.rule == "stop":
                break
        assert answer == wanted
        started += len(answer)
        decision.answer(answer)
    assert started > 5 or config.threshold > -1


def fits_ahead(seen: DeferrableObservation, positions: list[int], bounds: np.ndarray) -> bool:
    """Tell whether running jobs and those that are started stay below bounds, slot by slot while the new ones run."""
    new = [list(seen.current)[position] for position in positions]
    running = list(zip(seen.running.finish_time.tolist(), seen.running.cores.tolist(), strict=True))
    for later in range(max((job.duration for job in new), default=0)):
        room = float(seen.limit[0]) if later == 0 else float(bounds[later - 1, 0])
        held = sum(cores for end, cores in running if end > seen.slot + later)
        starting = sum(job.cores for job in new if job.duration > later)
        if starting and held + starting > room + 1e-9:
            return False
    return True


@dataclass(frozen=True)
class Falling:
    """A forecast: each slot has a tenth less than the one before."""

    def predict(self, observation: DeferrableObservation, steps: int) -> np.ndarray:
        return observation.capacity * 0.9 ** np.arange(1, steps + 1)[:, None]


@pytest.mark.parametrize("knows", [True, False], ids=["oracle", "pessimist"])
def test_a_shield_keeps_agents_from_what_will_not_fit(knows: bool) -> None:
    cluster = cluster_of(BUSY, 1)
    forecast: Any = Oracle(clairvoyant_view(cluster).capacity) if knows else Falling()
    held_back = num_started = 0
    for config in (CONFIGS[0], CONFIGS[1], CONFIGS[4], RESERVING[0]):
        shielded, bold = agent_of(config, 0, forecast), agent_of(config)
        simulation = Simulation(cluster)
        while (decision := simulation.advance()) is not None:
            seen = decision.observation
            answer, bounds = shielded.act(seen), forecast.predict(seen, 20)
            assert len(set(answer)) == len(answer)
            assert max(answer, default=0) < config.max_jobs
            assert fits_ahead(seen, answer, bounds)
            held_back += not fits_ahead(seen, bold.act(seen), bounds)
            num_started += len(answer)
            decision.answer(answer)
        violation = simulation.finish().table("slots")["violation_cores"].sum()
        assert violation == 0 or not knows
    assert num_started > 20
    assert held_back > 3


def test_a_shield_follows_the_scores_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    numbers = set()
    for rule, threshold, capacity in product(("skip", "stop"), (-1.0, 0.25), (3.0, 6.0, 8.0, 99.0)):
        config = replace(SMALL, rule=rule, threshold=threshold)  # type: ignore[arg-type]
        agent, shielded = agent_of(config), agent_of(config, 0, Persistence())
        observation = DeferrableObservation(("cores",), 9, 2.0, np.ones(1))
        observation.begin_slot(0, np.array([capacity]))
        # jobs of one slot: what fits now is all that matters, so both ways to start must agree
        cores = rng.integers(1, 5, 6).astype(float).tolist()
        observation.current = JobSet(rows_of([Job(number, 0, 0, 0, 1, one) for number, one in enumerate(cores)], 1))
        for _ in range(8):
            scores = rng.choice(np.linspace(-1, 1, 9), SMALL.max_jobs).astype(np.float32)
            monkeypatch.setattr(ScoreAgent, "scores", lambda self, seen, scores=scores: scores)
            assert shielded.act(observation) == agent.act(observation)
            numbers.add(len(agent.act(observation)))
    assert numbers >= {0, 1, 2, 3, 6}


def test_nothing_is_started_where_there_is_nothing() -> None:
    observation = DeferrableObservation(("cores",), None, 2.0, np.ones(1))
    for forecast in (None, Persistence()):
        assert agent_of(SMALL, 0, forecast).act(observation) == []


@pytest.mark.parametrize("config", CONFIGS[::2] + RESERVING, ids=lambda one: f"{one.network}-{one.rule}")
def test_schedules_are_feasible_and_the_same_again(config: ScoreConfig) -> None:
    first, again = (simulate(cluster_of(BUSY, 2, overcommit=False), agent_of(config)) for _ in range(2))
    validate(first)
    assert first.jobs.equals(again.jobs)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"network": "other"}, "network: got 'other', expected one of 'attention', 'mlp', 'pointer', or module:Name"),
        ({"auxiliary": "some"}, "auxiliary: got 'some', expected one of none, high, low, both"),
        ({"rule": "jump"}, "rule: got 'jump', expected one of stop, skip, reserve"),
        (
            {"rule": "reserve", "network": "pointer"},
            "rule: got 'reserve', expected 'stop' or 'skip' for a pointer network",
        ),
        ({"width": 0}, "width: got 0, expected an integer >= 1"),
        ({"layers": 0}, "layers: got 0, expected an integer >= 1"),
        ({"width": "wide"}, "width: got 'wide', expected an integer"),
        ({"threshold": 7.0}, "threshold: got 7.0, expected a number from -1 to 1"),
        ({"max_jobs": 0}, "max_jobs: got 0"),
        ({"num_resources": 0}, "num_resources: got 0"),
    ],
)
def test_configurations_that_make_no_sense_are_refused(values: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidConfiguration, match=what):
        ScoreConfig(**values)


def test_a_cluster_of_other_resources_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="got 2 in the cluster, expected 1"):
        simulate(random_cluster(Random(3), 2), agent_of(SMALL))
