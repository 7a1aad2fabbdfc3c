"""The cluster for deferrable jobs for learners: observations, scores and rewards."""

from desim.envs.deferrable.env import DeferrableEnv
from desim.envs.deferrable.rewards import REWARDS, PaperReward, UtilizationReward
from desim.envs.deferrable.score_encoder import (
    CURRENT_FEATURES,
    FUTURE_FEATURES,
    HISTORY_FEATURES,
    SYSTEM_FEATURES,
    Advice,
    DecodingRule,
    ScoreEncoder,
)

__all__ = [
    "CURRENT_FEATURES",
    "FUTURE_FEATURES",
    "HISTORY_FEATURES",
    "REWARDS",
    "SYSTEM_FEATURES",
    "Advice",
    "DecodingRule",
    "DeferrableEnv",
    "PaperReward",
    "ScoreEncoder",
    "UtilizationReward",
]
