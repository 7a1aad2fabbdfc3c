"""
Ports, nodes and channels
=========================

Which machines may serve which types of jobs is a bipartite graph. What two policies send through it in one slot is
drawn on it. It runs in a second.
"""

# %%
# The graph
# ---------
# Types of jobs are ports, on the left, and machines are nodes, on the right. A channel joins a port to a node that
# may serve its jobs. The size of a disc is what a job of the port requests of the cores, or how many the node has.

from desim import plotting, simulate
from desim.agents.multiserver import ExactOGA, Fairness
from desim.problems.multiserver import MultiServerCluster
from desim.workloads import multiserver

rewards = multiserver.generate(num_ports=6, num_nodes=16, density=2.5, seed=2)
graph_axes = plotting.bipartite_drawing(rewards.graph, resource="cpu")

# %%
# One slot
# --------
# A listener keeps what is given away in each slot; the picture shows the cores in the last one, when all ports have a
# job. A channel is the wider, the more flows through it, and grey if nothing does. A node is the darker, the more of
# its cores are in use. Fairness shares all that there is.


def last_allocation(agent):
    """Return what an agent gives away in the last of 200 slots."""
    kept = []
    arrivals = multiserver.bernoulli_arrivals(200, 6, seed=0)
    arrivals[-1] = True
    cluster = MultiServerCluster(rewards, arrivals)
    cluster.on("slot", lambda time, outcome: kept.append(outcome.allocation.copy()))
    simulate(cluster, agent)
    return kept[-1]


fair_axes = plotting.bipartite_drawing(rewards.graph, allocation=last_allocation(Fairness()), resource="cpu")

# %%
# Gradient ascent has learned to hold back: parallel computing brings less and less, and every node more costs
# communication.

learned_axes = plotting.bipartite_drawing(rewards.graph, allocation=last_allocation(ExactOGA()), resource="cpu")

# sphinx_gallery_thumbnail_number = 3
