"""Flows that share links: rates, arrivals, and what begins and ends in between."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from desim import InvalidConfiguration
from desim.core import at
from desim.processes import Flow, SharedChannels, fair_rates

INF = math.inf


class Sending(NamedTuple):
    """A flow to be started."""

    time: float
    route: list[int]
    size: float
    limit: float = INF
    latency: float = 0.0


def arrivals(bandwidths: list[float], sendings: list[Sending], *, watch: bool = False) -> list[float]:
    """Return when each flow arrives."""
    env = simpy.Environment()
    channels = SharedChannels(env, bandwidths)
    result = [math.nan] * len(sendings)

    def send(number: int, sending: Sending) -> None:
        def arrived(flow: Flow) -> None:
            result[number] = flow.due

        channels.start(
            sending.route, sending.size, arrived, seconds_per_unit=1 / sending.limit, latency=sending.latency
        )

    for number, sending in enumerate(sendings):
        event = at(env, sending.time)
        event.callbacks.append(lambda _, number=number, sending=sending: send(number, sending))
    while env.peek() < INF:
        now = env.now
        env.step()
        if watch and env.peek() > now:  # the instant is over
            for link, bandwidth in enumerate(bandwidths):
                total = sum(flow.rate for flow in channels.flows if link in flow.route)
                assert total <= bandwidth * (1 + 1e-12)
    assert not channels.flows
    return result


# -- rates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("routes", "limits", "bandwidths", "rates"),
    [
        ([[0]], [INF], [5.0], [5.0]),
        ([[0]], [2.0], [5.0], [2.0]),
        ([[0], [0]], [INF, INF], [5.0], [2.5, 2.5]),
        ([[0], [0]], [1.0, INF], [5.0], [1.0, 4.0]),
        ([[0], [0], [0]], [1.0, 1.0, 9.0], [6.0], [1.0, 1.0, 4.0]),
        ([[0, 1], [0], [1]], [INF] * 3, [1.0, 10.0], [0.5, 0.5, 9.5]),  # the example of every textbook
        ([[0, 1, 2], [0], [1], [2]], [INF] * 4, [1.0] * 3, [0.5] * 4),
        ([[]], [3.0], [], [3.0]),
        ([[0]], [INF], [INF], [INF]),
        ([[0, 1]], [INF], [INF, 2.0], [2.0]),
        ([], [], [1.0], []),
    ],
)
def test_rates_that_can_be_worked_out_by_hand(
    routes: list[list[int]], limits: list[float], bandwidths: list[float], rates: list[float]
) -> None:
    assert fair_rates(routes, limits, bandwidths) == rates


def rates_by_linear_programs(routes: list[list[int]], limits: list[float], bandwidths: list[float]) -> list[float]:
    """Raise the least rate as far as possible, fix the flows for which no more is possible, and so on."""
    count = len(routes)
    fixed: dict[int, float] = {}
    uses = np.array([[float(link in route) for route in routes] for link in range(len(bandwidths))])

    def solve(gain: np.ndarray, floors: list[float]) -> np.ndarray:
        bounds = [
            (fixed[flow], fixed[flow]) if flow in fixed else (floor, limits[flow]) for flow, floor in enumerate(floors)
        ]
        answer = linprog(-gain, A_ub=uses, b_ub=bandwidths, bounds=bounds)
        assert answer.success
        return answer.x

    while len(fixed) < count:
        # The largest common rate t: every free flow at least t.
        free = [flow for flow in range(count) if flow not in fixed]
        rows = [*np.hstack([uses, np.zeros((len(bandwidths), 1))])]
        bounds_right = list(bandwidths)
        for flow in free:
            row = np.zeros(count + 1)
            row[flow], row[-1] = -1.0, 1.0
            rows.append(row)
            bounds_right.append(0.0)
        bounds = [(fixed[flow], fixed[flow]) if flow in fixed else (0, limits[flow]) for flow in range(count)]
        answer = linprog([0.0] * count + [-1.0], A_ub=np.array(rows), b_ub=bounds_right, bounds=[*bounds, (0, None)])
        assert answer.success
        level = answer.x[-1]
        floors = [max(0.0, level * (1 - 1e-9)) for _ in range(count)]
        for flow in free:
            gain = np.zeros(count)
            gain[flow] = 1.0
            if solve(gain, floors)[flow] <= level * (1 + 1e-6):
                fixed[flow] = level * (1 - 1e-10)
    return [fixed[flow] for flow in range(count)]


@pytest.mark.parametrize("seed", range(25))
def test_rates_are_those_of_a_sequence_of_linear_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    num_links = int(rng.integers(1, 5))
    bandwidths = rng.uniform(1, 10, num_links).tolist()
    routes = [
        rng.choice(num_links, size=rng.integers(1, num_links + 1), replace=False).tolist()
        for _ in range(int(rng.integers(1, 6)))
    ]
    limits = rng.uniform(0.2, 6, len(routes)).tolist()
    expected = rates_by_linear_programs(routes, limits, bandwidths)
    assert fair_rates(routes, limits, bandwidths) == pytest.approx(expected, rel=1e-5)


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[list[int]], list[float], list[float]]:
    """Draw flows over links."""
    amounts = st.one_of(st.integers(1, 6).map(float), st.floats(1e-3, 1e3), st.just(INF))
    bandwidths = draw(st.lists(amounts, min_size=1, max_size=6))
    links = st.integers(0, len(bandwidths) - 1)
    routes = draw(st.lists(st.lists(links, unique=True, max_size=4), max_size=8))
    limits = draw(st.lists(amounts, min_size=len(routes), max_size=len(routes)))
    return routes, limits, bandwidths


@given(networks())
def test_every_flow_is_at_its_limit_or_has_a_bottleneck(
    network: tuple[list[list[int]], list[float], list[float]],
) -> None:
    # This characterizes the max-min fair rates, and no others: Bertsekas and Gallager, section 6.5.2.
    routes, limits, bandwidths = network
    rates = fair_rates(routes, limits, bandwidths)
    users = {link: [rate for rate, route in zip(rates, routes, strict=True) if link in route] for link in range(99)}
    for link, bandwidth in enumerate(bandwidths):
        assert sum(users[link]) <= bandwidth * (1 + 1e-9)
    for rate, limit, route in zip(rates, limits, routes, strict=True):
        assert 0 < rate <= limit
        full = [link for link in route if sum(users[link]) >= bandwidths[link] * (1 - 1e-9)]
        assert rate == limit or any(rate >= max(users[link]) * (1 - 1e-9) for link in full)


# -- arrivals ---------------------------------------------------------------------------------------


def test_a_flow_alone_takes_its_latency_and_its_size_at_the_lower_speed() -> None:
    assert arrivals([4.0], [Sending(1.0, [0], 8.0, limit=2.0, latency=0.5)]) == [5.5]
    assert arrivals([1.0], [Sending(1.0, [0], 8.0, limit=2.0, latency=0.5)]) == [9.5]
    assert arrivals([], [Sending(1.0, [], 8.0, limit=2.0, latency=0.5)]) == [5.5]
    assert arrivals([], [Sending(1.0, [], 8.0)]) == [1.0]


def test_two_equal_flows_take_twice_as_long() -> None:
    assert arrivals([1.0], [Sending(0.0, [0], 5.0), Sending(0.0, [0], 5.0)]) == [10.0, 10.0]


def test_the_smaller_of_two_flows_leaves_the_link_to_the_other() -> None:
    assert arrivals([1.0], [Sending(0.0, [0], 2.0), Sending(0.0, [0], 5.0)]) == [4.0, 7.0]


def test_a_flow_that_begins_later_slows_the_first_from_then_on() -> None:
    # 4 units by time 4; then half speed: 6 more by 16, when the other has had 6 of 10.
    assert arrivals([1.0], [Sending(0.0, [0], 10.0), Sending(4.0, [0], 10.0)]) == [16.0, 20.0]


def test_latency_takes_no_bandwidth() -> None:
    assert arrivals([1.0], [Sending(0.0, [0], 3.0), Sending(0.0, [0], 3.0, latency=3.0)]) == [3.0, 6.0]


def test_flows_on_different_links_do_not_meet() -> None:
    assert arrivals([1.0, 1.0], [Sending(0.0, [0], 3.0), Sending(0.0, [1], 3.0)]) == [3.0, 3.0]


def test_bandwidth_freed_elsewhere_is_used() -> None:
    # The second is held up on link 1 by the third, so that the first has 1.5 of link 0; from time 2 on 1 each.
    flows = [Sending(0.0, [0], 6.0), Sending(0.0, [0, 1], 4.0), Sending(0.0, [1], 1.0)]
    assert arrivals([2.0, 1.0], flows) == [5.0, 5.0, 2.0]


def test_nothing_to_send_takes_no_time_but_the_latency() -> None:
    assert arrivals([1.0], [Sending(2.0, [0], 0.0), Sending(2.0, [0], 0.0, latency=1.0)]) == [2.0, 3.0]


def fluid_arrivals(bandwidths: list[float], sendings: list[Sending]) -> list[float]:
    """Return when each flow arrives, computed on its own: all rates anew at every event, by filling the links."""
    time = 0.0
    ready = [sending.time + sending.latency for sending in sendings]
    left = [sending.size for sending in sendings]
    result = [math.nan] * len(sendings)
    while any(math.isnan(value) for value in result):
        active = [i for i, value in enumerate(result) if math.isnan(value) and ready[i] <= time]
        rates = dict.fromkeys(active, 0.0)
        growing = list(active)
        while growing:
            room = [sendings[i].limit - rates[i] for i in growing]
            for link, bandwidth in enumerate(bandwidths):
                users = [i for i in growing if link in sendings[i].route]
                if users:
                    used = sum(rates[i] for i in active if link in sendings[i].route)
                    room.append((bandwidth - used) / len(users))
            for i in growing:
                rates[i] += min(room)
            full = [
                link
                for link, bandwidth in enumerate(bandwidths)
                if sum(rates[i] for i in active if link in sendings[i].route) >= bandwidth * (1 - 1e-12)
            ]
            growing = [
                i
                for i in growing
                if rates[i] < sendings[i].limit * (1 - 1e-12) and not set(full) & set(sendings[i].route)
            ]
        ends = [time + left[i] / rates[i] for i in active]
        begins = [value for i, value in enumerate(ready) if math.isnan(result[i]) and value > time]
        after = min([*ends, *begins])
        for i in active:
            if time + left[i] / rates[i] <= after * (1 + 1e-13):
                result[i] = after
            left[i] -= rates[i] * (after - time)
        time = after
    return result


@pytest.mark.parametrize("seed", range(40))
def test_arrivals_are_those_of_an_independent_fluid_model(seed: int) -> None:
    rng = np.random.default_rng(seed)
    num_links = int(rng.integers(1, 6))
    bandwidths = rng.choice([1.0, 2.0, 3.5, 10.0], num_links).tolist()
    sendings = [
        Sending(
            float(rng.choice([0.0, 1.0, rng.uniform(0, 20)])),
            rng.choice(num_links, size=rng.integers(1, min(3, num_links) + 1), replace=False).tolist(),
            float(rng.choice([1.0, 4.0, rng.exponential(8)])),
            limit=float(rng.choice([1.0, 4.0, rng.uniform(0.5, 5)])),
            latency=float(rng.choice([0.0, 0.5])),
        )
        for _ in range(int(rng.integers(1, 25)))
    ]
    expected = fluid_arrivals(bandwidths, sendings)
    assert arrivals(bandwidths, sendings, watch=True) == pytest.approx(expected, rel=1e-9)


# -- starting and cancelling ------------------------------------------------------------------------


def test_a_cancelled_flow_does_not_arrive_and_frees_its_links() -> None:
    env = simpy.Environment()
    channels = SharedChannels(env, [1.0])
    seen: list[tuple[str, float]] = []
    first = channels.start([0], 10.0, lambda flow: seen.append(("first", flow.due)))
    channels.start([0], 10.0, lambda flow: seen.append(("second", flow.due)))
    at(env, 4.0).callbacks.append(lambda _: channels.cancel(first))
    env.run()
    channels.cancel(first)
    assert seen == [("second", 12.0)]
    assert first.left == 10.0 and first.due == 20.0  # as it stood when it was last looked at


def test_a_flow_that_is_cancelled_at_the_instant_of_its_arrival_by_another_does_not_arrive() -> None:
    env = simpy.Environment()
    channels = SharedChannels(env, [2.0])
    seen: list[int] = []
    flows: list[Flow] = []

    def arrived(flow: Flow) -> None:
        seen.append(flow.number)
        channels.cancel(flows[1])

    flows += [channels.start([0], 3.0, arrived), channels.start([0], 3.0, arrived)]
    env.run()
    assert seen == [0] and env.now == 3.0


def test_an_arrival_may_start_the_next_flow() -> None:
    env = simpy.Environment()
    channels = SharedChannels(env, [1.0])
    seen: list[float] = []

    def arrived(flow: Flow) -> None:
        seen.append(flow.due)
        if len(seen) < 4:
            channels.start([0], 2.0 if len(seen) < 3 else 0.0, arrived)

    channels.start([0], 1.0, arrived)
    env.run()
    assert seen == [1.0, 3.0, 5.0, 5.0]


def test_flows_that_arrive_together_do_so_in_the_order_of_their_start() -> None:
    env = simpy.Environment()
    channels = SharedChannels(env, [1.0, 1.0, 1.0])
    seen: list[int] = []
    for link in (2, 0, 1):
        channels.start([link], 5.0, lambda flow: seen.append(flow.route[0]))
    env.run()
    assert seen == [2, 0, 1]


def test_a_flow_alone_arrives_when_its_own_channel_would_deliver_it_to_the_last_bit() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        begin, size, per_unit, latency = rng.exponential([100.0, 10.0, 0.3, 0.1]).tolist()
        env = simpy.Environment(initial_time=begin)
        seen: list[float] = []
        SharedChannels(env, [INF]).start(
            [0],
            size,
            lambda flow, seen=seen: seen.append(flow.due),
            seconds_per_unit=per_unit,
            latency=latency,
        )
        env.run()
        assert seen == [begin + (size * per_unit + latency)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], 1.0, 0.0, 0.0), r"route: got \(1,\), expected different links of 1"),
        (([0, 0], 1.0, 0.0, 0.0), r"route: got \(0, 0\)"),
        (([0], -1.0, 0.0, 0.0), r"flow: got size -1\.0, .*expected finite numbers >= 0"),
        (([0], INF, 0.0, 0.0), "flow: got size inf, .*expected finite numbers >= 0"),
        (([0], 1.0, math.nan, 0.0), "nan seconds per unit"),
        (([0], 1.0, 0.0, -2.0), "latency -2.0"),
    ],
)
def test_a_flow_that_makes_no_sense_is_refused(arguments: tuple[list[int], float, float, float], message: str) -> None:
    route, size, per_unit, latency = arguments
    channels = SharedChannels(simpy.Environment(), [1.0])
    with pytest.raises(InvalidConfiguration, match=message):
        channels.start(route, size, print, seconds_per_unit=per_unit, latency=latency)


def test_so_is_a_bandwidth() -> None:
    with pytest.raises(InvalidConfiguration, match=r"bandwidth of link 1: got 0.0, expected a number > 0"):
        SharedChannels(simpy.Environment(), [1.0, 0.0])
