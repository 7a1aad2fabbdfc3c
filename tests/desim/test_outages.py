"""Cores that fail and come back, and the jobs on them."""

from __future__ import annotations

from collections.abc import Generator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import simpy
from scipy import stats
from small_agents import FirstFit, Recorder, make_jobs, random_jobs

from desim import DesimError, InvalidConfiguration, Result, WorkloadError, simulate
from desim.agents.batch import FCFS, create
from desim.core import Simulation
from desim.problems.batch import BatchCluster, Job, Node
from desim.processes import Outage, planned_outages, random_outages


def run(jobs: list[Job], num_cores: int, outages: list[Outage], agent: Any = None, **options: Any) -> Result:
    cluster = BatchCluster(jobs, num_cores, processes=[planned_outages(outages)], **options)
    return simulate(cluster, agent or FirstFit())


COLUMNS = ("job_id", "starting_time", "finish_time", "status", "attempts")


def test_a_cut_job_is_requeued_and_starts_afresh() -> None:
    result = run(make_jobs((0.0, 2, 10.0)), 2, [Outage(4.0, 6.0, cores=[0])])
    assert result.jobs.select(COLUMNS).rows() == [(1, 6, 16, "completed", 2)]
    assert result.table("interruptions").rows() == [(1, 0, 4, "0-1", "requeued", 1.0, 0.0, 0.0, 0)]
    assert result.table("outages").rows() == [(4, "down", "0", 1), (6, "up", "0", 2)]
    told = result.jobs.select("waiting_time", "earlier_execution_time", "useful_execution_time", "stretch")
    assert told.rows() == [(2.0, 4.0, 10.0, 1.6)]


def test_or_it_is_lost() -> None:
    result = run(make_jobs((0.0, 2, 10.0), (1.0, 1, 5.0)), 2, [Outage(4.0, 6.0, cores=[0])], on_outage="lose")
    assert result.jobs.select(COLUMNS).rows() == [(1, 0, 4, "lost", 1), (2, 4, 9, "completed", 1)]
    assert result.jobs["execution_time"].to_list() == [4, 5]
    assert result.jobs["success"].to_list() == [False, True]
    assert result.jobs["allocated_resources"].to_list() == ["0-1", "1"]
    assert result.table("interruptions")["outcome"].to_list() == ["lost"]


def test_jobs_on_other_cores_are_not_touched() -> None:
    result = run(make_jobs((0.0, 1, 10.0), (0.0, 1, 10.0)), 2, [Outage(4.0, 5.0, cores=[1])])
    assert result.jobs.select(COLUMNS).rows() == [(1, 0, 10, "completed", 1), (2, 5, 15, "completed", 2)]


def test_a_job_that_ends_when_its_core_fails_has_ended() -> None:
    result = run(make_jobs((0.0, 1, 4.0)), 1, [Outage(4.0, 5.0, cores=[0])])
    assert result.jobs.select(COLUMNS).rows() == [(1, 0, 4, "completed", 1)]


def test_a_core_that_is_repaired_is_used_at_that_instant_and_one_that_fails_is_not() -> None:
    agent = Recorder(FirstFit())
    result = run(make_jobs((3.0, 1, 2.0)), 1, [Outage(3.0, 7.0, cores=[0])], agent)
    assert agent.seen == [(3, [1], 0), (7, [1], 1)]
    assert result.jobs["starting_time"].to_list() == [7]


def test_a_requeued_job_goes_back_to_its_place() -> None:
    jobs = make_jobs((0.0, 2, 10.0), (1.0, 2, 1.0), (2.0, 2, 1.0))
    agent = Recorder(FirstFit())
    run(jobs, 2, [Outage(5.0, 6.0, cores=[0])], agent)
    assert (5, [1, 2, 3], 1) in agent.seen


def test_jobs_that_arrived_together_keep_their_order_when_they_are_requeued() -> None:
    jobs = make_jobs((1.0, 1, 10.0), (1.0, 1, 10.0), (1.0, 1, 10.0), (1.0, 1, 10.0))
    agent = Recorder(FirstFit())
    run(jobs, 3, [Outage(5.0, 6.0, cores=[0, 1, 2])], agent)
    assert [queue for time, queue, _ in agent.seen if time == 5] == [[1, 2, 3, 4]]


