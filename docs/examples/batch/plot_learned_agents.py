"""
Learned agents: features and decisions
======================================

Agents that see 20 jobs of the queue, the oldest 20 or the oldest 19 and the newest one, on a workload that none of them
was trained on. For comparison, a rule sees the same 19 + 1 jobs, which separates the effect of learning from that
of the window. It runs in a few seconds.
"""

# %%
# The runs
# --------
# A thousand jobs of the Lublin-Feitelson model are submitted to 256 cores, at an offered load of 1.06: slightly more
# than they can run in time, so that the queue grows long. The weights come with the package, see
# :doc:`/guides/training`.

import json

import matplotlib.pyplot as plt

from desim import plotting, simulate
from desim.agents.batch import create
from desim.agents.learning.pretrained import PRETRAINED
from desim.problems.batch import BatchCluster
from desim.workloads import lublin

jobs = lublin.generate(num_jobs=1_000, num_cores=256, seed=20_251, load=1.06)
cluster = BatchCluster(jobs, num_cores=256)
names = {
    "learned, 20 + 0": "split-window:desim-m20-t0",
    "learned, 19 + 1": "split-window:desim-m20-t1",
    "shortest first, 19 + 1": "window-shortest-19-1",
    "EASY, first come, first served": "easy-fcfs",
}
results = {title: simulate(cluster, create(name)) for title, name in names.items()}

# %%
# Queue length
# ------------
# The rule and the agents start short jobs before long ones, and the queue has fewer jobs for it. An agent that sees the
# head of the queue alone falls behind where 20 wide jobs stand there, which hide the short ones behind them. With one
# slot at the tail every job is seen at least once, when it arrives.

queue_axes = plotting.queue_length(results)

# %%
# Waiting time by size
# --------------------
# Agents that are to keep the mean waiting time low let wide jobs wait.

waiting_axes = plotting.waiting_by_size(results)

# %%
# Metrics
# -------
# In the mean and at the worst.

table = {title: result.metrics() for title, result in results.items()}
shown = ["waiting_time_mean", "waiting_time_max", "bounded_slowdown_mean", "queue_length_mean"]
metric_axes = plotting.compare_metrics(table, metrics=shown)

# %%
# The learning curve
# ------------------
# Each file of weights has a card beside it: the command that trained it, its seed, and its learning curve, here by
# episodes for validation, which are never trained on. All of
# these began by imitating a rule; the weights that are kept are those at the lowest point.

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name in ("desim-m10-t0", "desim-m10-t1", "desim-m20-t0", "desim-m20-t1"):
    card = json.loads((PRETRAINED / f"{name}.json").read_text())
    steps = [entry["steps"] / 1e6 for entry in card["history"]]
    waiting = [entry["validation"]["waiting_time_mean"] for entry in card["history"]]
    axes.plot(steps, [100 * (value / waiting[0] - 1) for value in waiting], marker="o", label=name)
axes.set(xlabel="decisions, millions", ylabel="mean waiting time\nover that of the rule, %")
axes.grid(alpha=0.3)
axes.legend()

# %%
# One run is not evidence: :doc:`/reports/dbf_more` has fifty episodes of each, with intervals.
