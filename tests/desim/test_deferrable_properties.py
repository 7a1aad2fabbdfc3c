"""What holds in every run of a cluster for deferrable jobs, whatever the agent and the options."""

from __future__ import annotations

import math
from functools import cache
from random import Random

import polars as pl
import pytest
from deferrable_agents import Choice, FirstFit, Scripted, Showing, View, everything, fitting, random_choice
from deferrable_scenarios import Scenario, random_scenario
from polars.testing import assert_frame_equal

from desim import Result, simulate
from desim.problems.deferrable import DeferrableCluster, Job


def carry_out(scenario: Scenario, choose: Choice) -> Result:
    return simulate(scenario.cluster(), Showing(choose), until=scenario.until)


@cache
def random_run(seed: int) -> tuple[Scenario, Result]:
    scenario = random_scenario(Random(seed))
    return scenario, carry_out(scenario, random_choice(seed, must_fit=not scenario.overcommit))


def same_tables(first: Result, second: Result, *, but: tuple[str, ...] = ()) -> None:
    for name in ("jobs", "slots", "evictions"):
        left, right = first.table(name), second.table(name)
        assert_frame_equal(left.drop(but, strict=False), right.drop(but, strict=False), check_exact=True)


class TestReward:
    """What the weights change."""

    def test_the_weights_change_rewards_and_nothing_else(self) -> None:
        for seed in range(20):
            scenario, result = random_run(seed)
            other = scenario._replace(delay_weight=7.5, violation_weights=(1.25,) * len(scenario.resources))
            again = carry_out(other, random_choice(seed, must_fit=not scenario.overcommit))
            same_tables(result, again, but=("reward",))


class TestRealTime:
    """Runs without foresight and without slack."""

    def test_nothing_changes_for_jobs_that_have_neither(self) -> None:
        for seed in range(40):
            scenario = random_scenario(Random(seed), real_time=False, own=[])
            jobs = sorted(scenario.jobs, key=lambda job: job.earliest_start)
            jobs = [job._replace(submission_time=job.earliest_start, latest_start=job.earliest_start) for job in jobs]
            scenario = scenario._replace(jobs=jobs)
            choose = random_choice(seed, must_fit=not scenario.overcommit)
            same_tables(carry_out(scenario, choose), carry_out(scenario._replace(real_time=True), choose))

    def test_nothing_starts_at_another_time_without_slack_for_an_agent_that_does_not_look_ahead(self) -> None:
        noticed = 0
        for seed in range(40):
            scenario = random_scenario(Random(seed), real_time=False, own=[])
            scenario = scenario._replace(jobs=[job._replace(latest_start=job.earliest_start) for job in scenario.jobs])
            noticed += sum(job.lead_time > 0 for job in scenario.jobs)
            choose = random_choice(seed, must_fit=not scenario.overcommit)
            first, second = carry_out(scenario, choose), carry_out(scenario._replace(real_time=True), choose)
            times = ["job_id", "starting_time", "finish_time", "delay", "revenue", "evictions", "status"]
            left = first.jobs.filter(pl.col("earliest_start") <= first.table("slots").height - 1)
            right = second.jobs.filter(pl.col("earliest_start") <= first.table("slots").height - 1)
            assert_frame_equal(left.select(times).sort("job_id"), right.select(times).sort("job_id"))
            assert first.table("evictions")[:, :3].equals(second.table("evictions")[:, :3])
            unlike = ["arrived", "future", "future_work"]
            assert first.table("slots").drop(unlike).equals(second.table("slots").drop(unlike))
            assert second.table("slots")["future"].sum() == 0
        assert noticed > 50


def later(job: Job) -> Job:
    return job._replace(
        **{name: getattr(job, name) + 5 for name in ("submission_time", "earliest_start", "latest_start")}
    )


def last_seen_first(view: View) -> list[int]:
    return fitting(view, range(len(view.current))[::-1])


