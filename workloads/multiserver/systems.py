"""Systems of ports and nodes: generated from fitted models, or made of Alibaba's traces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.checks import check_float, check_int
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
#: Accelerators that no public trace has.
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

    The defaults are those of arXiv 2305.06572, section 4 and table II. That paper takes machines and jobs from
    cluster-trace-v2018 and cluster-trace-gpu-v2020, but does not tell which ones, nor their units. Here

    * a node is a machine of cluster-trace-gpu-v2020, drawn from the mix of its 1,897 machines (83 have no GPU);
    * a port is a pod drawn from a model fitted to the 8,152 pods of cluster-trace-gpu-v2023, the newest of the three
      traces: its class (no GPU, a part of one, one, several), then the amounts. Tasks of cluster-trace-v2018 are not
      used: nearly all ask for 0.5 or 1 core, all for memory in an undisclosed unit and for no GPU;
    * NPUs, TPUs and FPGAs are in no public trace: a node has as many of each as the GPUs of another machine, drawn
      independently, and a port asks for as many of each as the GPUs of another pod.

    Everything has a random stream of its own. With the same seed, the first machines are the same however many there
    are, and so are the first requests; `contention`, `utilities`, `weights` and `overhead` change nothing but what they
    are about; and a node takes its ports from the beginning of the same random order, whatever the `density`.

    Parameters
    ----------
    num_ports, num_nodes : int
        Number of job types and of machines.
    density : float or None
        Mean number of ports that a node serves, at least 1; a node serves this number rounded up or down. Which ports
        is drawn uniformly, but no port stays without a node: it would take a place of the port that has the most. None,
        infinity, and what exceeds `num_ports` give the complete graph.
    contention : float
        The contention level, above 0: multiplies all requests.
    utilities : str
        ``"mixed"`` draws ``"linear"``, ``"log"``, ``"reciprocal"`` or ``"poly"`` with equal probability for each node
        and resource; the name of a utility makes it that one everywhere.
    weights : tuple of two floats
        Range of alpha, which is uniform for each node and resource; above 0.
    overhead : tuple of two floats
        Range of beta, which is uniform for each resource; at least 0.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once.

    Returns
    -------
    RewardModel
        Its ``graph`` has the resources `RESOURCES`.

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
    """Make a system of machines and requests that are in a trace.

    The nodes are rows of `machines`, drawn uniformly and with replacement. The ports are the representative requests
    ``job_types(requests, num_ports)``, whatever the seed, so that `trace_arrivals` can tell the arrivals of each. NPUs,
    TPUs and FPGAs are in no trace: a node has as many of each as the GPUs of another row of `machines`, a port asks for
    as many as the GPUs of another row of `requests`, drawn independently. Channels, utilities, weights and overhead are
    drawn as by `generate`, with the same seed the same.

    Parameters
    ----------
    machines : polars.DataFrame
        As `desim.workloads.alibaba.machines` returns it. Rows without a number of cores or memory are left out.
    requests : polars.DataFrame
        As `desim.workloads.alibaba.requests` returns it. Rows without a number of cores or memory are left out, as are
        those that ask for nothing; no number of GPUs is 0 GPUs. Memory is in GB in both tables or, with
        cluster-trace-v2018 for both, in percent of the largest machine, where a unit of memory is one percent.
    num_ports, num_nodes : int
        Number of job types and of machines.
    density : float or None
        Mean number of ports that a node serves.
    contention : float
        Multiplies all requests.
    utilities : str
        ``"mixed"`` or the name of a utility.
    weights, overhead : tuple of two floats
        Ranges of alpha and beta.
    seed : int or numpy.random.Generator
        From a generator, four numbers are drawn at once.

    Returns
    -------
    RewardModel
        Its ``graph`` has the resources `RESOURCES`.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or there are fewer channels than ports.
    WorkloadError
        If a table lacks a column, no row is left, the tables state memory in different units, or the requests have
        fewer different shapes than there are to be ports.
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
    """The arguments of a generator, checked, and what is drawn for them.

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
        check_int("num_ports", self.num_ports, least=1)
        check_int("num_nodes", self.num_nodes, least=1)
        check_float("contention", self.contention, above=0)
        _check_range("weights", self.weights, above=0)
        _check_range("overhead", self.overhead, least=0)
        if not isinstance(self.utilities, str) or self.utilities not in ("mixed", *UTILITIES):
            raise InvalidConfiguration(
                f"utilities is {self.utilities!r}, want 'mixed' or one of {', '.join(UTILITIES)}"
            )
        if self.is_complete:
            return
        density = check_float("density", self.density, least=1)
        if density * self.num_nodes < self.num_ports:
            raise InvalidConfiguration(
                f"density is {density:g}, which gives {self.num_nodes} nodes fewer channels than there are ports "
                f"({self.num_ports}), so that some port would have none"
            )

    @property
    def is_complete(self) -> bool:
        """Whether every node is asked to serve every port."""
        return self.density is None or (isinstance(self.density, float) and self.density == math.inf)

    def rewards(self, streams: NamedStreams, ports: tuple[Floats, Floats], nodes: tuple[Floats, Floats]) -> RewardModel:
        """Put a system together.

        Parameters
        ----------
        streams : NamedStreams
            Of the seed.
        ports, nodes : tuple of two arrays
            Requests and capacities: cores, units of memory and GPUs, of shape (n, 3), and the other accelerators.

        Returns
        -------
        RewardModel
            Requests multiplied by the contention.
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
        """Draw which ports each node serves; None for all."""
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
        """Draw how many ports each node serves, so that any first few nodes come as near to the mean as they can."""
        density = min(float(self.density or math.inf), float(self.num_ports))
        whole = math.floor(density)
        steps = np.arange(self.num_nodes + 1) * (density - whole) + streams("degrees").random()
        degrees: NDArray[np.int64] = whole + np.diff(np.floor(steps)).astype(np.int64)
        return degrees


def _serve_all(serves: NDArray[np.bool_], draws: Floats) -> None:
    """Give each port without a node the place of the port with the most nodes, where that one came last."""
    for port in np.flatnonzero(~serves.any(axis=0)).tolist():
        rich = int(serves.sum(axis=0).argmax())
        node = int(np.where(serves[:, rich], draws[:, rich], -1.0).argmax())
        serves[node, [rich, port]] = False, True


def _check_range(name: str, value: Any, **bounds: float) -> None:
    if not isinstance(value, tuple | list | np.ndarray) or len(value) != 2:
        raise InvalidConfiguration(f"{name} is {value!r}, want a pair of numbers: from, to")
    low, high = (check_float(f"{name}[{at}]", end, **bounds) for at, end in enumerate(value))
    if low > high:
        raise InvalidConfiguration(f"{name} is {value!r}, want the smaller number first")
