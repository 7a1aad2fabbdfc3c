"""Agents for deferrable jobs by name."""

from __future__ import annotations

from functools import partial

from desim.agents.deferrable.list_plan import ListPlan
from desim.agents.deferrable.orders import (
    FIFO,
    SJF,
    EarliestDeadline,
    LargestRevenue,
    LeastSlack,
    RandomOrder,
    Tetris,
)
from desim.agents.deferrable.rolling_horizon import RollingHorizon
from desim.agents.registry import Family, Registry
from desim.core import Agent

__all__ = ["create", "descriptions"]


def _score(source: str) -> Agent:
    """Return the agent of trained weights: a pretrained name or a path."""
    from desim.agents.deferrable.score_agent import ScoreAgent

    return ScoreAgent.named(source)


def _search(rest: str) -> Agent:
    """Return the search agent of an objective and perhaps a budget, such as ``total_reward:100``."""
    from desim.agents.deferrable.search import SearchAgent

    return SearchAgent.named(f"deferrable:{rest}")


_REGISTRY: Registry = Registry(
    "deferrable",
    {
        "fifo": ("By submission time.", FIFO),
        "sjf": ("Shortest job first, by duration.", SJF),
        "smallest-work": ("Shortest job first, by cores times duration.", partial(SJF, "work")),
        "tetris": ("Packing: the largest request first.", Tetris),
        "earliest-deadline": ("By latest start plus duration.", EarliestDeadline),
        "largest-revenue": ("By cores times duration, the largest first.", LargestRevenue),
        "least-slack": ("By the slots for which the start can still be deferred.", LeastSlack),
        "list-plan": ("Plans the known jobs one by one, in five orders, and takes the best plan.", ListPlan),
        "list-plan-slack": ("The same, those first that can least be deferred.", partial(ListPlan, "slack")),
        "list-plan-worth": ("The same, those first that add most to the objective.", partial(ListPlan, "worth")),
        "rolling-horizon": ("Plans the known jobs in every slot, as if the capacity stayed as it is.", RollingHorizon),
        "random": ("A new random order in every slot.", RandomOrder),
    },
    {
        "score:NAME": Family("OSDEC or a variant: trained weights, by name or path.", _score),
        "search:deferrable:OBJECTIVE:BUDGET": Family(
            "Takes jobs out of a plan and others in, and starts what the plan starts now; needs numba.",
            _search,
            "total_reward",
        ),
    },
)
create, descriptions = _REGISTRY.create, _REGISTRY.descriptions
