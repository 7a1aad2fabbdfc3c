"""Agents where the plan does not hold: cores fail, jobs overrun their requests, requests are zero."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from desim import Result, simulate
from desim.agents.batch import create
from desim.core import Simulation
from desim.problems.batch import AdvanceReservation, BatchCluster, BatchObservation, Job, Node, WaitForCores, WaitUntil
from desim.problems.batch.cores import to_core_ids
from desim.problems.batch.predictors import corrected_end
from desim.processes import Outage, planned_outages

BACKFILLING = ("backfilling", "easy", "easy-specific", "conservative", "conservative-specific")
ORDERS = ("fcfs", "lcfs", "sjf", "f1")


def run(name: str, num_cores: int, jobs: list[Job], outages: list[Outage], **options: Any) -> Result:
    processes = [planned_outages(outages)] if outages else []
    return simulate(BatchCluster(jobs, num_cores, processes=processes, **options), create(name))


class TestOtherCoresFail:
    """As many cores are down as before, but not the same ones."""

    @pytest.mark.parametrize("name", BACKFILLING)
    def test_one_core_comes_back_when_another_fails(self, name: str) -> None:
        jobs = [Job(1, 1.0, 1, 2.0, 2.0), Job(2, 5.0, 1, 2.0, 2.0)]
        table = run(name, 2, jobs, [Outage(0.0, 4.0, cores=[0]), Outage(4.0, math.inf, cores=[1])]).jobs
        assert table["starting_time"].to_list() == [1, 5]
        assert table["allocated_resources"].to_list() == ["1", "0"]

    @pytest.mark.parametrize("name", BACKFILLING)
    def test_that_happens_while_a_job_is_queued(self, name: str) -> None:
        jobs = [Job(1, 1.0, 1, 9.0, 9.0), Job(2, 2.0, 1, 2.0, 2.0)]
        table = run(name, 2, jobs, [Outage(0.0, 4.0, cores=[0]), Outage(4.0, 20.0, cores=[1])], on_outage="lose").jobs
        assert table.select("starting_time", "finish_time", "status").rows() == [(1, 4, "lost"), (4, 6, "completed")]


@pytest.mark.parametrize("name", BACKFILLING)
def test_jobs_that_overrun_delay_others_and_no_longer_than_they_run(name: str) -> None:
    jobs = [Job(3, 0.0, 3, 2.0, 3.0), Job(0, 1.0, 3, 1.0, 3.0), Job(2, 2.0, 1, 2.0, 1.0), Job(1, 3.0, 1, 2.0, 1.0)]
    table = run(name, 3, jobs, [], enforce_time_limit=False).jobs
    assert dict(table.select("job_id", "starting_time").rows()) == {3: 0, 0: 3, 2: 6, 1: 6}


class TestExpectedEndsAreEvents:
    """When a job runs on although it was expected to end, what was planned for then is planned anew."""

    @pytest.mark.parametrize("place", ["cores", "nodes"])
    @pytest.mark.parametrize("name", [name for name in BACKFILLING if "conservative" in name or "easy" in name])
    def test_a_reservation_that_fails_is_made_anew(self, name: str, place: str) -> None:
        """Job 2 was to start at 10, in the way of job 3; job 4 cannot start, and so changes nobody's start."""
        if place == "nodes" and "specific" in name:
            pytest.skip("particular cores are no nodes")
        jobs = [Job(1, 0.0, 1, 10.0, 30.0), Job(2, 1.0, 2, 10.0, 10.0), Job(3, 2.0, 1, 20.0, 5.0)]
        machine: dict[str, Any] = {"num_cores": 2} if place == "cores" else {"nodes": [Node("a", 2)]}
        for more, end in (([], []), ([Job(4, 11.0, 2, 1.0, 1.0)], [40.0])):
            cluster = BatchCluster(jobs + more, **machine, enforce_time_limit=False)
            table = simulate(cluster, create(f"{name}-fcfs")).jobs.sort("job_id")
            assert table["starting_time"].to_list() == [0.0, 30.0, 10.0, *end]

    def test_what_is_cut_when_it_was_expected_to_end_breaks_no_reservation(self) -> None:
        """The window takes the node from job 1 as was planned for; made anew, the plan would put job 3 before job 2."""
        jobs = [Job(1, 0.0, 1, 10.0, 30.0), Job(2, 1.0, 1, 8.0, 8.0), Job(3, 2.0, 1, 2.0, 2.0)]
        reservations = [AdvanceReservation(10.0, 20.0, nodes="all")]
        for goes_on in ({"enforce_time_limit": False}, {"over_time_limit": 20.0}, {}):
            cluster = BatchCluster(jobs, nodes=[Node("a", 1)], reservations=reservations, **goes_on)
            table = simulate(cluster, create("conservative-sjf")).jobs.sort("job_id")
            assert table["starting_time"].to_list() == [30.0 if goes_on else 0.0, 20.0, 28.0]

    @pytest.mark.parametrize("cycle", ["arrival", "instant", "event"])
    @pytest.mark.parametrize("name", ["easy-fcfs", "easy-specific-fcfs", "conservative-fcfs"])
    def test_a_reserved_time_is_corrected_when_it_has_come(self, name: str, cycle: str) -> None:
        """At 100 the first job is expected to end at 160, at 160 at 220, at 220 at 340: now the third ends before.

        With promises, the second job loses its own at 100, and only the third still has one, which moves forward.
        """
        jobs = [Job(1, 0.0, 3, 100.0, 10_000.0), Job(2, 1.0, 4, 100.0, 100.0), Job(3, 2.0, 1, 200.0, 200.0)]
        table = run(name, 4, jobs, [], enforce_time_limit=False, cycle=cycle).jobs.sort("job_id")
        third = 100.0 if "conservative" in name else 340.0
        assert table["starting_time"].to_list() == [0.0, 10_000.0, third]

    def test_corrections_double(self) -> None:
        asked: list[float] = []
        cluster = BatchCluster([Job(1, 0.0, 1, 10.0, 500.0), Job(2, 1.0, 1, 1.0, 1.0)], 1, enforce_time_limit=False)
        simulation = Simulation(cluster)
        decision = simulation.advance()
        assert decision is not None
        decision.answer([0])
        while (decision := simulation.advance()) is not None and decision.observation.time < 500.0:
            asked.append(decision.observation.time)
            decision.answer(None)
        assert asked == [1.0, 10.0, 70.0, 130.0, 250.0, 490.0]
        assert [corrected_end(10.0, now) for now in (9.0, 10.0, 69.0, 70.0, 249.0, 490.0)] == [
            10,
            70,
            70,
            130,
            250,
            970,
        ]

    def test_neither_what_has_been_cut_nor_what_nobody_waits_for_opens_a_cycle(self) -> None:
        asked: list[float] = []

        class Oldest:
            def act(self, observation: BatchObservation) -> list[int | WaitForCores]:
                asked.append(observation.time)
                return [int(observation.queue.row[0])] if observation.free_cores else [WaitForCores(1)]

        jobs = [Job(1, 0.0, 1, 10.0, 200.0), Job(2, 1.0, 1, 10.0, 10.0)]
        outages = [planned_outages([Outage(5.0, 8.0, cores=[0])])]
        table = simulate(BatchCluster(jobs, 1, enforce_time_limit=False, processes=outages), Oldest()).jobs.sort(
            "job_id"
        )
        assert table["starting_time"].to_list() == [8.0, 208.0]
        assert asked == [0.0, 1.0, 5.0, 8.0, 18.0, 208.0]  # not at 10, when job 1 does not run, nor at 78 and 138

    @pytest.mark.parametrize("cycle", ["arrival", "instant", "event"])
    @pytest.mark.parametrize("name", ["easy-fcfs", "easy-specific-fcfs"])
    def test_under_easy_jobs_that_come_last_in_order_change_no_start(self, name: str, cycle: str) -> None:
        """In 13 of 200 such workloads they did when only arrivals and ends were events."""
        overruns = 0
        for seed in range(25):
            rng, time, jobs = Random(seed), 0.0, []
            for number in range(40):
                time += rng.choice((0.0, 1.0, 5.0, 40.0))
                requested = float(rng.randint(1, 60))
                ran = float(rng.choice((requested, rng.randint(0, int(requested)), requested * rng.choice((2, 5, 30)))))
                overruns += ran > requested
                jobs.append(Job(number, time, rng.randint(1, 8), requested, ran))
            more = [Job(1000 + number, time + 1 + 7.0 * number, 8, 1.0, 1.0) for number in range(60)]
            alone, beside = (
                run(name, 8, each, [], enforce_time_limit=False, cycle=cycle).jobs for each in (jobs, jobs + more)
            )
            assert (
                alone.select("job_id", "starting_time")
                .sort("job_id")
                .equals(beside.filter(beside["job_id"] < 1000).select("job_id", "starting_time").sort("job_id"))
            ), seed
        assert overruns > 200


