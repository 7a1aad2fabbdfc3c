"""Forks without foresight, forks onto a changed future, and agents that are given forks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import simpy
from dag_scripts import Scripted as ScriptedDag
from dag_scripts import assign, chain, cluster_of, outcomes
from small_agents import FirstFit, Recorder, Scripted, drive, make_jobs, random_jobs
from test_dag_runs import random_jobs as random_dags

from desim import DesimError, InvalidConfiguration, Result, Simulation, simulate
from desim.agents.batch import FCFS, create
from desim.agents.dag import DEFT, EFT, FIFO, HEFT, ListScheduler, RankUp
from desim.core import Decision, Phase, at
from desim.decision_times import DecisionTimes
from desim.problem import Problem
from desim.problems.batch import BatchCluster, Job, WaitUntil
from desim.problems.dag import Assign, DagCluster, Executors, SharedLinks, TaskCluster, TaskTimes
from desim.problems.dag import Job as DagJob
from desim.problems.deferrable import DeferrableCluster
from desim.problems.deferrable import Job as DeferrableJob
from desim.processes import Outage, planned_outages, random_outages, stop_after


def rows(result: Result) -> dict[str, list[Any]]:
    return {name: result.table(name).rows() for name in result.table_names}


def at_decision(problem: Problem, agent: Any, time: float, *, seed: int = 0, until: float = np.inf) -> Simulation:
    """Drive a simulation to the first decision from a time on."""
    simulation = Simulation(problem, seed=seed, until=until)
    while (decision := simulation.advance()) is not None and simulation.env.now < time:
        decision.answer(agent.act(decision.observation))
    assert decision is not None
    return simulation


def answer(simulation: Simulation, action: Any) -> None:
    """Answer the next decision."""
    decision = simulation.advance()
    assert decision is not None
    decision.answer(action)


def ends(simulation: Simulation, agent: Any = None) -> dict[int, tuple[Any, ...]]:
    """Let an agent drive a simulation to its end; return start and finish of the jobs."""
    drive(simulation, agent or FirstFit())
    return {job: times for job, *times in simulation.finish().jobs["job_id", "starting_time", "finish_time"].rows()}


class TestWhatABatchAgentKnows:
    def test_requests_count_and_later_jobs_do_not(self) -> None:
        jobs = [
            Job(1, 0.0, 2, 10.0, 3.0),
            Job(2, 1.0, 1, 4.0, 2.0),
            Job(3, 2.0, 1, 5.0, 99.0),
            Job(4, 2.5, 2, 1.0, 1.0),
        ]
        simulation = at_decision(BatchCluster(jobs, 2), FirstFit(), 2.0)
        copy = simulation.fork(foresight=False)
        assert ends(copy) == {1: [0, 10], 2: [10, 14], 3: [10, 15]}
        assert ends(simulation) == {1: [0, 3], 2: [3, 5], 3: [3, 8], 4: [8, 9]}

    def test_what_has_arrived_now_and_is_not_in_the_queue_yet_is_unknown(self) -> None:
        simulation = Simulation(BatchCluster(make_jobs((0.0, 1, 1.0), (0.0, 1, 1.0)), 1, cycle="arrival"))
        assert simulation.advance() is not None
        assert list(ends(simulation.fork(foresight=False))) == [1]
        assert list(ends(simulation.fork())) == [1, 2]

    def test_a_job_that_is_overdue_ends_when_it_is_expected_to(self) -> None:
        jobs = [Job(1, 0.0, 1, 3.0, 50.0), Job(2, 5.0, 1, 1.0, 1.0), Job(3, 5.0, 2, 1.0, 1.0)]
        simulation = at_decision(BatchCluster(jobs, 2, enforce_time_limit=False), FirstFit(), 5.0)
        copy = simulation.fork(foresight=False)
        assert ends(copy) == {1: [0, 63], 2: [5, 6], 3: [63, 64]}
        statuses = copy.finish().jobs["status"].to_list()
        assert statuses == ["completed"] * 3

    def test_cores_that_are_down_stay_down_and_those_that_will_fail_do_not(self) -> None:
        outages = [Outage(1.0, 6.0, cores=[0]), Outage(8.0, 9.0, cores=[1])]
        jobs = make_jobs((0.0, 1, 20.0), (2.0, 1, 3.0), (2.5, 2, 1.0))
        cluster = BatchCluster(jobs, 2, processes=[planned_outages(outages)])
        simulation = at_decision(cluster, FirstFit(), 2.5)
        assert ends(simulation.fork(foresight=False), create("easy")) == {1: [1, 21], 2: [21, 24], 3: [None, None]}

    def test_a_cut_job_starts_afresh_for_as_long_as_it_requests(self) -> None:
        jobs = [Job(1, 0.0, 2, 9.0, 5.0), Job(2, 2.0, 1, 1.0, 1.0)]
        cluster = BatchCluster(jobs, 2, processes=[planned_outages([Outage(1.0, 1.5, cores=[1])])])
        simulation = at_decision(cluster, FirstFit(), 2.0)
        copy = simulation.fork(foresight=False)
        assert ends(copy) == {1: [1.5, 10.5], 2: [10.5, 11.5]}
        assert copy.finish().jobs["attempts"].to_list() == [2, 1]

    def test_wake_ups_that_were_asked_for_remain(self) -> None:
        jobs = make_jobs((0.0, 1, 9.0), (1.0, 1, 4.0), (50.0, 1, 1.0))
        agent = Recorder(Scripted([0, WaitUntil(20.0), WaitUntil(12.0)], FirstFit()))
        simulation = Simulation(BatchCluster(jobs, 2))
        drive(simulation, agent, 2)
        simulation.advance()
        copy = simulation.fork(foresight=False)
        again = Recorder(Scripted([WaitUntil(12.0)]))
        drive(copy, again)
        assert [time for time, *_ in again.seen] == [9, 12, 20]

    def test_there_is_no_until_and_no_end_that_a_process_makes(self) -> None:
        cluster = BatchCluster(make_jobs((0.0, 1, 9.0), (1.0, 1, 9.0)), 1, processes=[stop_after("start", 2)])
        simulation = at_decision(cluster, FirstFit(), 1.0, until=11.0)
        copy, started = simulation.fork(foresight=False), []
        copy.problem.on("start", lambda time, execution: started.append(time))
        assert ends(copy) == {1: [0, 9], 2: [9, 18]}
        assert (copy.end_time, copy.finish().info["until"], started) == (18, None, [9])
        assert ends(simulation.fork()) == {1: [0, 9], 2: [9, None]}

    def test_the_system_may_be_empty(self) -> None:
        cluster = BatchCluster(make_jobs((0.0, 1, 1.0), (5.0, 1, 1.0)), 1, ask_when_empty=True)
        simulation = at_decision(cluster, FirstFit(), 1.0)
        copy = simulation.fork(foresight=False)
        assert drive(copy, FirstFit()) == 1
        assert copy.finish().jobs["job_id"].to_list() == [1]

    @pytest.mark.parametrize("name", ["fcfs", "easy-sjf", "backfilling-f1", "conservative"])
    def test_who_knows_all_sees_what_will_happen(self, name: str) -> None:
        jobs = [job._replace(run_time=job.requested_time) for job in random_jobs(40, 6, seed=3)]
        simulation, agent = Simulation(BatchCluster(jobs, 6)), create(name)
        whole = rows(simulate(BatchCluster(jobs, 6), create(name)))
        compared = 0
        while (decision := simulation.advance()) is not None:
            if simulation.env.now > jobs[-1].submission_time:
                copy = simulation.fork(foresight=False)
                drive(copy, create(name))
                assert rows(copy.finish()) == whole
                compared += 1
            decision.answer(agent.act(decision.observation))
        assert compared > 5

    @pytest.mark.parametrize("seed", range(6))
    def test_the_future_makes_no_difference(self, seed: int) -> None:
        rng = Random(seed)
        jobs = random_jobs(60, 6, seed=seed)
        now = jobs[rng.randrange(20, 40)].submission_time
        outages = [Outage(10.0 * k, 10.0 * k + rng.uniform(2.0, 30.0), cores=[rng.randrange(6)]) for k in range(1, 40)]
        cluster = BatchCluster(jobs, 6, processes=[planned_outages(outages)])
        simulation = at_decision(cluster, create("easy"), now)
        now = simulation.env.now
        past = [outage for outage in outages if outage.start <= now]
        result = simulation.fork().finish()
        ended = result.jobs.filter(status="completed")["job_id"].to_list()
        waiting = result.jobs.filter(status="queued", attempts=0)["job_id"].to_list()
        assert len(ended) > 10 and len(waiting) > 2
        other_jobs = [
            job
            if job.job_id in ended
            else job._replace(run_time=rng.uniform(0.0 if job.job_id in waiting else job.run_time, job.requested_time))
            for job in jobs
            if job.submission_time <= now
        ]
        if seed % 2:
            past = [replace(o, end=o.end + 5.0) if o.end > now else o for o in past]
            other_jobs += [Job(900, now + 0.5, 6, 3.0, 3.0)]
        other = BatchCluster(other_jobs, 6, processes=[planned_outages(past), random_outages(1e9, 1.0)])
        twin = at_decision(other, create("easy"), now)
        assert twin.actions == simulation.actions
        one, two = (each.fork(foresight=False) for each in (simulation, twin))
        for each in (one, two):
            drive(each, create("easy"))
        assert rows(one.finish()) == rows(two.finish())

    def test_forks_of_forks(self) -> None:
        jobs = random_jobs(30, 4, seed=2)
        simulation = at_decision(BatchCluster(jobs, 4), FirstFit(), jobs[15].submission_time)
        copy = simulation.fork(foresight=False)
        for again in (copy.fork(), copy.fork(foresight=False)):
            drive(again, FirstFit(), 5)
            again.advance()
            third = again.fork()
            drive(again, FirstFit())
            drive(third, FirstFit())
            assert rows(third.finish()) == rows(again.finish())
        drive(copy, FirstFit())
        assert rows(copy.finish()) == rows(again.finish())
        assert copy.problem.jobs == ()  # type: ignore[attr-defined]

    def test_one_may_add_what_one_does_know(self) -> None:
        cluster = BatchCluster(make_jobs((0.0, 1, 5.0), (1.0, 2, 1.0), (99.0, 1, 1.0)), 2)
        copy = at_decision(cluster, FirstFit(), 1.0).fork(foresight=False)
        copy.env.process(planned_outages([Outage(5.0, 8.0, cores=[1])])(copy.problem))  # type: ignore[arg-type]
        copy.env.process(random_outages(1000.0, 1.0)(copy.problem))  # type: ignore[arg-type]  # goes on without end
        assert ends(copy) == {1: [0, 5], 2: [8, 9]}


def dag_rows(copy: Simulation, agent: Any) -> dict[str, list[Any]]:
    agent.reset(copy.problem.describe(), np.random.default_rng(0))
    drive(copy, agent)
    return rows(copy.finish())


class TestWhatADagAgentKnows:
    AGENTS: tuple[Callable[[], Any], ...] = (
        lambda: ListScheduler(RankUp(), DEFT()),
        lambda: ListScheduler(FIFO(), EFT(), only_idle=True),
        HEFT,
    )

    @pytest.mark.parametrize("make", AGENTS)
    @pytest.mark.parametrize("shared", [False, True])
    def test_who_knows_all_sees_what_will_happen(self, make: Callable[[], Any], shared: bool) -> None:
        options: dict[str, Any] = {"transfers": "when_assigned", "links": SharedLinks.bus(3, 1.0)} if shared else {}
        problem = DagCluster(list(random_dags(6)), Executors([1, 1.5, 2], 1.5, 0.1), plan_ahead=make is HEFT, **options)
        whole = rows(simulate(problem, make()))
        last = max(job.submission_time for job in problem.jobs)
        simulation = Simulation(problem)
        agent = make()
        agent.reset(simulation.problem.describe(), np.random.default_rng(0))
        seen = 0
        while (decision := simulation.advance()) is not None:
            if simulation.env.now >= last:
                copy = simulation.fork(foresight=False)
                if not (seen or agent._heap):  # the agent has nothing in mind, so that a new one will do
                    assert dag_rows(copy, make()) == whole
                seen += 1
            decision.answer(agent.act(decision.observation))
        assert seen > 1

    @pytest.mark.parametrize("kind", ["direct", "shared", "tasks"])
    def test_answers_of_the_run_give_the_run(self, kind: str) -> None:
        executors = Executors([1, 2], 1.0)
        options: dict[str, Any] = {"links": SharedLinks.bus(2, 0.5)} if kind == "shared" else {}
        problem = DagCluster(list(random_dags(8)), executors, transfers="when_assigned", **options)
        if kind == "tasks":
            problem = TaskCluster(list(random_dags(4, tasks=True)), executors, moving_delay=1.5)
        simulation, agent = Simulation(problem), ListScheduler(FIFO(), EFT() if kind == "tasks" else DEFT())
        copies: list[tuple[int, Simulation]] = []
        last = max(job.submission_time for job in problem.jobs)
        while (decision := simulation.advance()) is not None:
            assert simulation.actions is not None
            if simulation.env.now >= last:
                copies.append((len(simulation.actions), simulation.fork(foresight=False)))
            decision.answer(agent.act(decision.observation))
        assert len(copies) > 3 and simulation.actions is not None
        whole = rows(simulation.finish())
        for number, copy in copies:
            for answer in simulation.actions[number:]:
                decision = copy.advance()
                assert decision is not None
                decision.answer(answer)
            assert copy.advance() is None
            assert rows(copy.finish()) == whole

    def test_later_jobs_and_repairs_are_unknown(self) -> None:
        jobs = [chain(job_id=1, work=4.0), chain(job_id=2, submission_time=1.0), chain(job_id=3, submission_time=1.5)]
        script = [(0.0, assign((0, 0))), (1.0, None), (4.0, assign((0, 0), job_id=2))]
        cluster = cluster_of(jobs, outages=[Outage(0.5, 2.0, executors=[1]), Outage(3.0, 3.5, executors=[0])])
        simulation = at_decision(cluster, ScriptedDag(script), 1.0)
        copy, agent = simulation.fork(foresight=False), ScriptedDag(script[1:])
        drive(copy, agent)
        assert agent.seen == [(1, [(2, 0)]), (4, [(2, 0)])]
        assert outcomes(copy.finish()) == [(1, 0, 0, 0, 4, "completed"), (2, 0, 0, 4, 5, "completed")]

    def test_tasks_take_as_long_as_expected(self) -> None:
        times = TaskTimes([1], [[2.0]], [[2.0]], [[8.0]])  # 5 in the mean, 2 first and 8 later
        job = DagJob(1, [10.0], num_tasks=[2], task_times=[times])
        later = DagJob(2, [1.0], submission_time=1.0)
        overdue = DagJob(3, [1.0], submission_time=8.5)
        cluster = TaskCluster([job, later, overdue], Executors([1.0, 1.0]))
        agent = ScriptedDag([(0.0, [Assign(1, 0, 0), Assign(1, 0, 0)])])
        simulation = at_decision(cluster, agent, 1.0)
        finishes = [(1, 0, 0, 0, 5, "completed"), (1, 0, 0, 5, 10, "completed")]
        for number, expected in ((1, finishes), (2, [(1, 0, 0, 0, 2, "completed"), (1, 0, 0, 2, 7, "completed")])):
            copy = simulation.fork(foresight=False)
            drive(copy, ScriptedDag([]))
            assert outcomes(copy.finish())[:2] == expected, number
            decision = simulation.advance()
            assert decision is not None
            decision.answer(None)
            simulation.advance()
        assert simulation.env.now == 8.5  # 2 + 8 is the true end, 2 + 5 has passed
        copy = simulation.fork(foresight=False)
        drive(copy, ScriptedDag([]))
        assert outcomes(copy.finish())[:2] == [(1, 0, 0, 0, 2, "completed"), (1, 0, 0, 2, 8.5, "completed")]

    @pytest.mark.parametrize("number", range(4))
    def test_what_will_be_drawn_makes_no_difference(self, number: int) -> None:
        jobs, executors = list(random_dags(4, number, tasks=True, measured=True)), Executors([1, 1.5, 2], 1.5, 0.1)
        simulations = [Simulation(TaskCluster(jobs, executors), seed=seed) for seed in (1, 2)]
        known, true = [], []
        for simulation in simulations:
            assert simulation.advance() is not None
            known.append(dag_rows(simulation.fork(foresight=False), ListScheduler(FIFO(), EFT())))
            true.append(dag_rows(simulation.fork(), ListScheduler(FIFO(), EFT())))
        assert known[0] == known[1]
        assert true[0] != true[1]

    @pytest.mark.parametrize("seed", range(4))
    def test_the_future_makes_no_difference(self, seed: int) -> None:
        jobs = list(random_dags(14, seed))
        executors = Executors([1, 1.5, 2], 1.5, 0.1)
        outages = [Outage(6.0 * k, 6.0 * k + 4.0 + seed, executors=[k % 3]) for k in range(1, 20)]
        agent = ListScheduler(FIFO(), EFT())
        now = jobs[7].submission_time
        simulation = at_decision(DagCluster(jobs, executors, processes=[planned_outages(outages)]), agent, now)
        now = simulation.env.now
        past = [replace(outage, end=1e6) if outage.end > now else outage for outage in outages if outage.start <= now]
        other = DagCluster(
            [job for job in jobs if job.submission_time <= now], executors, processes=[planned_outages(past)]
        )
        twin = at_decision(other, ListScheduler(FIFO(), EFT()), now)
        assert twin.actions == simulation.actions
        one, two = (dag_rows(each.fork(foresight=False), ListScheduler(FIFO(), EFT())) for each in (simulation, twin))
        assert one == two


class TestRefusals:
    def test_a_problem_that_does_not_say_what_agents_know(self) -> None:
        cluster = DeferrableCluster([DeferrableJob(1, 0, 0, 3, 1, 1)], [2])
        simulation = Simulation(cluster)
        assert simulation.advance() is not None
        with pytest.raises(InvalidConfiguration, match="problem 'deferrable' does not support forks without foresight"):
            simulation.fork(foresight=False)

    @pytest.mark.parametrize("options", [{"foresight": False}, {"problem": BatchCluster([], 1)}])
    def test_where_no_decision_is_due(self, options: dict[str, Any]) -> None:
        simulation = Simulation(BatchCluster(make_jobs((3.0, 1, 1.0)), 1))
        with pytest.raises(InvalidConfiguration, match=r"no decision is due at time 0\.?0?: .* call advance"):
            simulation.fork(**options)

    def test_a_run_that_has_ended_with_a_decision_unanswered(self) -> None:
        def stop(cluster: BatchCluster) -> Generator[simpy.Event, None, None]:
            yield at(cluster.env, 3.0, Phase.SLOT)
            cluster.simulation.stop()

        def cluster() -> BatchCluster:
            return BatchCluster(make_jobs((1.0, 1, 1.0), (3.0, 1, 1.0)), 1, processes=[stop])

        simulation = Simulation(cluster())
        drive(simulation, FirstFit())
        fork = simulation.fork()
        assert fork.advance() is None
        assert rows(fork.finish()) == rows(simulation.finish())
        for options in ({"foresight": False}, {"problem": cluster()}):
            with pytest.raises(
                InvalidConfiguration, match=r"the run has ended at time 3\.0 s, so it has no other future"
            ):
                simulation.fork(**options)

    def test_a_changed_future_that_nobody_knows(self) -> None:
        simulation = at_decision(BatchCluster(make_jobs((3.0, 1, 1.0)), 1), FirstFit(), 3.0)
        with pytest.raises(InvalidConfiguration, match="pass only one of them to fork"):
            simulation.fork(problem=simulation.problem, foresight=False)

    def test_iterators(self) -> None:
        simulation = Simulation(BatchCluster(iter(make_jobs((0.0, 1, 1.0))), 1))
        simulation.advance()
        with pytest.raises(InvalidConfiguration, match="pass a list to be able to fork"):
            simulation.fork(foresight=False)
        whole = at_decision(BatchCluster(make_jobs((0.0, 1, 1.0)), 1), FirstFit(), 0.0)
        with pytest.raises(InvalidConfiguration, match="pass a list to be able to fork"):
            whole.fork(problem=BatchCluster(iter(make_jobs((0.0, 1, 1.0))), 1))


class TestChangedFutures:
    JOBS = random_jobs(40, 4, seed=5)
    NOW = JOBS[20].submission_time

    def simulation(self) -> Simulation:
        return at_decision(BatchCluster(self.JOBS, 4), FirstFit(), self.NOW)

    def test_a_further_job_an_outage_other_run_times(self) -> None:
        more = sorted([*self.JOBS, Job(99, self.NOW + 3.0, 4, 30.0, 30.0)], key=lambda job: job.submission_time)
        longer = [job if job.submission_time < self.NOW else job._replace(requested_time=40.0) for job in self.JOBS]
        outage = planned_outages([Outage(self.NOW + 1.0, self.NOW + 60.0, cores=[0, 1])])
        plain = rows(simulate(BatchCluster(self.JOBS, 4), FirstFit()))
        for other in (
            BatchCluster(more, 4),
            BatchCluster(longer, 4),
            BatchCluster(self.JOBS[:30], 4),
            BatchCluster(self.JOBS, 4, processes=[outage]),
        ):
            fork = self.simulation().fork(problem=other)
            assert fork.env.now == self.NOW
            drive(fork, FirstFit())
            changed = rows(fork.finish())
            assert changed == rows(simulate(other, FirstFit())) != plain

    def test_forks_of_such_forks_have_the_changed_future(self) -> None:
        fork = self.simulation().fork(problem=BatchCluster(self.JOBS[:30], 4))
        drive(fork, FirstFit(), 3)
        again = fork.fork()
        assert list(ends(again)) == list(ends(fork)) == [job.job_id for job in self.JOBS[:30]]

    def test_dags(self) -> None:
        jobs = list(random_dags(8))
        simulation = at_decision(cluster_of(jobs[:6]), ListScheduler(FIFO()), jobs[4].submission_time)
        fork = simulation.fork(problem=cluster_of(jobs))
        whole = simulate(cluster_of(jobs), ListScheduler(FIFO()))
        agent = ListScheduler(FIFO())
        assert dag_rows(fork, agent) == rows(whole)

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            (
                BatchCluster(make_jobs((0.0, 1, 9.0), (1.0, 1, 9.0)), 2),
                r"decision 3 was due at 2\.0 s, and now no decision is",
            ),
            (
                BatchCluster(make_jobs((0.0, 1, 9.0), (1.0, 1, 9.0), (2.0, 2, 1.0), (3.0, 1, 1.0), (4.0, 1, 1.0)), 2),
                r"decision 4 was due at 4\.0 s, and now at 3\.0 s; the workload .* has another past",
            ),
            (
                BatchCluster(make_jobs((0.0, 2, 9.0), (1.0, 1, 9.0), (2.0, 2, 1.0), (4.0, 1, 1.0)), 2),
                r"the earlier answer cannot be carried out \(time 1\.0: job 2 cannot start: it requests 1 cores",
            ),
        ],
    )
    def test_another_past(self, other: BatchCluster, message: str) -> None:
        jobs = make_jobs((0.0, 1, 9.0), (1.0, 1, 9.0), (2.0, 2, 1.0), (4.0, 1, 1.0))
        simulation = at_decision(BatchCluster(jobs, 2), FirstFit(), 4.0)
        with pytest.raises(DesimError, match=message):
            simulation.fork(problem=other)

    def test_another_past_of_slots(self) -> None:
        jobs = [DeferrableJob(1, 0.0, 0, 0, 2, 2.0)]
        simulation = Simulation(DeferrableCluster(jobs, [2.0], num_slots=3))
        answer(simulation, [0])
        simulation.advance()
        with pytest.raises(DesimError, match="the earlier answer cannot be carried out"):
            simulation.fork(problem=DeferrableCluster(jobs, [1.0], num_slots=3, overcommit=False))

    def test_a_process_that_cannot_be_replayed(self) -> None:
        calls = iter(range(99))

        def submit_later_every_time(cluster: Any) -> Generator[simpy.Event, Any, None]:
            yield cluster.env.timeout(1.0 + next(calls))
            cluster.submit(Job(7, cluster.env.now, 1, 1.0, 1.0))
            yield cluster.env.timeout(99.0)

        cluster = BatchCluster(make_jobs((0.0, 1, 0.5), (5.0, 1, 1.0)), 1, processes=[submit_later_every_time])
        simulation = at_decision(cluster, FirstFit(), 5.0)
        with pytest.raises(DesimError, match="not reproducible"):
            simulation.fork()


class Looking:
    """Looks at what would come at each decision, and answers as another agent."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.calls: list[str] = []
        self.expected: list[float] = []

    def attach(self, fork: Callable[[], Simulation]) -> None:
        self.calls.append("attach")
        self.fork = fork

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        self.calls.append("reset")

    def act(self, observation: Any) -> Any:
        copy = self.fork()
        decision = copy.advance()
        assert isinstance(decision, Decision)
        assert copy.env.now == observation.time
        assert decision.observation is not observation
        drive(copy, FirstFit())
        self.expected.append(copy.end_time)
        return self.agent.act(observation)


