"""State of a batch cluster, and observations of it: live, read-only views backed by arrays.

Views are valid until the decision is answered; copy arrays that you need for longer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import simpy
from numpy.typing import NDArray

from desim.forks import FlatDict
from desim.problems.batch.attributes import column_of
from desim.problems.batch.cores import to_core_ids
from desim.problems.batch.execution import Execution
from desim.problems.batch.job import Job
from desim.problems.batch.predictors import Predictions
from desim.problems.batch.resources.core_plan import CoreSetPlan, CountPlan, ReservationPlan
from desim.problems.batch.resources.cores import CoreResources
from desim.problems.batch.resources.node_plan import NodePlan
from desim.problems.batch.resources.node_profile import NodeProfile
from desim.problems.batch.resources.nodes import NodeView
from desim.problems.batch.resources.profile import AvailabilityProfile, CoreProfile
from desim.problems.batch.resources.protocols import Plan, Profile
from desim.problems.batch.workload import ids_of

if TYPE_CHECKING:
    from desim.problems.batch.parts.base import Part
    from desim.problems.batch.parts.preemption import AnnouncedPreemption, QOSTable, QualityOfService, Suspended
    from desim.problems.batch.parts.reservations import AdvanceReservation
    from desim.problems.batch.parts.usage import Usage

__all__ = ["MANY", "BatchObservation", "BatchState", "Queue", "Running"]

MANY = 512
"""Number of queued jobs from which an order that does not change over time is kept instead of made anew."""


def _explains(table: str) -> property:
    """Return an attribute that raises AttributeError for agents that name jobs by id."""

    def explain(self: object) -> NoReturn:
        """Raise AttributeError: actions name rows."""
        raise AttributeError(f"{table}.job_id: actions name rows, so write {table}.row; {table}.id shows ids as given")

    return property(explain)  # __getattr__ would make all other attributes slower


class _Rows:
    """Rows of numbers in a growing buffer; views show its columns.

    All numbers share one block, whatever their type, so that rows are moved in one operation.
    """

    def __init__(self, num_integers: int, num_floats: int) -> None:
        self._begin = self._end = 0
        self._num_integers = num_integers
        self._allocate(np.empty((num_integers + num_floats, 256), np.int64))

    def _allocate(self, block: NDArray[np.int64]) -> None:
        self._block = block
        integers, floats = block[: self._num_integers], block[self._num_integers :].view(np.float64)
        self._integer_items: list[Any] = [memoryview(row) for row in integers]  # twice as fast for single items
        self._float_items: list[Any] = [memoryview(row) for row in floats]
        self._integer_views: list[NDArray[np.int64]] = [row.view() for row in integers]
        self._float_views: list[NDArray[np.float64]] = [row.view() for row in floats]
        for view in (*self._integer_views, *self._float_views):
            view.flags.writeable = False

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._end - self._begin

    def __getstate__(self) -> tuple[int, NDArray[np.int64]]:
        """Return the rows, for a fork."""
        return self._num_integers, self._block[:, self._begin : self._end]

    def __setstate__(self, state: tuple[int, NDArray[np.int64]]) -> None:
        """Copy the rows to a new buffer."""
        self._num_integers, rows = state
        width, length = rows.shape
        block = np.empty((width, max(256, 2 * length)), np.int64)
        block[:, :length] = rows
        self._begin, self._end = 0, length
        self._allocate(block)

    def _make_room(self) -> None:
        """Move the rows to the front of the buffer, which doubles its size when it is more than half full."""
        begin, end = self._begin, self._end
        length = end - begin
        capacity = self._block.shape[1]
        block = np.empty((len(self._block), 2 * capacity if length > capacity // 2 else capacity), np.int64)
        block[:, :length] = self._block[:, begin:end]
        self._allocate(block)
        self._begin, self._end = 0, length

    def _open(self, position: int) -> int:
        """Open a gap at a position, counted from the first row; return its index in the buffer."""
        if self._end == self._block.shape[1]:
            self._make_room()
        place, end = self._begin + position, self._end
        if place < end:
            self._block[:, place + 1 : end + 1] = self._block[:, place:end]
        self._end = end + 1
        return place

    def _close(self, position: int) -> None:
        """Remove the row at a position by moving the shorter side."""
        begin, end = self._begin, self._end
        place = begin + position
        if place - begin <= end - place:
            if place > begin:
                self._block[:, begin + 1 : place + 1] = self._block[:, begin:place]
            self._begin = begin + 1
        else:
            self._block[:, place : end - 1] = self._block[:, place + 1 : end]
            self._end = end - 1

    def _position(self, number: int) -> int:
        """Return the position of the row whose first column equals a number."""
        items, begin, end = self._integer_items[0], self._begin, self._end
        place = bisect_left(items, number, begin, end)  # most queues ascend
        if place < end and items[place] == number:
            return place - begin
        return int((self._integer_views[0][begin:end] == number).argmax())


class Queue(_Rows):
    """Queued jobs in order of arrival; every column is an array of length L, the number of queued jobs."""

    def __init__(self, state: BatchState) -> None:
        self._expected = 1 if state.predictions is None else 2  # column of the expected run times
        super().__init__(3, 1 + self._expected)
        self._state = state
        self._sorted: dict[Any, tuple[Callable[[Queue], NDArray[np.float64]], list[tuple[float, int]]]] = {}
        for row, job in state.queued.items():
            self._add(row, job)

    def __getstate__(self) -> tuple[Any, ...]:
        """Return the rows, for a fork."""
        return *super().__getstate__(), self._state, self._expected

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Copy the rows to a new buffer."""
        super().__setstate__(state[:2])
        self._state, self._expected = state[2:]
        self._sorted = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column by name: one of those below, the queue, partition or QOS of the jobs, or an attribute.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        array, shape (L,)
            Integers, numbers or truth values of an attribute, or objects for text. Jobs without the attribute have nan,
            in text an empty string.

        Raises
        ------
        InvalidConfiguration
            If no job has the attribute; the message lists those that there are.

        Examples
        --------
        A policy that starts the jobs with the least energy first, see the guide on agents::

            order = np.argsort(observation.queue["energy"], kind="stable")
        """
        if name in _QUEUE_COLUMNS:
            return cast(NDArray[Any], getattr(self, name))
        return column_of(name, list(self._state.queued.values()), self._state.attributes)

    @property
    def row(self) -> NDArray[np.int64]:
        """Rows of the jobs, which actions name, shape (L,).

        The row of a job is the number of its submission, from 0; in a workload without dependencies, its position.
        """
        return self._integer_views[0][self._begin : self._end]

    @property
    def id(self) -> NDArray[Any]:
        """Ids of the jobs as given, shape (L,): integers, or objects if some are text. Several jobs may share one."""
        return ids_of([job.job_id for job in self._state.queued.values()])

    job_id = _explains("queue")

    @property
    def requested_cores(self) -> NDArray[np.int64]:
        """Requested cores, shape (L,)."""
        return self._integer_views[1][self._begin : self._end]

    @property
    def user_id(self) -> NDArray[np.int64]:
        """User numbers, -1 if unknown, shape (L,)."""
        return self._integer_views[2][self._begin : self._end]

    @property
    def submission_time(self) -> NDArray[np.float64]:
        """Submission times in seconds, shape (L,)."""
        return self._float_views[0][self._begin : self._end]

    @property
    def requested_time(self) -> NDArray[np.float64]:
        """Requested times in seconds, shape (L,)."""
        return self._float_views[1][self._begin : self._end]

    @property
    def expected_time(self) -> NDArray[np.float64]:
        """Expected run times in seconds, by the cluster's predictor: by default, the requested times; shape (L,)."""
        return self._float_views[self._expected][self._begin : self._end]

    @property
    def head_cores(self) -> int:
        """Requested cores of the first job; faster than the first item of the array."""
        cores: int = self._integer_items[1][self._begin]
        return cores

    @property
    def head_submission(self) -> float:
        """Submission time of the first job in seconds; faster than the first item of the array."""
        time: float = self._float_items[0][self._begin]
        return time

    def job_at(self, position: int) -> tuple[int, int, float]:
        """Return row, requested cores and expected time of the job at a position; faster than items of the arrays."""
        place = self._begin + position
        return self._integer_items[0][place], self._integer_items[1][place], self._float_items[self._expected][place]

    def positions_of(self, rows: Sequence[int]) -> list[int]:
        """Return the positions of some jobs, given by row, which must be in the queue."""
        return [self._position(row) for row in rows]

    def sorted_by(self, scores: Callable[[Queue], NDArray[np.float64]], key: Any) -> list[tuple[float, int]]:
        """Return (score, row) of all jobs in ascending order, kept up to date while jobs come and go.

        In a long queue this takes much less time than to sort it at each decision.

        Parameters
        ----------
        scores : callable
            Returns the scores, shape (L,), from the columns of a job alone: they must not change while it is queued.
        key : hashable
            What identifies the scores.

        Returns
        -------
        list of (float, int)
            The jobs; callers must not change the list.
        """
        if key not in self._sorted:
            self._sorted[key] = scores, sorted(zip(scores(self).tolist(), self.row.tolist(), strict=True))
        return self._sorted[key][1]

    def _score(self, scores: Callable[[Queue], NDArray[np.float64]], place: int) -> float:
        """Return the score of the job at an index of the buffer."""
        shown = self._begin, self._end
        try:
            self._begin, self._end = place, place + 1
            return float(scores(self)[0])
        finally:
            self._begin, self._end = shown

    def least_cores(self, end: int) -> int:
        """Return the smallest core request of the first `end` jobs; faster than the array."""
        cores: int = min(self._integer_items[1][self._begin : self._begin + end])
        return cores

    def numbers(self, index: slice | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return four columns at once: cores, users, and the bits of submission and requested times, shape (4, n)."""
        return self._block[1:5, self._begin : self._end][:, index]

    def _add(self, row: int, job: Job, position: int | None = None) -> None:
        if position is None and self._end < self._block.shape[1]:
            place = self._end
            self._end = place + 1
        else:
            place = self._open(self._end - self._begin if position is None else position)
        rows, requested_cores, user_ids = self._integer_items
        submitted, requested_times = self._float_items[:2]
        rows[place] = row
        _, submitted[place], requested_cores[place], requested_times[place], _, user_ids[place] = job[:6]
        if (predictions := self._state.predictions) is not None:
            self._float_items[2][place] = predictions.of(row)
        for scores, jobs in self._sorted.values():
            insort(jobs, (self._score(scores, place), row))

    def _remove(self, row: int) -> None:
        if self._sorted:
            place = self._begin + self._position(row)
            for scores, jobs in self._sorted.values():
                del jobs[bisect_left(jobs, (self._score(scores, place), row))]
            if len(self) < MANY // 2:
                self._sorted = {}
        if self._integer_items[0][self._begin] == row:
            self._begin += 1
        else:
            self._close(self._position(row))


class UnreadQueue(Queue):
    """Queue that has not been read yet; its first use replaces it by one that the cluster keeps up."""

    def __init__(self, state: BatchState) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the queue, which is read now."""
        if name.startswith("__"):  # asked for by pickle
            raise AttributeError(name)
        return getattr(self._state.table_of_queue(), name)

    def __getstate__(self) -> Any:
        """Return the state of the cluster, for a fork."""
        return self._state

    def __setstate__(self, state: Any) -> None:
        """Stay unread in a fork."""
        self._state = state


class Running:
    """Running jobs by expected end; every column is an array of length R, the number of running jobs.

    The expected end is the start plus the time that the cluster's predictor expects, by default the requested time. If
    a job has not ended by then, the cluster corrects its expected end, by default by `corrected_end`, and opens a
    scheduling cycle. No expected end therefore lies in the past.

    Parameters
    ----------
    state : BatchState
        State of the cluster.
    """

    changes: int
    """Number of starts and ends so far; anything derived from the table is valid until it changes."""

    def __init__(self, state: BatchState) -> None:
        self._state = state
        self.changes = 0
        self._arrays: dict[str, NDArray[Any]] = {}
        self._fill(state.running_rows())

    def __len__(self) -> int:
        """Return the number of running jobs."""
        return len(self._rows)

    @property
    def row(self) -> NDArray[np.int64]:
        """Rows of the jobs, see :attr:`Queue.row`, shape (R,)."""
        return self._array("row", self._rows, np.int64)

    @property
    def id(self) -> NDArray[Any]:
        """Ids of the jobs as given, shape (R,): integers, or objects if some are text."""
        return ids_of([self._state.job_at(row).job_id for row in self._rows])

    job_id = _explains("running")

    @property
    def requested_cores(self) -> NDArray[np.int64]:
        """Cores in use, shape (R,)."""
        return self._array("requested_cores", self._cores, np.int64)

    @property
    def expected_end(self) -> NDArray[np.float64]:
        """Expected ends in seconds, ascending, shape (R,)."""
        return self._array("expected_end", self._ends, np.float64)

    @property
    def starting_time(self) -> NDArray[np.float64]:
        """Starting times in seconds, shape (R,)."""
        return self._array("starting_time", self._starts, np.float64)

    @property
    def first_end(self) -> float:
        """Earliest expected end of a running job, in seconds; infinite if none is running."""
        return self._ends[0] if self._ends else np.inf

    def releases(self) -> Iterator[tuple[float, int, int]]:
        """Return an iterator of (expected end, cores, row) by expected end; faster than arrays for the first few."""
        return zip(self._ends, self._cores, self._rows, strict=True)

    def list_into(self, ends: list[float], cores: list[float]) -> None:
        """Append expected ends and cores, by expected end, to two lists."""
        ends += self._ends
        cores += self._cores

    def rows(self) -> Iterator[int]:
        """Return the rows of the jobs by expected end; faster than the array."""
        return iter(self._rows)

    def _array(self, name: str, values: list[Any], dtype: type) -> NDArray[Any]:
        """Return a column as an array, cached until a job starts or ends."""
        array = self._arrays.get(name)
        if array is None:
            array = self._arrays[name] = np.array(values, dtype)
            array.flags.writeable = False
        return array

    def _add(self, row: int, requested_cores: int, expected_end: float, starting_time: float) -> None:
        self.changes += 1
        self._arrays = {}
        place = bisect_right(self._ends, expected_end)
        self._ends.insert(place, expected_end)
        self._starts.insert(place, starting_time)
        self._cores.insert(place, requested_cores)
        self._rows.insert(place, row)

    def _fill(self, rows: Iterable[tuple[int, int, float, float]]) -> None:
        """Replace all rows."""
        self.changes += 1
        self._ends: list[float] = []  # usually few jobs are running, for which lists are faster than arrays
        self._starts: list[float] = []
        self._cores: list[int] = []
        self._rows: list[int] = []
        for one in rows:
            self._add(*one)

    def _remove(self, row: int, expected_end: float) -> None:
        self.changes += 1
        self._arrays = {}
        place = self._rows.index(row, bisect_left(self._ends, expected_end))
        del self._ends[place], self._starts[place], self._cores[place], self._rows[place]

    def _correct(self, row: int, expected_end: float, corrected: float) -> None:
        place = self._rows.index(row, bisect_left(self._ends, expected_end))
        cores, start = self._cores[place], self._starts[place]
        self._remove(row, expected_end)
        self._add(row, cores, corrected, start)


class UnreadRunning(Running):
    """Table of running jobs that has not been read yet; its first use replaces it by one that the cluster keeps up."""

    def __init__(self, state: BatchState) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the table, which is read now."""
        if name.startswith("__"):  # asked for by pickle
            raise AttributeError(name)
        return getattr(self._state.table_of_running(), name)


@dataclass(slots=True, eq=False, repr=False)
class BatchState:
    """Current state of a batch cluster, which only the cluster changes.

    Parameters
    ----------
    env : simpy.Environment
        Environment, which provides the current time.
    resources : CoreResources
        Cores or nodes of the cluster.
    can_wait : callable
        Returns whether anything may still happen if no job starts now.

    Attributes
    ----------
    queued : dict of int to Job
        Queued jobs by row, in order of arrival.
    removed : int
        Number of jobs that have left the dictionary of queued jobs since it was last made anew.
    running : dict of int to Execution
        Running jobs by row.
    reservations : tuple of AdvanceReservation
        Reservations that have not ended, by start.
    qos : QOSTable or None
        QOS levels, if there are any.
    parts : tuple of Part
        Parts of the cluster.
    attributes : dict of str to str
        Types of the attributes of jobs by name, as far as they are known in advance.
    suspended : dict of int to Suspended
        Suspended jobs by row, in order of suspension.
    announced : dict of int to AnnouncedPreemption
        Announced preemptions by the row of the queued job that starts.
    borrowed : dict of int to (int, float)
        For each suspended job and each job that runs on its cores: the cores that become free when it ends, and its
        expected end.
    preemptions : int
        Number of times that preemption has changed the running jobs or their expected ends.
    predictions : Predictions or None
        Expected run times; None if jobs are expected to run for their requested times.
    insertions : int
        Number of jobs that were put elsewhere than at the end of the queue, among them those that were in it before.
    observation : BatchObservation
        Live view of this state.
    """

    env: simpy.Environment
    resources: CoreResources
    can_wait: Callable[[], bool]
    queued: dict[int, Job] = field(default_factory=FlatDict)
    removed: int = 0
    running: dict[int, Execution] = field(default_factory=dict)
    queue_table: Queue | None = None  # tables are kept up only after their first use
    running_table: Running | None = None
    usages: dict[float, Usage] = field(default_factory=dict)  # by half-life
    reservations: tuple[AdvanceReservation, ...] = ()
    qos: QOSTable | None = None
    parts: tuple[Part, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    suspended: dict[int, Suspended] = field(default_factory=dict)
    announced: dict[int, AnnouncedPreemption] = field(default_factory=dict)
    borrowed: dict[int, tuple[int, float]] = field(default_factory=dict)
    preemptions: int = 0
    predictions: Predictions | None = None
    insertions: int = 0
    observation: BatchObservation = field(init=False)

    def __post_init__(self) -> None:
        """Begin with all reservations of the resources."""
        self.reservations = self.resources.reservations
        self.observation = BatchObservation(self)

    def enqueue(self, row: int, job: Job) -> None:
        """Append a job to the queue."""
        self.queued[row] = job
        if self.queue_table is not None:
            self.queue_table._add(row, job)

    def requeue(self, row: int, job: Job) -> None:
        """Return an interrupted job to its position in the queue, before jobs submitted at the same time."""
        self._insert(row, job, bisect_left([*self.queued.values()], job.submission_time, key=_submission_time))

    def admit(self, row: int, job: Job) -> None:
        """Insert an admitted job into the queue by its row."""
        place = len(self.queued)
        for other in reversed(self.queued):
            if other < row:
                break
            place -= 1
        self._insert(row, job, place)

    def _insert(self, row: int, job: Job, place: int) -> None:
        self.insertions += 1
        jobs = [*self.queued.items()]
        jobs.insert(place, (row, job))
        self.queued.clear()  # the same dictionary, in a new order
        self.queued.update(jobs)
        if self.queue_table is not None:
            self.queue_table._add(row, job, place)

    def start(self, execution: Execution) -> None:
        """Move a job from the queue to the running ones; its cores are taken already."""
        job, row = execution.job, execution.row
        del self.queued[row]
        self.removed += 1
        if self.removed >= 256 and self.removed**2 >= 64 * len(self.queued):  # the first one gets slow to find
            self.removed, jobs = 0, dict(self.queued)
            self.queued.clear()
            self.queued.update(jobs)
        if self.queue_table is not None:
            self.queue_table._remove(row)
        self.running[row] = execution
        if self.running_table is not None:
            self.running_table._add(row, job.requested_cores, execution.expected_end, execution.starting_time)
        if self.usages:
            self.count_usage(job, job.requested_cores)

    def count_usage(self, job: Job, cores: int) -> None:
        """Count that the user of a job gains cores, or loses them if the number is negative."""
        for usage in self.usages.values():
            usage.change(job.user_id, cores, self.env.now)

    def leave(self, execution: Execution) -> None:
        """Remove an execution from the running ones, and free its cores."""
        row = execution.row
        del self.running[row]
        if self.running_table is not None:
            self.running_table._remove(row, execution.expected_end)
        self.resources.put_back(execution.allocation)
        if self.usages:
            self.count_usage(execution.job, -execution.job.requested_cores)

    def correct(self, execution: Execution) -> None:
        """Expect a running job that has not ended by its expected end to continue."""
        before = execution.expected_end
        execution.correct(self.predictions)
        if self.running_table is not None:
            self.running_table._correct(execution.row, before, execution.expected_end)

    def running_rows(self) -> Iterator[tuple[int, int, float, float]]:
        """Yield row, cores, expected end and start of the running jobs, then of the suspended ones."""
        for row, execution in self.running.items():
            cores = self.borrowed[row][0].bit_count() if row in self.borrowed else execution.job.requested_cores
            yield row, cores, execution.expected_end, execution.starting_time
        for row, one in self.suspended.items():
            cores, end = self.borrowed[row]
            yield row, cores.bit_count(), end, one.starting_time

    def usage(self, half_life: float) -> Usage:
        """Return the usage of each user since the first call, including jobs that were running then."""
        if half_life not in self.usages:
            from desim.problems.batch.parts.usage import Usage

            usage = Usage(half_life)
            for execution in self.running.values():
                usage.change(execution.job.user_id, execution.job.requested_cores, execution.starting_time)
            self.usages[half_life] = usage
        return self.usages[half_life]

    def job_at(self, row: int) -> Job:
        """Return a queued, running or suspended job."""
        queued = self.queued.get(row)
        return (self.running.get(row) or self.suspended[row]).job if queued is None else queued

    def table_of_queue(self) -> Queue:
        """Return the table of queued jobs, which is kept up from now on."""
        if self.queue_table is None:
            self.queue_table = self.observation.queue = Queue(self)
        return self.queue_table

    def table_of_running(self) -> Running:
        """Return the table of running jobs, which is kept up from now on."""
        if self.running_table is None:
            self.running_table = self.observation.running = Running(self)
        return self.running_table


class BatchObservation:
    """Observation at a decision: the queue, the running jobs and the free cores or nodes.

    It contains neither actual run times nor future events.

    Parameters
    ----------
    state : BatchState
        State of the cluster to observe.
    """

    __slots__ = ("_resources", "_state", "nodes", "num_cores", "queue", "running")

    num_cores: int
    """Number of cores of the cluster, including those that are down."""

    nodes: NodeView | None
    """Nodes of the cluster; None if it only has cores."""

    queue: Queue
    """Queued jobs in order of arrival."""

    running: Running
    """Running jobs by expected end.

    Suspended jobs are included, with their cores and the expected end after they have resumed. A job that borrows their
    cores is listed only with the cores that become free when it ends.
    """

    def __init__(self, state: BatchState) -> None:
        self._state, self._resources = state, state.resources
        self.num_cores = state.resources.num_cores
        self.nodes = state.resources.view(state)
        # a property takes longer for each use, and so does __getattr__ of a class that is in use
        self.queue, self.running = UnreadQueue(state), UnreadRunning(state)

    def __repr__(self) -> str:
        """Return a summary of the state."""
        return f"BatchObservation(time={self.time}, queued={len(self._state.queued)}, free_cores={self.free_cores})"

    @property
    def time(self) -> float:
        """Current time in seconds."""
        return self._state.env._now

    @property
    def can_wait(self) -> bool:
        """Whether anything may still happen if no job starts now: a job may end or arrive, or a reservation may begin.

        If not, an agent that starts nothing ends the run and leaves the queue behind. As for the end of a run,
        processes in the background, such as random failures, do not count.
        """
        return bool(self._state.running) or self._state.can_wait()

    @property
    def free_cores(self) -> int:
        """Number of cores that are up and idle."""
        return self._resources.num_free

    @property
    def free_core_set(self) -> int:
        """Cores that are up and idle, as a bit set."""
        return self._resources.free

    @property
    def down_cores(self) -> int:
        """Number of cores that are down."""
        return self._resources.down.bit_count()

    @property
    def reservations(self) -> tuple[AdvanceReservation, ...]:
        """Advance reservations in progress and in the future, by start."""
        return self._state.reservations

    def id_of(self, row: int) -> Any:
        """Return the id of a queued, running or suspended job as it was given."""
        return self._state.job_at(row).job_id

    def request_at(self, position: int) -> Any:
        """Return the request of the job at a position in the queue, for a profile: a number of cores, or a request."""
        row, cores, _ = self.queue.job_at(position)
        return cores if self.nodes is None else self.nodes.compiled_request(row)

    def plan(self, *, specific_cores: bool = False, around_reservations: bool = True) -> Plan:
        """Return a new plan, in which an agent considers starts at this decision.

        Parameters
        ----------
        specific_cores : bool
            Whether to plan with particular cores instead of their number, without regard to advance reservations; has
            no effect on nodes.
        around_reservations : bool
            Whether jobs start only if they end before advance reservations need their resources.
        """
        if self.nodes is not None:
            return NodePlan(self, around_reservations=around_reservations)
        if specific_cores:
            return CoreSetPlan(self)
        if around_reservations and self._state.reservations:
            return ReservationPlan(self)
        return CountPlan(self)

    def profile(self, *, specific_cores: bool = False) -> Profile:
        """Return a new profile of the resources that are expected to be free from now on.

        Parameters
        ----------
        specific_cores : bool
            Whether the profile contains particular cores instead of their number, without advance reservations; has no
            effect on nodes.
        """
        if self.nodes is not None:
            return NodeProfile.of_running(self)
        return (CoreProfile if specific_cores else AvailabilityProfile).of_running(self)

    def heads(self) -> Iterator[tuple[int, int]]:
        """Return an iterator of (row, requested cores) of the queued jobs, from the first on.

        If only the first few are needed, this saves building the table of all queued jobs.
        """
        queued = self._state.queued
        return zip(queued, map(_requested_cores, queued.values()), strict=True)

    def sizes_of(self, row: int) -> list[tuple[int, float]]:
        """Return (cores, expected time in seconds) of each size of a queued job; a rigid job has one size."""
        sizes, predictions = self._state.queued[row].in_all_sizes(), self._state.predictions
        if predictions is None:
            return [(size.requested_cores, size.requested_time) for size in sizes]
        return [(size.requested_cores, time) for size, time in zip(sizes, predictions.times[row], strict=False)]

    @property
    def predicts(self) -> bool:
        """Whether jobs are expected to run for predicted instead of requested times."""
        return self._state.predictions is not None

    def requested_time_of(self, row: int, size: int | None = None) -> float:
        """Return the requested time of a queued job in one of its sizes, in seconds."""
        return self._state.queued[row].in_size(size or 0).requested_time

    def latest_ends(self) -> Iterator[tuple[float, int, int]]:
        """Yield what ``running.releases()`` does, in any order, with the ends by requested times."""
        running = self._state.running
        for end, cores, row in self.running.releases():
            yield max(end, running[row].requested_end) if row in running else end, cores, row

    def allows_size(self, row: int, size: int) -> bool:
        """Return whether the limits of the site allow a queued job to start in a given size now.

        The result may change with every start: if one job grows, another may no longer be able to.

        Parameters
        ----------
        row : int
            Row of the queued job.
        size : int
            Index of the size, from 0.
        """
        job = self._state.queued[row].in_size(size)
        return not any(part.may_start(job, row, size) for part in self._state.parts)

    @property
    def has_limits(self) -> bool:
        """Whether the site limits what users, partitions or queues may use."""
        return any(part.name == "limits" for part in self._state.parts)

    def usage(self, half_life: float) -> Usage:
        """Return the usage of each user since the first call of an agent, including jobs that were running then.

        Parameters
        ----------
        half_life : float
            Seconds in which usage decays to one half, above 0.
        """
        return self._state.usage(half_life)

    @property
    def qos(self) -> Mapping[str, QualityOfService]:
        """QOS levels by name; empty if the site has none."""
        return self._state.qos.by_name if self._state.qos is not None else {}

    def qos_of(self, row: int) -> QualityOfService | None:
        """Return the QOS of a job, or None if it has none."""
        return self._state.qos.of(self._state.job_at(row)) if self._state.qos is not None else None

    @property
    def preemptions(self) -> int:
        """Number of times that preemption has changed the running jobs or their expected ends.

        Plans based on the running jobs are valid until it changes.
        """
        return self._state.preemptions

    @property
    def suspended(self) -> tuple[int, ...]:
        """Rows of the suspended jobs in order of suspension; they are also among the running ones."""
        return tuple(self._state.suspended)

    @property
    def announced_preemptions(self) -> Mapping[int, AnnouncedPreemption]:
        """Preemptions that will take place when the grace time of their victims is over, by the queued job's row."""
        return MappingProxyType(self._state.announced)

    def preemptible_by(self, row: int) -> list[tuple[int, float]]:
        """Return (row, last start in seconds) of the running jobs that a queued job may preempt, in order of start.

        Parameters
        ----------
        row : int
            Row of the queued job.
        """
        qos = self._state.qos
        if qos is None:
            return []
        job, running = self._state.queued[row], self._state.running.items()
        return [(each, one.starting_time) for each, one in running if qos.allows(job, one.job)]

    def has_room_without(self, row: int, victims: Collection[int]) -> bool:
        """Return whether a queued job could start if running jobs that it may preempt were preempted.

        Parameters
        ----------
        row : int
            Row of the queued job.
        victims : collection of int
            Rows of the running jobs to preempt.
        """
        return self._resources.fits_without(self._state, self._state.queued[row], victims)

    def core_set_of(self, row: int) -> int:
        """Return the cores that become free when a running job ends, as a bit set."""
        borrowed = self._state.borrowed
        return borrowed[row][0] if row in borrowed else self._state.running[row].cores

    def remaining_times(self) -> NDArray[np.float64]:
        """Return the seconds until each core is expected to be free, shape (num_cores,).

        The value is 0 for a free core and infinite for a core that is down.
        """
        remaining = np.zeros(self.num_cores)
        for end, _, row in self.running.releases():
            remaining[to_core_ids(self.core_set_of(row))] = end - self.time
        remaining[to_core_ids(self._resources.down)] = np.inf
        return remaining

    def __getstate__(self) -> Any:
        """Raise TypeError: a live view cannot be pickled."""
        raise TypeError("an observation is a live view and cannot be pickled; copy the arrays that you need")


_QUEUE_COLUMNS = (
    "row",
    "id",
    "job_id",
    "requested_cores",
    "user_id",
    "submission_time",
    "requested_time",
    "expected_time",
)
_requested_cores = itemgetter(Job._fields.index("requested_cores"))  # faster than by name
_submission_time = attrgetter("submission_time")
