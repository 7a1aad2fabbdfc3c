"""Metrics of random deferrable runs against loops over rows, written without arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_numbers import mean, quantile, ratio

from desim import simulate
from desim.problems.deferrable import DeferrableCluster, Job

RESOURCES = ("cores", "memory")


class AtRandom:
    """Start some of the jobs, in any order; fail in some slot."""

    def __init__(self, seed, last=None):
        self.rng, self.last = np.random.default_rng(seed), last

    def act(self, observation):
        """Choose jobs."""
        if observation.slot == self.last:
            raise ValueError("enough")
        count = len(observation.current)
        return self.rng.permutation(count)[self.rng.random(count) < 0.6]


def random_run(seed, until=math.inf, last=None, **options):
    """Simulate random jobs with two requests, of which some share a name."""
    rng = np.random.default_rng(seed)
    jobs = []
    for number, time in enumerate(np.sort(rng.integers(0, 40, 40) / 2).tolist()):
        earliest = math.ceil(time) + int(rng.integers(0, 3))
        latest, duration = earliest + int(rng.integers(0, 4)), int(rng.integers(1, 6))
        before = [job for job in jobs if job.latest_start + job.duration < time]
        taken = {job.job_id for job in jobs if job not in before}
        names = [job.job_id for job in before if job.job_id not in taken]
        name = int(rng.choice(names)) if names and rng.random() < 0.5 else number
        jobs.append(Job(name, time, earliest, latest, duration, float(rng.integers(1, 6)), (rng.random() * 4,)))
    capacity = rng.uniform(0.0, 18.0, (30, 2))
    cluster = DeferrableCluster(
        jobs, capacity, resources=RESOURCES, delay_weight=1.5, violation_weight=(7.0, 3.0), **options
    )
    try:
        return simulate(cluster, AtRandom(seed, last), until=until)
    except ValueError as error:
        return error.result


def evicted_job(rows, eviction):
    """Return the job that was evicted: the last of its name that was submitted before it started."""
    same = [row for row in rows if row["job_id"] == eviction["job_id"]]
    return max(
        (row for row in same if row["submission_time"] <= eviction["starting_time"]),
        key=lambda row: row["submission_time"],
    )


def by_loops(result):
    """Compute all metrics row by row."""
    rows, slots, evictions = (list(result.table(name).iter_rows(named=True)) for name in ("jobs", "slots", "evictions"))
    stood = [row for row in rows if row["status"] in ("completed", "running")]
    delays = [row["starting_time"] - row["earliest_start"] for row in stood]
    work = {id(row): row["requested_cores"] * row["requested_time"] for row in rows}
    brought = sum(work[id(row)] for row in stood)
    violation = {
        name: sum(max(0.0, slot[f"used_{name}"] - slot[f"capacity_{name}"]) for slot in slots) for name in RESOURCES
    }
    statuses = ("completed", "running", "expired", "evicted", "queued")
    counts = {f"jobs_{status}": sum(row["status"] == status for row in rows) for status in statuses}
    over = [any(slot[f"used_{name}"] > slot[f"capacity_{name}"] for name in RESOURCES) for slot in slots]
    shares = {
        name: ratio(
            sum(min(slot[f"used_{name}"], slot[f"capacity_{name}"]) for slot in slots),
            sum(slot[f"capacity_{name}"] for slot in slots),
        )
        for name in RESOURCES
    }
    return {
        **counts,
        "revenue": brought,
        "time_delay": -1.5 * sum(delays),
        "violation_penalty": -7.0 * violation["cores"] - 3.0 * violation["memory"],
        "total_reward": sum(slot["reward"] for slot in slots),
        "average_reward": mean([slot["reward"] for slot in slots]),
        "violation": sum(violation.values()),
        **{f"violation_{name}": amount for name, amount in violation.items()},
        "violation_slots": mean([float(each) for each in over]),
        **{f"utilization_{name}": share for name, share in shares.items()},
        "utilization": mean([share for share in shares.values() if not math.isnan(share)]),
        "num_slots": len(slots),
        "jobs_submitted": len(rows),
        "jobs_started": len(stood),
        "acceptance": ratio(len(stood), len(rows)),
        "acceptance_by_work": ratio(brought, sum(work.values())),
        "expiry_rate": ratio(counts["jobs_expired"], len(rows)),
        "evictions": len(evictions),
        "lost_work": sum(
            evicted_job(rows, each)["requested_cores"] * (each["eviction_time"] - each["starting_time"])
            for each in evictions
        ),
        "delay_mean": mean(delays),
        "delay_median": quantile(delays, 0.5),
        "delay_p95": quantile(delays, 0.95),
        "current_work_mean": mean([slot["current_work"] for slot in slots]),
        "future_work_mean": mean([slot["future_work"] for slot in slots]),
        "known_work_mean": mean([slot["current_work"] + slot["future_work"] for slot in slots]),
    }


options = {
    "seed": st.integers(0, 10_000),
    "until": st.sampled_from([math.inf, 9.0, 7.5]),
    "num_slots": st.sampled_from([None, 12]),
    "eviction": st.sampled_from(["never", "lost", "restarted"]),
    "real_time": st.booleans(),
}


@settings(max_examples=80, deadline=None)
@given(last=st.sampled_from([None, None, 0, 6]), **options)
def test_all_metrics_agree_with_loops(seed, **chosen):
    result = random_run(seed, **chosen)
    assert result.metrics() == pytest.approx(by_loops(result), nan_ok=True)


@settings(max_examples=60, deadline=None)
@given(**options)
def test_what_holds_of_all_metrics(seed, **chosen):
    values = random_run(seed, **chosen).metrics()
    parts = values["revenue"] + values["time_delay"] + values["violation_penalty"]
    assert values["total_reward"] == pytest.approx(parts)
    groups = ("started", "expired", "evicted", "queued")
    assert values["jobs_submitted"] == sum(values[f"jobs_{name}"] for name in groups)
    assert values["jobs_started"] == values["jobs_completed"] + values["jobs_running"]
    assert values["jobs_evicted"] <= values["evictions"]
    assert (values["lost_work"] > 0) == (values["evictions"] > 0)
    if not math.isnan(values["acceptance"]):
        assert 0 <= values["acceptance"] + values["expiry_rate"] <= 1
    if chosen["real_time"]:
        assert values["time_delay"] == values["future_work_mean"] == 0


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_without_violations_work_that_ran_within_the_run_is_the_share_of_the_capacity(seed):
    """What is used in all slots is cores times duration, less what runs past the end."""
    result = random_run(seed, num_slots=12, eviction="lost")
    past = sum(
        (row["starting_time"] + row["requested_time"] - 12) * row["requested_cores"]
        for row in result.jobs.iter_rows(named=True)
        if row["status"] == "running"
    )
    values = result.metrics()
    within = values["utilization_cores"] * result.table("slots")["capacity_cores"].sum()
    used = within + values["violation_cores"]
    assert used == pytest.approx(values["revenue"] - past + values["lost_work"])