class TestAgentsThatLookAhead:
    def test_they_are_given_forks_first(self) -> None:
        agent = Looking(FirstFit())
        simulate(BatchCluster([Job(1, 0.0, 1, 9.0, 1.0), Job(2, 0.5, 1, 5.0, 1.0)], 1), agent)
        assert agent.calls == ["attach", "reset"]
        assert agent.expected == [9, 14, 6]

    def test_nobody_notices(self) -> None:
        def run(agent: Any) -> tuple[dict[str, list[Any]], list[tuple[float, str, Any]]]:
            heard: list[tuple[float, str, Any]] = []
            jobs = random_jobs(40, 4, seed=1)
            cluster = BatchCluster(jobs, 4, processes=[random_outages(40.0, 4.0), stop_after("completion", 30)])
            for event in cluster.events:
                cluster.on(event, lambda time, subject, event=event: heard.append((time, event, str(subject)[:20])))
            return rows(simulate(cluster, agent, seed=4)), [entry[:2] for entry in heard]

        assert run(Looking(FirstFit())) == run(FirstFit())

    def test_wrappers_pass_forks_on(self) -> None:
        agent = Looking(FirstFit())
        timed = DecisionTimes(agent)
        simulate(BatchCluster(make_jobs((0.0, 1, 1.0)), 1), timed)
        assert agent.calls == ["attach", "reset"]
        assert not hasattr(DecisionTimes(FCFS()), "attach")

    def test_actions_are_logged_for_them_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        logs = []
        original = Simulation.finish
        monkeypatch.setattr(
            Simulation, "finish", lambda self, **names: (logs.append(self.actions), original(self, **names))[1]
        )
        for agent in (FirstFit(), Looking(FirstFit())):
            simulate(BatchCluster(make_jobs((0.0, 1, 1.0)), 1), agent)
        assert logs == [None, [0]]

    def test_a_stream_is_refused_before_the_run(self) -> None:
        def stream() -> Iterator[Job]:
            raise AssertionError("nothing should be read")
            yield

        with pytest.raises(InvalidConfiguration, match="pass a list to be able to fork"):
            simulate(BatchCluster(stream(), 1), Looking(FirstFit()))

    def test_results_can_be_pickled(self) -> None:
        result = simulate(BatchCluster(make_jobs((0.0, 1, 1.0)), 1), Looking(FirstFit()))
        assert pickle.loads(pickle.dumps(result)).jobs.equals(result.jobs)


