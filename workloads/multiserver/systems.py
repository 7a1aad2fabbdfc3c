"""Systems of ports and nodes: generated from fitted models, or taken from Alibaba's traces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.checks import MOST_ITEMS, check_float, check_int
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import UTILITIES, BipartiteGraph, RewardModel
from desim.workloads.multiserver.alibaba_model import draw_gpus, draw_machines, draw_requests
from desim.workloads.multiserver.job_types import MEMORY_UNIT, amounts_of, job_types, memory_column
from desim.workloads.streams import NamedStreams

if TYPE_CHECKING:
    import polars as pl

__all__ = ["RESOURCES", "from_alibaba", "generate"]

Floats = NDArray[np.float64]

#: Resources of a generated system.
RESOURCES = ("cpu", "memory", "gpu", "npu", "tpu", "fpga")
#: Number of accelerators that occur in no public trace.
_OTHERS = len(RESOURCES) - 3
_UNITS = np.array([1.0, MEMORY_UNIT, 1.0])
#: Utilities of a "mixed" system, equation (60) of arXiv 2305.06572.
_MIXED = ("linear", "log", "reciprocal", "poly")


def generate(
    *,
    num_ports: int = 10,
    num_nodes: int = 128,
    density: float | None = 2.5,
    contention: float = 10.0,
    utilities: str = "mixed",
    weights: tuple[float, float] = (1.0, 1.5),
    overhead: tuple[float, float] = (0.3, 0.5),
    seed: int | Generator = 0,
) -> RewardModel:
    """Generate a system whose machines and requests are like those of Alibaba's clusters.

    The defaults are those of arXiv 2305.06572, section 4 and table II. The paper takes machines and jobs from
    cluster-trace-v2018 and cluster-trace-gpu-v2020, but states neither which ones nor their units. Here,

    * a node is a machine of cluster-trace-gpu-v2020, sampled from its 1,897 machines (83 have no GPU);
    * a port is a pod, sampled from a model fitted to the 8,152 pods of cluster-trace-gpu-v2023, the newest of the three
      traces: first its class (no GPU, part of one, one, several), then the amounts. We do not use the tasks of
      cluster-trace-v2018, because nearly all request 0.5 or 1 core, and all request memory in an undisclosed unit and
      no GPU;
    * NPUs, TPUs and FPGAs occur in no public trace: for each of them, a node has as many as the GPUs of another
      machine, sampled independently, and a port requests as many as the GPUs of another pod.

    All parts have independent random streams. With the same seed, the first machines are the same however many there
    are, and so are the first requests. `contention`, `utilities`, `weights` and `overhead` change only what they
    describe. A node takes its ports from the beginning of the same random order, whatever the `density`.

    Parameters
    ----------
    num_ports, num_nodes : int
        Numbers of job types and of machines.
    density : float or None
        Mean number of ports that a node serves, >= 1; each node serves this number rounded up or down. The ports
        are sampled uniformly, but every port has a node: a port without one takes the place of the port with the most
        nodes. None, infinity, and numbers above `num_ports` give the complete graph.
    contention : float
        Contention level, > 0: factor by which all requests are multiplied.
    utilities : str
        Name of the utility of all nodes and resources; ``"mixed"`` samples ``"linear"``, ``"log"``, ``"reciprocal"``
        or ``"poly"`` with equal probability for each node and resource.
    weights : tuple of two floats
        Range of the weights alpha, which are uniform for each node and resource; > 0.
    overhead : tuple of two floats
        Range of the overheads beta, which are uniform for each resource; >= 0.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once.

    Returns
    -------
    RewardModel
        Reward model whose ``graph`` has the resources `RESOURCES`.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or there are fewer channels than ports.

    Examples
    --------
    >>> rewards = generate(num_ports=5, num_nodes=16, density=2.0, seed=1)
    >>> rewards.graph
    BipartiteGraph(5 ports, 16 nodes, 6 resources, 32 channels)
    """
    system = _System(num_ports, num_nodes, density, contention, utilities, weights, overhead)
    streams = NamedStreams(seed)
    pods = draw_requests(streams("pod classes").random(num_ports), streams("pods").standard_normal((num_ports, 3)))
    asked = draw_gpus(streams("pods of other accelerators"), (num_ports, _OTHERS))
    machines = draw_machines(streams("machines").random(num_nodes))
    present = draw_machines(streams("machines of other accelerators").random(num_nodes * _OTHERS))[:, 2]
    return system.rewards(streams, (pods / _UNITS, asked), (machines / _UNITS, present.reshape(num_nodes, _OTHERS)))


def from_alibaba(
    machines: pl.DataFrame,
    requests: pl.DataFrame,
    *,
    num_ports: int = 10,
    num_nodes: int = 128,
    density: float | None = 2.5,
    contention: float = 10.0,
    utilities: str = "mixed",
    weights: tuple[float, float] = (1.0, 1.5),
    overhead: tuple[float, float] = (0.3, 0.5),
    seed: int | Generator = 0,
) -> RewardModel:
    """Return a system whose machines and requests are taken from a trace.

    The nodes are rows of `machines`, sampled uniformly with replacement. The ports are the representative requests
    ``job_types(requests, num_ports)``, whatever the seed, so that `trace_arrivals` gives their arrivals. NPUs,
    TPUs and FPGAs occur in no trace: for each of them, a node has as many as the GPUs of another row of `machines`, and
    a port requests as many as the GPUs of another row of `requests`, sampled independently. Channels, utilities,
    weights and overhead are those of `generate` with the same seed.

    Parameters
    ----------
    machines : polars.DataFrame
        Machines as returned by `desim.workloads.alibaba.machines`. Rows without cores or memory are left out.
    requests : polars.DataFrame
        Requests as returned by `desim.workloads.alibaba.requests`. Rows without cores or memory are left out, and so
        are those that request nothing; a missing number of GPUs is 0. Memory is in GB in both tables or, with
        cluster-trace-v2018 for both, in percent of the largest machine, where a unit of memory is one percent.
    num_ports, num_nodes : int
        Numbers of job types and of machines.
    density : float or None
        Mean number of ports that a node serves.
    contention : float
        Factor by which all requests are multiplied.
    utilities : str
        ``"mixed"`` or the name of a utility.
    weights, overhead : tuple of two floats
        Ranges of alpha and beta.
    seed : int or numpy.random.Generator
        Seed; from a generator, four numbers are sampled at once.

    Returns
    -------
    RewardModel
        Reward model whose ``graph`` has the resources `RESOURCES`.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or there are fewer channels than ports.
    WorkloadError
        If a table lacks a column, no usable row is left, the tables state memory in different units, or the requests
        have fewer different shapes than `num_ports`.
    """
    system = _System(num_ports, num_nodes, density, contention, utilities, weights, overhead)
    streams = NamedStreams(seed)
    memory = memory_column(machines=machines, requests=requests)
    having, asking = amounts_of("machines", machines, memory), amounts_of("requests", requests, memory)
    types = amounts_of("types", job_types(requests, num_ports), memory)
    nodes = having[_rows(streams("machines").random(num_nodes), having)]
    present = having[_rows(streams("machines of other accelerators").random((num_nodes, _OTHERS)), having), 2]
    asked = asking[_rows(streams("pods of other accelerators").random((num_ports, _OTHERS)), asking), 2]
    return system.rewards(streams, (types, asked), (nodes, present))


def _rows(uniforms: Floats, table: Floats) -> NDArray[np.int64]:
    return (uniforms * len(table)).astype(np.int64)


@dataclass(frozen=True)
class _System:
    """Checked arguments of a generated system, and the random parts of it.

    Parameters
    ----------
    num_ports, num_nodes, density, contention, utilities, weights, overhead
        See `generate`.
    """

    num_ports: int
    num_nodes: int
    density: float | None
    contention: float
    utilities: str
    weights: tuple[float, float]
    overhead: tuple[float, float]

    def __post_init__(self) -> None:
        check_int("num_ports", self.num_ports, least=1, most=MOST_ITEMS)
        check_int("num_nodes", self.num_nodes, least=1, most=MOST_ITEMS)
        check_float("contention", self.contention, above=0)
        _check_range("weights", self.weights, above=0)
        _check_range("overhead", self.overhead, least=0)
        if not isinstance(self.utilities, str) or self.utilities not in ("mixed", *UTILITIES):
            raise InvalidConfiguration(
                f"utilities: got {self.utilities!r}, expected 'mixed' or one of {', '.join(UTILITIES)}"
            )
        if self.is_complete:
            return
        density = check_float("density", self.density, least=1)
        if density * self.num_nodes < self.num_ports:
            raise InvalidConfiguration(
                f"density: got {density:g}, which gives {self.num_nodes} nodes fewer channels than the "
                f"{self.num_ports} ports; try a larger density or more nodes"
            )

    @property
    def is_complete(self) -> bool:
        """Whether every node serves every port."""
        return self.density is None or (isinstance(self.density, float) and self.density == math.inf)

    def rewards(self, streams: NamedStreams, ports: tuple[Floats, Floats], nodes: tuple[Floats, Floats]) -> RewardModel:
        """Return the reward model of given requests and capacities.

        Parameters
        ----------
        streams : NamedStreams
            Random streams of the seed.
        ports, nodes : tuple of two arrays
            Requests and capacities: cores, units of memory and GPUs, of shape (n, 3), and other accelerators.

        Returns
        -------
        RewardModel
            Reward model; its requests are multiplied by the contention.
        """
        requests, capacity = np.hstack(ports), np.hstack(nodes)
        graph = BipartiteGraph(requests * self.contention, capacity, self._channels(streams), resources=RESOURCES)
        shape = capacity.shape
        low, high = self.weights
        weights = low + (high - low) * streams("weights").random(shape)
        low, high = self.overhead
        overhead = low + (high - low) * streams("overhead").random(shape[1])
        return RewardModel(graph, self._utilities(streams, shape), weights, overhead)

    def _utilities(self, streams: NamedStreams, shape: tuple[int, ...]) -> Any:
        if self.utilities != "mixed":
            return self.utilities
        return np.array(_MIXED)[streams("utilities").integers(len(_MIXED), size=shape)]

    def _channels(self, streams: NamedStreams) -> list[tuple[int, int]] | None:
        """Return sampled pairs of a port and a node that serves it, or None if all nodes serve all ports."""
        if self.is_complete:
            return None
        degrees = self._degrees(streams)
        draws = streams("channels").random((self.num_nodes, self.num_ports))
        serves = np.empty(draws.shape, dtype=np.bool_)
        first = np.arange(self.num_ports) < degrees[:, None]
        np.put_along_axis(serves, draws.argsort(axis=1, kind="stable"), first, axis=1)
        _serve_all(serves, draws)
        return [(port, node) for node, port in np.argwhere(serves).tolist()]

    def _degrees(self, streams: NamedStreams) -> NDArray[np.int64]:
        """Return sampled numbers of ports per node; those of the first nodes are as close to the mean as possible."""
        density = min(float(self.density or math.inf), float(self.num_ports))
        whole = math.floor(density)
        steps = np.arange(self.num_nodes + 1) * (density - whole) + streams("degrees").random()
        degrees: NDArray[np.int64] = whole + np.diff(np.floor(steps)).astype(np.int64)
        return degrees


def _serve_all(serves: NDArray[np.bool_], draws: Floats) -> None:
    """Give each port without a node a place of the port with the most nodes, on the node that sampled that one last."""
    for port in np.flatnonzero(~serves.any(axis=0)).tolist():
        rich = int(serves.sum(axis=0).argmax())
        node = int(np.where(serves[:, rich], draws[:, rich], -1.0).argmax())
        serves[node, [rich, port]] = False, True


def _check_range(name: str, value: Any, **bounds: float) -> None:
    if not isinstance(value, tuple | list | np.ndarray) or len(value) != 2:
        raise InvalidConfiguration(f"{name}: got {value!r}, expected a pair of numbers: lower and upper bound")
    low, high = (check_float(f"{name}[{at}]", end, **bounds) for at, end in enumerate(value))
    if low > high:
        raise InvalidConfiguration(f"{name}: got {value!r}, expected the smaller number first")
