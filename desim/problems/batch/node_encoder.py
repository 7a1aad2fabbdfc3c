"""Observation encoder of the split window for clusters of nodes.

The cluster's own bookkeeping of free resources determines which jobs can start. An action is a job, for which the
cluster's placement policy chooses nodes, or a job and its first node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.checks import check_choice
from desim.envs.base import ACTION_MASK, LARGEST, Arrays, bounded, log_scaled
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchObservation, StartOnNodes
from desim.problems.batch.encoders import SplitWindow, WindowEncoder
from desim.problems.batch.nodes import GPU, CompiledRequest, Node, NodeTable
from desim.problems.batch.placement import NodeFirst
from desim.problems.batch.resources.nodes import NodeView

__all__ = ["NodeFeatureEncoder", "are_alike"]

Floats = NDArray[np.float32]
IntArray = NDArray[np.int64]

JOB_FEATURES = (
    "present",
    "requested_time",
    "waiting_time",
    "tasks",
    "exclusive",
    "fits",
    "tasks_with_room",
    "eligible_nodes",
    "nodes_with_room",
    "gpu_share",
    "from_tail",
)
NODE_FEATURES = ("present", "nodes", "up", "speed", "jobs", "time_to_next_end", "time_to_last_end")
CLUSTER_FEATURES = (
    "queue_length",
    "invisible_jobs",
    "jobs_that_fit",
    "running_jobs",
    "time_to_next_end",
    "oldest_waiting_time",
    "nodes_up",
)


def are_alike(table: NodeTable) -> IntArray:
    """Return the class number of each node, shape (N,); nodes of a class differ only in their names.

    Parameters
    ----------
    table : NodeTable
        Table of N nodes. Classes are numbered in the order of their first nodes.
    """
    classes: dict[Any, int] = {}
    return np.array([classes.setdefault(_kind_of(node), len(classes)) for node in table.nodes], np.int64)


def _kind_of(node: Node) -> tuple[Any, ...]:
    amounts = node.cores, node.memory, node.gpus, tuple(sorted(node.resources.items()))
    return (*amounts, node.gpu_model, node.partition, node.features, node.speed)


class NodeFeatureEncoder(WindowEncoder):
    """Encoder that shows features of jobs, nodes and cluster, and on which nodes each job could start.

    ``jobs``, shape (S, J)
        one row per slot, with the columns ``job_features``: ``present``; requested and waiting time; number of tasks;
        whether the job requests exclusive nodes; whether it ``fits`` now; the fraction of its tasks that fit now; the
        fractions of nodes that are eligible for it, and of those on which a task fits now; ``gpu_share``, the
        requested fraction of a GPU; ``from_tail``; for each resource, ``NAME_per_task`` relative to the largest node,
        and ``NAME`` of all tasks relative to the cluster; the same for ``gpus``
    ``nodes``, shape (N, K)
        one row per node, or per class of nodes that are alike, with the columns ``node_features``: ``present``; number
        of ``nodes`` in the row; whether they are ``up``; ``speed`` relative to the fastest node; ``jobs`` on the node;
        times to the first and the last expected end of these; for each resource, ``free_NAME`` relative to the node,
        and ``NAME`` relative to the largest node; likewise ``free_gpus``, ``whole_gpus`` (GPUs that are entirely
        free) and ``gpus``; ``model:NAME`` and ``partition:NAME``, 1 or 0. Rows of classes contain means.
    ``eligible``, shape (S, N)
        whether each row of ``nodes`` has the partition, GPU model and features that each job requests
    ``room``, shape (S, N)
        fraction of the tasks of each job that fit on each row of ``nodes`` now
    ``cluster``, shape (C,)
        one value per column of ``cluster_features``: numbers of queued jobs, of those outside the window, of fitting
        and of running jobs; time to the next expected end; waiting time of the oldest job; fraction of nodes that are
        up, and free fractions of their resources and GPUs

    Times and numbers are logarithms of 1 + the value, divided by 4; empty slots and rows are 0.

    Parameters
    ----------
    window : SplitWindow
        Window onto the queue.
    nodes : NodeTable
        Table of N nodes, or of nodes in N classes. A cluster may have fewer of them, but only with resources, models
        and partitions that occur in the table.
    slots : int, optional
        Number of slots of the arrays, S (default: the number of slots of the window).
    rows : {"each", "alike"}
        Rows of ``nodes``: one per node, or one per class of nodes that are alike.
    action : {"job", "job-on-node"}
        Meaning of actions. Of S + 1 actions, action i starts the job in slot i, and action S waits. Or, of S N + 1
        actions, action i N + n starts the job in slot i with as many tasks on node n as fit; the placement policy
        chooses nodes for its other tasks.

    Attributes
    ----------
    job_features, node_features, cluster_features : tuple of str
        Names of the columns.

    Raises
    ------
    InvalidConfiguration
        If the window does not fit, an option is unknown, or actions name nodes that do not have a row each.
    """

    def __init__(
        self,
        window: SplitWindow,
        nodes: NodeTable,
        slots: int | None = None,
        *,
        rows: Literal["each", "alike"] = "each",
        action: Literal["job", "job-on-node"] = "job",
    ) -> None:
        slots = window.size if slots is None else slots
        self.rows = check_choice("rows", rows, ("each", "alike"))
        self.names_nodes = check_choice("action", action, ("job", "job-on-node")) == "job-on-node"
        if self.names_nodes and rows == "alike":
            raise InvalidConfiguration("action: 'job-on-node' needs one row per node; got rows='alike', try 'each'")
        self.num_rows = len(nodes) if rows == "each" else int(are_alike(nodes).max()) + 1
        self.resources, self.gpu_models, self.partitions = nodes.resources, nodes.gpu_models, nodes.partitions
        self._most = nodes.capacity.max(axis=0).clip(1)
        self._most_gpus = max(int(nodes.gpus.sum(axis=1).max()), 1)
        self._fastest = max(node.speed for node in nodes.nodes)
        names = self.resources
        self.job_features = (*JOB_FEATURES, *(f"{name}_per_task" for name in (*names, "gpus")), *names, "gpus")
        self.node_features = (
            *NODE_FEATURES,
            *(f"free_{name}" for name in names),
            *names,
            *("free_gpus", "whole_gpus", "gpus"),
            *(f"model:{model}" for model in self.gpu_models),
            *(f"partition:{partition}" for partition in self.partitions),
        )
        self.cluster_features = (*CLUSTER_FEATURES, *(f"free_{name}" for name in (*names, "gpus")))
        self._known: _Nodes | None = None
        spaces: dict[str, gymnasium.spaces.Space[Any]] = {
            "jobs": bounded((slots, len(self.job_features))),
            "nodes": bounded((self.num_rows, len(self.node_features))),
            "eligible": gymnasium.spaces.Box(0, 1, (slots, self.num_rows), np.int8),
            "room": bounded((slots, self.num_rows), highest=1.0),
            "cluster": bounded((len(self.cluster_features),)),
        }
        super().__init__(window, spaces, slots, choices=self.num_rows if self.names_nodes else 1)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without the cache."""
        return vars(self) | {"_known": None}

    def _nodes_of(self, table: NodeTable) -> _Nodes:
        """Return the constant part of the features of a cluster's nodes."""
        if self._known is None or self._known.table is not table:
            self._known = _Nodes(self, table)
        return self._known

    def encode(self, observation: BatchObservation) -> Arrays:
        """Return ``jobs``, ``nodes``, ``eligible``, ``room``, ``cluster``, and the mask of S + 1 or S N + 1 actions.

        Parameters
        ----------
        observation : BatchObservation
            Observation of a decision.

        Returns
        -------
        dict of str to numpy.ndarray
            New arrays by name.

        Raises
        ------
        InvalidConfiguration
            If the cluster has no nodes, or nodes that the encoder cannot show.
        """
        seen, view = observation, self._view(observation)
        nodes, room = self._nodes_of(view.table), view.room
        shown = _Shown(view, self.window.positions(len(seen.queue)))
        up, count = room.up, len(shown.shapes)
        jobs = np.zeros((self.slots, len(self.job_features)), np.float32)
        eligible = np.zeros((self.slots, self.num_rows), np.int8)
        of_rows = np.zeros((self.slots, self.num_rows), np.float32)
        if count:
            self._describe_jobs(seen, shown, nodes, jobs[:count])
            tasks = shown.tasks[:, None]
            eligible[:count, : nodes.num_rows] = [shape.eligible[nodes.firsts] for shape in shown.shapes]
            of_rows[:count, : nodes.num_rows] = np.minimum(nodes.summed(shown.counts), tasks) / tasks
        next_end = max(seen.running.first_end - seen.time, 0.0) if len(seen.running) else 0.0
        length = len(seen.queue)
        oldest = seen.time - seen.queue.head_submission if length else 0.0
        amounts = (length, length - count, int(shown.fits.sum()), len(seen.running), next_end, oldest)
        free = nodes.free_of(room.free[up]).sum(axis=0) / nodes.totals
        cluster = [*log_scaled(amounts), up.mean(), *free, room.gpus[up].sum() / nodes.total_gpus]
        return {
            "jobs": jobs,
            "nodes": nodes.describe(seen, view, up),
            "eligible": eligible,
            "room": of_rows,
            "cluster": np.array(cluster, np.float32),
            ACTION_MASK: self.mask(seen, self._possible(shown)),
        }

    def _view(self, observation: BatchObservation) -> NodeView:
        if observation.nodes is None:
            raise InvalidConfiguration("observation: the cluster has counted cores, but this encoder shows nodes")
        return observation.nodes

    def _possible(self, shown: _Shown) -> NDArray[np.bool_]:
        """Return whether each job in the window may start, on each node if actions name one."""
        if not self.names_nodes:
            return shown.fits
        count, num_nodes = shown.counts.shape
        possible = np.zeros((count, self.choices), np.bool_)
        possible[:, :num_nodes] = (shown.counts > 0) & shown.fits[:, None]
        return possible.ravel()

    def _describe_jobs(self, seen: BatchObservation, shown: _Shown, nodes: _Nodes, into: Floats) -> None:
        """Write the features of the jobs in the window."""
        queue, num_nodes = seen.queue, len(nodes.table)
        shapes, counts, tasks = shown.shapes, shown.counts, shown.tasks
        amounts = nodes.amounts_of(shapes)
        gpus = np.array([shape.gpus * GPU or shape.share for shape in shapes])[:, None]
        into[:, 0] = 1.0
        into[:, 1] = log_scaled(queue.requested_time[shown.positions])
        into[:, 2] = log_scaled(seen.time - queue.submission_time[shown.positions])
        into[:, 3] = log_scaled(tasks)
        into[:, 4] = [shape.exclusive for shape in shapes]
        into[:, 5] = shown.fits
        into[:, 6] = np.minimum(counts.sum(axis=1), tasks) / tasks
        into[:, 7] = [np.count_nonzero(shape.eligible) / num_nodes for shape in shapes]
        into[:, 8] = (counts > 0).sum(axis=1) / num_nodes
        into[:, 9] = [shape.share / GPU for shape in shapes]
        if len(queue) > self.window.size:
            into[self.window.head :, 10] = 1.0
        of_job = tasks[:, None]
        parts = (
            amounts / self._most,
            gpus / self._most_gpus,
            amounts * of_job / nodes.totals,
            gpus * of_job / nodes.total_gpus,
        )
        into[:, len(JOB_FEATURES) :] = np.minimum(np.concatenate(parts, axis=1), LARGEST)

    def is_forced(self, observation: BatchObservation) -> bool:
        """Return whether no job in the window can start, so that waiting is the only choice.

        Parameters
        ----------
        observation : BatchObservation
            Observation of a decision.
        """
        length = len(observation.queue)
        return not length or not self._view(observation).fitting(self.window.positions(length)).any()

    def awaited_cores(self, observation: BatchObservation) -> int:
        """Return 0: on nodes, a number of cores does not determine when a job fits."""
        return 0

    def _start(self, observation: BatchObservation, position: int, choice: int) -> Any:
        """Return the row of the job, or its placement if the action names its first node; None if it does not fit."""
        view, row = self._view(observation), observation.queue.job_at(position)[0]
        if not self.names_nodes:
            return row if view.fitting(np.array([position]))[0] else None
        if choice >= len(view):
            return None
        held = view.room.place(view.compiled_request(row), NodeFirst(view.policy, choice))
        return None if held is None or held[0].node != choice else StartOnNodes(row, held)

    def _choice(self, observation: BatchObservation, start: Any, row: int) -> int | None:
        """Return the first node that an agent or else the placement policy has chosen, if actions name one."""
        if not self.names_nodes:
            return 0
        view = self._view(observation)
        named = isinstance(start, StartOnNodes)
        held = start.held if named else view.room.place(view.compiled_request(row), view.policy)
        return held[0].node if held else None


