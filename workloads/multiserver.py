"""Systems and arrivals for multi-server jobs: generated from fitted models, or taken from Alibaba's traces.

The amounts of the six `RESOURCES` are in cores, units of 8 GiB of memory, and pieces of accelerators. With that unit a
machine has about as many units of memory as cores, and neither outweighs the other in the sums of rewards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.problems.multiserver import RewardModel
from desim.workloads._alibaba_model import draw_gpus, draw_machines, draw_requests
from desim.workloads._job_types import amounts_of, job_types, memory_column, trace_arrivals
from desim.workloads._multiserver_system import MEMORY_UNIT, RESOURCES, System
from desim.workloads._named_streams import NamedStreams
from desim.workloads._slot_arrivals import bernoulli_arrivals, periodic_arrivals, poisson_arrivals

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "RESOURCES",
    "bernoulli_arrivals",
    "descriptions",
    "from_alibaba",
    "generate",
    "job_types",
    "periodic_arrivals",
    "poisson_arrivals",
    "trace_arrivals",
]

Floats = NDArray[np.float64]
#: Accelerators that no public trace has.
_OTHERS = len(RESOURCES) - 3
_UNITS = np.array([1.0, MEMORY_UNIT, 1.0])


def descriptions() -> dict[str, str]:
    """Return the workloads that the command line can make, with a line on each.

    Returns
    -------
    dict of str to str
        There is one.
    """
    return {"generated": "Machines and requests like those of Alibaba's clusters, arrivals with equal probabilities."}


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
    system = System(num_ports, num_nodes, density, contention, utilities, weights, overhead)
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
    system = System(num_ports, num_nodes, density, contention, utilities, weights, overhead)
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
