"""The names under which Gymnasium knows the environments."""

from __future__ import annotations

import gymnasium

__all__ = ["ENVIRONMENTS", "register"]

ENVIRONMENTS = {
    "desim/Batch-v0": "desim.envs.batch:BatchEnv",
    "desim/Dag-v0": "desim.problems.dag.env:DagEnv",
    "desim/Deferrable-v0": "desim.problems.deferrable.env:DeferrableEnv",
    "desim/MultiServer-v0": "desim.problems.multiserver.env:MultiServerEnv",
}
"""Where each environment stands, by its versioned id."""


def register() -> None:
    """Make all environments known to ``gymnasium.make``; once more does no harm."""
    for name, entry_point in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            # The mask depends on the action space only, and wrappers that check each step cost more than a step.
            gymnasium.register(name, entry_point, disable_env_checker=True, order_enforce=False)
