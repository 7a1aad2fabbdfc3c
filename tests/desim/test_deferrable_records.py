"""Runs of deferrable jobs that are forked, cut, streamed to files, interrupted or broken off."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
import simpy
from deferrable_agents import Showing, fitting, random_choice
from deferrable_scenarios import Scenario, random_scenario
from polars.testing import assert_frame_equal
from small_agents import python

from desim import Result, Simulation, simulate
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableCluster, Job

TABLES = ("jobs", "slots", "evictions")


def same_tables(first: Result, second: Result) -> None:
    assert first.table_names == second.table_names == TABLES
    for name in TABLES:
        assert_frame_equal(first.table(name), second.table(name), check_exact=True)


def drawn_capacity(cluster: Any) -> Generator[simpy.Event, Any, None]:
    rng = cluster.simulation.stream("capacity")
    while True:
        cluster.set_capacity(rng.integers(0, 40) / 8)
        yield cluster.env.timeout(1)


def example(number: int = 0, **fixed: Any) -> Scenario:
    """Return a scenario in which much happens."""
    given = {"eviction": "restarted", "overcommit": True, "num_slots": 12, "until": math.inf} | fixed
    scenario = random_scenario(Random(number), **given)
    return scenario if len(scenario.jobs) > 7 else example(number + 100, **fixed)


def agent(number: int = 0) -> Showing:
    return Showing(random_choice(number, must_fit=False))


def drive(simulation: Simulation, agent: Showing, decisions: int = 1000) -> None:
    while decisions and (decision := simulation.advance()) is not None:
        decision.answer(agent.act(decision.observation))
        decisions -= 1


class TestForks:
    """A copy goes on as the original does."""

    @pytest.mark.parametrize("decisions", [0, 1, 5, 11, 12])
    def test_a_fork_goes_on_to_the_same_end(self, decisions: int) -> None:
        for number in range(8):
            cluster = example(number).cluster()
            whole = simulate(cluster, agent(number))
            simulation = Simulation(cluster)
            drive(simulation, agent(number), decisions)
            before = simulation.fork()
            simulation.advance()
            for one in (simulation.fork(), before, simulation):
                drive(one, agent(number))
                same_tables(one.finish(), whole)

    def test_a_fork_may_go_another_way_and_the_original_does_not_notice(self) -> None:
        cluster = example(3).cluster()
        whole = simulate(cluster, agent(3))
        simulation = Simulation(cluster)
        drive(simulation, agent(3), 4)
        other = simulation.fork()
        drive(other, agent(4))
        assert not other.finish().table("slots").equals(whole.table("slots"))
        drive(simulation, agent(3))
        same_tables(simulation.finish(), whole)

    def test_random_capacity_is_drawn_again(self) -> None:
        cluster = DeferrableCluster(example(1, resources=("cores",)).jobs, drawn_capacity, eviction="lost")
        simulation = Simulation(cluster, seed=5)
        drive(simulation, agent(), 6)
        other = simulation.fork()
        drive(simulation, agent())
        drive(other, agent())
        same_tables(simulation.finish(), other.finish())

    def test_an_iterator_cannot_be_forked(self) -> None:
        simulation = Simulation(DeferrableCluster(iter([Job(1, 0, 0, 0, 1, 1)]), [1]))
        simulation.advance()
        with pytest.raises(
            InvalidConfiguration, match=r"jobs: got an iterator, .* only once; pass a list to be able to fork"
        ):
            simulation.fork()


class TestCuts:
    """A run until some time is the beginning of the whole run."""

    @pytest.mark.parametrize("until", [1, 2.5, 7, 11.5, 12, 100])
    def test_tables(self, until: float) -> None:
        for number in range(6):
            cluster = example(number).cluster()
            whole, cut = (simulate(cluster, agent(number), until=end) for end in (math.inf, until))
            assert cut.info["end_time"] == min(until, 12)
            assert cut.table("slots").equals(whole.table("slots").filter(pl.col("slot") < until))
            assert cut.table("evictions").equals(whole.table("evictions").filter(pl.col("eviction_time") < until))
            late = set(whole.jobs["job_id"]) - set(cut.jobs["job_id"])
            assert late == set(whole.jobs.filter(pl.col("submission_time") >= until)["job_id"])
            ended = cut.jobs.filter(pl.col("finish_time").is_not_null())
            assert ended.equals(whole.jobs.filter(pl.col("finish_time") < until))

    def test_what_ends_when_the_run_is_cut_has_not_ended(self) -> None:
        cluster = DeferrableCluster([Job(1, 0, 0, 0, 3, 1)], [1], num_slots=3)
        first_fit = Showing(lambda view: fitting(view, range(len(view.current))))
        assert simulate(cluster, first_fit).jobs["status"].to_list() == ["completed"]
        assert simulate(cluster, first_fit, until=3).jobs["status"].to_list() == ["running"]


class TestFiles:
    """The same records in memory, in files, in any process."""

    def test_streamed_and_saved_records_are_those_in_memory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scenario = example(8, num_slots=None)
        tables = DeferrableCluster.tables

        def in_small_parts(self: DeferrableCluster) -> dict[str, Any]:
            return {name: replace(table, chunk_rows=3) for name, table in tables(self).items()}

        in_memory = simulate(scenario.cluster(), agent(8))
        monkeypatch.setattr(DeferrableCluster, "tables", in_small_parts)
        streamed = simulate(scenario.cluster(), agent(8), out=tmp_path / "run")
        for name in TABLES:
            assert len(list((tmp_path / "run" / name).glob("part-*.parquet"))) > 2
        in_memory.save(tmp_path / "saved")
        for other in (streamed, Result.load(tmp_path / "run"), Result.load(tmp_path / "saved")):
            same_tables(in_memory, other)
            assert other.info == in_memory.info

    def test_the_same_seed_gives_the_same_tables(self) -> None:
        cluster = DeferrableCluster(example(1, resources=("cores",)).jobs, drawn_capacity, eviction="restarted")
        first, again, other = (simulate(cluster, agent(1), seed=seed) for seed in (3, 3, 4))
        same_tables(first, again)
        assert not first.table("slots").equals(other.table("slots"))
        given = ["job_id", "submission_time", "earliest_start", "latest_start", "requested_time", "requested_cores"]
        assert first.jobs.select(given).equals(other.jobs.select(given))


class TestInterruptions:
    """Nothing that has been recorded is lost."""

    def test_an_interrupted_run_can_be_loaded(self, tmp_path: Path) -> None:
        code = """
