"""Resource-constrained scheduling of "A Bi-Level Framework for Learning to Solve Combinatorial Optimization on Graphs".

Many TPC-H queries are there at once on one pool; each stage holds its demand of the pool for its duration, and the
makespan counts. The test instances are not part of the project: give the directory that holds
``bihyb/instances.json.gz`` with ``--data``. Without it, generated queries show the same order of agents.
``desim reproduce bihyb stages --quick`` runs it; ``desim reproduce bihyb`` makes its report.
"""

from desim.experiments.paper import Family

__all__ = ["FAMILY"]

FAMILY = Family(
    name="bihyb",
    title="bihyb: stages of TPC-H queries on one pool",
    source='R. Wang, Z. Hua, G. Liu, J. Zhang, J. Yan, F. Qi, S. Yang, J. Zhou and X. Yang, "A bi-level framework for '
    'learning to solve combinatorial optimization on graphs", NeurIPS 2021.',
    package="desim.experiments.bihyb",
    modules=("stages", "online"),
)
"""Experiments of the paper, in the order in which they are run."""
