"""Runs of random agents on random workloads agree with a plain second implementation, to the last bit."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from deferrable_agents import Choice, Showing, everything, random_choice
from deferrable_references import DoesNotFitError, PlainCluster
from deferrable_scenarios import Scenario, random_scenario

from desim import Result, simulate
from desim.exceptions import InfeasibleAction
from desim.problems.deferrable import SlotOutcome


class Run:
    """A run of the cluster: its tables, what the agent saw, what listeners heard."""

    def __init__(self, scenario: Scenario, choose: Choice) -> None:
        cluster = scenario.cluster()
        self.heard: list[tuple[float, str, int]] = []
        self.outcomes: list[SlotOutcome] = []
        for event in cluster.events:
            cluster.on(event, lambda time, subject, event=event: self.hear(time, event, subject))
        agent = Showing(choose)
        self.error: InfeasibleAction | None = None
        try:
            self.result: Result = simulate(cluster, agent, until=scenario.until)
        except InfeasibleAction as error:
            self.error, self.result = error, error.result  # type: ignore[attr-defined]
        self.views = agent.views

    def hear(self, time: float, event: str, subject: Any) -> None:
        self.heard.append((time, event, subject.slot if event == "slot" else subject.job_id))
        if event == "slot":
            self.outcomes.append(subject)


def split(heard: list[tuple[float, str, int]]) -> tuple[list[Any], list[Any]]:
    """Take submissions apart from the rest: at an instant they may come before or after completions."""
    submissions = [item for item in heard if item[1] == "arrival"]
    return submissions, [item for item in heard if item[1] != "arrival"]


def compare(scenario: Scenario, choose: Choice) -> tuple[Run, PlainCluster]:
    """Run both and let them agree in everything."""
    run, plain = Run(scenario, choose), PlainCluster(scenario, choose)
    for ours, theirs in zip(run.views, plain.views, strict=False):
        assert ours == theirs
    assert len(run.views) == len(plain.views)
    assert run.result.table("slots").rows(named=True) == plain.slots
    assert run.result.jobs.rows(named=True) == plain.job_rows()
    assert run.result.table("evictions").rows(named=True) == plain.eviction_rows()
    assert split(run.heard) == split(plain.heard)
    assert run.result.info["end_time"] == plain.end_time
    for outcome, row in zip(run.outcomes, plain.slots, strict=True):
        names = scenario.resources
        for kind in ("capacity", "used", "violation"):
            assert getattr(outcome, kind).tolist() == [row[f"{kind}_{name}"] for name in names]
        assert [len(getattr(outcome, kind)) for kind in ("started", "expired", "evicted")] == [
            row[kind] for kind in ("started", "expired", "evicted")
        ]
        assert [getattr(outcome, kind) for kind in ("slot", "revenue", "delay", "reward")] == [
            row[kind] for kind in ("slot", "revenue", "delay", "reward")
        ]
        heard = [item for item in plain.heard if item[0] == outcome.slot]
        for event, jobs in (("start", outcome.started), ("expiry", outcome.expired), ("eviction", outcome.evicted)):
            assert jobs.job_id.tolist() == [job_id for _, kind, job_id in heard if kind == event]
    return run, plain


def check_refusal(run: Run, error: DoesNotFitError | None) -> None:
    if error is None:
        assert run.error is None
        assert run.result.info["status"] == "complete"
    else:
        assert str(run.error).startswith(f"time {error.slot}: job {error.job_id} requests ")
        assert run.result.info["status"] == "failed"


def test_random_agents_on_random_workloads() -> None:
    counts: Counter[Any] = Counter()
    for seed in range(350):
        scenario = random_scenario(Random(seed))
        run, plain = compare(scenario, random_choice(seed, must_fit=not scenario.overcommit))
        check_refusal(run, None)
        counts.update(job.status for job in plain.done)
        counts.update("evicted again" for job in plain.done if job.evictions > 1)
        counts.update("started again" for job in plain.done if job.evictions and job.status == "completed")
        counts.update("violation" for row in plain.slots if row["violation_cores"])
    for event in ("completed", "expired", "queued", "evicted", "running", "violation"):
        assert counts[event] > 20
    for event in ("evicted again", "started again"):
        assert counts[event] > 3


def test_answers_that_do_not_fit_are_refused_where_they_must() -> None:
    refused = 0
    for seed in range(100):
        scenario = random_scenario(Random(seed), overcommit=False)
        run, plain = compare(scenario, random_choice(seed, must_fit=False))
        check_refusal(run, plain.error)
        refused += plain.error is not None
    assert 20 < refused < 80


@pytest.mark.parametrize("eviction", ["never", "lost", "restarted"])
def test_agents_that_start_everything_at_once(eviction: str) -> None:
    evictions = 0
    for seed in range(60):
        scenario = random_scenario(Random(seed), overcommit=True, eviction=eviction)
        evictions += len(compare(scenario, everything)[1].evictions)
    assert (evictions > 50) == (eviction != "never")
