"""The Lublin-Feitelson model: against a plain restatement of it, exact means, and published samples."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.typing import NDArray
from scipy.special import gammainc
from scipy.stats import chisquare, ks_2samp

from desim.problems.batch.job import Job
from desim.workloads import lublin, swf
from desim.workloads.batch.lublin import TYPES, core_probabilities, daily_cycle, mean_interarrival, mean_work

MODELS: list[Any] = ["all", "batch", "interactive"]
NAMES = "serial pow2 ulow umed uhi uprob a1 b1 a2 b2 pa pb aarr barr anum bnum arar"
# The published table, for 128 nodes
TABLE = {
    "all": ".244 .576 .8 4.5 7 .86 4.2 .94 312 .03 -.0054 .78 10.2303 .4871 8.1737 3.9631 1.0225",
    "batch": ".2927 .6686 1.2 5 7 .875 6.57 .823 639.1 .0156 -.003 .6986 6.0415 .8531 6.1271 5.2740 1.0519",
    "interactive": ".1541 .625 1 3 5.5 .705 3.8351 .6605 7.073 .6856 -.0118 .9156 6.5510 .6621 8.9186 3.6680 .9797",
}


class Columns:
    """The fields of jobs as arrays."""

    def __init__(self, jobs: list[Job]) -> None:
        self.submitted = np.array([job.submission_time for job in jobs])
        self.cores = np.array([job.requested_cores for job in jobs])
        self.ran = np.array([job.run_time for job in jobs])
        self.gaps = np.diff(self.submitted)
        self.work = self.cores * self.ran

    @property
    def power_share(self) -> float:
        return float(np.mean(self.cores & (self.cores - 1) == 0))


def restated(model: str, num_jobs: int, seed: int) -> Iterator[tuple[float, int, int, float]]:
    """Yield submission time, nodes, run time and points of one job at a time as the paper tells it, for 128 nodes."""
    serial, pow2, ulow, umed, uhi, uprob, a1, b1, a2, b2, pa, pb, aarr, barr, anum, bnum, arar = map(
        float, TABLE[model].split()
    )
    rng = random.Random(seed)
    weights = [0.0] * 48
    for i in range(11, 59):
        weights[(i - 1) % 48] = gammainc(anum, (i + 0.5) / bnum) - gammainc(anum, (i - 0.5) / bnum)
    mean = sum(weights) / 48
    weights = [weight / mean for weight in weights]
    points, bucket, passed = 0.0, 0, 0
    for _ in range(num_jobs):
        nodes, kind = 1, rng.random()
        if kind >= serial:
            u = rng.uniform(ulow, umed) if rng.random() < uprob else rng.uniform(umed, uhi)
            nodes = round(2 ** (round(u) if kind < serial + pow2 else u))
        x = math.inf
        while x > 12:
            x = rng.gammavariate(a1, b1) if rng.random() < min(1, max(0, pa * nodes + pb)) else rng.gammavariate(a2, b2)
        g = math.inf
        while g > 13:
            g = rng.gammavariate(aarr * arar, barr)
        between = math.exp(g) / 1800
        points += between
        while points > weights[bucket]:
            points -= weights[bucket]
            bucket = (bucket + 1) % 48
            passed += 1
        yield (passed + points / weights[bucket]) * 1800, nodes, math.floor(math.exp(x)), between


@pytest.fixture(scope="module")
def forty_seeds() -> list[Columns]:
    """Return 40 workloads like the published sample."""
    return [Columns(lublin.generate(10_000, 256, seed)) for seed in range(40)]


@pytest.mark.parametrize("model", MODELS)
def test_constants_are_the_published_ones(model: str) -> None:
    published = dict(
        zip(
            NAMES.split(),
            map(float, TABLE[model].split()),
            strict=True,
        )
    )
    ours = vars(TYPES[model])
    high = 7 - ours["uhi_offset"]
    assert {"uhi": high, "umed": high - ours["umed_offset"]} | ours == published | {
        "uhi_offset": 7 - published["uhi"],
        "umed_offset": published["uhi"] - published["umed"],
    }


@pytest.mark.parametrize("model", MODELS)
def test_against_the_model_restated(model: Any) -> None:
    ours = Columns(lublin.generate(40_000, 128, 3, model=model))
    time_, nodes, ran, points = (np.array(column) for column in zip(*restated(model, 40_000, 4), strict=True))
    for name, mine, theirs in (
        ("cores", ours.cores, nodes),
        ("run time", ours.ran, ran),
        ("gap", ours.gaps, np.diff(np.floor(time_))),
        ("run time of wide jobs", ours.ran[ours.cores >= 32], ran[nodes >= 32]),
    ):
        assert ks_2samp(mine, theirs).pvalue > 0.001, name
    day, point = np.divmod(np.cumsum(points), 48)
    assert time_ == pytest.approx(day * 86_400 + np.interp(point, *daily_cycle(TYPES[model])), abs=1e-3)


@pytest.mark.parametrize("num_cores", [1, 2, 3, 100, 128, 256])
@pytest.mark.parametrize("model", MODELS)
def test_cores_follow_their_exact_distribution(model: Any, num_cores: int) -> None:
    jobs = lublin.generate(50_000, num_cores, 5, model=model)
    counts = np.bincount([job.requested_cores for job in jobs], minlength=num_cores + 1)
    expected = 50_000 * core_probabilities(TYPES[model], num_cores, None)
    assert len(counts) == num_cores + 1
    assert expected.sum() == pytest.approx(50_000)
    assert counts[expected == 0].sum() == 0
    likely = expected >= 10
    rest = [counts[~likely].sum()], [expected[~likely].sum()]
    kept = rest[1][0] >= 10
    observed = np.concatenate([counts[likely], rest[0] if kept else []])
    wanted = np.concatenate([expected[likely], rest[1] if kept else []])
    if len(observed) > 1:
        assert chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 0.001


@pytest.mark.parametrize("model", MODELS)
def test_means_are_the_exact_ones(model: Any) -> None:
    sample = Columns(lublin.generate(300_000, 256, 11, model=model))
    constants = TYPES[model]
    error = sample.work.std() / math.sqrt(len(sample.work))
    assert abs(sample.work.mean() - mean_work(constants, 256, None)) < 4 * error
    # Points have no daily cycle, so that their mean has the plain sampling error
    points = np.exp(default_rng(0).gamma(constants.aarr * constants.arar, constants.barr, 10**6))
    points = points[points <= math.exp(13)]
    error = points.std()
    assert abs(points.mean() - mean_interarrival(constants)) < 4 * error / math.sqrt(len(points))
    assert abs(sample.gaps.mean() - mean_interarrival(constants)) < 4 * error / math.sqrt(300_000)


def test_published_sample(real_log: Callable[[str], Path], forty_seeds: list[Columns]) -> None:
    sample = Columns(swf.read(real_log("lublin_256.swf")).jobs)
    statistics: dict[str, Callable[[Columns], float]] = {
        "serial": lambda jobs: float(np.mean(jobs.cores == 1)),
        "powers of two": lambda jobs: jobs.power_share,
        "mean cores": lambda jobs: float(jobs.cores.mean()),
        "mean run time": lambda jobs: float(jobs.ran.mean()),
        "mean work": lambda jobs: float(jobs.work.mean()),
        "mean gap": lambda jobs: float(jobs.gaps.mean()),
        **{
            f"{name} at {share}": lambda jobs, name=name, share=share: float(np.quantile(getattr(jobs, name), share))  # type: ignore[misc]
            for name in ("ran", "gaps")
            for share in (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
        },
    }
    for name, statistic in statistics.items():
        ours = np.array([statistic(jobs) for jobs in forty_seeds])
        assert abs(statistic(sample) - ours.mean()) < 3 * ours.std(ddof=1), name


def test_facts_of_four_other_seeds(forty_seeds: list[Columns]) -> None:
    medians = [float(np.median(jobs.ran)) for jobs in forty_seeds]
    assert np.median(medians) == pytest.approx(150, abs=10)  # 145 to 155 s were seen
    gaps = [float(jobs.gaps.mean()) for jobs in forty_seeds]
    assert min(gaps) < 816 < np.median(gaps) < 950
    assert sum(816 <= gap <= 904 for gap in gaps) >= 10
    assert np.mean([jobs.power_share for jobs in forty_seeds]) == pytest.approx(0.861, abs=0.003)
    assert np.mean([np.mean(jobs.cores == 1) for jobs in forty_seeds]) == pytest.approx(0.244, abs=0.003)


def test_daily_cycle(forty_seeds: list[Columns]) -> None:
    hours = np.concatenate([jobs.submitted for jobs in forty_seeds]) % 86_400 // 3600
    share: NDArray[np.float64] = np.bincount(hours.astype(int), minlength=24) / len(hours)
    assert 12 <= share.argmax() <= 15
    assert 3 <= share.argmin() <= 5
    assert share.max() > 7 * share.min()
    # Half hours 2h and 2h + 1 of the day have the density at 2h + 1 and 2h + 2 (49 and 50 for the first)
    constants = TYPES["all"]
    for hour in (2, 8, 14, 20):
        at = 2 * hour + 1 if 2 * hour >= 10 else 2 * hour + 49
        inside, whole = (
            gammainc(constants.anum, end / constants.bnum) - gammainc(constants.anum, start / constants.bnum)
            for start, end in ((at - 0.5, at + 1.5), (10.5, 58.5))
        )
        assert share[hour] == pytest.approx(inside / whole, rel=0.05)
