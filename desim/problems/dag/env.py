"""Gymnasium environment for DAG jobs on heterogeneous executors, with array observations and time-based rewards."""

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
from desim.checks import check_action, check_float, named
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
from desim.problems.dag.graph_encoder import FIXED_FEATURES, JobGraph, Node, PerJob, assignments_of, placeable
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
"""Function (observation, job, node) that returns an assignment of the ready node, or None if none is possible."""

NODE_FEATURES = (
    "present",
    *FIXED_FEATURES,
    "job_nodes_left",
    "job_time_left",
    "job_age",
    "tasks_left",
    "best_finish_time",
)
"""Columns of ``nodes``; times in seconds and counts are log-scaled."""

EXECUTOR_FEATURES = ("up", "speed", "time_until_idle", "waiting_copies")
"""Columns of ``executors``; the speed is relative to the largest, time and count are log-scaled."""

SYSTEM_FEATURES = ("jobs", "ready_nodes", "invisible_nodes", "executors_up", "time_until_first_idle")
"""Entries of ``system``: log-scaled counts, the share of executors that are up, and a log-scaled time."""

_FIXED = slice(1, 1 + len(FIXED_FEATURES))
_NUMBERS = 4
"""Number of variable columns after the fixed ones: three values of the node's job, and its number of tasks."""


