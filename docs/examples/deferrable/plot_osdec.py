"""
A network that scores deferrable jobs
=====================================

Agents that desim made after those of the OSDEC paper (Dong et al., "An Advanced Reinforcement Learning Framework for
Online Scheduling of Deferrable Workloads in Cloud Computing") beside rules, a planner and the optimum in hindsight; how
they were trained; and what their attention goes to. It runs in a few seconds. The paper's agent as printed is
``osdec:NAME``.
"""

# %%
# The runs
# --------
# A hundred slots with a capacity that follows the day and wavers. The agents were trained on other draws of the same
# workload; their weights come with the package, see :doc:`/guides/training`. With the first, jobs that do not fit are
# passed over, as they are with the rules; with the second, they keep their place.

import json

import matplotlib.pyplot as plt
import numpy as np
import torch

from desim import plotting, simulate
from desim.agents.deferrable import create, offline_optimum
from desim.agents.deferrable.score_agent import ScoreAgent
from desim.agents.learning.pretrained import PRETRAINED
from desim.problems.deferrable import DeferrableCluster, clairvoyant_view
from desim.workloads.deferrable import FLUCTUATING, generate

scenario = generate(FLUCTUATING, seed=1)
cluster = DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=scenario.num_slots)
names = {
    "FIFO": "fifo",
    "earliest deadline": "earliest-deadline",
    "network": "score:desim-fluctuating",
    "network, reserving": "score:desim-fluctuating-reserving",
    "rolling horizon": "rolling-horizon",
}
results = {title: simulate(cluster, create(name)) for title, name in names.items()}
optimum = offline_optimum(clairvoyant_view(cluster)).value
for title, result in results.items():
    metrics = result.metrics()
    print(f"{title:18} reward {metrics['total_reward']:6,.0f}, {metrics['total_reward'] / optimum:.1%} of the optimum")

# %%
# Capacity and use
# ----------------
# FIFO and a network, two days of each.

use_axes = plotting.capacity_use({title: results[title] for title in ("FIFO", "network")}, window=(24, 72))

# %%
# The learning curve
# ------------------
# Cards tell how an agent came about. Weights are validated on 50 episodes that are never trained on, and the best are
# kept. The agent that reserves has first learned from a rule that plans.

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for title, name in (("reserving", "desim-fluctuating-reserving"), ("passing over", "desim-fluctuating")):
    history = json.loads((PRETRAINED / f"{name}.json").read_text())["history"]
    curve = [(entry["steps"] / 1e3, entry["validation"]["total_reward"]) for entry in history]
    axes.plot(*zip(*curve, strict=True), label=title)
axes.set(xlabel="slots, thousands", ylabel="total reward\nof a validation episode")
axes.grid(alpha=0.3)
axes.legend()

# %%
# What a job looks at
# -------------------
# An agent is any object with a method ``act``, and so is one that watches another: this one keeps the weights of the
# attention in one slot. Each row is what a job takes, in the last layer, from the system, from the jobs that may be
# started, itself among them and the largest first, and from all jobs to come.


class Watching:
    """Does as an agent does, and keeps the attention of a busy slot."""

    name = "watching"

    def __init__(self, agent, policy):
        self.agent, self.policy, self.seen = agent, policy, None

    def act(self, observation):
        """Return the positions of the jobs to be started."""
        if self.seen is None and len(observation.current) >= 10 and len(set(observation.current.cores)) == 4:
            arrays = self.agent.encoder.encode(observation)
            with torch.inference_mode():
                layers = self.policy.attention({name: torch.from_numpy(array)[None] for name, array in arrays.items()})
            self.seen = layers[-1][0].numpy(), observation.current.cores
        return self.agent.act(observation)


agent = ScoreAgent.pretrained("desim-fluctuating-reserving")
watching = Watching(agent, agent.policy)
simulate(cluster, watching)
weights, cores = watching.seen
number, order = len(cores), np.argsort(-cores, kind="stable")
taken = weights[1 : 1 + number]
shown = np.column_stack([taken[:, 0], taken[:, 1 + order], taken[:, 1 + number :].sum(axis=1)])[order]
labels = [f"{size:g}" for size in cores[order]]
figure, axes = plt.subplots(figsize=(6.5, 5), layout="constrained")
image = axes.imshow(shown, cmap="Greys", vmin=0)
axes.set_xticks(range(number + 2), ["system", *labels, "jobs to come"], rotation=90)
axes.set_yticks(range(number), labels)
axes.set(xlabel="looked at", ylabel="cores of the job")
figure.colorbar(image, label="attention")
