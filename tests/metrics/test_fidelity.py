"""How near waits come: known answers, groups, and figures."""

from __future__ import annotations

import math
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp, spearmanr

from desim.exceptions import InvalidConfiguration
from desim.problems.batch import Job
from desim.problems.batch.fidelity import group_nearness, idle_waits, nearness, wait_log

NAN = math.nan


def test_ten_minutes_or_a_fifth() -> None:
    """Off by 600 s and 601 s where a fifth is less, by a fifth and more where it is more; one job never starts."""
    recorded = [0.0, 0.0, 10_000.0, 10_000.0, 50.0, NAN]
    found = nearness([600.0, 601.0, 12_000.0, 7_999.0, NAN, 5.0], recorded)
    assert (found.jobs, found.started, found.near) == (5, 4, 2 / 5)
    assert found.median_absolute_error == np.median([600, 601, 2_000, 2_001])
    assert found.mean_absolute_error == (600 + 601 + 2_000 + 2_001) / 4
    assert (found.mean_recorded, found.mean_predicted) == (5_000.0, 5_300.0)
    assert found.bias == 300.0


def test_order_and_distribution() -> None:
    recorded = [1.0, 2.0, 3.0, 4.0]
    assert nearness(recorded, recorded).rank_correlation == pytest.approx(1.0)
    assert nearness([4.0, 3.0, 2.0, 1.0], recorded).rank_correlation == pytest.approx(-1.0)
    assert nearness([4.0, 3.0, 2.0, 1.0], recorded).distance == 0.0
    assert nearness([1.0, 2.0, 9.0, 9.0], recorded).distance == 0.5
    assert math.isnan(nearness([0.0] * 4, recorded).rank_correlation)


def test_nothing_to_compare() -> None:
    found = nearness([1.0, NAN], [NAN, 3.0])
    assert (found.jobs, found.started, found.near) == (1, 0, 0.0)
    assert math.isnan(found.mean_absolute_error)
    assert math.isnan(nearness([1.0], [NAN]).near)


@given(
    pairs=st.lists(
        st.tuples(st.floats(0, 1e6) | st.just(NAN), st.floats(0, 1e6) | st.just(NAN)), min_size=1, max_size=30
    )
)
def test_as_by_hand(pairs: list[tuple[float, float]]) -> None:
    known = [(ours, real) for ours, real in pairs if real == real]
    near = [abs(ours - real) <= 600 or abs(ours - real) <= 0.2 * real for ours, real in known]
    errors = [abs(ours - real) for ours, real in known if ours == ours]
    found = nearness(*zip(*pairs, strict=True))
    assert found.jobs == len(known)
    assert found.started == len(errors)
    if known:
        assert found.near == pytest.approx(sum(near) / len(near))
    if errors:
        assert found.mean_absolute_error == pytest.approx(sum(errors) / len(errors))
        both = np.array([pair for pair in known if pair[0] == pair[0]]).T
        assert found.distance == pytest.approx(ks_2samp(*both, method="exact").statistic)
        if np.ptp(both, axis=1).all():
            assert found.rank_correlation == pytest.approx(spearmanr(*both).statistic, abs=1e-9)


JOBS = [
    Job(0, 0.0, 1, 900.0, 10.0),
    Job(1, 7_200.0, 4, 901.0, 10.0),
    Job(2, 7_201.0, 5, 3_600.0, 10.0),
    Job(3, 90_000.0, 300, 1e6, 10.0),
]


def test_groups() -> None:
    jobs = [job._replace(queue=queue) for job, queue in zip(JOBS, ("b", "a", "b", ""), strict=True)]
    log = wait_log(jobs, [0.0, 0.0, 9_000.0, NAN])
    found = group_nearness([0.0, 700.0, NAN, 5.0], log)
    shares = {by: {name: one.near for name, one in groups.items()} for by, groups in found.items()}
    assert shares == {
        "cores": {"1": 1.0, "2 to 4": 0.0, "5 to 16": 0.0},
        "requested time": {"to 15 min": 1.0, "to 1 h": 0.0},
        "hour of submission": {"00": 1.0, "02": 0.0},
        "queue": {"b": 0.5, "a": 0.0},
    }
    assert sum(one.jobs for one in found["cores"].values()) == 3


def test_hours_are_those_of_the_machine() -> None:
    """The log of KTH begins at 14:00:31 of Stockholm's summer time."""
    log = wait_log(JOBS[:1], [0.0], clock_start=843_480_031, zone=ZoneInfo("Europe/Stockholm"))
    assert log.groups["hour of submission"][0].tolist() == [14]


@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 3_000), st.integers(0, 4_000) | st.just(NAN), st.integers(0, 3_000), st.integers(1, 4)
        ),
        min_size=1,
        max_size=12,
    ),
    num_cores=st.integers(1, 8),
)
def test_waits_with_free_cores_as_by_hand(rows: list[tuple[int, float, int, int]], num_cores: int) -> None:
    rows.sort(key=lambda row: row[0])
    jobs = [Job(number, float(row[0]), row[3], 1.0, float(row[2])) for number, row in enumerate(rows)]
    held = [(begin + wait, begin + wait + run, cores) for begin, wait, run, cores in rows if wait == wait]
    long = [(begin, begin + wait, cores) for begin, wait, _, cores in rows if wait > 600]
    idle = 0
    for begin, end, cores in long:
        moments = [begin, *(start for start, _, _ in held if begin < start < end)]
        busy = [sum(width for start, stop, width in held if start <= moment < stop) for moment in moments]
        idle += max(busy) + cores <= num_cores
    assert idle_waits(jobs, [row[1] for row in rows], num_cores) == (len(long), idle)
    assert idle_waits(jobs, [row[1] for row in rows], num_cores, counted=[False] * len(rows)) == (0, 0)


def test_refusals() -> None:
    with pytest.raises(InvalidConfiguration, match="got 1 waits for 4 jobs, expected one per job"):
        wait_log(JOBS, [1.0])
    with pytest.raises(InvalidConfiguration, match="got no known wait, so there is nothing to compare with"):
        wait_log(JOBS, [NAN] * 4)
