"""The loop: decisions, random streams, forks, problems that serve many runs."""

from __future__ import annotations

import copy
from collections.abc import Generator
from typing import Any

import numpy as np
import polars as pl
import pytest
import simpy
from polars.testing import assert_frame_equal
from small_agents import FirstFit, Scripted, drive, make_jobs, random_jobs

from desim import DesimError, InvalidConfiguration, Result, Simulation, WorkloadError, simulate
from desim.agents.batch import FCFS, create
from desim.core import run_to_end
from desim.problem import Problem
from desim.problems.batch import BatchCluster, Job
from desim.processes import random_outages


def assert_same(first: Result, second: Result) -> None:
    assert first.table_names == second.table_names
    for name in first.table_names:
        assert_frame_equal(first.table(name), second.table(name))


class TestDecisions:
    def test_an_unanswered_decision_is_returned_again(self) -> None:
        simulation = Simulation(BatchCluster(make_jobs((2.0, 1, 1.0)), 1))
        first = simulation.advance()
        assert first is not None
        assert simulation.advance() is first
        assert simulation.env.now == 2

    def test_an_answer_is_given_once(self) -> None:
        simulation = Simulation(BatchCluster(make_jobs((0.0, 1, 1.0), (3.0, 1, 1.0)), 1))
        decision = simulation.advance()
        assert decision is not None
        decision.answer(0)
        with pytest.raises(DesimError, match="once"):
            decision.answer(0)

    def test_nothing_is_due_after_the_end(self) -> None:
        simulation = Simulation(BatchCluster(make_jobs((0.0, 1, 1.0)), 1))
        assert drive(simulation, FirstFit()) == 1
        assert simulation.advance() is None
        assert simulation.advance() is None

    def test_the_observation_is_live_and_read_only(self) -> None:
        simulation = Simulation(BatchCluster(make_jobs((0.0, 1, 5.0), (1.0, 2, 3.0)), 2))
        decision = simulation.advance()
        assert decision is not None
        observation = decision.observation
        with pytest.raises(ValueError, match="read-only"):
            observation.queue.requested_time[0] = 1.0
        assert (observation.time, observation.free_cores, observation.free_core_set) == (0, 2, 3)
        decision.answer(0)
        decision = simulation.advance()
        assert decision is not None
        assert (observation.time, observation.free_cores, observation.free_core_set) == (1, 1, 2)
        assert observation.queue.row.tolist() == [1]
        assert observation.running.row.tolist() == [0]
        assert observation.running.expected_end.tolist() == [5]
        assert observation.core_set_of(0) == 1
        assert observation.remaining_times().tolist() == [4, 0]

    def test_the_observation_does_not_tell_actual_run_times(self) -> None:
        simulation = Simulation(BatchCluster([Job(1, 0.0, 1, 100.0, 1.25)], 1))
        decision = simulation.advance()
        assert decision is not None
        public = {name: getattr(decision.observation, name) for name in dir(decision.observation) if name[0] != "_"}
        names = [name for name in dir(public["queue"]) if name[0] != "_" and name != "job_id"]
        queue = {name: getattr(decision.observation.queue, name) for name in names}
        assert "run_time" not in queue
        assert not any(isinstance(value, np.ndarray) and 1.25 in value for value in (queue | public).values())


class TestLists:
    """An agent that knows several actions at once answers with a list."""

    jobs = make_jobs((0.0, 1, 5.0), (0.0, 1, 5.0), (0.0, 1, 5.0))

    def test_a_list_is_carried_out_in_order_and_ends_the_cycle(self) -> None:
        agent = Scripted([[2, 0]], then=FirstFit())
        table = simulate(BatchCluster(self.jobs, 3), agent).jobs
        assert table["starting_time"].to_list() == [0, 5, 0]
        assert table["allocated_resources"].to_list()[0::2] == ["1", "0"]

    def test_none_ends_a_list_early(self) -> None:
        agent = Scripted([[1, None, 0]], then=FirstFit())
        assert simulate(BatchCluster(self.jobs, 3), agent).jobs["starting_time"].to_list() == [5, 0, 5]

    def test_an_empty_list_waits(self) -> None:
        agent = Scripted([[], [0]], then=FirstFit())
        jobs = [*self.jobs, Job(4, 2.0, 1, 1.0, 1.0)]
        assert simulate(BatchCluster(jobs, 3), agent).jobs["starting_time"].to_list() == [2, 7, 7, 7]


