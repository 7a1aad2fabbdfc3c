"""Shares of executors, and curves over time of DAG runs, against an inspection of every moment."""

from __future__ import annotations

import numpy as np
import pytest
from batch_pictures import boxes, check_layout
from batch_pictures import run as run_batch
from batch_pictures import some_jobs as batch_jobs
from dag_pictures import (
    activities,
    down,
    heft,
    legend,
    outage,
    run,
    some_executors,
    some_jobs,
    started,
    useless,
    with_outages,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from desim import InvalidConfiguration, Result, simulate
from desim.agents.dag import EFT, HEFT, ListScheduler, RankUp
from desim.plotting import executor_utilization, jobs_in_system, queue_length, utilization
from desim.plotting._dag_runs import load_dag_runs
from desim.plotting._dag_series import useless_copies
from desim.problems.dag import Assign, Executors, Job, TaskCluster


class EveryNodeTwice:
    """Assigns each node to the fastest executor, and a second copy to the next."""

    name = "twice"

    def reset(self, info, rng) -> None:
        self.second = []

    def act(self, observation):
        for state, node in observation.executable.values():
            job_id = state.job.job_id
            return [Assign(job_id, node, 0), Assign(job_id, node, 1)]
        return None


@pytest.fixture(scope="module")
def troubled() -> Result:
    return with_outages()


def drawn_shares(axes, executor: int) -> dict[str, float]:
    """Return the lengths of the parts of a bar, by name."""
    found = {}
    for collection in axes.collections:
        rows = boxes(axes, collection.get_gid())
        inside = rows[np.abs(rows[:, 2:].mean(axis=1) - executor) < 1e-9]
        if len(inside):
            found[collection.get_gid()] = float((inside[:, 1] - inside[:, 0]).sum())
    return found


def agree(axes, result: Result) -> None:
    end = result.info["end_time"]
    for executor in range(result.info["num_executors"]):
        drawn = drawn_shares(axes, executor)
        for name, seconds in activities(result, executor).items():
            assert drawn.get(name, 0.0) == pytest.approx(100.0 * seconds / end, abs=1e-9)
        assert sum(drawn.values()) == pytest.approx(100.0)


@pytest.mark.parametrize("until", [np.inf, 55.0])
def test_parts_are_what_executors_did(until):
    result = with_outages(until)
    axes = executor_utilization(result)
    agree(axes, result)
    useful = [drawn_shares(axes, executor).get("useful copies", 0.0) for executor in range(3)]
    assert axes.get_title("right") == f"on average {np.mean(useful):.3g} % useful"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.booleans(), st.sampled_from([np.inf, 70.0]))
def test_parts_of_random_runs(seed, count, plan_ahead, twice, until):
    twice = twice and count > 1
    agent = EveryNodeTwice() if twice else HEFT() if plan_ahead else None
    outages = [] if twice else [outage(15.0, 40.0, 0), outage(60.0, 65.0, count - 1)]
    result = run(
        some_jobs(3, seed=seed),
        some_executors(count, seed=seed),
        *outages,
        plan_ahead=plan_ahead and not twice,
        agent=agent,
        until=until,
    )
    agree(executor_utilization(result), result)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_useless_copies(seed, lose):
    outages = [outage(20.0, 40.0, 1)] if lose else []
    agent = None if lose else EveryNodeTwice()
    result = run(some_jobs(3, seed=seed), some_executors(3, seed=seed), *outages, agent=agent)
    rows = started(result)
    table = result.table("copies").filter(result.table("copies")["starting_time"].is_not_null())
    found = useless_copies(result.jobs, result.table("edges"), table, result.table("transfers"))
    assert found.tolist() == [useless(result, row) for row in rows]


@pytest.mark.parametrize("agent", [EveryNodeTwice, HEFT])
def test_jobs_whose_id_comes_back_are_told_apart(agent):
    graphs = [([2.0, 3.0], [(0, 1, 1.0)]), ([4.0], []), ([1.0, 5.0, 2.0], [(0, 2, 3.0), (1, 2, 0.0)]), ([2.0], [])]

    def pictured(ids):
        jobs = [
            Job(job_id, *graph, submission_time=100.0 * row)
            for row, (job_id, graph) in enumerate(zip(ids, graphs, strict=True))
        ]
        result = run(jobs, Executors([2.0, 1.0], 1.0), agent=agent(), plan_ahead=agent is HEFT)
        [loaded] = load_dag_runs(result)
        edges, transfers = result.table("edges"), result.table("transfers")
        useless_rows = useless_copies(result.jobs, edges, loaded.copies, transfers)
        return useless_rows.tolist(), loaded.copies["submission_time"].to_list()

    assert pictured([7, 7, 7, 7]) == pictured([1, 7, 1, 7]) == pictured([1, 2, 3, 4])
    assert pictured([7, 7, 7, 7])[1][-1] == 300.0


def test_a_copy_that_nobody_needs_is_useless():
    # both copies of the first node finish, and the copies of the second one take their data from the one on executor 0;
    # the job is over while the second copy of the second node still runs
    job = Job(1, [2.0, 3.0], [(0, 1, 0.0)])
    result = run([job], Executors([2.0, 1.0], 1.0), agent=EveryNodeTwice())
    assert [(row["node"], row["executor"]) for row in started(result) if useless(result, row)] == [(0, 1), (1, 1)]
    assert drawn_shares(executor_utilization(result), 1) == {"useless copies": 100.0}
    assert drawn_shares(executor_utilization(result), 0) == {"useful copies": 100.0}


