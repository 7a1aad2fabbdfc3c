"""
Policies
========

Hello
"""
from agents.batch import EASYBackfilling
from desim import simulate
from desim.plotting import gantt
from desim.problems.batch import BatchCluster
from workloads import lublin
jobs = lublin.generate(num_jobs=200, num_cores=64, seed=0, load=0.9, overestimate=5, num_users=20)
result = simulate(BatchCluster(jobs, num_cores=64), EASYBackfilling("fcfs"))
axes = gantt(result)
