"""Agents for deferrable jobs by name, for sweeps and the command line."""

from __future__ import annotations

from collections.abc import Callable

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
from desim.core import Agent
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions"]

_SCORE = "score"

_AGENTS: dict[str, tuple[str, Callable[[], Agent]]] = {
    "fifo": ("By submission time.", FIFO),
    "sjf": ("Shortest job first, by duration.", SJF),
    "smallest-work": ("Shortest job first, by cores times duration.", lambda: SJF("work")),
    "tetris": ("Packing: the largest request first.", Tetris),
    "earliest-deadline": ("By latest start plus duration.", EarliestDeadline),
    "largest-revenue": ("By cores times duration, the largest first.", LargestRevenue),
    "least-slack": ("By the slots for which the start can still be deferred.", LeastSlack),
    "list-plan": ("Plans the known jobs one by one, in five orders, and takes the best plan.", ListPlan),
    "list-plan-slack": ("The same, those first that can least be deferred.", lambda: ListPlan("slack")),
    "list-plan-worth": (
        "The same, those first that add most to the objective.",
        lambda: ListPlan("worth"),
    ),
    "rolling-horizon": ("Plans the known jobs in every slot, as if the capacity stayed as it is.", RollingHorizon),
    "random": ("A new random order in every slot.", RandomOrder),
}


def create(name: str) -> Agent:
    """Return a new agent.

    Parameters
    ----------
    name : str
        One of :func:`descriptions`; with ``"score:NAME"``, NAME is that of pretrained weights, or a path.

    Returns
    -------
    Agent
        With its default settings.

    Raises
    ------
    InvalidConfiguration
        If there is none of that name.
    """
    if name.startswith(f"{_SCORE}:"):
        return _score(name.partition(":")[2])
    if name not in _AGENTS:
        known = ", ".join([*_AGENTS, f"{_SCORE}:NAME"])
        raise InvalidConfiguration(f"no agent {name!r} for deferrable jobs; there are {known}")
    return _AGENTS[name][1]()


def _score(source: str) -> Agent:
    """Return the agent of trained weights: a pretrained name or a path."""
    from desim.agents.deferrable.score_agent import ScoreAgent

    return ScoreAgent.named(source)


def descriptions() -> dict[str, str]:
    """Return every name with a line on what the agent does.

    Returns
    -------
    dict of str to str
        In the order in which they are listed.
    """
    lines = {name: description for name, (description, _) in _AGENTS.items()}
    return lines | {f"{_SCORE}:NAME": "OSDEC or a variant: trained weights, by name or path."}
