"""Generated deferrable jobs and capacity: what is drawn against the settings, and what a seed fixes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.stats import chi2_contingency, chisquare

from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster, Job, clairvoyant_view
from desim.problems.deferrable.job import check_job
from desim.workloads.deferrable import (
    CORE_CASES,
    DEFAULT,
    DURATION_CASES,
    Constant,
    Scenario,
    Settings,
    Sometimes,
    Uniform,
    case,
    generate,
)

LONG = replace(
    DEFAULT, num_slots=12_000, arrival_rate=2.0, arrival_swing=0.5, arrival_phase=0.0, batch_mean=1.0, lead_time=0
)


def up_to_its_length(uniforms: Any, durations: Any) -> Any:
    """Draw a number of slots between none and the job's duration."""
    return np.floor(uniforms * (durations + 1)).astype(int)


@pytest.fixture(scope="module")
def drawn() -> Scenario:
    """Return five hundred days of jobs."""
    return generate(LONG, seed=11)


def frequencies(values: Any, choices: Any) -> list[int]:
    counts = Counter(values)
    assert set(counts) <= set(choices)
    return [counts[choice] for choice in choices]


def likely(counts: Any, probabilities: Any) -> None:
    """Fail if counts are very unlikely, one in a million, and if there is what cannot be."""
    counts, probabilities = np.array(counts), np.array(probabilities)
    assert not counts[probabilities == 0].any()
    possible = probabilities > 0
    assert chisquare(counts[possible], probabilities[possible] * counts.sum()).pvalue > 1e-6


def test_arrivals_follow_the_day(drawn: Scenario) -> None:
    slots = np.array([job.earliest_start for job in drawn.jobs])
    a_slot = np.bincount(slots, minlength=12_000)
    by_hour = a_slot.reshape(-1, 24)
    rate = 2.0 * (1 + 0.5 * np.sin(2 * np.pi * np.arange(24) / 24))
    error = np.sqrt(rate / 500)
    assert np.all(np.abs(by_hour.mean(axis=0) - rate) < 5 * error)
    # Poisson: the variance is the mean, up to sqrt(2 / n) of itself and a little more
    assert np.all(np.abs(by_hour.var(axis=0) / rate - 1) < 5 * np.sqrt((2 + 1 / rate) / 500))


def test_a_rate_does_not_fall_below_none() -> None:
    found = generate(replace(LONG, arrival_swing=2.0), seed=1)
    hours = Counter(job.earliest_start % 24 for job in found.jobs)
    assert set(hours) == {hour for hour in range(24) if np.sin(2 * np.pi * hour / 24) > -0.5 + 1e-9}
    assert not generate(replace(DEFAULT, arrival_rate=0.0)).jobs


def test_sizes_and_lengths_have_their_probabilities(drawn: Scenario) -> None:
    for name, core, length in [("default", "core-1", "duration-3"), *[(n, n, "duration-3") for n in CORE_CASES]] + [
        (n, "core-1", n) for n in DURATION_CASES
    ]:
        jobs = drawn.jobs if name == "default" else generate(case(name, LONG), seed=12).jobs
        likely(frequencies([job.cores for job in jobs], DEFAULT.cores), CORE_CASES[core])
        likely(frequencies([job.duration for job in jobs], DEFAULT.durations), DURATION_CASES[length])
    pairs = Counter((job.cores, job.duration) for job in drawn.jobs)
    lengths = [length for length, chance in zip(DEFAULT.durations, DURATION_CASES["duration-3"], strict=True) if chance]
    table = [[pairs[size, length] for length in lengths] for size in DEFAULT.cores]
    assert chi2_contingency(table).pvalue > 1e-6
    mean = np.mean([job.cores for job in drawn.jobs]), np.mean([job.duration for job in drawn.jobs])
    assert mean == pytest.approx((DEFAULT.mean_cores, DEFAULT.mean_duration), rel=0.03)


def test_notice_and_slack_follow_their_laws() -> None:
    found = generate(replace(LONG, lead_time=Uniform(2, 5), slack=up_to_its_length), seed=3).jobs
    late = [job for job in found if job.earliest_start >= 5]
    likely(frequencies([job.lead_time for job in late], [2, 3, 4, 5]), [0.25] * 4)
    for length in (1, 2, 3):
        slacks = [job.slack for job in found if job.duration == length]
        likely(frequencies(slacks, range(length + 1)), [1 / (length + 1)] * (length + 1))
    slacks = [job.slack for job in generate(replace(LONG, slack=Sometimes(0.3, Uniform(1, 2))), seed=4).jobs]
    likely(frequencies(slacks, [0, 1, 2]), [0.7, 0.15, 0.15])
    assert {job.slack for job in generate(replace(DEFAULT, slack=4)).jobs} == {4}
    assert {job.slack for job in generate(replace(DEFAULT, slack=Constant(4))).jobs} == {4}
    tripled = replace(DEFAULT, slack=lambda uniforms, durations: 3 * durations)
    assert all(job.slack == 3 * job.duration for job in generate(tripled).jobs)


