"""Gymnasium environments, one per problem; importing this package registers them.

========================  ===================================================
``desim/Batch-v0``        :class:`desim.problems.batch.env.BatchEnv`
``desim/Dag-v0``          :class:`desim.problems.dag.env.DagEnv`
``desim/Deferrable-v0``   :class:`desim.problems.deferrable.env.DeferrableEnv`
``desim/MultiServer-v0``  :class:`desim.problems.multiserver.env.MultiServerEnv`
========================  ===================================================
"""

import gymnasium

from desim.envs.base import (
    ACTION_MASK,
    Arrays,
    Encoder,
    Episodes,
    FlattenArrays,
    Reward,
    SampledEpisodes,
    SchedulingEnv,
)
from desim.problem import kinds

__all__ = [
    "ACTION_MASK",
    "Arrays",
    "Encoder",
    "Episodes",
    "FlattenArrays",
    "Reward",
    "SampledEpisodes",
    "SchedulingEnv",
    "environments",
    "register",
]


def environments() -> dict[str, str]:
    """Return the references of the environments of all kinds of problems, by versioned id."""
    places = (kind.environment for kind in kinds().values() if kind.environment)
    return {f"desim/{place.partition(':')[2].removesuffix('Env')}-v0": place for place in places}


def register() -> None:
    """Register all environments with ``gymnasium.make``; calling it again is harmless."""
    for name, place in environments().items():
        if name not in gymnasium.registry:
            # The mask depends only on the action space, and wrappers that check each step cost more than a step.
            gymnasium.register(name, place, disable_env_checker=True, order_enforce=False)


register()
