"""
Common random numbers
=====================

The difference between two policies, with its confidence interval: once with the same workloads for both policies, and
once with different workloads for each. It runs in a few seconds.
"""

# %%
# The runs
# --------
# Workloads of the Lublin-Feitelson model differ widely. That is noise where two policies are compared on different
# ones. On the same ones it largely falls out of the differences: what is a hard workload for one is a hard one for
# the other.

import math

from matplotlib.figure import Figure

from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster
from desim.statistics import mean_interval, paired_difference
from desim.workloads import lublin

counts = (5, 10, 20)
waits = {"easy-fcfs": [], "easy-sjf": []}
for seed in range(2 * max(counts)):
    jobs = lublin.generate(num_jobs=200, num_cores=64, seed=seed, load=0.9, overestimate=3.0)
    for name, found in waits.items():
        metrics = simulate(BatchCluster(jobs, num_cores=64), create(name)).metrics()
        found.append(metrics["waiting_time_mean"] / 3_600.0)

# %%
# The intervals
# -------------
# Both use the same number of runs. With different seeds, the variances of the two means add up; with the same seeds,
# what counts is the variance of the differences.

first, second = waits["easy-fcfs"], waits["easy-sjf"]
alone, paired = [], []
for count in counts:
    one, other = mean_interval(second[:count]), mean_interval(first[count : 2 * count])
    alone.append((one.mean - other.mean, math.hypot(one.half_width, other.half_width)))
    estimate = paired_difference(second[:count], first[:count])
    paired.append((estimate.mean, estimate.half_width))

axes = Figure(figsize=(6.5, 3.6), layout="constrained").subplots()
for shift, label, marker, color, rows in (
    (-0.12, "different seeds", "s", "#D55E00", alone),
    (0.12, "the same seeds", "o", "#0072B2", paired),
):
    means, halves = zip(*rows, strict=True)
    places = [place + shift for place in range(len(counts))]
    axes.errorbar(places, means, halves, fmt=marker, color=color, capsize=4, label=label)
axes.axhline(0.0, color="black", linewidth=0.8)
axes.set_xticks(range(len(counts)), [str(count) for count in counts])
axes.set(xlabel="runs of each policy", ylabel="mean waiting time of easy-sjf\nless that of easy-fcfs (h)")
axes.legend(frameon=False)
