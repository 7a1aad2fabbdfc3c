"""Forecasts of the capacity, and how far they are from the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from desim import InvalidConfiguration, simulate
from desim.agents.deferrable import RollingHorizon, create, forecast_named
from desim.agents.deferrable.forecasts import Oracle, Persistence, Seasonal, forecast_errors
from desim.agents.deferrable.learned_forecast import LearnedForecast, UncertainForecast
from desim.problems.deferrable import DeferrableCluster, DeferrableObservation, clairvoyant_view
from desim.processes.capacity import Pattern, mean_reverting_capacity

PERIODIC = np.tile([3.0, 8.0, 5.0, 0.0, 6.0], 6)


def seen(series, slot, *, begin_with=None):
    """Return what an agent sees at a slot of a series."""
    table = np.asarray(series, dtype=float)
    table = table[:, None] if table.ndim == 1 else table
    num_resources = table.shape[1]
    observation = DeferrableObservation(tuple("abc"[:num_resources]), None, 2.0, np.ones(num_resources))
    for number in range(slot + 1):
        observation.begin_slot(number, table[number])
    return observation


def predicted(forecast, series, slot, steps):
    found = forecast.predict(seen(series, slot), steps)
    assert found.shape == (steps, 1)
    return found[:, 0].tolist()


ALL = [Persistence(), Seasonal(5), Seasonal(7, carry=0.8), Seasonal(3, num_periods=2), Seasonal(4, num_periods=None)]
LEARNED = [
    LearnedForecast(5),
    LearnedForecast(7, harmonics=3, ridge=2.0),
    LearnedForecast(4, harmonics=0),
    LearnedForecast(6, caution=1.0),
]
ALL += LEARNED


def name_of(forecast):
    return type(forecast).__name__ if isinstance(forecast, Oracle) else repr(forecast)


@pytest.mark.parametrize("forecast", [*ALL, Oracle([4.0])], ids=name_of)
@pytest.mark.parametrize("slot", [0, 3, 17])
def test_a_capacity_that_stays_is_forecast_exactly(forecast, slot):
    assert predicted(forecast, np.full(18, 4.0), slot, 30) == [4.0] * 30


def test_the_last_value_stays():
    assert predicted(Persistence(), [1.0, 7.0, 2.0, 9.0], 2, 3) == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("options", [{}, {"carry": 0.5}, {"num_periods": None}, {"num_periods": 3, "carry": 1.0}])
@pytest.mark.parametrize("slot", range(5, 16))
def test_a_periodic_capacity_is_forecast_exactly_after_one_period(slot, options):
    found = predicted(Seasonal(5, **options), PERIODIC, slot, 14)
    assert found == pytest.approx(PERIODIC[slot + 1 : slot + 15].tolist(), abs=1e-12)


def test_before_one_period_has_passed_what_is_not_known_stays():
    # slots 5, 6 and 7 are one period after slots 0, 1 and 2; for slots 3 and 4 there is none
    assert predicted(Seasonal(5), PERIODIC, 2, 7) == [5.0, 5.0, 3.0, 8.0, 5.0, 5.0, 5.0]
    assert predicted(Seasonal(100, carry=0.5), PERIODIC, 4, 3) == [6.0] * 3


def test_a_part_of_the_present_deviation_is_carried_on():
    series = [10.0, 20.0, 30.0, 14.0, 20.0, 30.0]
    # slot 3 is 4 above slot 0
    assert predicted(Seasonal(3, carry=0.5), series, 3, 4) == [20 + 2, 30 + 1, 14 + 0.5, 20 + 0.25]
    assert predicted(Seasonal(3), series, 3, 4) == [20, 30, 14, 20]
    assert predicted(Seasonal(3, carry=1.0), series, 3, 2) == [24, 34]


def test_it_is_not_below_0():
    assert predicted(Seasonal(2, carry=1.0), [9.0, 1.0, 3.0], 2, 3) == [0.0, 0.0, 0.0]


def test_means_over_several_periods():
    series = [10.0, 1.0, 20.0, 2.0, 36.0, 6.0]
    assert predicted(Seasonal(2, num_periods=2), series, 5, 3) == [28.0, 4.0, 28.0]
    assert predicted(Seasonal(2, num_periods=None), series, 5, 2) == [22.0, 3.0]
    assert predicted(Seasonal(2, num_periods=99), series, 5, 2) == [22.0, 3.0]
    # the present slot is 6 where (1 + 2) / 2 was to be expected
    assert predicted(Seasonal(2, num_periods=None, carry=0.5), series, 5, 2) == [22 + 2.25, 3 + 1.125]


def test_the_oracle_knows_what_comes_and_its_last_value_stays():
    assert predicted(Oracle([1.0, 2.0, 3.0, 4.0]), [9.0, 9.0], 1, 4) == [3.0, 4.0, 4.0, 4.0]
    assert predicted(Oracle([1.0, 2.0]), np.zeros(9), 8, 1) == [2.0]


def test_several_resources():
    series = np.stack([PERIODIC, 100.0 - PERIODIC], axis=1)
    for forecast in (Seasonal(5), Oracle(series)):
        assert forecast.predict(seen(series, 6), 4).tolist() == series[7:11].tolist()
    assert Persistence().predict(seen(series, 6), 2).tolist() == [series[6].tolist()] * 2


@pytest.mark.parametrize("forecast", [*ALL, Oracle([4.0])], ids=name_of)
def test_nothing_to_forecast(forecast):
    assert forecast.predict(seen([4.0, 5.0], 1), 0).shape == (0, 1)


capacities = st.lists(st.floats(0, 100), min_size=1, max_size=25)


def slow_seasonal(history, steps, period, carry, num_periods):
    """Return the forecast from its definition, one slot at a time."""
    slot = len(history) - 1

    def seasonal(target, known_until):
        past = [number for number in range(target - period, -1, -period) if number <= known_until]
        past = past if num_periods is None else past[:num_periods]
        return sum(history[number] for number in past) / len(past) if past else None

    usual = seasonal(slot, slot - 1)
    deviation = 0.0 if usual is None else history[slot] - usual
    result = []
    for lead in range(1, steps + 1):
        value = seasonal(slot + lead, slot)
        result.append(history[slot] if value is None else max(0.0, value + carry**lead * deviation))
    return result


@given(
    series=capacities,
    steps=st.integers(0, 30),
    period=st.integers(1, 12),
    carry=st.floats(0, 1),
    num_periods=st.none() | st.integers(1, 5),
)
def test_against_its_definition(series, steps, period, carry, num_periods):
    forecast = Seasonal(period, carry=carry, num_periods=num_periods)
    wanted = slow_seasonal(series, steps, period, carry, num_periods)
    assert predicted(forecast, series, len(series) - 1, steps) == pytest.approx(wanted, abs=1e-9)


@given(series=capacities, later=capacities, others=capacities, number=st.integers(0, len(ALL) - 1))
def test_nobody_looks_ahead(series, later, others, number):
    slot = len(series) - 1
    first, second = (seen(series + rest, len(series + rest) - 1) for rest in (later, others))
    for observation in (first, second):  # whatever the buffers behind it hold by now
        observation.slot, observation.capacity = slot, np.array(series[-1:])
    forecast = ALL[number]
    plain = forecast.predict(seen(series, slot), 12)
    assert forecast.predict(first, 12).tolist() == forecast.predict(second, 12).tolist() == plain.tolist()


class Asking:
    """Starts nothing and asks for forecasts."""

    def __init__(self, forecast, steps):
        self.forecast, self.steps, self.answers = forecast, steps, []

    def act(self, observation):
        self.answers.append(self.forecast.predict(observation, self.steps))


CLUSTER = DeferrableCluster([], mean_reverting_capacity(Pattern(40, 0.5, day_length=12), 0.8, 4.0), num_slots=60)


def test_in_a_run_they_see_what_the_slots_have_shown():
    capacity = clairvoyant_view(CLUSTER, seed=3).capacity
    for forecast in ALL:
        agent = Asking(forecast, 5)
        simulate(CLUSTER, agent, seed=3)
        wanted = [forecast.predict(seen(capacity, slot), 5).tolist() for slot in range(60)]
        assert [answer.tolist() for answer in agent.answers] == wanted


def test_in_a_run_the_oracle_is_right():
    capacity = clairvoyant_view(CLUSTER, seed=3).capacity
    agent = Asking(Oracle(capacity), 4)
    simulate(CLUSTER, agent, seed=3)
    for slot in range(56):
        assert agent.answers[slot].tolist() == capacity[slot + 1 : slot + 5].tolist()


class TestErrors:
    def test_known_values(self):
        errors = forecast_errors(Persistence(), [4.0, 2.0, 5.0], steps=3)
        assert errors.num_forecasts.tolist() == [2, 1, 0]
        assert errors.mean_absolute[:2, 0].tolist() == [2.5, 1.0]
        assert errors.root_mean_square[:2, 0] == pytest.approx([math.sqrt(6.5), 1.0])
        assert errors.bias[:2, 0].tolist() == [-0.5, -1.0]
        assert all(np.isnan(table[2, 0]) for table in errors[:3])

    @given(
        series=st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=20),
        steps=st.integers(1, 8),
        first=st.integers(0, 9),
        number=st.integers(0, len(ALL) - 1),
    )
    def test_against_their_definition(self, series, steps, first, number):
        errors = forecast_errors(ALL[number], series, steps, first_slot=first)
        for lead in range(1, steps + 1):
            pairs = [
                (ALL[number].predict(seen(series, slot), lead)[-1], np.array(series[slot + lead]))
                for slot in range(first, len(series) - lead)
            ]
            assert errors.num_forecasts[lead - 1] == len(pairs)
            for resource in (0, 1) if pairs else ():
                found = np.array([forecast[resource] - truth[resource] for forecast, truth in pairs])
                assert errors.mean_absolute[lead - 1, resource] == pytest.approx(np.abs(found).mean(), abs=1e-9)
                assert errors.root_mean_square[lead - 1, resource] == pytest.approx(
                    np.sqrt((found**2).mean()), abs=1e-6
                )
                assert errors.bias[lead - 1, resource] == pytest.approx(found.mean(), abs=1e-9)

    def test_none_where_the_forecast_is_exact(self):
        for forecast, series in ((Oracle(PERIODIC), PERIODIC), (Seasonal(5), PERIODIC)):
            errors = forecast_errors(forecast, series, 8, first_slot=4)
            assert errors.mean_absolute.max() == errors.root_mean_square.max() == 0

    def test_of_the_last_value_for_noise_that_reverts(self):
        # an autoregressive process of coefficient a: the mean squared error k slots ahead is 2 deviation^2 (1 - a^k)
        process = mean_reverting_capacity(200.0, 0.8, 5.0, whole=False)
        series = clairvoyant_view(DeferrableCluster([], process, num_slots=6_000), seed=2).capacity
        found = forecast_errors(Persistence(), series, 12).root_mean_square[:, 0]
        wanted = np.sqrt(2 * 25.0 * (1 - 0.8 ** np.arange(1, 13)))
        assert found == pytest.approx(wanted, rel=0.08)

    def test_carrying_the_deviation_on_pays_and_so_do_more_periods(self):
        process = mean_reverting_capacity(Pattern(200.0, 0.5, day_length=24), 0.8, 5.0, whole=False)
        series = clairvoyant_view(DeferrableCluster([], process, num_slots=2_400), seed=2).capacity

        def error(forecast):
            return forecast_errors(forecast, series, 4, first_slot=240).root_mean_square.mean()

        last, plain = error(Persistence()), error(Seasonal(24))
        carried, many = error(Seasonal(24, carry=0.8)), error(Seasonal(24, carry=0.8, num_periods=None))
        assert many < carried < plain < last
        # with the level known, what is left is the innovations since: deviation^2 (1 - a^2k)
        theory = np.sqrt(25.0 * (1 - 0.8 ** (2 * np.arange(1, 5)))).mean()
        assert many == pytest.approx(theory, rel=0.1)

    @pytest.mark.parametrize("capacity", [[], [[[1.0]]], ["much"], [1.0, -1.0], [math.nan], [math.inf]])
    def test_series_that_make_no_sense(self, capacity):
        with pytest.raises(InvalidConfiguration, match="capacity"):
            forecast_errors(Persistence(), capacity, 1)
        with pytest.raises(InvalidConfiguration, match="capacity"):
            Oracle(capacity)

    def test_arguments_that_make_no_sense(self):
        with pytest.raises(InvalidConfiguration, match="steps: got 0, expected an integer >= 1"):
            forecast_errors(Persistence(), [1.0], 0)
        with pytest.raises(InvalidConfiguration, match="first_slot: got -1"):
            forecast_errors(Persistence(), [1.0], 1, first_slot=-1)

    def test_a_forecast_of_another_shape(self):
        class Flat:
            def predict(self, observation, steps):
                return np.zeros(steps)

        with pytest.raises(InvalidConfiguration, match=r"slot 0: forecast shape: got \(3,\), expected \(3, 1\)"):
            forecast_errors(Flat(), [1.0, 2.0], 3)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((0,), {}, "period: got 0, expected an integer >= 1"),
        ((2.0,), {}, r"period: got 2\.0"),
        ((True,), {}, "period: got True"),
        ((2,), {"carry": 1.5}, r"carry: got 1\.5, expected a finite number from 0 to 1"),
        ((2,), {"carry": math.nan}, "carry: got nan"),
        ((2,), {"carry": "all"}, "carry: got 'all'"),
        ((2,), {"num_periods": 0}, "num_periods: got 0"),
    ],
)
def test_seasons_that_make_no_sense(arguments, options, message):
    with pytest.raises(InvalidConfiguration, match=message):
        Seasonal(*arguments, **options)


@pytest.mark.parametrize("forecast", [*ALL, Oracle([4.0])], ids=name_of)
@pytest.mark.parametrize("steps", [-1, 1.0, None])
def test_numbers_of_steps_that_make_no_sense(forecast, steps):
    with pytest.raises(InvalidConfiguration, match=f"steps: got {steps}, expected an integer >= 0"):
        forecast.predict(seen([4.0, 5.0], 1), steps)


def test_an_oracle_of_another_platform():
    with pytest.raises(InvalidConfiguration, match=r"series of the Oracle: got 1 resources, expected \('a', 'b'\)"):
        Oracle([1.0]).predict(seen([[1.0, 2.0]], 0), 1)


def test_the_same_settings_are_equal():
    assert Seasonal(5, carry=0.5) == Seasonal(5, carry=0.5) != Seasonal(5)
    assert Persistence() == Persistence()


# -- what is learned ----------------------------------------------------------------------------------------------


def slow_learned(history, steps, period, harmonics, ridge):
    """Return means and variances, from the ridge regression written as least squares with more rows."""
    history = np.asarray(history)
    if np.ptp(history) == 0:
        return [history[-1]] * steps, [0.0] * steps
    level = (history - history.mean()) / history.std()

    def features(slot, value):
        angles = [2 * math.pi * wave * slot / period for wave in range(1, harmonics + 1)]
        return [value, 1.0, *(math.cos(angle) for angle in angles), *(math.sin(angle) for angle in angles)]

    rows = [features(slot, level[slot - 1]) for slot in range(1, len(level))]
    firm = math.sqrt(ridge) * np.eye(2 + 2 * harmonics)
    left, right = np.vstack([rows, firm]), np.concatenate([np.diff(level), np.zeros(len(firm))])
    weights = np.linalg.lstsq(left, right)[0]
    unexplained = float(((right - left @ weights) ** 2).sum()) / len(rows)
    value, spread, found = level[-1], 0.0, []
    persistence = min(max(1 + weights[0], -1.0), 1.0)
    for lead in range(1, steps + 1):
        value = persistence * value + np.dot(features(len(level) - 1 + lead, 0.0), weights)
        spread = persistence**2 * spread + unexplained
        found.append((max(history.mean() + history.std() * value, 0.0), spread * history.var()))
    return [mean for mean, _ in found], [variance for _, variance in found]


@given(
    series=st.lists(st.floats(0, 100).map(lambda value: round(value, 1)), min_size=1, max_size=25),
    steps=st.integers(0, 12),
    period=st.integers(1, 12),
    harmonics=st.integers(0, 3),
    ridge=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_learned_against_its_definition(series, steps, period, harmonics, ridge):
    forecast = LearnedForecast(period, harmonics=harmonics, ridge=ridge)
    mean, deviation = forecast.expect(seen(series, len(series) - 1), steps)
    means, variances = slow_learned(series, steps, period, harmonics, ridge)
    assert mean[:, 0].tolist() == pytest.approx(means, abs=1e-5)
    assert (deviation[:, 0] ** 2).tolist() == pytest.approx(variances, abs=1e-4)


def noisy_days(seed, deviation=4.0):
    """Return a level that follows the time of the day, with noise that returns to it."""
    rng = np.random.default_rng(seed)
    noise = np.zeros(200)
    for slot in range(1, 200):
        noise[slot] = 0.7 * noise[slot - 1] + deviation * math.sqrt(1 - 0.7**2) * rng.standard_normal()
    return 60 + 15 * np.sin(2 * np.pi * np.arange(200) / 24) + noise


def test_it_is_nearer_to_the_truth_than_what_does_not_learn_and_knows_how_near():
    errors = dict.fromkeys(("learned:24", "seasonal:24", "persistence"), 0.0)
    for seed in range(5):
        for name in errors:
            found = forecast_errors(forecast_named(name), noisy_days(seed), 8, first_slot=48)
            errors[name] += found.root_mean_square[:, 0]
    assert (errors["learned:24"] < errors["seasonal:24"]).all()
    assert (errors["learned:24"] < errors["persistence"]).all()
    told = [
        LearnedForecast(24).expect(seen(noisy_days(seed), slot), 8).deviation
        for seed in range(5)
        for slot in (60, 120, 180)
    ]
    assert np.mean(told, axis=0)[:, 0] == pytest.approx(errors["learned:24"] / 5, rel=0.2)


def test_it_can_be_cautious():
    observation = seen(noisy_days(0), 90)
    mean, deviation = LearnedForecast(24).expect(observation, 6)
    assert np.array_equal(LearnedForecast(24, caution=0.5).predict(observation, 6), mean - 0.5 * deviation)
    assert (np.diff(deviation[:, 0]) > 0).all()


def test_forecasts_and_planners_by_name():
    assert forecast_named("learned") == LearnedForecast(24)
    assert forecast_named("learned:6") == LearnedForecast(6)
    assert forecast_named("seasonal:6") == Seasonal(6)
    assert forecast_named("persistence") == Persistence()
    agent = create("rolling-horizon:learned:12")
    assert isinstance(agent, RollingHorizon)
    assert agent.forecast == LearnedForecast(12)
    assert agent.name == "rolling-horizon:learned:12"
    assert isinstance(LearnedForecast(), UncertainForecast)
    assert not isinstance(Persistence(), UncertainForecast)
    for wrong in ("", "oracle", "persistence:3", "learned:", "seasonal:x", "learned:0"):
        with pytest.raises(InvalidConfiguration):
            forecast_named(wrong)
    for options in ({"period": 0}, {"harmonics": -1}, {"ridge": 0.0}, {"caution": -1.0}):
        with pytest.raises(InvalidConfiguration):
            LearnedForecast(**options)
