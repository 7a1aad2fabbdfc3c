"""Random arrivals slot by slot: distributions, common random numbers, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from desim.exceptions import InvalidConfiguration
from desim.workloads.multiserver import bernoulli_arrivals, periodic_arrivals, poisson_arrivals


def test_bernoulli_arrivals() -> None:
    chance = np.array([0.0, 0.1, 0.7, 1.0])
    drawn = bernoulli_arrivals(20_000, 4, chance, seed=1)
    assert (drawn.shape, drawn.dtype) == ((20_000, 4), np.bool_)
    assert (np.abs(drawn.mean(axis=0) - chance) <= 4 * np.sqrt(chance * (1 - chance) / 20_000)).all()
    assert abs(np.corrcoef(drawn[1:, 2], drawn[:-1, 2])[0, 1]) < 0.03
    assert abs(np.corrcoef(drawn[:, 1], drawn[:, 2])[0, 1]) < 0.03
    assert np.array_equal(bernoulli_arrivals(300, 4, chance, seed=1), drawn[:300])
    assert not np.array_equal(bernoulli_arrivals(300, 4, chance, seed=2), drawn[:300])
    assert np.array_equal(bernoulli_arrivals(50, 3), bernoulli_arrivals(50, 3, 0.7, 0))


def test_jobs_stay_when_the_probability_grows() -> None:
    low, high = (bernoulli_arrivals(500, 6, probability, seed=4) for probability in (0.3, 0.5))
    assert (low <= high).all()
    assert low.sum() < high.sum()


def test_poisson_arrivals() -> None:
    means = np.array([0.0, 0.4, 3.0, 50.0])
    drawn = poisson_arrivals(20_000, 4, means, seed=1)
    assert (drawn.shape, drawn.dtype) == ((20_000, 4), np.int64)
    assert (np.abs(drawn.mean(axis=0) - means) <= 4 * np.sqrt(means / 20_000)).all()
    assert drawn.var(axis=0) == pytest.approx(means, rel=0.06)
    assert np.array_equal(poisson_arrivals(123, 4, means, seed=1), drawn[:123])
    assert np.array_equal(poisson_arrivals(9, 2, 1.5, 3), poisson_arrivals(9, 2, [1.5, 1.5], 3))


def test_periodic_arrivals_follow_their_wave() -> None:
    peak = np.array([0.0, 6.0])
    drawn = periodic_arrivals(24_000, 2, 24, 0.5, swing=0.4, peak=peak, seed=1)
    assert drawn.dtype == np.bool_
    slots = np.arange(24)[:, None]
    wave = 0.5 + 0.4 * np.cos(2 * np.pi * (slots - peak) / 24)
    assert np.abs(drawn.reshape(1_000, 24, 2).mean(axis=0) - wave).max() < 4.5 * math.sqrt(0.25 / 1_000)
    assert np.array_equal(periodic_arrivals(100, 2, 24, 0.5, swing=0.4, peak=peak, seed=1), drawn[:100])
    still = periodic_arrivals(100, 5, 7.5, 0.6, swing=0.0, seed=8)
    assert np.array_equal(still, bernoulli_arrivals(100, 5, 0.6, seed=8))
    assert periodic_arrivals(10, 1, 4, 1.0, swing=0.0).all()
    # The default reaches 1 at its peak
    assert periodic_arrivals(401, 3, 40)[::40].all()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: bernoulli_arrivals(0, 3), "num_slots: got 0, expected an integer from 1 to 100000000"),
        (
            lambda: bernoulli_arrivals(3, 2, [0.5, 1.1]),
            "probability of port 1: got 1.1, expected a finite number from 0 to 1",
        ),
        (
            lambda: bernoulli_arrivals(3, 2, [0.5] * 3),
            "probability: got shape (3,), expected one number, or one for each of the 2 ports",
        ),
        (lambda: poisson_arrivals(3, 2, -1.0), "mean of port 0: got -1.0, expected a finite number from 0 to 1e+15"),
        (lambda: periodic_arrivals(3, 2, 5, peak=-1), "peak of port 0: got -1.0, expected a finite number >= 0"),
        (
            lambda: periodic_arrivals(3, 2, 5, [0.5, 0.8]),
            "probability of port 1: got 0.8 +- 0.3, expected a range within 0 to 1",
        ),
    ],
)
def test_wrong_arrivals(draw: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        draw()
    assert str(caught.value) == message
