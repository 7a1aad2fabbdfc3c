"""Metrics of a multi-server cluster: answers worked out by hand, options, errors."""

from __future__ import annotations

import math

import polars as pl
import pytest

from desim import InvalidConfiguration, Result, simulate
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, MultiSlotCluster, RewardModel
from desim.problems.multiserver.metrics import METRICS, multiserver_metrics, reward_ratio, running_average_reward

JOBS = ("submission_time", "starting_time", "finish_time", "gain", "overhead", "reward", "status")
SLOTS = ("slot", "gain", "overhead", "reward", "allocated_CPU", "reserved_CPU", "allocated_GPU", "reserved_GPU")


def job_table(rows):
    """Make a job table of (submission, start, finish, gain, overhead, status)."""
    full = [(*row[:5], row[3] - row[4], row[5]) for row in rows]
    return pl.DataFrame(full, schema=dict.fromkeys(JOBS[:-1], pl.Float64) | {"status": pl.String}, orient="row")


def slot_table(rows):
    """Make the slots from (gain, overhead, allocated CPU, reserved CPU, allocated GPU, reserved GPU)."""
    full = [(number, row[0], row[1], row[0] - row[1], *row[2:]) for number, row in enumerate(rows)]
    return pl.DataFrame(full, schema={"slot": pl.Int64} | dict.fromkeys(SLOTS[1:], pl.Float64), orient="row")


@pytest.fixture
def slotted():
    """Three slots: two jobs served, one not, nothing."""
    jobs = job_table(
        [
            (0.0, 0.0, 1.0, 5.0, 2.0, "completed"),
            (0.0, 0.0, 1.0, 1.0, 2.0, "completed"),
            (0.5, None, None, 0.0, 0.0, "unserved"),
        ]
    )
    slots = slot_table([(6.0, 4.0, 6.0, 8.0, 1.0, 1.0), (0.0, 0.0, 0.0, 4.0, 0.0, 0.0), (0.0,) * 6])
    return jobs, slots, {"capacity": {"CPU": 8.0, "GPU": 2.0}, "holding": False, "end_time": 3.0}


@pytest.fixture
def holding():
    """Until 6.5: two jobs have ended, one is running, one waits."""
    jobs = job_table(
        [
            (0.0, 0.0, 2.5, 5.0, 1.0, "completed"),
            (0.0, 1.0, 3.0, 3.0, 1.0, "completed"),
            (2.0, 5.0, None, 2.0, 1.0, "running"),
            (4.0, None, None, 0.0, 0.0, "queued"),
        ]
    )
    slots = slot_table([(5.0, 1.0, 4.0, 4.0, 0.0, 0.0)] * 7)
    return jobs, slots, {"capacity": {"CPU": 8.0, "GPU": 0.0}, "holding": True, "end_time": 6.5}


def measured(case, **options):
    """Return the metrics of a case."""
    jobs, slots, description = case
    return multiserver_metrics(jobs, slots, **description, **options)


def check(values, **expected):
    """Compare the metrics that a test is about."""
    assert {name: values[name] for name in expected} == pytest.approx(expected, nan_ok=True)


def test_jobs_that_last_one_slot(slotted):
    assert measured(slotted) == pytest.approx(
        {
            "num_slots": 3,
            "jobs_submitted": 3,
            "jobs_started": 2,
            "jobs_completed": 2,
            "jobs_unserved": 1,
            "jobs_running": 0,
            "jobs_queued": 0,
            "total_reward": 2,
            "average_reward": 2 / 3,
            "average_gain": 2,
            "average_overhead": 4 / 3,
            "reward_per_job": 2 / 3,
            "utilization_CPU": 6 / 24,
            "utilization_GPU": 1 / 6,
            "utilization": (1 / 4 + 1 / 6) / 2,
            "reserved_CPU": 12 / 24,
            "reserved_GPU": 1 / 6,
        }
    )


