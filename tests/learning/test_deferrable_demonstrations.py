"""What a list plan shows to networks: what it notes, and how far from it networks are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from desim import Simulation, simulate
from desim.agents.deferrable._demonstrations import EXPERT, _Demonstrator, agreement, demonstrations, distance
from desim.agents.deferrable.auxiliary import KNOWN, TARGETS, seen_of
from desim.agents.deferrable.list_plan import ListPlan
from desim.agents.deferrable.score_agent import ScoreConfig
from desim.agents.deferrable.training import DeferrableEpisodes
from desim.agents.learning.distributions import Gaussian
from desim.agents.learning.policy import to_tensors
from desim.problems.deferrable import DeferrableCluster
from desim.workloads import deferrable

SHORT: Any = replace(deferrable.DEFAULT, num_slots=12, arrival_rate=1.0, capacity_mean=9.0)
AGENT = ScoreConfig(max_jobs=8, max_future_jobs=4, width=8, layers=1)
EPISODES = DeferrableEpisodes((SHORT,))


def seeds_of(count: int, seed: int = 5) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(seed).spawn(count)


def test_demonstrations_are_those_of_the_episodes() -> None:
    shown, done = demonstrations(AGENT, EPISODES, seeds_of(4))
    spaces = AGENT.encoder().observation_space
    assert shown.keys() == {*spaces.keys(), TARGETS, KNOWN}
    assert done.shape == (len(shown["current"]), 8)
    assert (shown["action_mask"].sum(1) > 0).all()
    np.testing.assert_array_equal(done != 0, shown["action_mask"] == 1)
    assert 0.1 < (done > 0).sum() / (done != 0).sum() < 1.0
    np.testing.assert_array_equal((done > 0) <= (shown["current"][:, :, 1] > 0), True)  # a plan starts what fits
    assert_targets_are_seen_later(shown)
    for other in (demonstrations(AGENT, EPISODES, seeds_of(4)), both_halves()):
        np.testing.assert_array_equal(other[1], done)
        for name, array in shown.items():
            np.testing.assert_array_equal(other[0][name], array)
            assert other[0][name].dtype == array.dtype
    for episodes, seed in ((EPISODES, 6), (replace(EPISODES, real_time=(True,)), 5)):
        assert demonstrations(AGENT, episodes, seeds_of(4, seed))[1].tolist() != done.tolist()


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_what_is_noted_is_what_a_list_plan_starts(noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desim.agents.deferrable._demonstrations._NOISE", (noise,))
    jobs, capacity, num_slots = deferrable.generate(SHORT, seed=4)
    cluster = DeferrableCluster(jobs, capacity, num_slots=num_slots)
    shown, done = demonstrations(replace(AGENT, max_jobs=32), lambda rng: cluster, seeds_of(1))  # type: ignore[arg-type]
    planned = simulate(cluster, ListPlan()).table("slots")["started"].to_numpy()
    noted = np.zeros(num_slots)
    noted[np.round(shown["system"][:, 0] * num_slots).astype(int)] = (done > 0).sum(1)
    assert (noted.tolist() == planned.tolist()) == (noise == 0.0)


def test_scores_that_are_shown_lead_to_the_plan_where_jobs_keep_their_place() -> None:
    config = replace(AGENT, max_jobs=32, max_future_jobs=32, rule="reserve")
    encoder, planned, shown = config.encoder(), ListPlan(), 0
    agree = []
    for seed in range(3):
        jobs, capacity, num_slots = deferrable.generate(replace(SHORT, num_slots=40), seed=seed)
        simulation = Simulation(DeferrableCluster(jobs, capacity, num_slots=num_slots))
        demonstrator: Any = _Demonstrator(config, np.random.default_rng(seed))
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


def assert_targets_are_seen_later(shown: dict[str, np.ndarray]) -> None:
    """Compare what a slot was to predict with what the next observation remembers of the slot after it."""
    slots = np.round(shown["system"][:, 0] * SHORT.num_slots).astype(int)
    gaps = np.diff(slots)
    assert (gaps == 1).sum() > 10
    assert (gaps > 1).sum() > 2  # slots without jobs, which are not noted
    for place in np.flatnonzero(gaps > 0):
        targets, known = seen_of(shown["history"][place + 1, -gaps[place]], 1)
        tasks = slice(4 if gaps[place] == 1 else 3)  # what is held later is another thing
        np.testing.assert_array_equal(shown[TARGETS][place, tasks], targets[tasks])
        np.testing.assert_array_equal(shown[KNOWN][place], known)
    assert not shown[KNOWN][slots == SHORT.num_slots - 1].any()


def both_halves() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the demonstrations of four episodes, two by two: each hangs on its own seed only."""
    parts = [demonstrations(AGENT, EPISODES, part) for part in (seeds_of(4)[:2], seeds_of(4)[2:])]
    shown = {name: np.concatenate([part[0][name] for part in parts]) for name in parts[0][0]}
    return shown, np.concatenate([part[1] for part in parts])


def test_means_are_drawn_towards_the_scores_of_the_expert() -> None:
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


def test_a_pointer_network_is_to_point_at_what_was_started() -> None:
    config = replace(AGENT, network="pointer", auxiliary="none")
    shown, done = demonstrations(config, EPISODES, seeds_of(1))
    with torch.no_grad():
        distribution, _ = config.policy(np.random.default_rng(0))(to_tensors(shown))
        wanted = torch.from_numpy(done)
        torch.testing.assert_close(distance(distribution, wanted), -distribution.log_prob(wanted))
        assert torch.isfinite(distance(distribution, wanted)).all()
