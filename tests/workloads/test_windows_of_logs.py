"""Windows of a log: which jobs each simulates, which interval it measures, and what its runs then count."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from desim import simulate
from desim.agents.batch import FCFS
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, Job, Workload
from desim.workloads.batch.transform import offered_load, rescale_load, scale_interarrivals, thin

#: Submission times of jobs 0 to 9, of which two are equal.
TIMES = [100, 110, 120, 120, 140, 150, 160, 170, 180, 199]
LOG = Workload.of([Job(number, time, 1, 20.0, 15.0) for number, time in enumerate(TIMES)])


@pytest.mark.parametrize(
    ("length", "around", "expected"),
    [  # jobs, and begin of warm-up, start, end, end of cool-down; 180 to 199 is no whole window
        (40, {}, {"0123": (100, 100, 140, 140), "4567": (140, 140, 180, 180)}),
        (
            "20s",  # from 120 to 140, 140 to 160, ...; nothing in [200, 220)
            {},
            {
                "01": (100, 100, 120, 120),
                "23": (120, 120, 140, 140),
                "45": (140, 140, 160, 160),
                "67": (160, 160, 180, 180),
            },
        ),
        ("0.5m", {"warm_up": 15}, {"01234": (100, 115, 145, 145), "4567": (130, 145, 175, 175)}),
        ("30s", {"cool_down": "40"}, {"0123456": (100, 100, 130, 170)}),
        ("3jobs", {}, {"01": (100, 100, 120, 120), "2345": (120, 120, 160, 160), "678": (160, 160, 199, 199)}),
        ("4jobs", {"warm_up": "1job", "cool_down": "2jobs"}, {"0123456": (100, 110, 150, 170)}),
    ],
)
def test_windows_follow_each_other(length: Any, around: dict[str, Any], expected: dict[str, tuple[float, ...]]) -> None:
    found = LOG.windows(length, **around)
    assert {"".join(map(str, one["job_id"])): tuple(one.window[1:]) for one in found if one.window} == expected
    for number, one in enumerate(found):
        assert one.window is not None and one.window.number == number
        origin = np.array([TIMES[job] for job in one["job_id"]]) - one["submission_time"]
        assert set(origin) == {one.window.first}  # time 0 is the begin of the warm-up


def test_a_sample_overlaps_only_where_there_is_no_room() -> None:
    log = Workload.of([Job(number, 10.0 * number, 1, 5.0, 5.0) for number in range(100)])
    for length, least in (("20jobs", 20), ("200s", 20)):
        for seed in range(20):
            places = [one.window for one in log.windows(length, sample=4, seed=seed) if one.window]
            assert all(before.end <= after.start for before, after in pairwise(places))
            assert [len(one) for one in log.windows(length, sample=4, seed=seed)] == [least] * 4
    crowded = log.windows("20jobs", sample=30, seed=1)
    assert len(crowded) == 30 and crowded != log.windows("20jobs", sample=30, seed=2)
    assert crowded == log.windows("20jobs", sample=30, seed=1)
    starts = {
        one.window.start for seed in range(200) for one in log.windows("99jobs", sample=1, seed=seed) if one.window
    }
    assert starts == {0.0, 10.0}  # both places are drawn


def test_windows_without_jobs_are_left_out() -> None:
    log = Workload.of([Job(number, float(time), 1, 1.0, 1.0) for number, time in enumerate([0, 3, 7, 10])])
    assert [one.window for one in log.windows(1)] == [(0, 0, 0, 1, 1), (1, 3, 3, 4, 4), (2, 7, 7, 8, 8)]
    log = Workload.of([Job(number, 0.1 * number, 1, 1.0, 1.0) for number in range(100)])
    places = [one.window for one in log.windows(0.7) if one.window]
    assert all(before.end == after.start for before, after in pairwise(places))  # whatever the rounding


def test_only_the_window_is_measured() -> None:
    """One core, jobs of 15 s: the waits of jobs 4 to 6 behind jobs 2 and 3 are counted, those of others are not."""
    window = LOG.windows(30, warm_up=20, cool_down=15)[0]
    assert window.window is not None and window.window[1:] == (100, 120, 150, 165)
    result = simulate(BatchCluster(window, num_cores=1), FCFS())
    assert len(result.jobs) == 7  # jobs 0 to 6, submitted from 100 to 160
    ends, waits = 0.0, {}
    for job, time in enumerate(TIMES[:7]):
        waits[job] = max(ends - time, 0.0)
        ends = max(ends, time) + 15.0
    measured = [waits[job] for job in (2, 3, 4)]  # submitted within [120, 150)
    found = result.metrics()
    assert found["jobs_submitted"] == 3 and found["waiting_time_mean"] == np.mean(measured) == (10 + 25 + 20) / 3
    assert found["utilization"] == 1.0 and found["available_core_seconds"] == 30.0
    assert result.metrics(warm_up=1e-9, cool_down=0.0)["jobs_submitted"] == 6  # asked for, so not the window
    assert pickle.loads(pickle.dumps(window)).window == window.window != LOG.window
    assert window.digest() != window.as_window(window.window._replace(end=151.0)).digest()


def test_the_cluster_is_idle_behind_the_last_job_of_a_window() -> None:
    """Two jobs of 15 s in the first 40 s of a window of 100 s, and one job far behind it, which is not simulated."""
    log = Workload.of([Job(0, 0.0, 1, 15.0, 15.0), Job(1, 25.0, 1, 15.0, 15.0), Job(2, 500.0, 1, 15.0, 15.0)])
    result = simulate(BatchCluster(log.windows(100)[0], num_cores=1), FCFS())
    assert result.end_time == 40.0 and result.metrics()["utilization"] == 0.3


def test_a_load_is_reached_by_time_or_by_thinning() -> None:
    rng = np.random.default_rng(0)
    rows = zip(np.cumsum(rng.exponential(50.0, 400)), rng.integers(1, 9, 400), rng.exponential(100.0, 400), strict=True)
    log = Workload.of([Job(at, float(time), int(cores), 1e4, float(run)) for at, (time, cores, run) in enumerate(rows)])
    offered = offered_load(log, 16)
    assert offered_load(rescale_load(log, 16, 0.3), 16) == pytest.approx(0.3)
    thinned = thin(log, 16, 0.3, np.random.default_rng(5))
    times, most = log["submission_time"], float((log["requested_cores"] * log["run_time"]).max())
    assert 0.3 <= offered_load(thinned, 16) < 0.3 + most / (16 * (times[-1] - times[0]))
    assert len(thinned) < len(log) and set(thinned["submission_time"]) < set(times)
    assert thinned == thin(log, 16, 0.3, np.random.default_rng(5)) != thin(log, 16, 0.3, np.random.default_rng(6))
    assert thin(log, 16, offered, rng) == log
    with pytest.raises(InvalidConfiguration, match=r"load: got 2, but the jobs offer .* cannot raise it"):
        thin(log, 16, 2.0, rng)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length": "7 weeks"}, r"length: got '7 weeks', expected a number of seconds, or a text such as 12h, 7d"),
        ({"length": "1.5jobs"}, r"length: got '1\.5jobs'"),
        ({"length": 0}, r"length: got 0, expected a length > 0"),
        ({"length": "1d"}, r"length: got 1d with warm_up 0\.0 .*, but the log has only 10 jobs in 99 s; try shorter"),
        ({"length": 10, "warm_up": -1.0}, r"warm_up: got -1\.0"),
        ({"length": 10, "sample": 0}, r"sample: got 0, expected an integer >= 1"),
    ],
)
def test_wrong_windows_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        LOG.windows(**given)


def test_the_clock_of_a_window_stays() -> None:
    with pytest.raises(InvalidConfiguration, match=r"change the log first, then call windows\(\)"):
        scale_interarrivals(LOG.windows(40)[0], 2.0)
    with pytest.raises(InvalidConfiguration, match="windows: got a workload without jobs"):
        LOG[:0].windows(40)
