"""Nodes with resources, and what jobs request of them.

A cluster of nodes is still a row of cores, numbered node after node, so that records, pictures and metrics of cores
hold for it as well. What a node has beside cores is counted in whole numbers: memory in bytes, GPUs in thousandths, and
whatever else the user names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_float
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job
from desim.problems.batch.reservations import AdvanceReservation, reservations_on_nodes

__all__ = ["GPU", "CompiledRequest", "Node", "NodeAllocation", "NodeJob", "NodeTable", "Request", "run_time_on"]

GPU = 1000
"""Parts of a GPU: shares are counted in thousandths."""

CORES, MEMORY = "cores", "memory"
"""The resources that every node has, in the order of columns; those that users name come after them."""

Mask = NDArray[np.bool_]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Node:
    """One machine of a cluster.

    Attributes
    ----------
    name : str
        Unique in the cluster.
    cores : int
        At least 1.
    memory : int
        Bytes.
    gpus : int
        How many.
    gpu_model : str
        Of all its GPUs.
    resources : mapping of str to int
        Amounts of further resources by name.
    partition : str
        Jobs may ask for it.
    features : frozenset of str
        Jobs may ask for some, or for nodes without some.
    speed : float
        Jobs run for so many times less than their run time, above 0; the slowest of a job's nodes counts.

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
        if fault := _fault(least):
            raise InvalidConfiguration(f"node {self.name!r}: {fault}")
        check_float(f"speed of node {self.name!r}", self.speed, above=0)

    @classmethod
    def several(cls, count: int, cores: int, *, name: str = "n", **options: Any) -> list[Self]:
        """Return equal nodes.

        Parameters
        ----------
        count : int
            How many.
        cores : int
            Of each.
        name : str
            What their names begin with; a number follows.
        **options : object
            As for one node.

        Returns
        -------
        list of Node
            Named ``n0``, ``n1`` and so on.
        """
        return [cls(f"{name}{number}", cores, **options) for number in range(count)]


