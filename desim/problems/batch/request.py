"""Requests of jobs for tasks on nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from desim.checks import short_repr

__all__ = ["GPU", "Request", "fault_of_amounts"]

GPU = 1000
"""Number of parts per GPU: shares are counted in thousandths."""
MOST_AMOUNT = 2**60
"""Largest amount of a resource; sums of amounts have 64 bits."""


@dataclass(frozen=True)
class Request:
    """Resource request of a job: a number of equal tasks, each of which runs on one node.

    Attributes
    ----------
    tasks : int
        Number of tasks, at least 1.
    cores : int
        Number of cores per task, at least 1.
    memory : int
        Memory per task in bytes.
    gpus : float
        GPUs per task: an integer, or a multiple of 0.001 below 1, which is a share of a single GPU.
    gpu_models : tuple of str
        Acceptable GPU models; empty for any.
    resources : tuple of (str, int)
        Names and amounts of other resources per task.
    partition : str
        Required partition; empty for any.
    features, without : tuple of str
        Features that nodes must have, and features that they must not have.
    exclusive : bool
        Whether the job needs its nodes for itself.
    tasks_per_node : int or None
        Maximum number of tasks per node; None for no limit.
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

    @property
    def num_cores(self) -> int:
        """Number of cores of all tasks."""
        return self.tasks * self.cores

    def fault(self) -> str:
        """Return the first fault of the request, or an empty string if it is valid."""
        least: dict[str, tuple[Any, int]] = {"tasks": (self.tasks, 1), "cores": (self.cores, 1)}
        least |= {"memory": (self.memory, 0)} | {name: (amount, 0) for name, amount in self.resources}
        if self.tasks_per_node is not None:
            least["tasks_per_node"] = self.tasks_per_node, 1
        if fault := fault_of_amounts(least):
            return fault
        share = self.gpus * GPU
        if not 0 <= share < float("inf") or abs(share - round(share)) > 1e-6:
            return f"gpus: got {self.gpus!r}, expected an integer >= 0, or a multiple of 0.001 below 1"
        if self.gpus > 1 and self.gpus != int(self.gpus):
            return f"gpus: got {self.gpus!r}, expected an integer or less than 1, because a share is of a single GPU"
        return ""


def fault_of_amounts(least: Mapping[str, tuple[Any, int]]) -> str:
    """Return why a value is not an integer of at least its minimum, or an empty string if all are."""
    for name, (value, smallest) in least.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < smallest:
            return f"{name}: got {short_repr(value)}, expected an integer >= {smallest}"
        if value > MOST_AMOUNT:
            return f"{name}: got {short_repr(value)}, expected an integer <= {MOST_AMOUNT}"
    return ""
