"""Online gradient ascent on the reward of each slot, with exact projection (the OGA policy of arXiv 2305.06572).

Algorithm 1 of that paper, OgaSched, projects by a loop that gives something else: see
`desim.agents.multiserver.ogasched`.

A step size is an object with ``start(rewards)``, called when a run begins, and ``next(gradient)``, which returns the
step for the gradient of one slot.

AdaGrad (Duchi, Hazan and Singer, JMLR 2011) divides every coordinate's step by the root of the sum of its squared
gradients, so that rare and flat coordinates still move; the projection is then in the norm that these roots define.
Optimistic mirror ascent (Rakhlin and Sridharan, NIPS 2013) takes a second step, along a guess of the next
gradient, before it answers. Here the guess is the gradient to be expected if every port has a job as often as it had so
far: arrivals are random, but what the rewards gain is known.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.agents.multiserver.projection import Projection
from desim.checks import check_choice, check_float
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, MultiServerObservation, Rewards
from desim.reprs import NamedRepr

__all__ = [
    "AdaGrad",
    "Among",
    "ExactOGA",
    "Form",
    "GeometricSteps",
    "GradientSteps",
    "NormalizedSteps",
    "OnlineGradient",
    "OptimisticOGA",
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
        check_float("initial", self.initial, above=0)
        check_float("decay", self.decay, above=0)

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
        check_float("scale", self.scale, above=0)


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


Booleans = NDArray[np.bool_]

Form = Literal["reservation", "reactive"]
"""Whether jobs are seen before the answer (reactive) or after it (reservation)."""

Among = Literal["all", "arrived"]
"""The ports between which a node is shared out: all that it serves, or those with a job."""


class OnlineGradient(NamedRepr, ABC):
    """What online gradient methods have in common: when they learn, and what they remember.

    In the form ``reservation`` (definition 2 of the paper, to which the regret bound applies) y(t) is fixed before the
    jobs of the slot are seen, and ports without a job keep what is reserved for them. In the form ``reactive`` the jobs
    are seen first: the ports that have one take the gradient step and, among ``"arrived"``, share the whole capacity
    between them, while each port remembers what it was given last.

    Parameters
    ----------
    form : {"reservation", "reactive"}
        When the arrivals are seen.
    start : array_like of shape (num_channels, num_resources), optional
        Allocation to begin with, such as the ``allocation`` of an agent that has run before (a warm start); it is
        projected onto the feasible set. Zero if left out.
    among : {"arrived", "all"}, optional
        Who shares a node in the form ``reactive``: ports with a job, or all, whose shares are then lost while they have
        none. Reservations are for all.
    forget : bool
        Whether a port's allocation is set to 0 in a slot in which it has no job.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        What the agent has learned so far, y(t); None before the first slot.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or, in the first slot, ``start`` does not fit the graph.
    """

    def __init__(
        self, form: Form, start: ArrayLike | None, *, among: Among | None = None, forget: bool = False
    ) -> None:
        self.form = check_choice("form", form, ("reservation", "reactive"))
        self.among = check_choice("among", among or ("arrived" if form == "reactive" else "all"), ("all", "arrived"))
        if (self.form, self.among) == ("reservation", "arrived"):
            raise InvalidConfiguration("among: got 'arrived' with form 'reservation', expected 'all'")
        self.forgets = forget
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
            self.projection = self.projection_of(graph)
            self.allocation = Projection(graph)(_start(self.start, graph))
            self.begin(observation)
        # Running jobs may hold a part of the capacity; where nothing can, the observation shows the graph's own array.
        capacity = None if observation.capacity is graph.capacity else observation.capacity
        if self.form == "reservation":
            answer = self.reserve(observation)
            self.allocation = self.learn(answer, observation, None, None)
            return answer if capacity is None else self.fit(answer, graph, capacity)
        ports = observation.arrived if self.among == "arrived" else None
        answer = self.learn(self.allocation, observation, ports, capacity)
        if ports is None or self.forgets:
            self.allocation = answer
        else:
            self.allocation = np.where(ports[graph.channel_port][:, None], answer, self.allocation)
        return answer

    def projection_of(self, graph: BipartiteGraph) -> Callable[..., Floats]:
        """Return what brings points back to allocations, called as a :class:`Projection`."""
        return Projection(graph)

    def fit(self, reservation: Floats, graph: BipartiteGraph, capacity: Floats) -> Floats:
        """Return what a reservation comes to where running jobs hold a part of the capacity."""
        return self.projection(reservation, capacity=capacity)

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


class GradientSteps(OnlineGradient):
    """What methods have in common whose steps follow the gradient itself, by the length that step sizes say.

    Parameters
    ----------
    form : {"reservation", "reactive"}
        When the arrivals are seen.
    steps : StepSize or float
        Steps, or the first of geometric steps with decay 0.9999.
    start : array_like of shape (num_channels, num_resources), optional
        Allocation to begin with; zero if left out.
    among : {"arrived", "all"}, optional
        Who shares a node, see :class:`OnlineGradient`.
    forget : bool
        Whether a port's allocation is set to 0 in a slot in which it has no job.
    """

    def __init__(
        self,
        form: Form,
        steps: StepSize | float,
        start: ArrayLike | None,
        *,
        among: Among | None = None,
        forget: bool = False,
    ) -> None:
        super().__init__(form, start, among=among, forget=forget)
        self.steps: StepSize = as_steps(steps)

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
        answer = self.projection(gradient, ports=ports, capacity=capacity)
        if self.forgets:
            answer[~observation.arrived[observation.graph.channel_port]] = 0.0
        return answer

    def step_words(self) -> list[str]:
        """Return the words of a registry name that say which geometric steps are taken, if not those of table II."""
        steps = self.steps
        if not isinstance(steps, GeometricSteps):
            return []
        pairs = (("eta", steps.initial, 25.0), ("decay", steps.decay, 0.9999))
        return [f"{name}={value!r}".removesuffix(".0") for name, value, usual in pairs if value != usual]


class ExactOGA(GradientSteps):
    """Online gradient ascent with exact projection: the OGA policy, definition 2 of arXiv 2305.06572.

    y(t + 1) is the projection of y(t) + eta_t grad q(x(t), y(t)) onto the feasible set. For the two forms see
    :class:`OnlineGradient`. The paper's algorithm 1, whose loop is no projection, is :class:`OGASched`.

    Parameters
    ----------
    form : {"reservation", "reactive"}
        When the arrivals are seen.
    steps : StepSize or float
        Steps, or the first of geometric steps with decay 0.9999; 25 is the paper's (table II).
    start : array_like of shape (num_channels, num_resources), optional
        Allocation to begin with, such as the ``allocation`` of an agent that has run before; zero if left out.
    among : {"arrived", "all"}, optional
        Who shares a node, see :class:`OnlineGradient`; by default the ports with a job, in the form ``reactive``.
    forget : bool
        Whether a port's allocation is set to 0 in a slot in which it has no job.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        What the agent has learned so far, y(t); None before the first slot.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or, in the first slot, ``start`` does not fit the graph.
    """

    def __init__(
        self,
        form: Form = "reactive",
        steps: StepSize | float = 25.0,
        start: ArrayLike | None = None,
        *,
        among: Among | None = None,
        forget: bool = False,
    ) -> None:
        super().__init__(form, steps, start, among=among, forget=forget)
        words = [f"exact-oga-{form}"]
        words += ["all"] if (form, self.among) == ("reactive", "all") else []
        words += ["forget"] if forget else []
        self.name = "-".join([*words, *self.step_words()])


def _start(start: ArrayLike | None, graph: BipartiteGraph) -> Floats:
    if start is None:
        return np.zeros(graph.shape)
    allocation = np.array(start, dtype=np.float64)
    if allocation.shape != graph.shape or not np.isfinite(allocation).all():
        raise InvalidConfiguration(f"start has shape {allocation.shape}, want finite numbers of shape {graph.shape}")
    return allocation


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
        check_float("rate", rate, above=0)
        check_float("forget", forget, above=0, most=1)
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
