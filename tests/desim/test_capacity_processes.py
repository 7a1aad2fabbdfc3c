"""Levels that change with the time of day, and capacity that fluctuates at random around them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from capacity_runs import run_capacity
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from desim import InvalidConfiguration, WorkloadError, simulate
from desim.problems.deferrable import DeferrableCluster, Job, clairvoyant_view
from desim.processes.capacity import Pattern, mean_reverting_capacity

DAY = Pattern(100.0, amplitude=0.5, peak=14.0, day_length=24.0, weekend_level=0.6)


class TestPattern:
    def test_known_values(self):
        assert DAY(14) == DAY(24 + 14) == DAY(7 * 24 + 14) == 150
        assert DAY(2) == pytest.approx(50)
        assert DAY(8) == pytest.approx(100)
        assert DAY(11) == pytest.approx(100 + 50 * math.cos(math.pi / 4))

    def test_saturday_and_sunday_are_the_weekend(self):
        at_two = [DAY(24 * day + 14) for day in range(-7, 14)]
        assert at_two == [150, 150, 150, 150, 150, 90, 90] * 3
        from_saturday = Pattern(10, weekend_level=0.5, day_length=24, first_weekday=5)
        assert [from_saturday(24 * day) for day in range(8)] == [5, 5, 10, 10, 10, 10, 10, 5]
        assert from_saturday(47.999) == 5  # a day lasts to its end
        assert from_saturday(-0.001) == 10

    def test_an_array_has_the_values_of_its_entries(self):
        times = np.linspace(-500.0, 500.0, 701)
        values = DAY(times)
        assert values.shape == times.shape
        assert values.tolist() == [DAY(time) for time in times.tolist()]
        assert DAY([[1, 2], [3, 4]]).shape == (2, 2)
        assert isinstance(DAY(3), float)

    @given(
        mean=st.floats(0, 1e6),
        amplitude=st.floats(0, 1),
        peak=st.floats(-1e3, 1e3),
        weekend=st.floats(0, 3),
        first=st.integers(0, 6),
    )
    def test_it_stays_within_its_bounds_and_comes_near_them(self, mean, amplitude, peak, weekend, first):
        pattern = Pattern(mean, amplitude, peak, 24.0, weekend, first)
        values = pattern(np.arange(0.0, 168.0, 0.01))
        assert values.min() >= pattern.minimum
        assert values.max() <= pattern.maximum
        assert values.max() == pytest.approx(pattern.maximum, rel=1e-4, abs=1e-9)
        assert values.min() == pytest.approx(pattern.minimum, rel=1e-4, abs=1e-4 * mean * weekend + 1e-9)
        assert values.mean() == pytest.approx(pattern.average, rel=1e-3, abs=1e-9)

    def test_without_more_it_stays(self):
        pattern = Pattern(7)
        assert set(pattern(np.arange(3_000)).tolist()) == {7.0}
        assert pattern.minimum == pattern.maximum == pattern.average == 7

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"mean": -1.0}, r"the mean of a pattern: got -1\.0, expected a finite number >= 0"),
            ({"mean": math.nan}, "the mean of a pattern: got nan"),
            ({"mean": math.inf}, "the mean of a pattern: got inf"),
            ({"mean": "many"}, "the mean of a pattern: got 'many'"),
            ({"mean": True}, "the mean of a pattern: got True"),
            ({"amplitude": 1.1}, r"the amplitude of a pattern: got 1\.1, expected a finite number from 0 to 1"),
            ({"peak": math.nan}, "the peak of a pattern: got nan, expected a finite number$"),
            ({"peak": -math.inf}, "the peak of a pattern: got -inf"),
            ({"day_length": 0}, "the day_length of a pattern: got 0, expected a finite number > 0"),
            ({"weekend_level": -0.1}, r"the weekend_level of a pattern: got -0\.1"),
            ({"first_weekday": 7}, "the first_weekday of a pattern: got 7, expected an integer from 0 to 6"),
            ({"first_weekday": 1.5}, r"the first_weekday of a pattern: got 1\.5"),
        ],
    )
    def test_refusals(self, change, message):
        with pytest.raises(InvalidConfiguration, match=message):
            Pattern(**{"mean": 1.0} | change)


def noisy(level=50.0, coefficient=0.8, deviation=4.0, **options):
    return mean_reverting_capacity(level, coefficient, deviation, **{"whole": False} | options)


class TestMeanReversion:
    def test_it_is_the_recursion_with_one_draw_a_slot(self):
        capacity, _ = run_capacity(noisy(DAY), 300, seed=3)
        rng = np.random.default_rng(np.random.SeedSequence(3, spawn_key=tuple(b"capacity")))
        noise = 4.0 * rng.standard_normal()
        for slot, amount in enumerate(capacity[:, 0].tolist()):
            assert amount == pytest.approx(DAY(slot) + noise, rel=1e-12)
            noise = 0.8 * noise + 4.0 * math.sqrt(1 - 0.8**2) * rng.standard_normal()

    @pytest.mark.parametrize("coefficient", [0.0, 0.5, 0.9])
    def test_mean_variance_and_autocorrelation_are_those_of_theory(self, coefficient):
        count, deviation = 20_000, 3.0
        series = run_capacity(noisy(50.0, coefficient, deviation), count, seed=1)[0][:, 0]
        # standard errors: Bartlett's formulas for an autoregressive process of order 1
        mean_error = deviation * math.sqrt((1 + coefficient) / (1 - coefficient) / count)
        assert series.mean() == pytest.approx(50.0, abs=4 * mean_error)
        variance_error = deviation**2 * math.sqrt(2 * (1 + coefficient**2) / (1 - coefficient**2) / count)
        assert series.var() == pytest.approx(deviation**2, abs=4 * variance_error)
        centred = series - series.mean()
        for lag in (1, 2, 5):
            square = coefficient ** (2 * lag)
            error = (1 + coefficient**2) * (1 - square) / (1 - coefficient**2) - 2 * lag * square
            found = (centred[lag:] @ centred[:-lag]) / (centred @ centred)
            assert found == pytest.approx(coefficient**lag, abs=4 * math.sqrt(error / count))
        assert stats.kstest(series[::50], "norm", args=(50.0, deviation)).pvalue > 1e-3

    def test_it_begins_in_its_stationary_law(self):
        first_two = np.array([run_capacity(noisy(), 2, seed=seed)[0][:, 0] for seed in range(2_000)])
        deviation = 4.0
        assert first_two.mean(axis=0) == pytest.approx([50.0, 50.0], abs=4 * deviation / math.sqrt(2_000))
        covariance = np.cov(first_two.T)
        error = deviation**2 * math.sqrt(2 / 2_000)  # an upper bound for the covariance
        assert covariance == pytest.approx(deviation**2 * np.array([[1.0, 0.8], [0.8, 1.0]]), abs=4 * error)

    def test_without_noise_it_is_the_level(self):
        capacity, _ = run_capacity(noisy(DAY, deviation=0.0), 400)
        assert capacity[:, 0].tolist() == [DAY(slot) for slot in range(400)]

    def test_relative_noise_grows_with_the_level(self):
        by_unit = run_capacity(noisy(DAY, deviation=2.0, floor=0.0), 200)[0][:, 0]
        by_share = run_capacity(noisy(DAY, deviation=0.02, relative=True), 200)[0][:, 0]
        level = DAY(np.arange(200))
        assert (by_share - level) / level == pytest.approx((by_unit - level) / 100.0, abs=1e-12)

    def test_whole_numbers_and_the_floor(self):
        exact = run_capacity(noisy(6.0, deviation=5.0, floor=0.0), 2_000)[0]
        whole = run_capacity(noisy(6.0, deviation=5.0, floor=0.0, whole=True), 2_000)[0]
        higher = run_capacity(noisy(6.0, deviation=5.0, floor=3.0, whole=True), 2_000)[0]
        assert exact.min() == 0
        assert (exact == 0).sum() > 50
        assert whole.tolist() == np.rint(exact).tolist()
        assert higher.tolist() == np.maximum(whole, 3.0).tolist()

    def test_several_resources_have_their_own_levels_and_noises(self):
        process = noisy([DAY, 500.0], coefficient=[0.0, 0.5], deviation=[3.0, 20.0], correlation=0.6)
        capacity, _ = run_capacity(process, 20_000, resources=("cores", "memory"), seed=5)
        noises = capacity - np.stack([DAY(np.arange(20_000)), np.full(20_000, 500.0)], axis=1)
        assert noises.std(axis=0) == pytest.approx([3.0, 20.0], rel=0.03)
        innovations = noises[1:] - [0.0, 0.5] * noises[:-1]
        found = np.corrcoef(innovations.T)[0, 1]
        assert found == pytest.approx(0.6, abs=4 * (1 - 0.6**2) / math.sqrt(20_000))
        alone = noisy([50.0] * 3, correlation=0.0)
        apart, _ = run_capacity(alone, 5_000, resources=("a", "b", "c"))
        assert np.corrcoef(apart.T) == pytest.approx(np.eye(3), abs=0.1)
        together, _ = run_capacity(noisy([50.0] * 3, correlation=1.0), 50, resources=("a", "b", "c"))
        assert np.ptp(together, axis=1) == pytest.approx(np.zeros(50), abs=1e-9)

    def test_same_seed_same_capacity_whatever_is_started(self):
        class Greedy:
            def act(self, observation):
                return range(len(observation.current))

        class Nobody:
            def act(self, observation):
                return None

        jobs = [Job(number, number, number, number + 3, 4, 5) for number in range(30)]
        cluster = DeferrableCluster(jobs, mean_reverting_capacity(Pattern(20, 0.5, day_length=12), 0.7, 3.0))
        runs = [simulate(cluster, agent, seed=seed) for agent, seed in ((Greedy(), 4), (Nobody(), 4), (Nobody(), 5))]
        greedy, nobody, other = (run.table("slots")["capacity_cores"].to_list() for run in runs)
        assert len(nobody) == 33
        assert greedy[:33] == nobody
        assert other != nobody
        assert clairvoyant_view(cluster, seed=4).capacity[:, 0].tolist() == nobody

    def test_a_run_ends_with_its_jobs_though_the_capacity_goes_on(self):
        job = Job(1, submission_time=0, earliest_start=2, latest_start=4, duration=2, cores=1)
        process = mean_reverting_capacity(5, 0.5, 0.0)
        cluster = DeferrableCluster([job], [3.0], processes=[process])
        assert clairvoyant_view(cluster).capacity[:, 0].tolist() == [5.0] * 5

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"level": -1.0}, r"level: got -1\.0, expected a finite number >= 0"),
            ({"level": "high"}, "level: got 'high'"),
            ({"level": [1.0, -2.0]}, r"level 1: got -2\.0"),
            ({"level": []}, r"level: got \[\], expected at least one"),
            ({"coefficient": 1.0}, r"coefficient: got 1\.0, expected numbers < 1"),
            ({"coefficient": -0.1}, r"coefficient: got -0\.1, expected a finite number >= 0"),
            ({"coefficient": math.nan}, "coefficient: got nan"),
            ({"deviation": -1.0}, r"deviation: got -1\.0"),
            ({"deviation": [1.0, 2.0]}, r"deviation: got \[1\.0, 2\.0\], expected one number$"),
            ({"deviation": "wide"}, "deviation: got 'wide'"),
            ({"correlation": 1.5}, r"correlation: got 1\.5, expected a finite number from 0 to 1"),
            ({"floor": -1.0}, r"floor: got -1\.0"),
            (
                {"floor": 0.5, "whole": True},
                r"floor: got 0\.5, expected an integer, as the capacity is, or whole=False",
            ),
        ],
    )
    def test_refusals(self, change, message):
        with pytest.raises(InvalidConfiguration, match=message):
            noisy(**change)

    def test_as_many_levels_as_resources(self):
        with pytest.raises(InvalidConfiguration, match=r"got 1 levels, expected one for each of \('cores', 'memory'\)"):
            clairvoyant_view(DeferrableCluster([], noisy(), num_slots=3, resources=("cores", "memory")))

    def test_a_level_of_ones_own_that_is_no_number(self):
        class Broken:
            maximum = 1.0

            def __call__(self, time):
                return math.nan if time == 2 else 1.0

        with pytest.raises(WorkloadError, match="time 2: new capacity of cores: got nan"):
            clairvoyant_view(DeferrableCluster([], noisy(Broken()), num_slots=5))
