"""ExactOGA slot by slot, agent and reward together: time per slot, and how it grows with ports, nodes and resources."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from benchmarks.common import print_table
from desim import simulate
from desim.agents.multiserver import ExactOGA
from desim.agents.multiserver.oga import Form
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, RewardModel
from desim.workloads.multiserver import bernoulli_arrivals, generate

PAPER_SECONDS = 3_600 / 8_000
"""A slot of the default setting in arXiv 2305.06572, on 48 cores (section 4.1): one hour for 8,000."""


def per_slot(rewards: RewardModel, form: Form = "reactive", *, runs: int = 5) -> float:
    """Return the seconds that a slot takes, without what a run costs before its first slot: the median of some runs."""
    num_slots = max(20, min(400, 2_000_000 // max(1, rewards.graph.num_channels * rewards.graph.num_resources)))
    differences = []
    for _ in range(runs + 1):
        seconds = []
        for slots in (num_slots, 2 * num_slots):
            arrivals = bernoulli_arrivals(slots, rewards.graph.num_ports, 0.7, seed=1)
            begin = time.perf_counter()
            simulate(MultiServerCluster(rewards, arrivals, record_allocations=0), ExactOGA(form))
            seconds.append(time.perf_counter() - begin)
        differences.append((seconds[1] - seconds[0]) / num_slots)
    return median(differences[1:])  # the first warms up


def resources(rewards: RewardModel, count: int) -> RewardModel:
    """Return the same system with so many resources: the given ones again and again."""
    graph, index = rewards.graph, np.arange(count) % rewards.graph.num_resources
    channels = zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True)
    larger = BipartiteGraph(graph.requests[:, index], graph.capacity[:, index], channels)
    return RewardModel(larger, rewards.utilities[:, index], rewards.weights[:, index], rewards.overhead[index])


def sizes() -> None:
    """Print the sizes of the paper, at its density and as complete graphs, in both forms."""
    rows = []
    for ports, nodes, density in ((10, 128, 2.5), (10, 128, None), (100, 1024, 3.0), (100, 1024, None)):
        rewards = generate(num_ports=ports, num_nodes=nodes, density=density, seed=0)
        forms: tuple[Form, ...] = ("reactive", "reservation")
        milliseconds = [per_slot(rewards, form) * 1e3 for form in forms]
        size = f"{ports} x {nodes} x {rewards.graph.num_resources}"
        shape = "complete" if density is None else f"density {rewards.graph.density:.2f}"
        rows.append([size, shape, f"{rewards.graph.num_channels:,}", *(f"{ms:.2f}" for ms in milliseconds)])
        if (ports, density) == (10, 2.5):
            rows[-1].append(f"{PAPER_SECONDS * 1e3 / milliseconds[0]:,.0f}")
        else:
            rows[-1].append("")
    head = ["ports x nodes x resources", "graph", "channels", "reactive ms", "reservation ms", "paper's 450 ms / ours"]
    print_table("ExactOGA, time per slot: agent, reward and records of jobs and slots", head, rows)


def growth() -> None:
    """Print how the time grows with each dimension of a complete graph."""
    base = {"ports": 10, "nodes": 128, "resources": 6}
    largest = {"ports": (20, 40, 80), "nodes": (256, 512, 1_024), "resources": (12, 24, 48)}
    rows = []
    for name, values in largest.items():
        reference = None
        for value in (base[name], *values):
            size = base | {name: value}
            rewards = generate(num_ports=size["ports"], num_nodes=size["nodes"], density=None, seed=0)
            seconds = per_slot(resources(rewards, size["resources"]), runs=3)
            reference = reference or seconds
            times = f"{value / base[name]:.0f}", f"{seconds * 1e3:.2f}", f"{seconds / reference:.2f}"
            rows.append([name, value, *times])
    head = ["of", "number", "times as many", "ms", "times as long"]
    print_table("Growth, complete graphs around 10 x 128 x 6", head, rows)


def main() -> None:
    """Print both tables."""
    sizes()
    print()
    growth()


if __name__ == "__main__":
    main()
