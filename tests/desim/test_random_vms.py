"""On-demand VMs that arrive at random, against what queueing theory says of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from capacity_runs import run_capacity
from scipy import stats

from desim import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster, clairvoyant_view
from desim.processes.capacity import Pattern
from desim.processes.on_demand import OnDemand, on_demand_vms

#: Lifetimes of a given mean that vary little and much: what follows does not depend on the law, only on its mean.
LAWS = {
    "exponential": lambda mean: mean,
    "constant": lambda mean: lambda rng, count: np.full(count, mean),
    "hyperexponential": lambda mean: (
        lambda rng, count: mean * rng.exponential(np.where(rng.random(count) < 0.9, 0.5, 5.5))
    ),
}
LARGE = 10_000.0


def run(num_slots, *arguments, seed=0, resources=("cores",), note=None, **options):
    """Return what VMs hold in every slot, what was noted, and their counters at the end."""
    platforms: list[OnDemand] = []
    process = on_demand_vms(*arguments, listener=platforms.append, **options)
    capacity, noted = run_capacity(
        process, num_slots, seed=seed, resources=resources, note=None if note is None else lambda: note(platforms[0])
    )
    (platform,) = platforms
    assert platform.num_present >= 0
    return np.array(platform.total) - capacity, noted, platform


def assert_mean(values, wanted):
    """Assert that independent values have a mean, up to four standard errors."""
    values = np.asarray(values, dtype=float)
    assert values.mean() == pytest.approx(wanted, abs=4 * values.std(ddof=1) / math.sqrt(len(values)))


class TestLargePlatform:
    @pytest.mark.parametrize("law", LAWS)
    def test_their_number_is_poisson_of_mean_rate_times_lifetime(self, law):
        # M/G/infinity; four lifetimes apart, what is held in two slots is nearly independent
        held = run(10_000, LARGE, 2.4, LAWS[law](5.0), warm_up=200.0)[0][::20, 0]
        count = len(held)
        assert held.mean() == pytest.approx(12.0, abs=4 * math.sqrt(1.3 * 12.0 / count))
        assert held.var() == pytest.approx(12.0, rel=4 * math.sqrt(2 * 1.3 / count))
        frequencies = np.bincount(np.clip(held.astype(int), 6, 18) - 6, minlength=13)
        chances = stats.poisson(12.0).pmf(np.arange(6, 19))
        chances[0], chances[-1] = stats.poisson(12.0).cdf(6), stats.poisson(12.0).sf(17)
        assert stats.chisquare(frequencies, chances * count).pvalue > 1e-4

    def test_sizes_in_several_resources(self):
        sizes, chances = np.array([[1.0, 2.0], [2.0, 4.0], [8.0, 16.0]]), np.array([0.6, 0.3, 0.1])
        held, _, platform = run(
            10_000,
            (LARGE, LARGE),
            3.0,
            4.0,
            sizes=sizes,
            probabilities=chances,
            warm_up=60.0,
            resources=("cores", "memory"),
        )
        spaced = held[::16]
        assert platform.num_turned_away == 0
        assert (held[:, 1] == 2 * held[:, 0]).all()
        mean, square = chances @ sizes[:, 0], chances @ sizes[:, 0] ** 2
        variance = 3.0 * 4.0 * square  # of a compound Poisson number
        assert spaced[:, 0].mean() == pytest.approx(12.0 * mean, abs=4 * math.sqrt(variance / len(spaced)))
        assert spaced[:, 0].var() == pytest.approx(variance, rel=0.2)

    def test_batches_vary_more(self):
        # batches of n: mean n rate lifetime; variance by the law of total variance, for exponential lifetimes
        rate, size, lifetime = 0.5, 6, 3.0
        held = run(15_000, LARGE, rate, lifetime, batch_size=size, warm_up=60.0)[0][::15, 0]
        variance = rate * lifetime * (size + size * (size - 1) / 2)
        assert held.mean() == pytest.approx(size * rate * lifetime, abs=4 * math.sqrt(variance / len(held)))
        assert held.var() == pytest.approx(variance, rel=0.2)

    def test_they_follow_the_daily_pattern_later_and_less(self):
        # Eick, Massey and Whitt, "The physics of the M_t/G/infinity queue", 1993, for exponential lifetimes
        day, lifetime, amplitude, peak = 24.0, 5.0, 0.7, 9.0
        pattern = Pattern(20.0, amplitude, peak, day)
        held = run(24 * 150, LARGE, pattern, lifetime, warm_up=96.0)[0][:, 0].reshape(-1, 24)
        lag = 2 * math.pi / day * lifetime
        angle = 2 * math.pi / day * (np.arange(24) - peak)
        wanted = 20.0 * lifetime * (1 + amplitude * (np.cos(angle) + lag * np.sin(angle)) / (1 + lag**2))
        error = np.sqrt(wanted / len(held))
        assert (np.abs(held.mean(axis=0) - wanted) < 4.5 * error).all()
        assert held.var(axis=0) == pytest.approx(wanted, rel=0.5)
        assert np.ptp(wanted) > 50


class TestArrivals:
    def test_they_are_poisson_with_the_rate_of_the_pattern(self):
        pattern = Pattern(6.0, amplitude=0.9, peak=3.0, day_length=8.0, weekend_level=0.3, first_weekday=2)
        weeks = 60
        num_slots = 56 * weeks
        noted = run(num_slots + 1, LARGE, pattern, 0.0, note=lambda platform: platform.num_arrived)[1]
        per_slot = np.diff(noted).reshape(weeks, 56)
        fine = pattern(np.arange(0.005, 56.0, 0.01)).reshape(56, 100).mean(axis=1)
        assert (np.abs(per_slot.mean(axis=0) - fine) < 4.5 * np.sqrt(fine / weeks)).all()
        dispersion = ((per_slot - fine) ** 2 / fine).sum()
        assert stats.chi2(per_slot.size).sf(dispersion) > 1e-4
        assert stats.chi2(per_slot.size).cdf(dispersion) > 1e-4

    def test_other_sizes_lifetimes_and_batches_leave_them_as_they_are(self):
        def arrivals(**options):
            arguments = {"lifetime": 2.0} | options
            return run(200, LARGE, Pattern(3.0, 0.5), note=lambda platform: platform.num_arrived, **arguments)[1]

        plain = arrivals()
        assert arrivals(sizes=[1, 2], probabilities=[0.5, 0.5]) == plain
        assert arrivals(lifetime=LAWS["constant"](2.0)) == plain
        assert arrivals(batch_size=3) == [3 * count for count in plain]
        assert arrivals(seed=1) != plain

    def test_each_law_has_a_random_stream_of_its_own(self):
        def ones(rng, count):
            return np.ones(count)

        def ones_at_random(rng, count):
            rng.random(3 * count)
            return np.ones(count)

        def held(lifetime, batch_size):  # long enough to draw anew several times
            return run(1_200, LARGE, 3.0, lifetime, sizes=[1, 5], batch_size=batch_size)[0].tolist()

        assert held(ones, ones) == held(ones_at_random, ones) == held(ones, ones_at_random)

    def test_probabilities_that_are_rounded(self):
        held = run(300, LARGE, 9.0, 1.0, sizes=[0, 1], probabilities=[0.3333333, 0.6666666])[0]
        assert held[5:].mean() == pytest.approx(6, abs=1)

    def test_random_batches(self):
        noted = run(
            4_000,
            LARGE,
            0.5,
            0.0,
            batch_size=lambda rng, count: rng.geometric(0.25, count),
            note=lambda platform: platform.num_arrived,
        )[1]
        per_slot = np.diff(noted)
        assert_mean(per_slot, 0.5 * 4)
        assert per_slot.var() == pytest.approx(0.5 * (1 - 0.25 + 1) / 0.25**2, rel=0.25)

    def test_a_rate_of_ones_own_that_falls_to_nothing_for_good(self):
        class Closing:
            maximum = 5.0

            def __call__(self, time):
                return np.where(np.asarray(time) < 10, 5.0, 0.0)

        held, noted, platform = run(5_000, LARGE, Closing(), 3.0, note=lambda platform: platform.num_arrived)
        assert noted[10] == noted[-1] == platform.num_arrived > 20
        assert held[9, 0] > 0
        assert held[-1, 0] == 0

    def test_nobody_comes_at_rate_0(self):
        assert run(50, 7.0, 0.0, 3.0)[2].num_arrived == 0


def erlang_b(servers, load):
    """Return the probability that a VM is turned away: Erlang's formula, by its recursion."""
    blocking = 1.0
    for count in range(1, servers + 1):
        blocking = load * blocking / (count + load * blocking)
    return blocking


