"""Metrics of a DAG cluster: answers worked out by hand, runs that are cut off, bounds that hold, errors."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from desim import InvalidConfiguration, Result, simulate
from desim.agents.dag import EFT, FIFO, ListScheduler, optimal_schedule
from desim.problems.dag import Assign, DagCluster, Executors, Job, TaskCluster, TaskTimes
from desim.problems.dag.metrics import METRICS, critical_paths, earliest_finishes, lower_bound, read_graph
from desim.problems.dag.tables import TABLES
from desim.processes import Outage, planned_outages
from tests.desim.dag_scripts import Script as Scripted
from tests.validation.dag_runs import AGENTS, random_run

COLUMNS = {
    "jobs": ("arrival_number", "submission_time", "starting_time", "finish_time", "num_nodes", "status"),
    "nodes": ("arrival_number", "node", "work", "run_times"),
    "edges": ("arrival_number", "parent", "child", "size"),
    "copies": (
        *("arrival_number", "node", "executor", "duplicate"),
        *("assignment_time", "starting_time", "finish_time", "outcome"),
    ),
    "transfers": ("arrival_number", "parent", "source", "destination", "starting_time", "arrival_time", "size"),
    "executors": ("executor", "speed"),
    "channels": ("transfer_speed", "latency"),
    "outages": ("time", "executor", "event"),
}
ROWS = {
    "jobs": [(0, 1.0, 1.0, 11.0, 3, "completed"), (1, 3.0, 4.0, 11.0, 1, "completed")],
    "nodes": [(0, 0, 4.0, None), (0, 1, 2.0, None), (0, 2, 6.0, None), (1, 0, 9.0, [5.0, 3.0])],
    "edges": [(0, 0, 1, 6.0), (0, 0, 2, 2.0)],
    "copies": [
        (0, 0, 1, True, 1.0, 1.0, 3.0, "completed"),
        (0, 1, 1, False, 3.0, 3.0, 4.0, "completed"),
        (0, 0, 0, False, 1.0, 1.0, 5.0, "completed"),  # nobody takes its data
        (1, 0, 1, False, 4.0, 4.0, 6.0, "interrupted"),
        (0, 2, 0, False, 3.0, 5.0, 11.0, "completed"),
        (1, 0, 1, False, 8.0, 8.0, 11.0, "completed"),
        (1, 0, 0, True, 8.0, None, None, "withdrawn"),
    ],
    "transfers": [(0, 0, 1, 1, 3.0, 3.0, 6.0), (0, 0, 1, 0, 3.0, 4.0, 2.0)],
    "executors": [(0, 1.0), (1, 2.0)],
    "channels": [(2.0, 0.0), (2.0, 0.0)],
    "outages": [(6.0, 1, "down"), (8.0, 1, "up")],
}


def metrics_of_rows(without="", **changes):
    """Measure the rows above, some of them replaced; what they leave out is of no account."""
    tables = {}
    for table in (table for table in TABLES if not table.only_with):
        names = COLUMNS[table.name]
        types = {name: table[name].polars_type() for name in names}
        frame = pl.DataFrame(changes.get(table.name, ROWS[table.name]), types, orient="row")
        rest = {"task": 0, "num_tasks": 1, "measured": False}
        frame = frame.with_columns(**{name: pl.lit(value) for name, value in rest.items() if name in table.names})
        tables[table.name] = frame.drop(without, strict=False).lazy()
    return METRICS.measure(Result(tables, {"granularity": "node", "num_executors": 2, "end_time": 11.0}))


def test_a_run_worked_out_by_hand():
    assert metrics_of_rows() == pytest.approx(
        {
            "jobs_submitted": 2,
            "jobs_completed": 2,
            "jobs_running": 0,
            "jobs_queued": 0,
            "num_nodes": 4,
            "makespan": 10,
            "serial_time": 9,  # on executor 1: (4 + 2 + 6) / 2 + 3
            "speedup": 0.9,
            "critical_path": 5,
            "slr": 2,
            "job_slr_mean": (10 / 5 + 8 / 3) / 2,
            "lower_bound": 17 / 3,  # 12 / 3 for the work of job 1, 5 / 3 for job 2 on executor 0 with weight 1 / 3
            "gap_to_lower_bound": 13 / 17,
            "turnaround_time_mean": 9,
            "turnaround_time_median": 9,
            "turnaround_time_p95": 9.9,
            "waiting_time_mean": 0.5,
            "utilization": 1,
            "useful_utilization": 12 / 18,
            "wasted_time": 6,
            "num_copies": 6,
            "num_duplicates": 1,
            "num_useful_duplicates": 1,
            "num_interrupted": 1,
            "num_withdrawn": 1,
            "num_reexecuted": 0,
            "num_transfers": 1,
            "data_moved": 2,
            "local_share": 0.75,
            "transfer_time_mean": 1,
        }
    )


def test_without_jobs_there_is_nothing_to_say():
    values = simulate(DagCluster([], Executors([1.0, 2.0])), ListScheduler(FIFO())).metrics()
    assert list(values) == [name for name in METRICS.names if "<" not in name]  # of pools
    counts = [name for name in values if name.startswith(("num_", "jobs_"))]
    zero = [*counts, "serial_time", "wasted_time", "data_moved"]
    assert {name for name, value in values.items() if value == 0} == set(zero)
    assert all(math.isnan(value) for name, value in values.items() if name not in zero)


def test_a_result_that_is_lost_is_wasted_and_its_node_is_reexecuted():
    job = Job(1, [2.0, 1.0], [(0, 1, 10.0)])
    agent = Scripted(Assign(1, 0, 0), Assign(1, 1, 1), Assign(1, 0, 1), Assign(1, 1, 1))
    lost = planned_outages([Outage(5.0, 50.0, executors=[0])])  # the data are on their way from 2 to 12
    values = simulate(DagCluster([job], Executors([1.0, 1.0], 1.0), processes=[lost]), agent).metrics()
    expected = {
        "makespan": 8.0,
        "num_copies": 3,
        "num_reexecuted": 1,
        "num_withdrawn": 1,
        "num_interrupted": 0,
        "num_duplicates": 0,
        "wasted_time": 2.0,
        "utilization": 5 / (8 + 5),
        "local_share": 1.0,
        "num_transfers": 0,
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected)
    assert math.isnan(values["transfer_time_mean"])


def test_a_duplicate_that_nobody_needs_is_made_but_not_useful():
    job = Job(1, [2.0, 1.0], [(0, 1, 10.0)])
    agent = Scripted(Assign(1, 0, 0), Assign(1, 0, 1), Assign(1, 1, 0))
    cluster = DagCluster([job], Executors([1.0, 0.5], 1.0), plan_ahead=True)
    values = simulate(cluster, agent).metrics()
    # The duplicate still runs when the job ends after 3 seconds.
    expected = {"num_duplicates": 1, "num_useful_duplicates": 0, "wasted_time": 3.0, "useful_utilization": 0.5}
    assert {name: values[name] for name in expected} == pytest.approx(expected)
    agent = Scripted(Assign(1, 0, 0), Assign(1, 0, 1), Assign(1, 1, 1))
    values = simulate(cluster, agent).metrics()
    expected = {"num_duplicates": 1, "num_useful_duplicates": 1, "wasted_time": 2.0, "makespan": 6.0}
    assert {name: values[name] for name in expected} == pytest.approx(expected)


def test_the_copy_of_a_last_node_that_is_first_is_useful_and_no_other():
    job = Job(1, [2.0])
    agent = Scripted([Assign(1, 0, executor) for executor in range(3)])
    values = simulate(DagCluster([job], Executors([1.0, 2.0, 2.0])), agent).metrics()
    # Executors 1 and 2 would finish together; the job ends with the first of them, and so does the run.
    expected = {"num_duplicates": 2, "num_useful_duplicates": 1, "wasted_time": 2.0, "makespan": 1.0}
    assert {name: values[name] for name in expected} == pytest.approx(expected)


def test_a_run_that_is_cut_off_has_no_makespan():
    jobs = [Job(1, [2.0, 2.0], [(0, 1, 0.0)]), Job(2, [4.0, 8.0], [(0, 1, 0.0)]), Job(3, [1.0])]
    result = simulate(DagCluster(jobs, Executors([1.0])), ListScheduler(FIFO()), until=9.5)
    values = result.metrics()
    unknown = ("makespan", "speedup", "slr", "gap_to_lower_bound", "local_share", "transfer_time_mean")
    assert [name for name, value in values.items() if math.isnan(value)] == [
        name for name in METRICS.names if name in unknown
    ]
    expected = {
        "jobs_completed": 2,
        "jobs_running": 1,
        "serial_time": 17.0,
        "lower_bound": 17.0,
        "critical_path": 12.0,
        "utilization": 1.0,
        "wasted_time": 0.0,
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected)


def test_stored_results_have_the_same_metrics(tmp_path):
    result = random_run(5, outages=True).result
    assert Result.load(result.save(tmp_path / "run")).metrics() == pytest.approx(result.metrics(), nan_ok=True)


def test_the_bound_of_what_comes_late_counts():
    jobs = [Job(1, [1.0]), Job(2, [30.0, 30.0], submission_time=10.0, allow_disconnected=True)]
    values = simulate(DagCluster(jobs, Executors([1.0, 2.0])), ListScheduler(FIFO())).metrics()
    assert values["lower_bound"] == pytest.approx(10 + 60 / 3)
    jobs[1] = Job(2, [30.0, 30.0], [(0, 1, 0.0)], submission_time=10.0)
    values = simulate(DagCluster(jobs, Executors([1.0, 2.0])), ListScheduler(FIFO())).metrics()
    assert values["lower_bound"] == values["makespan"] == pytest.approx(40.0)


def test_transfers_count_in_the_bound():
    """Node 2 needs both parents: one of them sends its data, or both run on its executor, one after the other."""
    job = Job(1, [4.0, 4.0, 1.0], [(0, 2, 3.0), (1, 2, 10.0)])
    executors = [Executors([1.0] * 3, 1.0), Executors([1.0] * 3, 4.0), Executors([1.0] * 3, 1.0, 3.5), Executors([1.0])]
    runs = [simulate(DagCluster([job], each), ListScheduler(FIFO())).metrics() for each in executors]
    assert [values["critical_path"] for values in runs] == [5.0] * 4
    # 4 + 3 + 1 with node 1 beside node 2; 4 + 3 / 4 + 1; 4 + 4 + 1 with both; the only executor runs all.
    assert [values["lower_bound"] for values in runs] == [8.0, 5.75, 9.0, 9.0]
    assert all(values["makespan"] >= values["lower_bound"] for values in runs)


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_is_at_most_the_optimum_with_duplicates(seed):
    rng = np.random.default_rng(seed)
    pairs = [(parent, child) for child in range(1, 6) for parent in range(child) if rng.random() < 0.6]
    pairs += [(child - 1, child) for child in range(1, 6) if all(pair[1] != child for pair in pairs)]
    job = Job(1, rng.integers(1, 9, 6), [(*pair, int(rng.integers(0, 20))) for pair in pairs])
    executors = Executors([1.0] * 3, 1.0, float(rng.integers(3)))
    optimum = optimal_schedule([job], executors)
    assert optimum.status == "optimal"
    result = simulate(DagCluster([job], executors), ListScheduler(FIFO()))
    finishes, paths = of_result(earliest_finishes, result), of_result(critical_paths, result)
    assert paths[0] <= finishes[0] <= optimum.makespan * (1 + 1e-9)
    assert of_result(lower_bound, result) <= optimum.makespan * (1 + 1e-9)


def of_result(function, result):
    """Apply one of the bounds to the tables of a result."""
    return function(read_graph(result))


@pytest.mark.parametrize("seed", range(8))
def test_the_lower_bound_is_at_most_the_linear_program(seed):
    """No fractional division of the nodes among the executors takes less time than the bound on the load."""
    from scipy.optimize import linprog

    result = random_run(seed, count=1).result
    nodes, speeds = result.table("nodes"), result.table("executors")["speed"].to_numpy()
    times = np.array(
        [
            work / speeds if own is None else own
            for work, own in zip(nodes["work"].to_list(), nodes["run_times"].to_list(), strict=True)
        ]
    )
    count, machines = times.shape
    share = np.kron(np.eye(count), np.ones(machines))
    load = np.column_stack([np.tile(np.eye(machines), count) * times.ravel(), -np.ones(machines)])
    solution = linprog(
        np.append(np.zeros(count * machines), 1.0),
        A_ub=load,
        b_ub=np.zeros(machines),
        A_eq=np.column_stack([share, np.zeros(count)]),
        b_eq=np.ones(count),
    )
    paths = of_result(earliest_finishes, result).max()
    bound = of_result(lower_bound, result)
    assert bound <= max(solution.fun, paths) * (1 + 1e-9)
    if nodes["run_times"].null_count() == count:  # with related executors the bound on the load is the program's
        assert bound == pytest.approx(max(solution.fun, paths))


@pytest.mark.parametrize("agent", AGENTS)
def test_no_makespan_lies_below_the_lower_bound(agent):
    for seed, options in enumerate(({}, {"outages": True}, {"links": True}, {"plan_ahead": True, "outages": True})):
        values = random_run(seed, agent=agent, **options).result.metrics()
        assert values["makespan"] >= values["lower_bound"] * (1 - 1e-12)
        assert values["slr"] >= 1 - 1e-12
        assert values["job_slr_mean"] >= 1 - 1e-12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": ROWS["nodes"][1:]}, "table nodes: got 3 rows, expected 4 as in table jobs"),
        ({"edges": [(0, 0, 1, 0.0), (2, 0, 2, 0.0)]}, "arrival_number: got 2, expected"),
        ({"without": "outcome"}, "the table copies lacks the columns outcome"),
    ],
)
def test_tables_that_do_not_fit(changes, message):
    with pytest.raises(InvalidConfiguration, match=message):
        metrics_of_rows(**changes)


def test_tasks_of_nodes_that_run_apart():
    job = Job(1, [6.0, 2.0], [(0, 1, 3.0)], num_tasks=[3, 1])
    lost = planned_outages([Outage(3.0, 50.0, executors=[0])])  # executor 0 has run one task and is at the next
    cluster = TaskCluster([job], Executors([1.0, 1.0], 1.0), processes=[lost])
    result = simulate(cluster, ListScheduler(FIFO(), EFT()))
    values = result.metrics()
    copies = result.table("copies")
    expected = {
        "makespan": result.info["end_time"],
        "num_copies": 6,
        "num_interrupted": 1,
        "num_reexecuted": 1,
        "wasted_time": 1.0,
        "num_duplicates": 0,
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected), copies
    known = {"serial_time": 8.0, "critical_path": 4.0, "lower_bound": 4.0, "gap_to_lower_bound": values["slr"] - 1}
    assert {name: values[name] for name in known} == pytest.approx(known)
    assert values["speedup"] == pytest.approx(8.0 / values["makespan"])
    assert values["job_slr_mean"] == values["slr"] == pytest.approx(values["makespan"] / 4.0)


def test_measured_durations_of_tasks_have_no_bounds():
    times = TaskTimes([1], [[]], [[1.0, 2.0]], [[1.0]])
    jobs = [Job(1, [6.0], num_tasks=[3], task_times=[times]), Job(2, [1.0])]
    values = simulate(TaskCluster(jobs, Executors([1.0, 1.0])), ListScheduler(FIFO(), EFT())).metrics()
    bounds = ("serial_time", "speedup", "slr", "job_slr_mean", "lower_bound", "gap_to_lower_bound", "critical_path")
    assert all(math.isnan(values[name]) for name in bounds)
    assert values["makespan"] > 0
