"""Job shops whose best makespans are known: rules, search with three budgets, and CP-SAT with the same time.

The instances are not part of the project: give the directory that holds ``jobshop/jobshop.json`` with ``--data``.
Without it, generated shops show the same order of agents. ``desim reproduce jobshop gaps --quick`` runs it;
``desim reproduce jobshop`` makes its report.
"""

from desim.experiments.paper import Family

__all__ = ["FAMILY"]

FAMILY = Family(
    name="jobshop",
    title="jobshop: job shops with known makespans",
    source="FT06: H. Fisher and G. L. Thompson, 1963. LA: S. Lawrence, 1984. ABZ: J. Adams, E. Balas and D. Zawack, "
    "Management Science 34(3), 1988. ORB: D. Applegate and W. Cook, ORSA Journal on Computing 3(2), 1991. SWV: R. H. "
    "Storer, S. D. Wu and R. Vaccari, Management Science 38(10), 1992. TA: E. Taillard, European Journal of "
    "Operational Research 64(2), 1993.",
    package="desim.experiments.jobshop",
    modules=("gaps",),
)
"""Experiments, in the order in which they are run."""