def kaufman_roberts(total, sizes, loads):
    """Return the probability that a VM of each size is turned away.

    The recursion of J. S. Kaufman, "Blocking in a shared resource environment", 1981, and J. W. Roberts, 1981.
    """
    weights = [1.0]
    for held in range(1, total + 1):
        terms = (load * size * weights[held - size] for size, load in zip(sizes, loads, strict=True) if size <= held)
        weights.append(sum(terms) / held)
    return [sum(weights[total - size + 1 :]) / sum(weights) for size in sizes]


class TestFullPlatform:
    @pytest.mark.parametrize("law", LAWS)
    def test_the_share_turned_away_is_erlangs(self, law):
        assert erlang_b(2, 1.0) == pytest.approx(0.2)
        runs = [run(200, 10, 8.0, LAWS[law](1.0), warm_up=60.0, seed=seed) for seed in range(25)]
        blocking = erlang_b(10, 8.0)
        assert_mean([platform.num_turned_away / platform.num_arrived for *_, platform in runs], blocking)
        assert_mean([held.mean() for held, *_ in runs], 8.0 * (1 - blocking))

    @pytest.mark.parametrize("law", ["exponential", "constant"])
    def test_it_begins_in_its_usual_state_after_a_warm_up(self, law):
        held = np.array([run(1, 5, 4.0, LAWS[law](1.0), warm_up=25.0, seed=seed)[0][0, 0] for seed in range(500)])
        chances = stats.poisson(4.0).pmf(np.arange(6))
        frequencies = np.bincount(held.astype(int), minlength=6)
        assert stats.chisquare(frequencies, chances / chances.sum() * len(held)).pvalue > 1e-4

    def test_large_vms_are_turned_away_more_often(self):
        sizes, chances, rate = [1, 2, 4], [0.5, 0.3, 0.2], 8.0
        blocking = np.array(kaufman_roberts(16, sizes, rate * np.array(chances)))
        assert kaufman_roberts(10, [1], [8.0]) == [pytest.approx(erlang_b(10, 8.0))]
        runs = [
            run(200, 16, rate, 1.0, sizes=sizes, probabilities=chances, warm_up=20.0, seed=seed)[2]
            for seed in range(25)
        ]
        assert_mean([platform.num_turned_away / platform.num_arrived for platform in runs], chances @ blocking)
        work = rate * 199.5 * (np.array(chances) * sizes) @ blocking
        assert_mean([platform.turned_away_work[0] for platform in runs], work)

    def test_every_vm_is_counted_once(self):
        def balance(platform):
            arrived = platform.num_initial + platform.num_arrived
            assert arrived == platform.num_turned_away + platform.num_departed + platform.num_present
            assert platform.free[0] >= 0
            return platform.total[0] - platform.free[0], platform.num_present

        held, noted, platform = run(
            300, 30, Pattern(2.0, 0.5, day_length=24), 6.0, batch_size=3, warm_up=20.0, note=balance
        )
        assert [amount for amount, _ in noted] == held[:, 0].tolist()
        assert [number for _, number in noted] == held[:, 0].tolist()
        assert platform.num_initial == held[0, 0] > 0
        assert 0 < platform.num_turned_away < platform.num_arrived


