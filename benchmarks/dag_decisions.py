"""Decisions of LACHESIS with many jobs in the system, beside a list scheduler and the network in torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import print_table
from desim import Simulation
from desim.agents.dag import ListScheduler, RankUp
from desim.problems.dag import DagCluster, DagObservation
from desim.workloads import executors, submissions, tpch

NUM_EXECUTORS = 50
NUM_JOBS = (20, 50, 100)
RUNS = 3
#: Of decisions, for which the network in torch is asked as well.
SAMPLES = 40


def cluster(num_jobs: int, seed: int, *, plan_ahead: bool) -> DagCluster:
    """Return jobs that are all there at the beginning."""
    jobs = submissions.batch(tpch.generate(num_jobs, seed=seed))
    machines = executors.heterogeneous(NUM_EXECUTORS, seed=seed)
    return DagCluster(jobs, machines, plan_ahead=plan_ahead)


def decision_seconds(agent: Any, num_jobs: int, *, plan_ahead: bool = False) -> list[float]:
    """Return the times of the decisions with at least half of the jobs in the system."""
    seconds = []
    for seed in range(RUNS):
        agent.reset({}, np.random.default_rng(seed))
        simulation = Simulation(cluster(num_jobs, seed, plan_ahead=plan_ahead))
        while (decision := simulation.advance()) is not None:
            observation = decision.observation
            begin = time.perf_counter()
            answer = agent.act(observation)
            if 2 * len(observation.jobs) >= num_jobs:
                seconds.append(time.perf_counter() - begin)
            decision.answer(answer)
    return seconds


def in_torch(agent: Any, num_jobs: int) -> list[float]:
    """Return how long encoding and network take in torch, for some decisions of a run."""
    import torch

    from desim.agents.learning.policy import to_tensors
    from desim.problems.dag.graph_encoder import GraphSizes

    policy = agent.config.policy(np.random.default_rng(0)).eval()
    encoder = agent.config.encoder(GraphSizes(jobs=num_jobs, candidates=8 * num_jobs))
    seconds: list[float] = []

    def ask(observation: DagObservation) -> None:
        begin = time.perf_counter()
        encoded = {name: array[None] for name, array in encoder.encode(observation).items()}
        with torch.inference_mode():
            int(policy(to_tensors(encoded))[0].mode())
        seconds.append(time.perf_counter() - begin)

    _visit(agent, num_jobs, ask)
    return seconds


def _visit(agent: Any, num_jobs: int, ask: Callable[[DagObservation], None]) -> None:
    agent.reset({}, np.random.default_rng(0))
    simulation = Simulation(cluster(num_jobs, 0, plan_ahead=agent.config.mode == "planned"))
    for _ in range(SAMPLES):
        decision = simulation.advance()
        if decision is None:
            return
        ask(decision.observation)
        decision.answer(agent.act(decision.observation))


def main() -> None:
    """Print the times of decisions, selection and allocation together, in milliseconds."""
    import torch

    from desim.agents.dag.graph_agent import GraphAgent

    torch.set_num_threads(1)
    rows = []
    for num_jobs in NUM_JOBS:
        rule = decision_seconds(ListScheduler(RankUp(), only_idle=True), num_jobs)
        for name in ("tpch-makespan", "tpch-batch"):
            agent = GraphAgent.pretrained(name)
            seconds = decision_seconds(agent, num_jobs, plan_ahead=agent.config.mode == "planned")
            middle, high = (1000 * float(np.quantile(seconds, share)) for share in (0.5, 0.98))
            ratios = np.median(seconds) / np.median(rule), np.median(in_torch(agent, num_jobs)) / np.median(seconds)
            rows.append([num_jobs, name, f"{middle:.2f}", f"{high:.2f}", *(f"{ratio:.1f}" for ratio in ratios)])
    print_table(
        "Decisions with at least half of the jobs in the system, 50 executors",
        ["jobs", "agent", "median, ms", "98th percentile, ms", "times rank-up-DEFT, idle", "torch takes, times"],
        rows,
    )


if __name__ == "__main__":
    main()
