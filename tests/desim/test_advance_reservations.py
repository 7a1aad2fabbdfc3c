"""Reservations in which cores are not for jobs: agents that know of them let no job run into one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import InvalidConfiguration, simulate
from desim.agents.batch import create
from desim.core import Simulation
from desim.problems.batch import AdvanceReservation, BatchCluster, Job, Node, Request
from desim.processes.outages import Outage, planned_outages
from desim.validation import validate

NUM_CORES = 10
Interval = tuple[float, float, int]


def random_case(seed: int, count: int = 30) -> tuple[list[Job], list[AdvanceReservation]]:
    """Return jobs, and reservations some of which overlap."""
    rng = np.random.default_rng(seed)
    times = rng.exponential(8.0, count).cumsum().tolist()
    jobs = [
        Job(number, time, int(rng.integers(1, NUM_CORES + 1)), float(rng.uniform(5, 60)), float(rng.uniform(1, 70)), 1)
        for number, time in enumerate(times)
    ]
    starts = [*rng.uniform(0, 200, 3).tolist(), 0.0][: int(rng.integers(1, 5))]
    reservations = [
        AdvanceReservation(start, start + float(rng.uniform(5, 60)), int(rng.choice([1, 2]))) for start in starts
    ]
    return jobs, [*reservations, AdvanceReservation(300.0, 340.0, NUM_CORES - 8), AdvanceReservation(320.0, 350.0, 8)]


def fits(time: float, cores: int, duration: float, taken: list[Interval]) -> bool:
    """Tell whether a job has its cores from a time on, at each moment at which anything else begins."""
    moments = [time, *(begin for begin, _, _ in taken if time < begin < time + duration)]
    return all(
        cores + sum(size for begin, end, size in taken if begin <= moment < end) <= NUM_CORES for moment in moments
    )


def slow_starts(jobs: list[Job], reservations: list[AdvanceReservation], rule: str) -> dict[int, float]:
    """Return when jobs start, from one event to the next: first come, first served, backfilling, or EASY."""
    fixed = [(reservation.start, reservation.end, reservation.cores) for reservation in reservations]
    running: list[tuple[float, Job, float]] = []
    starts: dict[int, float] = {}
    time = -1.0
    while len(starts) < len(jobs):
        events = [job.submission_time for job in jobs] + [end for end, _, _ in running]
        events += [moment for begin, end, _ in fixed for moment in (begin, end)]
        time = min(event for event in events if event > time)
        running = [entry for entry in running if entry[0] > time]
        taken = fixed + [(began, began + job.requested_time, job.requested_cores) for _, job, began in running]
        for job in jobs:
            if job.submission_time > time or job.job_id in starts:
                continue
            cores, duration = job.requested_cores, job.requested_time
            if fits(time, cores, duration, taken):
                starts[job.job_id] = time
                running.append((time + min(job.run_time, duration), job, time))
                taken.append((time, time + duration, cores))
            elif rule == "fcfs":
                break
            elif rule == "easy-fcfs":
                moments = sorted(end for _, end, _ in taken if end > time)
                start = next(moment for moment in moments if fits(moment, cores, duration, taken))
                taken.append((start, start + duration, cores))
                rule = "backfilling-fcfs until the next event"
        rule = rule if "until" not in rule else "easy-fcfs"
    return starts


def compare_with_loops(agent: str, seed: int) -> None:
    jobs, reservations = random_case(seed)
    result = simulate(BatchCluster(jobs, NUM_CORES, reservations=reservations), create(agent))
    starts = dict(result.jobs.select("job_id", "starting_time").iter_rows())
    assert starts == slow_starts(jobs, reservations, agent)
    assert result.table("interruptions").is_empty()
    assert validate(result, jobs).ok


@pytest.mark.parametrize("agent", ["fcfs", "backfilling-fcfs", "easy-fcfs"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_starts_are_those_of_loops(agent: str, seed: int) -> None:
    compare_with_loops(agent, seed)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["fcfs", "backfilling-fcfs", "easy-fcfs"])
@settings(max_examples=1000, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_starts_are_those_of_loops_in_thousands_of_scenarios(agent: str, seed: int) -> None:
    compare_with_loops(agent, seed)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), agent=st.sampled_from(["sjf", "f1", "easy-wfp3", "conservative-fcfs"]))
def test_no_job_runs_into_a_reservation(seed: int, agent: str) -> None:
    jobs, reservations = random_case(seed)
    result = simulate(BatchCluster(jobs, NUM_CORES, reservations=reservations), create(agent))
    assert result.table("interruptions").is_empty()
    assert set(result.jobs["status"]) <= {"completed", "killed"}
    assert validate(result, jobs).ok


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    agent=st.sampled_from(["easy-fcfs", "conservative-fcfs", "search:batch:waiting_time_mean:2"]),
    kill=st.booleans(),
    until=st.sampled_from([float("inf"), 150.0, 330.0]),
)
def test_whatever_happens_reservations_have_their_cores(seed: int, agent: str, kill: bool, until: float) -> None:
    """Overruns, failures and agents that know of no reservations cost jobs their cores, not reservations."""
    jobs, reservations = random_case(seed)
    outages = [planned_outages([Outage(50.0, 100.0, cores=[0]), Outage(120.0, 160.0, cores=[0, 1])])]
    cluster = BatchCluster(jobs, NUM_CORES, reservations=reservations, enforce_time_limit=kill, processes=outages)
    result = simulate(cluster, create(agent), until=until)
    assert validate(result, jobs).ok
    rows = result.jobs.filter(result.jobs["starting_time"].is_not_null()).iter_rows(named=True)
    spans = [
        (row["starting_time"], row["finish_time"] or result.end_time, row["requested_number_of_resources"])
        for row in rows
    ]
    for reservation in reservations:
        if reservation.start < result.end_time:
            used = sum(cores for begin, end, cores in spans if begin <= reservation.start < end)
            together = sum(other.cores for other in reservations if other.start <= reservation.start < other.end)
            assert used + together <= NUM_CORES


def cluster_of(jobs: list[Job], reservations: list[AdvanceReservation], nodes: bool) -> BatchCluster:
    """Return a cluster of cores, or one of nodes with reservations at the same times, some of which admit a user."""
    if not nodes:
        return BatchCluster(jobs, NUM_CORES, reservations=reservations)
    of_nodes = [
        AdvanceReservation(reservation.start, reservation.end, nodes=[number], users=[1] if number % 2 == 0 else ())
        for number, reservation in enumerate(reservations)
    ]
    return BatchCluster(jobs, nodes=Node.several(NUM_CORES, 1), reservations=of_nodes)


@pytest.mark.parametrize("nodes", [False, True])
@pytest.mark.parametrize("foresight", [True, False])
def test_forks_go_on_alike(foresight: bool, nodes: bool) -> None:
    jobs, reservations = random_case(3)
    simulation, agent = Simulation(cluster_of(jobs, reservations, nodes)), create("easy-fcfs")
    observation: Any = simulation.problem.observation
    now: list[Any] = []
    while not now or (nodes and now[0].users):  # until a reservation without users begins
        decision = simulation.advance()
        assert decision is not None
        now = [reservation for reservation in observation.reservations if reservation.start <= observation.time]
        if not now or (nodes and now[0].users):
            decision.answer(agent.act(decision.observation))
    if nodes:  # what is maintained is down, what is reserved is not
        assert np.flatnonzero(~observation.nodes.room.up).tolist() == list(now[0].nodes)
    fork = simulation.fork(foresight=foresight)
    assert not fork.replayed
    results = []
    for one in (simulation, fork):
        while (decision := one.advance()) is not None:
            decision.answer(agent.act(decision.observation))
        results.append(one.finish())
    if foresight:
        assert all(results[0].table(name).equals(results[1].table(name)) for name in results[0].table_names)
    else:  # reservations are known, jobs that have not arrived are not
        assert len(results[1].jobs) < len(jobs)
        assert validate(results[1]).ok


def test_what_is_free_before_a_reservation_is_used() -> None:
    jobs = [Job(1, 0.0, 4, 100.0, 100.0), Job(2, 1.0, 4, 60.0, 60.0), Job(3, 2.0, 4, 40.0, 40.0)]
    result = simulate(BatchCluster(jobs, 8, reservations=[AdvanceReservation(50.0, 200.0, 4)]), create("easy-fcfs"))
    assert result.jobs["starting_time"].to_list() == [0.0, 100.0, 2.0]
    assert result.table("outages").select("time", "event", "cores_up").rows() == [(50.0, "down", 4)]


def test_a_reservation_that_begins_as_another_ends_takes_its_cores() -> None:
    jobs = [Job(1, 0.0, 2, 100.0, 100.0), Job(2, 1.0, 4, 10.0, 10.0)]
    reservations = [AdvanceReservation(50.0, 100.0, 6), AdvanceReservation(10.0, 50.0, 6)]
    result = simulate(BatchCluster(jobs, 8, reservations=reservations), create("easy-fcfs"))
    assert result.table("interruptions").is_empty()
    assert result.jobs["starting_time"].to_list() == [0.0, 100.0]
    assert result.table("outages")["cores_up"].to_list() == [2, 8, 2, 8]
    assert validate(result, jobs).ok


def test_cores_that_are_repaired_during_a_reservation_stay_away() -> None:
    """Six of eight cores have failed when a reservation takes five: two that were up, and three that were not."""
    outage = planned_outages([Outage(5.0, 20.0, cores=range(2, 8))])
    reservations = [
        AdvanceReservation(10.0, 50.0, 5),
        AdvanceReservation(10.0, 60.0, 2),
    ]  # no core belongs to two reservations
    cluster = BatchCluster([Job(1, 0.0, 8, 100.0, 100.0)], 8, reservations=reservations, processes=[outage])
    result = simulate(cluster, create("fcfs"))
    assert result.table("outages").select("time", "cores_up").rows() == [
        (5.0, 2), (10.0, 0), (20.0, 1), (50.0, 6), (60.0, 8)
    ]  # fmt: skip
    assert validate(result).ok


def test_a_reservation_is_for_its_users() -> None:
    """A job of somebody else that overruns is cut; one of a user goes on, and another need not end before the end."""
    jobs = [
        Job.of_tasks(1, 0.0, Request(cores=4), 30.0, 90.0, user_id=1),
        Job.of_tasks(2, 0.0, Request(cores=4), 80.0, 80.0, user_id=7),
        Job.of_tasks(3, 1.0, Request(cores=4), 60.0, 60.0, user_id=7),
        Job.of_tasks(4, 2.0, Request(cores=4), 10.0, 10.0, user_id=1),
    ]
    reservations = [AdvanceReservation(40.0, 100.0, nodes="all", users=[7])]
    cluster = BatchCluster(jobs, nodes=Node.several(2, 4), reservations=reservations, enforce_time_limit=False)
    result = simulate(cluster, create("fcfs"))
    starts = dict(result.jobs.select("job_id", "starting_time").iter_rows())
    assert starts == {2: 0.0, 1: 100.0, 3: 100.0, 4: 160.0}  # the one that is cut goes first again, and has to wait
    assert result.table("interruptions").select("job_id", "finish_time").rows() == [(1, 40.0)]
    assert result.table("outages").is_empty()
    easy = simulate(cluster, create("easy-fcfs"))
    assert dict(easy.jobs.select("job_id", "starting_time").iter_rows()) == {2: 0.0, 3: 40.0, 1: 100.0, 4: 100.0}
    assert validate(result, jobs).ok and validate(easy, jobs).ok


def test_a_node_that_fails_during_its_reservation_stays_away() -> None:
    outage = planned_outages([Outage(20.0, 60.0, nodes=["n0"]), Outage(70.0, 80.0, nodes=["n0"])])
    reservations = [AdvanceReservation(10.0, 50.0, nodes=[0]), AdvanceReservation(75.0, 90.0, partition="p")]
    nodes = Node.several(2, 4, partition="p")
    cluster = BatchCluster([Job(1, 0.0, 8, 30.0, 30.0)], nodes=nodes, reservations=reservations, processes=[outage])
    result = simulate(cluster, create("conservative-fcfs"))
    assert result.table("outages").select("time", "event", "cores_up").rows() == [
        (10.0, "down", 4), (60.0, "up", 8), (70.0, "down", 4), (75.0, "down", 0), (90.0, "up", 8)
    ]  # fmt: skip
    assert result.jobs["starting_time"].to_list() == [90.0]
    assert validate(result).ok


def test_the_end_of_a_reservation_stays_in_the_profile() -> None:
    """A job that was to start then moves to another node, and the next one starts then."""
    jobs = [Job(1, 0.0, 4, 300.0, 20.0), Job(2, 1.0, 4, 500.0, 500.0), Job(3, 21.0, 4, 60.0, 60.0)]
    reservations = [AdvanceReservation(50.0, 100.0, nodes="n1")]
    result = simulate(
        BatchCluster(jobs, nodes=Node.several(2, 4), reservations=reservations), create("conservative-fcfs")
    )
    assert dict(result.jobs.select("job_id", "starting_time").iter_rows()) == {1: 0.0, 2: 20.0, 3: 100.0}


def test_promises_are_kept_through_reservations_of_nodes() -> None:
    rng = np.random.default_rng(4)
    times, runs = (
        rng.integers(0, 10, 60).cumsum().astype(float).tolist(),
        rng.integers(5, 60, 60).astype(float).tolist(),
    )
    jobs = [
        Job(number, time, int(rng.integers(1, 9)), run, run)
        for number, (time, run) in enumerate(zip(times, runs, strict=True))
    ]
    reservations = [AdvanceReservation(60.0 * n + 20, 60.0 * n + 50, nodes=[n % 2]) for n in range(12)]
    agent, promised = create("conservative-fcfs"), dict[int, float]()

    class Noting:
        """Note what each job was promised first."""

        def act(self, observation: Any) -> Any:
            answer = agent.act(observation)
            for row, slot in agent.reservations.items():
                promised.setdefault(row, slot.start)
            return answer

    agent.reset({}, None)
    result = simulate(BatchCluster(jobs, nodes=Node.several(3, 4), reservations=reservations), Noting())
    started = dict(result.jobs.select("arrival_number", "starting_time").iter_rows())
    assert len(promised) > 20 and result.end_time > 400
    assert all(started[row] <= start for row, start in promised.items())
    assert result.table("interruptions").is_empty()


def on_nodes(*reservations: AdvanceReservation) -> BatchCluster:
    return BatchCluster([], nodes=Node.several(2, 4), reservations=reservations)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdvanceReservation(5.0, 5.0, 1), "the end of a reservation: got 5.0, expected a finite number > 5.0"),
        (lambda: AdvanceReservation(-1.0, 5.0, 1), "the start of a reservation: got -1.0"),
        (lambda: AdvanceReservation(0.0, 5.0, 0), "the cores of a reservation: got 0"),
        (
            lambda: BatchCluster(
                [], 4, reservations=[AdvanceReservation(0.0, 9.0, 3), AdvanceReservation(5.0, 6.0, 2)]
            ),
            "at 5.0 s, reservations reserve 5 cores, but the cluster has 4",
        ),
        (lambda: BatchCluster([], 4, reservations=[3]), "reservations: got 3, expected Reservation objects"),
        (
            lambda: on_nodes(AdvanceReservation(0.0, 9.0, 3)),
            "reserves counted cores, but the cluster has nodes; name the nodes",
        ),
        (
            lambda: BatchCluster([], 4, reservations=[AdvanceReservation(0.0, 9.0, nodes="all")]),
            "names nodes, but the cluster has none",
        ),
        (lambda: AdvanceReservation(0.0, 9.0), "the cores of a reservation: got 0"),
        (lambda: AdvanceReservation(0.0, 9.0, nodes=[]), "the cores of a reservation: got 0"),
        (
            lambda: AdvanceReservation(0.0, 9.0, 3, nodes="all"),
            "got Reservation.*, expected only one of cores, nodes and partition",
        ),
        (
            lambda: AdvanceReservation(0.0, 9.0, partition="p", nodes="n0"),
            "expected only one of cores, nodes and partition",
        ),
        (
            lambda: AdvanceReservation(0.0, 9.0, nodes=[1.5]),
            "the nodes of a reservation: got 1.5, expected names or numbers",
        ),
        (lambda: AdvanceReservation(0.0, 9.0, nodes="n0", users=["ann"]), "a user of a reservation: got 'ann'"),
        (
            lambda: AdvanceReservation(0.0, 9.0, 3, users=[1]),
            "users: only reservations of nodes admit users, got Reservation",
        ),
        (
            lambda: on_nodes(AdvanceReservation(0.0, 9.0, nodes="m0")),
            "reservation: unknown node 'm0'; there are n0, n1",
        ),
        (
            lambda: on_nodes(AdvanceReservation(0.0, 9.0, nodes=[0, 2])),
            "reservation: got node 2, expected a number from 0 to 1",
        ),
        (
            lambda: on_nodes(AdvanceReservation(0.0, 9.0, partition="gpu")),
            "reservation: unknown partition 'gpu'; there are none",
        ),
        (
            lambda: on_nodes(
                AdvanceReservation(0.0, 9.0, nodes="all"), AdvanceReservation(5.0, 6.0, nodes="n1", users=[3])
            ),
            "at 5.0 s, node 'n1' belongs to two reservations",
        ),
    ],
)
def test_reservations_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make()
