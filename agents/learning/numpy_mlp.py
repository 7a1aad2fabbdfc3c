"""Fully connected networks in NumPy, for decisions one at a time.

With inputs of a few rows torch spends more time on the way than at work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from desim.exceptions import InvalidConfiguration

__all__ = ["NumpyMLP"]

Floats = NDArray[np.float32]


class NumpyMLP:
    """A copy of a network as it is now.

    Parameters
    ----------
    network : torch.nn.Sequential
        Linear layers with the same units between them, and none at the end.

    Attributes
    ----------
    layers : list of pairs of arrays
        Transposed weights, shape (inputs, outputs), and biases, of each layer.
    activation : callable
        What is between layers.

    Raises
    ------
    InvalidConfiguration
        If the units are none of tanh, ReLU and leaky ReLU.
    """

    def __init__(self, network: nn.Sequential) -> None:
        linear = [module for module in network if isinstance(module, nn.Linear)]
        units = [module for module in network if not isinstance(module, nn.Linear)]
        self.layers: list[tuple[Floats, Floats]] = [
            (array_of(layer.weight).T.copy(), array_of(layer.bias)) for layer in linear
        ]
        self.activation = _activation(units[0]) if units else np.asarray

    def __call__(self, x: Floats) -> Floats:
        """Return the outputs, shape (..., outputs)."""
        return self.after_first(x @ self.layers[0][0] + self.layers[0][1])

    def after_first(self, x: Floats) -> Floats:
        """Return the outputs, given those of the first linear layer.

        Parameters
        ----------
        x : array of float, shape (..., units)
            Before its activation.
        """
        for weight, bias in self.layers[1:]:
            x = self.activation(x) @ weight
            x += bias
        return x


def array_of(tensor: Any) -> Floats:
    """Return a tensor as an array in single precision."""
    array: Floats = tensor.detach().cpu().numpy().astype(np.float32)
    return array


def _activation(unit: nn.Module) -> Callable[[Floats], Floats]:
    """Return what a unit computes."""
    if isinstance(unit, nn.Tanh):
        return np.tanh
    if isinstance(unit, nn.LeakyReLU):
        slope = np.float32(unit.negative_slope)
        return lambda x: np.maximum(x, slope * x)
    if isinstance(unit, nn.ReLU):
        return lambda x: np.maximum(x, np.float32(0.0))
    raise InvalidConfiguration(f"no copy of {type(unit).__name__} in NumPy; there are Tanh, ReLU and LeakyReLU")
