"""Training of the split-window agent and DBF: decisions per second of processor time, and where the time goes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.common import best_and_median, print_table
from desim import simulate
from desim.agents.batch.split_window import SplitWindowAgent, SplitWindowConfig
from desim.agents.batch.training import DBFTraining, EpisodeOptions, SplitWindowTraining, trace_episodes
from desim.agents.batch.window_rules import WindowRule
from desim.agents.learning.experience import Collector, evaluate, mean_of
from desim.agents.learning.ppo import PPO

EPISODES = EpisodeOptions(num_traces=4, trace_jobs=5_000)
TRAININGS: Mapping[str, Any] = {
    "split-window": SplitWindowTraining(episodes=EPISODES),
    "DBF": DBFTraining(episodes=EPISODES),
}
CASES = (
    ("split-window", 32, 256, False),
    ("split-window", 32, 256, True),
    ("split-window", 1_024, 64, True),
    ("DBF", 1, 3_000, False),
    ("DBF", 1, 3_000, True),
    ("DBF", 32, 96, True),
)
"""Training, number of environments, decisions of each per round, and whether a compiled loop steps them."""
ROUNDS = 3
EPISODES_OF_A_TRAINING = 10_000


class Iteration(NamedTuple):
    """Processor seconds of simulating, inferring and the update."""

    simulate: float
    infer: float
    update: float


def iterations(settings: Any, num_envs: int, num_steps: int, compiled: bool) -> Iteration:
    """Train for some rounds and return the median of each time; the first round warms up."""
    learner = PPO(settings.agent.policy(np.random.default_rng(0)), settings.learning, np.random.default_rng(1))
    seeds, rng, task = np.random.SeedSequence(2).spawn(num_envs), np.random.default_rng(3), settings.task()
    collector = Collector(task.make_env, seeds, rng, measure=task.measure, compiled=compiled)
    torch.set_num_threads(1)  # as in a training
    found = []
    for _ in range(ROUNDS + 1):
        begin = time.process_time()
        experience = collector.collect(learner.policy, num_steps)
        middle = time.process_time()
        learner.update(experience, 0.0)
        end = time.process_time()
        spent = experience.seconds  # on the wall clock, so only their shares count
        simulating = (middle - begin) * spent["simulate"] / (spent["simulate"] + spent["infer"])
        found.append(Iteration(simulating, middle - begin - simulating, end - middle))
    return Iteration(*(median(times) for times in zip(*found[1:], strict=True)))


def decisions_of_an_episode(settings: Any) -> float:
    """Return the mean number of decisions of an episode with the network as it begins, over four episodes."""
    task, policy = settings.task(), settings.agent.policy(np.random.default_rng(0))
    found = evaluate(policy, task.make_env, range(4), rng=np.random.default_rng(1), compiled=True)
    return mean_of(found)["length"]


def training() -> None:
    """Print decisions a second while simulating, inferring, updating, and altogether."""
    rows, first = [], {}
    lengths = {name: decisions_of_an_episode(settings) for name, settings in TRAININGS.items()}
    for name, num_envs, num_steps, compiled in CASES:
        found, decisions = iterations(TRAININGS[name], num_envs, num_steps, compiled), num_envs * num_steps
        per_decision = sum(found) / decisions
        before = first.setdefault(name, per_decision)
        rows.append(
            [
                f"{name}, {num_envs:,} environments, {'compiled' if compiled else 'one by one'}",
                *(f"{decisions / part:,.0f}" for part in (*found, sum(found))),
                f"{before / per_decision:.2f} x",
                f"{EPISODES_OF_A_TRAINING * lengths[name] * per_decision / 3600:.2f}",
                " / ".join(f"{100 * part / sum(found):.0f}" for part in found),
            ]
        )
    hours = f"h for {EPISODES_OF_A_TRAINING:,} episodes"
    head = ["training", "simulated/s", "inferred/s", "updated/s", "end to end/s", "speed", hours, "% sim / inf / upd"]
    print_table(f"PPO, processor time on one core (median of {ROUNDS})", head, rows)


def acting() -> None:
    """Print what an agent takes in a run, beside the rule on the same window."""
    problem = trace_episodes(EPISODES, 256, validation=True).at(0)
    agents: dict[str, Any] = {"window-shortest-16-16": WindowRule("shortest", 16, 16)}
    config = SplitWindowConfig(16, 16)
    agents["split-window"] = SplitWindowAgent(config.policy(np.random.default_rng(0)), config)
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
