"""OGASched: online gradient ascent on the reward of each slot (algorithm 1 of arXiv 2305.06572)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.agents.multiserver.projection import Projection
from desim.agents.multiserver.step_sizes import StepSize, as_steps
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, MultiServerObservation

__all__ = ["Form", "OGASched", "OnlineGradient"]

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]
Form = Literal["reservation", "reactive"]


class OnlineGradient(ABC):
    """What online gradient methods have in common: when they learn, and what they remember.

    In the form ``reservation`` (definition 2 of the paper, to which the regret bound applies) y(t) is fixed before the
    jobs of the slot are seen, and ports without a job keep what is reserved for them. In the form ``reactive`` the jobs
    are seen first: the ports that have one take the gradient step and share the whole capacity between them, and each
    port remembers what it was given last.

    Parameters
    ----------
    form : {"reservation", "reactive"}
        When the arrivals are seen.
    start : array_like of shape (num_channels, num_resources), optional
        Allocation to begin with, such as the ``allocation`` of an agent that has run before (a warm start); it is
        projected onto the feasible set. Zero if left out.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        What the agent has learned so far, y(t); None before the first slot.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or, in the first slot, ``start`` does not fit the graph.
    """

    def __init__(self, form: Form, start: ArrayLike | None) -> None:
        if form not in ("reservation", "reactive"):
            raise InvalidConfiguration(f"form is {form!r}, want 'reservation' or 'reactive'")
        self.form = form
        self.start = start
        self.allocation: Floats | None = None

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Forget what was learned; the next slot begins from ``start``."""
        self.allocation = None

    def act(self, observation: MultiServerObservation) -> Floats:
        """Return the allocation of the slot, and learn from the slot.

        Parameters
        ----------
        observation : MultiServerObservation
            Jobs, free capacity and rewards.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            Feasible.
        """
        graph = observation.graph
        if self.allocation is None:
            self.projection = Projection(graph)
            self.allocation = self.projection(_start(self.start, graph))
            self.begin(observation)
        # Running jobs may hold a part of the capacity; where nothing can, the observation shows the graph's own array.
        capacity = None if observation.capacity is graph.capacity else observation.capacity
        if self.form == "reservation":
            answer = self.reserve(observation)
            self.allocation = self.learn(answer, observation, None, None)
            return answer if capacity is None else self.projection(answer, capacity=capacity)
        answer = self.learn(self.allocation, observation, observation.arrived, capacity)
        self.allocation = np.where(observation.arrived[graph.channel_port][:, None], answer, self.allocation)
        return answer

    @abstractmethod
    def begin(self, observation: MultiServerObservation) -> None:
        """Prepare for a run; called in its first slot."""

    def reserve(self, observation: MultiServerObservation) -> Floats:
        """Return the reservation for a slot whose jobs have not been looked at."""
        assert self.allocation is not None
        return self.allocation

    @abstractmethod
    def learn(
        self, allocation: Floats, observation: MultiServerObservation, ports: Booleans | None, capacity: Floats | None
    ) -> Floats:
        """Return a better allocation.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            From where to go.
        observation : MultiServerObservation
            The slot to learn from.
        ports : numpy.ndarray of bool, shape (num_ports,), or None
            Who may be given anything; all ports if None.
        capacity : numpy.ndarray of shape (num_nodes, num_resources), or None
            What may be given; the graph's capacity if None.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            Feasible.
        """


class OGASched(OnlineGradient):
    """Online gradient ascent with exact projection.

    y(t + 1) is the projection of y(t) + eta_t grad q(x(t), y(t)) onto the feasible set. For the two forms see
    :class:`OnlineGradient`.

    Parameters
    ----------
    form : {"reservation", "reactive"}
        When the arrivals are seen.
    steps : StepSize or float
        Steps, or the first of geometric steps with decay 0.9999; 25 is the paper's (table II).
    start : array_like of shape (num_channels, num_resources), optional
        Allocation to begin with, such as the ``allocation`` of an agent that has run before; zero if left out.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        What the agent has learned so far, y(t); None before the first slot.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or, in the first slot, ``start`` does not fit the graph.
    """

    def __init__(self, form: Form = "reactive", steps: StepSize | float = 25.0, start: ArrayLike | None = None) -> None:
        super().__init__(form, start)
        self.steps: StepSize = as_steps(steps)
        self.name = f"oga-{form}"

    def begin(self, observation: MultiServerObservation) -> None:
        """Begin with the first step."""
        self.steps.start(observation.rewards)

    def learn(
        self, allocation: Floats, observation: MultiServerObservation, ports: Booleans | None, capacity: Floats | None
    ) -> Floats:
        """Take a step along the gradient and project; see :meth:`OnlineGradient.learn`."""
        gradient = observation.rewards.gradient(allocation, observation.arrived)
        gradient *= self.steps.next(gradient)
        gradient += allocation
        return self.projection(gradient, ports=ports, capacity=capacity)


def _start(start: ArrayLike | None, graph: BipartiteGraph) -> Floats:
    if start is None:
        return np.zeros(graph.shape)
    allocation = np.array(start, dtype=np.float64)
    if allocation.shape != graph.shape or not np.isfinite(allocation).all():
        raise InvalidConfiguration(f"start has shape {allocation.shape}, want finite numbers of shape {graph.shape}")
    return allocation
