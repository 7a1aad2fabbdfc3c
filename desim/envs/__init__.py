"""Gymnasium environments, one a problem; importing this package registers them.

========================  ===================================================
``desim/Batch-v0``        :class:`desim.envs.batch.BatchEnv`
``desim/Dag-v0``          :class:`desim.problems.dag.env.DagEnv`
``desim/Deferrable-v0``   :class:`desim.problems.deferrable.env.DeferrableEnv`
``desim/MultiServer-v0``  :class:`desim.problems.multiserver.env.MultiServerEnv`
========================  ===================================================
"""

from desim.envs.base import ACTION_MASK, Arrays, Encoder, Episodes, Reward, SchedulingEnv
from desim.envs.episodes import DrawnEpisodes
from desim.envs.flattening import FlatArrays
from desim.envs.registration import ENVIRONMENTS, register

__all__ = [
    "ACTION_MASK",
    "ENVIRONMENTS",
    "Arrays",
    "DrawnEpisodes",
    "Encoder",
    "Episodes",
    "FlatArrays",
    "Reward",
    "SchedulingEnv",
    "register",
]

register()
