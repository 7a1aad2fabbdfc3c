"""The Lublin-Feitelson model: a plain restatement, exact means, published samples, streams, seeds, options, loads."""

from __future__ import annotations

import itertools
import math
import random
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.typing import NDArray
from scipy.special import gammainc
from scipy.stats import chisquare, ks_2samp
from workload_files import data

from desim.exceptions import InvalidConfiguration
from desim.problems.batch.job import Job
from desim.workloads import lublin, swf
from desim.workloads.batch.lublin import TYPES, core_probabilities, daily_cycle, mean_interarrival, mean_work
from desim.workloads.batch.transform import offered_load

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
def twenty_seeds() -> list[Columns]:
    """Return 20 workloads like the published sample."""
    return [Columns(lublin.generate(10_000, 256, seed)) for seed in range(20)]


@pytest.mark.parametrize("model", MODELS)
def test_constants_are_the_published_ones(model: str) -> None:
    published = dict(zip(NAMES.split(), map(float, TABLE[model].split()), strict=True))
    ours = vars(TYPES[model])
    high = 7 - ours["uhi_offset"]
    assert {"uhi": high, "umed": high - ours["umed_offset"]} | ours == published | {
        "uhi_offset": 7 - published["uhi"],
        "umed_offset": published["uhi"] - published["umed"],
    }


@pytest.mark.parametrize("model", MODELS)
def test_against_the_model_restated(model: Any) -> None:
    ours = Columns(lublin.generate(15_000, 128, 3, model=model))
    time_, nodes, ran, points = (np.array(column) for column in zip(*restated(model, 15_000, 4), strict=True))
    for name, mine, theirs in (
        ("cores", ours.cores, nodes),
        ("run time", ours.ran, ran),
        ("gap", ours.gaps, np.diff(np.floor(time_))),
        ("run time of wide jobs", ours.ran[ours.cores >= 32], ran[nodes >= 32]),
    ):
        assert ks_2samp(mine, theirs).pvalue > 0.001, name
    day, point = np.divmod(np.cumsum(points), 48)
    assert time_ == pytest.approx(day * 86_400 + np.interp(point, *daily_cycle(TYPES[model])), abs=1e-3)


@pytest.mark.parametrize("num_cores", [1, 3, 100, 256])
@pytest.mark.parametrize("model", MODELS)
def test_cores_follow_their_exact_distribution(model: Any, num_cores: int) -> None:
    jobs = lublin.generate(15_000, num_cores, 5, model=model)
    counts = np.bincount([job.requested_cores for job in jobs], minlength=num_cores + 1)
    expected = 15_000 * core_probabilities(TYPES[model], num_cores, None)
    assert len(counts) == num_cores + 1
    assert expected.sum() == pytest.approx(15_000)
    assert counts[expected == 0].sum() == 0
    likely = expected >= 5
    rest = [counts[~likely].sum()], [expected[~likely].sum()]
    kept = rest[1][0] >= 5
    observed = np.concatenate([counts[likely], rest[0] if kept else []])
    wanted = np.concatenate([expected[likely], rest[1] if kept else []])
    if len(observed) > 1:
        assert chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 0.001


@pytest.mark.parametrize("model", MODELS)
def test_means_are_the_exact_ones(model: Any) -> None:
    sample = Columns(lublin.generate(100_000, 256, 11, model=model))
    constants = TYPES[model]
    error = sample.work.std() / math.sqrt(len(sample.work))
    assert abs(sample.work.mean() - mean_work(constants, 256, None)) < 4 * error
    # Points have no daily cycle, so that their mean has the plain sampling error
    points = np.exp(default_rng(0).gamma(constants.aarr * constants.arar, constants.barr, 10**6))
    points = points[points <= math.exp(13)]
    error = points.std()
    assert abs(points.mean() - mean_interarrival(constants)) < 4 * error / math.sqrt(len(points))
    assert abs(sample.gaps.mean() - mean_interarrival(constants)) < 4 * error / math.sqrt(100_000)


