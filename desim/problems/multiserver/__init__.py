"""Multi-server jobs on a bipartite graph of job types and computing instances."""

from desim.problems.multiserver.cluster import MultiServerCluster, MultiSlotCluster
from desim.problems.multiserver.graph import BipartiteGraph, from_networkx, to_networkx
from desim.problems.multiserver.job import Job, RunningJob, SlotOutcome
from desim.problems.multiserver.observation import MultiServerObservation
from desim.problems.multiserver.rewards import Gang, GangRewards, RewardModel, Rewards, RewardTerms
from desim.problems.multiserver.utilities import UTILITIES, Utility, register_utility, utility

__all__ = [
    "UTILITIES",
    "BipartiteGraph",
    "Gang",
    "GangRewards",
    "Job",
    "MultiServerCluster",
    "MultiServerObservation",
    "MultiSlotCluster",
    "RewardModel",
    "RewardTerms",
    "Rewards",
    "RunningJob",
    "SlotOutcome",
    "Utility",
    "from_networkx",
    "register_utility",
    "to_networkx",
    "utility",
]
