"""Running means and deviations."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["ObservationNormalizer", "RunningMoments"]


class RunningMoments:
    """Mean and standard deviation of all numbers so far.

    Source: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37(3),
    1983: how the moments of two samples are joined.
    """

    def __init__(self) -> None:
        self.count = 0.0
        self.mean = 0.0
        self.squares = 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation; 1 as long as it is not known or is 0."""
        return math.sqrt(self.squares / self.count) if self.count > 1 and self.squares > 0 else 1.0

    def update(self, numbers: NDArray[np.floating]) -> None:
        """Take in numbers of any shape."""
        count = float(numbers.size)
        if not count:
            return
        mean = float(numbers.mean())
        squares = float(((numbers - mean) ** 2).sum())
        total = self.count + count
        difference = mean - self.mean
        self.squares += squares + difference * difference * self.count * count / total
        self.mean += difference * count / total
        self.count = total

    def normalized(self, numbers: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return numbers less the mean, over the deviation."""
        return (numbers - self.mean) / self.deviation

    def restored(self, numbers: NDArray[np.floating]) -> NDArray[np.floating]:
        """Undo :meth:`normalized`."""
        return numbers * self.deviation + self.mean

    def state(self) -> dict[str, float]:
        """Return plain values."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    def restore(self, state: dict[str, float]) -> None:
        """Take over what :meth:`state` returned."""
        self.count, self.mean, self.squares = state["count"], state["mean"], state["squares"]


class ObservationNormalizer(nn.Module):
    """Scales each input by its running mean and deviation; part of a network, and of its weights.

    It learns only when told so, by :meth:`update`, so that policies act alike in all processes.

    Parameters
    ----------
    size : int
        Number of inputs.
    limit : float
        Scaled inputs are cut at plus and minus this.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor

    def __init__(self, size: int, limit: float = 10.0) -> None:
        super().__init__()
        self.limit = limit
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(size, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the scaled inputs, shape (B, size)."""
        deviation = (self.squares / self.count.clamp(min=1.0)).sqrt().clamp(min=1e-6)
        if not self.count:
            return inputs
        scaled = (inputs - self.mean) / deviation
        return scaled.clamp(-self.limit, self.limit).to(inputs.dtype)

    @torch.no_grad()
    def update(self, inputs: Tensor) -> None:
        """Take in a batch of inputs, shape (B, size)."""
        inputs = inputs.double()
        count = float(len(inputs))
        mean = inputs.mean(0)
        total = self.count + count
        difference = mean - self.mean
        self.squares += ((inputs - mean) ** 2).sum(0) + difference**2 * self.count * count / total
        self.mean += difference * count / total
        self.count.fill_(total)
