"""The formulas themselves, in other ways."""

from __future__ import annotations

from fractions import Fraction
from math import factorial

import numpy as np
import pytest
from queueing import BatchMeans, erlang_c, erlang_c_wait, mean_excess, pollaczek_khinchine_wait

from desim.problems.batch import BatchCluster


@pytest.mark.parametrize("servers", [1, 2, 4, 32])
@pytest.mark.parametrize("load", [Fraction(1, 2), Fraction(4, 5), Fraction(19, 20)])
def test_erlang_c_is_the_stationary_probability_of_busy_servers(servers: int, load: Fraction) -> None:
    offered = servers * load
    some_free = sum(offered**count / factorial(count) for count in range(servers))
    all_busy = offered**servers / factorial(servers) / (1 - load)
    assert erlang_c(servers, float(offered)) == pytest.approx(float(all_busy / (some_free + all_busy)), rel=1e-12)


def test_mean_waits_that_are_known_by_heart() -> None:
    assert erlang_c_wait(1, 0.95) == pytest.approx(19)
    assert erlang_c_wait(1, 0.5, mean_service=10.0) == pytest.approx(10)
    assert pollaczek_khinchine_wait(0.8, 1.0, 1.0) == pytest.approx(erlang_c_wait(1, 0.8))
    assert pollaczek_khinchine_wait(0.8, 1.0, 0.0) == pytest.approx(2)


@pytest.mark.parametrize(("customers", "servers", "load"), [(1, 1, 0.5), (10, 1, 0.95), (100, 4, 0.8)])
def test_mean_excess_is_that_of_sums_of_exponential_times(customers: int, servers: int, load: float) -> None:
    rng = np.random.default_rng(5)
    services = rng.gamma(customers, 1 / servers, 400_000)
    gaps = rng.gamma(customers, 1 / (servers * load), 400_000)
    excess = np.maximum(services - gaps, 0)
    assert mean_excess(customers, servers, load) == pytest.approx(excess.mean(), abs=4 * excess.std() / 400_000**0.5)


def test_control_variates_take_out_what_they_explain_and_no_more() -> None:
    rng = np.random.default_rng(0)
    means = BatchMeans(BatchCluster([], 1), 0.5, 10)
    gaps, services, noise = rng.normal(2, 0.1, 401), rng.normal(1, 0.1, 401), rng.normal(0, 0.1, 401)
    waits = 5 + 10 * (services - 1) - 5 * (gaps - 2) + noise
    means.rows = [[wait, 0.5, gap, service] for wait, gap, service in zip(waits, gaps, services, strict=True)]
    estimate = means.mean_wait(0.95)
    assert estimate.covers(5)
    assert estimate.half_width == pytest.approx(1.96 * 0.1 / 20, rel=0.1)
