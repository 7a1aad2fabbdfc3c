"""Multi-server jobs on a bipartite graph of job types and computing instances."""

from desim.problems.multiserver.cluster import HoldingCluster, MultiServerCluster
from desim.problems.multiserver.graph import BipartiteGraph, from_networkx, to_networkx
from desim.problems.multiserver.job import Job, Service, SlotOutcome
from desim.problems.multiserver.observation import MultiServerObservation
from desim.problems.multiserver.rewards import Earnings, Gang, GangRewards, RewardModel, Rewards
from desim.problems.multiserver.utilities import UTILITIES, Utility, register_utility, utility

__all__ = [
    "UTILITIES",
    "BipartiteGraph",
    "Earnings",
    "Gang",
    "GangRewards",
    "HoldingCluster",
    "Job",
    "MultiServerCluster",
    "MultiServerObservation",
    "RewardModel",
    "Rewards",
    "Service",
    "SlotOutcome",
    "Utility",
    "from_networkx",
    "register_utility",
    "to_networkx",
    "utility",
]