class TestStreams:
    def test_a_stream_depends_on_seed_and_name_only(self) -> None:
        def draw(seed: int, name: str) -> list[float]:
            return Simulation(BatchCluster([], 1), seed=seed).stream(name).random(4).tolist()

        simulation = Simulation(BatchCluster([], 1), seed=5)
        simulation.stream("other").random(100)
        assert simulation.stream("agent").random(4).tolist() == draw(5, "agent") == draw(5, "agent")
        assert (
            len({tuple(draw(seed, name)) for seed in (5, 6) for name in ("agent", "agents", "gaent", "outages")}) == 8
        )

    def test_the_agent_draws_from_a_stream_of_its_own(self) -> None:
        class Asking(FirstFit):
            def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
                self.info, self.drawn = info, rng.random()

        first, second, other = Asking(), Asking(), Asking()
        problem = BatchCluster(make_jobs((0.0, 1, 1.0)), 3)
        for agent, seed in ((first, 1), (second, 1), (other, 2)):
            simulate(problem, agent, seed=seed)
        assert first.drawn == second.drawn != other.drawn
        assert first.info["num_cores"] == 3

    def test_outages_do_not_depend_on_the_agent(self) -> None:
        def outages(agent: Any) -> pl.DataFrame:
            cluster = BatchCluster(random_jobs(60, 8), 8, processes=[random_outages(15.0, 4.0)])
            return simulate(cluster, agent, seed=3).table("outages")

        first, second = outages(FirstFit()), outages(create("easy-sjf"))
        length = min(len(first), len(second))
        assert length > 20
        assert_frame_equal(first[:length], second[:length])


class TestForks:
    @staticmethod
    def cluster() -> BatchCluster:
        return BatchCluster(random_jobs(80, 6), 6, processes=[random_outages(60.0, 5.0, unit=2)])

    @pytest.mark.parametrize("decisions", [0, 1, 7, 100])
    def test_a_fork_goes_on_to_the_same_result(self, decisions: int) -> None:
        simulation = Simulation(self.cluster(), seed=9)
        drive(simulation, FirstFit(), decisions)
        fork = simulation.fork()
        assert fork.env.now <= simulation.env.now
        assert drive(fork, FirstFit()) == drive(simulation, FirstFit())
        assert_same(fork.finish(), simulation.finish())

    def test_a_fork_is_independent(self) -> None:
        simulation, untouched = Simulation(self.cluster(), seed=9), Simulation(self.cluster(), seed=9)
        drive(simulation, FirstFit(), 30)
        drive(untouched, FirstFit())
        fork = simulation.fork()
        drive(fork, create("backfilling-sjf"))
        drive(simulation, FirstFit())
        expected = untouched.finish()
        assert_same(simulation.finish(), expected)
        assert not fork.finish().jobs.equals(expected.jobs)

    def test_a_fork_of_a_decision_that_is_due_has_it_due_too(self) -> None:
        simulation = Simulation(self.cluster(), seed=9)
        drive(simulation, FirstFit(), 10)
        decision = simulation.advance()
        fork = simulation.fork()
        other = fork.advance()
        assert decision is not None
        assert other is not None
        assert other is not decision
        assert fork.env.now == simulation.env.now
        assert other.observation.queue.row.tolist() == decision.observation.queue.row.tolist()
        other.answer(None)
        assert simulation.advance() is decision

    def test_a_fork_can_be_forked(self) -> None:
        simulation = Simulation(self.cluster(), seed=9)
        drive(simulation, FirstFit(), 20)
        fork = simulation.fork()
        drive(fork, FirstFit(), 20)
        again = fork.fork()
        for each in (simulation, fork, again):
            drive(each, FirstFit())
        result = simulation.finish()
        assert_same(fork.finish(), result)
        assert_same(again.finish(), result)

    def test_a_fork_has_no_listeners(self) -> None:
        heard: list[float] = []
        cluster = self.cluster()
        cluster.on("start", lambda time, execution: heard.append(time))
        simulation = Simulation(cluster, seed=9)
        drive(simulation, FirstFit(), 20)
        count = len(heard)
        drive(simulation.fork(), FirstFit())
        assert len(heard) == count > 0
        drive(simulation, FirstFit())
        assert len(heard) > count

    def test_an_iterator_can_be_read_only_once(self) -> None:
        simulation = Simulation(BatchCluster(iter(random_jobs(5, 2)), 2))
        simulation.advance()
        with pytest.raises(InvalidConfiguration, match="iterator"):
            simulation.fork()

    def test_without_a_log_of_actions_there_is_nothing_to_replay(self) -> None:
        simulation = Simulation(BatchCluster(random_jobs(5, 2), 2), log_actions=False)
        assert simulation.actions is None
        with pytest.raises(InvalidConfiguration, match="log_actions"):
            simulation.fork()


@pytest.mark.parametrize("name", ["sjf", "easy-fcfs", "rollout:fcfs", "window-random-4-0"])
def test_a_simulation_whose_records_stay_open_ends_as_any(name: str) -> None:
    jobs = random_jobs(40, 8)
    cluster, ends = BatchCluster(jobs, 8), list[float]()
    cluster.on("completion", lambda time, execution: ends.append(time))
    simulation = run_to_end(cluster, create(name))
    result = simulate(BatchCluster(jobs, 8), create(name))
    assert simulation.end_time == ends[-1] == result.jobs["finish_time"].max()
    assert ends == sorted(result.jobs["finish_time"])
    assert simulation.finish().jobs.equals(result.jobs)