import os, signal, sys
sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests", "desim")]
from desim import SimulationInterrupted, simulate
from test_deferrable_records import agent, example
signal.signal(signal.SIGINT, signal.default_int_handler)
inner = agent(8)
class Interrupting:
    def act(self, observation):
        if observation.slot == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return inner.act(observation)
try:
    simulate(example(8).cluster(), Interrupting(), out=sys.argv[1])
except SimulationInterrupted as interruption:
    print(interruption.result.table("slots").height)
"""
        done = python(code, str(tmp_path / "run"))
        assert (done.returncode, done.stdout) == (0, "8\n"), done.stderr
        loaded = Result.load(tmp_path / "run")
        assert loaded.info["status"] == "interrupted"
        whole = simulate(example(8).cluster(), agent(8))
        assert loaded.table("slots").equals(whole.table("slots").filter(pl.col("slot") < 8))
        assert loaded.table("evictions").equals(whole.table("evictions").filter(pl.col("eviction_time") < 8))
        known = whole.jobs.filter(pl.col("submission_time") <= 7)["job_id"]
        assert loaded.jobs["job_id"].equals(known)

    @pytest.mark.parametrize("slot", [0, 3, 9])
    def test_an_agent_that_fails(self, slot: int, tmp_path: Path) -> None:
        for number in (8, 9):
            inner = agent(number)

            def act(observation: Any, inner: Showing = inner) -> Any:
                if observation.slot == slot:
                    raise LookupError("my own mistake")
                return inner.act(observation)

            failing = Showing(random_choice(number, must_fit=False))
            failing.act = act  # type: ignore[method-assign]
            folder = tmp_path / str(number)
            with pytest.raises(LookupError, match="my own mistake") as caught:
                simulate(example(number).cluster(), failing, out=folder)
            whole = simulate(example(number).cluster(), agent(number))
            for result in (caught.value.result, Result.load(folder)):  # type: ignore[attr-defined]
                assert (result.info["status"], result.info["end_time"]) == ("failed", slot)
                assert result.table("slots").equals(whole.table("slots").filter(pl.col("slot") < slot))
                gone = whole.table("evictions").filter(pl.col("eviction_time") <= slot)
                assert result.table("evictions").equals(gone)  # they have gone before the agent is asked
                known = whole.jobs.filter(pl.col("submission_time") <= slot)["job_id"]
                assert result.jobs["job_id"].equals(known)

    def test_a_process_that_fails(self) -> None:
        def process(cluster: Any) -> Generator[simpy.Event, Any, None]:
            yield cluster.env.timeout(2.5)
            raise LookupError("my own mistake")

        jobs = [Job(1, 0, 0, 0, 2, 1), Job(2, 0, 0, 0, 3, 1), Job(3, 2.25, 3, 3, 1, 1), Job(4, 2.75, 3, 3, 1, 1)]
        cluster = DeferrableCluster(jobs, [9], processes=[process])
        with pytest.raises(LookupError) as caught:
            simulate(cluster, Showing(lambda view: range(len(view.current))))
        result = caught.value.result  # type: ignore[attr-defined]
        assert result.jobs["status"].to_list() == ["completed", "running", "queued"]
        assert result.info["end_time"] == 2.5

    def test_a_process_that_is_killed_leaves_what_it_has_written(self, tmp_path: Path) -> None:
        code = """
import os, sys
sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests", "desim")]
from desim import simulate
from desim.problems.deferrable import DeferrableCluster, Job
jobs = [Job(number, number // 200, number // 200, number // 200, 1, 1) for number in range(20_000)]
class Killing:
    def act(self, observation):
        if observation.slot == 95:
            os.kill(os.getpid(), 9)
        return range(len(observation.current))
simulate(DeferrableCluster(jobs, [150]), Killing(), out=sys.argv[1])
"""
        done = python(code, str(tmp_path / "run"))
        assert done.returncode == -9, done.stderr
        loaded = Result.load(tmp_path / "run")
        assert loaded.info["status"] == "running"
        assert loaded.jobs.height == 16_400  # the first part, with the jobs that left together
        assert loaded.jobs["status"].unique().to_list() == ["completed"]
        assert loaded.table("slots").height == 82  # tables write their parts together
