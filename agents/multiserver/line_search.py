"""Line searches from the best of several initial allocations; and the exact solution of each slot.

Jobs last one slot, so the reward of a slot depends only on the allocation of that slot, and in the form ``reactive``
everything about it is known. The allocation of a baseline can then serve as the initial point: an ascent that never
takes a downward step is at least as good as the baseline. These initial points compensate for a memory that is empty or
outdated. The line search compensates for a step size that suits some utilities but not others.

In the form ``reservation`` the ascent is on the mean reward of all slots so far. It equals the reward of one slot in
which every port has the fractional number of jobs that it had on average, because rewards are sums over ports.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.agents.multiserver.baselines import DRF, Fairness
from desim.agents.multiserver.hindsight import best_fixed_allocation
from desim.agents.multiserver.oga import Booleans, Form, OnlineGradient
from desim.checks import check_float, check_int
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, GangRewards, MultiServerObservation, RewardModel, Rewards
from desim.reprs import NamedRepr

__all__ = ["BestSlot", "LineSearchOGA"]

Floats = NDArray[np.float64]

#: Smoothing of the maximum in the overhead, relative to it: its value in a slot's first step, and its factor per step.
SMOOTHING, SHARPENING = 0.2, 0.5
#: Factor between the step lengths that a line search tries, and the largest number of reductions.
FACTOR, MOST_TRIALS = 4.0, 8
#: Initial step length of a run, and the smallest initial step length of a slot.
FIRST_STEP, SHORTEST_STEP = 1.0, 1e-3


class LineSearchOGA(OnlineGradient):
    """Online gradient ascent with a line search for the length of each step.

    The gradient is scaled by amount + 1 in each coordinate, which suits logarithms, whose slope is inversely
    proportional to this; the projection uses the corresponding norm. The maximum in the overhead is smoothed, less from
    step to step. A step is taken only if it increases the reward.

    Parameters
    ----------
    form : {"reactive", "reservation"}
        When the arrivals are seen, see :class:`OnlineGradient`. ``reactive`` starts each slot from the best of the
        remembered allocation, Fairness and DRF; ``reservation`` starts from its reservation.
    steps : int
        Largest number of steps per slot, at least 0.
    start : array_like of shape (num_channels, num_resources), optional
        Initial allocation. Default: zero.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        Learned allocation; None before the first slot.
    frequencies : numpy.ndarray of shape (num_ports,)
        Share of the slots in which each port had a job.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    def __init__(self, form: Form = "reactive", steps: int = 3, start: ArrayLike | None = None) -> None:
        super().__init__(form, start)
        self.steps = check_int("steps", steps, least=0)
        self.rivals = (Fairness(), DRF())
        self.name = f"line-search-{form}"

    def begin(self, observation: MultiServerObservation) -> None:
        """Reset the step length and the arrival frequencies."""
        self.frequencies: Floats = np.zeros(observation.graph.num_ports)
        self._slots = 0
        self._length = FIRST_STEP

    def learn(
        self, allocation: Floats, observation: MultiServerObservation, ports: Booleans | None, capacity: Floats | None
    ) -> Floats:
        """Ascend from the best initial allocation; see :meth:`OnlineGradient.learn`."""
        self._slots += 1
        self.frequencies = self.frequencies + (observation.arrived - self.frequencies) / self._slots
        if self.form == "reservation":
            return self._ascend(allocation, observation.rewards, self.frequencies, ports, capacity)
        weights = observation.arrived.astype(np.float64)
        starts = [self.projection(allocation, ports=ports, capacity=capacity)]
        starts += [rival.act(observation) for rival in self.rivals]
        best = max(starts, key=lambda start: _reward(observation.rewards, start, weights))
        return self._ascend(best, observation.rewards, weights, ports, capacity)

    def _ascend(
        self, best: Floats, rewards: Rewards, weights: Floats, ports: Booleans | None, capacity: Floats | None
    ) -> Floats:
        """Return the result of the line searches, whose reward is at least that of the initial allocation."""
        reward = _reward(rewards, best, weights)

        def trial(length: float) -> tuple[float, float, Floats]:
            found = self.projection(best + length * direction, ports=ports, capacity=capacity, weights=scales)
            return _reward(rewards, found, weights), length, found

        for step in range(self.steps):
            scales = best + 1.0
            direction = scales * rewards.gradient(best, weights, SMOOTHING * SHARPENING**step)
            longest = trial(self._length)
            if longest[0] > reward:
                while (longer := trial(FACTOR * longest[1]))[0] > longest[0]:
                    longest = longer
            for _ in range(MOST_TRIALS):
                if longest[0] > reward:
                    break
                longest = trial(longest[1] / FACTOR)
            else:  # no step along the smoothed gradient improves, or the allocation is optimal
                self._length = max(0.5 * self._length, SHORTEST_STEP)
                continue
            reward, self._length, best = max(longest, trial(FACTOR**0.5 * longest[1]), key=lambda found: found[0])
        return best


def _reward(rewards: Rewards, allocation: Floats, weights: Floats) -> float:
    """Return the reward of a slot with the given fractional number of jobs per port."""
    gain, overhead, *_ = rewards.evaluate(allocation, weights > 0)
    return float(_of_jobs(rewards, weights) @ (gain - overhead))


def _of_jobs(rewards: Rewards, weights: Floats) -> Floats:
    """Return weights per job from weights per port; all components of a gang have the same weight."""
    if isinstance(rewards, GangRewards):
        first: Floats = weights[np.flatnonzero(np.diff(rewards.job_of, prepend=-1))]
        return first
    return weights


class BestSlot(NamedRepr):
    """Agent that allocates optimally for the jobs of each slot: an upper bound if jobs last one slot.

    The slot is solved by the interior-point method of :func:`best_fixed_allocation`, whose result is proved to be
    within the gap of the optimum. If jobs hold their allocation for several slots (`MultiSlotCluster`), later slots
    matter too, and the reward is no upper bound.

    Parameters
    ----------
    relative_gap : float
        Largest relative gap to the optimum, at least 0.

    Raises
    ------
    InvalidConfiguration
        If the gap is out of range; in the first slot, if rewards are those of gangs, which are not concave.
    """

    def __init__(self, relative_gap: float = 1e-6) -> None:
        self.relative_gap = check_float("relative_gap", relative_gap, least=0)
        self.name = "best-slot"

    def act(self, observation: MultiServerObservation) -> Floats:
        """Return the allocation of the slot.

        Parameters
        ----------
        observation : MultiServerObservation
            Jobs, free capacity and rewards.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            Feasible allocation.
        """
        graph, rewards = observation.graph, observation.rewards
        if not isinstance(rewards, RewardModel):
            raise InvalidConfiguration(
                "best-slot: got the rewards of gangs, expected concave rewards; try a cluster without gangs"
            )
        if observation.capacity is not graph.capacity:  # running jobs hold a part of the capacity
            channels = zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True)
            rewards = rewards.for_graph(BipartiteGraph(graph.requests, observation.capacity, channels))
        best = best_fixed_allocation(rewards, observation.arrived, relative_gap=self.relative_gap)
        return best.allocation
