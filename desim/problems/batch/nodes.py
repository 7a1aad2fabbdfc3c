"""Nodes with resources, and requests of jobs for them.

A cluster of nodes is also a sequence of cores, numbered node by node, so that records, figures and metrics of cores
apply to it as well. Other resources of a node are counted in integers: memory in bytes, GPUs in thousandths, and any
other resource in a unit of the user's choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from desim.checks import MOST_CORES, check_float, check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.cores import core_set
from desim.problems.batch.job import Job
from desim.problems.batch.request import GPU, Request, fault_of_amounts

if TYPE_CHECKING:
    from desim.problems.batch.parts.reservations import AdvanceReservation

__all__ = ["GPU", "CompiledRequest", "Node", "NodeAllocation", "NodeAllocations", "NodeTable", "Request", "run_time_on"]

MOST_NODES = 2**20
"""Largest number of nodes of a cluster; the largest machine of 2025 has 160,000."""
CORES, MEMORY = "cores", "memory"
"""Resources that every node has, in column order; resources named by users follow."""

Mask = NDArray[np.bool_]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Node:
    """Node of a cluster.

    Attributes
    ----------
    name : str
        Name, unique in the cluster.
    cores : int
        Number of cores, at least 1.
    memory : int
        Memory in bytes.
    gpus : int
        Number of GPUs.
    gpu_model : str
        Model of all its GPUs.
    resources : mapping of str to int
        Amounts of other resources by name.
    partition : str
        Name of the partition, which jobs may request.
    features : frozenset of str
        Names of features, which jobs may request or exclude.
    speed : float
        Speed factor, above 0: run times are divided by it. The slowest node of a job determines its run time.

    Raises
    ------
    InvalidConfiguration
        If an amount is out of range.
    """

    name: str
    cores: int
    memory: int = 0
    gpus: int = 0
    gpu_model: str = ""
    resources: Mapping[str, int] = field(default_factory=dict)
    partition: str = ""
    features: frozenset[str] = frozenset()
    speed: float = 1.0

    def __post_init__(self) -> None:
        """Check the amounts."""
        least = {"cores": (self.cores, 1), "memory": (self.memory, 0), "gpus": (self.gpus, 0)}
        least |= {name: (amount, 0) for name, amount in self.resources.items()}
        if fault := fault_of_amounts(least):
            raise InvalidConfiguration(f"node {self.name!r}: {fault}")
        check_int(f"gpus of node {self.name!r}", self.gpus, least=0, most=1_000)
        check_float(f"speed of node {self.name!r}", self.speed, above=0)

    @classmethod
    def several(cls, count: int, cores: int, *, name: str = "n", **options: Any) -> list[Self]:
        """Return a number of equal nodes.

        Parameters
        ----------
        count : int
            Number of nodes.
        cores : int
            Number of cores of each node.
        name : str
            Prefix of the names, which is followed by a number.
        **options : object
            Other arguments of the nodes.

        Returns
        -------
        list of Node
            Nodes named ``n0``, ``n1`` and so on.
        """
        check_int("count", count, least=0, most=MOST_NODES)
        return [cls(f"{name}{number}", cores, **options) for number in range(count)]


def run_time_on(job: Job, nodes: Iterable[Node]) -> float:
    """Return the run time of a job on given nodes: that on the slowest of them.

    Parameters
    ----------
    job : Job
        Job, which may have run times by GPU model.
    nodes : iterable of Node
        Nodes of the job, at least one.

    Returns
    -------
    float
        Run time in seconds.
    """
    return max(job.run_times.get(node.gpu_model if node.gpus else "", job.run_time) / node.speed for node in nodes)


class CompiledRequest:
    """Request compiled to arrays for the nodes of a cluster; created once for all jobs with the same request.

    Parameters
    ----------
    request : Request
        Request to compile.
    table : NodeTable
        Nodes of the cluster.
    passes : tuple of int
        Numbers of the reservations that admit the user of the job.

    Attributes
    ----------
    tasks : int
        Number of tasks.
    amounts : tuple of int
        Amount of each resource per task.
    needed : list of (int, int)
        Column and amount per task of the resources of which a task needs more than 0.
    gpus, share : int
        Entire GPUs per task, and thousandths of one GPU per task; at most one of the two is not 0.
    eligible : array of bool, shape (N,)
        Whether each node has the requested partition, GPU model and features.
    most : int
        Maximum number of tasks per node.
    single : CompiledRequest
        The same request with one task; as many tasks of both fit on a node.
    only_cores : bool
        Whether a task needs nothing but cores: a node fits if it is eligible and enough of its cores are free.
    number : int
        Its place among the requests of the table.
    """

    number: int

    def __init__(self, request: Request, table: NodeTable, passes: tuple[int, ...] = ()) -> None:
        self.request, self.passes = request, passes
        self.tasks = request.tasks
        amounts = dict.fromkeys(table.resources, 0) | {CORES: request.cores, MEMORY: request.memory}
        if unknown := [name for name, _ in request.resources if name not in amounts]:
            raise WorkloadError(f"resources: got {unknown[0]!r}, expected some of: {', '.join(table.resources)}")
        amounts |= dict(request.resources)
        self.amounts = tuple(amounts.values())
        self.needed = [(column, amount) for column, amount in enumerate(self.amounts) if amount]
        if request.partition and request.partition not in table.partitions:
            there = ", ".join(table.partitions) or "none"
            raise WorkloadError(f"partition: got {request.partition!r}, expected one of: {there}")
        if request.gpu_models and not set(request.gpu_models) & set(table.gpu_models):
            models, there = ", ".join(request.gpu_models), ", ".join(table.gpu_models) or "none"
            raise WorkloadError(f"gpu_models: got {models}, expected some of: {there}")
        whole = request.gpus >= 1
        self.gpus = int(request.gpus) if whole else 0
        self.share = 0 if whole else round(request.gpus * GPU)
        self.eligible = table.eligible(request)
        self.most = request.tasks_per_node or np.iinfo(np.int64).max
        self.exclusive = request.exclusive
        self.only_cores = len(self.needed) == 1 and not (whole or self.share or self.exclusive)
        self._allocations: dict[int, list[NodeAllocation]] = {}
        self._amounts_of: dict[int, tuple[int, ...]] = {}
        self.single = self if self.tasks == 1 else table.compile(replace(request, tasks=1), passes)

    @cached_property
    def node_set(self) -> int:
        """The eligible nodes as a bit set."""
        return core_set(self.eligible.nonzero()[0].tolist())

    def allocations(self, tasks: int) -> list[NodeAllocation]:
        """Return the allocation of some tasks that request only cores, on each node."""
        found = self.single._allocations.get(tasks)  # shared by all requests for such tasks
        if found is None:
            amounts, nodes = self.amounts_of(tasks), range(len(self.eligible))
            found = self.single._allocations[tasks] = [NodeAllocation(node, tasks, amounts, ()) for node in nodes]
        return found

    def amounts_of(self, tasks: int) -> tuple[int, ...]:
        """Return the amounts of each resource that some tasks need on a node."""
        found = self._amounts_of.get(tasks)
        if found is None:
            found = self._amounts_of[tasks] = tuple(amount * tasks for amount in self.amounts)
        return found


class NodeAllocation(NamedTuple):
    """Allocation of a job on one node.

    Attributes
    ----------
    node : int
        Number of the node.
    tasks : int
        Number of tasks on the node.
    amounts : tuple of int
        Allocated amount of each resource; all of the node's if the job requests exclusive nodes.
    gpus : tuple of (int, int)
        Number of each allocated GPU, and its allocated thousandths.
    """

    node: int
    tasks: int
    amounts: tuple[int, ...]
    gpus: tuple[tuple[int, int], ...]


class NodeAllocations(tuple[NodeAllocation, ...]):
    """Allocation of a job that requests only cores, as made for its request.

    Attributes
    ----------
    request : CompiledRequest
        Request for which it was made.
    by_cores : dict of int to int
        Nodes by the number of cores allocated on each, as bit sets.
    """

    request: CompiledRequest
    by_cores: dict[int, int]


class NodeTable:
    """Nodes of a cluster as arrays, which do not change.

    Parameters
    ----------
    nodes : sequence of Node
        Nodes with distinct names, at least one.
    reservations : iterable of AdvanceReservation
        Advance reservations, during which some nodes are unavailable, or available to some users only.

    Attributes
    ----------
    nodes : tuple of Node
        The N nodes in order.
    reservations : tuple of AdvanceReservation
        Reservations by start time; their nodes are given by number.
    resources : tuple of str
        Names of the R resources: cores, memory, and others that a node has.
    capacity : array of int, shape (N, R)
        Amount of each resource of each node.
    gpus : array of int, shape (N, G)
        Thousandths of each GPU: 1,000 if the node has that GPU, 0 otherwise.
    partitions, gpu_models : tuple of str
        Sorted names that occur among the nodes.
    first_core : list of int
        Number of each node's first core in the cluster.
    has_speeds : bool
        Whether any node has a speed other than 1.
    requests : list of CompiledRequest
        Requests compiled so far.
    columns : array of int, shape (S, R + 6)
        By number of a request: the amounts per task, tasks, most tasks per node, GPUs and thousandths of one GPU per
        task, whether nodes are exclusive, and the number of the nodes that it can use.
    usable : array of bool, shape (U, N)
        By that number: whether each node is eligible.
    passes : list of tuple of int
        By that number: the reservations that admit the user.

    Raises
    ------
    InvalidConfiguration
        If there are no nodes, two nodes have the same name, or a reservation is invalid.
    """

    def __init__(self, nodes: Iterable[Node], reservations: Iterable[AdvanceReservation] = ()) -> None:
        self.nodes = tuple(nodes)
        if not self.nodes:
            raise InvalidConfiguration("nodes: got none, expected at least one")
        names: set[str] = set()
        for node in self.nodes:
            if not isinstance(node, Node):
                raise InvalidConfiguration(f"nodes: got {node!r}, expected Node objects")
            if node.name in names:
                raise InvalidConfiguration(f"nodes: the name {node.name!r} occurs twice; names must be unique")
            names.add(node.name)
        check_int("num_cores", sum(node.cores for node in self.nodes), least=1, most=MOST_CORES)
        further = sorted({name for node in self.nodes for name in node.resources})
        if taken := {CORES, MEMORY, "gpus"} & set(further):
            raise InvalidConfiguration(f"resources: {taken.pop()!r} is a built-in resource; choose another name")
        self.resources = (CORES, MEMORY, *further)
        rows = [[node.cores, node.memory, *(node.resources.get(name, 0) for name in further)] for node in self.nodes]
        self.capacity: IntArray = np.array(rows, np.int64)
        counts = np.array([node.gpus for node in self.nodes])
        self.gpus: IntArray = GPU * (np.arange(max(1, int(counts.max()))) < counts[:, None]).astype(np.int64)
        self.first_core: list[int] = [0, *self.capacity[:, 0].cumsum().tolist()][:-1]
        self.partitions = tuple(sorted({node.partition for node in self.nodes if node.partition}))
        self.gpu_models = tuple(sorted({node.gpu_model for node in self.nodes if node.gpus and node.gpu_model}))
        self.has_speeds = any(node.speed != 1 for node in self.nodes)
        self.requests: list[CompiledRequest] = []
        self.columns = np.zeros((0, len(self.resources) + 6), np.int64)
        self.usable = np.zeros((0, len(self.nodes)), np.bool_)
        self.passes: list[tuple[int, ...]] = []
        self._suits: dict[object, int] = {}  # that number, by what a request says about nodes
        self._eligible: dict[object, Mask] = {}  # eligible nodes, by what a request says about them
        self._plain: dict[int, CompiledRequest] = {}  # of jobs without a request, by cores
        self._shapes: dict[
            object, CompiledRequest
        ] = {}  # by request, and by the reservations that admit the user if any
        self.reservations: tuple[AdvanceReservation, ...] = ()
        if reservations := tuple(reservations):
            from desim.problems.batch.parts.reservations import reservations_on_nodes

            self.reservations = reservations_on_nodes(
                reservations, [node.name for node in self.nodes], self._of_partitions()
            )
        self._outside = np.ones((len(self.reservations), len(self.nodes)), np.bool_)
        passes: dict[int, list[int]] = {}
        for number, reservation in enumerate(self.reservations):
            self._outside[number, [int(node) for node in reservation.nodes]] = False
            for user in reservation.users:
                passes.setdefault(user, []).append(number)
        self._passes = {user: tuple(numbers) for user, numbers in passes.items()}

    def _of_partitions(self) -> dict[str, list[int]]:
        """Return the numbers of the nodes of each partition."""
        found: dict[str, list[int]] = {name: [] for name in self.partitions}
        for number, node in enumerate(self.nodes):
            if node.partition:
                found[node.partition].append(number)
        return found

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Numbers of the nodes by name."""
        return {node.name: number for number, node in enumerate(self.nodes)}

    @cached_property
    def core_sets(self) -> list[int]:
        """Cores of each node, as bit sets."""
        return [((1 << node.cores) - 1) << first for first, node in zip(self.first_core, self.nodes, strict=True)]

    @cached_property
    def _digits(self) -> dict[int, str]:
        """Binary digits of the cores of a node by the digit of the node; empty if nodes differ in cores."""
        alike = len({node.cores for node in self.nodes}) == 1
        return {ord(digit): digit * self.nodes[0].cores for digit in "01"} if alike else {}

    def cores_of(self, nodes: int) -> int:
        """Return the cores of nodes; both are bit sets."""
        if self._digits:
            return int(f"{nodes:b}".translate(self._digits), 2)
        return reduce(or_, (cores for node, cores in enumerate(self.core_sets) if nodes >> node & 1), 0)

    @property
    def num_cores(self) -> int:
        """Total number of cores."""
        return int(self.capacity[:, 0].sum())

    @cached_property
    def num_gpus(self) -> int:
        """Total number of GPUs."""
        return sum(node.gpus for node in self.nodes)

    def eligible(self, request: Request) -> Mask:
        """Return whether each node has the requested partition, GPU model and features, shape (N,), which is shared."""
        key = request.partition, request.gpu_models, request.features, request.excluded_features
        if (found := self._eligible.get(key)) is not None:
            return found
        self._eligible[key] = found = np.array(
            [
                (not request.partition or node.partition == request.partition)
                and (not request.gpu_models or node.gpu_model in request.gpu_models)
                and node.features.issuperset(request.features)
                and node.features.isdisjoint(request.excluded_features)
                for node in self.nodes
            ],
            np.bool_,
        )
        return found

    def closed_between(self, start: float, end: float) -> tuple[int, ...]:
        """Return the numbers of the reservations in force at some time from ``start`` to ``end``, in seconds."""
        return tuple(
            number
            for number, reservation in enumerate(self.reservations)
            if reservation.start <= start < reservation.end or start < reservation.start < end
        )

    def nodes_of(self, reservation: int) -> list[int]:
        """Return the nodes of a reservation, ascending."""
        return (~self._outside[reservation]).nonzero()[0].tolist()  # type: ignore[no-any-return]

    def open_to(self, shape: CompiledRequest, closed: Iterable[int]) -> Mask:
        """Return whether each node is open to a job under the reservations in force, shape (N,)."""
        return self.outside(number for number in closed if number not in shape.passes)

    def outside(self, reservations: Iterable[int]) -> Mask:
        """Return whether each node belongs to none of the given reservations, shape (N,)."""
        return np.asarray(self._outside[list(reservations)].all(axis=0))

    def compile(self, request: Request, passes: tuple[int, ...] = ()) -> CompiledRequest:
        """Return a compiled request.

        Parameters
        ----------
        request : Request
            Request of a job.
        passes : tuple of int
            Numbers of the reservations that admit the user of the job.

        Returns
        -------
        CompiledRequest
            Compiled request, the same object for equal requests.

        Raises
        ------
        WorkloadError
            If the request names a resource, partition or GPU model that no node has.
        """
        key = (request, passes) if passes else request
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = CompiledRequest(request, self, passes)
            shape.number = number = len(self.requests)
            self.requests.append(shape)
            if number == len(self.columns):
                self.columns = np.pad(self.columns, ((0, max(number, 16)), (0, 0)))
            about_nodes = request.partition, request.gpu_models, request.features, request.excluded_features, passes
            suits = self._suits.setdefault(about_nodes, len(self.usable))
            if suits == len(self.usable):
                self.usable = np.vstack([self.usable, shape.eligible])
                self.passes.append(passes)
            of_others = shape.tasks, shape.most, shape.gpus, shape.share, shape.exclusive, suits
            self.columns[number] = (*shape.amounts, *of_others)
        return shape

    def compiled_request(self, job: Job) -> CompiledRequest:
        """Return the compiled request of a job.

        Parameters
        ----------
        job : Job
            Job; without a request, it counts as one task per requested core, with one core each.

        Returns
        -------
        CompiledRequest
            Compiled request, the same object for equal requests.

        Raises
        ------
        WorkloadError
            If the request names a resource, partition or GPU model that no node has.
        """
        request = job.request
        if request is None:
            if not self._passes and (shape := self._plain.get(job.requested_cores)) is not None:
                return shape
            request = Request(tasks=job.requested_cores)
            if not self._passes:
                return self._plain.setdefault(job.requested_cores, self.compile(request))
        return self.compile(request, self._passes.get(job.user_id, ()) if self._passes else ())

    def core_ids(self, nodes: Sequence[int]) -> list[int]:
        """Return the core ids of the given nodes, ascending within each node."""
        return [self.first_core[node] + core for node in nodes for core in range(self.nodes[node].cores)]
