"""Multi-server jobs, running jobs, and outcomes of slots."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Job", "RunningJob", "SlotOutcome"]

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Job(NamedTuple):
    """Job that waits until it starts, and then holds its resources until its work is done.

    Attributes
    ----------
    job_id : int
        Identifier: consecutive numbers from 0, in order of arrival.
    port : int
        Index of the job type.
    submission_time : float
        Time of arrival, in slots.
    work : float
        Work to be done until the job ends, in units of reward times slots.
    """

    job_id: int
    port: int
    submission_time: float
    work: float


class RunningJob(NamedTuple):
    """Running job with its allocation; the subject of the events ``start`` and ``completion``.

    Attributes
    ----------
    job : Job
        Job that runs.
    starting_time, finish_time : float
        Start and end, in slots.
    channels : slice
        Rows of the agent's allocation that belong to the job.
    amounts : numpy.ndarray
        Amounts in these rows.
    gain, overhead : float
        Gain and overhead in units of reward per slot; their difference is the speed.
    dominant : int
        Index of the resource with the largest overhead.
    held : numpy.ndarray of shape (num_resources,)
        Amounts summed over the nodes.
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
    """Outcome of a slot; the subject of the event ``slot``.

    Attributes
    ----------
    slot : int
        Number of the slot, from 0.
    arrived : numpy.ndarray of bool, shape (num_ports,)
        Whether each port had a job, as seen by agents.
    allocation : numpy.ndarray of shape (num_channels, num_resources)
        Allocation that the agent chose.
    gain, overhead : numpy.ndarray
        Gain and overhead by port (with copies of ports: by copy; with gangs: by job).
    """

    slot: int
    arrived: Booleans
    allocation: Floats
    gain: Floats
    overhead: Floats
