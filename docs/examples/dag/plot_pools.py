"""
Pools
=====

Stages that hold cores and memory of two pools: the search against a list scheduler.
"""

# %%
# Each project has 20 jobs, which demand up to ten units of two resources. Two pools of different speed run them.

from desim import plotting, simulate
from desim.agents.dag import create
from desim.problems.dag import DagCluster, Executors
from desim.workloads.dag import rcpsp

(project, pool), (other, _) = (rcpsp.generate(20, resources=2, strength=0.3, seed=seed) for seed in (1, 2))
capacity = dict.fromkeys(pool.resources, 12)
pools = Executors([1.0, 0.7], capacities=[capacity, capacity], names=["fast", "slow"])
jobs = [project.submitted(0.0, job_id=1), other.submitted(5.0, job_id=2)]

# %%
# The list scheduler starts what fits, most urgent first. The search packs the nodes backward and forward in time. Nodes
# that run on a pool at the same time are above each other.

names = {"list scheduler": "rank-up-eft-idle", "search": "search:dag:makespan:1000"}
results = {name: simulate(DagCluster(jobs, pools), create(agent)) for name, agent in names.items()}
axes = plotting.gantt(results, labels=False)
for name, result in results.items():
    print(f"{name}: {result.metrics()['makespan']:.1f} s")

# %%
# The amounts that nodes hold, as percentages of both pools:

axes = plotting.pool_utilization(results)
