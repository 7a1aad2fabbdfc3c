"""What looking ahead is worth and what it costs: rollout agents beside their base agents, on the same workloads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import desim.agents.batch
import desim.agents.dag
from benchmarks.common import print_table
from desim import Result, simulate
from desim.problems.batch import BatchCluster
from desim.problems.dag import DagCluster
from desim.statistics import paired_difference
from desim.workloads import executors, lublin, submissions, tpch

SEEDS = range(10)
HEAD = ["base agent", "metric", "base", "rollout", "difference, 95 %", "better", "forks", "s a run"]

Row = list[object]
Runs = list[tuple[Result, Result, int, float]]


def jobs_of_lublin(seed: int, overestimate: float) -> BatchCluster:
    """Return a workload of 200 jobs at load 0.9."""
    return BatchCluster(lublin.generate(200, 256, seed=seed, load=0.9, overestimate=overestimate), 256)


def queries(seed: int, gap: float, *, plan_ahead: bool) -> DagCluster:
    """Return 20 queries like those of TPC-H on ten executors, all at once or some seconds apart."""
    jobs = tpch.generate(20, ccr=1.0, seed=seed)
    jobs = submissions.poisson(jobs, gap, seed=seed) if gap else submissions.batch(jobs)
    return DagCluster(jobs, executors.heterogeneous(10, seed=seed), plan_ahead=plan_ahead)


def run(make_problem: Callable[[int], Any], create: Callable[[str], Any], base: str, kind: str) -> Runs:
    """Run an agent with and without looking ahead on every seed."""
    found = []
    for seed in SEEDS:
        problem = make_problem(seed)
        plain = simulate(problem, create(base), seed=seed)
        agent = create(f"{kind}:{base}")
        begin = time.perf_counter()
        ahead = simulate(problem, agent, seed=seed)
        found.append((plain, ahead, agent.num_forks, time.perf_counter() - begin))
    return found


def rows_of(runs: Runs, base: str, metrics: Sequence[str]) -> list[Row]:
    """Return a row for each metric."""
    rows: list[Row] = []
    for metric in metrics:
        plain = [run[0].metrics()[metric] for run in runs]
        ahead = [run[1].metrics()[metric] for run in runs]
        difference = paired_difference(ahead, plain)
        better = sum(new < old for new, old in zip(ahead, plain, strict=True))
        forks = sum(run[2] for run in runs) / len(runs)
        seconds = sum(run[3] for run in runs) / len(runs)
        means = (f"{sum(values) / len(values):,.1f}" for values in (plain, ahead))
        half = (difference.high - difference.low) / 2
        rows.append(
            [base, metric, *means, f"{difference.mean:+,.1f} ± {half:,.1f}", better, f"{forks:.0f}", f"{seconds:.1f}"]
        )
    return rows


def batch_rows(overestimate: float, kind: str) -> list[Row]:
    """Return the rows of the batch cluster."""
    rows: list[Row] = []
    for base in ("fcfs", "sjf", "easy", "easy-sjf"):
        runs = run(lambda seed: jobs_of_lublin(seed, overestimate), desim.agents.batch.create, base, kind)
        rows += rows_of(runs, base, ("bounded_slowdown_mean", "waiting_time_mean"))
    return rows


def dag_rows(gap: float, kind: str) -> list[Row]:
    """Return the rows of the DAG cluster."""
    rows: list[Row] = []
    for base in ("fifo-deft", "rank-up-deft", "heft"):

        def make(seed: int, base: str = base) -> DagCluster:
            return queries(seed, gap, plan_ahead=base == "heft")

        rows += rows_of(run(make, desim.agents.dag.create, base, kind), base, ("makespan", "turnaround_time_mean"))
    return rows


def main() -> None:
    """Print one table for each kind of workload."""
    for overestimate, what in ((1.0, "exact requests"), (3.0, "requests up to three times too long")):
        for kind in ("rollout", "rollout-waiting_time_mean"):
            print_table(f"{kind}, 200 jobs of Lublin's model, load 0.9, {what}", HEAD, batch_rows(overestimate, kind))
    for gap, kind in ((0.0, "rollout"), (30.0, "rollout-turnaround_time_mean")):
        what = f"{gap:.0f} s apart in the mean" if gap else "all at once"
        print_table(f"{kind}, 20 queries, {what}", HEAD, dag_rows(gap, kind))


if __name__ == "__main__":
    main()
