"""
The critical chain of a run
===========================

Why did a run not end sooner? The critical chain tells which nodes, and which transfers between them, its duration
depends on. It runs in a second.
"""

# %%
# A slow network
# --------------
# One graph of 24 nodes on four executors, where sending data takes twice as long as running nodes, on average. HEFT
# plans the whole job with what it knows of run times and transfers; "random" assigns nodes in any order, each to the
# executor that can start it first.

from desim import plotting, simulate
from desim.agents.dag import create
from desim.problems.dag import DagCluster
from desim.workloads import executors, random_dags

machines = executors.heterogeneous(4, seed=2)
job = random_dags.generate(24, shape=0.8, out_degree=2, ccr=2.0, seed=5)
runs = {
    name: simulate(DagCluster([job], machines), create(name))
    for name in ("random-eft", "heft", "rank-up-insertion-deft")
}
for name, result in runs.items():
    metrics = result.metrics()
    print(f"{name:22} makespan {metrics['makespan']:.2f} s, lower bound {metrics['lower_bound']:.2f} s")

# %%
# Framed in black is the chain: each of its nodes started when the one before had finished on the same executor, or
# when its data had arrived, along a black arrow. To shorten the run, one has to change something on it. A thin grey
# bar is an executor that waits for data.

chain_axes = plotting.gantt(runs, critical_chain=True, speeds=True)

# %%
# The same in the graph: colours are executors, and a second ring marks nodes that ran twice. DEFT copies nodes near
# the beginning of the graph, so that their data need not be sent.

graph_axes = plotting.dag_drawing(job, result=runs["rank-up-insertion-deft"])
