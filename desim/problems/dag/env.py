"""DAG jobs on heterogeneous executors as a Gymnasium environment: nodes and executors as arrays, rewards of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim import plugins
from desim.checks import check_float, named
from desim.core import Simulation
from desim.envs.base import (
    ACTION_MASK,
    Arrays,
    Encoder,
    Episodes,
    Reward,
    SchedulingEnv,
    bounded,
    episodes_of,
    log_scaled,
)
from desim.exceptions import InvalidConfiguration
from desim.problems.dag.cluster import DagCluster
from desim.problems.dag.executors import Executors
from desim.problems.dag.graph_encoder import FIXED_FEATURES, JobGraph, Node, PerJob, assignments_of
from desim.problems.dag.observation import Assign, DagObservation
from desim.problems.dag.state import JobState
from desim.problems.dag.tasks import TaskState

__all__ = [
    "EXECUTOR_FEATURES",
    "NODE_FEATURES",
    "REWARDS",
    "SYSTEM_FEATURES",
    "Allocate",
    "CompletionTimeReward",
    "DagEnv",
    "MakespanReward",
    "NodeEncoder",
]

Floats = NDArray[np.float64]

Allocate = Callable[[DagObservation, JobState, int], Assign | None]
"""Chooses the executor of a ready node, given the observation, the job and the node; None if there is none."""

NODE_FEATURES = (
    "present",
    *FIXED_FEATURES,
    "job_nodes_left",
    "job_time_left",
    "job_age",
    "tasks_left",
    "best_finish_time",
)
"""The columns of ``nodes``: times in seconds and counts, compressed."""

EXECUTOR_FEATURES = ("up", "speed", "time_until_idle", "waiting_copies")
"""The columns of ``executors``; the speed is a share of the largest, time and count are compressed."""

SYSTEM_FEATURES = ("jobs", "ready_nodes", "invisible_nodes", "executors_up", "time_until_first_idle")
"""The entries of ``system``: counts and a time, compressed, and the share of the executors that are up."""

_FIXED = slice(1, 1 + len(FIXED_FEATURES))
_NUMBERS = 4
"""What else changes of a node: three numbers of its job, and its tasks; in the columns behind the fixed ones."""


class NodeEncoder:
    """The first ready nodes, in the observation's order, and all executors.

    An action is a pair: action ``i * num_executors + k`` assigns the i-th ready node to executor k. With an
    allocation an action is a node alone, as in LACHESIS (Luo et al., section IV), and the allocation chooses the
    executor. There is no action to wait, but one that is not possible means waiting until something happens. Where
    nothing is possible, because all executors are down, action 0 means waiting, too, and counts as possible.

    Parameters
    ----------
    num_executors : int
        Executors of the cluster, N.
    max_nodes : int
        How many ready nodes are seen, P; others are counted.
    allocation : callable, optional
        Called with the observation, the job and the node, such as ``desim.agents.dag.DEFT().allocate``.

    Raises
    ------
    InvalidConfiguration
        If a number is not above 0.
    """

    def __init__(self, num_executors: int, max_nodes: int = 32, *, allocation: Allocate | None = None) -> None:
        if not (num_executors >= 1 and max_nodes >= 1):
            raise InvalidConfiguration(
                f"num_executors is {num_executors!r}, max_nodes {max_nodes!r}, want at least 1 of each"
            )
        self.num_executors = int(num_executors)
        self.max_nodes = int(max_nodes)
        self.allocation = allocation
        self._known = PerJob(JobGraph)
        self._speeds: tuple[Executors | None, Floats] = None, np.empty(0)
        self._first = 2 * self.num_executors + 3
        pairs = (self.max_nodes, self.num_executors)
        actions = self.max_nodes * (self.num_executors if allocation is None else 1)
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(actions)
        self.observation_space = gymnasium.spaces.Dict(
            {
                "nodes": bounded((self.max_nodes, len(NODE_FEATURES))),
                "executors": bounded((self.num_executors, len(EXECUTOR_FEATURES))),
                "finish_times": bounded(pairs),
                "system": bounded((len(SYSTEM_FEATURES),)),
                ACTION_MASK: gymnasium.spaces.Box(0, 1, (actions,), np.int8),
            }
        )
        boxes = {name: box for name, box in self.observation_space.spaces.items() if name != ACTION_MASK}
        self._empty: Arrays = {name: np.zeros(box.shape or (), np.float32) for name, box in boxes.items()}

    def encode(self, observation: DagObservation) -> Arrays:
        """Return ``nodes``, ``executors``, ``finish_times``, ``system``, and the mask.

        Parameters
        ----------
        observation : DagObservation
            A decision.

        Returns
        -------
        dict of str to numpy.ndarray
            The columns are :data:`NODE_FEATURES`, :data:`EXECUTOR_FEATURES` and :data:`SYSTEM_FEATURES`.
            ``finish_times``, of shape (P, N), has the time in which each node would have run on each executor, behind
            all that is assigned to it, compressed. Rows without a node are 0.

        Raises
        ------
        InvalidConfiguration
            If the cluster has another number of executors.
        """
        if observation.executors.num_executors != self.num_executors:
            raise InvalidConfiguration(
                f"the cluster has {observation.executors.num_executors} executors, the encoder {self.num_executors}"
            )
        nodes = list(islice(observation.ready.values(), self.max_nodes))
        count, wide = len(nodes), self.num_executors
        available = observation.available_times
        up = available < np.inf
        graphs = [self._known.of(state, observation.executors) for state, _ in nodes]
        numbers = self._numbers(observation, nodes, graphs, available)
        of_executors, of_system = numbers[: 2 * wide].reshape(2, wide), numbers[2 * wide : self._first]
        of_nodes = numbers[self._first :].reshape(count, wide + _NUMBERS)
        arrays: Arrays = {name: empty.copy() for name, empty in self._empty.items()}
        executors, system = arrays["executors"], arrays["system"]
        executors[:, 0] = up
        executors[:, 1] = self._relative_speeds(observation.executors)
        executors[:, 2:] = of_executors.T
        system[:3] = of_system
        system[3] = np.count_nonzero(up) / wide
        system[4] = of_executors[0].min()
        if count:
            finish_times, rows = arrays["finish_times"][:count], arrays["nodes"][:count]
            finish_times[:] = of_nodes[:, :wide]
            rows[:, 0] = 1.0
            fixed = b"".join([graph.node_bytes[node] for graph, (_, node) in zip(graphs, nodes, strict=True)])
            rows[:, _FIXED] = np.frombuffer(fixed, np.float32).reshape(count, -1)  # bytes are joined faster than rows
            rows[:, _FIXED.stop : -1] = of_nodes[:, wide:]
            rows[:, -1] = finish_times.min(axis=1)
        arrays[ACTION_MASK] = self._mask(count, up)
        return arrays

    def _numbers(
        self, observation: DagObservation, nodes: list[Node], graphs: list[JobGraph], available: Floats
    ) -> Floats:
        """Return all numbers that are compressed, in one array: of executors, of the system, and of each node."""
        time, wide, first = observation.time, self.num_executors, self._first
        tables, ready = observation.executor_queues, len(observation.ready)
        numbers = np.empty(first + len(nodes) * (wide + _NUMBERS))
        np.subtract(available, time, out=numbers[:wide])
        waiting = [len(tables[executor].waiting) for executor in range(wide)]
        invisible = max(ready - self.max_nodes, 0)
        numbers[wide:first] = [*waiting, len(observation.jobs), ready, invisible]
        of_nodes = numbers[first:].reshape(len(nodes), wide + _NUMBERS)
        of_job: dict[JobState, tuple[float, float, float]] = {}
        for row, (state, node), graph in zip(of_nodes, nodes, graphs, strict=True):
            if state not in of_job:
                left = float(graph.run_times[~state.finished].sum())
                of_job[state] = state.num_unfinished, left, time - state.job.submission_time
            finish = row[:wide]
            np.maximum(state.ready_times(node), available, out=finish)
            finish += state.run_times[node]
            tasks = state.unassigned_tasks[node] if isinstance(state, TaskState) else 1
            row[wide:] = *of_job[state], tasks
        of_nodes[:, :wide] -= time
        return log_scaled(numbers)

    def _relative_speeds(self, executors: Executors) -> Floats:
        """Return speeds as shares of the largest one, computed once for all that an encoder sees of one cluster."""
        if self._speeds[0] is not executors:
            self._speeds = executors, executors.speeds / executors.speeds.max()
        return self._speeds[1]

    def _mask(self, num_nodes: int, up: NDArray[np.bool_]) -> NDArray[np.int8]:
        """Return the mask of possible actions, of all nodes that are seen and all executors that are up."""
        columns = up if self.allocation is None else np.atleast_1d(up.any())
        mask: NDArray[np.int8] = np.zeros(self.max_nodes * len(columns), np.int8)
        mask.reshape(self.max_nodes, -1)[:num_nodes] = columns
        if not mask.any():
            mask[0] = 1
        return mask

    def is_forced(self, observation: DagObservation) -> bool:
        """Tell whether all executors are down, so that there is no choice but to wait.

        Parameters
        ----------
        observation : DagObservation
            A decision.
        """
        return bool(observation.available_times.min() == np.inf)

    def decode(self, observation: DagObservation, action: Any) -> tuple[Assign | None, bool]:
        """Return the assignment that an action stands for, and whether the action is possible.

        Parameters
        ----------
        observation : DagObservation
            What was encoded.
        action : int
            A node and an executor, or a node.

        Returns
        -------
        tuple of (Assign or None) and bool
            An action that is not possible means waiting.

        Raises
        ------
        InvalidConfiguration
            If there is no such action.
        """
        number = int(action)
        if not 0 <= number < self.action_space.n:  # type: ignore[attr-defined]  # Discrete
            raise InvalidConfiguration(f"action {action!r} is none of 0 to {self.action_space.n - 1}")  # type: ignore[attr-defined]
        available = observation.available_times
        if available.min() == np.inf:
            return None, number == 0
        place, executor = (number, 0) if self.allocation is not None else divmod(number, self.num_executors)
        found = next(islice(observation.ready.values(), place, None), None)
        if found is None:
            return None, False
        state, node = found
        if self.allocation is not None:
            return self.allocation(observation, state, node), True
        if available[executor] == np.inf:
            return None, False
        return Assign(state.job.job_id, node, executor), True

    def encode_action(self, observation: DagObservation, answer: Any) -> int | None:
        """Return the action that comes next to what an agent answers.

        Parameters
        ----------
        observation : DagObservation
            What the agent saw.
        answer : object
            Its answer; of a list the first assignment counts of a node that is seen. Duplicates and positions are left
            out, with an allocation the executor as well.

        Returns
        -------
        int or None
            None if the agent waits, or only assigns nodes that are not seen.
        """
        seen = islice(observation.ready.values(), self.max_nodes)
        places = {(state.job.job_id, node): at for at, (state, node) in enumerate(seen)}
        for one in assignments_of(answer):
            place = places.get((one.job_id, one.node))
            if place is not None:
                return place if self.allocation is not None else place * self.num_executors + one.executor
        return None


class MakespanReward:
    """Minus the time since the last decision, over a scale: the reward of LACHESIS, section IV.

    The sum over an episode is minus the time from its first decision to its end: the makespan, if that decision is due
    at the first submission and all jobs end.

    Parameters
    ----------
    scale : float
        Time that earns -1, in seconds.

    Raises
    ------
    InvalidConfiguration
        If the scale is not above 0.
    """

    def __init__(self, scale: float = 1_000.0) -> None:
        self.scale = check_float("scale", scale, above=0)

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins."""
        self._simulation = simulation
        self._time = 0.0

    def on_decision(self, answer: Any) -> None:
        """Do nothing: only time counts, and the problem tells of jobs that arrive and leave."""

    def pop_reward(self) -> float:
        """Return what was earned since the last call."""
        before, self._time = self._time, self._simulation.end_time
        return (before - self._time) / self.scale