def test_without_a_warm_up_the_platform_is_empty_at_first():
    held, _, platform = run(200, LARGE, 5.0, 10.0)
    assert held[0, 0] == platform.num_initial == 0
    assert held[40:, 0].mean() == pytest.approx(50, abs=10)


def test_vms_that_never_leave():
    held, _, platform = run(100, 50, 2.0, lambda rng, count: np.full(count, math.inf), warm_up=5.0)
    assert (np.diff(held[:, 0]) >= 0).all()
    assert held[-1, 0] == 50
    assert platform.num_departed == 0


def test_same_seed_same_capacity():
    process = on_demand_vms(60, Pattern(3.0, 0.5, day_length=24), 8.0, sizes=[1, 2, 4], batch_size=2, warm_up=24.0)
    cluster = DeferrableCluster([], process, num_slots=100)
    first, second, other = (clairvoyant_view(cluster, seed=seed).capacity.tolist() for seed in (1, 1, 2))
    assert first == second
    assert first != other
    assert clairvoyant_view(DeferrableCluster([], process, num_slots=60), seed=1).capacity.tolist() == first[:60]


class Promising:
    """A rate that exceeds what it calls its maximum."""

    maximum = 2.0

    def __call__(self, time):
        return np.full(np.shape(time), 3.0)


