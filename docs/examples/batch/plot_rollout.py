"""
Rollout agents
==============

A rollout agent tries a few answers in copies of the system, lets a simpler agent do the rest in them, and gives the
answer that went best. The copies know no more than the agent does: requested times, and no job that has yet to arrive.
:doc:`/guides/what_if` is about these copies. It runs in a few seconds.
"""

# %%
# One decision
# ------------
# Each row is a job; the thin line is its time in the queue. Minute 319: job 0 ends and leaves cores to others. EASY
# starts jobs 15 and 29, then 18, which has the reservation, and 30. Jobs 31 and 32, which need half a minute and less,
# find no cores any more and wait until job 27 ends. The rollout agent has tried that, too. It starts 31 and 32 first,
# then 15, 29 and 30, and job 18 three and a half minutes later than EASY does.

import matplotlib.pyplot as plt

from desim import plotting, simulate
from desim.agents.batch import EASYBackfilling, RolloutAgent
from desim.problems.batch import BatchCluster
from desim.workloads import lublin

cluster = BatchCluster(lublin.generate(40, 32, seed=2, load=1.0), num_cores=32)
agent = RolloutAgent(EASYBackfilling("fcfs"))
results = {"EASY": simulate(cluster, EASYBackfilling("fcfs")), "rollout over EASY": simulate(cluster, agent)}
for name, result in results.items():
    print(f"{name:18} mean bounded slowdown {result.metrics()['bounded_slowdown_mean']:5.1f}")
print(f"{agent.num_forks} answers were tried, {agent.num_improved} decisions are not those of EASY")
hour = 3_600
gantt_axes = plotting.gantt(results, by="job", window=(4.9 * hour, 7.6 * hour))

# %%
# Many workloads
# --------------
# What looks better by the jobs that are known need not be better for those to come. Each point is a workload of 80
# jobs: below the line the rollout agent did better than its base agent, above it worse.


def mean_waiting(seed, agent):
    """Return the mean waiting time of a workload in minutes."""
    jobs = lublin.generate(80, 64, seed=seed, load=0.9, overestimate=3.0)
    return simulate(BatchCluster(jobs, 64), agent).metrics()["waiting_time_mean"] / 60


figure, axes = plt.subplots(figsize=(5, 4.5), layout="constrained")
for order, marker in (("fcfs", "o"), ("sjf", "^")):
    pairs = []
    for seed in range(5):
        base = EASYBackfilling(order)
        ahead = RolloutAgent(EASYBackfilling(order), objective="waiting_time_mean")
        pairs.append((mean_waiting(seed, base), mean_waiting(seed, ahead)))
    better = sum(new < old for old, new in pairs)
    axes.plot(*zip(*pairs, strict=True), marker, label=f"{base.name}: {better} of {len(pairs)} better")
limits = [min(axes.get_xlim()[0], axes.get_ylim()[0]), max(axes.get_xlim()[1], axes.get_ylim()[1])]
axes.axline((0, 0), slope=1, color="0.6", zorder=0)
axes.set(xlim=(0, limits[1]), ylim=(0, limits[1]), xlabel="base agent: mean waiting time, min", ylabel="rollout, min")
axes.legend()
