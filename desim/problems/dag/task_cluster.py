"""DAG jobs whose nodes are stages of parallel tasks, as in Spark: each task runs on one executor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np

from desim.exceptions import InfeasibleAction, InvalidConfiguration
from desim.problems.base import Process
from desim.problems.dag.actions import Assign
from desim.problems.dag.cluster import DagCluster
from desim.problems.dag.execution import Execution
from desim.problems.dag.executors import Executors
from desim.problems.dag.failures import ExecutorFailures
from desim.problems.dag.job import Job
from desim.problems.dag.job_state import JobState
from desim.problems.dag.plan import Plan
from desim.problems.dag.receiving import Receiving
from desim.problems.dag.task_execution import TaskExecution, TaskFailures, TaskPlan, TaskTransfers
from desim.problems.dag.task_refusals import explain_tasks, parts_of
from desim.problems.dag.task_state import TaskState
from desim.problems.dag.task_tables import task_schemas
from desim.records import Schema

__all__ = ["TaskCluster"]


class TaskCluster(DagCluster):
    """Executors that run the tasks of DAG jobs: a node is a stage of ``num_tasks`` tasks that may run in parallel.

    A stage is executable when all its parents have finished, and stays so while it has tasks that are not assigned; it
    has finished when all its tasks have. An :class:`Assign` puts one of its tasks into the queue of an executor, an
    :class:`AssignTasks` several. Tasks are not duplicated.

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
        if not 0 <= moving_delay < np.inf:
            raise InvalidConfiguration(f"moving_delay is {moving_delay!r}, want a finite time of at least 0")
        self.moving_delay = float(moving_delay)

    def describe(self) -> dict[str, Any]:
        """Return the configuration, without the jobs, as plain values."""
        return {**super().describe(), "moving_delay": self.moving_delay}

    def schemas(self) -> dict[str, Schema]:
        """Return the tables, see :func:`desim.problems.dag.tables.schemas`."""
        return task_schemas()

    # -- the parts that differ ------------------------------------------------------------------

    def begin(self) -> None:
        """Set up the executors and start their processes, the decisions and the arrivals."""
        self._num_arrived = 0
        super().begin()

    def _new_plan(self) -> Plan:
        return TaskPlan(self.env, self.executors.num_executors, is_exact=False)

    def _new_receiving(self) -> Receiving:
        return TaskTransfers()

    def _new_failures(self) -> ExecutorFailures:
        return TaskFailures(self)

    def _new_execution(self) -> Execution:
        return TaskExecution(self)

    def _new_state(self, job: Job) -> JobState:
        self._num_arrived += 1
        eager = self.transfers == "when_finished"
        return TaskState(job, self.executors, self.env, sent_when_finished=eager, number=self._num_arrived)

    # -- assignments ----------------------------------------------------------------------------

    def _carry_out(self, action: Any) -> bool:
        """Carry out an assignment."""
        single, count = parts_of(action)
        if single is None or not self._can_take(single, count):
            raise InfeasibleAction(f"time {self.env.now}: {explain_tasks(self, action)}")
        state = self._jobs[single.job_id]
        assert isinstance(state, TaskState)
        node = int(single.node)
        if not self._place(state, (node,) * int(count), int(single.executor), single.position):
            raise InfeasibleAction(f"time {self.env.now}: {explain_tasks(self, action)}")
        if not state.unassigned_tasks[node]:
            self._mark_assigned(state, node)
        return True

    def _can_take(self, action: Assign, count: Any) -> bool:
        """Tell whether an action names what there is, so that it can be tried."""
        if action.duplicates or not self._is_possible(action):
            return False
        state = self._jobs[action.job_id]
        assert isinstance(state, TaskState)
        return isinstance(count, int | np.integer) and 1 <= count <= state.unassigned_tasks[action.node]

    def _may_duplicate(self, state: JobState, nodes: tuple[int, ...]) -> bool:
        """Tell that tasks are not duplicated."""
        return False