class Scalar:
    """A rate that cannot tell of many times."""

    maximum = 2.0

    def __call__(self, time):
        return 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total": -1}, "total: got -1"),
        ({"arrivals": -1.0}, r"arrivals: got -1\.0, expected a finite number >= 0"),
        ({"arrivals": math.nan}, "arrivals: got nan"),
        ({"arrivals": Promising()}, r"arrivals: got 3\.0 at time .*, expected a number from 0 to its maximum 2\.0"),
        ({"arrivals": Scalar()}, r"arrivals: got an array of shape \(\), expected \(1024,\)"),
        ({"lifetime": -2.0}, r"lifetime: got -2\.0"),
        ({"lifetime": lambda rng, count: np.full(count, -1.0)}, r"lifetime: got -1\.0, expected numbers >= 0"),
        ({"lifetime": lambda rng, count: np.full(count, math.nan)}, "lifetime: got nan, expected numbers >= 0"),
        ({"lifetime": lambda rng, count: 1.0}, r"lifetime: got an array of shape \(\), expected \(1024,\)"),
        ({"batch_size": 0}, "batch_size: got 0"),
        ({"batch_size": 1.5}, r"batch_size: got 1\.5, expected an integer >= 1"),
        ({"batch_size": lambda rng, count: np.zeros(count)}, r"batch_size: got 0\.0, expected integers >= 1"),
        ({"batch_size": lambda rng, count: np.full(count, 2.5)}, r"batch_size: got 2\.5, expected integers >= 1"),
        ({"batch_size": lambda rng, count: np.full(count, math.inf)}, "batch_size: got inf, expected integers >= 1"),
        ({"sizes": []}, r"sizes: got \[\]"),
        ({"sizes": [1, -1]}, r"sizes\[1\]: got -1\.0, expected a finite number >= 0"),
        ({"sizes": [[1, 2]]}, r"sizes: got \[\[1, 2\]\], expected a row per size with as many numbers as total"),
        ({"sizes": "small"}, "sizes: got 'small'"),
        ({"probabilities": [0.5, 0.5]}, r"probabilities: got \[0\.5, 0\.5\], expected 1 numbers"),
        ({"probabilities": [0.9]}, r"probabilities: got \[0\.9\], expected 1 numbers with sum 1"),
        ({"sizes": [1, 2], "probabilities": [1.5, -0.5]}, r"probabilities\[1\]: got -0\.5"),
        ({"probabilities": ["all"]}, r"probabilities: got \['all'\]"),
        ({"warm_up": -1.0}, r"warm_up: got -1\.0"),
        ({"warm_up": math.inf}, "warm_up: got inf"),
    ],
)
def test_refusals(change, message):
    arguments = {"total": 10, "arrivals": 1.0, "lifetime": 1.0} | change
    with pytest.raises(InvalidConfiguration, match=message):
        clairvoyant_view(DeferrableCluster([], on_demand_vms(**arguments), num_slots=3))


def test_as_many_totals_as_resources():
    cluster = DeferrableCluster([], on_demand_vms(10, 1.0, 1.0), num_slots=3, resources=("cores", "memory"))
    with pytest.raises(InvalidConfiguration, match=r"total: got \(10\.0,\), expected a number for each of"):
        clairvoyant_view(cluster)
