"""DAG jobs whose nodes are stages of parallel tasks, as in Spark: each task runs on one executor."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray

from desim.checks import check_float
from desim.exceptions import InvalidConfiguration
from desim.problem import Process
from desim.problems.dag.cluster import DagCluster
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job
from desim.problems.dag.state import Copy, JobState, Setting

if TYPE_CHECKING:
    from desim.problems.dag.job import Wave

__all__ = ["TaskCluster", "TaskCopy", "TaskInputs", "TaskState"]

Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]


class TaskInputs(NamedTuple):
    """What a task receives: an entry for each executor that has run tasks of a parent, parents in ascending order.

    Attributes
    ----------
    parents, sources : numpy.ndarray of int
        The parent, and the executor that its tasks ran on.
    begins, arrivals : numpy.ndarray
        When the data set out, at the end of the last of these tasks at the earliest, and when they arrive, in seconds.
    sizes : numpy.ndarray
        Units of data.
    ready : float
        When all have arrived, in seconds; 0 for a node without parents.
    """

    parents: IntArray
    sources: IntArray
    begins: Floats
    arrivals: Floats
    sizes: Floats
    ready: float


@dataclass(slots=True, eq=False, repr=False)
class TaskCopy(Copy):
    """A task of a node, assigned to an executor; live, do not change it.

    Attributes
    ----------
    shares : TaskInputs
        What it receives.
    """

    shares: TaskInputs = field(init=False)


_NO_NUMBERS, _NO_TIMES = np.empty(0, dtype=np.int64), np.empty(0)
_NOTHING = TaskInputs(_NO_NUMBERS, _NO_NUMBERS, _NO_TIMES, _NO_TIMES, _NO_TIMES, 0.0)
"""What a task of a node without parents receives."""


class Outputs(NamedTuple):
    """Where the results of a node are: executors, tasks run there, and when the last of these finished."""

    sources: IntArray
    counts: Floats
    finishes: Floats


class TaskRuns:
    """What the executors of a cluster ran last, and how long their tasks take.

    Each task has random numbers of its own, whatever else has been drawn before: Philox counts, that is its numbers
    follow from a key, here that of the run, and a counter, here the job, the node and the task (J. K. Salmon et al.,
    "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

    Parameters
    ----------
    executors : Executors
        Of the cluster.
    moving_delay : float
        Seconds that an executor needs before it runs a task of another job than its last one.
    rng : numpy.random.Generator
        Where the key comes from.
    """

    def __init__(self, executors: Executors, moving_delay: float, rng: Generator) -> None:
        self._speeds: list[float] = executors.speeds.tolist()
        self._moving_delay = moving_delay
        self._last: list[tuple[int, int] | None] = [None] * len(self._speeds)  # job and node, by executor
        self._num_executors: Counter[int] = Counter()  # whose last task was one of a job
        self._is_random = True
        self._bits = Philox(key=rng.integers(2**64, size=2, dtype=np.uint64))
        self._rng = Generator(self._bits)
        self._beginning = self._bits.state

    def stop_drawing(self) -> None:
        """Let tasks that start from now on take as long as is expected of them."""
        self._is_random = False

    def delay(self, state: TaskState, executor: int) -> float:
        """Return how long an executor that is free needs to move to a job, in seconds."""
        last = self._last[executor]
        return 0.0 if last is None or last[0] == state.arrival_number else self._moving_delay

    def forget(self, executor: int) -> None:
        """Forget what an executor ran last."""
        last = self._last[executor]
        if last is not None:
            self._last[executor] = None
            self._num_executors[last[0]] -= 1
            if not self._num_executors[last[0]]:
                del self._num_executors[last[0]]

    def run(self, state: TaskState, task: Copy) -> float:
        """Return when a task that starts will have finished, in seconds, and remember what its executor ran."""
        node, executor = task.node, task.executor
        last, number = self._last[executor], state.arrival_number
        wave: Wave = "first" if executor in state.visited else "fresh"
        if last is None or last[0] != number:
            self.forget(executor)
            self._num_executors[number] += 1
        elif last[1] == node:
            wave = "rest"
        self._last[executor] = number, node
        state.visited.add(executor)
        times = state.job.task_times
        if times is None or not self._is_random:
            return task.finish
        beginning = self._beginning
        beginning["state"]["counter"][:] = (0, task.task, node, state.job.job_id % 2**64)
        self._bits.state = beginning
        seconds = times[node].draw(self._rng, wave, self._num_executors[number])
        duration: float = seconds * times[node].reference_speed / self._speeds[executor]
        return task.start + duration


class TaskState(JobState):
    """A job in the system whose nodes run task by task, as agents see it; live, do not change it.

    Times of tasks that have not finished are expectations, from mean durations. ``copies[node]`` are the tasks of a
    node that are assigned or whose results are held; ``assigned`` and ``finished`` tell whether all its tasks are.

    Parameters
    ----------
    job, arrival_number, setting, back_since : Job, int, object, numpy.ndarray
        See :class:`JobState`.
    runs : TaskRuns
        Of the cluster.

    Attributes
    ----------
    run_times : numpy.ndarray of shape (num_nodes, num_executors)
        Mean seconds that a task of each node takes on each executor.
    unassigned_tasks, unfinished_tasks : numpy.ndarray of int, shape (num_nodes,)
        How many tasks of each node have not been assigned, and how many have not finished.
    visited : set of int
        The executors that have run tasks of the job and have not been down since.
    """

    may_duplicate = False

    def __init__(
        self, job: Job, arrival_number: int, setting: Setting, back_since: Floats | None, *, runs: TaskRuns
    ) -> None:
        super().__init__(job, arrival_number, setting, back_since)
        self.run_times = self.run_times / job.num_tasks[:, None]
        for node, times in enumerate(job.task_times or ()):
            self.run_times[node] = times.mean() * times.reference_speed / setting.executors.speeds
        self.unassigned_tasks = job.num_tasks.copy()
        self.unfinished_tasks = job.num_tasks.copy()
        self.visited: set[int] = set()  # only looked up
        self._runs = runs
        self._num_tasks = job.num_tasks.tolist()
        self._next_task = [0] * job.num_nodes
        self._returned: list[list[int]] = [[] for _ in range(job.num_nodes)]  # numbers to be assigned again
        self._lost: list[list[int]] = [[] for _ in range(job.num_nodes)]  # finished, the results are gone
        self._outputs: dict[int, Outputs] = {}
        self._shares: dict[tuple[int, int], TaskInputs] = {}

    def arrivals(self, node: int) -> Floats:
        """Return when a task's share of each parent's results arrives at each executor.

        Parameters
        ----------
        node : int
            A node that has parents.

        Returns
        -------
        numpy.ndarray of shape (num_parents, num_executors)
            Seconds, infinite for a parent that has not finished; the parents are in ascending order.
        """
        table = np.full((len(self._parents[node]), len(self._seconds)), np.inf)
        for row, (parent, size) in enumerate(self._parents[node]):
            if not self.has_data[parent]:
                continue
            outputs = self._outputs_of(parent)
            sizes = self._sizes(outputs, parent, node, size)
            table[row] = self._arrivals_from(outputs.sources, sizes, outputs.finishes).max(axis=0)
        return table

    def ready_time(self, node: int, executor: int) -> float:
        """Return when a task of a node would have received all its inputs on one executor, in seconds."""
        return self.ready_times(node).item(executor)

    def _outputs_of(self, node: int) -> Outputs:
        """Return where the results of a node that has finished are."""
        outputs = self._outputs.get(node)
        if outputs is None:
            held = self.copies[node]
            sources, places, counts = np.unique(
                [copy.executor for copy in held], return_inverse=True, return_counts=True
            )
            finishes = np.zeros(len(sources))
            np.maximum.at(finishes, places, [copy.finish for copy in held])
            outputs = self._outputs[node] = Outputs(sources.astype(np.int64), counts.astype(np.float64), finishes)
        return outputs

    def _sizes(self, outputs: Outputs, parent: int, node: int, size: float) -> Floats:
        """Return how much a task of a node receives from each executor that has results of a parent."""
        sizes: Floats = outputs.counts / self._num_tasks[parent] * size / self._num_tasks[node]
        return sizes

    def shares(self, node: int, executor: int) -> TaskInputs:
        """Return what a task receives that is assigned now.

        Parameters
        ----------
        node : int
            A node whose parents have finished.
        executor : int
            Where the task is to run.

        Returns
        -------
        TaskInputs
            One entry for each parent and each executor that has results of it. Do not change the arrays.
        """
        shares = self._shares.get((node, executor))
        if shares is None:
            shares = self._compute_shares(node, executor)
            if self._sent_when_finished:
                self._shares[node, executor] = shares
        return shares

    def _compute_shares(self, node: int, executor: int) -> TaskInputs:
        parents = self._parents[node]
        if not parents:
            return _NOTHING
        outputs = [self._outputs_of(parent) for parent, _ in parents]
        sources = np.concatenate([each.sources for each in outputs])
        finishes = np.concatenate([each.finishes for each in outputs])
        sizes = np.concatenate(
            [self._sizes(each, parent, node, size) for each, (parent, size) in zip(outputs, parents, strict=True)]
        )
        earliest = self._env.now
        if self._sent_when_finished:
            earliest = 0.0 if self._back_since is None else self._back_since.item(executor)
        begins = np.where(sources == executor, finishes, np.maximum(finishes, earliest))
        arrivals: Floats = self._seconds[sources, executor] * sizes
        if self._latencies is not None:
            arrivals += self._latencies[sources, executor]
        arrivals += begins
        numbers = np.repeat([parent for parent, _ in parents], [len(each.sources) for each in outputs])
        return TaskInputs(numbers, sources, begins, arrivals, sizes, arrivals.max().item())

    # -- for the cluster ----------------------------------------------------------------------------

    def new_copy(self, node: int, executor: int, *, now: float, sequence: int, start: float, finish: float) -> TaskCopy:
        """Return the next task of a node, which is assigned to an executor now."""
        task = heapq.heappop(self._returned[node]) if self._returned[node] else self._next_task[node]
        if task == self._next_task[node]:
            self._next_task[node] += 1
        self.unassigned_tasks[node] -= 1
        copy = TaskCopy(self, node, executor, False, now, sequence, start, finish, task)
        copy.shares = self.shares(node, executor)
        return copy

    def add(self, copy: Copy) -> None:
        """Take note of a new task; nobody else's data change before its node has finished."""
        self.copies[copy.node].append(copy)

    def remove(self, copy: Copy) -> None:
        """Forget a task that will not run, to be assigned again, or the results of one that has finished."""
        node = copy.node
        self.copies[node].remove(copy)
        if copy.has_finished:
            self._lost[node].append(copy.task)
            self._forget_outputs(node)
        else:
            heapq.heappush(self._returned[node], copy.task)
            self.unassigned_tasks[node] += 1

    def _forget_outputs(self, node: int) -> None:
        """Forget where the results of a node are and when they arrive."""
        self._outputs.pop(node, None)
        for child, _ in self._children[node]:
            self._ready[child] = None
            for key in [key for key in self._shares if key[0] == child]:
                del self._shares[key]

    def forget_arrivals(self, node: int) -> None:
        """Do nothing: data arrive as they do when a node has finished, whatever was expected."""

    def lose_received(self, back_since: Floats) -> None:
        """Take note that executors have been down: what they had received by then has to be sent again."""
        super().lose_received(back_since)
        self._shares.clear()

    def delay(self, copy: Copy) -> float:
        """Return how long an executor that is free needs to move to the job, in seconds."""
        return self._runs.delay(self, copy.executor)

    def run(self, copy: Copy) -> float:
        """Return when a task that starts will have finished, in seconds."""
        return self._runs.run(self, copy)

    def complete(self, copy: Copy) -> bool:
        """Take note that a task has finished, and tell whether all tasks of its node have."""
        self.unfinished_tasks[copy.node] -= 1
        return not self.unfinished_tasks[copy.node]

    def received_at(self, copy: Copy) -> float:
        """Return when all inputs of a task are there, in seconds: known when it is assigned."""
        return _task(copy).shares.ready

    expected_at = received_at

    def receive(self, copy: Copy, until: float) -> None:
        """Do nothing: the shares of a task tell when they arrive."""

    def record_inputs(self, copy: Copy, record: Callable[..., None]) -> None:
        """Record the inputs of a task that starts."""
        shares = _task(copy).shares
        place = copy.node, copy.task, copy.executor
        record((self.job.job_id, self.arrival_number, *place, shares), len(shares.sources))

    def unsupported(self, waiting: Sequence[Copy], executors: Sequence[int], *, lost: bool) -> Iterator[Copy]:
        """Yield the waiting tasks that had not yet received all data of executors that went down."""
        now = self._env.now
        for copy in waiting if lost else ():
            shares = _task(copy).shares
            if (np.isin(shares.sources, executors) & (shares.arrivals > now)).any():
                yield copy

    def recount(self) -> None:
        """Offer the tasks again whose results are gone and needed, and count anew what is assigned and finished."""
        for node in reversed(range(self.job.num_nodes)):
            # A task that has been assigned has its data, or was withdrawn; one that has not needs all of them.
            if any(self.unassigned_tasks[child] for child, _ in self._children[node]):
                for task in self._lost[node]:
                    heapq.heappush(self._returned[node], task)
                self.unassigned_tasks[node] += len(self._lost[node])
                self.unfinished_tasks[node] += len(self._lost[node])
                self._lost[node].clear()
        self.finished[:] = self.unfinished_tasks == 0
        self.has_data[:] = self.finished & [not lost for lost in self._lost]
        self.assigned[:] = self.unassigned_tasks == 0
        self.num_unfinished = int((~self.finished).sum())


def _task(copy: Copy) -> TaskCopy:
    assert isinstance(copy, TaskCopy)
    return copy


class TaskCluster(DagCluster):
    """Executors that run the tasks of DAG jobs: a node is a stage of ``num_tasks`` tasks that may run in parallel.

    A stage is ready when all its parents have finished, and stays so while it has tasks that are not assigned; it
    has finished when all its tasks have. An :class:`Assign` puts its next task into the queue of an executor. Tasks are
    not duplicated.

    A task takes an equal part of what its stage takes or, if the job has ``task_times``, a time drawn from them when it
    starts: from the wave ``fresh`` if the executor has run no task of the job before (or has been down since), from
    ``rest`` if its last task was of the same stage, otherwise from ``first``; the executors of the job are those whose
    last task was one of its own, this one included. What is drawn follows from the seed, the job, the stage, the number
    of the task, and these two, so that agents face the same chances. Agents see mean durations.

    Every task needs its share, 1 / num_tasks, of what each executor holds of a parent's results: as much of the edge's
    size as of the parent's tasks ran there. A share sets out when the last of these tasks has finished; with
    ``transfers="when_assigned"`` also not before the task that needs it is assigned.

    Model: H. Mao et al., "Learning scheduling algorithms for data processing clusters" (Decima), SIGCOMM 2019, where
    data take no time; and LACHESIS for the transfers. In Decima an executor that comes back to a job is fresh again.

    Parameters
    ----------
    jobs : iterable of Job
        See :class:`DagCluster`.
    executors : Executors
        What they run on.
    plan_ahead : bool
        Not possible here.
    transfers : {"when_finished", "when_assigned"}
        When data set out to another executor, see :class:`DagCluster`.
    outages_lose_data : bool
        An executor that goes down loses the results that it holds; the tasks whose results are still needed are run
        again.
    moving_delay : float
        Seconds that an executor needs before it runs a task of another job than its last one; 2 in Decima. Expected
        times leave it out.
    processes : iterable of callables
        Extra SimPy processes, for example outages; each is called with the bound cluster.

    Raises
    ------
    InvalidConfiguration
        If an argument is not one of its choices, or it is to plan ahead.

    Examples
    --------
    >>> from desim.agents.dag import EFT, FIFO, ListScheduler
    >>> from desim import simulate
    >>> job = Job(1, [6.0, 1.0], [(0, 1, 0.0)], num_tasks=[3, 1])
    >>> result = simulate(TaskCluster([job], Executors([1.0, 1.0])), ListScheduler(FIFO(), EFT()))
    >>> result.jobs["finish_time"].to_list()
    [5.0]
    """

    granularity: ClassVar[str] = "task"

    def __init__(
        self,
        jobs: Iterable[Job],
        executors: Executors,
        *,
        plan_ahead: bool = False,
        transfers: Literal["when_finished", "when_assigned"] = "when_finished",
        outages_lose_data: bool = True,
        moving_delay: float = 0.0,
        processes: Iterable[Process] = (),
    ) -> None:
        super().__init__(jobs, executors, transfers=transfers, outages_lose_data=outages_lose_data, processes=processes)
        if plan_ahead:
            raise InvalidConfiguration(
                "plan_ahead is True: which task needs which data is known when a stage has finished"
            )
        self.moving_delay = check_float("moving_delay", moving_delay, least=0)

    def describe(self) -> dict[str, Any]:
        """Return the configuration, without the jobs, as plain values."""
        return {**super().describe(), "moving_delay": self.moving_delay}

    # -- the run ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Set up the executors and start their processes, the decisions and the arrivals."""
        self._runs = TaskRuns(self.executors, self.moving_delay, self.simulation.stream("durations"))
        super().begin()

    _is_exact = False

    def _new_state(self, job: Job) -> TaskState:
        return TaskState(job, self._num_arrived, self._setting, self._back_since, runs=self._runs)

    def _mark_assigned(self, state: JobState, node: int) -> None:
        """Take note that a task of a node has been assigned, perhaps the last one."""
        assert isinstance(state, TaskState)
        if not state.unassigned_tasks[node]:
            super()._mark_assigned(state, node)

    def on_failure(self, units: int, fresh: list[int]) -> None:
        """Let executors go down, which come back knowing no job."""
        for executor in fresh:
            self._runs.forget(executor)
            for state in self._jobs.values():
                assert isinstance(state, TaskState)
                state.visited.discard(executor)
        super().on_failure(units, fresh)

    def drop_future(self) -> None:
        """Go on as far as an agent can know at the decision that is due: in forks without foresight."""
        self._runs.stop_drawing()
        super().drop_future()
