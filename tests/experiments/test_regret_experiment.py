"""The regret experiment: what a run earns and regrets, and what is reported of many."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from desim.agents.multiserver.hindsight import best_fixed_allocation
from desim.agents.multiserver.regret import regret_bound
from desim.exceptions import InvalidConfiguration
from desim.experiments.ogasched.regret import POLICIES, THEORY, Regret, RegretStudy, regret
from desim.experiments.ogasched.regret_runs import (
    _LEARNERS,
    ARRIVALS,
    Learner,
    RegretSetting,
    perform_regret,
    worst_served,
)
from desim.problems.multiserver import MultiServerObservation
from desim.sweep import Run
from desim.workloads.multiserver import bernoulli_arrivals, generate


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_a_run_earns_and_regrets_what_a_plain_loop_does(arrivals: str, policy: str) -> None:
    slots, ports = 40, 5
    outcome = perform_regret(Run(RegretSetting(arrivals, slots, num_ports=ports, num_nodes=12), Learner(policy), 2))
    rewards = generate(num_ports=ports, num_nodes=12, seed=2)
    agent = _LEARNERS[policy](slots)
    observation = MultiServerObservation(rewards.graph, rewards)
    reserved = np.zeros(rewards.graph.shape)
    earned, counts = 0.0, np.zeros(ports)
    for slot in range(slots):
        if arrivals == "random":
            arrived = bernoulli_arrivals(slots, ports, 0.7, 2)[slot]
        elif arrivals == "periodic":
            arrived = np.array([(slot + port) % 5 in (0, 1, 2, 3) for port in range(ports)])
        else:
            each = [rewards.total_reward(reserved, np.arange(ports) == port) for port in range(ports)]
            arrived = np.isin(np.arange(ports), sorted(range(ports), key=lambda port: each[port])[: ports // 2])
        observation.slot, observation.arrived = slot, arrived
        answer = agent.act(observation)
        assert slot == 0 or np.array_equal(answer, reserved)  # it was fixed before the jobs were seen
        earned += rewards.total_reward(answer, arrived)
        counts += arrived
        assert agent.allocation is not None
        reserved = agent.allocation
    best = best_fixed_allocation(rewards, counts)
    assert outcome["earned"] == pytest.approx(earned)
    assert outcome["num_jobs"] == counts.sum()
    assert best.value - earned <= outcome["regret"] + 1e-9
    assert outcome["regret"] == pytest.approx(best.upper_bound - earned, rel=1e-6)
    assert outcome["bound"] == regret_bound(rewards, slots)


def test_the_worst_served_ports_are_those_that_earn_least() -> None:
    rewards = generate(num_ports=7, num_nodes=12, seed=0)
    allocation = rewards.graph.channel_requests * np.random.default_rng(0).random(rewards.graph.shape)
    each = [rewards.total_reward(allocation, np.arange(7) == port) for port in range(7)]
    worst = worst_served(rewards, allocation)
    assert worst.sum() == 3
    assert max(np.array(each)[worst]) <= min(np.array(each)[~worst])
    assert worst_served(rewards, np.zeros(rewards.graph.shape)).tolist() == [True] * 3 + [False] * 4  # ties
    assert worst_served(generate(num_ports=1, num_nodes=2, seed=0), np.zeros((2, 6))).tolist() == [True]


@pytest.mark.parametrize(
    ("arrivals", "policy", "message"),
    [("bursty", THEORY, "arrivals is 'bursty'"), ("random", "DRF", "no policy 'DRF'")],
)
def test_what_is_unknown_is_named(arrivals: str, policy: str, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        perform_regret(Run(RegretSetting(arrivals, 10), Learner(policy), 0))


def test_a_trial_is_under_the_bound_and_writes_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "regret"
    study = regret(Regret(quick=True, seeds=2, jobs=1, horizons=(500, 1_000, 2_000), divide_nodes=10, out=out))
    assert study.options.sizes == [10, 20, 40]
    assert study.num_invalid == 0
    assert set(study.regrets) == {(arrivals, policy) for arrivals in ARRIVALS for policy in POLICIES}
    for (arrivals, _), values in study.regrets.items():
        assert values.shape == study.bounds[arrivals].shape == (3, 2)
        assert np.isfinite(values).all()
    document = json.loads((out / "results.json").read_text())
    with (out / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(document["cells"]) == len(ARRIVALS) * len(POLICIES) * 3
    first = study.regrets["random", THEORY][0]
    assert float(rows[0]["regret"]) == document["cells"][0]["regret"] == pytest.approx(first.mean())
    assert (out / "regret.png").read_bytes()[:4] == b"\x89PNG"
    printed = capsys.readouterr().out
    assert "the regret is under the bound in all runs" in printed
    growth = study.growth["random", THEORY]
    assert growth is not None
    assert f"{growth.exponent:.3f} [{growth.low:.3f}, {growth.high:.3f}]" in printed


def test_a_regret_above_the_bound_is_found() -> None:
    options = Regret(horizons=(100, 300), seeds=2)
    bounds = {arrivals: np.full((2, 2), 10.0) for arrivals in ARRIVALS}
    regrets = {(arrivals, policy): np.full((2, 2), 9.0) for arrivals in ARRIVALS for policy in POLICIES}
    regrets["periodic", POLICIES[1]][0, 0] = 11.0  # nothing is promised of this one
    assert RegretStudy(options, regrets, bounds, {}).num_invalid == 0
    regrets["periodic", THEORY][1, 0] = 11.0
    assert RegretStudy(options, regrets, bounds, {}).above_bound == [("periodic", 300, 0)]


def test_sizes_follow_from_the_options() -> None:
    assert Regret().sizes == [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000]
    assert Regret(quick=True).sizes == [10, 20, 60, 200]
    assert Regret(divide_slots=100).sizes == [10, 30, 100, 300, 1_000]
    assert (Regret().num_nodes, Regret(quick=True).num_nodes, Regret(divide_nodes=50).num_nodes) == (128, 64, 10)
