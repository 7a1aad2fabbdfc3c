"""Decision times are measured beside the records, which they leave as they are."""

from __future__ import annotations

import time
from itertools import count

import numpy as np
import polars as pl
import polars.testing
import pytest

from desim import InvalidConfiguration, Simulation, simulate
from desim.agents.dag import FIFO, HEFT, ListScheduler, RandomOrder
from desim.decision_times import DecisionTimes
from desim.problems.dag import DagCluster, Executors, Job

JOBS = [
    Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc"),
    Job(2, [3.0, 3.0], [(0, 1, 1.0)], submission_time=1.0),
]


def cluster(**options):
    """Return two jobs on two executors."""
    return DagCluster(JOBS, Executors([1.0, 2.0], 10.0), **options)


class Slow:
    """Take a given time for each decision; the order of times is that of the decisions."""

    def __init__(self, pauses):
        self.pauses = iter(pauses)
        self.inner = ListScheduler(FIFO())

    def act(self, observation):
        time.sleep(next(self.pauses))
        return self.inner.act(observation)


def test_each_decision_has_its_time():
    pauses = [0.02, 0.0, 0.01, 0.0, 0.0]
    timed = DecisionTimes(Slow(pauses))
    result = simulate(cluster(), timed)
    assert result.info["agent"] == timed.name == "Slow"
    assert len(timed.seconds) == 5
    assert (timed.seconds >= pauses).all()
    assert repr(timed) == "<DecisionTimes of Slow: 5 decisions>"


def test_another_clock_counts_what_it_counts():
    ticks = count(0, 250_000)
    timed = DecisionTimes(ListScheduler(FIFO()), lambda: next(ticks))
    simulate(cluster(), timed)
    assert timed.seconds.tolist() == [0.00025] * len(timed.seconds)
    sleeping = DecisionTimes(Slow([0.05] * 5), time.process_time_ns)
    simulate(cluster(), sleeping)
    assert sleeping.seconds.max() < 0.05  # who sleeps takes no time of the processor


@pytest.mark.parametrize("make", [HEFT, lambda: ListScheduler(RandomOrder())])
def test_records_are_the_same_with_and_without(make):
    plain = simulate(cluster(plan_ahead=True), make(), seed=3)
    timed = simulate(cluster(plan_ahead=True), DecisionTimes(make()), seed=3)
    assert timed.info == plain.info
    for name in plain.table_names:
        pl.testing.assert_frame_equal(timed.table(name), plain.table(name))


def test_a_new_run_begins_with_no_times_and_resets_the_agent():
    class Counting(ListScheduler):
        resets = 0

        def reset(self, info, rng):
            self.resets += 1
            super().reset(info, rng)

    timed = DecisionTimes(Counting(FIFO()))
    simulate(cluster(), timed)
    first = timed.seconds
    simulate(DagCluster(JOBS[:1], Executors([1.0])), timed)
    assert (len(first), len(timed.seconds)) == (5, 3)
    assert timed.agent.resets == 2


def test_an_error_of_reset_reaches_the_caller():
    with pytest.raises(InvalidConfiguration, match="plan_ahead=False"):
        simulate(cluster(plan_ahead=False), DecisionTimes(HEFT()))


def test_a_decision_that_raises_is_not_counted():
    class Giving:
        def act(self, observation):
            raise ValueError("enough")

    timed = DecisionTimes(Giving())
    with pytest.raises(ValueError, match="enough"):
        simulate(cluster(), timed)
    assert len(timed.seconds) == 0


def test_percentiles_and_distribution():
    timed = DecisionTimes(ListScheduler(FIFO()))
    simulation = Simulation(cluster())
    while (decision := simulation.advance()) is not None:
        decision.answer(timed.act(decision.observation))
    times = np.sort(timed.seconds)
    assert timed.percentiles() == {level: pytest.approx(np.percentile(times, level)) for level in (50, 90, 98, 99)}
    assert timed.percentiles((0, 100)) == {0: times[0], 100: times[-1]}
    seconds, fraction = timed.cdf()
    assert seconds.tolist() == times.tolist()
    assert fraction.tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_nothing_decided_yet():
    timed = DecisionTimes(HEFT())
    assert all(np.isnan(value) for value in timed.percentiles().values())
    assert [len(part) for part in timed.cdf()] == [0, 0]
    with pytest.raises(InvalidConfiguration, match="101"):
        timed.percentiles((50, 101))
