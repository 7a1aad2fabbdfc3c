"""Metrics of a cluster for deferrable jobs: answers worked out by hand, errors, and what is read."""

from __future__ import annotations

import math

import polars as pl
import pytest

from desim import InvalidConfiguration, Result, simulate
from desim.problems.deferrable import DeferrableCluster, Job
from desim.problems.deferrable.metrics import METRICS, deferrable_metrics

JOBS = {
    "arrival_number": pl.Int64,
    "submission_time": pl.Float64,
    "requested_cores": pl.Float64,
    "delay": pl.Float64,
    "revenue": pl.Float64,
    "status": pl.String,
}
SLOTS = ("reward", "current_work", "future_work", "capacity_cores", "used_cores", "violation_cores")
EVICTIONS = dict.fromkeys(("arrival_number", "starting_time", "eviction_time"), pl.Int64)


def tables(jobs, slots, evictions=()):
    """Make the three tables."""
    return (
        pl.DataFrame(jobs, schema=JOBS, orient="row"),
        pl.DataFrame(slots, schema=dict.fromkeys(SLOTS, pl.Float64), orient="row"),
        pl.DataFrame(evictions, schema=EVICTIONS, orient="row"),
    )


@pytest.fixture
def plain():
    """Three slots: of six jobs three run, one was evicted, one expired, one pending."""
    return tables(
        [
            (1, 0.0, 4.0, 0.0, 12.0, "completed"),
            (2, 0.0, 2.0, 2.0, 2.0, "completed"),
            (3, 0.5, 3.0, 1.0, 9.0, "running"),
            (4, 1.0, 5.0, 0.0, 10.0, "evicted"),
            (5, 1.0, 1.0, None, 6.0, "expired"),
            (6, 1.5, 1.0, None, 1.0, "queued"),
        ],
        [(22.0, 14.0, 0.0, 8.0, 9.0, 1.0), (-12.0, 20.0, 2.0, 4.0, 4.0, 0.0), (-23.0, 5.0, 1.0, 0.0, 3.0, 3.0)],
        [(4, 1, 2), (4, 2, 4)],
    )


def test_all_metrics_of_one_resource(plain):
    values = deferrable_metrics(*plain, delay_weight=2.0, violation_weights=[10.0])
    assert values == pytest.approx(
        {
            "revenue": 23,
            "time_delay": -6,
            "violation_penalty": -40,
            "total_reward": -13,
            "average_reward": -13 / 3,
            "violation": 4,
            "violation_cores": 4,
            "violation_slots": 2 / 3,
            "utilization_cores": 12 / 12,
            "utilization": 12 / 12,
            "num_slots": 3,
            "jobs_submitted": 6,
            "jobs_started": 3,
            "jobs_completed": 2,
            "jobs_running": 1,
            "jobs_expired": 1,
            "jobs_evicted": 1,
            "jobs_queued": 1,
            "acceptance": 1 / 2,
            "acceptance_by_work": 23 / 40,
            "expiry_rate": 1 / 6,
            "evictions": 2,
            "lost_work": 5 * (1 + 2),
            "delay_mean": 1,
            "delay_median": 1,
            "delay_p95": 1.9,
            "current_work_mean": 13,
            "future_work_mean": 1,
            "known_work_mean": 14,
        }
    )
    assert list(values) == METRICS.names_for(["cores"])
    assert all(type(value) is float for value in values.values())


def test_each_resource_has_metrics_and_a_weight_of_its_own(plain):
    jobs, slots, evictions = plain
    slots = slots.with_columns(capacity_disk=pl.lit(0.0), used_disk=pl.lit(0.5), violation_disk=pl.lit(0.5))
    values = deferrable_metrics(jobs, slots, evictions, resources=["cores", "disk"], violation_weights=[10, 2])
    assert values["violation_penalty"] == -43
    assert values["violation"] == 5.5
    assert (values["violation_cores"], values["violation_disk"]) == (4, 1.5)
    assert values["violation_slots"] == 1
    assert values["utilization_cores"] == values["utilization"] == 1
    assert math.isnan(values["utilization_disk"])
    assert list(values) == METRICS.names_for(["cores", "disk"])


def test_an_eviction_is_of_the_job_of_its_number():
    held = [(number, 0.0, cores, None, 1.0, "evicted") for number, cores in ((7, 2.0), (8, 3.0), (9, 5.0))]
    evictions = [(9, 10, 12), (7, 0, 3), (8, 9, 10), (8, 4, 5)]
    values = deferrable_metrics(*tables(held, [], evictions))
    assert values["lost_work"] == 2 * 3 + 3 * 1 + 3 * 1 + 5 * 2
    assert values["evictions"] == 4
    assert math.isnan(deferrable_metrics(*tables(held[2:], [], evictions))["lost_work"])


def test_nothing_can_be_said_of_an_empty_run():
    values = deferrable_metrics(*tables([], []))
    nothing = {
        "average_reward",
        "violation_slots",
        "utilization_cores",
        "utilization",
        "acceptance",
        "acceptance_by_work",
    }
    nothing |= {"expiry_rate", "delay_mean", "delay_median", "delay_p95"}
    nothing |= {"current_work_mean", "future_work_mean", "known_work_mean"}
    assert {name for name, value in values.items() if math.isnan(value)} == nothing
    rest = {name: str(value) for name, value in values.items() if name not in nothing}
    assert set(rest.values()) == {"0.0"}  # and not -0.0


