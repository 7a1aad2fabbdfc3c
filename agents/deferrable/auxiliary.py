"""What a network learns beside scheduling: to predict the next slot.

Source: Dong et al., "An advanced reinforcement learning framework for online scheduling of deferrable workloads in
cloud computing" (OSDEC), section 4.2.2. Departures: the capacity is predicted as a change from what it is now, and so
are mean cores and durations from their means over the slots that are seen, since these are what a recurrent network
would have to find out first; and the gradient of the policy does not reach the predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from desim.agents.learning.experience import Experience
from desim.agents.learning.policy import drawn
from desim.problems.deferrable.encoder import HISTORY_FEATURES

__all__ = [
    "KNOWN",
    "TARGETS",
    "TASKS",
    "UNITS",
    "WITH_AUXILIARY",
    "Auxiliary",
    "AuxiliaryTasks",
    "next_slots",
    "seen_of",
]

Auxiliary = Literal["none", "high", "low", "both"]
"""Which vectors of the auxiliary module the encoder sees."""

WITH_AUXILIARY: Sequence[str] = ("high", "low", "both")
"""Those that need the module."""

TASKS = ("capacity", "mean_cores", "mean_duration", "violation")
"""What is predicted of the next slot: cores, cores, the compressed duration in slots, and cores above the capacity."""

_CAPACITY, _USED, _VIOLATION, _CORES = range(4)
_JOBS, _DURATION = HISTORY_FEATURES.index("current_jobs"), HISTORY_FEATURES.index("mean_duration")

TARGETS, KNOWN = "next_slot", "next_slot_is_known"
"""Keys of what is to be learned, beside observations."""


class AuxiliaryTasks(nn.Module):
    """A recurrent network over past slots, a layer that all tasks share, and a layer and an output for each task.

    Parameters
    ----------
    num_features : int
        Columns of ``history``.
    num_resources : int
        Resources of the cluster, K; cores are the first.
    rng : numpy.random.Generator
        For the weights.
    hidden : int
        Units of the recurrent network.
    width : int
        Numbers in the shared layer and in each task's.
    """

    def __init__(
        self, num_features: int, num_resources: int, rng: np.random.Generator, *, hidden: int = 32, width: int = 5
    ) -> None:
        super().__init__()
        self.columns = [len(HISTORY_FEATURES) + block * num_resources for block in range(4)]
        self.recurrent = drawn(nn.GRU(num_features, hidden, batch_first=True), rng)
        self.shared = drawn(nn.Linear(hidden, width), rng)
        self.tasks = drawn(nn.Linear(width, len(TASKS) * width), rng)
        self.outputs = nn.Parameter(torch.zeros(len(TASKS), width))
        self.biases = nn.Parameter(torch.zeros(len(TASKS)))

    def vectors(self, history: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the module knows.

        Parameters
        ----------
        history : Tensor of shape (B, H, F)
            Of :class:`~desim.problems.deferrable.encoder.ScoreEncoder`.

        Returns
        -------
        tuple of Tensor
            The low-level vector, shape (B, width), and the high-level one of all tasks, shape (B, tasks x width).
        """
        state = self.recurrent(history)[0][:, -1]
        low = torch.tanh(self.shared(state))
        return low, torch.tanh(self.tasks(low))

    def predictions(self, history: Tensor) -> Tensor:
        """Return what is expected of the next slot, shape (B, tasks), as the targets of :func:`next_slots`."""
        _, high = self.vectors(history)
        parts = high.reshape(len(high), len(TASKS), -1)
        found: Tensor = (parts * self.outputs).sum(2) + self.biases + self._expected(history)
        return found

    def _expected(self, history: Tensor) -> Tensor:
        """Return what would be expected without learning: the capacity as it is, means of jobs as they have been."""
        capacity = history[:, -1, self.columns[_CAPACITY]]
        there = (history[:, :, _JOBS] > 0).to(history)
        number = there.sum(1).clamp(min=1.0)
        cores = (history[:, :, self.columns[_CORES]] * there).sum(1) / number
        duration = (history[:, :, _DURATION] * there).sum(1) / number
        return torch.stack([capacity, cores, duration, torch.zeros_like(capacity)], dim=1)

    def loss(self, observations: dict[str, Tensor]) -> Tensor:
        """Return the mean squared error over all tasks, each in units of its own usual error."""
        known = observations[KNOWN]
        scale = observations[TARGETS].new_tensor(UNITS)
        errors = (self.predictions(observations["history"]) - observations[TARGETS]) / scale
        return (errors.square() * known).sum() / known.sum().clamp(min=1.0)


UNITS = (0.01, 0.2, 0.1, 0.02)
"""About how far predictions are off, which lets no task drown the others; the capacity, which has to be told from what
it was a slot ago by hundredths, counts a little more."""


def next_slots(experience: Experience, num_resources: int) -> dict[str, NDArray[np.float32]]:
    """Return what the tasks are to predict in each step.

    Parameters
    ----------
    experience : Experience
        T steps of N environments that ask in every slot.
    num_resources : int
        Resources of the cluster.

    Returns
    -------
    dict of str to array of shape (T, N, tasks)
        The targets, in the scale of the encoder, and whether each is known: at the end of an episode or of
        the experience nothing is, and in a slot without jobs their means are not.
    """
    slots = experience.observations["history"][:, :, -1]
    targets = np.zeros((*slots.shape[:2], len(TASKS)), np.float32)
    known = np.zeros_like(targets)
    targets[:-1], known[:-1] = seen_of(slots[1:], num_resources)
    known[:-1] *= (experience.valid[1:] & ~experience.ends[:-1])[:, :, None]
    return {TARGETS: targets, KNOWN: known}


def seen_of(slots: NDArray[np.float32], num_resources: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return what the tasks should have predicted of slots.

    Parameters
    ----------
    slots : array of shape (..., F)
        Rows of ``history``, each the last of its own.
    num_resources : int
        Resources of the cluster.

    Returns
    -------
    tuple of array of shape (..., tasks)
        The targets, and whether there is such a thing: 1 or 0.
    """
    first = len(HISTORY_FEATURES)
    columns = [first + _CAPACITY * num_resources, first + _CORES * num_resources, _DURATION]
    columns.append(first + _VIOLATION * num_resources)
    known = np.ones((*slots.shape[:-1], len(TASKS)), np.float32)
    known[..., 1:3] = (slots[..., _JOBS] > 0)[..., None]
    return slots[..., columns], known
