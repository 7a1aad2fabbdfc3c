"""Tables 1, 2 and 4 and figure 4 of the OSDEC paper, with its agents as printed, and held-out workloads.

Dong et al., "An Advanced Reinforcement Learning Framework for Online Scheduling of Deferrable Workloads in Cloud
Computing".
"""

from desim.experiments.paper import Family

__all__ = ["FAMILY"]

FAMILY = Family(
    name="osdec",
    title="OSDEC: deferrable jobs under a fluctuating capacity",
    source='H. Dong et al., "An advanced reinforcement learning framework for online scheduling of deferrable '
    'workloads in cloud computing".',
    package="desim.experiments.osdec",
    modules=("table1", "table2", "table4", "figure4", "held_out"),
)
"""Experiments of the paper, in the order in which they are run."""
