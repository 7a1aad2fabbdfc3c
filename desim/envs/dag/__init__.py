"""The DAG cluster for learners: observations and rewards."""

from desim.envs.dag.env import DagEnv
from desim.envs.dag.job_features import FIXED_FEATURES, JobFeatures, KnownJobs
from desim.envs.dag.node_encoder import EXECUTOR_FEATURES, NODE_FEATURES, SYSTEM_FEATURES, Allocate, NodeEncoder
from desim.envs.dag.rewards import REWARDS, CompletionTimeReward, MakespanReward

__all__ = [
    "EXECUTOR_FEATURES",
    "FIXED_FEATURES",
    "NODE_FEATURES",
    "REWARDS",
    "SYSTEM_FEATURES",
    "Allocate",
    "CompletionTimeReward",
    "DagEnv",
    "JobFeatures",
    "KnownJobs",
    "MakespanReward",
    "NodeEncoder",
]