def test_published_sample(twenty_seeds: list[Columns]) -> None:
    sample = Columns(swf.read(data("swf/lublin_256.swf")).jobs)
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
        ours = np.array([statistic(jobs) for jobs in twenty_seeds])
        assert abs(statistic(sample) - ours.mean()) < 3 * ours.std(ddof=1), name


def test_facts_of_four_other_seeds(twenty_seeds: list[Columns]) -> None:
    medians = [float(np.median(jobs.ran)) for jobs in twenty_seeds]
    assert np.median(medians) == pytest.approx(150, abs=10)  # 145 to 155 s were seen
    gaps = [float(jobs.gaps.mean()) for jobs in twenty_seeds]
    assert 816 < np.median(gaps) < 950
    assert sum(816 <= gap <= 904 for gap in gaps) >= 5
    assert np.mean([jobs.power_share for jobs in twenty_seeds]) == pytest.approx(0.861, abs=0.003)
    assert np.mean([np.mean(jobs.cores == 1) for jobs in twenty_seeds]) == pytest.approx(0.244, abs=0.003)


def test_daily_cycle(twenty_seeds: list[Columns]) -> None:
    hours = np.concatenate([jobs.submitted for jobs in twenty_seeds]) % 86_400 // 3600
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


def test_two_types_are_both_streams_merged() -> None:
    both = lublin.generate(20_000, 128, 9, model="two_types")
    assert all(first.submission_time <= second.submission_time for first, second in itertools.pairwise(both))
    assert [job.job_id for job in both] == list(range(20_000))
    rates = [1 / mean_interarrival(TYPES[name]) for name in ("batch", "interactive")]
    narrow = sum(job.requested_cores <= 2**5.5 for job in both) / len(both)
    shares = [core_probabilities(TYPES[name], 128, None)[: math.floor(2**5.5) + 1].sum() for name in MODELS[1:]]
    assert narrow == pytest.approx(np.average(shares, weights=rates), abs=0.01)
    # The batch jobs of the mix are those of the batch model alone: same seeds, same draws
    batch = lublin.generate(2_000, 128, 9, model="batch")
    found = {(job.submission_time, job.requested_cores, job.run_time) for job in both}
    assert all((job.submission_time, job.requested_cores, job.run_time) in found for job in batch)


def test_jobs_are_sound() -> None:
    for job in lublin.generate(5_000, 256, 2):
        assert (job.user_id, job.requested_time) == (-1, job.run_time)
        assert job.run_time >= 1
        assert job.run_time <= math.exp(12)
        assert job.run_time == int(job.run_time)
        assert job.submission_time == int(job.submission_time)
        assert [type(value) for value in job[:6]] == [int, float, int, float, float, int]


@pytest.mark.parametrize("model", [*MODELS, "two_types"])
@pytest.mark.parametrize("load", [None, 0.7])
def test_stream_and_list_agree(model: Any, load: float | None) -> None:
    options: Any = {"model": model, "load": load, "overestimate": 3.0, "num_users": 20}
    assert list(lublin.stream(9_000, 64, 7, **options)) == lublin.generate(9_000, 64, 7, **options)


@pytest.mark.parametrize("model", [*MODELS, "two_types"])
def test_short_is_the_beginning_of_long(model: Any) -> None:
    options: Any = {"model": model, "overestimate": 3.0, "num_users": 20}
    endless = list(itertools.islice(lublin.stream(None, 64, 7, **options), 9_000))
    assert lublin.generate(9_000, 64, 7, **options) == endless
    assert lublin.generate(9, 64, 7, **options) == endless[:9]


