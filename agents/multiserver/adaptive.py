"""One step beyond OGASched: online gradient methods that choose their own step sizes, or look ahead.

AdaGrad (Duchi, Hazan and Singer, JMLR 2011) divides every coordinate's step by the root of the sum of its squared
gradients, so that rare and flat coordinates still move; the projection is then in the norm that these roots define.
Optimistic mirror ascent (Rakhlin and Sridharan, NIPS 2013) takes a second step, along a guess of the next
gradient, before it answers. Here the guess is the gradient to be expected if every port has a job as often as it had so
far: arrivals are random, but what the rewards gain is known.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.agents.multiserver.oga import Form, OnlineGradient
from desim.agents.multiserver.step_sizes import StepSize, as_steps
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import MultiServerObservation

__all__ = ["AdaGrad", "OptimisticOGA"]

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: Keeps the first division finite where a gradient was always zero.
SMALLEST = 1e-6


class AdaGrad(OnlineGradient):
    """Online gradient ascent with a step size of its own for every channel and resource.

    Parameters
    ----------
    form : {"reservation", "reactive"}
        When the arrivals are seen, see :class:`OnlineGradient`.
    rate : float
        Length of the first step in every coordinate, in units of the resource, above 0; later steps shrink with the
        root of the sum of squared gradients.
    forget : float
        Factor on the sum of squared gradients from one job of a port to its next, above 0 and at most 1; below 1 the
        steps no longer go to zero, and the method follows changes.
    start : array_like of shape (num_channels, num_resources), optional
        Allocation to begin with; zero if left out.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        What the agent has learned so far; None before the first slot.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    def __init__(
        self, form: Form = "reactive", rate: float = 10.0, forget: float = 1.0, start: ArrayLike | None = None
    ) -> None:
        super().__init__(form, start)
        if not 0 < rate < math.inf:
            raise InvalidConfiguration(f"rate is {rate!r}, want a number above 0")
        if not 0 < forget <= 1:
            raise InvalidConfiguration(f"forget is {forget!r}, want a number above 0 and at most 1")
        self.rate = rate
        self.forget = forget
        self.name = f"adagrad-{form}"

    def begin(self, observation: MultiServerObservation) -> None:
        """Begin with no gradient seen."""
        self._squares = np.zeros(observation.graph.shape)

    def learn(
        self, allocation: Floats, observation: MultiServerObservation, ports: Booleans | None, capacity: Floats | None
    ) -> Floats:
        """Take a step along the scaled gradient and project in the norm of the scales."""
        gradient = observation.rewards.gradient(allocation, observation.arrived)
        if self.forget < 1:
            present = observation.arrived[observation.graph.channel_port][:, None]
            self._squares *= np.where(present, self.forget, 1.0)
        self._squares += np.square(gradient)
        scales = self.rate / np.sqrt(self._squares + SMALLEST**2)
        return self.projection(allocation + scales * gradient, ports=ports, capacity=capacity, weights=scales)


class OptimisticOGA(OnlineGradient):
    """Optimistic online gradient ascent for reservations, with the expected gradient as the guess.

    Parameters
    ----------
    steps : StepSize or float
        Steps, or the first of geometric steps with decay 0.9999.
    start : array_like of shape (num_channels, num_resources), optional
        Allocation to begin with; zero if left out.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        What the agent has learned so far; None before the first slot.
    frequencies : numpy.ndarray of shape (num_ports,)
        How often each port had a job.
    """

    def __init__(self, steps: StepSize | float = 25.0, start: ArrayLike | None = None) -> None:
        super().__init__("reservation", start)
        self.steps: StepSize = as_steps(steps)
        self.name = "optimistic-oga"

    def begin(self, observation: MultiServerObservation) -> None:
        """Begin with the first step and no arrival seen."""
        self.steps.start(observation.rewards)
        self.frequencies: Floats = np.zeros(observation.graph.num_ports)
        self._slots = 0
        self._step = 0.0

    def reserve(self, observation: MultiServerObservation) -> Floats:
        """Step along the gradient that is to be expected, from what was learned."""
        assert self.allocation is not None
        if self._slots == 0:
            return self.allocation
        guess = observation.rewards.gradient(self.allocation, self.frequencies)
        return self.projection(self.allocation + self._step * guess)

    def learn(
        self, allocation: Floats, observation: MultiServerObservation, ports: Booleans | None, capacity: Floats | None
    ) -> Floats:
        """Step along the gradient at the answer, from what was learned before."""
        gradient = observation.rewards.gradient(allocation, observation.arrived)
        self._step = self.steps.next(gradient)
        self._slots += 1
        self.frequencies = self.frequencies + (observation.arrived - self.frequencies) / self._slots
        assert self.allocation is not None
        return self.projection(self.allocation + self._step * gradient)
