"""The portfolio: never behind a member, nor far behind anybody on the instances that a search has found to be bad."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from desim import simulate
from desim.agents.dag import Portfolio, create
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import DagCluster, Executors, Job, SharedLinks
from desim.problems.dag.adversarial import DagInstance
from desim.processes import random_outages
from desim.validation import validate
from desim.workloads import random_dags
from desim.workloads.dag.registry import draw, executors_of, read

INSTANCES = sorted((Path(__file__).parent / "adversarial_dags").glob("*.json"))
WORST_OF_OURS = sorted((Path(__file__).parent / "adversarial_dags" / "portfolio").glob("*.json"))
SAGA = [
    "Heft",
    "Cpop",
    "FastestNode",
    "MET",
    "MCT",
    "MinMin",
    "MaxMin",
    "Duplex",
    "ETF",
    "BIL",
    "FCP",
    "FLB",
    "GDL",
    "OLB",
    "WBA",
    "Sufferage",
    "MST",
    "Msbc",
    "DPS",
    "Hbmct",
]
MEMBERS = "heft+cpop+peft+dls+tdca+rank-up-insertion-deft+rank-up-deft-patient+critical-path-deft+fifo-deft"


def makespan(agent: Agent, jobs: list[Job], executors: Executors) -> float:
    plans_ahead = not str(getattr(agent, "name", "")).startswith(("rank-up", "critical", "dls", "fifo"))
    return float(simulate(DagCluster(jobs, executors, plan_ahead=plans_ahead), agent).metrics()["makespan"])


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15)
def test_it_is_behind_no_member_where_the_executors_are_idle(seed: int) -> None:
    rng = default_rng(seed)
    instance = DagInstance.draw(rng)
    for _ in range(40):
        instance = instance.changed(rng)
    jobs, executors = [instance.job()], instance.executors()
    best = min(makespan(create(name), jobs, executors) for name in MEMBERS.split("+"))
    serial = float((jobs[0].work.sum() / executors.speeds).min())
    assert makespan(create("portfolio"), jobs, executors) <= min(best, serial) * (1 + 1e-9)


def test_several_jobs_at_once_and_run_times_of_each_executor() -> None:
    jobs, executors = draw(default_rng(4), num_jobs=4, num_executors=3, mean_interval=0.0, ccr=2.0)
    own = [Job(7, [1.0, 2.0], [(0, 1, 3.0)], run_times=[[1.0, 9.0, 9.0], [9.0, 9.0, 2.0]]), *jobs]
    best = min(makespan(create(name), own, executors) for name in MEMBERS.split("+"))
    assert makespan(create("portfolio"), own, executors) <= best * (1 + 1e-9)


def test_jobs_that_arrive_are_planned_behind_what_runs() -> None:
    jobs, executors = draw(default_rng(5), num_jobs=6, num_executors=4, mean_interval=20.0, ccr=1.0)
    agent = create("portfolio:heft+rank-up-deft")
    result = simulate(DagCluster(jobs, executors, plan_ahead=True), agent)
    assert validate(result, jobs).ok
    assert result.metrics()["jobs_completed"] == 6
    again = simulate(DagCluster(jobs, executors, plan_ahead=True), agent)
    assert again.table("copies").equals(result.table("copies"))


BUS_CASES = [
    (Job(1, [1.0, 5.0, 1.0, 5.0, 2.0], [(0, 1, 5.0), (0, 2, 5.0), (1, 2, 7.0), (0, 3, 5.0), (1, 4, 4.0)]), 9.0),
    (Job(1, [5.0, 1.0, 3.0], [(0, 1, 8.0), (0, 2, 7.0)]), 8.0),
]
LINKED = "heft+cpop+peft+dls+tdca+rank-up-insertion-deft+rank-up-deft-patient+rank-up-deft+fifo-eft"


def on_links(agent: str, jobs: list[Job], executors: Executors, links: SharedLinks, **options: Any) -> float:
    cluster = DagCluster(jobs, executors, transfers="when_assigned", links=links, **options)
    result = simulate(cluster, create(agent))
    validate(result, jobs)
    return float(result.metrics()["makespan"])


@pytest.mark.parametrize(("job", "best"), BUS_CASES)
def test_what_a_plan_is_worth_is_what_comes_of_it_on_shared_links(job: Job, best: float) -> None:
    executors, links = Executors([1.0, 1.0], 4.0), SharedLinks.bus(2, 1.0)
    times = [on_links(name, [job], executors, links, plan_ahead=True) for name in ("tdca", "rank-up-deft", "heft")]
    assert min(times) == best
    assert on_links("portfolio:heft+rank-up-deft+tdca", [job], executors, links, plan_ahead=True) == best
    assert on_links("portfolio", [job], executors, links, plan_ahead=True) <= best


@given(seed=st.integers(0, 10_000), bandwidth=st.sampled_from([0.1, 0.5, 1.0, 3.0]), begin=st.sampled_from([0.0, 0.7]))
@settings(max_examples=20, deadline=None)
def test_on_shared_links_it_is_behind_no_member_either(seed: int, bandwidth: float, begin: float) -> None:
    rng = default_rng(seed)
    count = int(rng.integers(2, 5))
    executors = Executors(rng.uniform(0.5, 2.0, count), rng.choice([0.5, 2.0, np.inf]), rng.choice([0.0, 0.3]))
    jobs = [
        random_dags.generate(int(rng.integers(3, 9)), ccr=2.0, seed=rng).submitted(begin, job_id=number)
        for number in range(int(rng.integers(1, 3)))
    ]
    links = SharedLinks.bus(count, bandwidth) if rng.random() < 0.5 else SharedLinks.star([bandwidth] * count)
    times = {
        (name, ahead): on_links(name, jobs, executors, links, plan_ahead=ahead)
        for name in LINKED.split("+")
        for ahead in (False, True)
        if ahead or name not in ("heft", "cpop", "peft", "tdca")
    }
    serial = sum(job.work.sum() for job in jobs) / executors.speeds.max()
    ours = on_links(f"portfolio:{LINKED}", jobs, executors, links, plan_ahead=True)
    assert ours <= min(*times.values(), serial) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_with_arrivals_and_outages_on_shared_links_all_jobs_end(seed: int) -> None:
    rng = default_rng(seed)
    jobs = [random_dags.generate(8, ccr=1.0, seed=rng).submitted(1.5 * number, job_id=number) for number in range(5)]
    outages = random_outages(mean_time_to_failure=6.0, mean_time_to_repair=2.0) if seed % 2 else None
    cluster = DagCluster(
        jobs,
        Executors(rng.uniform(0.5, 2.0, 3), 2.0),
        plan_ahead=True,
        transfers="when_assigned",
        links=SharedLinks.star([1.0] * 3),
        processes=[] if outages is None else [outages],
    )
    agent = create("portfolio:heft+rank-up-insertion-deft+rank-up-deft-patient")
    result = simulate(cluster, agent, seed=seed)
    validate(result, jobs)
    assert result.metrics()["jobs_completed"] == 5
    assert simulate(cluster, agent, seed=seed).table("copies").equals(result.table("copies"))


def test_names() -> None:
    assert create("portfolio").name == f"portfolio:{MEMBERS}"  # type: ignore[attr-defined]
    assert create("portfolio:heft+dls").name == "portfolio:heft+dls"  # type: ignore[attr-defined]
    with pytest.raises(InvalidConfiguration, match="members: got an empty sequence"):
        Portfolio([])
    with pytest.raises(InvalidConfiguration, match="unknown dag agent 'nobody'"):
        create("portfolio:heft+nobody")


def test_there_are_instances() -> None:
    assert len(INSTANCES) >= 4


@pytest.mark.parametrize("path", INSTANCES, ids=lambda path: path.stem)
def test_where_others_are_bad_it_is_not(path: Path) -> None:
    """Each was found by `desim adversary`; its name says whose bad instance it is, and beside whom."""
    bad, good = path.stem.split("-against-")
    jobs, executors = [read(path)], executors_of(path)
    assert executors is not None
    times = {name: makespan(create(name), jobs, executors) for name in (bad, good, "portfolio")}
    assert times[bad] > 1.5 * times[good]
    assert times["portfolio"] <= times[good] * (1 + 1e-9)
    assert np.isfinite(times["portfolio"])


@pytest.mark.parametrize("path", [*INSTANCES, *WORST_OF_OURS], ids=lambda path: path.stem)
def test_it_is_not_far_behind_any_scheduler_of_saga(path: Path) -> None:
    """The instances of the portfolio itself were found beside schedulers of SAGA 2.1 that are no members."""
    pytest.importorskip("saga.schedulers", reason="anrg-saga is not installed")
    from test_dag_saga import by_saga

    job, executors = read(path), executors_of(path)
    assert executors is not None
    ours = makespan(create("portfolio"), [job], executors)
    for name in SAGA:
        assert ours <= 1.5 * by_saga(f"{name}Scheduler", job, executors), name
