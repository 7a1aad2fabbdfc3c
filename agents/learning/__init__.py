"""Shared parts of learned agents: collection of experience, learning algorithms, the training loop, weight files.

This package depends on Gymnasium and knows no scheduling problem. PPO is in :mod:`~desim.agents.learning.ppo`.
:class:`PolicyAgent` turns policies that other libraries have trained into agents; it is imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from desim.agents.learning.policy_agent import PolicyAgent

__all__ = ["PolicyAgent"]


def __getattr__(name: str) -> Any:
    """Import ``PolicyAgent`` on first access, because it needs gymnasium."""
    if name != "PolicyAgent":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from desim.agents.learning.policy_agent import PolicyAgent

    return PolicyAgent
