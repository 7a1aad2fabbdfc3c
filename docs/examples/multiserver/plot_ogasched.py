"""
Online gradient ascent and four baselines
=========================================

Jobs that are served by many machines at once, on the default system of the OGASched paper (arXiv 2305.06572): 10 types
of jobs, 128 machines, six resources. What the pictures of :mod:`desim.plotting` tell about online gradient ascent and
the heuristics that it is compared with. It runs in a few seconds.
"""

# %%
# The graph
# ---------
# Job types are *ports*, machines are *nodes*, and a *channel* joins a port to a node that may serve its jobs. Ports and
# nodes are sorted such that few channels cross. A disc is the larger the more channels end at it.

from desim import plotting, simulate
from desim.agents.multiserver import DRF, BinPacking, ExactOGA, Fairness, Spreading
from desim.problems.multiserver import MultiServerCluster
from desim.workloads import multiserver

rewards = multiserver.generate(seed=0)
graph_axes = plotting.bipartite_drawing(rewards.graph)

# %%
# The runs
# --------
# In every slot a job arrives at each port with probability 0.7, and the agent divides what the nodes have between the
# jobs that are there. All agents see the same jobs. Gradient ascent is that with exact projection; the algorithm that
# the paper prints, :class:`~desim.agents.multiserver.OGASched`, spends all that there is, and exceeds requests.

arrivals = multiserver.bernoulli_arrivals(160, rewards.graph.num_ports, seed=0)
agents = {
    "Exact OGA": ExactOGA(),
    "DRF": DRF(),
    "Fairness": Fairness(),
    "BinPacking": BinPacking(),
    "Spreading": Spreading(),
}
results = {name: simulate(MultiServerCluster(rewards, arrivals), agent) for name, agent in agents.items()}

# %%
# Rewards
# -------
# The reward of a job is its gain by parallel computation, less the overhead of communication between the machines that
# serve it. The average reward until a slot is figure 2(a) of the paper; here gradient ascent needs a few slots of
# learning.

average_axes = plotting.average_reward(results)

# %%
# The same as the ratio of its average reward to that of each baseline, figure 2(c) of the paper.

ratio_axes = plotting.reward_ratio(results, of="Exact OGA")

# %%
# What rewards are made of: the baselines hand out all that they can, and the jobs pay for it with overhead.

parts_axes = plotting.reward_parts(results)

# %%
# What is given away
# ------------------
# Which share of each resource is in use. The overhead of a job is that of one resource, the one with the largest, so
# that it pays to hold back the abundant ones. Only gradient ascent learns to.

used_axes = plotting.resource_utilization(results)

# %%
# Node by node, for the cores: white is a node of which nothing is given away, dark one of which all is.

two = {name: results[name] for name in ("Exact OGA", "Fairness")}
map_axes = plotting.allocation_map(two, "cpu", window=(0, 100))

# %%
# And which ports get the accelerators. A port without a job gets nothing in that slot.

port_axes = plotting.allocation_map(results["Exact OGA"], "gpu", by="port", window=(0, 100))

# %%
# One slot
# --------
# An allocation can be drawn on its graph. On a smaller system a listener keeps what gradient ascent gives away in each
# slot, and the picture shows the cores in the last one. A channel is the wider the more flows through it, a node the
# darker the less it has left. Discs are requests and capacities.

small = multiserver.generate(num_ports=4, num_nodes=8, density=2.0, seed=0)
cluster = MultiServerCluster(small, multiserver.bernoulli_arrivals(100, 4, seed=0))
allocations = []
cluster.on("slot", lambda time, outcome: allocations.append(outcome.allocation.copy()))
simulate(cluster, ExactOGA())
allocation_axes = plotting.bipartite_drawing(small.graph, allocation=allocations[-1], resource="cpu")

# %%
# One system is not evidence: rewards depend on the machines and requests that the seed draws.