def test_tables_without_a_column_are_refused(plain):
    jobs, slots, evictions = plain
    with pytest.raises(InvalidConfiguration, match="the table jobs lacks the columns delay, status"):
        deferrable_metrics(jobs.drop("status", "delay"), slots, evictions)
    with pytest.raises(InvalidConfiguration, match="the table evictions lacks the columns eviction_time"):
        deferrable_metrics(jobs, slots, evictions.drop("eviction_time"))


@pytest.mark.parametrize("name", ["penalty", "slots"])
def test_a_resource_with_the_name_of_a_metric_is_refused(plain, name):
    with pytest.raises(InvalidConfiguration, match=f"resources: got '{name}', but violation_{name} is another"):
        deferrable_metrics(*plain, resources=[name], violation_weights=[1.0])


def test_another_number_of_weights_than_of_resources_is_refused(plain):
    with pytest.raises(
        InvalidConfiguration, match=r"violation_weights: got \[1.0, 2.0\], expected one per resource of"
    ):
        deferrable_metrics(*plain, violation_weights=[1.0, 2.0])


class All:
    """Start all that can be started."""

    def act(self, observation):
        return range(len(observation.current))


class Reluctant:
    """Start all that can be started, in every third slot."""

    def act(self, observation):
        return range(len(observation.current)) if observation.slot % 3 == 2 else None


CLUSTER = {
    "jobs": [Job(1, 0, 0, 2, 3, 4.0), Job(2, 0.5, 1, 2, 2, 2.0), Job(3, 3, 3, 3, 1, 1.0), Job(4, 3, 5, 5, 4, 2.0)],
    "capacity": [9, 9, 5, 3, 6],
    "num_slots": 6,
}


def test_the_paper_s_four_numbers_of_a_run_by_hand():
    # Jobs 1 and 2 start in slot 2 with delays 2 and 1 (6 of 5 cores), run in slot 3 (6 of 3), job 1 in slot 4, too;
    # job 3 expires; job 4 starts in the last slot and runs past the end.
    values = simulate(DeferrableCluster(**CLUSTER), Reluctant()).metrics()
    assert values["revenue"] == 12 + 4 + 8
    assert values["time_delay"] == -2 * (2 + 1)
    assert values["violation_penalty"] == -10 * (1 + 3)
    assert values["total_reward"] == 24 - 6 - 40
    assert (values["jobs_completed"], values["jobs_running"], values["jobs_expired"]) == (2, 1, 1)
    assert values["utilization_cores"] == (5 + 3 + 4 + 2) / (9 + 9 + 5 + 3 + 6 + 6)
    assert values["known_work_mean"] == (12 + 16 + 16 + (1 + 8) + 8 + 8) / 6
    assert values["violation_slots"] == 2 / 6


def test_what_evicted_jobs_had_brought_is_taken_back():
    # In slot 3 both jobs are evicted, the second first, and their windows have passed; the first had run a slot.
    values = simulate(DeferrableCluster(**CLUSTER, eviction="restarted"), Reluctant()).metrics()
    assert values["evictions"] == values["jobs_evicted"] == 2
    assert values["lost_work"] == 4 + 2
    assert values["revenue"] == 8
    assert values["time_delay"] == 0
    assert values["violation_penalty"] == -10
    assert values["total_reward"] == -2
    assert values["acceptance"] == 1 / 4
    assert values["acceptance_by_work"] == 8 / 25


def test_the_result_hands_its_tables_on_and_takes_no_options(tmp_path):
    result = simulate(DeferrableCluster(**CLUSTER, eviction="lost", delay_weight=3, violation_weight=7), All())
    direct = deferrable_metrics(
        result.jobs, result.table("slots"), result.table("evictions"), delay_weight=3.0, violation_weights=[7.0]
    )
    assert result.metrics() == pytest.approx(direct, rel=1e-12, nan_ok=True)
    stored = Result.load(result.save(tmp_path / "run"))
    assert stored.metrics() == pytest.approx(direct, rel=1e-12, nan_ok=True)
    with pytest.raises(TypeError, match="warm_up"):
        result.metrics(warm_up=3)


def test_only_the_needed_columns_are_read():
    result = simulate(DeferrableCluster(**CLUSTER, eviction="lost"), All())
    kept = {"jobs": list(JOBS), "slots": SLOTS, "evictions": list(EVICTIONS)}
    lean = Result({name: result.scan(name).select(columns) for name, columns in kept.items()}, result.info)
    assert lean.metrics() == pytest.approx(result.metrics(), rel=1e-12, nan_ok=True)
    assert result.metrics()["evictions"] > 0


def test_a_run_without_an_end_can_be_measured(tmp_path):
    """What a run leaves behind that never came to its end has no end time."""
    result = simulate(DeferrableCluster(**CLUSTER), All())
    info = {key: value for key, value in result.info.items() if key not in ("end_time", "until", "agent")}
    broken = Result({name: result.scan(name) for name in result.table_names}, info | {"status": "running"})
    assert broken.metrics() == pytest.approx(result.metrics(), rel=1e-12, nan_ok=True)
