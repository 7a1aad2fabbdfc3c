"""Modes: nodes that may run in several ways on a pool, each with a run time and demands."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest

from desim import simulate
from desim.agents.dag import Optimum, create
from desim.exceptions import DisregardedWarning, InfeasibleAction, WorkloadError
from desim.problems.dag import Assign, DagCluster, Executors, Job, Mode, SharedLinks, from_networkx, to_networkx
from desim.problems.dag.env import DagEnv
from desim.processes.outages import random_outages
from desim.result import Result
from desim.validation import validate

FOUR = Executors([1.0], capacities=[{"cores": 4}])
WIDE = [Mode(2, {"cores": 4}), Mode(3, {"cores": 2})]
"""A node that is quicker on the whole pool than on half of it."""


def job_of(*modes: Any, **options: Any) -> Job:
    return Job(1, [1.0] * len(modes), modes=modes, allow_disconnected=True, **options)


def rows_of(result: Result) -> list[tuple[Any, ...]]:
    """Return start, finish and mode of each node."""
    return result.table("copies").sort("node").select("starting_time", "finish_time", "mode").rows()


class Given:
    """Agent that assigns all nodes at once, as it is told."""

    def __init__(self, *actions: Assign) -> None:
        self.actions = list(actions)

    def act(self, observation: Any) -> Any:
        return self.actions


def test_an_action_chooses_the_mode() -> None:
    job = job_of(WIDE, WIDE)
    quick = simulate(DagCluster([job], FOUR), Given(Assign(1, 0, 0, mode=0), Assign(1, 1, 0, mode=0)))
    assert rows_of(quick) == [(0.0, 2.0, 0), (2.0, 4.0, 0)]
    narrow = simulate(DagCluster([job], FOUR), Given(Assign(1, 0, 0, mode=1), Assign(1, 1, 0, mode=1)))
    assert rows_of(narrow) == [(0.0, 3.0, 1), (0.0, 3.0, 1)]
    assert narrow.metrics()["utilization_cores"] == 1.0
    assert narrow.metrics()["lower_bound"] == 3.0  # twice the least area, of six core seconds, on four cores
    assert quick.table("modes").select("node", "mode", "run_times", "demand_cores").rows() == [
        (0, 0, [2.0], 4.0),
        (0, 1, [3.0], 2.0),
        (1, 0, [2.0], 4.0),
        (1, 1, [3.0], 2.0),
    ]
    assert validate(quick, [job]).ok and validate(narrow, [job]).ok


@pytest.mark.filterwarnings("ignore::desim.exceptions.DisregardedWarning")
def test_without_a_mode_the_first_to_finish_is_taken() -> None:
    """The second node starts beside the first in its slow mode, and finishes before its quick one could."""
    job = job_of([Mode(9, {"cores": 2})], [Mode(1, {"cores": 4}), Mode(5, {"cores": 2})])
    assert rows_of(simulate(DagCluster([job], FOUR), create("fifo-eft")))[1] == (0.0, 5.0, 1)
    assert rows_of(simulate(DagCluster([job], FOUR), create("fifo-eft-idle")))[1] == (0.0, 5.0, 1)
    other = job_of([Mode(1, {"cores": 2})], [Mode(1, {"cores": 4}), Mode(5, {"cores": 2})])
    assert rows_of(simulate(DagCluster([other], FOUR), create("fifo-eft")))[1] == (1.0, 2.0, 0)
    assert rows_of(simulate(DagCluster([other], FOUR), create("fifo-eft-idle")))[1] == (0.0, 5.0, 1)


def test_a_mode_is_tied_to_pools_by_name_demands_and_the_nodes_own_restrictions() -> None:
    pools = Executors([1.0] * 3, names=["a", "b", "c"], capacities=[{"cores": 4}, {"cores": 2}, {"cores": 4}])
    job = job_of([Mode(2, {"cores": 4}), Mode(3, {"cores": 2}, ["b", "c"])], eligible=[["a", "b"]])
    assert job.modes_on(pools)[0].run_times.tolist() == [[2.0, np.inf, np.inf], [np.inf, 3.0, np.inf]]
    assert job.run_times_on(pools).tolist() == [[2.0, 3.0, np.inf]]
    with pytest.raises(InfeasibleAction, match=r"mode: got 1, expected one of \[0\] on executor 0"):
        simulate(DagCluster([job], pools), Given(Assign(1, 0, 0, mode=1)))
    with pytest.raises(WorkloadError, match=r"may run on no executor .* modes: 2"):
        job.run_times_on(pools.only([2]))


def test_an_action_cannot_choose_what_does_not_exist() -> None:
    plain = Job(1, [1.0], demands=[{"cores": 1}])
    with pytest.raises(InfeasibleAction, match="mode: got 0, expected None: the node has no modes"):
        simulate(DagCluster([plain], FOUR), Given(Assign(1, 0, 0, mode=0)))
    for mode in (-1, 2, "quick"):
        with pytest.raises(InfeasibleAction, match=r"mode: got .*, expected one of \[0, 1\] on executor 0"):
            simulate(DagCluster([job_of(WIDE)], FOUR), Given(Assign(1, 0, 0, mode=mode)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modes": [[]]}, "modes of node 'node0': got none, expected at least one"),
        ({"modes": [[(1, {})]]}, r"got \(1, {}\), expected a Mode"),
        ({"modes": [[Mode(-1, {})]]}, "run time in mode 0: got -1"),
        ({"modes": [WIDE, WIDE]}, "modes: got 2, expected 1, one per node"),
        ({"modes": [WIDE], "demands": [{"cores": 1}]}, "got demands of the node, too"),
        ({"modes": [WIDE], "run_times": [[1.0]]}, "got modes and run_times"),
    ],
)
def test_wrong_modes_are_refused(options: Any, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Job(1, [1.0], **options)


def test_modes_need_pools_and_a_list_of_jobs() -> None:
    with pytest.raises(WorkloadError, match=r"in mode 0: got {'cores': 4}, but the executors have no capacities"):
        DagCluster([job_of(WIDE)], Executors([1.0]))
    with pytest.raises(WorkloadError, match="in mode 0: got the resource 'gpus', expected one of cores"):
        DagCluster([job_of([Mode(1, {"gpus": 1})])], FOUR)
    with pytest.raises(WorkloadError, match="got modes, which tables hold only of jobs in a list"):
        simulate(DagCluster(iter([job_of(WIDE)]), FOUR), create("fifo-eft-idle"))


def test_graphs_keep_modes() -> None:
    job = Job(1, [1.0, 1.0], [(1, 0, 0.0)], modes=[None, WIDE], demands=[{"cores": 1}, None])
    again = from_networkx(to_networkx(job))
    assert again.modes == job.modes == (tuple(Mode(*mode) for mode in WIDE), None)
    assert again.demands == job.demands


def test_agents_that_do_not_know_modes_say_so() -> None:
    with pytest.warns(DisregardedWarning, match=r"modes \(expects each node to run in its quickest mode\)"):
        simulate(DagCluster([job_of(WIDE)], FOUR), create("heft"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DisregardedWarning)
        simulate(DagCluster([job_of(WIDE)], FOUR), create("rollout:fifo-eft-idle"))


def test_rules_find_wrong_modes() -> None:
    result = simulate(DagCluster([job_of(WIDE, WIDE)], FOUR), create("fifo-eft-idle"))
    tables = {name: result.table(name).lazy() for name in result.table_names}
    for table, column, value, message in (
        ("copies", "mode", 1, "expected a run time of 3.0 s"),
        ("copies", "mode", 2, "mode: got 2, expected a number from 0 to below 2"),
        ("modes", "demand_cores", 5.0, "hold"),
        ("modes", "run_times", [7.0], "expected \\[7.0\\], those of the quickest mode"),
    ):
        changed = tables[table].with_columns(pl.lit(value, tables[table].collect_schema()[column]).alias(column))
        report = validate(Result({**tables, table: changed}, result.info))
        assert not report.ok and message.replace("\\", "") in str(report)


# -- random scenarios, checked by a loop of their own -----------------------------------------------

AGENTS = ("fifo-eft", "rank-up-deft-idle", "heft", "rank-up-eft-patient", "search:dag:makespan:5", "tdca")


def random_modes(rng: np.random.Generator, *, transfers: bool = True) -> tuple[list[Job], Executors]:
    """Return random jobs, most of whose nodes have modes, on random pools."""
    num_pools, names = int(rng.integers(1, 4)), ["cores", "memory"][: int(rng.integers(1, 3))]
    capacities = [{name: float(rng.integers(2, 7)) for name in names} for _ in range(num_pools)]
    jobs = []
    for number in range(int(rng.integers(1, 4))):
        size = int(rng.integers(1, 6))
        edges = [(a, b, float(rng.integers(0, 4))) for b in range(size) for a in range(b) if rng.random() < 0.4]
        modes: list[Any] = []
        for _ in range(size):
            count = int(rng.integers(0, 4))
            pools = [["executor0", f"executor{rng.integers(num_pools)}"] if rng.random() < 0.2 else None] * count
            wanted = [{name: float(rng.integers(0, capacities[0][name] + 1)) for name in names} for _ in pools]
            modes.append([Mode(float(rng.integers(0, 9)), *each) for each in zip(wanted, pools, strict=True)] or None)
        demands = [{} if own is None else None for own in modes]
        work = rng.integers(1, 6, size).astype(float)
        jobs.append(Job(number, work, edges, modes=modes, demands=demands, allow_disconnected=True))
    return jobs, Executors([1.0] * num_pools, 2.0 if transfers else np.inf, capacities=capacities)


def check(jobs: list[Job], pools: Executors, result: Result) -> None:
    """Check a run on its table of copies alone: modes, capacities, precedence, and all nodes."""
    rows = result.table("copies").filter(pl.col("starting_time").is_not_null()).rows(named=True)
    done: dict[tuple[int, int], float] = {}
    for row in rows:
        if row["outcome"] == "completed":
            key = row["job_id"], row["node"]
            done[key] = min(row["finish_time"], done.get(key, np.inf))

    def ends(row: dict[str, Any]) -> float:
        return np.inf if row["finish_time"] is None else float(row["finish_time"])

    def demands(row: dict[str, Any]) -> Any:
        modes = (jobs[row["job_id"]].modes or {row["node"]: None})[row["node"]]
        return {} if modes is None else modes[row["mode"]].demands

    for row in rows:
        job = jobs[row["job_id"]]
        modes = (job.modes or {row["node"]: None})[row["node"]]
        name, capacity = pools.names[row["executor"]], (pools.capacities or [])[row["executor"]]
        if modes is not None:
            mode = modes[row["mode"]]
            assert mode.eligible is None or name in mode.eligible
            if row["outcome"] == "completed":
                assert row["finish_time"] == row["starting_time"] + mode.run_time
        for parent in job.parents(row["node"]).tolist():
            assert done[job.job_id, parent] <= row["starting_time"]
        for resource, amount in capacity.items():
            held = sum(
                demands(other).get(resource, 0.0)
                for other in rows
                if other["executor"] == row["executor"] and other["starting_time"] <= row["starting_time"] < ends(other)
            )
            assert held <= amount
    if result.info["status"] == "completed":
        assert len(done) == sum(job.num_nodes for job in jobs)


def note(ended: list[Any], time: float, copy: Any) -> None:
    ended.append(copy)


def run_scenarios(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        jobs, pools = random_modes(rng)
        if not any(job.modes for job in jobs):
            continue
        fails, shares = rng.random() < 0.3, rng.random() < 0.3
        cluster = DagCluster(
            jobs,
            pools,
            transfers="when_assigned" if shares else "when_finished",
            links=SharedLinks.bus(pools.num_executors, 3.0) if shares else None,
            outages_lose_data=bool(rng.random() < 0.5),
            processes=[random_outages(60.0, 5.0)] if fails else [],
        )
        ended: list[Any] = []
        for event in ("completion", "interruption", "withdrawal", "unfinished"):
            cluster.on(event, partial(note, ended))
        options: dict[str, Any] = {"until": 400.0} if fails else {}
        agent = AGENTS[seed % len(AGENTS)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DisregardedWarning)
            result = simulate(cluster, create(agent), **options)
        check(jobs, pools, result)
        assert len(ended) == len(result.table("copies"))
        report = validate(result, jobs)
        assert report.ok, f"{seed} {agent}: {report}"
        assert not result.metrics()["makespan"] < result.metrics()["lower_bound"] * (1 - 1e-9)


def test_random_runs_keep_to_modes_and_capacities() -> None:
    run_scenarios(range(12))


@pytest.mark.slow
def test_thousands_of_random_runs_keep_to_modes_and_capacities() -> None:
    run_scenarios(range(12, 3_000))


def test_masked_actions_of_environments_are_possible() -> None:
    """An environment leaves the mode to the cluster: every action that its mask allows can be carried out."""
    pytest.importorskip("gymnasium")
    for seed in range(4):
        rng = np.random.default_rng(seed)
        jobs, pools = random_modes(rng)
        env = DagEnv([DagCluster(jobs, pools)], pools.num_executors)
        env.reset(seed=0)
        ended, finished = False, 0
        while not ended:
            _, _, ended, _, about = env.step(int(rng.choice(np.flatnonzero(env.action_masks()))))
            assert about.get("feasible", True)
            finished += 1
        assert finished >= sum(job.num_nodes for job in jobs)


# -- exact optima -----------------------------------------------------------------------------------


def test_the_optimum_chooses_modes() -> None:
    """Two wide nodes side by side in their slow mode take 3 s; an order of quick ones 4 s. Lists take the quick one."""
    pytest.importorskip("ortools")
    cluster = DagCluster([job_of(WIDE, WIDE)], FOUR)
    assert simulate(cluster, Optimum()).metrics()["makespan"] == 3.0
    assert simulate(cluster, create("rank-up-eft-idle")).metrics()["makespan"] == 4.0
    pytest.importorskip("numba")
    assert simulate(cluster, create("search:dag:makespan:50")).metrics()["makespan"] == 3.0


def measure_gaps(seeds: range) -> dict[str, list[float]]:
    """Check that no agent is below the proved optima of random instances, and return the gaps."""
    names = ("fifo-eft", "rank-up-deft-idle", "heft", "dls", "cpop", "search:dag:makespan:100", "rollout:sjf-eft-idle")
    gaps: dict[str, list[float]] = {name: [] for name in names}
    for seed in seeds:
        jobs, pools = random_modes(np.random.default_rng(seed), transfers=seed % 2 == 0)
        agent = Optimum(time_limit=5.0, resolution=0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DisregardedWarning)
            result = simulate(DagCluster(jobs, pools), agent)
            validate(result, jobs).raise_if_invalid()
            (schedule,) = agent.schedules
            assert result.metrics()["makespan"] == schedule.makespan
            if schedule.status != "optimal" or not schedule.makespan:
                continue
            for name, found in gaps.items():
                metrics = simulate(DagCluster(jobs, pools), create(name)).metrics()
                assert metrics["makespan"] >= schedule.bound - 1e-9, f"{seed} {name}"
                found.append(metrics["makespan"] / schedule.makespan - 1.0)
    return gaps


def test_nobody_is_below_the_optimum() -> None:
    pytest.importorskip("ortools")
    pytest.importorskip("numba")
    gaps = measure_gaps(range(6))
    assert len(gaps["heft"]) >= 4
    assert np.mean(gaps["search:dag:makespan:100"]) < np.mean(gaps["heft"])