class NodeEncoder:
    """Encoder of the first ready nodes, in the observation's order, and all executors.

    An action is a pair: action ``i * num_executors + k`` assigns the i-th ready node to executor k. With an allocation,
    an action is a node alone, as in LACHESIS (Luo et al., section IV), and the allocation chooses the executor. There
    is no explicit action to wait; an infeasible action waits for the next event. If no executor that is up may run an
    encoded node, action 0 waits and counts as feasible.

    Parameters
    ----------
    num_executors : int
        Number of executors of the cluster, N.
    max_nodes : int
        Number of ready nodes that are encoded, P; further ones are only counted.
    allocation : callable, optional
        Function of the observation, the job and the node that chooses the executor, such as
        ``desim.agents.dag.DEFT().allocate``.

    Raises
    ------
    InvalidConfiguration
        If a number is less than 1.
    """

    def __init__(self, num_executors: int, max_nodes: int = 32, *, allocation: Allocate | None = None) -> None:
        if not (num_executors >= 1 and max_nodes >= 1):
            raise InvalidConfiguration(
                f"num_executors, max_nodes: got {num_executors!r}, {max_nodes!r}, expected at least 1 each"
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
        """Return ``nodes``, ``executors``, ``finish_times``, ``system``, and the action mask.

        Parameters
        ----------
        observation : DagObservation
            Observation at a decision.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays with the columns :data:`NODE_FEATURES`, :data:`EXECUTOR_FEATURES` and :data:`SYSTEM_FEATURES`.
            ``finish_times``, of shape (P, N), holds the log-scaled time until each node would finish on each executor
            if it were appended to the executor's queue. Rows without a node are 0.

        Raises
        ------
        InvalidConfiguration
            If the cluster has a different number of executors.
        """
        if observation.executors.num_executors != self.num_executors:
            raise InvalidConfiguration(
                f"executors: got {observation.executors.num_executors} in the cluster, expected {self.num_executors}"
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
            rows[:, _FIXED] = np.frombuffer(fixed, np.float32).reshape(count, -1)  # faster than joining rows
            rows[:, _FIXED.stop : -1] = of_nodes[:, wide:]
            rows[:, -1] = finish_times.min(axis=1)
        arrays[ACTION_MASK] = self._mask(nodes, up)
        return arrays

    def _numbers(
        self, observation: DagObservation, nodes: list[Node], graphs: list[JobGraph], available: Floats
    ) -> Floats:
        """Return all log-scaled values in one array: of the executors, of the system, and of each node."""
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
        """Return speeds relative to the largest, computed once per cluster."""
        if self._speeds[0] is not executors:
            self._speeds = executors, executors.speeds / executors.speeds.max()
        return self._speeds[1]

    def _mask(self, nodes: list[Node], up: NDArray[np.bool_]) -> NDArray[np.int8]:
        """Return the mask of feasible actions: all encoded nodes on all executors that are up and may run them."""
        columns = up if self.allocation is None else np.atleast_1d(up.any())
        mask: NDArray[np.int8] = np.zeros(self.max_nodes * len(columns), np.int8)
        rows = mask.reshape(self.max_nodes, -1)[: len(nodes)]
        rows[:] = columns
        for row, (state, node) in zip(rows, nodes, strict=True):
            if state.is_restricted:
                able = up & (state.run_times[node] < np.inf)
                row[:] = able if self.allocation is None else able.any()
        if not mask.any():
            mask[0] = 1
        return mask

    def is_forced(self, observation: DagObservation) -> bool:
        """Return whether no executor that is up may run an encoded node, so that the agent can only wait.

        Parameters
        ----------
        observation : DagObservation
            Observation at a decision.
        """
        available = observation.available_times
        if available.min() == np.inf or not any(state.is_restricted for state in observation.jobs.values()):
            return bool(available.min() == np.inf)
        return not placeable(list(islice(observation.ready.values(), self.max_nodes)), available).any()

    def decode(self, observation: DagObservation, action: Any) -> tuple[Assign | None, bool]:
        """Return the assignment that an action stands for, and whether the action is feasible.

        Parameters
        ----------
        observation : DagObservation
            Observation that was encoded.
        action : int
            Index of a node and an executor or, with an allocation, of a node.

        Returns
        -------
        tuple of (Assign or None) and bool
            Assignment, and whether the action is feasible. An infeasible action waits. The mode of a node with several
            is left to the cluster.

        Raises
        ------
        InvalidConfiguration
            If the action is out of range.
        """
        number = check_action(action, self.action_space.n)  # type: ignore[attr-defined]  # Discrete
        available = observation.available_times
        if self.is_forced(observation):
            return None, number == 0
        place, executor = (number, 0) if self.allocation is not None else divmod(number, self.num_executors)
        found = next(islice(observation.ready.values(), place, None), None)
        if found is None:
            return None, False
        state, node = found
        if self.allocation is not None:
            assignment = self.allocation(observation, state, node)
            return assignment, assignment is not None
        if max(available[executor], state.run_times[node, executor]) == np.inf:
            return None, False
        return Assign(state.job.job_id, node, executor), True

    def encode_action(self, observation: DagObservation, answer: Any) -> int | None:
        """Return the action that is closest to an agent's answer.

        Parameters
        ----------
        observation : DagObservation
            Observation that the agent decided on.
        answer : object
            Answer of the agent. From a list, the first assignment of an encoded node counts. Duplicates, positions and
            modes are ignored, and with an allocation the executor as well.

        Returns
        -------
        int or None
            Action, or None if the agent waits or only assigns nodes that are not encoded.
        """
        seen = islice(observation.ready.values(), self.max_nodes)
        places = {(state.job.job_id, node): at for at, (state, node) in enumerate(seen)}
        for one in assignments_of(answer):
            place = places.get((one.job_id, one.node))
            if place is not None:
                return place if self.allocation is not None else place * self.num_executors + one.executor
        return None


class MakespanReward:
    """Negative time since the last decision, divided by a scale: the reward of LACHESIS, section IV.

    Summed over an episode, it is the negative time from the first decision to the end of the episode. This is the
    makespan if the first decision is due at the first submission and all jobs complete.

    Parameters
    ----------
    scale : float
        Time that yields a reward of -1, in seconds.

    Raises
    ------
    InvalidConfiguration
        If the scale is not above 0.
    """

    def __init__(self, scale: float = 1_000.0) -> None:
        self.scale = check_float("scale", scale, above=0)

    def reset(self, simulation: Simulation) -> None:
        """Prepare for a new episode."""
        self._simulation = simulation
        self._time = 0.0

    def on_decision(self, answer: Any) -> None:
        """Do nothing: the reward depends only on time."""

    def pop_reward(self) -> float:
        """Return the reward since the last call."""
        before, self._time = self._time, self._simulation.end_time
        return (before - self._time) / self.scale


class CompletionTimeReward(MakespanReward):
    """Negative time that all jobs have spent in the system since the last decision, divided by a scale.

    Summed over an episode, it is the negative sum of all jobs' times from submission to completion. Jobs that have not
    completed count up to the end of the episode.

    Parameters
    ----------
    scale : float
        Time that yields a reward of -1, in seconds.
    """

    def __init__(self, scale: float = 10_000.0) -> None:
        super().__init__(scale)

    def reset(self, simulation: Simulation) -> None:
        """Prepare for a new episode, and listen to arrivals and completions of jobs."""
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
        """Return the reward since the last call."""
        self._count(self._simulation.end_time)
        spent, self._spent = self._spent, 0.0
        return -spent / self.scale


REWARDS: dict[str, Callable[[], Reward]] = {"makespan": MakespanReward, "turnaround_time_mean": CompletionTimeReward}
"""Rewards by name."""


class DagEnv(SchedulingEnv):
    """``desim/Dag-v0``: environment in which an action assigns a ready node to an executor.

    The action space is Discrete(max_nodes x num_executors), see :class:`NodeEncoder`; with an allocation it is
    Discrete(max_nodes).

    Parameters
    ----------
    workload : sequence of DagCluster, or callable, optional
        Clusters that episodes are sampled from, or a function that creates the cluster of an episode from a random
        generator. By default, queries like those of TPC-H are generated for each episode, see
        :func:`desim.workloads.dag.registry.draw`, and executors once for the environment.
    num_executors : int
        Number of executors of every cluster.
    max_nodes : int
        Number of ready nodes that are encoded.
    allocation : callable, optional
        Function of the observation, the job and the node that chooses the executor, such as
        ``desim.agents.dag.DEFT().allocate``. An action is then a node alone.
    observation : {"nodes"} or Encoder
        Name of an encoder, or a custom encoder; with a custom one, max_nodes and allocation are ignored.
    reward : {"makespan", "turnaround_time_mean"} or Reward
        Name of a reward, or a custom reward.
    num_jobs : int
        Number of jobs per episode of the default workload.
    until : float
        Time at which an episode is truncated, in seconds.
    max_decisions : int, optional
        Number of decisions after which an episode is truncated.
    skip_forced : bool
        Whether to skip decisions while all executors are down.
    render_mode : {"ansi", "rgb_array"}, optional
        What ``render`` returns, see :class:`~desim.envs.SchedulingEnv`.
    workload_seed : int
        Seed of the default executors.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    MissingDependency
        If the package for the default workload is not installed.
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
        render_mode: str | None = None,
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
            render_mode=render_mode,
        )


def _drawn(make: Callable[..., Any], executors: Executors, num_jobs: int, rng: np.random.Generator) -> DagCluster:
    jobs, executors = make(rng, num_jobs=num_jobs, executors=executors)
    return DagCluster(jobs, executors)
