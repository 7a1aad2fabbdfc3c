"""The batch cluster for learners: split window, observations, rewards, episodes."""

from desim.envs.batch.env import BatchEnv, make_encoder
from desim.envs.batch.episodes import TraceEpisodes
from desim.envs.batch.feature_encoder import CLUSTER_FEATURES, JOB_FEATURES, SCALE, FeatureEncoder
from desim.envs.batch.flat_encoder import FlatEncoder
from desim.envs.batch.rewards import REWARDS, PaperReward, ScaledReward, WaitingCost, make_reward
from desim.envs.batch.window import SplitWindow, WindowEncoder

__all__ = [
    "CLUSTER_FEATURES",
    "JOB_FEATURES",
    "REWARDS",
    "SCALE",
    "BatchEnv",
    "FeatureEncoder",
    "FlatEncoder",
    "PaperReward",
    "ScaledReward",
    "SplitWindow",
    "TraceEpisodes",
    "WaitingCost",
    "WindowEncoder",
    "make_encoder",
    "make_reward",
]