def test_overlapping_outages_of_a_core_end_with_the_last() -> None:
    outages = [Outage(1.0, 10.0, cores=[0, 1]), Outage(2.0, 4.0, cores=[1, 2]), Outage(3.0, 12.0, cores=[0])]
    result = run(make_jobs((5.0, 1, 1.0), (5.0, 3, 1.0)), 3, outages)
    assert result.table("outages").rows() == [
        (1, "down", "0-1", 1),
        (2, "down", "2", 0),
        (4, "up", "2", 1),
        (10, "up", "1", 2),
        (12, "up", "0", 3),
    ]
    assert result.jobs["starting_time"].to_list() == [5, 12]
    assert result.jobs["allocated_resources"].to_list() == ["2", "0-2"]


def test_the_agent_sees_cores_that_are_down() -> None:
    class Watching(FirstFit):
        def act(self, observation: Any) -> int | None:
            seen.append((observation.down_cores, observation.free_core_set, observation.remaining_times().tolist()))
            return super().act(observation)

    seen: list[Any] = []
    run(make_jobs((0.0, 1, 9.0), (5.0, 1, 1.0)), 3, [Outage(4.0, 6.0, cores=[2])], Watching())
    assert seen == [(0, 0b111, [0, 0, 0]), (1, 0b010, [4, 0, float("inf")])]


def test_a_queue_that_waits_for_a_repair_that_never_comes() -> None:
    result = run(make_jobs((0.0, 2, 5.0), (1.0, 1, 5.0)), 2, [Outage(2.0, float("inf"), cores=[1])])
    assert result.jobs.select(COLUMNS).rows() == [(1, None, None, "queued", 1), (2, None, None, "queued", 0)]
    assert result.info["status"] == "stalled"


def test_an_outage_from_the_beginning() -> None:
    assert run(make_jobs((0.0, 1, 5.0)), 1, [Outage(0.0, 3.0, cores=[0])]).jobs["starting_time"].to_list() == [3]


def test_what_happens_at_one_instant_is_recorded_in_its_order() -> None:
    order = [core * 7 % 500 for core in range(500)]
    result = run(make_jobs((5.0, 1, 5.0)), 500, [Outage(1.0, 2.0, cores=[core]) for core in order])
    expected = [str(core) for core in order]
    assert result.table("outages")["resources"].to_list() == expected * 2
    assert result.table("outages")["cores_up"].to_list() == [*range(499, -1, -1), *range(1, 501)]


def test_the_run_ends_with_its_last_job() -> None:
    result = run(make_jobs((0.0, 1, 5.0)), 2, [Outage(2.0, 900.0, cores=[1]), Outage(1000.0, 2000.0, cores=[0])])
    assert result.info["end_time"] == 5
    assert result.table("outages")["event"].to_list() == ["down"]


@pytest.mark.parametrize(
    "outages",
    [[Outage(5.0, 5.0, cores=[0])], [Outage(-1.0, 5.0, cores=[0])], [Outage(5, 6, cores=[0]), Outage(4, 9, cores=[0])]],
)
def test_outages_out_of_order(outages: list[Outage]) -> None:
    with pytest.raises(WorkloadError, match="Outage"):
        run(make_jobs((0.0, 1, 99.0)), 1, outages)


@pytest.mark.parametrize("core", [2, -1, "n2"])
def test_cores_that_do_not_exist(core: int | str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"cores: got {core!r}, expected a number from 0 to 1"):
        run(make_jobs((0.0, 1, 99.0)), 2, [Outage(1.0, 2.0, cores=[core])])


def test_a_core_that_is_up_cannot_be_repaired() -> None:
    def process(cluster: BatchCluster) -> Generator[simpy.Event, Any, None]:
        yield cluster.env.timeout(1.0)
        cluster.fail(cores=[0])
        cluster.repair(cores=[0, 1])

    with pytest.raises(InvalidConfiguration, match="core 1 cannot be repaired"):
        simulate(BatchCluster(make_jobs((0.0, 1, 9.0)), 2, processes=[process]), FCFS())


