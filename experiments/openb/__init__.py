"""The placement experiment of "Beware of Fragmentation" (USENIX ATC 2023): shared GPUs on nodes that fill up.

Pods that request part of a GPU or several GPUs arrive one by one at a cluster and never leave; those that do not fit
are dropped. The share of GPUs in use, when 1.3 times their number has been requested, depends on the placement policy.
``desim reproduce openb allocation --quick`` runs it; ``desim reproduce openb`` makes its report.

The trace is not part of the project: give its directory with ``--data``. Without it, a small cluster of synthetic pods
shows the same curves.
"""

from desim.experiments.paper import Family

__all__ = ["FAMILY"]

FAMILY = Family(
    name="openb",
    title="openb: placement of pods that share GPUs",
    source='Q. Weng, L. Yang, Y. Yu, W. Wang, X. Tang, G. Yang and L. Zhang, "Beware of fragmentation: scheduling '
    'GPU-sharing workloads with fragmentation gradient descent", USENIX ATC 2023.',
    package="desim.experiments.openb",
    modules=("allocation",),
)
"""Experiments of the paper, in the order in which they are run."""