@pytest.mark.parametrize("until", [np.inf, 60.0])
def test_useless_and_interrupted_copies_are_the_wasted_time_of_the_metrics(until):
    results = [with_outages(until), run(some_jobs(3), some_executors(3), agent=EveryNodeTwice(), until=until)]
    for result in results:
        axes = executor_utilization(result)
        parts = [drawn_shares(axes, executor) for executor in range(3)]
        wasted = sum(part.get(name, 0.0) for part in parts for name in ("useless copies", "interrupted copies"))
        assert wasted > 0.0
        assert result.metrics()["wasted_time"] == pytest.approx(wasted / 100.0 * result.info["end_time"])


def test_runs_task_by_task():
    rng = np.random.default_rng(4)
    jobs = [
        Job(k, job.work, [(p, c, 1.0) for c in range(job.num_nodes) for p in job.parents(c).tolist()], num_tasks=tasks)
        for k, job in enumerate(some_jobs(3, seed=4))
        for tasks in [rng.integers(1, 5, job.num_nodes)]
    ]
    processes = [outage(15.0, 40.0, 0)]
    cluster = TaskCluster(jobs, some_executors(3), moving_delay=0.5, processes=processes)
    result = simulate(cluster, ListScheduler(RankUp(), EFT()))
    agree(executor_utilization(result), result)
    assert len(started(result)) > sum(job.num_nodes for job in jobs)


def test_legend_and_colours():
    axes = executor_utilization(heft())
    assert legend(axes) == ["useful copies", "waiting for data", "idle"]
    full = executor_utilization(with_outages(), speeds=True)
    faces = [to_hex(collection.get_facecolor()[0]) for collection in full.collections]
    assert len(set(faces)) == len(faces) == len(legend(full)) >= 5
    assert full.get_ylabel() == "executor (speed)"
    check_layout(full.figure)


def test_runs_one_above_the_other(troubled):
    panels = executor_utilization({"one": troubled, "two": heft()})
    assert [panel.get_title("left") for panel in panels] == ["one", "two"]
    assert [panel.get_xlabel() for panel in panels] == ["", "share of the time (%)"]
    check_layout(panels[0].figure)


def test_an_empty_run_and_one_node():
    empty = executor_utilization(run([], Executors([1.0, 1.0])))
    assert len(empty.collections) == 0 and empty.get_title("right") == "on average 0 % useful"
    one = executor_utilization(run([Job(1, [3.0])], Executors([1.0])))
    assert drawn_shares(one, 0) == {"useful copies": 100.0}


def test_a_late_first_job_begins_the_span():
    result = run([Job(1, [10.0], submission_time=90.0)], Executors([1.0, 0.5]))
    assert drawn_shares(executor_utilization(result), 0) == {"useful copies": 100.0}
    assert utilization(result).get_xlim() == (90.0, 100.0)


def curve(axes) -> tuple[np.ndarray, np.ndarray]:
    (line,) = [line for line in axes.get_lines() if line.get_gid() == "curve"]
    return line.get_data()


def at(times: np.ndarray, values: np.ndarray, moment: float) -> float:
    return values[np.searchsorted(times, moment, side="right") - 1]


@pytest.mark.parametrize("until", [np.inf, 55.0])
def test_curves_count_at_every_moment(until):
    result = with_outages(until)
    counts, shares, jobs = utilization(result, unit="executors"), utilization(result), jobs_in_system(result)
    (limit,) = [line for line in counts.get_lines() if line.get_gid() == "limit"]
    rows = started(result)
    for moment in np.linspace(0.01, result.info["end_time"] - 0.01, 200):
        running = sum(row["starting_time"] <= moment < row["finish_time"] for row in rows)
        up = 3 - sum(begin <= moment < end for _, begin, end in down(result))
        there = sum(
            row["submission_time"] <= moment and (row["finish_time"] is None or moment < row["finish_time"])
            for row in result.jobs.iter_rows(named=True)
        )
        assert at(*curve(counts), moment) == running
        assert at(*limit.get_data(), moment) == up
        assert at(*curve(shares), moment) == pytest.approx(100.0 * running / up)
        assert at(*curve(jobs), moment) == there
    assert legend(counts) == ["executors up"]
    assert counts.get_ylabel() == "running executors" and shares.get_ylabel() == "utilization\n(% of executors up)"
    check_layout(counts.figure)


def test_means_over_bins_keep_the_area(troubled):
    rows = started(troubled)
    total = sum(row["finish_time"] - row["starting_time"] for row in rows)
    times, values = curve(utilization(troubled, unit="executors", bin_width=10.0))
    assert float((np.diff(times) * values[:-1]).sum()) == pytest.approx(total)


def test_several_runs_and_panels(troubled):
    runs = {"one": troubled, "two": heft()}
    assert legend(utilization(runs)) == ["one", "two"]
    panels = jobs_in_system(runs, panels=True)
    assert len(panels) == 2 and panels[0].get_ylim() == panels[1].get_ylim()
    assert max(curve(panels[0])[1]) <= panels[0].get_ylim()[1]


def test_wrong_arguments(troubled):
    batch = run_batch(batch_jobs(3, 2), 2)
    with pytest.raises(InvalidConfiguration, match="unit is 'cores', want 'percent' or 'executors'"):
        utilization(troubled, unit="cores")
    with pytest.raises(InvalidConfiguration, match="unit is 'executors', want 'percent' or 'cores'"):
        utilization(batch, unit="executors")
    with pytest.raises(InvalidConfiguration, match="the problem 'dag', want 'batch'"):
        queue_length(troubled)
    for draw in (jobs_in_system, executor_utilization):
        with pytest.raises(InvalidConfiguration, match="the problem 'batch', want 'dag'"):
            draw(batch)
    with pytest.raises(InvalidConfiguration, match=r"results\['b'\]"):
        utilization({"a": troubled, "b": batch})
    with pytest.raises(InvalidConfiguration, match="bin_width"):
        jobs_in_system(troubled, bin_width=-1.0)
