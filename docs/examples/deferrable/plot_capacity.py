"""
Capacity left by on-demand jobs
===============================

The capacity for deferrable jobs is what on-demand machines leave of a platform. Here these come and go as a process,
and four days of two rules are drawn. It runs in a few seconds.
"""

# %%
# The capacity
# ------------
# Batches of on-demand machines arrive at random, most of them in the afternoon and fewer at the weekend; each stays
# for five hours on average. They come first. Jobs that can wait get the rest. An agent
# knows this capacity for the slot that begins, but not for later slots. A slot is an hour.

from desim import plotting, simulate
from desim.agents.deferrable import create
from desim.problems.deferrable import DeferrableCluster
from desim.processes import Pattern, on_demand_vms
from desim.workloads.deferrable import FLUCTUATING, generate

batches = Pattern(3.0, amplitude=0.6, peak=14, day_length=24, weekend_level=0.7)
capacity = on_demand_vms(
    70,
    batches,
    lifetime=5.0,
    sizes=[1, 2, 4],
    probabilities=[0.6, 0.3, 0.1],
    batch_size=lambda rng, count: rng.geometric(0.6, count),
    warm_up=48,
)
scenario = generate(FLUCTUATING, seed=2)
cluster = DeferrableCluster(scenario.jobs, capacity, num_slots=96)

# %%
# Use
# ---
# Jobs by their size, the capacity as a line, and what is held beyond it hatched: such violations happen where the
# capacity falls while jobs run. FIFO starts what fits, in the order of submission; the planner solves a small
# optimization problem in every slot, with a forecast of the capacity.

names = {"FIFO": "fifo", "rolling horizon": "rolling-horizon"}
results = {title: simulate(cluster, create(name), seed=1) for title, name in names.items()}
use_axes = plotting.capacity_use(results)

# %%
# In numbers. The planner starts fewer jobs and earns more, for large and long jobs count more:

for title, result in results.items():
    found = result.metrics()
    print(
        f"{title:16} reward {found['total_reward']:,.0f}, {found['acceptance']:.0%} of the jobs started, "
        f"{found['violation']:.0f} core-slots of violation"
    )

# %%
# Work
# ----
# What is known of as each slot begins. What is lost because windows close is orange: most of it when the capacity is
# low.

work_axes = plotting.known_work(results)
