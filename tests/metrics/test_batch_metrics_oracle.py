"""Metrics of random runs with outages against loops over events, written without arrays."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.problems.batch.metrics import batch_metrics


def cuts_of(result):
    """List (cut, seconds kept of it) of the executions after which their jobs did not end."""
    interval, found = result.info.get("checkpoint_interval"), []
    by_job = defaultdict(list)
    for cut in result.table("interruptions").iter_rows(named=True):
        by_job[cut["job_id"]].append(cut)
    for cuts in by_job.values():
        lost = cuts[-1]["outcome"] == "lost"
        parts = []
        for cut in cuts:
            parts.append((cut, cut["finish_time"] - cut["starting_time"]))
            if cut["outcome"] == "suspended":
                continue
            saved = 0.0
            while interval is not None and saved + interval <= sum(length for _, length in parts):
                saved += interval
            for one, length in parts:
                found.append((one, 0.0 if lost else min(length, saved)))
                saved -= min(length, saved)
            parts = []
        found += [(one, 0.0 if lost else length) for one, length in parts]
    return [(cut, kept) for cut, kept in found if cut["outcome"] != "lost"]


def executions_of(result):
    """List (job row, start, end, from when on it was for nothing) of all executions."""
    end_time = result.info["end_time"]
    rows = {row["job_id"]: row for row in result.jobs.iter_rows(named=True)}
    runs = [
        (
            row,
            row["starting_time"],
            end_time if row["finish_time"] is None else row["finish_time"],
            row["starting_time"] if row["status"] == "lost" else math.inf,
        )
        for row in rows.values()
        if row["starting_time"] is not None
    ]
    for cut, kept in cuts_of(result):
        runs.append((rows[cut["job_id"]], cut["starting_time"], cut["finish_time"], cut["starting_time"] + kept))
    return runs


def ran_before(result, job_id):
    """Add up how long a job ran before its last start, and how much of that was kept."""
    mine = [
        (cut["finish_time"] - cut["starting_time"], kept) for cut, kept in cuts_of(result) if cut["job_id"] == job_id
    ]
    return sum(length for length, _ in mine), sum(kept for _, kept in mine)


def suspensions_of(result):
    """List (job id, when suspended, when resumed) of all suspensions; those that last are infinite."""
    final = {row["job_id"]: row["starting_time"] for row in result.jobs.iter_rows(named=True)}
    cuts, found = list(result.table("interruptions").iter_rows(named=True)), []
    for place, cut in enumerate(cuts):
        if cut["outcome"] == "suspended":
            later = [other["starting_time"] for other in cuts[place + 1 :] if other["job_id"] == cut["job_id"]]
            resumed = [*later, final[cut["job_id"]], math.inf]
            found.append((cut["job_id"], cut["finish_time"], next(time for time in resumed if time is not None)))
    return found


def over_time(result, begin, end):
    """Walk from event to event and add everything up: the time averages, naively."""
    runs, outages = executions_of(result), list(result.table("outages").iter_rows(named=True))
    jobs = [row for row in result.jobs.iter_rows(named=True) if row["status"] != "rejected"]
    moments = {begin, end} | {row["submission_time"] for row in jobs} | {outage["time"] for outage in outages}
    moments |= {time for _, *times in runs for time in times}
    moments = sorted(time for time in moments if begin <= time <= end)
    sums, longest = defaultdict(float), math.nan
    for now, following in itertools.pairwise(moments):
        at_work = [(row, now >= wasted) for row, start, stop, wasted in runs if start <= now < stop]
        working = {row["job_id"] for row, _ in at_work}
        to_start = {row["job_id"] for row, start, _, _ in runs if start > now}
        to_start |= {row["job_id"] for row in jobs if row["status"] == "queued"}
        to_start -= {job_id for job_id, suspended, resumed in suspensions_of(result) if suspended <= now < resumed}
        queue = [row for row in jobs if row["submission_time"] <= now and row["job_id"] in to_start - working]
        longest = max(len(queue), 0 if math.isnan(longest) else longest)
        up = [outage["cores_up"] for outage in outages if outage["time"] <= now]
        span = following - now
        sums["busy"] += span * sum(row["requested_number_of_resources"] for row, _ in at_work)
        sums["wasted"] += span * sum(row["requested_number_of_resources"] for row, wasted in at_work if wasted)
        killed = [row for row, wasted in at_work if row["status"] == "killed" and not wasted]
        sums["killed"] += span * sum(row["requested_number_of_resources"] for row in killed)
        sums["up"] += span * (up[-1] if up else result.info["num_cores"])
        sums["queue"] += span * len(queue)
        sums["load"] += span * sum(row["requested_number_of_resources"] * row["requested_time"] for row in queue)
    return sums, longest


def samples(result, begin, end, include):
    """Collect waiting times, turnaround times and slowdowns job by job."""
    end_time, waiting, turnaround, slowdown, bounded, by_user = (
        result.info["end_time"],
        [],
        [],
        [],
        [],
        defaultdict(list),
    )
    for row in result.jobs.iter_rows(named=True):
        inside = begin <= row["submission_time"] and (row["submission_time"] < end or end == end_time)
        if not inside or row["status"] == "rejected":
            continue
        so_far, (ran, kept) = end_time - row["submission_time"], ran_before(result, row["job_id"])
        if row["starting_time"] is not None:
            waiting.append(row["starting_time"] - row["submission_time"] - ran)
        elif include:
            waiting.append(so_far - ran)
        if row["status"] in ("completed", "killed"):
            whole = row["finish_time"] - row["submission_time"]
            length = row["execution_time"] + kept
        elif include and row["status"] in ("running", "queued"):
            whole, length = so_far, row["run_time"]
        else:
            continue
        turnaround.append(whole)
        if length > 0:
            slowdown.append(max(1.0, whole / length))
        bounded.append(max(1.0, whole / max(length, 10.0)))
        if row["user_id"] >= 0:
            by_user[row["user_id"]].append(bounded[-1])
    return waiting, turnaround, slowdown, bounded, [statistics.fmean(values) for values in by_user.values()]


def percentile(values, percent):
    """Interpolate between the two neighbours in the sorted sample."""
    values = sorted(values)
    place = (len(values) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def expected(result, begin, end, include):
    """Compute the metrics that the loops above give."""
    sums, longest = over_time(result, begin, end)
    waiting, turnaround, slowdown, bounded, users = samples(result, begin, end, include)
    length = end - begin
    values = {
        "busy_core_seconds": sums["busy"],
        "wasted_core_seconds": sums["wasted"],
        "killed_core_seconds": sums["killed"],
        "available_core_seconds": sums["up"],
        "utilization": sums["busy"] / sums["up"] if sums["up"] else math.nan,
        "queue_length_mean": sums["queue"] / length if length else math.nan,
        "queue_length_max": longest,
        "queued_load_mean": sums["load"] / length if length else math.nan,
        "users": len(users),
    }
    for name, sample in (
        ("waiting_time", waiting),
        ("turnaround_time", turnaround),
        ("slowdown", slowdown),
        ("bounded_slowdown", bounded),
    ):
        values[f"{name}_mean"] = statistics.fmean(sample) if sample else math.nan
        values[f"{name}_median"] = statistics.median(sample) if sample else math.nan
        values[f"{name}_p95"] = percentile(sample, 95) if sample else math.nan
        values[f"{name}_p99"] = percentile(sample, 99) if sample else math.nan
        values[f"{name}_max"] = max(sample, default=math.nan)
    if users:
        values["fairness_jain"] = sum(users) ** 2 / (len(users) * sum(value**2 for value in users))
        values["fairness_max_over_mean"] = max(users) / statistics.fmean(users)
    return values


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    include=st.booleans(),
    edges=st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted),
    whole=st.booleans(),
    preempts=st.booleans(),
    interval=st.sampled_from([None, 1.0, 3.0, 100.0]),
)
def test_metrics_agree_with_loops_over_events(random_run, seed, include, edges, whole, preempts, interval):
    result = random_run(seed, preempts=preempts, interval=interval)
    end_time = result.info["end_time"]
    begin, end = (result.jobs["submission_time"].min(), end_time) if whole else (float(edges[0]), float(edges[1]))
    options = {} if whole else {"window": (begin, end)}
    values = batch_metrics(
        result.jobs,
        num_cores=8,
        end_time=end_time,
        outages=result.table("outages"),
        interruptions=result.table("interruptions"),
        unfinished="include" if include else "exclude",
        **options,
    )
    wanted = expected(result, begin, end, include)
    assert {name: values[name] for name in wanted} == pytest.approx(wanted, rel=1e-9, abs=1e-9, nan_ok=True)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_what_counts_adds_up(random_run, seed):
    result = random_run(seed)
    values, lower = result.metrics(), result.metrics(unfinished="include")
    fates = ("completed", "killed", "lost", "running", "queued", "rejected")
    assert sum(values[f"jobs_{fate}"] for fate in fates) == values["jobs_submitted"] == len(result.jobs)
    assert values["jobs_finished"] == values["jobs_completed"] + values["jobs_killed"]
    assert values["jobs_started"] == values["jobs_finished"] + values["jobs_lost"] + values["jobs_running"]
    assert values["interruptions"] == len(result.table("interruptions"))
    assert 0 <= values["utilization"] <= 1
    assert 1 / max(values["users"], 1) - 1e-12 <= values["fairness_jain"] <= 1 + 1e-12
    changed = {name for name in values if not (values[name] == lower[name] or math.isnan(values[name]))}
    job_statistics = ("waiting_time", "turnaround_time", "slowdown", "bounded_slowdown", "fairness", "users")
    assert all(name.startswith(job_statistics) for name in changed)
    assert lower["waiting_time_max"] >= values["waiting_time_max"]


def test_preemptions_are_counted(random_run):
    result = random_run(1, preempts=True)
    values, outcomes = result.metrics(), result.table("interruptions")["outcome"].to_list()
    assert values["preemptions"] == outcomes.count("preempted") + outcomes.count("suspended") > 3
    assert values["interruptions"] == outcomes.count("requeued") + outcomes.count("lost") > 0


def test_the_random_runs_show_every_fate(random_run):
    results = [random_run(seed) for seed in range(20)]
    fates = {status for result in results for status in result.jobs["status"].to_list()}
    assert fates == {"completed", "killed", "lost", "running", "queued", "rejected"}
    outcomes = {outcome for result in results for outcome in result.table("interruptions")["outcome"].to_list()}
    assert outcomes == {"requeued", "lost"}
    results = [random_run(seed, preempts=True) for seed in range(6)]
    outcomes = {outcome for result in results for outcome in result.table("interruptions")["outcome"].to_list()}
    assert outcomes == {"requeued", "lost", "preempted", "suspended"}
    assert max(result.jobs["attempts"].max() for result in results) > 2


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), interval=st.sampled_from([None, 1.0, 3.0]), preempts=st.booleans())
def test_what_is_kept_is_all_work_of_a_job_and_none_of_it_twice(random_run, seed, interval, preempts):
    result = random_run(seed, preempts=preempts, interval=interval)
    for row in result.jobs.filter(result.jobs["status"] == "completed").iter_rows(named=True):
        mine = [execution for execution in executions_of(result) if execution[0]["job_id"] == row["job_id"]]
        useful = sum(min(stop, wasted) - start for _, start, stop, wasted in mine)
        assert useful == pytest.approx(row["run_time"])