@pytest.mark.parametrize("name", ["easy", "easy-specific"])
def test_a_blocked_job_that_requests_no_time_does_not_keep_others_from_starting(name: str) -> None:
    jobs = [Job(1, 0.0, 1, 10.0, 10.0), Job(2, 0.0, 2, 0.0, 0.0), Job(3, 0.0, 1, 3.0, 3.0)]
    assert run(name, 2, jobs, []).jobs["starting_time"].to_list() == [0, 10, 0]


@pytest.mark.parametrize("name", BACKFILLING)
def test_a_job_that_requests_no_time_needs_cores_all_the_same(name: str) -> None:
    jobs = [Job(1, 1.0, 2, 4.0, 4.0), Job(0, 2.0, 4, 0.0, 1.0), Job(2, 3.0, 3, 1.0, 1.0)]
    table = run(name, 4, jobs, []).jobs
    assert table.filter(table["job_id"] == 0)["starting_time"].to_list() == [5]


class NeverIdle:
    """An agent that must start a job whenever one fits and nothing is running."""

    def __init__(self, name: str) -> None:
        self.agent = create(name)

    def reset(self, info: Any, rng: Any) -> None:
        if hasattr(self.agent, "reset"):
            self.agent.reset(info, rng)

    def act(self, observation: Any) -> Any:
        idle = not len(observation.running) and bool(
            (observation.queue.requested_cores <= observation.free_cores).any()
        )
        state = f"{observation!r}, cores {observation.free_core_set:b} free"
        action = self.agent.act(observation)
        assert not idle or (action and type(action[0]) not in (WaitForCores, WaitUntil)), f"{state}, {action}"
        return action


