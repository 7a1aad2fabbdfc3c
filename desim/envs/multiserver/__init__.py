"""The multi-server cluster for learners: observations, allocations and rewards."""

from desim.envs.multiserver.allocation_encoder import AllocationEncoder
from desim.envs.multiserver.env import MultiServerEnv
from desim.envs.multiserver.rewards import REWARDS, PaperReward

__all__ = ["REWARDS", "AllocationEncoder", "MultiServerEnv", "PaperReward"]
