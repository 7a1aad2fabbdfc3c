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

from agents.batch import create
from desim import simulate
from desim.problems.batch import BatchCluster
from workloads import lublin

jobs = lublin.generate(num_jobs=1_000, num_cores=64, seed=0, load=0.9, overestimate=3.0)
cluster = BatchCluster(jobs, num_cores=64)
results = {name: simulate(cluster, create(name)) for name in ("fcfs", "backfilling-fcfs", "easy-fcfs", "easy-sjf")}

# %%
# Gantt charts
# ------------
# Which job held which cores when, on the second day of two of the runs. First come, first served leaves cores idle, in
# white, while a wide job waits for enough of them. EASY back-filling lets later jobs use them as long as they do not
# delay that job. Colours tell neighbouring jobs apart and mean nothing else.

from desim.plotting import gantt

day = 86_400
gantt_axes = gantt({name: results[name] for name in ("fcfs", "easy-fcfs")}, window=(1 * day, 2 * day))

# %%
# Utilization
# -----------
# The share of the cores that is busy, as means over bins. All runs have the same work to do; a policy that wastes less
# of the machine is done with it earlier.

from desim.plotting import utilization

utilization_axes = utilization(results)

# %%
# Queue length
# ------------
# The queue of first come, first served keeps growing, although the machine could do the work.

from desim.plotting import queue_length

queue_axes = queue_length(results)

# %%
# Waiting time by size
# --------------------
# Who pays? Shortest job first lets most jobs start at once. The wide ones, which need many cores at the same time, wait
# longest under every policy.

from desim.plotting import waiting_by_size

waiting_axes = waiting_by_size(results)

# %%
# Metrics
# -------
# The metrics that matter most side by side. The best mean does not go with the best maximum: a policy that prefers
# short jobs can leave a long one waiting for days.

from desim.plotting import compare_metrics

metric_axes = compare_metrics({name: result.metrics() for name, result in results.items()})

# %%
# One run is not evidence: :doc:`/guides/metrics` shows how to compare policies over many seeds, and
# :func:`desim.plotting.report` puts all of this into one HTML file.
