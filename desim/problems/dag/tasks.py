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
    """Inputs of a task: one entry per parent and executor that ran the parent's tasks, parents in ascending order.

    Attributes
    ----------
    parents, sources : numpy.ndarray of int
        Parent node, and the executor that ran its tasks.
    begins, arrivals : numpy.ndarray
        Begin and end of the transfer in seconds. It begins no earlier than the end of the last of these tasks.
    sizes : numpy.ndarray
        Data sizes in units of data.
    ready : float
        Time at which all inputs have arrived, in seconds; 0 for a node without parents.
    """

    parents: IntArray
    sources: IntArray
    begins: Floats
    arrivals: Floats
    sizes: Floats
    ready: float


@dataclass(slots=True, eq=False, repr=False)
class TaskCopy(Copy):
    """Task of a node, assigned to an executor; live, do not modify it.

    Attributes
    ----------
    shares : TaskInputs
        Inputs of the task.
    """

    shares: TaskInputs = field(init=False)


_NO_NUMBERS, _NO_TIMES = np.empty(0, dtype=np.int64), np.empty(0)
_NOTHING = TaskInputs(_NO_NUMBERS, _NO_NUMBERS, _NO_TIMES, _NO_TIMES, _NO_TIMES, 0.0)
"""Inputs of a task whose node has no parents."""


class Outputs(NamedTuple):
    """Locations of a node's results: executors, numbers of tasks run there, and the end of the last of these tasks."""

    sources: IntArray
    counts: Floats
    finishes: Floats


