"""
Windows and fluctuating capacity
================================

Virtual machines that can wait a little, on what on-demand customers leave of a platform: the problem of the OSDEC paper
(Dong et al., "An Advanced Reinforcement Learning Framework for Online Scheduling of Deferrable Workloads in Cloud
Computing"). What the pictures of :mod:`desim.plotting` tell about four ways to start them. It runs in a few seconds.
"""

# %%
# The scenario
# ------------
# Five jobs a slot, each known a few slots before its window, within which it has to start. The capacity goes up
# and down with the day, here of 24 slots, and wavers besides.

import numpy as np

from desim import plotting, simulate
from desim.agents.deferrable import FIFO, SJF, Tetris
from desim.problems.deferrable import DeferrableCluster, Job

num_slots = 96
rng = np.random.default_rng(0)
day = 40.0 * (1.0 + 0.5 * np.sin(2.0 * np.pi * np.arange(num_slots) / 24.0))
capacity = np.floor(day + rng.normal(0.0, 2.0, num_slots))

jobs = []
for time in np.sort(rng.uniform(0.0, num_slots, 5 * num_slots)):
    earliest = int(np.ceil(time)) + int(rng.integers(4))
    latest = earliest + int(rng.integers(5))
    duration = int(rng.choice([1, 2, 4, 12], p=[0.3, 0.2, 0.2, 0.3]))
    cores = float(rng.choice([1, 2, 4, 8], p=[0.51, 0.37, 0.08, 0.04]))
    jobs.append(Job(len(jobs), float(time), earliest, latest, duration, cores))

# %%
# The agents
# ----------
# FIFO, SJF and Tetris start what fits into the capacity of the slot, and do not ask how long it will last. The
# fourth starts all that it can, the capacity or not: an agent is any object that answers with positions in
# ``observation.current``.


class Eager:
    """Starts every job as soon as its window opens."""

    name = "eager"

    def act(self, observation):
        """Return the positions of all jobs whose window is open."""
        return range(len(observation.current))


cluster = DeferrableCluster(jobs, capacity, num_slots=num_slots)
agents = {"FIFO": FIFO(), "SJF": SJF(), "Tetris": Tetris(), "eager": Eager()}
results = {name: simulate(cluster, agent) for name, agent in agents.items()}

# %%
# Capacity and use
# ----------------
# What running jobs hold, by their size, and the capacity. Jobs are not interrupted: where the capacity falls faster
# than jobs end there is a violation, hatched, which costs ten core-slots for each core and slot.

use_axes = plotting.capacity_use(results["FIFO"])

# %%
# All four, on the same axes.

all_axes = plotting.capacity_use(results)

# %%
# One day in detail: every job is a rectangle, as high as its cores. It may slide down when jobs below it end.

job_axes = plotting.capacity_use(results["FIFO"], by="job", window=(24, 48))

# %%
# Windows
# -------
# The jobs of an evening, when the capacity falls. A line is the lead time, a pale bar the window, a black mark the
# start; jobs that did not find room in time are orange.

window_axes = plotting.gantt(results["FIFO"], window=(58, 70))

# %%
# Known work
# ----------
# What an agent knows of as each slot begins. In orange is the work that is lost with the slot, since jobs are not
# started in the last slot of their window: at night, when the capacity is low.

work_axes = plotting.known_work(results["FIFO"])

# %%
# Evictions
# ---------
# If the platform takes the capacity back instead, the jobs that were started last have to go. Here they may begin anew
# while their window is open. A run that was cut is hatched, and its end marked with a cross.

evicting = DeferrableCluster(jobs, capacity, num_slots=num_slots, eviction="restarted")
evicted = simulate(evicting, FIFO())
evicted_axes = plotting.gantt(evicted, window=(86, 96), num_jobs=30)