def test_jobs_that_hold_their_resources(holding):
    values = measured(holding)
    check(
        values,
        num_slots=7,
        jobs_submitted=4,
        jobs_started=3,
        jobs_completed=2,
        jobs_unserved=0,
        jobs_running=1,
        jobs_queued=1,
        total_reward=4 * 2.5 + 2 * 2 + 1 * 1.5,
        average_reward=15.5 / 6.5,
        average_gain=(5 * 2.5 + 3 * 2 + 2 * 1.5) / 6.5,
        average_overhead=(2.5 + 2 + 1.5) / 6.5,
        reward_per_job=15.5 / 3,
        utilization_CPU=0.5,
        utilization_GPU=math.nan,
        utilization=0.5,
        reserved_GPU=math.nan,
        waiting_time_mean=4 / 3,
        waiting_time_median=1,
        waiting_time_p95=2.8,
        execution_time_mean=2.25,
        execution_time_p95=2.475,
        turnaround_time_mean=2.75,
        turnaround_time_median=2.75,
        throughput=2 / 6.5,
        speed_mean=7 / 3,
        queue_length_mean=(1 + 3 + 2.5) / 6.5,
    )


def test_slots_before_the_end_of_the_warm_up_do_not_count(slotted, holding):
    check(
        measured(slotted, warm_up_slots=1),
        num_slots=2,
        jobs_submitted=0,  # the job of slot 1 was submitted in slot 0
        total_reward=0,
        average_gain=0,
        reserved_CPU=4 / 16,
        reward_per_job=math.nan,
    )
    check(
        measured(holding, warm_up_slots=2),
        num_slots=5,
        jobs_submitted=2,
        total_reward=4 * 0.5 + 2 * 1 + 1 * 1.5,
        average_reward=5.5 / 4.5,
        reward_per_job=1.5,
        waiting_time_mean=3,
        turnaround_time_mean=math.nan,
        speed_mean=1,
        throughput=2 / 4.5,
        queue_length_mean=(3 + 2.5) / 4.5,
    )


def test_nothing_can_be_said_of_no_slots(slotted, holding):
    nothing = {"num_slots", "total_reward", "jobs_submitted", "jobs_started", "jobs_completed", "jobs_unserved"}
    nothing |= {"jobs_running", "jobs_queued"}
    values = measured(slotted, warm_up_slots=3)
    assert {name for name, value in values.items() if not math.isnan(value)} == nothing
    assert {values[name] for name in nothing} == {0.0}
    values = measured(holding, warm_up_slots=7)
    assert {name for name, value in values.items() if not math.isnan(value)} == nothing
    jobs, slots, description = slotted
    empty = multiserver_metrics(jobs.clear(), slots.clear(), **description | {"end_time": 0.0})
    assert {name for name, value in empty.items() if not math.isnan(value)} == nothing


def test_names_come_in_the_order_of_their_meanings(slotted, holding):
    names = METRICS.names_for(["CPU", "GPU"])
    assert list(measured(holding)) == names
    assert list(measured(slotted)) == [name for name in names if "(with holding)" not in METRICS[name].meaning]


@pytest.mark.parametrize("warm_up", [-1, 4, 1.5, math.nan])
def test_a_warm_up_out_of_range_is_refused(slotted, warm_up):
    with pytest.raises(InvalidConfiguration, match=r"warm_up_slots: got .*, expected an integer from 0 to 3"):
        measured(slotted, warm_up_slots=warm_up)


def test_tables_without_a_column_are_refused(slotted):
    jobs, slots, description = slotted
    with pytest.raises(InvalidConfiguration, match="the table jobs lacks the columns finish_time, status"):
        multiserver_metrics(jobs.drop("status", "finish_time"), slots, **description)
    with pytest.raises(InvalidConfiguration, match="the table slots lacks the columns reserved_GPU"):
        multiserver_metrics(jobs, slots.drop("reserved_GPU"), **description)


class Share:
    """Give every job the same part of what it requests."""

    def __init__(self, part):
        self.part = part

    def act(self, observation):
        """Choose an allocation."""
        return (
            self.part * observation.graph.channel_requests * observation.arrived[observation.graph.channel_port, None]
        )


