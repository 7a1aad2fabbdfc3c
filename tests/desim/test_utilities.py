"""Utilities: the formulas of equation (60), their slopes and inverses, and what registration refuses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import UTILITIES, Utility, register_utility, utility

Floats = NDArray[np.float64]
AMOUNTS = np.concatenate([[0.0], np.geomspace(1e-4, 1e5, 60)])
WEIGHTS = (0.3, 1.0, 1.5, 4.0)
FORMULAS: dict[str, Callable[[float, float], float]] = {
    "linear": lambda y, alpha: alpha * y,
    "log": lambda y, alpha: alpha * math.log(y + 1),
    "reciprocal": lambda y, alpha: 1 / alpha - 1 / (y + alpha),
    "poly": lambda y, alpha: alpha * math.sqrt(y + 1) - alpha,
}
SLOPES_AT_ZERO: dict[str, Callable[[float], float]] = {
    "linear": lambda alpha: alpha,
    "log": lambda alpha: alpha,
    "reciprocal": lambda alpha: 1 / alpha**2,
    "poly": lambda alpha: alpha / 2,
}
CURVED = ("log", "reciprocal", "poly")


@pytest.fixture(autouse=True)
def _as_they_were() -> Iterator[None]:
    """Forget what a test registers."""
    before = dict(UTILITIES)
    yield
    UTILITIES.clear()
    UTILITIES.update(before)


def full(value: float, size: int = 1) -> Floats:
    return np.full(size, value)


def test_there_are_the_four_of_the_paper() -> None:
    assert list(UTILITIES) == list(FORMULAS)
    assert all(utility(name).name == name for name in FORMULAS)
    assert [name for name in FORMULAS if utility(name).linear] == ["linear"]


@pytest.mark.parametrize(
    ("name", "value", "slope"),
    [
        ("linear", 6.0, 2.0),
        ("log", 2 * math.log(4), 0.5),
        ("reciprocal", 0.3, 0.04),
        ("poly", 2.0, 0.5),
    ],
)
def test_amount_3_and_weight_2(name: str, value: float, slope: float) -> None:
    assert utility(name).value(full(3.0), full(2.0)) == pytest.approx(value, rel=1e-15)
    assert utility(name).slope(full(3.0), full(2.0)) == pytest.approx(slope, rel=1e-15)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("weight", WEIGHTS)
def test_equation_60(name: str, weight: float) -> None:
    found = utility(name).value(AMOUNTS, full(weight, len(AMOUNTS)))
    assert found == pytest.approx([FORMULAS[name](y, weight) for y in AMOUNTS], rel=1e-12, abs=1e-15)
    assert found[0] == 0
    assert utility(name).slope(full(0.0), full(weight)) == pytest.approx(SLOPES_AT_ZERO[name](weight), rel=1e-15)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("weight", WEIGHTS)
def test_slopes_are_derivatives(name: str, weight: float) -> None:
    amounts = AMOUNTS[AMOUNTS > 1e-3]
    step = 1e-4 * amounts
    rise = [FORMULAS[name](y + h, weight) - FORMULAS[name](y - h, weight) for y, h in zip(amounts, step, strict=True)]
    slope = utility(name).slope(amounts, full(weight, len(amounts)))
    assert slope == pytest.approx(np.array(rise) / (2 * step), rel=1e-5)
    assert (np.diff(slope) <= 0).all()


@pytest.mark.parametrize("name", CURVED)
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("searched", [False, True])
def test_amounts_are_found_by_their_slopes(name: str, weight: float, searched: bool) -> None:
    family = replace(utility(name), inverse_slope=None) if searched else utility(name)
    weights, largest = full(weight, len(AMOUNTS)), full(AMOUNTS[-1], len(AMOUNTS))
    found = family.amount_at(family.slope(AMOUNTS, weights), weights, largest)
    assert found == pytest.approx(AMOUNTS, rel=1e-8, abs=1e-10)


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(CURVED),
    searched=st.booleans(),
    weight=st.floats(0.2, 5),
    slope=st.one_of(st.just(0.0), st.floats(-1, 10), st.floats(1e-12, 1e-3)),
    largest=st.one_of(st.just(0.0), st.floats(1e-6, 1e6)),
)
def test_the_amount_is_best_at_a_price(name: str, searched: bool, weight: float, slope: float, largest: float) -> None:
    family = replace(utility(name), inverse_slope=None) if searched else utility(name)
    found = family.amount_at(full(slope), full(weight), full(largest))
    assert 0 <= found <= largest

    def profit(amount: Floats) -> Floats:
        return family.value(amount, full(weight, len(amount))) - slope * amount

    others = np.concatenate([np.linspace(0, largest, 200), np.clip(found * np.linspace(0.9, 1.1, 50), 0, largest)])
    best = profit(found)
    assert (profit(others) <= best + 1e-9 * (1 + np.abs(best))).all()


@pytest.mark.parametrize("name", CURVED)
@pytest.mark.parametrize("searched", [False, True])
def test_amounts_at_the_ends_and_beyond(name: str, searched: bool) -> None:
    family = replace(utility(name), inverse_slope=None) if searched else utility(name)
    weight, largest = full(1.5), full(8.0)
    steepest, flattest = (family.slope(end, weight) for end in (full(0.0), largest))
    for slope in (steepest, steepest * 1.5, steepest + 1e9, full(np.inf)):
        assert family.amount_at(slope, weight, largest) == 0
    for slope in (flattest, flattest * 0.9, full(0.0), full(-3.0)):
        assert family.amount_at(slope, weight, largest) == pytest.approx(8.0, rel=1e-14)
        assert family.amount_at(slope, weight, largest) <= 8.0
    for slope in (steepest, flattest, full(0.0), full(0.3)):
        assert family.amount_at(slope, weight, full(0.0)) == 0


def test_linear_amounts_are_all_or_nothing() -> None:
    slopes, weights = np.array([-1.0, 0.0, 1.9, 2.0, 2.1]), full(2.0, 5)
    assert utility("linear").amount_at(slopes, weights, full(7.0, 5)).tolist() == [7, 7, 7, 0, 0]


def test_amounts_of_tables_are_those_of_their_entries() -> None:
    rng = np.random.default_rng(0)
    slope, weight, largest = (rng.uniform(low, 3, (4, 5)) for low in (-0.5, 0.1, 0.0))
    for family in (*UTILITIES.values(), replace(utility("log"), inverse_slope=None)):
        table = family.amount_at(slope, weight, largest)
        entries = [
            family.amount_at(*map(np.array, entry)) for entry in zip(slope.flat, weight.flat, largest.flat, strict=True)
        ]
        assert table.ravel() == pytest.approx(np.array(entries), rel=1e-14, abs=0)


def saturating(**changes: Any) -> Utility:
    """Return 1 - exp(-w y), changed."""
    parts: dict[str, Any] = {
        "name": "saturating",
        "value": lambda amount, weight: -np.expm1(-weight * amount),
        "slope": lambda amount, weight: weight * np.exp(-weight * amount),
    }
    return Utility(**{**parts, **changes})


def test_a_registered_utility_is_known_by_its_name_and_its_inverse_is_searched_for() -> None:
    new = saturating()
    assert register_utility(new) is new
    assert utility("saturating") is new
    slope, weight = np.array([0.5, 1e-4, 1.9]), full(2.0, 3)
    expected = -np.log(slope / weight) / weight
    assert new.amount_at(slope, weight, full(50.0, 3)) == pytest.approx(expected, rel=1e-9)
    assert new.amount_at(slope, weight, full(0.1, 3)) == pytest.approx(np.minimum(expected, 0.1), rel=1e-9)


def test_a_utility_with_a_kink_can_be_registered() -> None:
    kinked = Utility("kinked", lambda y, w: w * np.minimum(y, 3), lambda y, w: w * (np.asarray(y) < 3.0))
    register_utility(kinked)
    assert kinked.amount_at(full(0.5), full(1.0), full(9.0)) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": lambda y, w: w * y**2, "slope": lambda y, w: 2 * w * y}, "is not concave: its slope grows"),
        ({"value": lambda y, w: -w * y, "slope": lambda y, w: -w + 0 * y}, "decreases"),
        (
            {"value": lambda y, w: w * (y - y**2 / 1e4), "slope": lambda y, w: w * (1 - y / 5e3)},
            r"decreases \(near amount [5-9]\d{3}",
        ),
        ({"value": lambda y, w: 1 - np.expm1(-w * y)}, r"is not 0 at amount 0 \(near amount 0, weight 0.5\)"),
        ({"slope": lambda y, w: 1.02 * w * np.exp(-w * y)}, "slope that is not the derivative of its value"),
        ({"slope": lambda y, w: 0.98 * w * np.exp(-w * y)}, "slope that is not the derivative of its value"),
        ({"slope": lambda y, w: np.exp(-w * y)}, "slope that is not the derivative of its value"),
        ({"slope": lambda y, w: 0 * y * w}, "slope that is not the derivative of its value"),
        ({"value": lambda y, w: w * np.where(y > 5, np.nan, y)}, "value: expected finite numbers"),
        ({"slope": lambda y, w: np.where(y > 0, w, np.inf)}, "slope: expected finite numbers"),
        ({"value": lambda y, w: w + 0 * y}, "is not 0 at amount 0"),
        ({"value": lambda y, w: np.ones(3)}, "value: expected finite numbers"),
        ({"name": "log"}, "utility 'log' is already registered"),
    ],
)
def test_refused_utilities(changes: dict[str, Any], message: str) -> None:
    before = dict(UTILITIES)
    with pytest.raises(InvalidConfiguration, match=message) as caught:
        register_utility(saturating(**changes))
    assert repr(changes.get("name", "saturating")) in str(caught.value)
    assert before == UTILITIES


def test_a_convex_piece_between_concave_ones_is_found() -> None:
    wave = Utility("wave", lambda y, w: w * (2 * y + np.sin(y)), lambda y, w: w * (2 + np.cos(y)))
    with pytest.raises(InvalidConfiguration, match=r"'wave' is not concave: its slope grows \(near amount [34]"):
        register_utility(wave)


def test_a_name_is_taken_only_once() -> None:
    register_utility(saturating())
    with pytest.raises(InvalidConfiguration, match="utility 'saturating' is already registered"):
        register_utility(saturating())


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        InvalidConfiguration, match="utility: got 'cubic', expected one of linear, log, reciprocal, poly"
    ):
        utility("cubic")


@pytest.mark.parametrize("changes", [{"linear": True}, {"inverse_slope": lambda slope, weight: 0 * slope}])
def test_registration_checks_all_claims(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfiguration):
        register_utility(saturating(**changes))