@dataclass(frozen=True)
class Request:
    """What a job requests: a number of equal tasks, each of which lives on one node.

    Attributes
    ----------
    tasks : int
        At least 1.
    cores : int
        Of each task, at least 1.
    memory : int
        Bytes of each task.
    gpus : float
        Of each task: a whole number, or a share below one in thousandths, which lives on one GPU.
    gpu_models : tuple of str
        Models that will do; none if all will.
    resources : tuple of (str, int)
        Amounts of further resources of each task.
    partition : str
        The only one that will do; empty if all will.
    features, without : tuple of str
        What nodes must have, and must not have.
    exclusive : bool
        Whether no other job may be on its nodes.
    tasks_per_node : int or None
        At most so many on one node.
    """

    tasks: int = 1
    cores: int = 1
    memory: int = 0
    gpus: float = 0
    gpu_models: tuple[str, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()
    partition: str = ""
    features: tuple[str, ...] = ()
    excluded_features: tuple[str, ...] = ()
    exclusive: bool = False
    tasks_per_node: int | None = None

    def fault(self) -> str:
        """Return what is wrong with it; empty if nothing is."""
        least: dict[str, tuple[Any, int]] = {"tasks": (self.tasks, 1), "cores": (self.cores, 1)}
        least |= {"memory": (self.memory, 0)} | {name: (amount, 0) for name, amount in self.resources}
        if self.tasks_per_node is not None:
            least["tasks_per_node"] = self.tasks_per_node, 1
        if fault := _fault(least):
            return fault
        share = self.gpus * GPU
        if not 0 <= share < float("inf") or abs(share - round(share)) > 1e-6:
            return f"gpus is {self.gpus!r}, want a whole number or a share below one in thousandths"
        if self.gpus > 1 and self.gpus != int(self.gpus):
            return f"gpus is {self.gpus!r}: a share lives on one GPU, want a whole number or less than 1"
        return ""


class NodeJob(Job):
    """A job that requests tasks on nodes: a :class:`Job` for all who look at cores and times only.

    Attributes
    ----------
    request : Request
        What it requests; equal jobs share one.
    run_times : mapping of str to float
        How long it runs on nodes with GPUs of a model, in seconds; its ``run_time`` elsewhere. Agents see none of it.
    """

    request: Request
    run_times: Mapping[str, float] = MappingProxyType({})

    @classmethod
    def of(  # noqa: PLR0917  # in the order of a job's fields
        cls,
        job_id: int,
        submission_time: float,
        request: Request,
        requested_time: float,
        run_time: float,
        user_id: int = -1,
        *,
        run_times: Mapping[str, float] | None = None,
    ) -> Self:
        """Return a job.

        Parameters
        ----------
        job_id : int
            Identifier.
        submission_time : float
            Seconds.
        request : Request
            Of nodes; the requested cores are those of all tasks.
        requested_time, run_time : float
            Seconds, as of a :class:`Job`.
        user_id : int
            Who submitted it, -1 where unknown.
        run_times : mapping of str to float, optional
            Run times in seconds by models of GPUs.

        Returns
        -------
        NodeJob
            A new one.

        Raises
        ------
        WorkloadError
            If the request makes no sense, or a run time does not.
        """
        if fault := request.fault():
            raise WorkloadError(f"job {job_id}: {fault}")
        for model, time in (run_times or {}).items():
            if not 0 <= time < float("inf"):
                raise WorkloadError(
                    f"job {job_id}: the run time on {model} is {time!r}, want a finite time of at least 0"
                )
        job = cls(job_id, submission_time, request.tasks * request.cores, requested_time, run_time, user_id)
        job.request = request
        if run_times:
            job.run_times = dict(run_times)
        return job

    @classmethod
    def requesting(cls, job: Job, request: Request) -> Self:
        """Return a job of which everything but the request is known, and right."""
        made = cls(*job)
        made.request = request
        return made

    def _replace(self, **values: Any) -> Self:
        """Return a job with other values."""
        job = super()._replace(**values)
        job.request = self.request
        if "run_times" in vars(self):
            job.run_times = self.run_times
        return job

    def known(self) -> Self:
        """Return the job as agents know it: it runs for as long as it requests, on whatever nodes."""
        job = super().known()
        vars(job).pop("run_times", None)
        return job

    def __eq__(self, other: object) -> bool:
        """Tell whether two jobs are and request the same."""
        mine = self.request, self.run_times
        return tuple.__eq__(self, other) and mine == (getattr(other, "request", None), getattr(other, "run_times", {}))

    def __ne__(self, other: object) -> bool:
        """Tell whether they do not: tuples have an answer of their own."""
        return not self == other

    __hash__ = Job.__hash__


def run_time_on(job: Job, nodes: Iterable[Node]) -> float:
    """Return how long a job runs on some nodes: as long as on the slowest of them.

    Parameters
    ----------
    job : Job
        With run times by models of GPUs, if it is a :class:`NodeJob` that has some.
    nodes : iterable of Node
        At least one.

    Returns
    -------
    float
        Seconds.
    """
    times: Mapping[str, float] = getattr(job, "run_times", {})
    return max(times.get(node.gpu_model if node.gpus else "", job.run_time) / node.speed for node in nodes)


class CompiledRequest:
    """A request as arrays of a cluster; made once for all jobs that request the same.

    Parameters
    ----------
    request : Request
        What is requested.
    table : NodeTable
        The nodes.
    passes : tuple of int
        Numbers of the reservations that admit its user.

    Attributes
    ----------
    tasks : int
        How many.
    amounts : tuple of int
        Of each task, for each resource.
    needed : list of (int, int)
        Column and amount of the resources that a task needs some of.
    gpus, share : int
        Whole GPUs of a task, and thousandths of one GPU; at most one of them is not 0.
    eligible : array of bool, shape (N,)
        The nodes that will do, by what they are.
    most : int
        Tasks on one node, at most.
    """

    def __init__(self, request: Request, table: NodeTable, passes: tuple[int, ...] = ()) -> None:
        self.request, self.passes = request, passes
        self.tasks = request.tasks
        amounts = dict.fromkeys(table.resources, 0) | {CORES: request.cores, MEMORY: request.memory}
        if unknown := [name for name, _ in request.resources if name not in amounts]:
            raise WorkloadError(f"resource {unknown[0]!r} is on no node; there are {', '.join(table.resources)}")
        amounts |= dict(request.resources)
        self.amounts = tuple(amounts.values())
        self.needed = [(column, amount) for column, amount in enumerate(self.amounts) if amount]
        if request.partition and request.partition not in table.partitions:
            there = ", ".join(table.partitions) or "none"
            raise WorkloadError(f"there is no partition {request.partition!r}; there are {there}")
        if request.gpu_models and not set(request.gpu_models) & set(table.gpu_models):
            models, there = ", ".join(request.gpu_models), ", ".join(table.gpu_models) or "none"
            raise WorkloadError(f"no node has a GPU of the models {models}; there are {there}")
        whole = request.gpus >= 1
        self.gpus = int(request.gpus) if whole else 0
        self.share = 0 if whole else round(request.gpus * GPU)
        self.eligible = table.eligible(request)
        self.most = request.tasks_per_node or np.iinfo(np.int64).max
        self.exclusive = request.exclusive


class NodeAllocation(NamedTuple):
    """What a job holds of one node.

    Attributes
    ----------
    node : int
        Which.
    tasks : int
        How many tasks are there.
    amounts : tuple of int
        For each resource; those of a whole node where the job is alone.
    gpus : tuple of (int, int)
        Number of a GPU and the thousandths that are held of it.
    """

    node: int
    tasks: int
    amounts: tuple[int, ...]
    gpus: tuple[tuple[int, int], ...]


class NodeTable:
    """The nodes of a cluster as arrays; they do not change.

    Parameters
    ----------
    nodes : sequence of Node
        At least one; their names differ.
    reservations : iterable of AdvanceReservation
        When some of them are not for jobs, or for those of some users only.

    Attributes
    ----------
    nodes : tuple of Node
        In order; N of them.
    reservations : tuple of AdvanceReservation
        By their starts; their nodes are numbers.
    resources : tuple of str
        Cores, memory, and those that some node names, R of them.
    capacity : array of int, shape (N, R)
        How much of each a node has.
    gpus : array of int, shape (N, G)
        Thousandths of each GPU: 1,000 if the node has so many, 0 otherwise.
    partitions, gpu_models : tuple of str
        Those that nodes have, sorted.
    first_core : list of int
        Number of each node's first core in the cluster.
    has_speeds : bool
        Whether the speed of some node is not 1.

    Raises
    ------
    InvalidConfiguration
        If there is none, or two have one name, or a reservation makes no sense.
    """

    def __init__(self, nodes: Iterable[Node], reservations: Iterable[AdvanceReservation] = ()) -> None:
        self.nodes = tuple(nodes)
        if not self.nodes:
            raise InvalidConfiguration("a cluster needs at least one node")
        names: set[str] = set()
        for node in self.nodes:
            if not isinstance(node, Node):
                raise InvalidConfiguration(f"nodes holds {node!r}, want Nodes")
            if node.name in names:
                raise InvalidConfiguration(f"two nodes are named {node.name!r}")
            names.add(node.name)
        further = sorted({name for node in self.nodes for name in node.resources})
        if taken := {CORES, MEMORY, "gpus"} & set(further):
            raise InvalidConfiguration(f"{taken.pop()!r} is no name for a further resource, nodes have it as it is")
        self.resources = (CORES, MEMORY, *further)
        rows = [[node.cores, node.memory, *(node.resources.get(name, 0) for name in further)] for node in self.nodes]
        self.capacity: IntArray = np.array(rows, np.int64)
        counts = np.array([node.gpus for node in self.nodes])
        self.gpus: IntArray = GPU * (np.arange(max(1, int(counts.max()))) < counts[:, None]).astype(np.int64)
        self.first_core: list[int] = [0, *self.capacity[:, 0].cumsum().tolist()][:-1]
        self.partitions = tuple(sorted({node.partition for node in self.nodes if node.partition}))
        self.gpu_models = tuple(sorted({node.gpu_model for node in self.nodes if node.gpus and node.gpu_model}))
        self.has_speeds = any(node.speed != 1 for node in self.nodes)
        self._shapes: dict[
            object, CompiledRequest
        ] = {}  # by request, and by reservations that admit the user if there are any
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

    @property
    def num_cores(self) -> int:
        """Cores of all nodes."""
        return int(self.capacity[:, 0].sum())

    @cached_property
    def num_gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(node.gpus for node in self.nodes)

    def eligible(self, request: Request) -> Mask:
        """Return which nodes will do by what they are, shape (N,)."""
        return np.array(
            [
                (not request.partition or node.partition == request.partition)
                and (not request.gpu_models or node.gpu_model in request.gpu_models)
                and node.features.issuperset(request.features)
                and node.features.isdisjoint(request.excluded_features)
                for node in self.nodes
            ],
            np.bool_,
        )

    def closed_between(self, start: float, end: float) -> tuple[int, ...]:
        """Return the numbers of the reservations that are there at some time from ``start`` to ``end``, in seconds."""
        return tuple(
            number
            for number, reservation in enumerate(self.reservations)
            if reservation.start <= start < reservation.end or start < reservation.start < end
        )

    def nodes_of(self, reservation: int) -> list[int]:
        """Return the nodes of a reservation of a number, ascending."""
        return (~self._outside[reservation]).nonzero()[0].tolist()  # type: ignore[no-any-return]

    def open_to(self, shape: CompiledRequest, closed: Iterable[int]) -> Mask:
        """Return the nodes that belong to none of some reservations, or only to those that admit a user, shape (N,)."""
        return self.outside(number for number in closed if number not in shape.passes)

    def outside(self, reservations: Iterable[int]) -> Mask:
        """Return the nodes that belong to none of some reservations, shape (N,)."""
        return np.asarray(self._outside[list(reservations)].all(axis=0))

    def compile(self, request: Request, passes: tuple[int, ...] = ()) -> CompiledRequest:
        """Return the arrays of a request.

        Parameters
        ----------
        request : Request
            Of a job.
        passes : tuple of int
            Numbers of the reservations that admit its user.

        Returns
        -------
        CompiledRequest
            The same object for equal requests.

        Raises
        ------
        WorkloadError
            If no node has a resource that it names.
        """
        key = (request, passes) if passes else request
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = CompiledRequest(request, self, passes)
        return shape

    def compiled_request(self, job: Job) -> CompiledRequest:
        """Return what a job requests, as arrays.

        Parameters
        ----------
        job : Job
            A plain one requests a task of one core for each of its cores.

        Returns
        -------
        CompiledRequest
            The same object for equal requests.

        Raises
        ------
        WorkloadError
            If no node has a resource that it names.
        """
        request = getattr(job, "request", None) or Request(tasks=job.requested_cores)
        return self.compile(request, self._passes.get(job.user_id, ()) if self._passes else ())

    def core_ids(self, nodes: Sequence[int]) -> list[int]:
        """Return the cores of some nodes, ascending within each."""
        return [self.first_core[node] + core for node in nodes for core in range(self.nodes[node].cores)]


def _fault(least: Mapping[str, tuple[Any, int]]) -> str:
    """Return which of some values is no whole number of at least what is given with it; empty if all are."""
    for name, (value, smallest) in least.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < smallest:
            return f"{name} is {value!r}, want a whole number of at least {smallest}"
    return ""
