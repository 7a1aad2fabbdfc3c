"""What a generated system of ports and nodes is besides its requests and machines: channels, utilities, overhead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import UTILITIES, BipartiteGraph, RewardModel
from desim.workloads._named_streams import NamedStreams, interval, number, whole_number

__all__ = ["MEMORY_UNIT", "MIXED", "RESOURCES", "System"]

Floats = NDArray[np.float64]

#: Resources of a generated system.
RESOURCES = ("cpu", "memory", "gpu", "npu", "tpu", "fpga")
#: GiB in a unit of memory: with 8, a machine has about as many units as cores.
MEMORY_UNIT = 8.0
#: Utilities of a "mixed" system, equation (60) of arXiv 2305.06572.
MIXED = ("linear", "log", "reciprocal", "poly")


@dataclass(frozen=True)
class System:
    """The arguments of a generator, checked, and what is drawn for them.

    Parameters
    ----------
    num_ports, num_nodes, density, contention, utilities, weights, overhead
        See :func:`desim.workloads.multiserver.generate`.
    """

    num_ports: int
    num_nodes: int
    density: float | None
    contention: float
    utilities: str
    weights: tuple[float, float]
    overhead: tuple[float, float]

    def __post_init__(self) -> None:
        whole_number("num_ports", self.num_ports)
        whole_number("num_nodes", self.num_nodes)
        number("contention", self.contention, above=True)
        interval("weights", self.weights, above=True)
        interval("overhead", self.overhead)
        if not isinstance(self.utilities, str) or self.utilities not in ("mixed", *UTILITIES):
            raise InvalidConfiguration(
                f"utilities is {self.utilities!r}, want 'mixed' or one of {', '.join(UTILITIES)}"
            )
        if self.is_complete:
            return
        density = number("density", self.density, least=1.0)
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
        return np.array(MIXED)[streams("utilities").integers(len(MIXED), size=shape)]

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
