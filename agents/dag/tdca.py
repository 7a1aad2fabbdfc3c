"""TDCA: clusters of nodes, with duplicates, that are merged onto the executors.

Source: K. He, X. Meng, Z. Pan, L. Yuan and P. Zhou, "A novel task-duplication based clustering algorithm for
heterogeneous computing environments", IEEE TPDS 30(1), 2019; written from the description of its four phases in
LACHESIS, section V-A, without the paper at hand.
"""

from __future__ import annotations

from desim.agents.dag._placing import Placed
from desim.agents.dag._planning import PlanningAgent
from desim.agents.dag._tdca_merging import plan_with_tdca
from desim.agents.dag._union import UnionGraph

__all__ = ["TDCA"]


class TDCA(PlanningAgent):
    """Task-Duplication based Clustering Algorithm, after the description of its four phases.

    It plans whole jobs, those that arrive together as one graph, so it needs a cluster with ``plan_ahead=True``. What
    the phases do here, where the description leaves it open:

    1. Clusters: earliest completions are computed as if there were executors enough, with mean transfer times; the
       favourite predecessor of a node is the parent whose data would come last. From the node that is closest to the
       end and in no cluster, favourite predecessors are followed up to one that is in a cluster.
    2. Duplication: the path goes on above the first node of each cluster with copies of favourite predecessors, at most
       eight, as far as that lets the first node start earlier.
    3. Merging to the executors there are: nodes in order of upward rank; the first node of a cluster brings it to the
       executor on which the whole cluster would finish first, behind what is there and to come there. Its duplicates
       come along if they let it start earlier. Nodes of merged clusters run in order of upward rank, in idle time too.
    4. Insertion: before a node is placed, the parent whose data come last is copied into idle time before it, again
       and again, as long as the node can then start earlier. At the end, copies whose data nobody waits for are left
       out.

    If all nodes on one executor would be done earlier than that, this is what it plans. A node that comes back after an
    outage is assigned by upward rank and EFT. Later jobs queue behind those planned before.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster, Executors, Job
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0), plan_ahead=True), TDCA())
    >>> result.jobs["finish_time"].to_list()
    [3.5]
    """

    name = "TDCA"

    def plan(self, graph: UnionGraph) -> list[Placed]:
        """Return the schedule of jobs that have arrived together, in order of start."""
        return plan_with_tdca(graph)
