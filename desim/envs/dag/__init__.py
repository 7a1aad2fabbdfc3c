"""The DAG cluster for learners: observations and rewards."""

from desim.envs.dag.candidate_features import CANDIDATE_FEATURES, PROMPT, SOON, describe_candidates
from desim.envs.dag.env import DagEnv
from desim.envs.dag.graph_arrays import GraphSizes, SystemGraph, padded, padded_jobs, padded_progress, unpadded
from desim.envs.dag.graph_encoder import GraphAllocate, GraphEncoder
from desim.envs.dag.graph_features import (
    JOB_FEATURES,
    SYSTEM_GRAPH_FEATURES,
    JobGraph,
    JobProgress,
    describe_progress,
    describe_system,
)
from desim.envs.dag.job_features import FIXED_FEATURES, JobFeatures, PerJob, features_of
from desim.envs.dag.node_encoder import EXECUTOR_FEATURES, NODE_FEATURES, SYSTEM_FEATURES, Allocate, NodeEncoder
from desim.envs.dag.rewards import REWARDS, CompletionTimeReward, MakespanReward

__all__ = [
    "CANDIDATE_FEATURES",
    "EXECUTOR_FEATURES",
    "FIXED_FEATURES",
    "JOB_FEATURES",
    "NODE_FEATURES",
    "PROMPT",
    "REWARDS",
    "SOON",
    "SYSTEM_FEATURES",
    "SYSTEM_GRAPH_FEATURES",
    "Allocate",
    "CompletionTimeReward",
    "DagEnv",
    "GraphAllocate",
    "GraphEncoder",
    "GraphSizes",
    "JobFeatures",
    "JobGraph",
    "JobProgress",
    "MakespanReward",
    "NodeEncoder",
    "PerJob",
    "SystemGraph",
    "describe_candidates",
    "describe_progress",
    "describe_system",
    "features_of",
    "padded",
    "padded_jobs",
    "padded_progress",
    "unpadded",
]