def test_seeds() -> None:
    one, other = lublin.generate(50, 64, 1), lublin.generate(50, 64, 2)
    assert one == lublin.generate(50, 64, 1) == lublin.generate(50, 64, np.int64(1))  # type: ignore[arg-type]
    assert one != other
    rng = default_rng(3)
    first, second = lublin.generate(50, 64, rng), lublin.generate(50, 64, rng)
    assert first != second
    assert first == lublin.generate(50, 64, default_rng(3), load=None)
    lazy = lublin.stream(50, 64, rng := default_rng(3))
    rng.random(1000)
    assert list(lazy) == first


def test_options_leave_the_rest_alone() -> None:
    plain = lublin.generate(3_000, 64, 1)
    rich = lublin.generate(3_000, 64, 1, overestimate=5.0, num_users=10)
    assert [job._replace(requested_time=job.run_time, user_id=-1) for job in rich] == plain
    ratios = np.array([job.requested_time / job.run_time for job in rich if job.run_time > 1000])
    assert all(job.requested_time > job.run_time for job in rich)
    assert ratios.max() <= 5.001
    assert ratios.mean() == pytest.approx(3, abs=0.1)
    assert all(job.requested_time == int(job.requested_time) for job in rich)
    users = np.bincount([job.user_id for job in rich], minlength=11)
    weights = 1 / np.arange(1, 11)
    assert users[0] == 0
    assert chisquare(users[1:], 3_000 * weights / weights.sum()).pvalue > 0.001
    assert {job.user_id for job in lublin.generate(100, 64, 1, num_users=1)} == {1}


@pytest.mark.parametrize("load", [0.3, 1.7])
@pytest.mark.parametrize("model", ["all", "two_types"])
def test_load_of_a_finite_workload_is_exact(load: float, model: Any) -> None:
    plain = lublin.generate(3_000, 100, 4, model=model)
    jobs = lublin.generate(3_000, 100, 4, model=model, load=load)
    assert offered_load(jobs, 100) == pytest.approx(load, rel=1e-12)
    factor = offered_load(plain, 100) / load
    assert [job.submission_time for job in jobs] == pytest.approx([job.submission_time * factor for job in plain])
    assert [job._replace(submission_time=0) for job in jobs] == [job._replace(submission_time=0) for job in plain]


@pytest.mark.parametrize(("model", "error"), [("all", 0.06), ("two_types", 0.12)])
def test_load_of_an_endless_workload_is_as_wanted_in_the_long_run(model: Any, error: float) -> None:
    jobs = list(itertools.islice(lublin.stream(None, 128, 4, model=model, load=0.9), 120_000))
    assert offered_load(jobs, 128) == pytest.approx(0.9, rel=error)
    plain = next(lublin.stream(None, 128, 4, model=model))
    factor = lublin.expected_load(128, model=model) / 0.9
    assert jobs[0].submission_time == pytest.approx(plain.submission_time * factor)


def test_streaming_takes_constant_memory() -> None:
    peaks = []
    for count in (20_000, 60_000):
        jobs = lublin.stream(count, 256, 0, load=0.8)
        tracemalloc.start()
        assert sum(1 for _ in jobs) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "none"}, r"model: got 'none', expected one of 'all', 'batch', 'interactive', 'two_types'"),
        ({"num_jobs": 0}, "num_jobs: got 0, expected an integer from 1 to"),
        ({"num_cores": float("nan")}, "num_cores: got nan, expected an integer from 1 to"),
        ({"num_users": 0}, "num_users: got 0, expected an integer from 1 to"),
        ({"load": 0}, "load: got 0, expected a finite number > 0"),
        ({"load": 0.5, "num_jobs": 1}, "num_jobs: got 1 with a load, expected at least 2 jobs"),
        ({"overestimate": 0.5}, "overestimate: got 0.5, expected a finite number from 1 to"),
        ({"seed": -1}, "seed: got -1, expected an integer >= 0"),
    ],
)
def test_arguments_out_of_range(change: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        lublin.stream(**({"num_jobs": 10, "num_cores": 64} | change))
