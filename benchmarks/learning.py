"""Training of the split-window agent: decisions a second by network and processes, and where the time goes."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.common import best_and_median, print_table
from desim import simulate
from desim.agents.batch.split_window import SplitWindowAgent, SplitWindowConfig
from desim.agents.batch.training import EpisodeOptions, SplitWindowTraining, make_env, trace_episodes
from desim.agents.batch.window_rules import WindowRule
from desim.agents.learning.experience import Collector
from desim.agents.learning.ppo import PPO
from desim.agents.learning.workers import WorkerCollector

NETWORKS = {
    "scorer (64, 32)": SplitWindowConfig(16, 16),
    "mlp (128, 64), flat-sorted": SplitWindowConfig(16, 16, "mlp", (128, 64)),
}
WORKERS = (0, 1, 2)
NUM_ENVS, NUM_STEPS = 32, 256
ROUNDS = 5
EPISODES = EpisodeOptions(num_traces=4, trace_jobs=5_000)


class Iteration(NamedTuple):
    """Seconds that collecting and the update that follows have taken; of processes, those of the slowest."""

    simulate: float
    infer: float
    collect: float
    update: float


def iterations(config: SplitWindowConfig, workers: int) -> Iteration:
    """Train for some rounds and return the median of each time; the first round warms up."""
    settings = replace(SplitWindowTraining(), agent=config, episodes=EPISODES)
    learner = PPO(config.policy(np.random.default_rng(0)), settings.learning, np.random.default_rng(1))
    seeds, rng = np.random.SeedSequence(2).spawn(NUM_ENVS), np.random.default_rng(3)
    make: Any = partial(make_env, settings)
    collector = WorkerCollector(make, seeds, rng, workers) if workers else Collector(make, seeds, rng)
    torch.set_num_threads(max(workers, 1))  # as in a training
    found = []
    for _ in range(ROUNDS + 1):
        begin = time.perf_counter()
        experience = collector.collect(learner.policy, NUM_STEPS)
        middle = time.perf_counter()
        learner.update(experience, 0.0)
        spent = experience.seconds
        found.append(Iteration(spent["simulate"], spent["infer"], middle - begin, time.perf_counter() - middle))
    if isinstance(collector, WorkerCollector):
        collector.close()
    return Iteration(*(median(times) for times in zip(*found[1:], strict=True)))


def training() -> None:
    """Print decisions a second while simulating, inferring, updating, and altogether."""
    decisions = NUM_ENVS * NUM_STEPS
    rows, first = [], 0.0
    for name, config in NETWORKS.items():
        for workers in WORKERS:
            found = iterations(config, workers)
            total = found.collect + found.update
            first = first or total
            moved = found.collect - found.simulate - found.infer
            shares = (100 * part / total for part in (found.simulate, found.infer, moved, found.update))
            rows.append(
                [
                    f"{name}, {workers} workers",
                    *(f"{decisions / part:,.0f}" for part in (found.simulate, found.infer, found.update, total)),
                    f"{first / total:.2f} x",
                    " / ".join(f"{share:.0f}" for share in shares),
                ]
            )
    head = ["network", "simulated/s", "inferred/s", "updated/s", "end to end/s", "speed", "% sim / inf / move / upd"]
    title = f"PPO, {NUM_ENVS} environments x {NUM_STEPS} decisions a round (median of {ROUNDS})"
    print_table(title, head, rows)


def acting() -> None:
    """Print what an agent takes in a run, beside the rule on the same window."""
    problem = trace_episodes(EPISODES, 256, validation=True).at(0)
    agents: dict[str, Any] = {"window-shortest-16-16": WindowRule("shortest", 16, 16)}
    for name, config in NETWORKS.items():
        agents[name] = SplitWindowAgent(config.policy(np.random.default_rng(0)), config, name=name)
    times = best_and_median(3, *(partial(simulate, problem, agent) for agent in agents.values()))
    rule = times[0][1]
    rows = [
        [name, f"{1e3 * middle:,.0f}", f"{EPISODES.num_jobs / middle:,.0f}", f"{middle / rule:.1f} x"]
        for name, (_, middle) in zip(agents, times, strict=True)
    ]
    title = f"An episode of {EPISODES.num_jobs:,} starts, networks as they begin (median of 3)"
    print_table(title, ["agent", "ms", "jobs/s", "time of the rule"], rows)


def main() -> None:
    """Print both tables."""
    threads = torch.get_num_threads()
    training()
    torch.set_num_threads(threads)
    print()
    acting()


if __name__ == "__main__":
    main()