class CompletionTimeReward(MakespanReward):
    """Minus the time that all jobs have spent in the system since the last decision, over a scale.

    The sum over an episode is minus the sum of all jobs' times from submission to completion; a job that has not
    completed counts up to the end.

    Parameters
    ----------
    scale : float
        Time that earns -1, in seconds.
    """

    def __init__(self, scale: float = 10_000.0) -> None:
        super().__init__(scale)

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins, and listen to jobs that arrive and leave."""
        super().reset(simulation)
        self._num_jobs = 0
        self._spent = 0.0
        for event, change in (("arrival", 1), ("job_completion", -1)):
            simulation.problem.on(event, partial(self._count, change=change))

    def _count(self, time: float, job: Any = None, change: int = 0) -> None:
        self._spent += self._num_jobs * (time - self._time)
        self._time = time
        self._num_jobs += change

    def pop_reward(self) -> float:
        """Return what was earned since the last call."""
        self._count(self._simulation.end_time)
        spent, self._spent = self._spent, 0.0
        return -spent / self.scale


REWARDS: dict[str, Callable[[], Reward]] = {"makespan": MakespanReward, "completion_time": CompletionTimeReward}
"""The rewards by name."""


class DagEnv(SchedulingEnv):
    """``desim/Dag-v0``: which ready node is assigned next, and to which executor.

    The action space is Discrete(max_nodes x num_executors), see :class:`NodeEncoder`; with an allocation it is
    Discrete(max_nodes).

    Parameters
    ----------
    workload : sequence of DagCluster, or callable, optional
        Clusters that episodes are drawn from, or what makes that of an episode from a random generator. By default
        queries like those of TPC-H are drawn for each episode, see :func:`desim.workloads.dag.registry.draw`, and
        executors once for the environment.
    num_executors : int
        Executors of every cluster.
    max_nodes : int
        How many ready nodes are seen.
    allocation : callable, optional
        Chooses the executor of a node, given the observation, the job and the node, such as
        ``desim.agents.dag.DEFT().allocate``; an action is then a node alone.
    observation : {"nodes"} or Encoder
        What is seen; with an encoder of your own max_nodes and allocation play no part.
    reward : {"makespan", "completion_time"} or Reward
        What is earned.
    num_jobs : int
        Jobs of an episode of the default workload.
    until : float
        An episode is truncated at this time, in seconds.
    max_decisions : int, optional
        And after so many decisions.
    skip_forced : bool
        Do not ask while all executors are down.
    workload_seed : int
        Of the default executors.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    MissingDependency
        If there is no package that makes the default workload.
    """

    def __init__(
        self,
        workload: Sequence[DagCluster] | Episodes | None = None,
        num_executors: int = 10,
        *,
        max_nodes: int = 32,
        allocation: Allocate | None = None,
        observation: str | Encoder = "nodes",
        reward: str | Reward = "makespan",
        num_jobs: int = 20,
        until: float = math.inf,
        max_decisions: int | None = None,
        skip_forced: bool = False,
        workload_seed: int = 0,
    ) -> None:
        if workload is None:
            make = plugins.episode_workload("dag")
            rng = np.random.default_rng(workload_seed)
            _, executors = make(rng, num_jobs=num_jobs, num_executors=num_executors)
            workload = partial(_drawn, make, executors, num_jobs)
        encoders: dict[str, Callable[[], Encoder]] = {
            "nodes": lambda: NodeEncoder(num_executors, max_nodes, allocation=allocation)
        }
        super().__init__(
            episodes_of(workload),
            named("observation", observation, encoders),
            named("reward", reward, REWARDS),
            until=until,
            max_decisions=max_decisions,
            skip_forced=skip_forced,
        )


def _drawn(make: Callable[..., Any], executors: Executors, num_jobs: int, rng: np.random.Generator) -> DagCluster:
    jobs, executors = make(rng, num_jobs=num_jobs, executors=executors)
    return DagCluster(jobs, executors)