class TestNames:
    """Ids, and the hour at which everything begins, mean nothing."""

    def test_other_ids_for_the_same_jobs(self) -> None:
        for seed in range(40):
            scenario, result = random_run(seed)
            ids = [job.job_id for job in [*scenario.jobs, *scenario.own]]
            new = dict(zip(map(int, ids), Random(seed).sample(range(1000), len(ids)), strict=True))
            jobs, own = (
                [job._replace(job_id=new[int(job.job_id)]) for job in group] for group in (scenario.jobs, scenario.own)
            )
            choose = random_choice(seed, must_fit=not scenario.overcommit)
            renamed = carry_out(scenario._replace(jobs=jobs, own=own), choose)
            assert result.table("slots").equals(renamed.table("slots"))
            for name in ("jobs", "evictions"):
                rows = {(new[job_id], *rest) for job_id, *rest in result.table(name).rows()}
                assert rows == set(renamed.table(name).rows())
                assert result.table(name).height == renamed.table(name).height

    def test_the_same_run_some_slots_later(self) -> None:
        moved = ("slot", "submission_time", "earliest_start", "latest_start", "starting_time", "finish_time")
        moved += ("eviction_time",)
        for seed in range(30):
            scenario = random_scenario(Random(seed), capacity_kind="steps", num_slots=9, until=math.inf, own=[])
            capacity = [(0.0, (1.0,) * len(scenario.resources)), *((t + 5, row) for t, row in scenario.capacity)]
            other = scenario._replace(jobs=list(map(later, scenario.jobs)), capacity=capacity, num_slots=14)
            first, second = (carry_out(one, last_seen_first) for one in (scenario, other))
            for name in ("jobs", "slots", "evictions"):
                table = second.table(name)
                table = table.filter(pl.col("slot") >= 5) if name == "slots" else table
                table = table.with_columns(pl.col(column) - 5 for column in moved if column in table.columns)
                assert_frame_equal(first.table(name), table)


class TestIndependence:
    """What an agent does changes neither jobs nor capacity, and one cluster serves many runs."""

    def test_workload_and_capacity_do_not_depend_on_the_agent(self) -> None:
        for seed in range(30):
            scenario = random_scenario(Random(seed), num_slots=12, until=math.inf)
            cluster = scenario.cluster()
            first = simulate(cluster, Scripted())
            second = simulate(cluster, FirstFit())
            columns = [f"capacity_{name}" for name in scenario.resources] + ["slot", "arrived"]
            assert first.table("slots").select(columns).equals(second.table("slots").select(columns))
            given = ["job_id", "submission_time", "earliest_start", "latest_start", "requested_time", "requested_cores"]
            assert first.jobs.select(given).equals(second.jobs.select(given))
            assert simulate(cluster, FirstFit()).jobs.equals(second.jobs)

    def test_an_agent_that_starts_what_fits_never_violates_where_nothing_falls(self) -> None:
        for seed in range(30):
            scenario = random_scenario(Random(seed), resources=("cores",))
            result = simulate(DeferrableCluster(scenario.jobs, [3.5], overcommit=False, eviction="lost"), FirstFit())
            assert result.table("slots")["violation_cores"].sum() == 0
            assert result.table("evictions").height == 0

    def test_more_capacity_never_hurts_who_starts_everything(self) -> None:
        for seed in range(20):
            scenario = random_scenario(Random(seed), eviction="never", overcommit=True, capacity_kind="series")
            more = scenario._replace(capacity=[(t, tuple(a + 1 for a in row)) for t, row in scenario.capacity])
            first, second = (carry_out(one, everything).table("slots") for one in (scenario, more))
            assert (first["reward"] <= second["reward"]).all()
            assert first["revenue"].equals(second["revenue"])


@pytest.mark.parametrize("cores", [1, 2.5])
def test_a_job_as_an_agent_sees_it_is_the_job_that_was_submitted(cores: float) -> None:
    job, seen = Job(2**53, 0.375, 1, 1, 3, cores, (0, 4.25)), []
    cluster = DeferrableCluster([job], [(9, 9, 9)], resources=("cores", "memory", "disk"))
    for event in cluster.events[:-1]:
        cluster.on(event, lambda time, subject: seen.append(subject))
    simulate(cluster, FirstFit())
    assert seen == [job] * 3
