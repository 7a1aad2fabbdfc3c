"""Runs of agents behind a shield: a lower bound of the capacity that hardly ever fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.agents.deferrable.forecasts import CapacityShield, Forecast, LastValue, Seasonal, calibrate
from desim.agents.deferrable.orders import FIFO, Priority, Tetris
from desim.exceptions import InvalidConfiguration
from desim.experiments.osdec.agents import SCORE
from desim.experiments.osdec.simulating import Choice, Made, Setting, carry_out, settings_of
from desim.problems.deferrable import Foresight
from desim.sweep import Run
from desim.workloads.deferrable import Settings, generate

__all__ = ["BASES", "CALIBRATED_ON", "longest_run", "perform_shielded", "row_of", "shield_for"]

BASES = ("last value", "seasonal")
"""What a shield is calibrated from: the capacity as it is, or that of the same time on all days before with what is
left of the present deviation from it."""

CALIBRATED_ON = range(100_000, 100_200)
"""Seeds of trajectories that nothing else uses."""

_ORDERS: dict[str, Callable[..., Priority]] = {"fifo": FIFO, "tetris": Tetris}


def row_of(agent: str, base: str = "", level: float | None = None) -> str:
    """Return the name of an agent behind a shield, its own if it has none.

    Parameters
    ----------
    agent : str
        Its name without a shield.
    base : str
        What the shield is calibrated from.
    level : float, optional
        Of the shield.
    """
    return agent if level is None else f"{agent}, {base}, {level}"


def longest_run(setting: Setting) -> int:
    """Return for how many slots after its start a job may still run.

    Parameters
    ----------
    setting : Setting
        Its workload.
    """
    settings = settings_of(setting)
    pairs = zip(settings.durations, settings.duration_probabilities, strict=True)
    return max(duration for duration, probability in pairs if probability > 0) - 1


@cache
def shield_for(case: str, num_slots: int | None, base: str, level: float) -> CapacityShield:
    """Return the shield of a workload.

    Parameters
    ----------
    case : str
        Which workload, as of a :class:`~desim.experiments.osdec.simulating.Setting`.
    num_slots : int or None
        Length of its trajectories.
    base : str
        One of :data:`BASES`.
    level : float
        The share of forecasts in which a bound may fail.

    Returns
    -------
    CapacityShield
        Calibrated with :data:`CALIBRATED_ON`.

    Raises
    ------
    InvalidConfiguration
        If there is no such base.
    """
    if base not in BASES:
        raise InvalidConfiguration(f"no base {base!r} of a shield; there are {', '.join(BASES)}")
    setting = Setting(case, num_slots=num_slots)
    settings = settings_of(setting)
    forecast: Forecast = LastValue()
    if base == "seasonal":
        forecast = Seasonal(round(settings.day_slots), carry=settings.capacity_correlation, num_periods=None)
    return calibrate(_series(settings), steps=longest_run(setting), level=level, base=forecast)


@cache
def _series(settings: Settings) -> list[NDArray[np.float64]]:
    return [generate(settings, seed=seed).capacity for seed in CALIBRATED_ON]


def _make(choice: Choice, setting: Setting, foresight: Callable[[], Foresight]) -> Made:
    options: dict[str, Any] = dict(choice.parameters)
    base, level = options.pop("base"), options.pop("level")
    shield = None if level is None else shield_for(setting.case, setting.num_slots, base, level)
    unknown: dict[str, Any] = {"bound": None, "proved": None}
    if choice.policy == SCORE:
        from desim.experiments.osdec.learned import learned_agent

        return learned_agent(choice, shield), unknown
    if choice.policy not in _ORDERS:
        raise InvalidConfiguration(f"no policy {choice.policy!r} behind a shield; there are {', '.join(_ORDERS)}")
    return _ORDERS[choice.policy](forecast=shield, **options), unknown


def perform_shielded(run: Run) -> dict[str, Any]:
    """Simulate a run of an agent behind a shield, as :func:`~desim.experiments.osdec.simulating.carry_out` says.

    Parameters
    ----------
    run : Run
        The parameters of its agent have ``base`` and ``level`` of the shield, None without one.

    Returns
    -------
    dict
        As that returns.
    """
    return carry_out(run, _make)
