"""Weights of library modules from a passed generator."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
import torch
from torch import nn

__all__ = ["drawn"]

Module = TypeVar("Module", bound=nn.Module)


def drawn(module: Module, rng: np.random.Generator, gain: float = 1.0) -> Module:
    """Give a module weights as Glorot and Bengio propose, no biases, and return it.

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS
    2010.

    Parameters
    ----------
    module : torch.nn.Module
        Changed in place; the weights of normalization layers stay as they are.
    rng : numpy.random.Generator
        For the weights.
    gain : float
        The weights are larger by this.

    Returns
    -------
    torch.nn.Module
        The same module.
    """
    for name, parameter in module.named_parameters():
        if parameter.dim() >= 2:
            bound = gain * math.sqrt(6.0 / (parameter.shape[0] + parameter.shape[1]))
            numbers = rng.uniform(-bound, bound, tuple(parameter.shape)).astype(np.float32)
            parameter.data = torch.from_numpy(numbers)
        elif "bias" in name:
            nn.init.zeros_(parameter)
    return module
