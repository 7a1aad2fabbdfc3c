"""Figures 3 to 7 of the DBF paper, and what it does not ask: controls, starvation, a real log.

Wang, Harwood and Rodriguez, "Deep Back-Filling: a Split Window Technique for Deep Online Cluster Job Scheduling".
"""

from desim.experiments.family import Family

__all__ = ["FAMILY"]

FAMILY = Family(
    name="dbf",
    title="Deep back-filling: split windows",
    source='L. Wang, A. Harwood and M. A. Rodriguez, "Deep back-filling: a split window technique for deep online '
    'cluster job scheduling", HPCC 2022.',
    package="desim.experiments.dbf",
    modules=("figure3", "figure4", "figure5", "figure6", "figure7", "controls", "starvation", "kth", "unseen"),
)
"""Its experiments, in the order in which they are run."""
