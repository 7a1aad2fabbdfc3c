"""Runs that measure what the attention of a learned agent goes to."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from desim import simulate
from desim.agents.deferrable.score_policy import AttentionPolicy
from desim.agents.learning.policy import one_thread, to_tensors
from desim.exceptions import InvalidConfiguration
from desim.experiments.osdec.learned import learned_agent, learned_policy
from desim.experiments.osdec.simulating import Choice, Setting, scenario_of
from desim.problems.deferrable import DeferrableObservation, JobSet
from desim.sweep import Run

__all__ = ["KINDS", "Seen", "kinds_of", "metric_of", "perform_attention", "seen_by"]

Floats = NDArray[np.float64]

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


def metric_of(layer: int, kind: str) -> str:
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
        Of a :class:`~desim.experiments.osdec.simulating.Setting` and learned weights.

    Returns
    -------
    dict
        For each layer and kind, see :func:`metric_of`, the attention that jobs that may be started give it, over what
        they would give it if they looked at all tokens alike; not a number if there was none of the kind.
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
            outcome[metric_of(layer, kind)] = float(part / whole) if whole else math.nan
    return outcome
