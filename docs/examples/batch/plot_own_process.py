"""
A process of failing racks
==========================

A custom process: racks of a cluster lose power at random and come back four hours later. A Gantt chart and the
utilization show the effect. It runs in a second.
"""

# %%
# The process
# -----------
# Processes are generator functions that yield the events that they wait for, see :doc:`/guides/simpy`. This one waits
# for two days on average, takes one of four racks down, and repairs it. As a background process it does not keep the
# run going. Its random numbers belong to the seed of the run, so that every agent meets the same failures.

from desim import Phase, at, plotting, simulate
from desim.agents.batch import EASYBackfilling
from desim.problems.batch import BatchCluster
from desim.workloads import lublin

hour, day = 3_600.0, 86_400.0


def failing_racks(cluster):
    """Take a rack of 16 cores down now and then."""
    rng = cluster.simulation.stream("racks")
    while True:
        yield at(cluster.env, cluster.env.now + rng.exponential(48 * hour), Phase.CAPACITY)
        first = 16 * int(rng.integers(4))
        rack = range(first, first + 16)
        cluster.fail(cores=rack)
        yield at(cluster.env, cluster.env.now + 4 * hour, Phase.CAPACITY)
        cluster.repair(cores=rack)


failing_racks.background = True

# %%
# What it does
# ------------
# The grey hatched rectangles are racks that are down; jobs that were cut are hatched, too, and keep their colour when
# they run again. A job may lie on cores of several racks, and is cut with any of them.

jobs = lublin.generate(num_jobs=1_000, num_cores=64, seed=0, load=0.9, overestimate=5.0)
cluster = BatchCluster(jobs, num_cores=64, processes=[failing_racks])
result = simulate(cluster, EASYBackfilling("fcfs"), seed=1)
gantt_axes = plotting.gantt(result, window=(3.25 * day, 4.25 * day))

# %%
# Cores that are busy, and, in grey, cores that are up. A failure costs more than four hours of a rack: what the jobs
# on it had done so far is lost as well.

busy_axes = plotting.utilization(result, unit="cores", bin_width=2 * hour)
metrics = result.metrics()
print(f"{metrics['interruptions']:.0f} jobs cut, {metrics['wasted_core_seconds'] / hour:,.0f} core-hours lost")