def test_what_was_submitted_before_the_run_is_known_from_its_beginning() -> None:
    options = replace(LONG, num_slots=40, lead_time=Uniform(3, 6))
    counts = np.zeros(40)
    for seed in range(80):
        jobs = generate(options, seed=seed).jobs
        counts += np.bincount([job.earliest_start for job in jobs], minlength=40)
        assert all(job.submission_time == 0 for job in jobs if job.earliest_start <= 3)
        assert all(3 <= job.lead_time <= 6 for job in jobs if job.submission_time > 0)
    # Windows open as often at the beginning and at the end as ever: as jobs were submitted 3 to 6 slots before
    submitted = np.arange(40)[:, None] - np.arange(3, 7)
    rate = (2 * (1 + 0.5 * np.sin(2 * np.pi * submitted / 24))).mean(axis=1)
    assert np.all(np.abs(counts / 80 - rate) < 5 * np.sqrt(rate / 80))


def test_batches_are_geometric_and_may_be_alike() -> None:
    mean = 3.0
    options = replace(LONG, arrival_rate=0.3, arrival_swing=0.0, batch_mean=mean)
    jobs = generate(replace(options, slack=Uniform(0, 9)), seed=5).jobs
    assert abs(len(jobs) / 12_000 - 0.3) < 5 * np.sqrt(0.1 * (2 * mean**2 - mean) / 12_000)
    # A slot has mostly one batch or none, so that its jobs number 1, 2, 3, ... with the geometric law's probabilities
    a_slot = Counter(Counter(job.earliest_start for job in jobs).values())
    share = (1 - np.exp(-0.1)) ** -1 * np.exp(-0.1) * 0.1 / mean  # exactly one batch, of one job
    total = a_slot.total()
    assert abs(a_slot[1] - share * total) < 5 * np.sqrt(share * (1 - share) * total)
    groups = _by_slot(jobs)
    assert any(len({job.cores for job in group}) > 1 for group in groups)
    alike = generate(replace(options, slack=Uniform(0, 9), batch_alike=("cores", "slack"), arrival_rate=0.01), seed=5)
    groups = _by_slot(alike.jobs)
    equal = [len({(job.cores, job.slack) for job in group}) == 1 for group in groups if len(group) > 1]
    assert len(equal) > 30
    assert np.mean(equal) > 0.9  # seldom, two batches share a slot
    assert any(len({job.duration for job in group}) > 1 for group in groups)


def _by_slot(jobs: tuple[Job, ...]) -> list[list[Job]]:
    groups: dict[int, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.earliest_start, []).append(job)
    return list(groups.values())


def test_the_capacity_is_autoregressive() -> None:
    options = Settings(
        num_slots=30_000,
        arrival_rate=0.0,
        capacity_mean=100.0,
        capacity_swing=0.0,
        capacity_correlation=0.8,
        capacity_deviation=0.1,
        whole_capacity=False,
    )
    noise = generate(options, seed=2).capacity - 100
    independent = len(noise) * (1 - 0.8) / (1 + 0.8)  # as many independent draws tell the mean as well
    assert abs(noise.mean()) < 5 * 10 / np.sqrt(independent)
    assert abs(noise.std() / 10 - 1) < 5 * np.sqrt((1 + 0.8**2) / (1 - 0.8**2) / 2 / len(noise))
    for lag in (1, 2, 5):
        correlation = np.mean(noise[lag:] * noise[:-lag]) / noise.var()
        assert abs(correlation - 0.8**lag) < 0.03
    innovations = noise[1:] - 0.8 * noise[:-1]
    likely(np.histogram(innovations / 6, bins=[-9, -0.6745, 0, 0.6745, 9])[0], [0.25] * 4)  # normal quartiles
    first = np.array([generate(replace(options, num_slots=1), seed=seed).capacity[0] for seed in range(300)])
    assert abs(first.std() / 10 - 1) < 5 / np.sqrt(2 * 300)  # from the beginning


def test_the_capacity_follows_the_day_and_is_rounded_and_bounded() -> None:
    options = replace(DEFAULT, num_slots=48, capacity_mean=10.0, capacity_swing=1.5, capacity_deviation=0.0)
    wave = 10 + 15 * np.sin(2 * np.pi * np.arange(48) / 24)
    exact = generate(replace(options, whole_capacity=False)).capacity
    np.testing.assert_allclose(exact, np.maximum(wave, 0), atol=1e-12)
    night = [10, 6, 3, 0, 0, 0, 0, 0, 0, 0, 3, 6]
    day = [10, 14, 18, 21, 23, 24, 25, 24, 23, 21, 18, 14, *night]  # 17.5 and 2.5 are 18 and 3
    assert generate(options).capacity.tolist() == day * 2
    peak = generate(replace(options, capacity_phase=0.25, capacity_floor=3.5)).capacity
    assert (peak[0], peak[12], peak.min()) == (25.0, 3.5, 3.5)
    short = generate(replace(options, day_slots=6.0, whole_capacity=False, capacity_swing=0.5)).capacity
    np.testing.assert_allclose(short[:6], short[6:12])
    with pytest.raises(ValueError, match="read-only"):
        short[0] = 1


