"""Agents for deferrable jobs by name."""

from __future__ import annotations

from functools import partial

from desim.agents.deferrable.forecasts import Forecast, Persistence, Seasonal
from desim.agents.deferrable.learned_forecast import LearnedForecast
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
from desim.agents.learning.pretrained import made_of
from desim.agents.registry import Family, Registry
from desim.core import Agent
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions", "files", "forecast_named"]

DAY = 24  # slots, if a name does not tell


def _score(source: str) -> Agent:
    """Return the agent of trained weights: a pretrained name or a path."""
    from desim.agents.deferrable.score_agent import ScoreAgent

    return ScoreAgent.named(source)


def _osdec(source: str) -> Agent:
    """Return OSDEC, or a variant, with trained weights: a pretrained name or a path."""
    from desim.agents.deferrable.osdec import OsdecAgent

    return OsdecAgent.named(source)


def _search(rest: str) -> Agent:
    """Return the search agent of an objective and perhaps a budget, such as ``total_reward:100``."""
    from desim.agents.deferrable.search import SearchAgent

    return SearchAgent.named(f"deferrable:{rest}")


def forecast_named(name: str) -> Forecast:
    """Return a forecast by name.

    Parameters
    ----------
    name : str
        ``"persistence"``, ``"seasonal"`` or ``"learned"``; behind the latter two there may be the slots of a day, such
        as ``"learned:48"``.

    Returns
    -------
    Forecast
        A new one.

    Raises
    ------
    InvalidConfiguration
        If there is none of this name.

    Examples
    --------
    >>> forecast_named("seasonal:12")
    Seasonal(period=12, carry=0.0, num_periods=1)
    """
    kind, _, period = name.partition(":")
    if name == "persistence":
        return Persistence()
    if period.isdecimal() or kind == name:
        slots = int(period) if period else DAY
        if kind == "seasonal":
            return Seasonal(slots)
        if kind == "learned":
            return LearnedForecast(slots)
    raise InvalidConfiguration(f"no forecast {name!r}; there are persistence, seasonal:PERIOD and learned:PERIOD")


def _rolling_horizon(forecast: str) -> Agent:
    """Return the planner with a forecast of a name."""
    agent = RollingHorizon(forecast_named(forecast))
    agent.name = f"rolling-horizon:{forecast}"
    return agent


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
        "osdec:NAME": Family(
            "OSDEC as printed, or a variant of its table 1: trained weights, by name or path.",
            _osdec,
            files=partial(made_of, agent="osdec"),
        ),
        "score:NAME": Family(
            "What desim makes of OSDEC: trained weights, by name or path.",
            _score,
            files=partial(made_of, agent="score"),
        ),
        "rolling-horizon:FORECAST": Family(
            "The same on a forecast: persistence, seasonal:PERIOD, learned:PERIOD, in slots.", _rolling_horizon
        ),
        "search:deferrable:OBJECTIVE:BUDGET": Family(
            "Takes jobs out of a plan and others in, and starts what the plan starts now; needs numba.",
            _search,
            "total_reward",
        ),
    },
)
create, descriptions, files = _REGISTRY.create, _REGISTRY.descriptions, _REGISTRY.files
