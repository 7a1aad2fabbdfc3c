"""The experiments of LACHESIS: Luo et al., "Learning to Optimize DAG Scheduling in Heterogeneous Environment".

Each module is a figure or a question. ``desim reproduce lachesis figure7``, for example, runs one;
``desim reproduce lachesis`` runs all of them.
"""

from desim.experiments.paper import Family

__all__ = ["FAMILY"]

FAMILY = Family(
    name="lachesis",
    title="LACHESIS: DAG jobs on heterogeneous executors",
    source='Luo, Zhou, Li, Yuan, Zeng and Yao, "Learning to Optimize DAG Scheduling in Heterogeneous Environment".',
    package="desim.experiments.lachesis",
    modules=("figure6", "figure7", "figure8", "figure9", "scan", "held_out", "families"),
)
"""Experiments of the paper, in the order in which they are run."""
