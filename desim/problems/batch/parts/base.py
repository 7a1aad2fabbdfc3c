"""Base class of the parts of a batch cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from desim.problems.batch.cluster import BatchCluster
    from desim.problems.batch.execution import Execution
    from desim.problems.batch.job import Job
    from desim.tables import Table

__all__ = ["Part", "cycle_of"]


class Part:
    """A feature of a batch cluster, separate from it: limits, preemption, or a custom one in ``parts=[MyPart()]``.

    The cluster copies each part for every run and calls those of the methods below that its class overrides. A method
    that no part overrides costs nothing. If several parts override one, they are called in this order: dependencies,
    limits, reservations, preemption, checkpoints, and the cluster's ``parts`` in the given order.

    A part may change its own attributes, which forks copy with the run. It sees the state of the run in
    ``self.cluster.observation`` and ``self.cluster.env``, and acts through :meth:`let_in` and :meth:`open_cycle`.

    Attributes
    ----------
    name : str
        Name of the part in the description of the run.
    constants : tuple of type
        Classes whose objects never change during a run, so forks share them.
    tables : tuple of Table
        Tables of a custom part. It appends rows to ``self.cluster.simulation.records.tables[name]``.
    cluster : BatchCluster
        Cluster of the run.

    Examples
    --------
    A part that counts licences is in the guide on site policies.
    """

    name: ClassVar[str] = "part"
    constants: ClassVar[tuple[type, ...]] = ()
    tables: ClassVar[tuple[Table, ...]] = ()
    cluster: BatchCluster

    # a run as a whole

    def describe(self) -> dict[str, Any]:
        """Return entries for the description of the run, as JSON-compatible values."""
        return {}

    def begin(self) -> None:
        """Set up the state of a run, in which ``cluster`` is set."""

    def is_due(self) -> bool:
        """Return whether something will happen by itself, so that a run with queued jobs is not stalled."""
        return False

    def outside(self) -> Mapping[int, Job]:
        """Return the jobs by row that have arrived and are neither queued nor running, because this part keeps them."""
        return {}

    def is_empty(self) -> bool:
        """Return whether the run may end as far as this part is concerned."""
        return not self.outside()

    def drop_future(self) -> Iterable[Callable[[Any], None]]:
        """Drop the future that agents cannot know, for forks without foresight.

        Returns
        -------
        iterable of callable
            Callbacks of the scheduled events that remain; all other events of the part are removed.
        """
        return ()

    def close(self) -> None:
        """Record what has not ended at the end of the run."""

    # arrivals

    def delays(self, job: Job) -> bool:
        """Return whether the part submits a job of the workload later, by calling ``cluster.submit``."""
        return False

    def arrived(self, job: Job, row: int) -> None:
        """Check or record a job that has been submitted; rows are numbered by submission, from 0."""

    def refuses(self, job: Job, row: int) -> str:
        """Return why a job can never run, such as "requests 8 cores, the site allows 4"; empty if it can."""
        return ""

    def holds(self, job: Job, row: int) -> bool:
        """Return whether the part keeps a job outside the queue, until it passes it to :meth:`let_in`."""
        return False

    def explain(self, job: Job, row: int) -> str:
        """Return why the part keeps a job outside the queue, as the end of the sentence "job 1 is held back"."""
        return f"by {self.name}"

    # starts and ends

    def may_start(self, job: Job, row: int, size: int | None) -> str:
        """Return why a queued job may not start now, or an empty string if it may.

        Parameters
        ----------
        job : Job
            Job, in the size in which it would start.
        row : int
            Row of the job.
        size : int or None
            Size that the agent has chosen for a moldable job, if any.
        """
        return ""

    def resized(self, job: Job, row: int) -> None:
        """React to a queued job that starts in the given size, chosen by the agent."""

    def started(self, execution: Execution) -> None:
        """React to the start of a job."""

    def keeps(self, execution: Execution, seconds: float) -> float:
        """Return how much work a job keeps that returns to the queue.

        Parameters
        ----------
        execution : Execution
            Execution that is interrupted.
        seconds : float
            Seconds that the job has run since it last began anew, or from kept work.

        Returns
        -------
        float
            Seconds of these that need not be repeated.
        """
        return 0.0

    def left(self, job: Job, row: int, outcome: str) -> None:
        """React to a job that leaves the cluster.

        Parameters
        ----------
        job : Job
            Job that leaves; its room is free already.
        row : int
            Row of the job.
        outcome : {"ended", "lost", "rejected"}
            Whether it ended by itself or by its time limit, was lost to an outage, or was rejected on arrival.
        """

    def carry_out(self, action: Any) -> str | None:
        """Carry out an action of the agent that only this part knows.

        Parameters
        ----------
        action : object
            Any action that is neither the row of a queued job nor one of the cluster's own actions.

        Returns
        -------
        str or None
            Why the action is infeasible, "" if it was carried out; None if the part does not know it.
        """
        return None

    def corrected(self) -> None:
        """React to a change of the expected end of a running job."""

    def room_freed(self) -> None:
        """React to an execution that has ended or was interrupted, and whose room is free."""

    def settled(self) -> None:
        """React to the end of a scheduling cycle."""

    def cleared(self, cores: int, users: Collection[str | int]) -> None:
        """React to an outage or reservation that has interrupted the running jobs on its cores.

        Parameters
        ----------
        cores : int
            Cores as a bit set.
        users : collection of int
            Users whose jobs may stay.
        """

    # for parts

    def let_in(self, jobs: Mapping[int, Job]) -> None:
        """Put jobs that this part has held into the queue, given by row, and open a scheduling cycle."""
        self.cluster._let_in(self, jobs)

    def open_cycle(self) -> None:
        """Ask the agent at this instant, if jobs are queued: something has changed that may let jobs start."""
        self.cluster._open_cycle()


def cycle_of(links: Mapping[Any, Collection[Any]]) -> list[Any]:
    """Return items, each linked to the next, that end with the first one; an empty list if there is no such cycle."""
    try:
        TopologicalSorter(links).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []
