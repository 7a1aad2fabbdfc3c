"""Distributions over actions, with exact masks; samples are drawn from a NumPy generator."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import log_softmax

__all__ = ["Distribution", "Gaussian", "MaskedCategorical"]


class Distribution(Protocol):
    """A batch of B distributions over actions."""

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Draw an action of each, shape (B, ...)."""

    def mode(self) -> Tensor:
        """Return the most likely action of each, shape (B, ...)."""

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the logarithm of the probability, or density, of an action of each, shape (B,)."""

    def entropy(self) -> Tensor:
        """Return the entropy of each in nats, shape (B,)."""


class MaskedCategorical:
    """A choice between K actions, some of which are impossible.

    Parameters
    ----------
    logits : Tensor, shape (B, K)
        Unnormalized logarithms of probabilities.
    mask : Tensor, shape (B, K), optional
        Which actions are possible, at least one in each row; all if None.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        self.mask = None if mask is None else mask.bool()
        if self.mask is not None:
            logits = logits.masked_fill(~self.mask, -math.inf)
        self.log_probabilities = log_softmax(logits, dim=-1)

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Draw an action of each, shape (B,), by the Gumbel-max method."""
        noise = torch.from_numpy(rng.gumbel(size=tuple(self.log_probabilities.shape)).astype(np.float32))
        return (self.log_probabilities + noise.to(self.log_probabilities)).argmax(-1)

    def mode(self) -> Tensor:
        """Return the most likely action of each, of equal ones the first, shape (B,)."""
        return self.log_probabilities.argmax(-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the logarithm of the probability of an action of each, shape (B,)."""
        return self.log_probabilities.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy of each in nats, shape (B,)."""
        logs = self.log_probabilities
        if self.mask is not None:  # 0 log 0 is 0, and so is its gradient
            logs = logs.masked_fill(~self.mask, 0.0)
            return -(logs.exp() * logs).masked_fill(~self.mask, 0.0).sum(-1)
        return -(logs.exp() * logs).sum(-1)


class Gaussian:
    """Independent normal distributions of D numbers, some of which do not count.

    Parameters
    ----------
    mean : Tensor, shape (B, D)
        Means.
    deviation : Tensor, shape (B, D)
        Standard deviations, above 0.
    mask : Tensor, shape (B, D), optional
        Which numbers count; all if None. Those that do not are 0 in samples and add nothing to log-probabilities.
    """

    def __init__(self, mean: Tensor, deviation: Tensor, mask: Tensor | None = None) -> None:
        self.mask = torch.ones_like(mean) if mask is None else mask.to(mean)
        self.mean = mean
        self.deviation = deviation

    def sample(self, rng: np.random.Generator) -> Tensor:
        """Draw the numbers of each, shape (B, D)."""
        noise = torch.from_numpy(rng.standard_normal(tuple(self.mean.shape)).astype(np.float32))
        return (self.mean + self.deviation * noise.to(self.mean)) * self.mask

    def mode(self) -> Tensor:
        """Return the means, shape (B, D)."""
        return self.mean * self.mask

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the logarithm of the density of the numbers of each, shape (B,)."""
        scaled = (actions - self.mean) / self.deviation
        logs = -0.5 * scaled * scaled - self.deviation.log() - 0.5 * math.log(2 * math.pi)
        return (logs * self.mask).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy of each in nats, shape (B,)."""
        return ((self.deviation.log() + 0.5 * math.log(2 * math.pi * math.e)) * self.mask).sum(-1)