def tiny_run(part, holding=False, **options):
    """Simulate jobs on one node: two types, linear utility with weight 2, overhead 1, so that a unit earns 1 net."""
    graph = BipartiteGraph([[4.0], [2.0]], [[8.0]], resources=["CPU"])
    rewards = RewardModel(graph, "linear", 2.0, 1.0)
    arrivals = [[1, 0], [1, 1], [0, 0], [0, 1]]
    problem = MultiSlotCluster(rewards, arrivals, work=3.0) if holding else MultiServerCluster(rewards, arrivals)
    return simulate(problem, Share(part), **options)


def test_the_running_average_of_the_reward():
    frame = running_average_reward(tiny_run(1.0))
    assert frame.columns == ["slot", "average_reward", "cumulative_reward"]
    assert frame["slot"].to_list() == [0, 1, 2, 3]
    assert frame["cumulative_reward"].to_list() == pytest.approx([4, 10, 10, 12])
    assert frame["average_reward"].to_list() == pytest.approx([4, 5, 10 / 3, 3])


def test_the_running_average_of_jobs_that_hold_grows_up_to_their_ends():
    # Speeds 4, 4 and 2 for 3 units of work: from 0 to 0.75, from 1 to 1.75 and to 2.5, from 3 to 4.5.
    result = tiny_run(1.0, holding=True, until=4.25)
    frame = running_average_reward(result)
    assert frame["slot"].to_list() == [0, 1, 2, 3, 4]
    assert frame["cumulative_reward"].to_list() == pytest.approx([3, 8, 9, 11, 11.5])
    assert frame["average_reward"].to_list() == pytest.approx([3, 4, 3, 2.75, 11.5 / 4.25])
    assert result.metrics()["average_reward"] == pytest.approx(11.5 / 4.25)


def test_rewards_are_compared_with_those_of_a_baseline():
    runs = {"all": tiny_run(1.0), "half": tiny_run(0.5), "none": tiny_run(0.0)}
    assert reward_ratio(runs, "half") == pytest.approx({"all": 2.0, "half": 1.0, "none": 0.0})
    ratios = reward_ratio(runs, "none")
    assert list(ratios) == ["all", "half", "none"]
    assert all(math.isnan(ratio) for ratio in ratios.values())
    assert all(math.isnan(ratio) for ratio in reward_ratio(runs, "half", warm_up_slots=4).values())
    with pytest.raises(InvalidConfiguration, match="baseline: got 'drf', expected one of all, half, none"):
        reward_ratio(runs, "drf")


def test_a_run_of_another_problem_is_refused():
    other = Result({}, {"problem": "batch"})
    with pytest.raises(InvalidConfiguration, match="result: got problem 'batch', expected 'multiserver'"):
        running_average_reward(other)
    with pytest.raises(InvalidConfiguration, match="result: got problem 'batch'"):
        reward_ratio({"easy": other}, "easy")


@pytest.mark.parametrize("holding", [False, True])
def test_the_result_hands_its_tables_and_options_on(holding, tmp_path):
    result = tiny_run(0.75, holding=holding)
    direct = multiserver_metrics(
        result.jobs,
        result.table("slots"),
        capacity={"CPU": 8.0},
        holding=holding,
        end_time=result.info["end_time"],
        warm_up_slots=1,
    )
    assert result.metrics(warm_up_slots=1) == pytest.approx(direct, rel=1e-12, nan_ok=True)
    stored = Result.load(result.save(tmp_path / "run"))
    assert stored.metrics() == pytest.approx(result.metrics(), rel=1e-12, nan_ok=True)
    assert running_average_reward(stored).equals(running_average_reward(result))


def test_only_the_needed_columns_are_read():
    result = tiny_run(0.75, holding=True)
    tables = {
        "jobs": result.scan("jobs").select(JOBS),
        "slots": result.scan("slots").drop("arrived", "queued", "running"),
    }
    assert Result(tables, result.info).metrics() == pytest.approx(result.metrics(), rel=1e-12, nan_ok=True)
