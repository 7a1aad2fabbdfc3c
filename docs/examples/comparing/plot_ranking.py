"""
Ranks and performance profiles
==============================

Eight schedulers on twelve random graphs: who is better than whom, who is only lucky, and by how much it matters. It
runs in a few seconds.
"""

# %%
# The runs
# --------
# All schedulers meet the same graphs, of 40 nodes in layers, with edges that take as long as nodes, on the same eight
# executors. Makespans of different graphs cannot be averaged in good conscience; ranks and ratios can.

from desim import plotting, simulate
from desim.agents.dag import create
from desim.problems.dag import DagCluster
from desim.statistics import paired_tests, performance_profile, rank_agents
from desim.workloads import executors, random_dags

machines = executors.heterogeneous(8, seed=0)
names = ("heft", "peft", "cpop", "tdca", "dls", "rank-up-eft", "rank-up-deft", "random-eft")
makespans = {name: [] for name in names}
for seed in range(12):
    job = random_dags.generate(40, ccr=1.0, seed=seed)
    for name in names:
        cluster = DagCluster([job], machines)
        makespans[name].append(simulate(cluster, create(name), seed=seed).metrics()["makespan"])

# %%
# Critical differences
# --------------------
# On each graph the shortest makespan has rank 1. A dot is a mean rank, a line half the critical difference on either
# side. A bar on the right joins agents whose mean ranks do not differ significantly, by Friedman's test with Nemenyi's
# critical difference.

ranking = rank_agents(makespans, better="lower")
print(f"Friedman's test that all are alike: p = {ranking.p_value:.1g}")
rank_axes = plotting.critical_differences(ranking)

# %%
# The bars are cautious, for they hold for all pairs at once. If it is clear beforehand which agent is in question,
# test the others against it: Wilcoxon's signed ranks, with p-values that are adjusted for the number of tests.

for test in paired_tests(makespans, baseline="heft"):
    print(f"{test.agents[0]:12} {test.difference:+6.2f} s, p = {test.adjusted:.2g}")

# %%
# Performance profiles
# --------------------
# Ranks do not say by how much agents differ. A profile does: it shows the share of graphs on which the makespan is at
# most a given multiple of the shortest one that any scheduler has found. At 1 it is the share of graphs on which a
# scheduler is the best. The point where the profile reaches 1 shows the worst case.

profile_axes = plotting.performance_profiles(performance_profile(makespans))
