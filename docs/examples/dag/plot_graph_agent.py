"""
A graph network and heuristics
==============================

What a graph network makes of jobs that keep coming while data take long to move, beside the rules that it is compared
with. The agents are trained; it runs in a few seconds.
"""

# %%
# Twenty queries on eight executors
# ---------------------------------
# A transfer takes twice as long as a node, on average, and the executors have more to do than they can. The network
# gives nodes to idle executors only, and to none while a busy one, which holds the data, would finish them sooner: its
# executors hardly wait for data, which is grey in the charts, and the long chain of the last job begins in time.

from desim import plotting, simulate
from desim.agents.dag import create
from desim.decision_times import DecisionTimes
from desim.problems.dag import DagCluster
from desim.workloads import executors, submissions, tpch

machines = executors.heterogeneous(8, seed=3)
jobs = submissions.poisson(tpch.generate(20, ccr=2.0, seed=3), 45.0, seed=3)
names = {
    "graph network": "graph:tpch-makespan",
    "rank-up-DEFT, idle": "rank-up-deft-idle",
    "rank-up-DEFT": "rank-up-deft",
}
results = {row: simulate(DagCluster(jobs, machines), create(name)) for row, name in names.items()}
for row, result in results.items():
    print(f"{row:20} makespan {result.metrics()['makespan']:,.0f} s")
plotting.gantt(results, labels=False)

# %%
# How long jobs take
# ------------------
# Whoever wants jobs done soon asks another agent: this one was trained on the mean completion time. Jobs in the system
# over time, with the rule of the paper that is best at it.

names = {"graph network, completion": "graph:tpch-completion", "HRRN-DEFT, idle": "hrrn-deft-idle"}
results |= {row: simulate(DagCluster(jobs, machines), create(name)) for row, name in names.items()}
for row, result in results.items():
    print(f"{row:26} {result.metrics()['turnaround_time_mean']:,.0f} s a job")
plotting.jobs_in_system(results)

# %%
# A decision
# ----------
# The embeddings of a job are computed when it arrives, and a decision is a few products of small matrices.

agent = DecisionTimes(create("graph:tpch-makespan"))
simulate(DagCluster(jobs, machines), agent)
plotting.decision_time_cdf({"graph network": agent.seconds})
