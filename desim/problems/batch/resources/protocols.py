"""Interfaces between agents and the resources of a cluster: plans and profiles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.job import WaitForCores

if TYPE_CHECKING:
    from desim.problems.batch.observation import BatchObservation

__all__ = ["Plan", "Profile", "Slot"]


class Plan(Protocol):
    """Starts that an agent considers at one decision; ``answer`` contains the actions for those it has made.

    Jobs are given by position in the queue, as observed at the decision. Every start reduces what is free for the
    following ones. A job that may start is expected to end by its requested time.

    Attributes
    ----------
    answer : list of object
        Actions for the cluster, in order of start.
    """

    answer: list[Any]

    def fitting(self, among: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the positions of the jobs that could start now, each on its own.

        Parameters
        ----------
        among : array of int, shape (n,), optional
            Positions to check; they are returned in the same order (default: all, ascending).

        Returns
        -------
        array of int, shape (m,)
            Positions, without those of started jobs. After :meth:`reserve`, some may be of jobs that :meth:`start`
            refuses because they would delay the reserved one.
        """

    def fits(self, position: int, size: int | None = None) -> bool:
        """Return whether :meth:`start` would start a job.

        Parameters
        ----------
        position : int
            Position in the queue.
        size : int, optional
            Index of one of the sizes of a moldable job (default: its first size).
        """

    def is_full(self) -> bool:
        """Return whether certainly no other job fits."""

    def start(self, position: int, size: int | None = None, place: Any = None) -> bool:
        """Start a job if it fits and would not delay a reserved one.

        Parameters
        ----------
        position : int
            Position in the queue.
        size : int, optional
            Index of one of the sizes of a moldable job (default: its first size).
        place : object, optional
            Where to start it: the ``place`` of a slot of a :class:`Profile` (default: the plan chooses).

        Returns
        -------
        bool
            Whether the job starts.
        """

    def start_on(self, position: int, nodes: Sequence[tuple[str, int]]) -> bool:
        """Start a job on named nodes; anywhere if none are named, or if the cluster lacks one of them.

        Parameters
        ----------
        position : int
            Position in the queue.
        nodes : sequence of (str, int)
            Names of the nodes, and number of tasks on each.

        Returns
        -------
        bool
            Whether the job starts.
        """

    def start_in_order(self, order: NDArray[np.int64] | None = None) -> int | None:
        """Start jobs until one does not fit.

        Parameters
        ----------
        order : array of int, optional
            Positions, first to last (default: the whole queue in order of arrival).

        Returns
        -------
        int or None
            Position of the job that does not fit; None if all start.
        """

    def start_each(self, positions: NDArray[np.int64]) -> None:
        """Start every job that fits and would not delay a reserved one.

        Parameters
        ----------
        positions : array of int, shape (n,)
            Positions, first to last.
        """

    def reserve(self, position: int, size: int | None = None) -> None:
        """Reserve the earliest possible start for a job; jobs that would delay it do not start from now on.

        If resources are down and the job may never start, nothing is reserved.

        Parameters
        ----------
        position : int
            Position in the queue; the job does not fit now.
        size : int, optional
            Index of one of the sizes of a moldable job (default: its first size).
        """

    def earliest(self, position: int, size: int | None = None) -> float:
        """Return the earliest possible start of a job in seconds; infinite if it may never start.

        Parameters
        ----------
        position : int
            Position in the queue.
        size : int, optional
            Index of one of the sizes of a moldable job (default: its first size).
        """

    def ends_in_time(self, position: int, victims: Collection[int] = ()) -> bool:
        """Return whether a job that preempts others and starts now respects the advance reservations.

        Parameters
        ----------
        position : int
            Position in the queue.
        victims : collection of int
            Rows of the running jobs that it preempts.
        """

    def wait(self, position: int | None = None, *, arrivals: bool = True) -> list[WaitForCores] | None:
        """Return an answer that skips decisions at which nothing could start, if that can be known.

        Parameters
        ----------
        position : int, optional
            Position of the only job that could start next (default: any queued job could).
        arrivals : bool
            Whether jobs that arrive in the meantime could start as well.

        Returns
        -------
        list of WaitForCores, or None
            None if every decision matters.
        """


class Slot(Protocol):
    """A reservation in a :class:`Profile`, from ``start`` to ``end`` in seconds."""

    @property
    def start(self) -> float:
        """Start in seconds."""

    @property
    def end(self) -> float:
        """End in seconds."""

    @property
    def place(self) -> Any:
        """Where the job starts, for :meth:`Plan.start`; None if only the number of cores matters."""

    def _replace(self, *, start: float) -> Any:
        """Return a copy with another start."""


class Profile(Protocol):
    """Free resources from now on: running jobs by their expected ends, advance reservations, and slots taken.

    Attributes
    ----------
    running : dict of int to Slot
        Slots of the running jobs by job id, as of the creation of the profile; its owner may keep them up to date.
    """

    running: dict[int, Any]

    def is_outdated(self, observation: BatchObservation) -> bool:
        """Return whether failures, repairs or preemptions have changed more than the profile can follow.

        Parameters
        ----------
        observation : BatchObservation
            Observation of the current decision.
        """

    def agrees_with(self, observation: BatchObservation, taken: list[Any]) -> bool:
        """Return whether the profile begins with the resources that are free now, apart from slots yet to be filled.

        Parameters
        ----------
        observation : BatchObservation
            Observation at the beginning of the profile.
        taken : list of Slot
            Slots that begin now and are occupied in the profile although their jobs have not started.
        """

    def advance(self, time: float) -> None:
        """Move the beginning of the profile to a later time."""

    def fit(self, request: Any, duration: float, longest: float = 0.0) -> Any:
        """Return the earliest slot in which enough resources stay free for a duration.

        Parameters
        ----------
        request : object
            Request of a job, see :meth:`BatchObservation.request_at`.
        duration : float
            Duration in seconds.
        longest : float
            Seconds for which advance reservations must leave enough, if the job may run longer than `duration`.

        Returns
        -------
        Slot or None
            The slot; None if there are never enough resources.
        """

    def compress(
        self, slots: Sequence[Any], durations: Sequence[float], longest: Sequence[float]
    ) -> Iterator[tuple[int, Any]]:
        """Move each slot, in order, to the earliest one that its job could have beside all others; yield those moved.

        Parameters
        ----------
        slots : sequence of Slot
            Slots of queued jobs, all of them taken; each was the earliest when it was taken or in the last call.
        durations : sequence of float
            Seconds for which each job is expected to hold its resources.
        longest : sequence of float
            As for :meth:`fit`.

        Yields
        ------
        (int, Slot)
            Position of a slot that was moved, and the new one, which is taken.
        """

    def take(self, slot: Any) -> None:
        """Occupy a slot."""

    def give(self, slot: Any) -> None:
        """Free a slot that was occupied before."""

    def extend(self, longer: list[Any], slots: list[Any]) -> list[bool]:
        """Occupy more for running jobs that continue, and return which slots fit beside them.

        Parameters
        ----------
        longer : list of Slot
            What the running jobs occupy in addition.
        slots : list of Slot
            All occupied slots that overlap these, most important ones first. A slot that does not fit beside
            the running jobs and the slots before it is freed.

        Returns
        -------
        list of bool
            Whether each slot is still occupied.
        """