class TestArguments:
    @pytest.mark.parametrize("seed", [-1, 1.5, "x", None])
    def test_seeds_out_of_range(self, seed: Any) -> None:
        with pytest.raises(InvalidConfiguration, match=r"seed: got .*, expected an integer >= 0"):
            Simulation(BatchCluster([], 1), seed=seed)

    def test_seeds_of_numpy(self) -> None:
        values = [Simulation(BatchCluster([], 1), seed=seed).stream("x").random() for seed in (3, np.int64(3))]
        assert values[0] == values[1]


class TestProblems:
    def test_one_problem_serves_many_runs_and_does_not_change(self) -> None:
        problem = BatchCluster(random_jobs(40, 4), 4)
        before = copy.deepcopy(problem)
        first, second = simulate(problem, FCFS()), simulate(problem, FCFS())
        assert_same(first, second)
        values, resources = vars(problem), vars(problem.resources)
        assert resources == vars(before.resources)
        assert values == vars(before) | {"resources": problem.resources}

    def test_runs_may_take_turns(self) -> None:
        problem = BatchCluster(random_jobs(40, 4), 4)
        one, two = Simulation(problem), Simulation(problem)
        while drive(one, FirstFit(), 1) + drive(two, FirstFit(), 1):
            pass
        assert_same(one.finish(), two.finish())

    def test_a_workload_without_jobs_gives_empty_tables(self) -> None:
        result = simulate(BatchCluster([], 4), FCFS())
        assert result.info["status"] == "complete"
        assert [len(result.table(name)) for name in result.table_names] == [0, 0, 0]

    def test_a_problem_of_ones_own_needs_a_process_and_a_question(self) -> None:
        class Guess(Problem):
            name, events = "guess", ("guess",)

            def begin(self) -> None:
                self.answers: list[Any] = []
                self.env.process(self.ask())

            def ask(self) -> Generator[simpy.Event, Any, None]:
                for number in range(3):
                    yield self.env.timeout(2.0)
                    self.answers.append((self.env.now, (yield self.simulation.decide(number))))

        simulation = Simulation(Guess())
        while (decision := simulation.advance()) is not None:
            decision.answer(decision.observation * 10)
        assert simulation.problem.answers == [(2, 0), (4, 10), (6, 20)]  # type: ignore[attr-defined]
        assert simulation.actions == [0, 10, 20]

    def test_two_processes_may_ask_at_one_instant(self) -> None:
        class Two(Problem):
            def begin(self) -> None:
                self.answers: list[Any] = []
                for label in "ab":
                    self.env.process(self.ask(label))

            def ask(self, label: str) -> Generator[simpy.Event, Any, None]:
                for _ in range(2):
                    yield self.env.timeout(1.0)
                    self.answers.append((self.env.now, label, (yield self.simulation.decide(label))))

        simulation = Simulation(Two())
        while (decision := simulation.advance()) is not None:
            decision.answer(decision.observation.upper())
        assert simulation.problem.answers == [(1, "a", "A"), (1, "b", "B"), (2, "a", "A"), (2, "b", "B")]  # type: ignore[attr-defined]

    def test_an_error_in_a_process_ends_the_run_and_says_when(self) -> None:
        def process(cluster: BatchCluster) -> Generator[simpy.Event, Any, None]:
            yield cluster.env.timeout(2.5)
            raise WorkloadError("the feed is broken")

        with pytest.raises(WorkloadError, match="the feed is broken") as caught:
            simulate(BatchCluster(make_jobs((0.0, 1, 9.0)), 1, processes=[process]), FCFS())
        assert any("2.5" in note for note in caught.value.__notes__)

    def test_a_process_may_submit_jobs_and_the_run_waits_for_it(self) -> None:
        def closed_loop(cluster: BatchCluster) -> Generator[simpy.Event, Any, None]:
            for number in range(4):
                yield cluster.env.timeout(10.0)
                cluster.submit(Job(number, cluster.env.now, 1, 2.0, 2.0))

        result = simulate(BatchCluster([], 1, processes=[closed_loop]), FCFS())
        assert result.jobs["starting_time"].to_list() == [10, 20, 30, 40]
        assert result.info["end_time"] == 42

    def test_a_background_process_does_not_keep_the_run_going(self) -> None:
        ticks: list[float] = []

        def clock(cluster: BatchCluster) -> Generator[simpy.Event, Any, None]:
            while True:
                yield cluster.env.timeout(1.0)
                ticks.append(cluster.env.now)

        clock.background = True  # type: ignore[attr-defined]
        result = simulate(BatchCluster(make_jobs((0.0, 1, 3.5)), 1, processes=[clock]), FCFS())
        assert ticks == [1, 2, 3]
        assert result.info["end_time"] == 3.5

    @pytest.mark.parametrize(
        "arguments",
        [
            {"num_cores": 0},
            {"num_cores": 1.5},
            {"num_cores": 1, "infeasible": "ignore"},
            {"num_cores": 1, "too_wide": "shrink"},
            {"num_cores": 1, "on_outage": "pause"},
        ],
    )
    def test_arguments_that_make_no_sense(self, arguments: dict[str, Any]) -> None:
        name = list(arguments)[-1]
        with pytest.raises(InvalidConfiguration, match=f"^{name}: got {arguments[name]!r}, expected "):
            BatchCluster([], **arguments)
