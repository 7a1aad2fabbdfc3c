"""Step sizes of online gradient ascent.

A step size is an object with ``start(rewards)``, called when a run begins, and ``next(gradient)``, which returns the
step for the gradient of one slot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, Rewards

__all__ = [
    "GeometricSteps",
    "NormalizedSteps",
    "StepSize",
    "TheoreticalSteps",
    "as_steps",
    "diameter_bound",
    "gradient_bound",
]

Floats = NDArray[np.float64]


class StepSize(Protocol):
    """What an online gradient method asks for its step."""

    def start(self, rewards: Rewards) -> None:
        """Begin a run.

        Parameters
        ----------
        rewards : Rewards
            Of the run.
        """

    def next(self, gradient: Floats) -> float:
        """Return the step for the next gradient.

        Parameters
        ----------
        gradient : numpy.ndarray of shape (num_channels, num_resources)
            Of the slot that has just ended.

        Returns
        -------
        float
            What the gradient is multiplied by.
        """


def as_steps(steps: StepSize | float) -> StepSize:
    """Return step sizes as they are, and a number as the first of geometric ones.

    Parameters
    ----------
    steps : StepSize or float
        What an agent was given.

    Returns
    -------
    StepSize
        Geometric steps with decay 0.9999 for a number.
    """
    return GeometricSteps(float(steps)) if isinstance(steps, Real) else cast("StepSize", steps)


def diameter_bound(graph: BipartiteGraph) -> float:
    """Return the bound on the diameter of the feasible set, equation (53).

    Parameters
    ----------
    graph : BipartiteGraph
        Requests and capacities.

    Returns
    -------
    float
        sqrt(2 sum_k max_l a_l^k sum_r c_r^k).
    """
    return math.sqrt(2.0 * float(graph.requests.max(axis=0) @ graph.capacity.sum(axis=0)))


def gradient_bound(rewards: Rewards) -> float:
    """Return the bound on the norm of a slot's gradient, equation (50).

    Parameters
    ----------
    rewards : Rewards
        Utilities and overhead.

    Returns
    -------
    float
        sqrt(sum over channels of (max_k beta_k)^2 + K (max_k varpi_r^k)^2).
    """
    steepest = rewards.slopes_at_zero.max(axis=1)[rewards.graph.channel_node]
    squares = rewards.overhead.max() ** 2 + rewards.graph.num_resources * steepest**2
    return math.sqrt(float(squares.sum()))


@dataclass
class GeometricSteps:
    """Steps that shrink, or grow, by a constant factor (algorithm 1, last line).

    Parameters
    ----------
    initial : float
        The first step, eta_0, above 0.
    decay : float
        Factor from one slot to the next, lambda, above 0; 0.995 to 0.9999 did best in the paper.

    Raises
    ------
    InvalidConfiguration
        If a parameter is not above 0.
    """

    initial: float
    decay: float = 0.9999
    _step: float = field(default=math.nan, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the parameters."""
        for name in ("initial", "decay"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InvalidConfiguration(f"{name} is {value!r}, want a number above 0")

    def start(self, rewards: Rewards) -> None:
        """Begin with the first step."""
        self._step = self.initial

    def next(self, gradient: Floats) -> float:
        """Return the step and shrink it."""
        step = self._step
        self._step *= self.decay
        return step


def check_horizon(num_slots: int) -> None:
    """Raise InvalidConfiguration unless a number of slots is whole and at least 1."""
    if num_slots < 1 or num_slots != int(num_slots):
        raise InvalidConfiguration(f"num_slots is {num_slots!r}, want a whole number of at least 1")


@dataclass
class _HorizonSteps:
    """What steps for a known number of slots have in common."""

    num_slots: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_horizon(self.num_slots)
        if not 0 < self.scale < math.inf:
            raise InvalidConfiguration(f"scale is {self.scale!r}, want a number above 0")


@dataclass
class TheoreticalSteps(_HorizonSteps):
    """The constant step that minimizes the regret bound of theorem 1 for a known number of slots.

    Parameters
    ----------
    num_slots : int
        The horizon T, at least 1.
    scale : float
        Multiplies the step; at 1 the bound holds.

    Raises
    ------
    InvalidConfiguration
        If a parameter is out of range.
    """

    _step: float = field(default=math.nan, init=False, repr=False)

    def start(self, rewards: Rewards) -> None:
        """Compute the diameter over the largest gradient and sqrt(T), from the bounds (50) and (53)."""
        largest = gradient_bound(rewards)
        self._step = (
            self.scale * diameter_bound(rewards.graph) / (largest * math.sqrt(self.num_slots)) if largest else 0.0
        )

    def next(self, gradient: Floats) -> float:
        """Return the step."""
        return self._step


@dataclass
class NormalizedSteps(_HorizonSteps):
    """The step of equation (55), which divides by the norm of each slot's own gradient.

    Parameters
    ----------
    num_slots : int
        The horizon T, at least 1.
    scale : float
        Multiplies the step.

    Raises
    ------
    InvalidConfiguration
        If a parameter is out of range.
    """

    _length: float = field(default=math.nan, init=False, repr=False)

    def start(self, rewards: Rewards) -> None:
        """Compute how far every step goes."""
        self._length = self.scale * diameter_bound(rewards.graph) / math.sqrt(self.num_slots)

    def next(self, gradient: Floats) -> float:
        """Return the length of a step over the norm of the gradient, 0 if that is 0."""
        norm = math.sqrt(float(np.vdot(gradient, gradient)))
        return self._length / norm if norm else 0.0
