"""
Four policies on one workload
=============================

A generated workload of 1,000 jobs, simulated on 64 cores with four policies, and what the pictures of
:mod:`desim.plotting` tell about them. It runs in a few seconds.
"""

# %%
# The runs
# --------
# The workload comes from the Lublin-Feitelson model at an offered load of 0.9. Users request up to three times the run
# time that their jobs need. One cluster object serves all runs.

from desim import plotting, simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster
from desim.workloads import lublin

jobs = lublin.generate(num_jobs=1_000, num_cores=64, seed=0, load=0.9, overestimate=3.0)
cluster = BatchCluster(jobs, num_cores=64)
names = ("fcfs", "backfilling-fcfs", "easy-fcfs", "easy-sjf")
results = {name: simulate(cluster, create(name)) for name in names}

# %%
# Gantt charts
# ------------
# Which job held which cores when, on the sixth day of two of the runs. First come, first served leaves cores idle, in
# white, while a wide job waits for enough of them. EASY backfilling lets later jobs use them as long as they do not
# delay that job. Colours tell neighbouring jobs apart and mean nothing else.

day = 86_400
two = {name: results[name] for name in ("fcfs", "easy-fcfs")}
gantt_axes = plotting.gantt(two, window=(5 * day, 6 * day))

# %%
# Colours can mean something: here, how long jobs had waited. With first come, first served all wait for hours; EASY
# lets most of them start at once.

waits_axes = plotting.gantt(two, window=(5 * day, 6 * day), color_by="waiting_time")

# %%
# Utilization
# -----------
# The share of the cores that is busy, as means over bins. All runs have the same work to do; a policy that wastes less
# of the machine is done with it earlier.

utilization_axes = plotting.utilization(results)

# %%
# Queue length
# ------------
# First come, first served falls behind when it gets busy, and takes days to work its queue off, although the machine
# could have done the work: the other queues stay short.

queue_axes = plotting.queue_length(results)

# %%
# Waiting time by size
# --------------------
# Who pays? Shortest job first lets most jobs start at once. The wide ones, which need many cores at the same time, wait
# longest under every policy.

waiting_axes = plotting.waiting_by_size(results)

# %%
# Metrics
# -------
# Six of the metrics side by side. The best mean need not go with the best maximum: a policy that prefers short jobs
# can leave a long one waiting.

table = {name: result.metrics() for name, result in results.items()}
shown = [
    "waiting_time_mean",
    "waiting_time_median",
    "waiting_time_max",
    "bounded_slowdown_mean",
    "queue_length_mean",
    "utilization",
]
metric_axes = plotting.compare_metrics(table, metrics=shown)

# %%
# One run is not evidence: :doc:`/guides/metrics` shows how to compare policies over many seeds, and
# :func:`desim.plotting.view` puts all of this into one HTML file.
