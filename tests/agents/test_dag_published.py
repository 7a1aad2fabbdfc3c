"""The schedules that papers print for their examples."""

from __future__ import annotations

import numpy as np
import pytest
from published_dags import arabnejad, topcuoglu

from desim import simulate
from desim.agents.dag import CPOP, DLS, HEFT, PEFT
from desim.agents.dag.published import critical_path, optimistic_cost_table
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import DagCluster, Executors, Job


def schedule(agent: Agent, job: Job, executors: Executors) -> list[tuple[int, int, float, float]]:
    """Return (task, processor, start, finish), numbered from 1 as in the papers, in order of start."""
    copies = simulate(DagCluster([job], executors, plan_ahead=True), agent).table("copies")
    rows = copies.sort("starting_time", "executor").select("node", "executor", "starting_time", "finish_time").rows()
    return [(int(job.names[node]), executor + 1, start, finish) for node, executor, start, finish in rows]


def test_cpop_of_topcuoglu_hariri_and_wu() -> None:
    job, executors = topcuoglu()
    index, path = critical_path([job], executors)
    assert (index, [job.names[node] for node in path]) == (0, ["1", "2", "9", "10"])
    assert schedule(CPOP(), job, executors) == [
        (1, 2, 0, 16),
        (2, 2, 16, 35),
        (4, 3, 25, 42),
        (3, 1, 28, 39),
        (5, 2, 35, 48),
        (7, 1, 39, 46),
        (6, 3, 42, 51),
        (8, 3, 54, 68),
        (9, 2, 65, 77),
        (10, 2, 79, 86),
    ]


def test_heft_of_topcuoglu_hariri_and_wu() -> None:
    assert schedule(HEFT(), *topcuoglu()) == [
        (1, 3, 0, 9),
        (3, 3, 9, 28),
        (4, 2, 18, 26),
        (6, 2, 26, 42),
        (2, 1, 27, 40),
        (5, 3, 28, 38),
        (7, 3, 38, 49),
        (9, 2, 56, 68),
        (8, 1, 57, 62),
        (10, 2, 73, 80),
    ]


def test_dls_of_topcuoglu_hariri_and_wu() -> None:
    assert schedule(DLS(), *topcuoglu())[-1][-1] == 91  # they give its length only


def test_peft_of_arabnejad_and_barbosa() -> None:
    job, executors = arabnejad()
    table = optimistic_cost_table(job, executors)
    ranks = [72.7, 41.0, 37.0, 43.7, 31.0, 41.7, 17.0, 20.7, 16.3, 0.0]
    assert np.round(table.mean(axis=1), 1).tolist() == ranks
    assert table[0].tolist() == [64, 68, 86]
    assert schedule(PEFT(), job, executors)[-1][-1] == 122
    assert schedule(HEFT(), job, executors)[-1][-1] == 133


@pytest.mark.parametrize("agent", [HEFT(), CPOP(), PEFT()])
def test_what_plans_whole_jobs_says_so(agent: Agent) -> None:
    with pytest.raises(InvalidConfiguration, match="expected one with; try it without plan_ahead=False"):
        simulate(DagCluster([Job(1, [1.0])], Executors([1.0]), plan_ahead=False), agent)


def test_the_critical_path_of_several_jobs() -> None:
    short = Job(1, [1.0, 9.0], [(0, 1, 1.0)])
    long = Job(2, [2.0, 4.0, 8.0], [(0, 1, 0.0), (0, 2, 0.0)])
    executors = Executors([1.0, 1.0], 1.0)
    assert critical_path([short, long], executors) == (0, [0, 1])  # 11 with the transfer
    assert critical_path([short, long], Executors([1.0, 1.0])) == (0, [0, 1])  # both 10: the first
    assert critical_path([long, short], Executors([1.0, 1.0])) == (0, [0, 2])
    slow_first = Executors([1.0, 2.0], 1.0)
    copies = simulate(DagCluster([short, long], slow_first, plan_ahead=True), CPOP()).table("copies")
    critical = copies.filter(copies["job_id"] == 1)
    assert critical["executor"].to_list() == [1, 1]


def test_jobs_that_come_later_have_a_critical_path_of_their_own() -> None:
    first = Job(1, [10.0, 10.0], [(0, 1, 1.0)], run_times=[[10.0, 5.0], [10.0, 5.0]])
    later = Job(2, [1.0, 1.0], [(0, 1, 1.0)], run_times=[[1.0, 50.0], [1.0, 50.0]], submission_time=2.0)
    copies = simulate(DagCluster([first, later], Executors([1.0, 1.0], 1.0), plan_ahead=True), CPOP()).table("copies")
    placed = {(job, node): executor for job, node, executor in copies.select("job_id", "node", "executor").rows()}
    assert placed == {(1, 0): 1, (1, 1): 1, (2, 0): 0, (2, 1): 0}
