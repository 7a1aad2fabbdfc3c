"""Figures 3 to 7 of the DBF paper: fixed rules, DBF and SchedInspector as printed, and desim's own agents.

Wang, Harwood and Rodriguez, "Deep Back-Filling: a Split Window Technique for Deep Online Cluster Job Scheduling".
"""

from desim.experiments.paper import Family

__all__ = ["FAMILY"]

FAMILY = Family(
    name="dbf",
    title="Deep back-filling: split windows",
    source='L. Wang, A. Harwood and M. A. Rodriguez, "Deep back-filling: a split window technique for deep online '
    'cluster job scheduling", HPCC 2022.',
    package="desim.experiments.dbf",
    modules=("figure3", "figure4", "figure5", "figure7", "held_out"),
)
"""Experiments of the paper, in the order in which they are run; figure 6 uses the runs of figure 5."""