class TestWays:
    """Forks copy the state; where processes are generators that cannot be copied, the past is replayed."""

    @pytest.mark.parametrize("foresight", [True, False])
    def test_a_copy_goes_on_as_a_replay_does(self, foresight: bool) -> None:
        jobs = random_jobs(120, 8)
        simulation = Simulation(BatchCluster(jobs, 8))
        for _ in range(40):
            agent = create("easy")
            drive(simulation, agent, 3)
            assert simulation.advance() is not None
            copied = simulation.fork(foresight=foresight)
            replayed = simulation.fork(problem=BatchCluster(jobs, 8))
            if not foresight:
                replayed = replayed.fork(foresight=False)
            assert (copied.replayed, copied.env.now) == (False, simulation.env.now)
            assert ends(copied, create("easy")) == ends(replayed, create("easy"))

    def test_what_is_recorded_elsewhere_so_far_is_part_of_a_copy(self, tmp_path: Path) -> None:
        jobs = random_jobs(3_000, 8)
        simulation = Simulation(BatchCluster(jobs, 8), out=tmp_path / "run")
        drive(simulation, FirstFit(), 5_500)
        copy = simulation.fork()
        assert not copy.replayed
        for each in (simulation, copy):
            drive(each, FirstFit())
        assert copy.finish().jobs.equals(simulation.finish().jobs)

    def test_processes_of_which_nothing_is_known_are_replayed(self) -> None:
        outage = planned_outages([Outage(50.0, 60.0, cores=[0])])
        for processes, replayed in (((), False), ((outage,), True)):
            simulation = Simulation(BatchCluster(random_jobs(20, 4), 4, processes=processes))
            drive(simulation, FirstFit(), 5)
            assert simulation.fork().replayed == replayed

    def test_a_cluster_of_ones_own_is_replayed(self) -> None:
        class Own(BatchCluster):
            pass

        simulation = Simulation(Own(random_jobs(20, 4), 4))
        drive(simulation, FirstFit(), 5)
        assert simulation.fork().replayed

    def test_so_are_callbacks_of_ones_own(self) -> None:
        simulation = Simulation(BatchCluster(random_jobs(20, 4), 4))
        heard: list[float] = []
        simulation.problem.on("start", lambda time, execution: execution.callbacks.append(lambda _: heard.append(time)))
        drive(simulation, FirstFit(), 9)
        fork, before = simulation.fork(), len(heard)
        assert fork.replayed
        drive(fork, FirstFit())
        assert len(heard) == before
