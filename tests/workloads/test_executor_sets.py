"""Sets of executors: speeds, transfer speeds between pairs, racks, reproducibility and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from desim.exceptions import InvalidConfiguration
from desim.problems.dag.executors import Executors
from desim.workloads import executors


def apart(table: Any) -> Any:
    return table[~np.eye(len(table), dtype=bool)]


def same(one: Executors, other: Executors) -> bool:
    return one.describe() == other.describe()


def test_the_setting_of_lachesis() -> None:
    found = executors.heterogeneous(seed=3)
    assert found.num_executors == 50
    steps = found.speeds * 10
    assert np.allclose(steps, np.round(steps))
    assert (found.speeds.min() >= 2.1, found.speeds.max() <= 3.6) == (True, True)
    assert set(apart(found.transfer_speeds)) == {1.0}
    assert set(apart(found.latencies)) == {0.0}
    assert executors.SPEEDS == (2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 2.9, 3.0, 3.1, 3.2, 3.3, 3.4, 3.5, 3.6)


def test_speeds_are_equally_likely() -> None:
    speeds = np.concatenate([executors.heterogeneous(400, seed=seed).speeds for seed in range(20)])
    counts = np.unique(speeds, return_counts=True)[1]
    assert len(counts) == 16
    assert chisquare(counts).pvalue > 0.001


def test_seeds() -> None:
    assert same(executors.heterogeneous(seed=5), executors.heterogeneous(seed=5))
    assert not same(executors.heterogeneous(seed=5), executors.heterogeneous(seed=6))
    rng = np.random.default_rng(1)
    assert not same(executors.heterogeneous(seed=rng), executors.heterogeneous(seed=rng))
    assert same(
        executors.heterogeneous(seed=np.random.default_rng(1)), executors.heterogeneous(seed=np.random.default_rng(1))
    )
    few, many = executors.heterogeneous(10, seed=2), executors.heterogeneous(20, seed=2)
    assert few.speeds.tolist() == many.speeds[:10].tolist()
    drawn = executors.heterogeneous(10, transfer_speed=(1.0, 2.0), latency=(0.0, 1.0), seed=2)
    assert drawn.speeds.tolist() == few.speeds.tolist()
    assert executors.racks(2, 5, seed=2).speeds.tolist() == few.speeds.tolist()


@given(st.integers(1, 12), st.integers(0, 99))
def test_pairs_are_symmetric_and_within_bounds(count: int, seed: int) -> None:
    found = executors.heterogeneous(count, transfer_speed=(2.0, 3.0), latency=(0.25, 0.5), seed=seed)
    for table, low, high in ((found.transfer_speeds, 2.0, 3.0), (found.latencies, 0.25, 0.5)):
        assert (table == table.T).all()
        values = apart(table)
        assert ((values >= low) & (values <= high)).all()
        assert len(np.unique(values)) == count * (count - 1) // 2


def test_pairs_are_uniform() -> None:
    found = executors.heterogeneous(100, transfer_speed=(1.0, 5.0), seed=0)
    assert apart(found.transfer_speeds).mean() == pytest.approx(3.0, abs=0.07)
    assert apart(found.transfer_speeds).std() == pytest.approx(4 / np.sqrt(12), abs=0.05)


def test_homogeneous() -> None:
    found = executors.homogeneous(4, speed=2.5, transfer_speed=8.0, latency=0.5)
    assert found.speeds.tolist() == [2.5] * 4
    assert found.latencies[0].tolist() == [0.0, 0.5, 0.5, 0.5]
    assert found.seconds_per_unit[0].tolist() == [0.0, 0.125, 0.125, 0.125]


@given(st.integers(1, 4), st.integers(1, 4))
def test_racks(num_racks: int, per_rack: int) -> None:
    found = executors.racks(
        num_racks, per_rack, within=8.0, between=2.0, latency_within=0.1, latency_between=0.3, speeds=[1.5]
    )
    assert found.num_executors == num_racks * per_rack
    assert set(found.speeds.tolist()) == {1.5}
    for one, first in enumerate(found.names):
        for other, second in enumerate(found.names):
            if one != other:
                inside = first.split(".")[0] == second.split(".")[0]
                assert found.transfer_speeds[one, other] == (8.0 if inside else 2.0)
                assert found.latencies[one, other] == (0.1 if inside else 0.3)
    assert found.names[-1] == f"rack{num_racks - 1}.executor{per_rack - 1}"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: executors.heterogeneous(0), "num_executors: got 0, expected an integer from 1 to"),
        (lambda: executors.heterogeneous(2, speeds=[]), r"speeds: got \[\], expected at least one"),
        (
            lambda: executors.heterogeneous(2, speeds=[1.0, 0.0]),
            r"speeds: got \[1.0, 0.0\], expected at least one finite",
        ),
        (lambda: executors.heterogeneous(2, speeds=["x"]), r"speeds: got \['x'\], expected numbers"),  # type: ignore[list-item]
        (
            lambda: executors.heterogeneous(2, transfer_speed=0.0),
            "transfer_speed of executor0 to executor1: got 0.0",
        ),
        (lambda: executors.heterogeneous(2, latency=(-1.0, 2.0)), "latency: got -1.0, expected a finite number"),
        (lambda: executors.heterogeneous(2, latency=(1.0, 2.0, 3.0)), "latency: got"),  # type: ignore[arg-type]
        (lambda: executors.heterogeneous(2, seed=-1), "seed: got -1, expected an integer >= 0"),
        (lambda: executors.homogeneous(2, speed=-1.0), "speed of executor0: got -1.0, expected"),
        (lambda: executors.racks(2, 0), "per_rack: got 0, expected"),
        (
            lambda: executors.racks(2, 2, between=0.0),
            r"transfer_speed of rack0.executor0 to rack1.executor0: got 0.0",
        ),
    ],
)
def test_arguments_out_of_range(make: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make()
