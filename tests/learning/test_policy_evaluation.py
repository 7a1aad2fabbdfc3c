"""Evaluation of a policy on fixed episodes, against one environment at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from learning_cases import Line, Point, PointPolicy, batch_of, line_length, line_policy

from desim.agents.learning.evaluation import evaluate, mean_of


def test_it_plays_each_seed_as_one_environment_would() -> None:
    policy, seeds = line_policy(3), list(range(100, 113))
    for together in (1, 4, 50):
        found = evaluate(policy, Line, seeds, measure=line_length, together=together)
        assert len(found) == len(seeds)
        for seed, episode in zip(seeds, found, strict=True):
            env, earned, length, over = Line(), 0.0, 0, False
            seen = env.reset(seed=seed)[0]
            while not over:
                with torch.no_grad():
                    action = int(policy(batch_of([seen]))[0].mode())
                seen, reward, terminated, truncated, _ = env.step(action)
                earned, length, over = earned + reward, length + 1, terminated or truncated
            assert episode == {"return": pytest.approx(earned), "length": length, "place": env.place}


def test_actions_may_be_drawn() -> None:
    policy, seeds = line_policy(), [1, 2, 3]
    drawn = [evaluate(policy, Line, seeds, rng=np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] != evaluate(policy, Line, seeds)


def test_the_policy_is_left_as_it_was() -> None:
    policy = line_policy()
    for mode in (True, False):
        policy.train(mode)
        evaluate(policy, Line, [1])
        assert policy.training is mode
    with pytest.raises(ValueError, match="broken"):
        evaluate(policy.train(), lambda: Line(fails_after=2), [1])
    assert policy.training


def test_plain_arrays_and_array_actions() -> None:
    (episode,) = evaluate(PointPolicy(), Point, [4])
    assert episode["length"] == 4
    assert episode["return"] < 0


def test_no_seed_no_episode() -> None:
    assert evaluate(line_policy(), Line, []) == []
    assert mean_of([]) == {}
    assert mean_of([{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 6.0}]) == {"a": 1.5, "b": 4.0}
