"""On-demand VMs that are replayed: what they leave of a platform, and whom they turn away."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction
from typing import NamedTuple

import pytest
import simpy
from capacity_runs import run_capacity
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InvalidConfiguration, Simulation, WorkloadError, simulate
from desim.problems.deferrable import DeferrableCluster, Job, clairvoyant_view
from desim.processes.on_demand import OnDemand, replayed_vms


class VM(NamedTuple):
    start: float
    end: float
    cores: float
    memory: float = 0.0


def replay(total, vms, num_slots, *, resources=("cores",)):
    platforms: list[OnDemand] = []
    process = replayed_vms(total, vms, listener=platforms.append)
    cluster = DeferrableCluster([], process, num_slots=num_slots, resources=resources)
    capacity = clairvoyant_view(cluster).capacity
    (platform,) = platforms
    return (capacity[:, 0].tolist() if len(resources) == 1 else capacity.tolist()), platform


def counts(platform):
    return platform.num_arrived, platform.num_turned_away, platform.num_departed, platform.num_present


def test_what_vms_leave():
    capacity, platform = replay(10, [VM(0, 3, 2), VM(1, 2, 4), VM(1.5, 4.5, 3)], 6)
    assert capacity == [8, 4, 5, 7, 7, 10]
    assert counts(platform) == (3, 0, 3, 0)
    assert platform.free == (10,)


def test_vms_leave_before_others_arrive():
    capacity, platform = replay(4, [VM(0, 2, 4), VM(0.5, 2.5, 1), VM(2, 3.5, 4), VM(3.5, 4, 4)], 6)
    assert capacity == [0, 0, 0, 0, 4, 4]
    assert counts(platform) == (4, 1, 3, 0)
    assert platform.turned_away_work == (2.0,)


def test_those_that_do_not_fit_are_turned_away_and_smaller_ones_behind_them_are_not():
    capacity, platform = replay(10, [VM(0, 5, 7), VM(1, 9, 4), VM(1, 3, 3), VM(2, 4, 1)], 6)
    assert capacity == [3, 0, 0, 3, 3, 10]
    assert counts(platform) == (4, 2, 2, 0)
    assert platform.turned_away_work == (4.0 * 8 + 1.0 * 2,)


def test_those_alive_at_time_0_arrive_at_time_0_and_those_gone_do_not():
    vms = [VM(-9, 0, 5), VM(-8, -3, 5), VM(-7, 2, 3), VM(-1, math.inf, 4), VM(0, 1, 1)]
    capacity, platform = replay(8, vms, 4)
    assert capacity == [0, 1, 4, 4]
    assert counts(platform) == (3, 0, 2, 1)
    assert platform.num_initial == 0


def test_a_vm_without_a_lifetime_holds_nothing():
    capacity, platform = replay(2, [VM(0, 3, 1), VM(1, 1, 1), VM(1, 1, 99), VM(1, 2, 1), VM(1.5, 1.5, 1)], 3)
    assert capacity == [1, 0, 1]
    assert counts(platform) == (5, 0, 5, 0)


def test_several_resources_are_all_needed():
    vms = [VM(0, 4, 2, 6), VM(1, 3, 1, 5), VM(2, 4, 3, 1), VM(2, 3, 9, 0)]
    capacity, platform = replay((8, 10), vms, 5, resources=("cores", "memory"))
    assert capacity == [[6, 4], [6, 4], [3, 3], [3, 3], [8, 10]]
    assert counts(platform) == (4, 2, 2, 0)
    assert platform.turned_away_work == (1 * 2 + 9 * 1, 5 * 2)


def test_fractions_of_a_machine_do_not_add_up_to_errors():
    # 0.3 - 0.1 - 0.1 is less than 0.1
    capacity, platform = replay(0.3, [VM(0, 3, 0.1), VM(1, 3, 0.1), VM(2, 4, 0.1), VM(3.5, 4, 0.3)], 6)
    assert platform.num_turned_away == 1
    assert capacity[0] == pytest.approx(0.2)
    assert capacity[2] == pytest.approx(0.0, abs=1e-12)
    assert min(capacity) >= 0
    assert capacity[4:] == [0.3, 0.3]
    tenths = [VM(slot, slot + 2, 0.1) for slot in range(2_000) for _ in range(5)]
    capacity, platform = replay(1.0, tenths, 2_003)
    assert platform.num_turned_away == 0
    assert min(capacity) >= 0
    assert max(capacity[1:2_000]) < 1e-12
    assert capacity[-1] == 1.0
    shares = [VM(number, 5 + number, share) for number, share in enumerate([0.3, 0.2, 1 / 48])]
    assert 1.0 - 0.3 - 0.2 - 1 / 48 + 0.3 + 0.2 + 1 / 48 < 1.0
    assert replay(1.0, shares, 9)[0][-1] == 1.0


def test_what_happened_before_time_0_has_happened_by_then():
    platform = OnDemand(simpy.Environment(), (2.0,))
    one, two = (1.0,), (2.0,)
    before = [(-9.0, [(-5.0, one), (-5.0, one), (-1.0, one)]), (-5.0, [(4.0, two)])]
    assert platform.begin(iter([*before, (3.0, [(7.0, one)]), (8.0, [])])) == (3.0, [(7.0, one)])
    assert platform.free == (0.0,)
    assert platform.num_initial == 1
    assert counts(platform) == (0, 0, 0, 1)


def test_a_vm_that_leaves_at_time_0_has_left():
    platform = OnDemand(simpy.Environment(), (2.0,))
    assert platform.begin(iter([(-3.0, [(0.0, (1.0,))])])) == (math.inf, [])
    assert platform.free == (2.0,)
    assert platform.num_initial == 0


quarters = st.integers(-12, 48).map(lambda number: number / 4)


@st.composite
def traces(draw):
    starts = sorted(draw(st.lists(quarters, max_size=25)))
    lives = st.integers(0, 40).map(lambda number: number / 4) | st.just(math.inf)
    return [VM(start, start + draw(lives), draw(st.integers(0, 6)), draw(st.integers(0, 6))) for start in starts]


def slow_replay(total, vms, num_slots):
    """Return capacities and counters from the definition: events in order of time, departures first, then by row."""
    events = []
    for row, vm in enumerate(vms):
        if vm.start < 0 and vm.end <= 0:
            continue
        start = max(Fraction(vm.start), Fraction(0))
        events.append((start, 1, row, vm))
        if vm.end < math.inf and vm.end > start:
            events.append((Fraction(vm.end), 0, row, vm))
    held = {}
    arrived = turned_away = departed = 0
    work = [0, 0]
    capacity, done = [], 0
    events.sort(key=lambda event: event[:3])
    for slot in range(num_slots):
        while done < len(events) and events[done][0] <= slot:
            time, kind, row, vm = events[done]
            done += 1
            if kind == 0:
                departed += row in held
                held.pop(row, None)
                continue
            arrived += 1
            needs = (vm.cores, vm.memory)
            free = [have - sum(use[index] for use in held.values()) for index, have in enumerate(total)]
            if vm.end == time:
                departed += 1
            elif all(need <= have for need, have in zip(needs, free, strict=True)):
                held[row] = needs
            else:
                turned_away += 1
                work = [sum_ + need * (vm.end - time) if need else sum_ for sum_, need in zip(work, needs, strict=True)]
        capacity.append([have - sum(use[index] for use in held.values()) for index, have in enumerate(total)])
    return capacity, (arrived, turned_away, departed, len(held)), work


@settings(max_examples=300, deadline=None)
@given(vms=traces(), total=st.tuples(st.integers(0, 20), st.integers(0, 20)))
def test_against_a_slow_replay(vms, total):
    platforms: list[OnDemand] = []

    def note():
        (platform,) = platforms
        return counts(platform), platform.turned_away_work

    process = replayed_vms(total, vms, listener=platforms.append)
    capacity, noted = run_capacity(process, 14, resources=("cores", "memory"), note=note)
    wanted, wanted_counts, work = slow_replay(total, vms, 14)
    assert capacity.tolist() == wanted
    assert noted[-1] == (wanted_counts, tuple(work))


def test_vms_are_read_one_ahead_of_the_clock_and_forgotten():
    now = [0.0]
    ahead = []

    def vms():
        for number in range(30_000):
            ahead.append((number - 1) / 50 > now[0])  # the one before has arrived
            yield VM(number / 50, number / 50 + 3, 1, 1)

    platforms: list[OnDemand] = []
    process = replayed_vms(1_000, vms(), listener=platforms.append)

    def note():
        now[0] += 1

    tracemalloc.start()
    capacity, _ = run_capacity(process, 600, note=note)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(ahead) > 29_000
    assert not any(ahead)
    assert set(capacity[3:, 0].tolist()) == {1_000 - 150}
    assert platforms[0].num_present == pytest.approx(150, abs=50)
    assert peak < 1_000_000  # a list of all of them has four times as much


def test_the_capacity_is_the_same_whatever_is_started_and_in_a_fork():
    class Greedy:
        def act(self, observation):
            return range(len(observation.current))

    class Nobody:
        def act(self, observation):
            return None

    vms = [VM(number / 3, number / 3 + 4, number % 5) for number in range(60)]
    jobs = [Job(number, number, number, number + 3, 4, 5) for number in range(15)]
    platforms: list[OnDemand] = []
    cluster = DeferrableCluster(jobs, replayed_vms(40, vms, listener=platforms.append), num_slots=25)
    greedy, nobody = (
        simulate(cluster, agent).table("slots")["capacity_cores"].to_list() for agent in (Greedy(), Nobody())
    )
    assert greedy == nobody
    assert len(set(greedy)) > 5
    simulation = Simulation(cluster)
    for _ in range(8):
        simulation.advance().answer(None)
    fork = simulation.fork()
    rest = []
    while (decision := fork.advance()) is not None:
        rest.append(float(decision.observation.capacity[0]))
        decision.answer(None)
    assert rest == greedy[8:]
    first, second, halfway, to_the_end = platforms  # each simulation has its own
    assert counts(first) == counts(second) == counts(to_the_end)
    assert halfway.num_arrived < to_the_end.num_arrived


def test_an_iterator_is_not_silently_empty_the_second_time():
    cluster = DeferrableCluster([], replayed_vms(10, iter([VM(0, 2, 4)])), num_slots=3)
    assert clairvoyant_view(cluster).capacity[:, 0].tolist() == [6, 6, 10]
    with pytest.raises(InvalidConfiguration, match="vms: got an iterator, which can be read only once"):
        clairvoyant_view(cluster)


def test_what_the_counters_say_of_themselves():
    _, platform = replay(10, [VM(0, 9, 7), VM(1, 9, 4)], 3)
    assert repr(platform) == "<1 on-demand VMs of 0 + 2, 1 turned away>"


class Bare(NamedTuple):
    start: float
    end: float


@pytest.mark.parametrize(
    ("vms", "message"),
    [
        ([VM(2, 3, 1), VM(1, 3, 1)], r"VM\(start=1, .* starts at 1\.0, after one at 2\.0; sort the VMs"),
        ([VM(-1, 3, 1), VM(-2, -1, 1)], r"starts at -2\.0, after one at -1\.0"),
        ([VM(math.nan, 3, 1)], "starts at nan"),
        ([VM(math.inf, math.inf, 1)], "starts at inf"),
        ([VM(2, 1, 1)], r"ends at 1\.0, before its start at 2\.0"),
        ([VM(2, math.nan, 1)], "ends at nan"),
        ([VM(2, 3, -1)], r"cores=-1, .*amount: got -1\.0, expected a number >= 0"),
        ([VM(2, 3, math.nan)], "cores=nan, .*amount: got nan, expected a number >= 0"),
        ([VM(2, 3, None)], r"VM\(start=2, end=3, cores=None"),
        ([VM(None, 3, 1)], r"VM\(start=None"),
        ([VM(1, 3, "four")], "could not convert string to float: 'four'"),
        ([Bare(1, 3)], r"Bare\(start=1, end=3\): 'Bare' object has no attribute 'cores'"),
    ],
)
def test_vms_that_cannot_be_replayed(vms, message):
    with pytest.raises(WorkloadError, match=message):
        replay(10, vms, 5)


@pytest.mark.parametrize("total", [-1.0, math.nan, math.inf, "large", [], [[1.0]], [1.0, -1.0]])
def test_totals_that_make_no_sense(total):
    with pytest.raises(InvalidConfiguration, match="total"):
        replayed_vms(total, [])


def test_as_many_totals_as_resources():
    with pytest.raises(
        InvalidConfiguration, match=r"total: got \(4\.0, 8\.0\), expected a number for each of \('cores',\)"
    ):
        replay((4, 8), [], 3)