class _Shown:
    """The n jobs in a window, and how many of their tasks fit on each of N nodes.

    Parameters
    ----------
    view : NodeView
        Nodes at a decision.
    positions : array of int, shape (n,)
        Queue positions of the jobs.
    """

    def __init__(self, view: NodeView, positions: IntArray) -> None:
        of_queue = view.compiled_requests()
        self.positions = positions
        self.shapes = [of_queue[position] for position in positions.tolist()]
        self.tasks = np.array([shape.tasks for shape in self.shapes], np.int64)
        self.fits = view.fitting(positions)
        found = {shape: np.minimum(view.room.counts(shape), shape.tasks) for shape in dict.fromkeys(self.shapes)}
        self.counts = np.array([found[shape] for shape in self.shapes], np.int64).reshape(-1, len(view))


def _ends(seen: BatchObservation, view: NodeView) -> NDArray[np.float64]:
    """Return the seconds to the first and the last expected end on each node, shape (2, N); 0 on idle nodes."""
    ends = np.zeros((2, len(view)))
    first, last = ends[0].tolist(), ends[1].tolist()
    known: set[int] = set()
    for end, _, row in seen.running.releases():  # in order of expected end
        left = max(end - seen.time, 0.0)
        for held in view.allocation_of(row):
            node = held.node
            if node not in known:
                known.add(node)
                first[node] = left
            last[node] = left
    ends[0], ends[1] = first, last
    return ends


