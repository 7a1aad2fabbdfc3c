"""What a slot has brought, as listeners hear of it and as it is recorded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.problems.deferrable.job_set import REQUESTS, JobSet
from desim.problems.deferrable.observation import DeferrableObservation

__all__ = ["SlotOutcome", "outcome_of"]


class SlotOutcome(NamedTuple):
    """What a slot has brought; the subject of the event ``slot``.

    Attributes
    ----------
    slot : int
        Its number, from 0.
    started, expired, evicted : JobSet
        Jobs that were started in it, whose window has passed with it, and that were evicted as it began.
    capacity, used, violation : numpy.ndarray of shape (num_resources,)
        What on-demand jobs left, what deferrable jobs held, and by how much that was more.
    revenue, delay : float
        Of the jobs that were started, less those of the jobs that were evicted: core-slots, and slots.
    reward : float
        The slot's part of the objective, equation (6) of the OSDEC paper, in core-slots.
    """

    slot: int
    started: JobSet
    expired: JobSet
    evicted: JobSet
    capacity: NDArray[np.float64]
    used: NDArray[np.float64]
    violation: NDArray[np.float64]
    revenue: float
    delay: float
    reward: float


def outcome_of(
    observation: DeferrableObservation,
    started: NDArray[np.float64],
    expired: NDArray[np.float64],
    evicted: NDArray[np.float64],
) -> SlotOutcome:
    """Return what a slot has brought.

    Parameters
    ----------
    observation : DeferrableObservation
        What the agent has seen.
    started, expired, evicted : numpy.ndarray
        Rows of jobs.

    Returns
    -------
    SlotOutcome
        With the reward of equation (6).
    """
    slot, new, gone = observation.slot, JobSet(started), JobSet(evicted)
    used = observation.used + started[:, REQUESTS:].sum(axis=0)
    violation = np.where(used > observation.limit, used - observation.capacity, 0.0)
    revenue = float(new.revenue.sum() - gone.revenue.sum())
    delay = float((slot - new.earliest_start).sum() - (gone.starting_time - gone.earliest_start).sum())
    reward = revenue - observation.delay_weight * delay - float(observation.violation_weights @ violation)
    amounts = observation.capacity, used, violation
    return SlotOutcome(slot, new, JobSet(expired), gone, *amounts, revenue, delay, reward)
