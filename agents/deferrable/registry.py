"""Registry of agents for deferrable jobs, by name."""

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
from desim.agents.registry import Family, Registry
from desim.core import Agent
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions", "forecast_named"]

DAY = 24  # slots per day, unless a name states another period


def _score(source: str) -> Agent:
    """Return the score agent with trained weights, given by a pretrained name or a path."""
    from desim.agents.deferrable.score_agent import ScoreAgent

    return ScoreAgent.named(source)


def _osdec(source: str) -> Agent:
    """Return OSDEC or a variant with trained weights, given by a pretrained name or a path."""
    from desim.agents.deferrable.osdec import OsdecAgent

    return OsdecAgent.named(source)


def _search(rest: str) -> Agent:
    """Return the search agent of an objective and an optional budget, such as ``total_reward:100``."""
    from desim.agents.deferrable.search import SearchAgent

    return SearchAgent.named(f"deferrable:{rest}")


def forecast_named(name: str) -> Forecast:
    """Return a forecast by name.

    Parameters
    ----------
    name : str
        Name of the forecast: ``"persistence"``, ``"seasonal"`` or ``"learned"``. The latter two may be followed by the
        period in slots, such as ``"learned:48"``.

    Returns
    -------
    Forecast
        New forecast.

    Raises
    ------
    InvalidConfiguration
        If the name is unknown.

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
    raise InvalidConfiguration(f"forecast: got {name!r}, expected persistence, seasonal:PERIOD or learned:PERIOD")


def _rolling_horizon(forecast: str) -> Agent:
    """Return the rolling-horizon agent with the named forecast."""
    agent = RollingHorizon(forecast_named(forecast))
    agent.name = f"rolling-horizon:{forecast}"
    return agent


_REGISTRY: Registry = Registry(
    "deferrable",
    {
        "fifo": ("First in, first out: in order of submission.", FIFO),
        "sjf": ("Shortest job first: in order of duration.", SJF),
        "smallest-work": ("Smallest work first: in order of cores times duration.", partial(SJF, "work")),
        "tetris": ("Packing: largest request first.", Tetris),
        "earliest-deadline": ("Earliest latest end first: latest start plus duration.", EarliestDeadline),
        "largest-revenue": ("Largest revenue first: cores times duration.", LargestRevenue),
        "least-slack": ("Smallest slack first: slots until the latest start.", LeastSlack),
        "list-plan": ("Best of five list schedules of the known jobs, each in another order.", ListPlan),
        "list-plan-slack": ("List schedule of the known jobs, least slack first.", partial(ListPlan, "slack")),
        "list-plan-worth": ("List schedule of the known jobs, largest reward first.", partial(ListPlan, "worth")),
        "rolling-horizon": ("Optimizes a plan of the known jobs in every slot, at constant capacity.", RollingHorizon),
        "random": ("Random order, new in every slot.", RandomOrder),
    },
    {
        "osdec:NAME": Family(
            "OSDEC as in the paper, or a variant of its table 1: trained weights, by name or path.",
            _osdec,
        ),
        "score:NAME": Family(
            "OSDEC as extended by desim: trained weights, by name or path.",
            _score,
        ),
        "rolling-horizon:FORECAST": Family(
            "rolling-horizon with a forecast: persistence, seasonal:PERIOD or learned:PERIOD, period in slots.",
            _rolling_horizon,
        ),
        "search:deferrable:OBJECTIVE:BUDGET": Family(
            "Large-neighbourhood search over plans of the known jobs, in every slot; needs numba.",
            _search,
            "total_reward",
        ),
    },
)
create, descriptions = _REGISTRY.create, _REGISTRY.descriptions
