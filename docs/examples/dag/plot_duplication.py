"""
When duplication pays
=====================

DEFT runs a parent again where its data are needed, if that is faster than sending them. How much that saves depends
on how long sending takes. It runs in a few seconds.
"""

# %%
# Gaps to the lower bound on six random graphs with 60 nodes, against the communication-to-computation ratio: how
# long data are on the way, on average, for each second that a node runs. Means with 95 % confidence bands. HEFT, which
# plans the whole job and copies nothing, is best where sending takes little, and DEFT where it takes as long as running
# or longer. (The lower bound knows of transfers only in part, so that all gaps grow.)

from desim import plotting, simulate
from desim.agents.dag import create
from desim.problems.dag import DagCluster
from desim.workloads import executors, random_dags

names = ("rank-up-eft", "rank-up-deft", "heft")
ratios = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
machines = executors.heterogeneous(8, seed=0)
gaps = {name: {ratio: [] for ratio in ratios} for name in names}
copies = {"rank-up-deft": {ratio: [] for ratio in ratios}}
for ratio in ratios:
    for seed in range(6):
        job = random_dags.generate(60, ccr=ratio, seed=seed)
        for name in names:
            metrics = simulate(DagCluster([job], machines), create(name)).metrics()
            gaps[name][ratio].append(100.0 * metrics["gap_to_lower_bound"])
            if name in copies:
                copies[name][ratio].append(metrics["num_duplicates"])
xlabel = "communication-to-computation ratio"
gap_axes = plotting.metric_lines(gaps, xlabel=xlabel, ylabel="makespan above\nthe lower bound (%)")
gap_axes.set_xscale("log", base=2)
gap_axes.set_xticks(ratios, [f"{ratio:g}" for ratio in ratios])

# %%
# And how many of the 60 nodes run twice.

copy_axes = plotting.metric_lines(copies, xlabel=xlabel, ylabel="duplicates", colors={"rank-up-deft": "#D55E00"})
copy_axes.set_xscale("log", base=2)
copy_axes.set_xticks(ratios, [f"{ratio:g}" for ratio in ratios])