def test_the_same_seed_gives_the_same_scenario() -> None:
    first, second = generate(seed=4), generate(DEFAULT, seed=4)
    assert first.jobs == second.jobs
    assert first.num_slots == DEFAULT.num_slots == len(first.capacity)
    np.testing.assert_array_equal(first.capacity, second.capacity)
    other = generate(seed=5)
    assert other.jobs != first.jobs
    assert not np.array_equal(other.capacity, first.capacity)
    generators = default_rng(4), default_rng(4)
    assert generate(seed=generators[0]).jobs == generate(seed=generators[1]).jobs
    assert generate(seed=generators[0]).jobs != generate(seed=default_rng(4)).jobs  # further on


STOCHASTIC = replace(DEFAULT, lead_time=Uniform(0, 4), slack=Uniform(0, 9), batch_mean=2.0)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"core_probabilities": CORE_CASES["core-2"]}, {"cores"}),
        ({"cores": (1, 2, 3, 4)}, {"cores"}),
        ({"duration_probabilities": DURATION_CASES["duration-1"]}, {"duration"}),
        ({"slack": Uniform(3, 20)}, {"latest_start"}),
        ({"capacity_mean": 99.0, "capacity_correlation": 0.1}, {"capacity"}),
    ],
)
def test_what_is_changed_changes_nothing_else(changes: dict[str, Any], fields: set[str]) -> None:
    before, after = generate(STOCHASTIC, seed=6), generate(replace(STOCHASTIC, **changes), seed=6)
    for field in Job._fields:
        same = [getattr(job, field) for job in before.jobs] == [getattr(job, field) for job in after.jobs]
        assert same == (field not in fields), field
    assert np.array_equal(before.capacity, after.capacity) == ("capacity" not in fields)


def test_a_shorter_run_is_the_beginning_of_a_longer_one() -> None:
    long, short = generate(STOCHASTIC, seed=8), generate(replace(STOCHASTIC, num_slots=100), seed=8)
    assert [job[1:] for job in short.jobs] == [job[1:] for job in long.jobs if job.earliest_start < 100]
    np.testing.assert_array_equal(short.capacity, long.capacity[:100])


@settings(max_examples=60, deadline=None)
@given(
    options=st.fixed_dictionaries(
        {"num_slots": st.integers(1, 60), "arrival_rate": st.floats(0, 4), "capacity_mean": st.floats(0, 50)},
        optional={
            "day_slots": st.floats(0.5, 100),
            "arrival_swing": st.floats(0, 3),
            "arrival_phase": st.floats(-2, 2),
            "batch_mean": st.floats(1, 5),
            "batch_alike": st.sampled_from([("cores",), ("duration", "slack"), ("lead_time",)]),
            "lead_time": st.sampled_from([3, Uniform(0, 5), up_to_its_length]),
            "slack": st.sampled_from([0, Uniform(1, 5), Sometimes(0.3, up_to_its_length)]),
            "capacity_swing": st.floats(0, 2),
            "capacity_correlation": st.floats(0, 0.999),
            "capacity_deviation": st.floats(0, 1),
            "capacity_floor": st.floats(0, 5),
            "whole_capacity": st.booleans(),
        },
    ),
    seed=st.integers(0, 2**40),
)
def test_any_scenario_can_be_run(options: dict[str, Any], seed: int) -> None:
    chosen = Settings(**options)
    jobs, capacity, num_slots = generate(chosen, seed=seed)
    assert [job.job_id for job in jobs] == list(range(len(jobs)))
    for job in jobs:
        check_job(job)
        assert job.earliest_start < num_slots
    assert [job.submission_time for job in jobs] == sorted(job.submission_time for job in jobs)
    assert capacity.shape == (num_slots,)
    assert capacity.min() >= chosen.capacity_floor
    if chosen.whole_capacity and chosen.capacity_floor == 0:
        assert np.array_equal(capacity, np.round(capacity))
    known = clairvoyant_view(DeferrableCluster(jobs, capacity, num_slots=num_slots))
    assert known.jobs == jobs
    np.testing.assert_array_equal(known.capacity[:, 0], capacity)