class _Nodes:
    """Features of the nodes of a cluster, with their constant part.

    Parameters
    ----------
    encoder : NodeFeatureEncoder
        Encoder that defines the resources, models and partitions shown.
    table : NodeTable
        Nodes of the cluster.
    """

    def __init__(self, encoder: NodeFeatureEncoder, table: NodeTable) -> None:
        self.table, self._all_rows = table, encoder.num_rows
        for what, there, shown in (
            ("resource", table.resources, encoder.resources),
            ("GPU model", table.gpu_models, encoder.gpu_models),
            ("partition", table.partitions, encoder.partitions),
        ):
            if unknown := [name for name in there if name not in shown]:
                raise InvalidConfiguration(f"nodes: the cluster has the {what} {unknown[0]!r}, unknown to the encoder")
        self._classes = are_alike(table) if encoder.rows == "alike" else np.arange(len(table))
        self.num_rows = int(self._classes.max()) + 1
        if self.num_rows > encoder.num_rows:
            what = "nodes" if encoder.rows == "each" else "classes of nodes"
            raise InvalidConfiguration(
                f"nodes: the cluster has {self.num_rows} {what}, the encoder shows at most {encoder.num_rows}"
            )
        self.firsts = np.unique(self._classes, return_index=True)[1]  # first node of each row
        self._sizes = np.bincount(self._classes)
        self._members: NDArray[np.float64] | None = None
        if encoder.rows == "alike":
            self._members = np.equal.outer(self._classes, np.arange(self.num_rows)).astype(np.float64)
        order = {name: place for place, name in enumerate(table.resources)}
        self._columns = [order.get(name, -1) for name in encoder.resources]  # -1: no node has it, see free_of()
        self._same_columns = self._columns == list(range(len(table.resources)))
        self._capacity = self.free_of(table.capacity).clip(1)
        self.totals = self.free_of(table.capacity).sum(axis=0).clip(1)
        gpus = table.gpus.sum(axis=1)
        self.total_gpus = max(int(gpus.sum()), 1)
        self._gpus = gpus.clip(1)
        self._names = encoder.node_features
        rows = np.zeros((len(table), len(self._names)), np.float64)
        place = len(NODE_FEATURES)
        self._free = slice(place, place + len(encoder.resources))
        self._of_gpus = place + 2 * len(encoder.resources)
        rows[:, 0] = 1.0
        rows[:, 1] = log_scaled(self._sizes)[self._classes]
        rows[:, 3] = [node.speed / encoder._fastest for node in table.nodes]
        rows[:, self._free.stop : self._of_gpus] = self.free_of(table.capacity) / encoder._most
        rows[:, self._of_gpus + 2] = gpus / encoder._most_gpus
        for number, node in enumerate(table.nodes):
            for name, given in (("model", node.gpu_model if node.gpus else ""), ("partition", node.partition)):
                if given:
                    rows[number, self._names.index(f"{name}:{given}")] = 1.0
        self._fixed = np.minimum(rows, LARGEST)

    def free_of(self, amounts: IntArray) -> IntArray:
        """Return columns of the table's resources in the encoder's order, shape (N, R)."""
        if self._same_columns:
            return amounts
        nothing = np.zeros((len(amounts), 1), np.int64)
        return np.concatenate([amounts, nothing], axis=1)[:, self._columns]

    def amounts_of(self, shapes: Sequence[CompiledRequest]) -> IntArray:
        """Return what a task of each request needs of each shown resource, shape (n, R)."""
        return self.free_of(np.array([shape.amounts for shape in shapes]))

    def summed(self, counts: IntArray) -> IntArray:
        """Return sums over the nodes of each row, shape (n, rows)."""
        return counts if self._members is None else (counts @ self._members).astype(np.int64)

    def describe(self, seen: BatchObservation, view: NodeView, up: NDArray[np.bool_]) -> Floats:
        """Return the features of all rows, shape (N, K)."""
        room, ends = view.room, _ends(seen, view)
        rows = self._fixed.copy()
        rows[:, 2] = up
        rows[:, 4] = log_scaled(room.jobs)
        rows[:, 5:7] = log_scaled(ends.T)
        rows[:, self._free] = self.free_of(room.free) / self._capacity * up[:, None]
        rows[:, self._of_gpus] = room.gpus.sum(axis=1) / self._gpus * up
        rows[:, self._of_gpus + 1] = room.whole * GPU / self._gpus * up
        into = np.zeros((self._all_rows, rows.shape[1]), np.float32)
        into[: self.num_rows] = rows if self._members is None else self._members.T @ rows / self._sizes[:, None]
        return into
