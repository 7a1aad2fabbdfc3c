"""Interfaces between agents and the resources of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from desim.problems.batch.job import Job, WaitForCores
from desim.processes.outages import FailureCounts

if TYPE_CHECKING:
    from desim.problems.batch.execution import Execution
    from desim.problems.batch.observation import BatchObservation, BatchState
    from desim.problems.batch.parts.reservations import AdvanceReservation
    from desim.problems.batch.resources.nodes import NodeView

__all__ = ["Plan", "Profile", "Resources", "Slot"]


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

    def begin_compression(self) -> None:
        """Begin a round of compression, in which :meth:`compress` is called once for each job with a slot."""

    def compress(self, slot: Any, duration: float, longest: float = 0.0) -> Any:
        """Return the earliest slot for a job that has a slot, as if it had none.

        Parameters
        ----------
        slot : Slot
            Slot of the job, the earliest when it was taken or in the last round.
        duration : float
            Duration in seconds for which the job is expected to hold its resources.
        longest : float
            As for :meth:`fit`.

        Returns
        -------
        Slot
            The same object if there is no earlier slot.
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


class Resources(Protocol):
    """What the jobs of a cluster hold: its cores, or its nodes, whose cores are numbered node by node.

    The cluster keeps it as part of its configuration, and a live one, made by :meth:`begun`, for each run. Only the
    cluster changes it. Units are what fails and is reserved: cores, or nodes.

    Attributes
    ----------
    unit : {"core", "node"}
        What a unit is.
    start_action : type
        Action that starts a job at a place chosen by an agent; its second field is the place.
    has_nodes : bool
        Whether jobs hold more than cores, and their run times may depend on the place, so that :meth:`release` and
        :meth:`moved` must be called.
    num_cores, always_fits : int
        Number of cores, and number of cores that any job may request without a question to :meth:`misfit`.
    reservations : tuple of AdvanceReservation
        Advance reservations by start.
    free, down, closed : int
        Cores that are up and idle, cores that are down, and cores that do not become free when a job releases them,
        because they are down or owned by suspended jobs, as bit sets.
    num_free : int
        Number of cores that are up and idle.
    failures : FailureCounts
        Failures of the units.
    record_job : callable
        Records a row of the job table, and what a job has requested.
    """

    unit: str
    start_action: type[Any]
    has_nodes: bool
    num_cores: int
    always_fits: int
    reservations: tuple[AdvanceReservation, ...]
    free: int
    down: int
    closed: int
    num_free: int
    failures: FailureCounts
    record_job: Callable[[Any], None]

    def describe(self) -> dict[str, Any]:
        """Return what a description of the cluster contains besides its number of cores."""

    def begun(self, tables: Mapping[str, Any]) -> Self:
        """Return the resources of one run, all free, which record themselves in the given tables."""

    def view(self, state: BatchState) -> NodeView | None:
        """Return the nodes as observations show them; None if there are none."""

    def misfit(self, job: Job) -> str:
        """Return why a job cannot even start if everything is free, or an empty string if it can."""

    def fits(self, job: Job) -> bool:
        """Return whether a job could start now."""

    def fault(self, job: Job, place: Any = None) -> str:
        """Return why a job cannot start now, as the end of the sentence "job 1 cannot start".

        Parameters
        ----------
        job : Job
            Job to start.
        place : object, optional
            Place that an agent has chosen (default: any place).

        Returns
        -------
        str
            Reason; empty if it can start.
        """

    def take(self, job: Job, row: int) -> int:
        """Take a place for a job, chosen by the cluster; return its cores as a bit set, or 0 if there is no room."""

    def take_at(self, job: Job, row: int, place: Any, borrowed: int = 0) -> int:
        """Take a place for a job.

        Parameters
        ----------
        job : Job
            Job that starts.
        row : int
            Row of the job.
        place : object
            Place without a fault, or from :meth:`place_without`.
        borrowed : int
            Cores of suspended jobs that the job may use, as a bit set.

        Returns
        -------
        int
            Cores of the job as a bit set.
        """

    def release(self, execution: Execution, end: float) -> None:
        """Release what an execution that has ended holds besides its cores, and record its place.

        Parameters
        ----------
        execution : Execution
            Execution, or that of a suspended job that is given up.
        end : float
            End of the execution in seconds.
        """

    def moved(self, job: Job, row: int) -> Job:
        """Return a job that has taken its place, with its run time there; the same object if it is as submitted."""

    def record(self, execution: Execution, end: float | None) -> None:
        """Record the place of an execution that is suspended, or still running (end None) when the run ends."""

    def fits_without(self, state: BatchState, job: Job, victims: Collection[int]) -> bool:
        """Return whether a queued job could start if running jobs that it may preempt were preempted."""

    def place_without(self, state: BatchState, job: Job, victims: Collection[int]) -> Any:
        """Return where a queued job could start in that case; None if there is no room."""

    def set_suspended(self, cores: int) -> None:
        """Set the cores that suspended jobs own, as a bit set; others may borrow them."""

    def give_up(self, cores: int, busy: int) -> None:
        """Free the cores of a job that was suspended, except those that running jobs use."""

    def count_once(self, state: BatchState) -> None:
        """Count what is borrowed only for the suspended job that owns it."""

    def set_down(self, down: int) -> None:
        """Set the cores that are down; all others are up."""

    def core_set_of(self, units: Iterable[int]) -> int:
        """Return the cores of units, as a bit set."""

    def fail(self, units: list[int]) -> list[int]:
        """Note units that fail; return those that were in service."""

    def repair(self, units: list[int]) -> list[int]:
        """Note units that are repaired; return those that are in service again."""

    def reserve(self, number: int) -> list[int]:
        """Begin a reservation; return the units to take out of service, or to clear of the jobs of other users."""

    def end_reservation(self, number: int, now: float) -> list[int]:
        """End a reservation; return the units that are in service again."""
