"""Everything that sites do, at once, against a plain event loop written from the definitions."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plain_batch import (
    Cores,
    Nodes,
    PlainCluster,
    Policy,
    Site,
    by_counts,
    conservative,
    conservative_on_nodes,
    on_nodes,
    widest_first,
)
from plain_preemption import PlainPreemption, Service

from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import (
    AdvanceReservation,
    BatchCluster,
    BatchObservation,
    Dependency,
    Job,
    Limit,
    Node,
    QualityOfService,
    Request,
    StartWithSize,
)
from desim.problems.batch.cores import to_core_ids
from desim.processes.outages import Outage, planned_outages
from desim.validation import validate
from tests.jobs import of_sizes, with_fields

PROMISES = ("promises", "node-promises")
ON_NODES = ("nodes", "node-promises")
NODES = [*Node.several(2, 4, memory=10, speed=2.0), Node("slow", 8, memory=30, speed=0.5, partition="p")]


def random_after(rng: np.random.Generator, count: int) -> dict[int, Dependency]:
    """Return what some jobs come after; the order has nothing to do with their times."""
    order = rng.permutation(count).tolist()
    return {
        job_id: Dependency(
            tuple(rng.choice(order[:place], min(place, int(rng.integers(1, 4))), replace=False).tolist()),
            float(rng.choice([0, 0, 1, 7])),
        )
        for place, job_id in enumerate(order)
        if place and rng.random() < 0.3
    }


def random_limits(rng: np.random.Generator, count: int, most: int, on_nodes: bool) -> dict[str, Any]:
    """Return queues of jobs, and limits of users, queues and partitions; some turn jobs away."""
    queues = {number: str(rng.choice(["short", "long"])) for number in range(count) if rng.random() < 0.8}
    limits = [
        Limit(running_jobs=int(rng.integers(1, 4)), running_cores=most - int(rng.integers(0, 2))),
        Limit(scope="user", members=("1",), running_cores=most),
        Limit(scope="queue", running_cores=most),
        Limit(scope="queue", members=("short",), job_time=10.0, job_cores=most),
        Limit(scope="partition", members=("p",), running_jobs=1)
        if on_nodes
        else Limit(members=("0", "2"), running_jobs=2),
    ]
    return {"queues": queues, "limits": [limits[at] for at in rng.permutation(5)[: int(rng.integers(1, 5))].tolist()]}


def random_reservations(rng: np.random.Generator, num_cores: int) -> list[AdvanceReservation]:
    """Return reservations that leave a core at least; some begin as others end."""
    reservations, time = [], float(rng.integers(0, 20))
    for _ in range(int(rng.integers(1, 5))):
        end = time + float(rng.integers(1, 20))
        reservations.append(AdvanceReservation(time, end, int(rng.integers(1, max(2, num_cores - 2)))))
        time = end + float(rng.choice([0, 0, 5, 20]))
    if rng.random() < 0.5:
        reservations.append(AdvanceReservation(3.0, 40.0, 1))
    return reservations


def random_reservations_of_nodes(rng: np.random.Generator) -> list[AdvanceReservation]:
    """Return reservations, some for users; on one node one follows the other."""
    reservations, times = [], [float(rng.integers(0, 20))] * 3
    for _ in range(int(rng.integers(1, 6))):
        which: Any = (
            {"nodes": "all"},
            {"partition": "p"},
            {"nodes": "n1"},
            {"nodes": [2, 0]},
            {"nodes": ["slow", "n1"]},
        )[int(rng.integers(0, 5))]
        numbers = sorted(Nodes(NODES).of_reservation(AdvanceReservation(0.0, 1.0, **which)))
        start = max(times[number] for number in numbers)
        users = rng.choice(3, int(rng.choice([0, 0, 1, 2])), replace=False).tolist()
        reservations.append(AdvanceReservation(start, start + float(rng.integers(1, 20)), users=users, **which))
        for number in numbers:
            times[number] = reservations[-1].end + float(rng.choice([0, 0, 5, 20]))
    return reservations


def random_outages(rng: np.random.Generator, kind: str, num_cores: int) -> list[Outage]:
    """Return outages between whole seconds, so that none begins when a reservation does."""
    starts = sorted((rng.integers(0, 120, int(rng.integers(1, 8))) + 0.5).tolist())
    units, count = ("nodes", 3) if kind in ON_NODES else ("cores", num_cores)
    return [
        Outage(start, start + float(rng.integers(1, 15)), **{units: to_core_ids(int(rng.integers(1, 1 << count)))})
        if rng.random() < 0.3
        else Outage(start, start + float(rng.integers(1, 15)), **{units: [int(rng.integers(0, count))]})
        for start in starts
    ]


def random_jobs(rng: np.random.Generator, kind: str, num_cores: int, count: int, kills: bool) -> list[Any]:
    """Return jobs in whole seconds, so that much happens at once."""
    gaps = rng.choice(rng.choice([0, 1, 2, 4, 12], 3), count)
    times = gaps.cumsum().astype(float).tolist()
    jobs: list[Any] = []
    for job_id, time in zip(rng.permutation(count).tolist(), times, strict=True):
        requested = float(rng.integers(1, 16))
        run, user = float(rng.integers(0, int(requested) + 4)), int(rng.integers(-1, 3))
        if not kills and rng.random() < 0.2:
            run = requested * float(rng.integers(2, 20))  # overruns, and for minutes
        if kind in ON_NODES:
            request = Request(
                int(rng.integers(1, 5)),
                int(rng.integers(1, 4)),
                memory=int(rng.integers(0, 9)),
                partition="p" if rng.random() < 0.2 else "",
            )
            jobs.append(Job.of_tasks(job_id, time, request, requested, run, user))
        elif kind == "sizes" and rng.random() < 0.7:
            widths = rng.permutation(np.arange(1, num_cores + 1))[: int(rng.integers(1, 4))].tolist()
            spans = [(float(rng.integers(1, 16)), float(rng.integers(0, 18))) for _ in widths]
            jobs.append(
                of_sizes(Job(job_id, time, width, *span, user) for width, span in zip(widths, spans, strict=True))
            )
        else:
            width = int(rng.integers(1, num_cores + 1 + (rng.random() < 0.05)))
            jobs.append(Job(job_id, time, width, requested, run, user))
    return jobs


class Widest:
    """Starts every job that fits, in the first of its sizes that does."""

    def act(self, observation: BatchObservation) -> list[Any]:
        free, answer = observation.free_cores, []
        for job_id in observation.queue.row.tolist():
            sizes = [cores for cores, _ in observation.sizes_of(job_id)]
            size = next((number for number, cores in enumerate(sizes) if cores <= free), None)
            if size is not None:
                free -= sizes[size]
                answer.append(StartWithSize(job_id, size) if len(sizes) > 1 else job_id)
        return answer


def agents(rng: np.random.Generator, kind: str, preempts: bool = False) -> tuple[Any, Policy, str]:
    """Return an agent, the plain policy that does the same, and the order of both."""
    order = str(rng.choice(["fcfs", "sjf"]))
    if kind == "sizes":
        return Widest(), widest_first, order
    prefix = "preemptive-" * preempts
    if kind in PROMISES:
        rule = conservative_on_nodes if kind in ON_NODES else conservative
        return create(f"{prefix}conservative-{order}"), rule(order), order
    name = str(rng.choice(["strict", "backfilling", "easy"]))
    policy = (on_nodes if kind in ON_NODES else by_counts)(name, order)
    return create(prefix + (order if name == "strict" else f"{name}-{order}")), policy, order


def random_service(rng: np.random.Generator, count: int, order: str) -> Service:
    """Return qualities of service, of which each may preempt some of those before it."""
    names = [f"q{number}" for number in range(int(rng.integers(2, 5)))]
    qos = {
        name: QualityOfService(
            name,
            float(rng.choice([0, place, place, 5])),
            tuple(other for other in names[:place] if rng.random() < 0.8),
            str(rng.choice(["requeue", "suspend"])),  # type: ignore[arg-type]
        )
        for place, name in enumerate(names)
    }
    qos_of = {number: str(rng.choice(names)) for number in range(count) if rng.random() < 0.9}
    return Service(qos, qos_of, order)


def random_site(rng: np.random.Generator, kind: str, num_cores: int, count: int) -> Site:
    """Return some of what sites do, often all of it."""
    much = 0.4 + 0.6 * rng.random()
    after = random_after(rng, count) if rng.random() < much else {}
    on_nodes = kind in ON_NODES
    limits = random_limits(rng, count, 7 if on_nodes else num_cores, on_nodes) if rng.random() < much else {}
    return Site(
        dependencies=after,
        **limits,
        reservations=()
        if rng.random() > much
        else random_reservations_of_nodes(rng)
        if kind in ON_NODES
        else random_reservations(rng, num_cores),
        outages=random_outages(rng, kind, num_cores) if rng.random() < much else (),
        interval=float(rng.choice([0.5, 1, 4])) if rng.random() < much else None,
        over_time_limit=float(rng.choice([0, 0, 2, 5, 100])),
        kills=bool(rng.random() < 0.7),
        loses=bool(rng.random() < 0.2),
        until=float(rng.integers(10, 150)) if rng.random() < 0.15 else inf,
    )


def held_of(result: Any, kind: str, job_id: int) -> Any:
    """Return what a job held last, as the plain cluster says it."""
    row = result.jobs.filter(result.jobs["job_id"] == job_id)
    if kind not in ON_NODES:
        parts = [part.split("-") for part in (row["allocated_resources"].item() or "").split()]
        return frozenset(core for part in parts for core in range(int(part[0]), int(part[-1]) + 1)) or None
    span = ["job_id", "starting_time", "finish_time"]  # another execution may have ended as it started
    rows = result.table("placements").join(row, on=span, how="semi", nulls_equal=True)
    return sorted(rows.select("node", "tasks").rows())


def compare(seed: int, kind: str, count: int = 25, preempts: bool = False) -> Any:
    """Simulate a random scenario, say where the plain loop parts from it, and return the result."""
    rng = np.random.default_rng(seed)
    num_cores = int(rng.integers(3, 11))
    site = random_site(rng, kind, num_cores, count)
    site.cycle = ("instant", "arrival")[seed % 2]
    jobs = random_jobs(rng, kind, num_cores, count, site.kills)
    in_order = {job.job_id: site.dependencies[job.job_id] for job in jobs if job.job_id in site.dependencies}
    site = replace(site, dependencies=in_order)  # whom one end lets come arrive in this order
    agent, policy, order = agents(rng, kind, preempts)
    space = Nodes(NODES) if kind in ON_NODES else Cores(num_cores)
    service = random_service(rng, count, order) if preempts else Service({}, {})
    plain = PlainPreemption(jobs, space, policy, site, service) if preempts else PlainCluster(jobs, space, policy, site)
    plain.run()
    jobs = with_fields(jobs, queue=site.queues, qos=service.qos_of, after=site.dependencies)
    cluster = BatchCluster(
        jobs,
        **({"nodes": NODES} if kind in ON_NODES else {"num_cores": num_cores}),
        enforce_time_limit=site.kills,
        over_time_limit=site.over_time_limit,
        checkpoint_interval=site.interval,
        infeasible="forward" if kind == "sizes" else "raise",
        too_wide="reject",
        on_outage="lose" if site.loses else "requeue",
        cycle=site.cycle,
        limits=site.limits,
        reservations=site.reservations,
        qos=service.qos.values(),
        processes=[planned_outages(site.outages)],
    )
    result = simulate(cluster, agent, until=site.until)
    columns = ["submission_time", "starting_time", "finish_time", "status"]
    more = ["requested_number_of_resources", "attempts"]
    found = {
        job_id: (*row[:4], held_of(result, kind, job_id) if row[1] is not None else None, *row[4:])
        for job_id, *row in result.jobs.select("job_id", *columns, *more).iter_rows()
    }
    wanted = {
        job_id: (*row[:4], sorted(one[:2] for one in row[4]) if kind in ON_NODES and row[4] else row[4], *row[5:])
        for job_id, row in plain.rows.items()
    }
    assert found == wanted
    columns = ["finish_time", "job_id", "starting_time", "outcome"]
    assert sorted(result.table("interruptions").select(columns).rows()) == sorted(plain.cuts)
    if site.interval is not None:
        cuts = result.table("interruptions").filter(pl.col("outcome").is_in(["requeued", "preempted"]))
        found_kept = sorted(cuts.select("finish_time", "job_id", "work_after").rows())
        wanted_kept = sorted(plain.kept)  # who starts as soon as he is cut may be cut again at once
        assert [row[:2] for row in found_kept] == [row[:2] for row in wanted_kept]
        assert [row[2] for row in found_kept] == pytest.approx([row[2] for row in wanted_kept], rel=1e-12)
    if any(one.jobs for one in site.dependencies.values()):
        told = result.table("dependencies").select("job_id", "submission_time")
        assert {job_id: time for job_id, time in told.iter_rows() if time is not None} == plain.asked_for
    if isinstance(plain, PlainPreemption):
        columns = ["time", "job_id", "preempted_by", "mode"]
        assert sorted(result.table("preemptions").select(columns).rows()) == sorted(plain.preempted)
    report = validate(result, jobs)
    assert report.ok, str(report)
    return result


KINDS = ["cores", "promises", "nodes", "node-promises", "sizes"]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
@example(seed=42615)  # a reservation of nodes begins as a job on them is expected to end that would go on
def test_all_at_once_is_that_of_a_plain_loop(kind: str, seed: int) -> None:
    compare(seed, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2000)
@given(seed=st.integers(0, 2**32))
def test_all_at_once_is_that_of_a_plain_loop_in_thousands_of_scenarios(kind: str, seed: int) -> None:
    compare(seed, kind)


PREEMPTED = KINDS[:3]  # in the order that sizes are chosen in, nobody is first


@pytest.mark.parametrize("kind", PREEMPTED)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_preemption_with_all_of_it_is_that_of_a_plain_loop(kind: str, seed: int) -> None:
    compare(seed, kind, preempts=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PREEMPTED)
@settings(max_examples=2000)
@given(seed=st.integers(0, 2**32))
def test_preemption_with_all_of_it_is_that_of_a_plain_loop_in_thousands_of_scenarios(kind: str, seed: int) -> None:
    compare(seed, kind, preempts=True)


def test_these_scenarios_preempt_in_both_ways() -> None:
    for kind in PREEMPTED:
        modes = {mode for seed in range(12) for mode in compare(seed, kind, preempts=True).table("preemptions")["mode"]}
        assert modes == {"requeue", "suspend"}
