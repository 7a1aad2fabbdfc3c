"""Metrics of random multi-server runs against loops over rows, written without arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_numbers import mean, quantile

from desim import simulate
from desim.agents.multiserver import create
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, MultiSlotCluster, RewardModel
from desim.problems.multiserver.metrics import reward_ratio, running_average_reward

RESOURCES = ("CPU", "GPU")


def random_run(seed, holding, agent="drf", until=math.inf):
    """Simulate random jobs of three types on four nodes, of which one may have no GPU at all."""
    rng = np.random.default_rng(seed)
    capacity = rng.uniform(1.0, 6.0, (4, 2)) * [1.0, float(seed % 7 > 0)]
    graph = BipartiteGraph(rng.uniform(0.5, 4.0, (3, 2)), capacity, resources=RESOURCES)
    rewards = RewardModel(graph, rng.choice(["linear", "log", "poly"], (4, 2)), rng.uniform(1, 1.5, (4, 2)), 0.3)
    arrivals = rng.random((12, 3)) < 0.6
    if not holding:
        return simulate(MultiServerCluster(rewards, arrivals.astype(int)), create(agent), until=until)
    cluster = MultiSlotCluster(
        rewards, arrivals, work=lambda stream, port: float(stream.uniform(5.0, 30.0)), minimum_speed=0.5
    )
    return simulate(cluster, create(agent), seed=seed, until=until)


def time_within(begin, end, low, high):
    """Return how much of [begin, end) lies within [low, high)."""
    return max(0.0, min(end, high) - max(begin, low))


def by_loops(result, warm_up):
    """Compute all metrics row by row."""
    info, end_time, holding = result.info, result.info["end_time"], result.info["holding"]
    rows = list(result.jobs.iter_rows(named=True))
    slots = [row for row in result.table("slots").iter_rows(named=True) if row["slot"] >= warm_up]
    mine = [row for row in rows if row["submission_time"] >= warm_up]
    served = [row for row in mine if row["starting_time"] is not None]
    ended = [row for row in mine if row["status"] == "completed"]
    values = {
        "num_slots": len(slots),
        "jobs_submitted": len(mine),
        "jobs_started": len(served),
        **{f"jobs_{s}": sum(r["status"] == s for r in mine) for s in ("completed", "unserved", "running", "queued")},
    }
    length = max(end_time - warm_up, 0.0) if holding else len(slots)
    for name in ("gain", "overhead", "reward"):
        total = sum(row[name] for row in slots)
        if holding:
            total = sum(
                row[name] * time_within(row["starting_time"], row["finish_time"] or end_time, warm_up, end_time)
                for row in rows
                if row["starting_time"] is not None
            )
        values[f"average_{name}"] = total / length if length else math.nan
    values["total_reward"] = total
    values["reward_per_job"] = mean(
        [
            row["reward"] * ((row["finish_time"] or end_time) - row["starting_time"] if holding else 1.0)
            for row in mine
            if row["status"] != "queued"
        ]
    )
    parts = []
    for resource, capacity in zip(info["resources"], info["total_capacity"], strict=True):
        for name, kind in (("utilization", "allocated"), ("reserved", "reserved")):
            part = mean([row[f"{kind}_{resource}"] / capacity for row in slots]) if capacity else math.nan
            if holding and capacity:
                spans = [time_within(row["slot"], row["slot"] + 1, warm_up, end_time) for row in slots]
                amounts = zip(spans, (row[f"{kind}_{resource}"] for row in slots), strict=True)
                part = sum(span * amount for span, amount in amounts) / capacity / length if length else math.nan
            values[f"{name}_{resource}"] = part
        parts += [values[f"utilization_{resource}"]] if capacity else []
    values["utilization"] = mean(parts)
    if not holding:
        return values
    for name, sample in (("waiting_time", served), ("turnaround_time", ended), ("execution_time", ended)):
        times = [row[name] for row in sample]
        values |= {f"{name}_mean": mean(times), f"{name}_median": quantile(times, 0.5)}
        values[f"{name}_p95"] = quantile(times, 0.95)
    finished = sum(row["finish_time"] is not None and row["finish_time"] >= warm_up for row in rows)
    queued = sum(
        time_within(row["submission_time"], end_time if row["starting_time"] is None else row["starting_time"], *span)
        for row in rows
        for span in [(warm_up, end_time)]
    )
    values["speed_mean"] = mean([row["reward"] for row in served])
    values["throughput"] = finished / length if length else math.nan
    values["queue_length_mean"] = queued / length if length else math.nan
    return values


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    holding=st.booleans(),
    until=st.sampled_from([math.inf, 9.0, 7.5]),
    warm_up=st.integers(0, 7),
)
def test_all_metrics_agree_with_loops(seed, holding, until, warm_up):
    result = random_run(seed, holding, until=until)
    assert result.metrics(warm_up_slots=warm_up) == pytest.approx(by_loops(result, warm_up), nan_ok=True)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), holding=st.booleans(), until=st.sampled_from([math.inf, 9.0, 7.5]))
def test_the_running_average_agrees_with_loops_and_ends_at_the_metric(seed, holding, until):
    result = random_run(seed, holding, until=until)
    frame, end_time = running_average_reward(result), result.info["end_time"]
    rewards, jobs = result.table("slots")["reward"].to_list(), list(result.jobs.iter_rows(named=True))
    for slot, average, total in frame.iter_rows():
        until_then, expected = slot + 1, sum(rewards[: slot + 1])
        if holding:
            until_then = min(until_then, end_time)
            expected = sum(
                row["reward"] * time_within(row["starting_time"], row["finish_time"] or end_time, 0.0, until_then)
                for row in jobs
                if row["starting_time"] is not None
            )
        assert (average, total) == pytest.approx((expected / until_then, expected))
    values = result.metrics()
    assert frame.row(-1)[1:] == pytest.approx((values["average_reward"], values["total_reward"]))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), until=st.sampled_from([math.inf, 7.5]))
def test_what_holds_of_all_metrics(seed, until):
    for holding in (False, True):
        values = random_run(seed, holding, until=until).metrics()
        assert values["jobs_submitted"] == values["jobs_started"] + values["jobs_unserved"] + values["jobs_queued"]
        assert values["jobs_started"] == values["jobs_completed"] + values["jobs_running"]
        assert values["average_reward"] == pytest.approx(values["average_gain"] - values["average_overhead"])
        for resource in RESOURCES:
            if not math.isnan(values[f"utilization_{resource}"]):
                assert 0 <= values[f"utilization_{resource}"] <= values[f"reserved_{resource}"] + 1e-12 <= 1 + 1e-9
    # Little's law: the mean number of waiting jobs is what all have waited, over the length of the run.
    result = random_run(seed, True)
    values = result.metrics()
    if values["jobs_queued"] == 0:
        rate = values["jobs_submitted"] / result.info["end_time"]
        assert values["queue_length_mean"] == pytest.approx(rate * values["waiting_time_mean"])
        assert values["total_reward"] == pytest.approx(result.jobs["work"].sum())


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), holding=st.booleans())
def test_ratios_of_rewards_are_those_of_the_averages(seed, holding):
    runs = {agent: random_run(seed, holding, agent, until=9.0) for agent in ("drf", "fairness", "spreading")}
    averages = {name: run.metrics()["average_reward"] for name, run in runs.items()}
    expected = {name: average / averages["fairness"] for name, average in averages.items()}
    if averages["fairness"] > 0:
        assert reward_ratio(runs, "fairness") == pytest.approx(expected)