class TaskRuns:
    """Task durations and the last task of each executor of a cluster.

    Each task has its own random numbers, independent of previous draws. The generator Philox is counter-based: its
    numbers follow from a key (here per run) and a counter (here job, node and task), see J. K. Salmon et al., "Parallel
    random numbers: as easy as 1, 2, 3", SC 2011.

    Parameters
    ----------
    executors : Executors
        Executors of the cluster.
    moving_delay : float
        Delay in seconds before an executor starts a task of a different job than its last one.
    rng : numpy.random.Generator
        Random generator that the key is drawn from.
    """

    def __init__(self, executors: Executors, moving_delay: float, rng: Generator) -> None:
        self._speeds: list[float] = executors.speeds.tolist()
        self._moving_delay = moving_delay
        self._last: list[tuple[int, int] | None] = [None] * len(self._speeds)  # (job, node) of the last task
        self._num_executors: Counter[int] = Counter()  # by job: executors whose last task belonged to it
        self._is_random = True
        self._bits = Philox(key=rng.integers(2**64, size=2, dtype=np.uint64))
        self._rng = Generator(self._bits)
        self._beginning = self._bits.state

    def stop_drawing(self) -> None:
        """Use expected durations for all tasks that start from now on."""
        self._is_random = False

    def delay(self, state: TaskState, executor: int) -> float:
        """Return the time that a free executor needs to move to a job, in seconds."""
        last = self._last[executor]
        return 0.0 if last is None or last[0] == state.arrival_number else self._moving_delay

    def forget(self, executor: int) -> None:
        """Forget the last task of an executor."""
        last = self._last[executor]
        if last is not None:
            self._last[executor] = None
            self._num_executors[last[0]] -= 1
            if not self._num_executors[last[0]]:
                del self._num_executors[last[0]]

    def run(self, state: TaskState, task: Copy) -> float:
        """Return when a starting task will finish, in seconds, and store it as its executor's last task."""
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
    """State of a job whose nodes run task by task, as agents see it; live, do not modify it.

    Times of unfinished tasks are expectations based on mean durations. ``copies[node]`` holds the tasks of a node that
    are assigned or whose results are held. A node is ``assigned`` or ``finished`` when all its tasks are.

    Parameters
    ----------
    job, arrival_number, setting, back_since : Job, int, Setting, numpy.ndarray
        See :class:`JobState`.
    runs : TaskRuns
        Task durations of the cluster.

    Attributes
    ----------
    run_times : numpy.ndarray of shape (num_nodes, num_executors)
        Mean run time of one task of each node on each executor, in seconds; infinite where the node may not run.
    unassigned_tasks, unfinished_tasks : numpy.ndarray of int, shape (num_nodes,)
        Number of tasks of each node that are not assigned, and that have not finished.
    visited : set of int
        Executors that have run tasks of the job and have not failed since.
    """

    may_duplicate = False

    def __init__(
        self, job: Job, arrival_number: int, setting: Setting, back_since: Floats | None, *, runs: TaskRuns
    ) -> None:
        super().__init__(job, arrival_number, setting, back_since)
        self.run_times = self.run_times / job.num_tasks[:, None]
        for node, times in enumerate(job.task_times or ()):
            means = times.mean() * times.reference_speed / setting.executors.speeds
            self.run_times[node] = np.where(self.run_times[node] < np.inf, means, np.inf)
        self.unassigned_tasks = job.num_tasks.copy()
        self.unfinished_tasks = job.num_tasks.copy()
        self.visited: set[int] = set()  # never iterated, so its order cannot change results
        self._runs = runs
        self._num_tasks = job.num_tasks.tolist()
        self._next_task = [0] * job.num_nodes
        self._returned: list[list[int]] = [[] for _ in range(job.num_nodes)]  # tasks to assign again
        self._lost: list[list[int]] = [[] for _ in range(job.num_nodes)]  # finished tasks whose results are lost
        self._outputs: dict[int, Outputs] = {}
        self._shares: dict[tuple[int, int], TaskInputs] = {}

    def arrivals(self, node: int) -> Floats:
        """Return when a task's share of each parent's results reaches each executor.

        Parameters
        ----------
        node : int
            Node with parents.

        Returns
        -------
        numpy.ndarray of shape (num_parents, num_executors)
            Arrival times in seconds, infinite for a parent that has not finished; the parents are in ascending order.
        """
        table = np.full((len(self._parents[node]), self.run_times.shape[1]), np.inf)
        for row, (parent, size) in enumerate(self._parents[node]):
            if not self.has_data[parent]:
                continue
            outputs = self._outputs_of(parent)
            sizes = self._sizes(outputs, parent, node, size)
            table[row] = self._arrivals_from(outputs.sources, sizes, outputs.finishes).max(axis=0)
        return table

    def ready_time(self, node: int, executor: int) -> float:
        """Return when all inputs of a task of a node would have arrived at one executor, in seconds."""
        return self.ready_times(node).item(executor)

    def _outputs_of(self, node: int) -> Outputs:
        """Return the locations of a finished node's results."""
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
        """Return the amount of data that a task of a node receives from each executor with results of a parent."""
        sizes: Floats = outputs.counts / self._num_tasks[parent] * size / self._num_tasks[node]
        return sizes

    def shares(self, node: int, executor: int) -> TaskInputs:
        """Return the inputs of a task that is assigned now.

        Parameters
        ----------
        node : int
            Node whose parents have finished.
        executor : int
            Executor that the task is assigned to.

        Returns
        -------
        TaskInputs
            One entry per parent and executor with results of the parent. Do not modify the arrays.
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
        arrivals = self._seconds.column(sources, executor) * sizes
        if self._latencies is not None:
            arrivals += self._latencies.column(sources, executor)
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
        """Add a new task; no cached arrival changes before its whole node has finished."""
        self.copies[copy.node].append(copy)

    def remove(self, copy: Copy) -> None:
        """Remove an unfinished task, which must be assigned again, or the lost results of a finished task."""
        node = copy.node
        self.copies[node].remove(copy)
        if copy.has_finished:
            self._lost[node].append(copy.task)
            self._forget_outputs(node)
        else:
            heapq.heappush(self._returned[node], copy.task)
            self.unassigned_tasks[node] += 1

    def _forget_outputs(self, node: int) -> None:
        """Drop cached locations and arrival times of a node's results."""
        self._outputs.pop(node, None)
        for child, _ in self._children[node]:
            self._ready[child] = None
            for key in [key for key in self._shares if key[0] == child]:
                del self._shares[key]

    def forget_arrivals(self, node: int) -> None:
        """Do nothing: arrivals depend only on finished nodes, not on expected times."""

    def lose_received(self, back_since: Floats) -> None:
        """Drop what repaired executors had received before their outage: it must be sent again."""
        super().lose_received(back_since)
        self._shares.clear()

    def delay(self, copy: Copy) -> float:
        """Return the time that a free executor needs to move to the job, in seconds."""
        return self._runs.delay(self, copy.executor)

    def run(self, copy: Copy) -> float:
        """Return when a starting task will finish, in seconds."""
        return self._runs.run(self, copy)

    def complete(self, copy: Copy) -> bool:
        """Handle the completion of a task; return whether all tasks of its node have finished."""
        self.unfinished_tasks[copy.node] -= 1
        return not self.unfinished_tasks[copy.node]

    def received_at(self, copy: Copy) -> float:
        """Return when all inputs of a task have arrived, in seconds; known when the task is assigned."""
        return _task(copy).shares.ready

    expected_at = received_at

    def receive(self, copy: Copy, until: float) -> None:
        """Do nothing: the arrival times of a task's inputs are fixed by its assignment."""

    def record_inputs(self, copy: Copy, record: Callable[..., None]) -> None:
        """Record the inputs of a starting task."""
        shares = _task(copy).shares
        place = copy.node, copy.task, copy.executor
        record((self.job.job_id, self.arrival_number, *place, shares), len(shares.sources))

    def unsupported(self, waiting: Sequence[Copy], executors: Sequence[int], *, lost: bool) -> Iterator[Copy]:
        """Yield the waiting tasks that had not yet received all data from executors that failed."""
        now = self._env.now
        for copy in waiting if lost else ():
            shares = _task(copy).shares
            if (np.isin(shares.sources, executors) & (shares.arrivals > now)).any():
                yield copy

    def recount(self) -> None:
        """Return lost tasks whose results are still needed, and recompute what is assigned and finished."""
        for node in reversed(range(self.job.num_nodes)):
            # An assigned task has its data or was withdrawn; an unassigned task needs all results of the node.
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
    """Cluster of executors for tasks of DAG jobs: a node is a stage of ``num_tasks`` tasks that may run in parallel.

    A stage is ready ("ready") from the time when all its parents have finished until all its tasks are assigned.
    It has finished when all its tasks have. Each :class:`Assign` appends the stage's next task to the queue of an
    executor. Tasks cannot be duplicated.

    A task takes an equal share of its stage's run time. If the job has ``task_times``, its duration is instead sampled
    from them when it starts. The wave is ``fresh`` if the executor has not run a task of the job before (or has failed
    since), ``rest`` if its last task was of the same stage, and otherwise ``first``. The job's number of executors
    counts those whose last task belonged to the job, including this one. The random numbers depend only on the seed,
    the job, the stage and the task, so all agents face the same durations. Agents see mean durations.

    Every task needs its share, 1 / num_tasks, of a parent's results from each executor that ran tasks of the parent,
    in proportion to the number of tasks run there. The transfer of a share begins when the last of these tasks has
    finished and, with ``transfers="when_assigned"``, not before the receiving task is assigned.

    Model: H. Mao et al., "Learning scheduling algorithms for data processing clusters" (Decima), SIGCOMM 2019, where
    transfers take no time; transfers as in LACHESIS. In Decima, an executor that returns to a job is fresh again.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs in order of submission time, see :class:`DagCluster`.
    executors : Executors
        Executors of the cluster.
    plan_ahead : bool, optional
        Must not be True for tasks.
    transfers : {"when_finished", "when_assigned"}
        Time at which data transfers to other executors begin, see :class:`DagCluster`.
    outages_lose_data : bool
        Whether an executor that fails loses the results that it holds. Tasks whose results are still needed then run
        again.
    moving_delay : float
        Delay in seconds before an executor starts a task of a different job than its last one; 2 in Decima. Expected
        times ignore it.
    processes : iterable of callables
        Extra SimPy processes, for example outages; each is called with the bound cluster.

    Raises
    ------
    InvalidConfiguration
        If an argument has an invalid value, or ``plan_ahead`` is True.

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
        plan_ahead: bool | None = None,
        transfers: Literal["when_finished", "when_assigned"] = "when_finished",
        outages_lose_data: bool = True,
        moving_delay: float = 0.0,
        processes: Iterable[Process] = (),
    ) -> None:
        super().__init__(
            jobs,
            executors,
            plan_ahead=False,
            transfers=transfers,
            outages_lose_data=outages_lose_data,
            processes=processes,
        )
        if executors.resources:
            raise InvalidConfiguration(
                "executors: got capacities, expected none: an executor runs one task at a time; try a DagCluster"
            )
        if plan_ahead:
            raise InvalidConfiguration(
                "plan_ahead: got True, expected False: the inputs of tasks are known only when parent stages finish"
            )
        self.moving_delay = check_float("moving_delay", moving_delay, least=0)

    def describe(self) -> dict[str, Any]:
        """Return the configuration without the jobs, as plain Python values."""
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
        """Update the state after a task of a node has been assigned, perhaps the last one."""
        assert isinstance(state, TaskState)
        if not state.unassigned_tasks[node]:
            super()._mark_assigned(state, node)

    def on_failure(self, units: list[int]) -> None:
        """Fail executors; after their repair, they are new to every job."""
        for executor in units:
            self._runs.forget(executor)
            for state in self._jobs.values():
                assert isinstance(state, TaskState)
                state.visited.discard(executor)
        super().on_failure(units)

    def drop_future(self) -> None:
        """Continue only with what an agent can know at the current decision: for forks without foresight."""
        self._runs.stop_drawing()
        super().drop_future()