ORDERS: dict[str, Callable[[Job], tuple[float, ...]]] = {
    "FIFO": lambda job: (job.earliest_start, job.job_id),
    "SJF": lambda job: (job.revenue, job.job_id),
    "Tetris": lambda job: (-job.revenue, job.job_id),
}


def utilization_and_delay(scenario: Scenario, order: Callable[[Job], tuple[float, ...]]) -> tuple[float, float]:
    """Start jobs in an order until the next one does not fit, slot by slot."""
    jobs, capacity, num_slots = scenario
    freed = Counter[int]()
    running = earned = waited = 0.0
    waiting: list[Job] = []
    for slot in range(num_slots):
        running -= freed[slot]
        waiting += [job for job in jobs if job.earliest_start == slot]
        waiting.sort(key=order)
        started = 0
        for job in waiting:
            if running + job.cores > capacity[slot]:
                break
            running += job.cores
            freed[slot + job.duration] += job.cores
            earned += job.revenue
            waited += slot - job.earliest_start
            started += 1
        waiting = [job for job in waiting[started:] if job.latest_start > slot]
    return earned, -2 * waited


@pytest.mark.parametrize(
    ("name", "utilization", "delay"), [("FIFO", 3602, -194), ("SJF", 3387, -112), ("Tetris", 3690, -282)]
)
def test_heuristics_come_close_to_the_published_figures(name: str, utilization: float, delay: float) -> None:
    found = np.array([utilization_and_delay(generate(seed=seed), ORDERS[name]) for seed in range(15)])
    mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(15)
    assert abs(mean[0] - utilization) < 0.05 * utilization + 2 * error[0]
    assert abs(mean[1] - delay) < 0.25 * abs(delay) + 2 * error[1]


def test_cases_differ_in_their_probabilities_only() -> None:
    assert case("core-1") == case("duration-3") == DEFAULT
    for cases, field in ((CORE_CASES, "core_probabilities"), (DURATION_CASES, "duration_probabilities")):
        for name, probabilities in cases.items():
            assert sum(probabilities) == pytest.approx(1)
            changed = case(name)
            assert getattr(changed, field) == probabilities
            assert replace(changed, **{field: getattr(DEFAULT, field)}) == DEFAULT
    assert case("core-2", case("duration-1")).duration_probabilities == DURATION_CASES["duration-1"]
    with pytest.raises(InvalidConfiguration, match="unknown case 'core-4'; expected one of core-1, core-2, core-3, du"):
        case("core-4")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_slots", 0, "num_slots: got 0, expected an integer from 1 to"),
        ("day_slots", 0, "day_slots: got 0, expected a finite number > 0"),
        ("arrival_rate", -1, "arrival_rate: got -1, expected a finite number >= 0"),
        ("arrival_rate", 1e9, "arrival_rate: got 1000000000.0, or up to .* jobs in .* slots .*; expected at most 1e"),
        ("arrival_phase", float("-inf"), "arrival_phase: got -inf, expected a finite number"),
        ("batch_mean", 0.5, "batch_mean: got 0.5, expected a finite number >= 1"),
        ("batch_alike", ("size",), r"batch_alike: got \('size',\), expected a tuple of some of"),
        ("cores", (), r"cores: got \(\), expected a nonempty tuple of numbers"),
        ("cores", (1, 2, 4, 0), r"cores\[3\]: got 0, expected a finite number > 0"),
        ("core_probabilities", (0.5, 0.5, 0.5, -0.5), r"core_probabilities\[3\]: got -0.5"),
        (
            "core_probabilities",
            (0.5, 0.5, 0.1, 0.0),
            r"core_probabilities: got \(.*\), whose sum is 1.1, expected a sum of 1",
        ),
        ("durations", (0, 2, 3, 4, 5, 6), r"durations\[0\]: got 0, expected an integer >= 1"),
        ("lead_time", Constant(10**9), "arrival_rate: got .* slots .*; expected at most 1e"),
        ("lead_time", lambda uniforms, durations: -uniforms, "lead_time: got -0.9*, expected integer numbers"),
        ("slack", 1.5, "slack: got 1.5"),
        ("capacity_correlation", 1.0, "capacity_correlation: got 1.0, expected a finite number >= 0 and < 1"),
        ("capacity_floor", -1, "capacity_floor: got -1, expected a finite number >= 0"),
        ("whole_capacity", 1, "whole_capacity: got 1, expected True or False"),
    ],
)
def test_settings_out_of_range_are_refused_by_name_and_value(field: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^{message}"):
        replace(DEFAULT, **{field: value})


def test_a_law_that_gives_no_slots_is_refused_and_so_is_no_seed() -> None:
    with pytest.raises(InvalidConfiguration, match=r"slack: got -1.0, expected integer numbers"):
        generate(replace(DEFAULT, slack=lambda uniforms, durations: -np.ones(len(durations))))
    with pytest.raises(InvalidConfiguration, match="seed: got -1"):
        generate(seed=-1)
