"""
HEFT and DEFT
=============

Jobs that are graphs: their nodes run on executors of different speeds, and data move between them. What the pictures of
:mod:`desim.plotting` tell about HEFT (Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002) and about DEFT, which
also runs copies of a parent where its data are needed. It runs in a few seconds.
"""

# %%
# A job
# -----
# The ten nodes of figure 3 of the HEFT paper, with their run times on three executors and the data on the edges. An
# area is a mean run time, the width of an edge the size of its data. The critical path is the longest one if all takes
# its mean time; the run can be shorter, for data need no time within an executor.

from desim import plotting, simulate
from desim.agents.dag import DEFT, EFT, FIFO, HEFT, SJF, ListScheduler, RankUp
from desim.problems.dag import DagCluster, Executors, Job
from desim.processes.outages import random_outages
from desim.workloads import executors, tpch

run_times = [
    [14, 16, 9],
    [13, 19, 18],
    [11, 13, 19],
    [13, 8, 17],
    [12, 13, 10],
    [13, 16, 9],
    [7, 15, 11],
    [5, 11, 14],
    [18, 12, 20],
    [21, 7, 16],
]
data = {1: {2: 18, 3: 12, 4: 9, 5: 11, 6: 14}, 2: {8: 19, 9: 16}, 3: {7: 23}, 4: {8: 27, 9: 23}}
data |= {5: {9: 13}, 6: {8: 15}, 7: {10: 17}, 8: {10: 11}, 9: {10: 13}}
edges = [(str(parent), str(child), size) for parent, sizes in data.items() for child, size in sizes.items()]
names = [str(number) for number in range(1, 11)]
job = Job(1, [sum(times) / 3 for times in run_times], edges, names=names, run_times=run_times)
three = Executors([1.0, 1.0, 1.0], transfer_speed=1.0)
job_axes = plotting.dag_drawing(job, executors=three)

# %%
# Two schedules
# -------------
# HEFT plans the whole job when it arrives: 80 s, as in the paper. DEFT in the same order takes less: it runs some nodes
# twice, which are dotted. An arrow begins where and when data are sent, and ends where and when they have
# arrived. The critical chain, in black, is what the duration of the run depends on: each of its nodes started when the
# one before had finished, or its data had arrived.

agents = {"HEFT": HEFT(), "rank-up-DEFT": ListScheduler(RankUp(), DEFT())}
runs = {name: simulate(DagCluster([job], three, plan_ahead=True), agent) for name, agent in agents.items()}
gantt_axes = plotting.gantt(runs, critical_chain=True)

# %%
# Where the nodes ran: a second ring marks nodes with a duplicate.

ran_axes = plotting.dag_drawing(1, result=runs["rank-up-DEFT"])

# %%
# Many jobs
# ---------
# Queries like those of TPC-H on Spark, all submitted at once, on 20 executors. One of them:

cluster = executors.heterogeneous(20, transfer_speed=1.0, seed=0)
jobs = tpch.generate(12, sizes=(2, 5, 10), seed=0)
query_axes = plotting.dag_drawing(jobs[2], executors=cluster)

# %%
# All of them. There are more jobs than colours, so colours repeat, but neighbours differ. A label names the job and the
# node.

orders = {"rank-up-DEFT": ListScheduler(RankUp(), DEFT()), "FIFO-DEFT": ListScheduler(FIFO(), DEFT())}
orders |= {"SJF-DEFT": ListScheduler(SJF(), DEFT()), "rank-up-EFT": ListScheduler(RankUp(), EFT())}
results = {name: simulate(DagCluster(jobs, cluster), agent) for name, agent in orders.items()}
many_axes = plotting.gantt(results["rank-up-DEFT"])

# %%
# How many executors run something over time, and how many jobs are not finished yet.

used_axes = plotting.utilization(results)
system_axes = plotting.jobs_in_system(results)

# %%
# Outages
# -------
# Executors that fail take the results with them that they hold. Copies that were cut are hatched; what is lost and
# still needed runs again.

few = executors.heterogeneous(5, seed=0)
outages = random_outages(mean_time_to_failure=400.0, mean_time_to_repair=40.0)
failing = DagCluster(tpch.generate(6, sizes=(2,), seed=0), few, processes=[outages])
failed = simulate(failing, ListScheduler(RankUp(), DEFT()), seed=1)
failed_axes = plotting.gantt(failed, color_by="label")

# %%
# What the executors spent their time on.

share_axes = plotting.executor_utilization(failed, speeds=True)

# %%
# A comparison
# ------------
# Makespans over five workloads a point, with 95 % confidence intervals, and the lower bound that no schedule can pass.

counts = (2, 5, 10, 15)
makespans = {name: {count: [] for count in counts} for name in orders}
bound = {count: [] for count in counts}
for count in counts:
    for seed in range(5):
        batch = tpch.generate(count, sizes=(2, 5, 10), seed=seed)
        for name, agent in orders.items():
            metrics = simulate(DagCluster(batch, cluster), agent).metrics()
            makespans[name][count].append(metrics["makespan"])
        bound[count].append(metrics["lower_bound"])
lines_axes = plotting.metric_lines(makespans, bound=bound, xlabel="jobs", ylabel="makespan (s)")
