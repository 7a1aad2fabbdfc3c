"""One run of the experiments: a trajectory of jobs and capacity, and an agent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from desim import simulate
from desim.agents.deferrable import (
    FIFO,
    SJF,
    EarliestDeadline,
    Forecast,
    LargestRevenue,
    LastValue,
    Learned,
    LeastSlack,
    Oracle,
    Planned,
    RandomOrder,
    RollingHorizon,
    Seasonal,
    Tetris,
    offline_optimum,
)
from desim.agents.deferrable.list_plan import ListPlan
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.experiments.measured import Choice, is_valid
from desim.experiments.osdec.workloads import TRACED, traced
from desim.problems.deferrable import DeferrableCluster, Foresight, foresee
from desim.sweep import Run
from desim.workloads.deferrable import FLUCTUATING, Settings, generate, named

SCORE = "score"
"""The policy of learned agents, which :mod:`desim.experiments.osdec.learned` knows."""

Made = tuple[Agent, dict[str, Any]]
"""An agent, and what is known of it before the run: ``bound`` and ``proved``, None for all but the optimum."""

METRICS = (
    "utilization",
    "time_delay",
    "violation_penalty",
    "total_reward",
    "acceptance",
    "acceptance_by_work",
    "expiry_rate",
    "capacity_share_cores",
    "delay_mean",
    "violation",
    "violation_slots",
)
"""What is kept of a run, see :mod:`desim.problems.deferrable.metrics`; the paper's word for the revenue is utilization,
and the share of the capacity counts what was used above it."""

VOLATILE = replace(
    FLUCTUATING,
    arrival_rate=8.1,
    duration_probabilities=(0.1, 0.2, 0.3, 0.4),
    capacity_deviation=0.2,
    capacity_correlation=0.7,
)
"""About the same work in longer jobs under a capacity that changes by a seventh from slot to slot: agents that do not
look ahead violate it in one slot of twenty. In the other workloads violations are rare."""


@dataclass(frozen=True)
class Setting:
    """A workload and an objective; the defaults are those of table 1.

    Attributes
    ----------
    case : str
        ``"default"``, ``"fluctuating"``, ``"volatile"``, a case of table 4: ``"core-1"`` ... ``"duration-3"``, or one
        of :data:`desim.experiments.osdec.workloads.TRACED`.
    real_time : bool
        Whether jobs are shown at their earliest start only and must be started then.
    delay_weight : float
        w1.
    violation_weight : float
        w2.
    num_slots : int or None
        Length of a trajectory; that of the workload if None.
    check : bool
        Check the records with `desim.validation`.
    """

    case: str = "default"
    real_time: bool = False
    delay_weight: float = 2.0
    violation_weight: float = 10.0
    num_slots: int | None = None
    check: bool = False


def settings_of(setting: Setting) -> Settings:
    """Return the workload of a setting."""
    settings = VOLATILE if setting.case == "volatile" else named(setting.case)
    return settings if setting.num_slots is None else replace(settings, num_slots=setting.num_slots)


def scenario_of(setting: Setting, seed: int) -> DeferrableCluster:
    """Return the cluster of a trajectory.

    Parameters
    ----------
    setting : Setting
        Workload and objective.
    seed : int
        Which trajectory.

    Returns
    -------
    DeferrableCluster
        The same jobs and capacities for all agents; cases differ in the cores or durations of their jobs alone.
    """
    if setting.case in TRACED:
        scenario, _ = traced(setting.case, seed, setting.num_slots)
    else:
        scenario = generate(settings_of(setting), seed=seed)
    return DeferrableCluster(
        scenario.jobs,
        scenario.capacity,
        num_slots=scenario.num_slots,
        delay_weight=setting.delay_weight,
        violation_weight=setting.violation_weight,
        real_time=setting.real_time,
    )


def day_of(setting: Setting) -> int:
    """Return how many slots a day of a workload has.

    Parameters
    ----------
    setting : Setting
        The workload.
    """
    return traced(setting.case, 0)[1] if setting.case in TRACED else round(settings_of(setting).day_slots)


def _rolling_horizon(forecast: str, foresight: Callable[[], Foresight], setting: Setting, **options: Any) -> Agent:
    forecasts: dict[str, Callable[[], Forecast]] = {
        "last value": LastValue,
        "seasonal": lambda: Seasonal(day_of(setting)),
        "learned": lambda: Learned(day_of(setting)),
        "oracle": lambda: Oracle(foresight().capacity),
    }
    if forecast not in forecasts:
        raise InvalidConfiguration(f"no forecast {forecast!r}; there are {', '.join(forecasts)}")
    return RollingHorizon(forecasts[forecast](), **options)


def _search(name: str, setting: Setting) -> Agent:
    """Return the search agent of a name, with the day of the workload."""
    from desim.agents.deferrable.search import SearchAgent

    return SearchAgent.named(name.removeprefix("search:"), forecast=Learned(day_of(setting)))


_HEURISTICS: dict[str, Callable[..., Agent]] = {
    "fifo": FIFO,
    "sjf": SJF,
    "tetris": Tetris,
    "earliest-deadline": EarliestDeadline,
    "largest-revenue": LargestRevenue,
    "least-slack": LeastSlack,
    "random": RandomOrder,
    "list-plan": ListPlan,
}


def create(choice: Choice, setting: Setting, foresight: Callable[[], Foresight]) -> Made:
    """Return a new agent, and what is known of it before the run.

    Parameters
    ----------
    choice : Choice
        Which one: a heuristic, ``"rolling-horizon"`` with a ``forecast``, ``"search:..."``, or ``"optimum"``.
    setting : Setting
        For agents that know the objective.
    foresight : callable
        Returns all that will come; oracles and the optimum ask for it, nobody else.

    Returns
    -------
    tuple
        The agent, and ``bound`` and ``proved`` of the optimum, None for all others.

    Raises
    ------
    InvalidConfiguration
        If there is no such policy.
    """
    options = dict(choice.parameters)
    unknown: dict[str, Any] = {"bound": None, "proved": None}
    if choice.policy in _HEURISTICS:
        return _HEURISTICS[choice.policy](**options), unknown
    if choice.policy == "rolling-horizon":
        return _rolling_horizon(foresight=foresight, setting=setting, **options), unknown
    if choice.policy.startswith("search:"):
        return _search(choice.policy, setting), unknown
    if choice.policy == "optimum":
        weights: dict[str, Any] = {"delay_weight": setting.delay_weight, "violation_weight": setting.violation_weight}
        optimum = offline_optimum(foresight(), **weights, **options)
        return Planned(optimum.jobs, optimum.starts), {"bound": optimum.bound, "proved": optimum.proved}
    known = ", ".join([*_HEURISTICS, "rolling-horizon", "optimum"])
    raise InvalidConfiguration(f"no policy {choice.policy!r}; there are {known}")


def perform(run: Run) -> dict[str, Any]:
    """Simulate a run of an agent that :func:`create` knows, as :func:`carry_out` says."""
    return carry_out(run, create)


def carry_out(run: Run, make: Callable[[Choice, Setting, Callable[[], Foresight]], Made]) -> dict[str, Any]:
    """Simulate a run. All agents of one setting and seed face the same jobs and capacities.

    Parameters
    ----------
    run : Run
        Of a :class:`Setting` and a :class:`Choice`.
    make : callable
        Makes the agent, like :func:`create`.

    Returns
    -------
    dict
        :data:`METRICS`, ``bound`` and ``proved`` of the optimum, ``seconds`` of wall time, planning included, and
        ``valid``, None if unchecked.
    """
    setting: Setting = run.setting
    cluster = scenario_of(setting, run.seed)
    started = time.perf_counter()
    agent, known = make(run.agent, setting, lambda: foresee(cluster, seed=run.seed))
    result = simulate(cluster, agent, seed=run.seed)
    seconds = time.perf_counter() - started
    slots, metrics = result.table("slots"), result.metrics()
    used, capacity = (float(slots[name].to_numpy().sum()) for name in ("used_cores", "capacity_cores"))
    metrics["capacity_share_cores"] = used / capacity if capacity else math.nan
    metrics["utilization"] = metrics["revenue"]
    return {
        **{name: metrics[name] for name in METRICS},
        **known,
        "seconds": seconds,
        "valid": is_valid(result, cluster.jobs, check=setting.check),
    }
