"""
Allocations over time
=====================

Heat maps of a resource over the slots: how full each machine is, and what each type of job gets. It runs in a second.
"""

# %%
# Machines
# --------
# Forty machines and eight types of jobs, each of which arrives in seven of ten slots. A row is a machine, a column a
# slot, and the darker a cell, the larger the share of the machine's memory that jobs hold. Fairness gives away all
# that is requested, as long as there is any. Gradient ascent learns within a few slots to leave most of it unused,
# except on a few machines that it keeps full: memory on many machines brings a job less than the communication between
# them costs.

from desim import plotting, simulate
from desim.agents.multiserver import ExactOGA, Fairness
from desim.problems.multiserver import MultiServerCluster
from desim.workloads import multiserver

rewards = multiserver.generate(num_ports=8, num_nodes=40, seed=1)
cluster = MultiServerCluster(rewards, multiserver.bernoulli_arrivals(60, 8, seed=1))
agents = {"Fairness": Fairness(), "Exact OGA": ExactOGA()}
results = {name: simulate(cluster, agent) for name, agent in agents.items()}
for name, result in results.items():
    print(f"{name:9} average reward {result.metrics()['average_reward']:,.0f} a slot")
node_axes = plotting.allocation_map(results, "memory")

# %%
# Types of jobs
# -------------
# The same by port, in amounts. A port without a job gets nothing: these are the white cells.

port_axes = plotting.allocation_map(results, "memory", by="port")

# %%
# What it earns
# -------------
# The sum of the rewards so far. Gradient ascent is ahead from the first slots on.

reward_axes = plotting.cumulative_reward(results)
