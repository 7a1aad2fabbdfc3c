"""Multi-server jobs, and what listeners hear of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Job", "RunningJob", "SlotOutcome"]

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Job(NamedTuple):
    """A job that waits until it is served, and then holds what it gets until its work is done.

    Attributes
    ----------
    job_id : int
        Consecutive, from 0, in order of arrival.
    port : int
        Index of its type.
    submission_time : float
        When it arrived, in slots.
    work : float
        What must be done before it ends, in units of reward times slots.
    """

    job_id: int
    port: int
    submission_time: float
    work: float


class RunningJob(NamedTuple):
    """A job that runs; the subject of the events ``start`` and ``completion``.

    Attributes
    ----------
    job : Job
        Which job.
    starting_time, finish_time : float
        In slots.
    channels : slice
        Rows of the agent's allocation that belong to the job.
    amounts : numpy.ndarray
        Those rows.
    gain, overhead : float
        In units of reward per slot; their difference is the speed.
    dominant : int
        Index of the resource with the largest overhead.
    held : numpy.ndarray of shape (num_resources,)
        The amounts, summed over nodes.
    """

    job: Job
    starting_time: float
    finish_time: float
    channels: slice
    amounts: Floats
    gain: float
    overhead: float
    dominant: int
    held: Floats


class SlotOutcome(NamedTuple):
    """What a slot has brought; the subject of the event ``slot``.

    Attributes
    ----------
    slot : int
        Its number, from 0.
    arrived : numpy.ndarray of bool, shape (num_ports,)
        Ports that had a job, as agents saw them.
    allocation : numpy.ndarray of shape (num_channels, num_resources)
        The agent's answer.
    gain, overhead : numpy.ndarray
        By port (with copies of ports: by copy; with gangs: by job).
    """

    slot: int
    arrived: Booleans
    allocation: Floats
    gain: Floats
    overhead: Floats