def disturbed(seed: str) -> tuple[list[Job], int, list[Outage], dict[str, Any]]:
    """Make a small scenario of jobs, outages and options."""
    rng = Random(seed)
    num_cores = rng.randint(1, 6)
    time, jobs = 0.0, []
    for job_id in range(rng.randint(2, 25)):
        time += rng.choice((0, 0, 1, 2, 3))
        jobs.append(Job(job_id, time, rng.randint(1, num_cores), rng.randint(0, 6) * 1.0, rng.randint(0, 8) * 1.0))
    time, outages = 0.0, []
    for _ in range(rng.randint(0, 8)):
        time += rng.randint(0, 6)
        outages.append(Outage(time, time + rng.randint(1, 9), cores=to_core_ids(rng.randrange(1, 1 << num_cores))))
    options = {"enforce_time_limit": rng.random() < 0.5, "on_outage": rng.choice(("requeue", "lose"))}
    return jobs, num_cores, outages, options


@pytest.mark.parametrize("name", [f"{kind}-{order}" for kind in BACKFILLING for order in ORDERS])
def test_whatever_happens_every_job_ends_and_nothing_waits_for_an_idle_machine(name: str) -> None:
    for number in range(50):
        jobs, num_cores, outages, options = disturbed(f"{name} {number}")
        cluster = BatchCluster(jobs, num_cores, processes=[planned_outages(outages)], **options)
        result = simulate(cluster, NeverIdle(name))
        assert set(result.jobs["status"]) <= {"completed", "killed", "lost"}, (
            number,
            jobs,
            num_cores,
            outages,
            options,
        )
        assert len(result.jobs) == len(jobs)


@pytest.mark.parametrize("name", BACKFILLING)
def test_jobs_wider_than_what_is_up_wait_for_the_repair_and_others_do_not(name: str) -> None:
    jobs = [Job(1, 1.0, 2, 5.0, 5.0), Job(2, 1.0, 1, 5.0, 5.0)]
    table = run(name, 2, jobs, [Outage(0.0, 20.0, cores=[1])]).jobs
    assert table["starting_time"].to_list() == [20, 1]


class AskedAlways:
    """An agent that says of nothing what it waits for, and so is asked each time."""

    def __init__(self, name: str) -> None:
        self.agent = create(name)
        self.waits = 0

    def act(self, observation: Any) -> Any:
        answer = self.agent.act(observation)
        starts = [one for one in answer or [] if not isinstance(one, WaitForCores)]
        self.waits += len(answer or []) - len(starts)
        return starts or None


@pytest.mark.parametrize("name", ["fcfs", "lcfs", "sjf", "f3", "wfp3", "backfilling-sjf", "easy", "easy-wfp3"])
def test_questions_that_agents_are_spared_would_change_nothing(name: str) -> None:
    waits = 0
    for number in range(60):
        jobs, num_cores, outages, options = disturbed(f"spared {number}")
        cluster = BatchCluster(jobs, num_cores, too_wide="reject", processes=[planned_outages(outages)], **options)
        asked = AskedAlways(name)
        spared, always = simulate(cluster, create(name)), simulate(cluster, asked)
        for table in spared.table_names:
            assert spared.table(table).equals(always.table(table)), f"scenario {number}"
        waits += asked.waits
    assert waits > 60
