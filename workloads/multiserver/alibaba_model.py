"""Parametric model of the machines and requests of the Alibaba traces: fitted constants, and functions to sample it.

Machines have the mix of shapes in the machine table of cluster-trace-gpu-v2020 (1,897 machines). Requests follow the
8,152 pods of cluster-trace-gpu-v2023, in four classes by their request for GPUs. Within a class, GPUs follow their
observed shares (in tenths of a GPU for shared ones), and CPU and memory follow their deciles. A Gaussian copula relates
the three ("normal to anything": M. C. Cario and B. L. Nelson, "Modeling and generating random vectors with arbitrary
marginal distributions and correlation matrix", 1997). The tests compute the constants from the files.

References: Q. Weng et al., "MLaaS in the wild: workload analysis and scheduling in large-scale heterogeneous GPU
clusters", NSDI 2022 (v2020); Q. Weng et al., "Beware of fragmentation: scheduling GPU-sharing workloads with
fragmentation gradient descent", USENIX ATC 2023 (v2023); https://github.com/alibaba/clusterdata.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

__all__ = [
    "LEVELS",
    "MACHINE_SHAPES",
    "POD_CLASSES",
    "MachineShape",
    "PodClass",
    "draw_gpus",
    "draw_machines",
    "draw_requests",
]

Floats = NDArray[np.float64]

#: Levels of the quantiles. Beyond the first and last they are constant, so a few unusual pods have no effect.
LEVELS = (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)


class MachineShape(NamedTuple):
    """Group of machines with the same amounts of all resources.

    Attributes
    ----------
    cores : float
        Number of CPU cores.
    memory : float
        Memory in GiB.
    gpus : int
        Number of GPUs of any model.
    machines : int
        Number of machines in the group.
    """

    cores: float
    memory: float
    gpus: int
    machines: int


class PodClass(NamedTuple):
    """Class of pods that request GPUs in the same way.

    Attributes
    ----------
    gpus : tuple of (float, int)
        Amounts of GPUs requested per pod, each with the number of pods.
    cores, memory : tuple of float
        Quantiles of cores and GiB at `LEVELS`; per GPU, if a pod requests more than one.
    correlations : tuple of three floats
        Correlations of the normal scores: GPUs and cores, GPUs and memory, cores and memory.
    """

    gpus: tuple[tuple[float, int], ...]
    cores: tuple[float, ...]
    memory: tuple[float, ...]
    correlations: tuple[float, float, float]


#: The 1,897 machines of cluster-trace-gpu-v2020.
MACHINE_SHAPES = (
    MachineShape(cores=64.0, memory=512.0, gpus=2, machines=798),
    MachineShape(cores=96.0, memory=512.0, gpus=2, machines=497),
    MachineShape(cores=96.0, memory=512.0, gpus=8, machines=339),
    MachineShape(cores=96.0, memory=384.0, gpus=8, machines=180),
    MachineShape(cores=96.0, memory=512.0, gpus=0, machines=83),
)

#: The 8,152 pods of cluster-trace-gpu-v2023: without a GPU, with part of one, with one, with several.
POD_CLASSES = (
    PodClass(
        gpus=((0.0, 1088),),
        cores=(8.0, 8.0, 12.5, 12.5, 12.5, 12.5, 15.4, 16.5, 32.0, 32.0, 32.0),
        memory=(15.259, 29.802, 48.0, 48.0, 48.0, 50.0, 50.0, 56.0, 56.0, 56.0, 61.035),
        correlations=(0.0, 0.0, -0.05),
    ),
    PodClass(
        gpus=((0.1, 32), (0.2, 276), (0.3, 340), (0.4, 55), (0.5, 897), (0.6, 147), (0.7, 253), (0.8, 1078)),
        cores=(3.152, 3.152, 3.152, 3.152, 4.0, 4.0, 6.0, 8.0, 11.908, 11.908, 11.908),
        memory=(5.469, 5.469, 5.469, 5.469, 10.352, 14.9, 29.802, 29.802, 46.0, 46.0, 46.0),
        correlations=(-0.53, -0.58, 0.96),
    ),
    PodClass(
        gpus=((1.0, 3911),),
        cores=(3.152, 3.152, 8.0, 11.3, 11.3, 11.4, 11.4, 11.908, 14.2, 16.0, 24.2),
        memory=(5.469, 5.469, 24.0, 32.0, 46.0, 47.0, 48.0, 48.0, 57.0, 63.0, 91.0),
        correlations=(0.0, 0.0, 0.63),
    ),
    PodClass(
        gpus=((2.0, 16), (4.0, 15), (8.0, 44)),
        cores=(3.0, 8.0, 8.025, 8.025, 8.05, 8.1, 8.7, 11.0, 11.0, 15.025, 15.1),
        memory=(21.0, 32.0, 32.125, 32.125, 32.125, 32.25, 32.5, 40.0, 40.0, 78.25, 90.0),
        correlations=(0.03, 0.13, 0.94),
    ),
)


def draw_machines(uniforms: Floats) -> Floats:
    """Sample machines.

    Parameters
    ----------
    uniforms : numpy.ndarray of shape (n,)
        Uniform random numbers between 0 and 1, one per machine.

    Returns
    -------
    numpy.ndarray of shape (n, 3)
        Cores, GiB and GPUs of each machine.
    """
    shapes = np.array(MACHINE_SHAPES, dtype=np.float64)
    result: Floats = shapes[_pick(shapes[:, 3], uniforms), :3]
    return result


def draw_requests(classes: Floats, normals: Floats) -> Floats:
    """Sample requests.

    Parameters
    ----------
    classes : numpy.ndarray of shape (n,)
        Uniform random numbers between 0 and 1 that choose the class of each request.
    normals : numpy.ndarray of shape (n, 3)
        Independent standard normal numbers that choose the amounts.

    Returns
    -------
    numpy.ndarray of shape (n, 3)
        Cores, GiB and GPUs of each request.
    """
    from scipy.special import ndtr

    result = np.empty((len(classes), 3))
    chosen = _pick(_pods_of_classes(), classes)
    for index, pods in enumerate(POD_CLASSES):
        rows = np.flatnonzero(chosen == index)
        scores = normals[rows] @ np.linalg.cholesky(_correlation_matrix(pods)).T
        level = ndtr(scores)
        gpus = _gpus(pods, level[:, 0])
        each = np.maximum(gpus, 1.0)
        result[rows, 0] = np.interp(level[:, 1], LEVELS, pods.cores) * each
        result[rows, 1] = np.interp(level[:, 2], LEVELS, pods.memory) * each
        result[rows, 2] = gpus
    return result


def draw_gpus(rng: Generator, shape: tuple[int, ...]) -> Floats:
    """Sample only the GPUs that pods request.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness; one number is sampled per pod.
    shape : tuple of int
        Shape of the result.

    Returns
    -------
    numpy.ndarray
        GPUs per pod, 0 for pods without one.
    """
    amounts, pods = np.array([pair for kind in POD_CLASSES for pair in kind.gpus]).T
    result: Floats = amounts[_pick(pods, rng.random(shape))]
    return result


def _pick(counts: Floats, uniforms: Floats) -> NDArray[np.int64]:
    """Return indices with probabilities proportional to their counts."""
    shares = np.cumsum(counts) / counts.sum()
    return np.searchsorted(shares[:-1], uniforms, side="right")


def _pods_of_classes() -> Floats:
    return np.array([sum(pods for _, pods in kind.gpus) for kind in POD_CLASSES], dtype=np.float64)


def _gpus(kind: PodClass, level: Floats) -> Floats:
    amounts, pods = np.array(kind.gpus, dtype=np.float64).T
    result: Floats = amounts[_pick(pods, level)]
    return result


def _correlation_matrix(kind: PodClass) -> Floats:
    with_cores, with_memory, of_both = kind.correlations
    return np.array([[1.0, with_cores, with_memory], [with_cores, 1.0, of_both], [with_memory, of_both, 1.0]])
