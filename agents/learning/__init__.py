"""What agents that learn share: experience of many environments, algorithms, a training loop, files.

It knows Gymnasium, and nothing of clusters. PPO's story is :mod:`~desim.agents.learning.ppo`. Policies that other
libraries have trained become agents by :class:`PolicyAgent`, which is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from desim.agents.learning.policy_agent import PolicyAgent

__all__ = ["PolicyAgent"]


def __getattr__(name: str) -> Any:
    """Import what needs gymnasium."""
    if name != "PolicyAgent":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from desim.agents.learning.policy_agent import PolicyAgent

    return PolicyAgent
