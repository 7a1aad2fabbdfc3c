"""
Simulated and recorded waits
============================

A log says how long jobs waited. Can we identify the policy from it, and what if the model of the machine is wrong? The
"real" machine is a simulation, so that the answer is known. It runs in a few seconds.
"""

# %%
# A log with known truth
# ----------------------
# The machine has 128 cores and starts jobs by EASY in the order of their requested times. A limit is not documented:
# each user may hold at most 96 of them. The log is its table of jobs, which becomes a workload with recorded waits.

import matplotlib.pyplot as plt

from desim import simulate
from desim.agents.batch import create
from desim.plotting import distributions
from desim.problems.batch import BatchCluster
from desim.problems.batch.fidelity import idle_waits, nearness
from desim.workloads import job_table, lublin

jobs = lublin.generate(2_000, 96, seed=3, load=0.85, overestimate=3.0)
log = job_table.jobs_from(simulate(BatchCluster(jobs, 96), create("easy-sjf")).jobs)

# %%
# Policies on two models
# ----------------------
# A wait is near if it is off by ten minutes or 20 % at most. Agents are asked on the machine as it stands in the
# books, and on the one that users have.

names = ("fcfs", "easy-fcfs", "easy-sjf", "conservative-fcfs")
waits = {}
for num_cores in (128, 96):
    for name in names:
        run = simulate(BatchCluster(log, num_cores), create(name))
        waits[name, num_cores] = run.jobs.sort("arrival_number")["waiting_time"].to_numpy()
        found = nearness(waits[name, num_cores], log.waiting_time)
        print(f"{name:18} {num_cores} cores: {found.near:6.1%} near, {found.mean_predicted:7,.0f} s in the mean")
print(f"{'the log':18} {'':9}  {'':11}  {log.waiting_time.mean():7,.0f} s in the mean")

# %%
# On the right machine the right policy is exact, and the other policies differ clearly. On the wrong one, the right
# policy is near for little more than half of the jobs. The log itself shows the error: in many waits, the cores of the
# book were free all the time.

long, free = idle_waits(log.jobs, log.waiting_time, 128)
print(f"{long} waits of more than ten minutes, {free} of them with enough free cores of 128 all the time")

# %%
# Distributions
# -------------
# On the wrong machine the distribution of waits points to the wrong policy: first come, first served with backfilling
# looks nearest, since it waits longer, as the log does, though for another reason. Who picks a policy by its fit to a
# log may pick what hides the faults of the model best.

figure, panels = plt.subplots(2, 1, figsize=(9, 7), layout="constrained")
for panel, num_cores in zip(panels, (128, 96), strict=True):
    curves = {name: waits[name, num_cores] for name in names}
    distributions({"recorded": log.waiting_time} | curves, label="waiting time", unit="s", axes=panel)
    panel.set_title(f"{num_cores} cores", loc="left")
