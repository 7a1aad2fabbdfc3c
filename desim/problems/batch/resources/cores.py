"""Cores of a cluster: which are free, down or owned by suspended jobs, and where a job may start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Self

from desim.checks import MOST_CORES, check_int
from desim.problems.batch.cores import core_set, lowest_cores, to_core_ids
from desim.problems.batch.job import Start
from desim.processes.outages import FailureCounts

if TYPE_CHECKING:
    from desim.problems.batch.execution import Execution
    from desim.problems.batch.job import Job
    from desim.problems.batch.observation import BatchState
    from desim.problems.batch.parts.reservations import AdvanceReservation
    from desim.problems.batch.resources.nodes import NodeView

__all__ = ["CoreResources"]


class CoreResources:
    """What the jobs of a cluster hold: here identical cores; nodes override what differs.

    The cluster keeps it as part of its configuration, and a live one, made by :meth:`begun`, for each run. Only the
    cluster changes it. Units are what fails and is reserved: cores, or nodes.

    Parameters
    ----------
    num_cores : int
        Number of cores, at least 1.
    reservations : iterable of AdvanceReservation
        Advance reservations of numbers of cores.

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

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    unit = "core"
    start_action: type[Any] = Start
    always_fits: int

    def __init__(self, num_cores: int, reservations: Iterable[AdvanceReservation] = ()) -> None:
        self.num_cores = self.always_fits = check_int("num_cores", num_cores, least=1, most=MOST_CORES)
        self.has_nodes = False
        self.reservations: tuple[AdvanceReservation, ...] = ()
        if reservations := tuple(reservations):
            from desim.problems.batch.parts.reservations import reservations_of

            self.reservations = reservations_of(reservations, self.num_cores)

    def describe(self) -> dict[str, Any]:
        """Return what a description of the cluster contains besides its number of cores."""
        return {}

    # one run

    def begun(self, tables: Mapping[str, Any]) -> Self:
        """Return the resources of one run, all free, which record themselves in the given tables."""
        live = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(live, name, value)  # copy() makes a dictionary, in which Python looks up attributes more slowly
        live._begin(tables)
        return live

    def _begin(self, tables: Mapping[str, Any]) -> None:
        self.free = (1 << self.num_cores) - 1
        self.num_free = self.num_cores
        self.down = self._suspended = self.closed = 0
        self.failures = FailureCounts(self.unit, self.num_cores)
        self.record_job: Callable[[Any], None] = tables["jobs"].append
        self._reserved: dict[int, int] = {}  # cores of reservations in progress, by number of the reservation

    def misfit(self, job: Job) -> str:
        """Return why a job cannot even start if everything is free, or an empty string if it can."""
        fits = job.requested_cores <= self.num_cores
        return "" if fits else f"requests {job.requested_cores} cores, the cluster has {self.num_cores}"

    def view(self, state: BatchState) -> NodeView | None:
        """Return the nodes as observations show them: None, because there are none."""
        return None

    # places

    def fits(self, job: Job) -> bool:
        """Return whether a job could start now."""
        return job.requested_cores <= self.num_free

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
        if job.requested_cores > self.num_free:
            return f": it requests {job.requested_cores} cores and {self.num_free} are free"
        if place is None or (
            isinstance(place, int) and not place & ~self.free and place.bit_count() == job.requested_cores
        ):
            return ""
        chosen = f"cores {to_core_ids(place).tolist()}" if isinstance(place, int) and place >= 0 else repr(place)
        return f" on {chosen}: expected a bit set of {job.requested_cores} free cores"

    def take(self, job: Job, row: int) -> int:
        """Take the lowest free cores for a job; return them, or 0 if too few are free."""
        count = job.requested_cores
        if count > self.num_free:
            return 0
        free = self.free
        lowest = free & -free
        cores = (lowest << int(count)) - lowest  # numpy's integers overflow at 64 bits
        if cores & free != cores:
            cores = lowest_cores(free, count)
        self.free = free ^ cores
        self.num_free -= count
        return cores

    def put_back(self, allocation: Any) -> None:
        """Free cores that an execution has held, except those that are closed."""
        self.free |= allocation & ~self.closed if self.closed else allocation
        self.num_free = self.free.bit_count()

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
        self.free &= ~place
        self.num_free = self.free.bit_count()
        return int(place)

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
        return job

    def record(self, execution: Execution, end: float | None) -> None:
        """Record the place of an execution that is suspended, or still running (end None) when the run ends."""

    # preemption

    def fits_without(self, state: BatchState, job: Job, victims: Collection[int]) -> bool:
        """Return whether a queued job could start if running jobs that it may preempt were preempted."""
        return self.fits(job) if state.qos is None else self.place_without(state, job, victims) is not None

    def place_without(self, state: BatchState, job: Job, victims: Collection[int]) -> Any:
        """Return where a queued job could start in that case; None if there is no room."""
        assert state.qos is not None
        free, borrowed = state.qos.open_to(state, job, victims)
        missing = job.requested_cores - free.bit_count()
        if missing > borrowed.bit_count():
            return None
        return lowest_cores(free, job.requested_cores) if missing <= 0 else free | lowest_cores(borrowed, missing)

    def set_suspended(self, cores: int) -> None:
        """Set the cores that suspended jobs own, as a bit set; they do not become free when others release them."""
        self._suspended, self.closed = cores, cores | self.down

    def give_up(self, cores: int, busy: int) -> None:
        """Free the cores of a job that was suspended, except those that running jobs use."""
        self.free |= cores & ~self.closed & ~busy
        self.num_free = self.free.bit_count()

    def count_once(self, state: BatchState) -> None:
        """Count what is borrowed only for the suspended job that owns it."""

    # outages and reservations

    def set_down(self, down: int) -> None:
        """Set the cores that are down; all others are up."""
        back = self.down & ~down
        self.free = (self.free | back) & ~down
        self.num_free = self.free.bit_count()
        self.down, self.closed = down, self._suspended | down

    def core_set_of(self, units: Iterable[int]) -> int:
        """Return the cores of units, as a bit set."""
        return core_set(units)

    def fail(self, units: list[int]) -> list[int]:
        """Note units that fail; return those that were in service."""
        return units

    def repair(self, units: list[int]) -> list[int]:
        """Note units that are repaired; return those that are in service again."""
        return units

    def reserve(self, number: int) -> list[int]:
        """Begin a reservation; return the cores to take out of service: the highest free ones, then busy ones."""
        # failed cores come last; if chosen, they stay out of service until the reservation ends, even if repaired
        up = ((1 << self.num_cores) - 1) & ~self.down
        failed = self.down & ~reduce(or_, self._reserved.values(), 0)
        ranked = [core for cores in (failed, up & ~self.free, self.free) for core in to_core_ids(cores).tolist()]
        chosen = sorted(ranked[-self.reservations[number].cores :])
        self._reserved[number] = core_set(chosen)
        return self.failures.fail(chosen)

    def end_reservation(self, number: int, now: float) -> list[int]:
        """End a reservation; return the cores that are in service again."""
        return self.failures.repair(to_core_ids(self._reserved.pop(number)).tolist(), now)