class TestRandomOutages:
    def test_same_seed_same_outages(self) -> None:
        cluster = BatchCluster(random_jobs(50, 4), 4, processes=[random_outages(20.0, 5.0)])
        first, second, other = (simulate(cluster, FCFS(), seed=seed) for seed in (1, 1, 2))
        assert first.table("outages").equals(second.table("outages"))
        assert first.jobs.equals(second.jobs)
        assert not first.table("outages").equals(other.table("outages"))

    def test_blocks_fail_together_and_the_last_may_be_smaller(self) -> None:
        cluster = BatchCluster(random_jobs(50, 4), 10, processes=[random_outages(20.0, 5.0, unit=4)])
        resources = simulate(cluster, FCFS()).table("outages")["resources"]
        assert set(resources) == {"0-3", "4-7", "8-9"}

    def test_times_are_exponential_of_the_given_means(self) -> None:
        cluster = BatchCluster(make_jobs((0.0, 1, 0.0), (60_000.0, 1, 0.0)), 1, processes=[random_outages(50.0, 10.0)])
        table = simulate(cluster, FCFS()).table("outages")
        changes = [0.0, *table["time"].to_list()]
        lengths = [later - earlier for earlier, later in pairwise(changes)]
        assert len(lengths) > 1_500
        assert stats.kstest(lengths[0::2], "expon", args=(0, 50.0)).pvalue > 1e-3
        assert stats.kstest(lengths[1::2], "expon", args=(0, 10.0)).pvalue > 1e-3

    @pytest.mark.parametrize(
        ("up", "down", "block", "message"),
        [
            (0.0, 1.0, 1, r"^mean_time_to_failure: got 0\.0, expected a finite number > 0"),
            (1.0, -1.0, 1, r"^mean_time_to_repair: got -1\.0, expected a finite number > 0"),
            (1.0, 1.0, 0, "^unit: got 0, expected an integer >= 1"),
        ],
    )
    def test_arguments_out_of_range(self, up: float, down: float, block: int, message: str) -> None:
        with pytest.raises(InvalidConfiguration, match=message):
            random_outages(up, down, unit=block)

    @pytest.mark.parametrize("name", ["fcfs", "sjf", "backfilling", "easy", "easy-specific", "conservative"])
    def test_every_job_ends_at_last(self, name: str) -> None:
        cluster = BatchCluster(random_jobs(120, 6), 6, processes=[random_outages(40.0, 5.0, unit=2)])
        result = simulate(cluster, create(name), seed=4)
        assert set(result.jobs["status"]) == {"completed"}
        assert len(result.table("interruptions")) > 10
        assert sum(result.jobs["attempts"]) == len(result.jobs) + len(result.table("interruptions"))


def test_cores_of_an_outage_that_are_no_range() -> None:
    result = run(make_jobs((0.0, 1, 5.0)), 6, [Outage(1.0, 2.0, cores=[0, 2, 3, 5])])
    assert result.table("outages")["resources"].to_list() == ["0 2-3 5", "0 2-3 5"]


