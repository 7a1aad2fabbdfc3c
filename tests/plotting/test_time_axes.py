"""Units and marks of time axes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from desim.plotting._time import duration_words, nice_width, time_unit
from desim.plotting._time_axis import TimeLocator, time_axis


@pytest.mark.parametrize(
    ("span", "name"),
    [(0.5, "s"), (180.0, "s"), (181.0, "min"), (10_800.0, "min"), (20_000.0, "h"), (345_600.0, "h"), (1e6, "days")],
)
def test_the_unit_suits_the_span(span, name):
    assert time_unit(span).name == name


@pytest.mark.parametrize(
    ("width", "nice"),
    [(0.03, 0.05), (1.0, 1.0), (4.0, 5.0), (7.0, 10.0), (61.0, 120.0), (4_000.0, 7_200.0), (40_000.0, 43_200.0)],
)
def test_nice_widths(width, nice):
    assert nice_width(width) == pytest.approx(nice)


@given(st.floats(1e-6, 1e10))
def test_a_nice_width_is_not_below_the_wanted_one_and_not_far_above(width):
    nice = nice_width(width)
    assert width * (1 - 1e-9) <= nice <= 2.5 * width
    assert nice_width(nice) == pytest.approx(nice)


@given(st.floats(0.0, 1e8), st.floats(1e-2, 1e8))
def test_marks_are_round_times_within_the_interval(begin, length):
    ticks = TimeLocator().tick_values(begin, begin + length)
    assert 2 <= len(ticks) <= 11
    width = nice_width(length / 9)
    for tick in ticks:
        assert begin - 1e-6 * length <= tick <= begin + 1.000001 * length
        assert math.isclose(tick / width, round(tick / width), rel_tol=1e-9, abs_tol=1e-9)


def test_marks_follow_the_zoom_and_keep_the_unit():
    axes = Figure().subplots()
    time_axis(axes, 0.0, 4 * 3_600.0)
    assert axes.get_xlabel() == "time (h)"
    axes.set_xlim(3_600.0, 7_200.0)
    axes.figure.draw_without_rendering()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "1.2", "1.4", "1.6", "1.8", "2"]


def test_zero_has_no_sign():
    axes = Figure().subplots()
    time_axis(axes, 0.0, 1_000.0)
    axes.figure.draw_without_rendering()
    assert axes.get_xticklabels()[0].get_text() == "0"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(86_400.0, "1 day"), (172_800.0, "2 days"), (43_200.0, "12 h"), (90.0, "90 s"), (0.5, "0.5 s")],
)
def test_durations_in_words(seconds, words):
    assert duration_words(seconds) == words
