"""The placement experiment of "Beware of Fragmentation" (USENIX ATC 2023): shares of GPUs on nodes that fill up.

Pods with parts of a GPU, or several, arrive one by one at a cluster and never leave; those that fit nowhere are
dropped. How much of the GPUs is in use when 1.3 times as many have been requested depends on where pods are put.
``python -m desim.experiments.openb.allocation --quick`` runs it; ``desim reproduce openb`` makes its report.

The trace is not part of the project: give its directory with ``--data``. Without it, a small cluster of made-up pods
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
    claims=True,
)
"""Its experiments, in the order in which they are run."""
