"""
Distributions and means over time
=================================

Four policies on five workloads: not only the mean wait, but who waits how long, and when the queue grows. It runs in a
few seconds.
"""

# %%
# A comparison
# ------------
# ``compare`` keeps the runs in a directory, so that figures can show more than their means.

from tempfile import mkdtemp

from desim import compare, plotting

policies = ["fcfs", "easy", "easy-sjf", "conservative"]
found = compare("batch", policies, seeds=5, workers=1, out=mkdtemp(), jobs=150, cores=64, load=0.9)
figures = plotting.comparison_figures(found)
print(", ".join(figures))

# %%
# ``metrics`` has the means with their confidence intervals, ``distribution`` the waits of all jobs of all runs, and
# ``over-time`` the curves below.
#
# Distributions
# -------------
# The axis is linear to 10 s, so that jobs without a wait have a place, and logarithmic beyond. Only short jobs are
# shown here: the distributions of other values, or of some of the jobs, are drawn from any arrays.

waits = {}
for agent in found.means:
    tables = [found.result(agent, seed=seed).table("jobs") for seed in found.seeds]
    waits[agent] = [wait for table in tables for wait in table.filter(table["run_time"] < 600.0)["waiting_time"]]
shares = plotting.distributions(waits, label="waiting time of jobs below ten minutes", unit="s")

# %%
# Means over time
# ---------------
# Each run is averaged in bins, and the bands are 95 % confidence intervals over the five runs.

runs = {agent: [found.result(agent, seed=seed) for seed in found.seeds] for agent in ("fcfs", "easy-sjf")}
panels = plotting.mean_curves(runs)
