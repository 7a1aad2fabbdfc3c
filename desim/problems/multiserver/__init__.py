"""Multi-server jobs on a bipartite graph of job types and computing instances."""

from desim.problems.multiserver.cluster import MultiSlotCluster, MultiServerCluster
from desim.problems.multiserver.graph import BipartiteGraph, from_networkx, to_networkx
from desim.problems.multiserver.job import Job, RunningJob, SlotOutcome
from desim.problems.multiserver.observation import MultiServerObservation
from desim.problems.multiserver.rewards import RewardTerms, Gang, GangRewards, RewardModel, Rewards
from desim.problems.multiserver.utilities import UTILITIES, Utility, register_utility, utility

__all__ = [
    "UTILITIES",
    "BipartiteGraph",
    "RewardTerms",
    "Gang",
    "GangRewards",
    "MultiSlotCluster",
    "Job",
    "MultiServerCluster",
    "MultiServerObservation",
    "RewardModel",
    "Rewards",
    "RunningJob",
    "SlotOutcome",
    "Utility",
    "from_networkx",
    "register_utility",
    "to_networkx",
    "utility",
]
