"""Runs that measure what the auxiliary module predicts of the next slot, beside forecasts that need no training."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from desim import simulate
from desim.agents.deferrable.forecasts import Forecast, LastValue, Seasonal
from desim.agents.deferrable.score_agent import ScoreAgent
from desim.agents.deferrable.score_policy import TASKS, ScorePolicy
from desim.agents.learning.policy import one_thread
from desim.envs.base import compressed
from desim.exceptions import InvalidConfiguration
from desim.experiments.osdec.learned import learned_agent, learned_policy
from desim.experiments.osdec.simulating import Setting, scenario_of, settings_of
from desim.problems.deferrable import DeferrableObservation
from desim.problems.deferrable.encoder import ScoreEncoder
from desim.sweep import Run
from desim.workloads.deferrable import Settings

__all__ = ["MEASURES", "MODULE", "Noted", "capacity_forecasts", "metric_of", "note", "perform_forecasts", "sources_of"]

Floats = NDArray[np.float64]

MODULE = "auxiliary module"
LAST, RUNNING, NOTHING = "last value", "running mean", "none at all"
MEASURES = ("mean absolute error", "root mean squared error")


def capacity_forecasts(settings: Settings) -> dict[str, Forecast]:
    """Return forecasts of the capacity by name.

    Parameters
    ----------
    settings : Settings
        The workload, whose day and correlation they are told.

    Returns
    -------
    dict of str to Forecast
        The last value and seasonal ones.
    """
    day, carry = round(settings.day_slots), settings.capacity_correlation
    return {
        LAST: LastValue(),
        "seasonal": Seasonal(day),
        "seasonal, all days": Seasonal(day, num_periods=None),
        "seasonal, carried": Seasonal(day, carry=carry),
        "seasonal, all days, carried": Seasonal(day, carry=carry, num_periods=None),
    }


def sources_of(task: str) -> tuple[str, ...]:
    """Return what predicts a task, the module first.

    Parameters
    ----------
    task : str
        One of :data:`desim.agents.deferrable.score_policy.TASKS`.

    Returns
    -------
    tuple of str
        Names.
    """
    others = {"capacity": tuple(capacity_forecasts(Settings())), "violation": (NOTHING, LAST)}
    return (MODULE, *others.get(task, (LAST, RUNNING)))


def metric_of(task: str, source: str, measure: str) -> str:
    """Return the name of a metric of :func:`perform_forecasts`.

    Parameters
    ----------
    task, source, measure : str
        What is predicted, by what, and which of :data:`MEASURES` of it.
    """
    return f"{measure} of {task}, {source}"


class Noted(NamedTuple):
    """What was seen in the slots of a run.

    Attributes
    ----------
    histories : numpy.ndarray of shape (slots, past slots, features)
        As the auxiliary module sees them.
    truth : numpy.ndarray of shape (slots, tasks)
        Capacity, mean cores, mean duration, compressed, and violation in each slot, before jobs are started in it.
    has_jobs : numpy.ndarray of bool, shape (slots,)
        Whether there are jobs, without which there are no means.
    forecasts : numpy.ndarray of shape (slots, forecasts)
        Capacities that were forecast for the next slot.
    scale : float
        Cores that count as 1 in the histories.
    """

    histories: NDArray[np.float32]
    truth: Floats
    has_jobs: NDArray[np.bool_]
    forecasts: Floats
    scale: float


class _Noting:
    """An agent that notes what it sees and does as another one does."""

    def __init__(self, agent: ScoreAgent, forecasts: list[Forecast]) -> None:
        self.agent = agent
        self.name = agent.name
        self.forecasts = forecasts
        seen = agent.encoder
        self.encoder = ScoreEncoder(1, 1, max_future_jobs=1, history=seen.history, scale=float(seen.scale))
        self.rows: list[tuple[Any, list[float], bool, list[float]]] = []

    def act(self, observation: DeferrableObservation) -> list[int]:
        number, duration, cores = observation.current_history[-1].tolist()
        capacity, used = observation.capacity.item(), observation.used.item()
        truth = [capacity, cores, float(compressed(duration)), max(used - capacity, 0.0)]
        ahead = [forecast.predict(observation, 1).item() for forecast in self.forecasts]
        self.rows.append((self.encoder.encode(observation)["history"], truth, number > 0, ahead))
        return self.agent.act(observation)


def note(agent: ScoreAgent, setting: Setting, seed: int) -> Noted:
    """Simulate an agent and note what it sees.

    Parameters
    ----------
    agent : ScoreAgent
        Which acts as it does otherwise.
    setting : Setting
        Workload and objective.
    seed : int
        Which trajectory.

    Returns
    -------
    Noted
        Slot by slot.
    """
    noting = _Noting(agent, list(capacity_forecasts(settings_of(setting)).values()))
    simulate(scenario_of(setting, seed), noting, seed=seed)
    histories, truth, has_jobs, forecasts = zip(*noting.rows, strict=True)
    scale = float(agent.encoder.scale)
    return Noted(np.array(histories), np.array(truth), np.array(has_jobs), np.array(forecasts), scale)


def perform_forecasts(run: Run) -> dict[str, Any]:
    """Simulate a learned agent and measure how far predictions of each next slot are from the truth.

    Those count that are made from the second day on, when all have a day to go by.

    Parameters
    ----------
    run : Run
        Of a :class:`~desim.experiments.osdec.simulating.Setting` and learned weights.

    Returns
    -------
    dict
        Each of :data:`MEASURES` for each task and source, see :func:`metric_of`, and ``valid``, which is None.
    """
    agent = learned_agent(run.agent)
    noted = note(agent, run.setting, run.seed)
    predicted = _predictions(learned_policy(run.agent), noted) | _naive(noted)
    is_late = np.arange(len(noted.truth) - 1) >= round(settings_of(run.setting).day_slots)
    outcome: dict[str, Any] = {"valid": None}
    for column, task in enumerate(TASKS):
        known = is_late & noted.has_jobs[1:] if task.startswith("mean") else is_late
        for source in sources_of(task):
            errors = (predicted[task, source][:-1] - noted.truth[1:, column])[known]
            found = (np.abs(errors).mean(), math.sqrt((errors**2).mean())) if len(errors) else (math.nan, math.nan)
            for measure, value in zip(MEASURES, found, strict=True):
                outcome[metric_of(task, source, measure)] = float(value)
    return outcome


def _predictions(policy: ScorePolicy, noted: Noted) -> dict[tuple[str, str], Floats]:
    """Return what the module says of each task, for the slot after each."""
    module = policy.auxiliary
    if module is None:
        raise InvalidConfiguration("an agent without an auxiliary module predicts nothing")
    with torch.inference_mode(), one_thread():
        found = module.predictions(torch.from_numpy(noted.histories)).numpy().astype(np.float64)
    units = (noted.scale, noted.scale, 1.0, noted.scale)
    return {(task, MODULE): found[:, column] * units[column] for column, task in enumerate(TASKS)}


def _naive(noted: Noted) -> dict[tuple[str, str], Floats]:
    """Return what the other sources say."""
    predicted = {
        ("capacity", source): noted.forecasts[:, column] for column, source in enumerate(sources_of("capacity")[1:])
    }
    there = noted.has_jobs
    number = np.maximum(np.cumsum(there), 1)
    latest = np.maximum.accumulate(np.where(there, np.arange(len(there)), 0))
    for column, task in ((1, "mean_cores"), (2, "mean_duration")):
        values = noted.truth[:, column]
        predicted[task, LAST] = values[latest]
        predicted[task, RUNNING] = np.cumsum(np.where(there, values, 0.0)) / number
    predicted["violation", NOTHING] = np.zeros(len(there))
    predicted["violation", LAST] = noted.truth[:, 3]
    return predicted