class TestUnits:
    """Units are given by what they are: a bare integer was a set of bits once, of which 0 was empty."""

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (((3,), {}), r"^units: got 3, expected names or numbers .*; try cores=\[3\], .* nodes=\[\"n2\"\]"),
            (((0,), {}), "^units: got 0, "),
            ((([2],), {}), r"^units: got \[2\], "),
            (((), {}), "^units: got none, "),
            (((), {"cores": 3}), r"^cores: got 3, .*; try cores=\[3\]$"),
            (((), {"cores": np.int64(3)}), r"^cores: got 3, .*; try cores=\[3\]$"),
            (((), {"nodes": "n2"}), r"^nodes: got 'n2', .*; try nodes=\['n2'\]$"),
            (((), {"cores": np.ones(4, bool)}), "^cores: got True among them, expected names or integers$"),
            (((), {"cores": [0], "nodes": [1]}), r"^units: got cores=\.\.\., nodes=\.\.\., expected .* of one kind"),
        ],
    )
    def test_what_does_not_say_which_units(self, wrong: tuple[tuple[Any, ...], dict[str, Any]], message: str) -> None:
        positional, named = wrong

        def process(cluster: BatchCluster) -> Generator[simpy.Event, Any, None]:
            for method in (cluster.fail, cluster.repair):
                with pytest.raises(TypeError, match=message):
                    method(*positional, **named)
            yield cluster.env.timeout(0.0)

        simulate(BatchCluster(make_jobs((0.0, 1, 9.0)), 4, processes=[process]), FCFS())
        if "nodes=..." not in message and len(named) < 2:
            with pytest.raises(TypeError, match=message):
                Outage(0.0, 1.0, *positional, **named)

    @pytest.mark.parametrize("cores", [[3, 1, 1], (1, 3), {1, 3}, range(1, 4, 2), np.array([1, 3]), iter([1, 3])])
    def test_cores_in_anything_iterable(self, cores: Any) -> None:
        result = run(make_jobs((0.0, 1, 5.0)), 4, [Outage(1.0, 2.0, cores=cores)])
        assert result.table("outages").rows() == [(1, "down", "1 3", 2), (2, "up", "1 3", 4)]

    @pytest.mark.parametrize("nodes", [["b"], [1], ["b", 1]])
    def test_nodes_by_name_or_number(self, nodes: list[Any]) -> None:
        heard: list[Any] = []
        cluster = BatchCluster(
            make_jobs((0.0, 1, 5.0)),
            nodes=[Node("a", 2), Node("b", 3)],
            processes=[planned_outages([Outage(1.0, 2.0, nodes=nodes)])],
        )
        for event in ("outage", "repair"):
            cluster.on(event, lambda time, units: heard.append((time, units)))
        result = simulate(cluster, FCFS())
        assert result.table("outages").rows() == [(1, "down", "2-4", 2), (2, "up", "2-4", 5)]
        assert heard == [(1, ("b",)), (2, ("b",))]

    @pytest.mark.parametrize(
        ("outage", "message"),
        [
            (Outage(90.0, 91.0, cores=[0]), r"^cores: the units of the cluster are its nodes; try nodes=\[\.\.\.\]"),
            (
                Outage(90.0, 91.0, nodes=["node1"]),
                r"^nodes: got 'node1' \(did you mean 'node-1'\?\), expected a name or",
            ),
            (Outage(90.0, 91.0, nodes=[2]), "^nodes: got 2, expected a name or a number from 0 to 1"),
        ],
    )
    def test_a_wrong_name_is_an_error_before_the_run_comes_to_it(self, outage: Outage, message: str) -> None:
        nodes = Node.several(2, 2, name="node-")
        cluster = BatchCluster(make_jobs((0.0, 1, 5.0)), nodes=nodes, processes=[planned_outages([outage])])
        with pytest.raises(InvalidConfiguration, match=message):
            simulate(cluster, FCFS())

    def test_units_that_were_down_are_no_event(self) -> None:
        heard: list[Any] = []
        outages = [Outage(1.0, 4.0, cores=[0, 1]), Outage(2.0, 3.0, cores=[1]), Outage(2.0, 5.0, cores=[1, 2])]
        cluster = BatchCluster(make_jobs((0.0, 1, 9.0)), 4, processes=[planned_outages(outages)])
        for event in ("outage", "repair"):
            cluster.on(event, lambda time, units: heard.append((time, units)))
        simulate(cluster, FCFS())
        assert heard == [(1, (0, 1)), (2, (2,)), (4, (0,)), (5, (1, 2))]

    def test_random_outages_of_a_kind(self) -> None:
        jobs = random_jobs(50, 4)
        cores, nodes = {"num_cores": 4}, {"nodes": Node.several(4, 1)}
        cases: list[tuple[Any, Any, Any]] = [("core", cores, nodes), ("node", nodes, cores)]
        for unit, machine, other in cases:
            outages = {}
            for each in (unit, 1):
                cluster = BatchCluster(jobs, **machine, processes=[random_outages(20.0, 5.0, unit=each)])
                outages[each] = simulate(cluster, FCFS()).table("outages")
            assert outages[unit].equals(outages[1])
            assert len(outages[unit]) > 10
            with pytest.raises(InvalidConfiguration, match=f"^unit: got '{unit}', but the cluster's units are its"):
                simulate(BatchCluster(jobs, **other, processes=[random_outages(20.0, 5.0, unit=unit)]), FCFS())


def test_the_queue_knows_positions_although_an_interrupted_job_stands_before_earlier_rows() -> None:
    jobs = [Job(job_id, 0.0, 1, 10.0, 10.0) for job_id in range(4)]
    simulation = Simulation(BatchCluster(jobs, 2, processes=[planned_outages([Outage(1.0, 2.0, cores=[0])])]))
    decision = simulation.advance()
    assert decision is not None
    assert decision.observation.queue.row.tolist() == [0, 1, 2, 3]  # read, and kept up from now on
    decision.answer(2)
    while (decision := simulation.advance()) is not None and decision.observation.time < 1.0:
        decision.answer(None)
    assert decision is not None
    queue = decision.observation.queue
    rows = queue.row.tolist()
    assert rows == [2, 0, 1, 3]
    for asked in (rows, [2], [3, 1], [0]):
        assert queue.positions_of(asked) == [rows.index(row) for row in asked]


@pytest.mark.parametrize("call", ["fail", "repair"])
def test_units_fail_only_during_a_run(call: str) -> None:
    cluster = BatchCluster([Job(1, 0.0, 1, 9.0, 9.0)], 4)
    with pytest.raises(DesimError, match=rf"{call}: got a BatchCluster outside a run, expected that of a run; call it"):
        getattr(cluster, call)(cores=[3])
