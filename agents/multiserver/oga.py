"""Online gradient ascent on the reward of each slot, with exact projection (the OGA policy of arXiv 2305.06572).

Algorithm 1 of that paper, OgaSched, replaces the projection by a loop with a different result: see
`desim.agents.multiserver.ogasched`.

A step size is an object with two methods: ``start(rewards)`` is called when a run begins, and ``next(gradient)``
returns the step for the gradient of one slot.

AdaGrad (Duchi, Hazan and Singer, JMLR 2011) divides every coordinate's step by the root of the sum of its squared
gradients, so that rare and flat coordinates still move; the projection then uses the norm that these roots define.
Optimistic mirror ascent (Rakhlin and Sridharan, NIPS 2013) takes a second step along a predicted next gradient before
it allocates. Here the prediction is the expected gradient under the arrival frequencies so far: arrivals are random,
but the reward function is known.
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
    """Step sizes of an online gradient method."""

    def start(self, rewards: Rewards) -> None:
        """Begin a run.

        Parameters
        ----------
        rewards : Rewards
            Reward function of the run.
        """

    def next(self, gradient: Floats) -> float:
        """Return the step size for the next gradient.

        Parameters
        ----------
        gradient : numpy.ndarray of shape (num_channels, num_resources)
            Gradient of the slot that has just ended.

        Returns
        -------
        float
            Factor of the gradient.
        """


def as_steps(steps: StepSize | float) -> StepSize:
    """Return step sizes unchanged, and a number as geometric step sizes.

    Parameters
    ----------
    steps : StepSize or float
        Step sizes, or the first of geometric step sizes.

    Returns
    -------
    StepSize
        Step sizes; for a number, geometric ones with decay 0.9999.
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
    """Geometric step sizes, which change by a constant factor per slot (algorithm 1, last line).

    Parameters
    ----------
    initial : float
        First step size, eta_0, > 0.
    decay : float
        Factor from one slot to the next, lambda, > 0; 0.995 to 0.9999 performed best in the paper.

    Raises
    ------
    InvalidConfiguration
        If a parameter is not > 0.
    """

    initial: float
    decay: float = 0.9999
    _step: float = field(default=math.nan, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_float("initial", self.initial, above=0)
        check_float("decay", self.decay, above=0)

    def start(self, rewards: Rewards) -> None:
        """Reset to the first step size."""
        self._step = self.initial

    def next(self, gradient: Floats) -> float:
        """Return the step size, and scale the next one."""
        step = self._step
        self._step *= self.decay
        return step


def check_horizon(num_slots: int) -> None:
    """Raise InvalidConfiguration unless a number of slots is an integer >= 1."""
    if num_slots < 1 or num_slots != int(num_slots):
        raise InvalidConfiguration(f"num_slots: got {num_slots!r}, expected an integer >= 1")


@dataclass
class _HorizonSteps:
    """Base class of step sizes for a known number of slots."""

    num_slots: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_horizon(self.num_slots)
        check_float("scale", self.scale, above=0)


@dataclass
class TheoreticalSteps(_HorizonSteps):
    """Constant step size that minimizes the regret bound of theorem 1 for a known number of slots.

    Parameters
    ----------
    num_slots : int
        Horizon T in slots, at least 1.
    scale : float
        Factor of the step size; the bound holds for 1.

    Raises
    ------
    InvalidConfiguration
        If a parameter is out of range.
    """

    _step: float = field(default=math.nan, init=False, repr=False)

    def start(self, rewards: Rewards) -> None:
        """Compute the step size: diameter / (largest gradient x sqrt(T)), by the bounds (50) and (53)."""
        largest = gradient_bound(rewards)
        self._step = (
            self.scale * diameter_bound(rewards.graph) / (largest * math.sqrt(self.num_slots)) if largest else 0.0
        )

    def next(self, gradient: Floats) -> float:
        """Return the step size."""
        return self._step


@dataclass
class NormalizedSteps(_HorizonSteps):
    """Step size of equation (55), which is divided by the norm of each slot's gradient.

    Parameters
    ----------
    num_slots : int
        Horizon T in slots, at least 1.
    scale : float
        Factor of the step size.

    Raises
    ------
    InvalidConfiguration
        If a parameter is out of range.
    """

    _length: float = field(default=math.nan, init=False, repr=False)

    def start(self, rewards: Rewards) -> None:
        """Compute the length of all steps."""
        self._length = self.scale * diameter_bound(rewards.graph) / math.sqrt(self.num_slots)

    def next(self, gradient: Floats) -> float:
        """Return the length of a step divided by the norm of the gradient, 0 if the norm is 0."""
        norm = math.sqrt(float(np.vdot(gradient, gradient)))
        return self._length / norm if norm else 0.0


Booleans = NDArray[np.bool_]

Form = Literal["reservation", "reactive"]
"""Time of the decision: after the jobs of a slot are seen (reactive) or before (reservation)."""

Among = Literal["all", "arrived"]
"""Ports that share a node: all that it serves, or only those with a job."""


class OnlineGradient(NamedRepr, ABC):
    """Base class of online gradient methods: when they learn, and what they remember.

    In the form ``reservation`` (definition 2 of the paper, to which the regret bound applies), y(t) is fixed before the
    jobs of the slot are seen, and ports without a job keep their reservation. In the form ``reactive``, the jobs are
    seen first. The ports that have one take the gradient step and, with ``among="arrived"``, share the whole capacity.
    Each port remembers its last allocation.

    Parameters
    ----------
    form : {"reservation", "reactive"}
        Time of the decision: before or after the arrivals are seen.
    start : array_like of shape (num_channels, num_resources), optional
        Initial allocation, such as the ``allocation`` of an agent after a run (a warm start); it is projected onto the
        feasible set. Default: zero.
    among : {"arrived", "all"}, optional
        Ports that share a node in the form ``reactive``: those with a job, or all, so that the shares of ports without
        a job stay unused. Reservations are always for all ports.
    forget : bool
        Whether a port's allocation is set to 0 in a slot in which it has no job.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        Learned allocation y(t); None before the first slot.

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
        """Forget the learned allocation; the next slot starts from ``start``."""
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
            Feasible allocation.
        """
        graph = observation.graph
        if self.allocation is None:
            self.projection = self.projection_of(graph)
            self.allocation = Projection(graph)(_start(self.start, graph))
            self.begin(observation)
        # Running jobs may hold a part of the capacity; if they never can, the observation has the graph's own array.
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
        """Return the function that maps points to allocations, called like a :class:`Projection`."""
        return Projection(graph)

    def fit(self, reservation: Floats, graph: BipartiteGraph, capacity: Floats) -> Floats:
        """Return a reservation adjusted to the capacity that running jobs leave free."""
        return self.projection(reservation, capacity=capacity)

    @abstractmethod
    def begin(self, observation: MultiServerObservation) -> None:
        """Prepare for a run; called in its first slot."""

    def reserve(self, observation: MultiServerObservation) -> Floats:
        """Return the reservation for a slot, before its jobs are seen."""
        assert self.allocation is not None
        return self.allocation

    @abstractmethod
    def learn(
        self, allocation: Floats, observation: MultiServerObservation, ports: Booleans | None, capacity: Floats | None
    ) -> Floats:
        """Return an improved allocation.

        Parameters
        ----------
        allocation : numpy.ndarray of shape (num_channels, num_resources)
            Present allocation.
        observation : MultiServerObservation
            Observation of the slot to learn from.
        ports : numpy.ndarray of bool, shape (num_ports,), or None
            Ports that may get an allocation; None for all.
        capacity : numpy.ndarray of shape (num_nodes, num_resources), or None
            Available capacity; None for the graph's capacity.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            Feasible allocation.
        """


class GradientSteps(OnlineGradient):
    """Base class of methods that step along the gradient, with given step sizes.

    Parameters
    ----------
    form : {"reservation", "reactive"}
        Time of the decision, see :class:`OnlineGradient`.
    steps : StepSize or float
        Step sizes, or the first of geometric step sizes with decay 0.9999.
    start : array_like of shape (num_channels, num_resources), optional
        Initial allocation. Default: zero.
    among : {"arrived", "all"}, optional
        Ports that share a node, see :class:`OnlineGradient`.
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
        """Reset the step sizes."""
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
        """Return the words of a registry name for geometric step sizes that differ from those of table II."""
        steps = self.steps
        if not isinstance(steps, GeometricSteps):
            return []
        pairs = (("eta", steps.initial, 25.0), ("decay", steps.decay, 0.9999))
        return [f"{name}={value!r}".removesuffix(".0") for name, value, usual in pairs if value != usual]


class ExactOGA(GradientSteps):
    """Online gradient ascent with exact projection: the OGA policy, definition 2 of arXiv 2305.06572.

    y(t + 1) is the projection of y(t) + eta_t grad q(x(t), y(t)) onto the feasible set. For the two forms see
    :class:`OnlineGradient`. The paper's algorithm 1, whose loop is not a projection, is :class:`OGASched`.

    Parameters
    ----------
    form : {"reservation", "reactive"}
        Time of the decision, see :class:`OnlineGradient`.
    steps : StepSize or float
        Step sizes, or the first of geometric step sizes with decay 0.9999; the paper uses 25 (table II).
    start : array_like of shape (num_channels, num_resources), optional
        Initial allocation, such as the ``allocation`` of an agent after a run. Default: zero.
    among : {"arrived", "all"}, optional
        Ports that share a node, see :class:`OnlineGradient`. Default: ``"arrived"`` in the form ``reactive``.
    forget : bool
        Whether a port's allocation is set to 0 in a slot in which it has no job.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        Learned allocation y(t); None before the first slot.

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
        finite = int(np.isfinite(allocation).sum())
        raise InvalidConfiguration(
            f"start: got shape {allocation.shape} with {finite} of {allocation.size} numbers finite, expected finite "
            f"numbers of shape {graph.shape}"
        )
    return allocation


#: Lower bound of the root of the sum of squared gradients, which keeps the first division finite.
SMALLEST = 1e-6


class AdaGrad(OnlineGradient):
    """AdaGrad: online gradient ascent with a separate step size for every channel and resource.

    Parameters
    ----------
    form : {"reservation", "reactive"}
        Time of the decision, see :class:`OnlineGradient`.
    rate : float
        Length of the first step in every coordinate, in units of the resource, > 0; later steps shrink with the root of
        the sum of squared gradients.
    forget : float
        Factor of the sum of squared gradients from one job of a port to the next, > 0 and <= 1. Below 1 the steps do
        not vanish, so the method adapts to changes.
    start : array_like of shape (num_channels, num_resources), optional
        Initial allocation. Default: zero.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        Learned allocation; None before the first slot.

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
        """Reset the sums of squared gradients."""
        self._squares = np.zeros(observation.graph.shape)

    def learn(
        self, allocation: Floats, observation: MultiServerObservation, ports: Booleans | None, capacity: Floats | None
    ) -> Floats:
        """Take a step along the scaled gradient and project in the corresponding norm."""
        gradient = observation.rewards.gradient(allocation, observation.arrived)
        if self.forget < 1:
            present = observation.arrived[observation.graph.channel_port][:, None]
            self._squares *= np.where(present, self.forget, 1.0)
        self._squares += np.square(gradient)
        scales = self.rate / np.sqrt(self._squares + SMALLEST**2)
        return self.projection(allocation + scales * gradient, ports=ports, capacity=capacity, weights=scales)


class OptimisticOGA(OnlineGradient):
    """Optimistic online gradient ascent for reservations, with the expected gradient as the prediction.

    Parameters
    ----------
    steps : StepSize or float
        Step sizes, or the first of geometric step sizes with decay 0.9999.
    start : array_like of shape (num_channels, num_resources), optional
        Initial allocation. Default: zero.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        Learned allocation; None before the first slot.
    frequencies : numpy.ndarray of shape (num_ports,)
        Share of the slots in which each port had a job.
    """

    def __init__(self, steps: StepSize | float = 25.0, start: ArrayLike | None = None) -> None:
        super().__init__("reservation", start)
        self.steps: StepSize = as_steps(steps)
        self.name = "optimistic-oga"

    def begin(self, observation: MultiServerObservation) -> None:
        """Reset the step sizes and the arrival frequencies."""
        self.steps.start(observation.rewards)
        self.frequencies: Floats = np.zeros(observation.graph.num_ports)
        self._slots = 0
        self._step = 0.0

    def reserve(self, observation: MultiServerObservation) -> Floats:
        """Return the learned allocation after a step along the expected gradient."""
        assert self.allocation is not None
        if self._slots == 0:
            return self.allocation
        guess = observation.rewards.gradient(self.allocation, self.frequencies)
        return self.projection(self.allocation + self._step * guess)

    def learn(
        self, allocation: Floats, observation: MultiServerObservation, ports: Booleans | None, capacity: Floats | None
    ) -> Floats:
        """Take a step from the learned allocation along the gradient at ``allocation``."""
        gradient = observation.rewards.gradient(allocation, observation.arrived)
        self._step = self.steps.next(gradient)
        self._slots += 1
        self.frequencies = self.frequencies + (observation.arrived - self.frequencies) / self._slots
        assert self.allocation is not None
        return self.projection(self.allocation + self._step * gradient)
