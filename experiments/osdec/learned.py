"""Runs of learned agents: as they are, with what they predict and look at, and behind shields."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from desim import simulate
from desim.agents.deferrable.forecasts import CapacityShield, Forecast, LastValue, Seasonal, calibrate
from desim.agents.deferrable.orders import FIFO, Priority, Tetris
from desim.agents.deferrable.score_agent import ScoreAgent, ScoreConfig
from desim.agents.deferrable.score_policy import TASKS, AttentionPolicy, ScorePolicy
from desim.agents.learning.checkpoint import load_weights
from desim.agents.learning.policy import one_thread, to_tensors
from desim.agents.learning.pretrained import PRETRAINED
from desim.envs.base import compressed
from desim.exceptions import InvalidConfiguration
from desim.experiments.measured import Choice
from desim.experiments.osdec.simulate import SCORE, Made, Setting, carry_out, create, scenario_of, settings_of
from desim.experiments.osdec.timed import timed
from desim.problems.deferrable import DeferrableObservation, Foresight, JobSet
from desim.problems.deferrable.encoder import ScoreEncoder
from desim.sweep import Run
from desim.workloads.deferrable import Settings, generate

Floats = NDArray[np.float64]


def learned_agent(choice: Choice, forecast: Forecast | None = None) -> ScoreAgent:
    """Return an agent with trained weights.

    Parameters
    ----------
    choice : Choice
        With ``weights``, the name of weights that come with the package or the path of others, and their ``sha256``.
    forecast : Forecast, optional
        Its shield.

    Returns
    -------
    ScoreAgent
        A new one.

    Raises
    ------
    InvalidConfiguration
        If the weights have changed since they were chosen.
    """
    parameters = dict(choice.parameters)
    policy, config = _loaded(parameters["weights"], parameters["sha256"])
    return ScoreAgent(policy, config, forecast=forecast, name=Path(parameters["weights"]).name)


def learned_policy(choice: Choice) -> ScorePolicy:
    """Return the network of such an agent, which others may share.

    Parameters
    ----------
    choice : Choice
        As for :func:`learned_agent`.
    """
    parameters = dict(choice.parameters)
    return _loaded(parameters["weights"], parameters["sha256"])[0]


@cache
def _loaded(weights: str, sha256: str) -> tuple[ScorePolicy, ScoreConfig]:
    stem = PRETRAINED / weights  # which is the path itself if that is absolute
    if load_weights(stem)[1]["sha256"] != sha256:
        raise InvalidConfiguration(f"the weights {stem} have changed since the experiment began")
    config, policy = ScoreConfig.load(stem)
    return policy.eval(), config


def create_any(choice: Choice, setting: Setting, foresight: Callable[[], Foresight]) -> Made:
    """Return a new agent, learned or not, and what is known of it before the run.

    Parameters
    ----------
    choice : Choice
        Which one: ``"score"`` with ``weights`` and ``sha256``, or what
        :func:`~desim.experiments.osdec.simulate.create` knows.
    setting : Setting
        For agents that know the objective.
    foresight : callable
        Returns all that will come.

    Returns
    -------
    tuple
        As that returns.
    """
    if choice.policy == SCORE:
        return learned_agent(choice), {"bound": None, "proved": None}
    return create(choice, setting, foresight)


def perform_learned(run: Run) -> dict[str, Any]:
    """Simulate a run of a learned agent, as :func:`~desim.experiments.osdec.simulate.carry_out` says."""
    return carry_out(run, create_any)


def perform_learned_timed(run: Run) -> dict[str, Any]:
    """Do the same, and time the decisions, as :func:`~desim.experiments.osdec.timed.timed` says."""
    return timed(run, create_any)


# -- forecasts --------------------------------------------------------------------------------------

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


def forecast_metric(task: str, source: str, measure: str) -> str:
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
        Of a :class:`~desim.experiments.osdec.simulate.Setting` and learned weights.

    Returns
    -------
    dict
        Each of :data:`MEASURES` for each task and source, see :func:`forecast_metric`, and ``valid``, which is None.
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
                outcome[forecast_metric(task, source, measure)] = float(value)
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


# -- attention --------------------------------------------------------------------------------------

KINDS = (
    "system",
    "itself",
    "larger jobs",
    "smaller or equal jobs",
    "jobs that fit",
    "jobs that do not fit",
    "future jobs",
)
"""What a job may look at; those from the third to the sixth are other jobs that may be started, divided in two ways."""


def attention_metric(layer: int, kind: str) -> str:
    """Return the name of a metric of :func:`perform_attention`.

    Parameters
    ----------
    layer : int
        From 1.
    kind : str
        One of :data:`KINDS`.
    """
    return f"layer {layer}: {kind}"


class Seen(NamedTuple):
    """A decision, and what the network looked at.

    Attributes
    ----------
    slot : int
        When.
    cores, durations, slacks : numpy.ndarray of shape (jobs,)
        Of the jobs that it sees, those that may be started first; how many slots are left for a start.
    num_current : int
        How many of them may be started.
    fits : numpy.ndarray of bool, shape (num_current,)
        Whether they fit into what is free.
    scores : numpy.ndarray of shape (num_current,)
        What it gave them.
    weights : numpy.ndarray of shape (layers, 1 + jobs, 1 + jobs)
        Of the attention; the first token is the system.
    """

    slot: int
    cores: Floats
    durations: Floats
    slacks: Floats
    num_current: int
    fits: NDArray[np.bool_]
    scores: Floats
    weights: Floats


class _Watching:
    """An agent that does as another one does and keeps the decisions between two jobs or more."""

    def __init__(self, choice: Choice) -> None:
        self.agent = learned_agent(choice)
        self.name = self.agent.name
        policy = learned_policy(choice)
        if not isinstance(policy, AttentionPolicy):
            raise InvalidConfiguration(f"{self.name} has no attention")
        self.policy = policy
        self.seen: list[Seen] = []

    def act(self, observation: DeferrableObservation) -> list[int]:
        if len(observation.current) > 1:
            self.seen.append(self._look(observation))
        return self.agent.act(observation)

    def _look(self, observation: DeferrableObservation) -> Seen:
        encoder = self.agent.encoder
        arrays = {name: array[None] for name, array in encoder.encode(observation).items()}
        with torch.inference_mode(), one_thread():
            weights = self.policy.attention(to_tensors(arrays))
        current, future = observation.current.rows[: encoder.max_jobs], observation.future.rows
        jobs = JobSet(np.concatenate([current, future[: encoder.max_future_jobs]]))
        number = len(current)
        fits = jobs.cores[:number] <= (observation.limit - observation.used)[0]
        scores = self.agent.scores(observation)[:number].astype(np.float64)
        stacked = np.stack([layer[0].numpy() for layer in weights]).astype(np.float64)
        slacks = jobs.latest_start - observation.slot
        return Seen(observation.slot, jobs.cores, jobs.duration, slacks, number, fits, scores, stacked)


def seen_by(choice: Choice, setting: Setting, seed: int) -> list[Seen]:
    """Simulate an agent and return what it looked at when it had a choice between jobs.

    Parameters
    ----------
    choice : Choice
        Learned weights of an attention network.
    setting : Setting
        Workload and objective.
    seed : int
        Which trajectory.

    Returns
    -------
    list of Seen
        Decision by decision.

    Raises
    ------
    InvalidConfiguration
        If it has another network.
    """
    watching = _Watching(choice)
    simulate(scenario_of(setting, seed), watching, seed=seed)
    return watching.seen


def kinds_of(seen: Seen) -> dict[str, NDArray[np.bool_]]:
    """Return which tokens are of which kind for each job that may be started.

    Parameters
    ----------
    seen : Seen
        A decision.

    Returns
    -------
    dict of str to numpy.ndarray of bool, shape (num_current, tokens)
        By :data:`KINDS`.
    """
    number, tokens = seen.num_current, 1 + len(seen.cores)
    place, of_job = np.arange(tokens), np.arange(number)[:, None] + 1
    is_other = (place >= 1) & (place <= number) & (place != of_job)
    cores = np.concatenate([[0.0], seen.cores])
    fits = np.zeros(tokens, bool)
    fits[1 : 1 + number] = seen.fits
    is_larger = cores > cores[of_job]
    masks = (
        np.broadcast_to(place == 0, (number, tokens)),
        place == of_job,
        is_other & is_larger,
        is_other & ~is_larger,
        is_other & fits,
        is_other & ~fits,
        np.broadcast_to(place > number, (number, tokens)),
    )
    return dict(zip(KINDS, masks, strict=True))


def perform_attention(run: Run) -> dict[str, Any]:
    """Simulate a learned agent and measure what its jobs look at.

    Parameters
    ----------
    run : Run
        Of a :class:`~desim.experiments.osdec.simulate.Setting` and learned weights.

    Returns
    -------
    dict
        For each layer and kind, see :func:`attention_metric`, the attention that jobs that may be started give it, over
        what they would give it if they looked at all tokens alike; not a number if there was none of the kind.
        ``decisions``, their number, and ``valid``, which is None.
    """
    decisions = seen_by(run.agent, run.setting, run.seed)
    given = np.zeros((learned_agent(run.agent).config.layers, len(KINDS)))
    alike = np.zeros(len(KINDS))
    for seen in decisions:
        weights = seen.weights[:, 1 : 1 + seen.num_current]
        for place, mask in enumerate(kinds_of(seen).values()):
            given[:, place] += (weights * mask).sum(axis=(1, 2))
            alike[place] += mask.sum() / mask.shape[1]
    outcome: dict[str, Any] = {"valid": None, "decisions": len(decisions)}
    for layer, row in enumerate(given, 1):
        for kind, part, whole in zip(KINDS, row, alike, strict=True):
            outcome[attention_metric(layer, kind)] = float(part / whole) if whole else math.nan
    return outcome


# -- shields ----------------------------------------------------------------------------------------

BASES = ("last value", "seasonal")
"""What a shield is calibrated from: the capacity as it is, or that of the same time on all days before with what is
left of the present deviation from it."""

CALIBRATED_ON = range(100_000, 100_200)
"""Seeds of trajectories that nothing else uses."""

_ORDERS: dict[str, Callable[..., Priority]] = {"fifo": FIFO, "tetris": Tetris}


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
        Which workload, as of a :class:`~desim.experiments.osdec.simulate.Setting`.
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
        return learned_agent(choice, shield), unknown
    if choice.policy not in _ORDERS:
        raise InvalidConfiguration(f"no policy {choice.policy!r} behind a shield; there are {', '.join(_ORDERS)}")
    return _ORDERS[choice.policy](forecast=shield, **options), unknown


def perform_shielded(run: Run) -> dict[str, Any]:
    """Simulate a run of an agent behind a shield, as :func:`~desim.experiments.osdec.simulate.carry_out` says.

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
