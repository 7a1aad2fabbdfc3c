"""Gymnasium environments, one per problem; importing this package registers them.

========================  ===================================================
``desim/Batch-v0``        :class:`desim.problems.batch.env.BatchEnv`
``desim/Dag-v0``          :class:`desim.problems.dag.env.DagEnv`
``desim/Deferrable-v0``   :class:`desim.problems.deferrable.env.DeferrableEnv`
``desim/MultiServer-v0``  :class:`desim.problems.multiserver.env.MultiServerEnv`
========================  ===================================================

``gymnasium.make_vec("desim/Batch-v0", 64, vectorization_mode="vector_entry_point")`` creates a
:class:`~desim.problems.batch.vector_env.BatchVectorEnv`, whose episodes a compiled loop steps together.
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
from desim.problem import ProblemDescriptor, kinds

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
    return {name: kind.environment for name, kind in _kinds().items()}


def _kinds() -> dict[str, ProblemDescriptor]:
    """Return the kinds of problems that have an environment, by its id."""
    found = (kind for kind in kinds().values() if kind.environment)
    return {f"desim/{kind.environment.partition(':')[2].removesuffix('Env')}-v0": kind for kind in found}


def register() -> None:
    """Register all environments with ``gymnasium.make``; calling it again is harmless."""
    for name, kind in _kinds().items():
        if name not in gymnasium.registry:
            # The mask depends only on the action space, and wrappers that check each step cost more than a step.
            gymnasium.register(
                name,
                kind.environment,
                vector_entry_point=kind.vector_environment or None,
                disable_env_checker=True,
                order_enforce=False,
            )


register()
