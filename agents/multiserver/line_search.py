"""Line searches from the best of several starts, which are never behind any of them; and the slot solved exactly.

Jobs last one slot, so that the reward of a slot depends on the allocation of that slot alone, and in the form
``reactive`` everything about it is known. A rival's allocation is then a place to start from: an ascent that takes no
step downwards is never behind it. The starts that no step depends on make up for a memory that is empty or out of date,
the line search for a first step that suits one set of utilities and not another.

In the form ``reservation`` the ascent is on the mean reward of the slots so far, which is the reward of one slot in
which every port has as much of a job as it had on average. (Rewards add up over ports, so that the numbers of their
jobs say everything about the past.)
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

#: Share of the largest overhead within which resources share it, in the first step of a slot and from step to step.
SMOOTHING, SHARPENING = 0.2, 0.5
#: How much longer or shorter the next step is that a line search tries, and how often it shortens at most.
FACTOR, MOST_TRIALS = 4.0, 8
#: The step that is tried first, and the shortest that one slot leaves to the next.
FIRST_STEP, SHORTEST_STEP = 1.0, 1e-3


class LineSearchOGA(OnlineGradient):
    """Online gradient ascent that searches for the length of each step, from the best start that it knows.

    A step goes along the gradient, every amount's part of it times the amount plus one (as for logarithms, where the
    slope falls like one over that), and is projected in the norm that belongs to it. The gradient is that of overheads
    which resources share where they are nearly equal, more sharply from step to step. A step is taken if it earns more.

    Parameters
    ----------
    form : {"reactive", "reservation"}
        When the arrivals are seen, see :class:`OnlineGradient`. ``reactive`` begins each slot with the best of what it
        remembers, Fairness and DRF. ``reservation`` goes on from its reservation.
    steps : int
        Steps a slot at most, at least 0.
    start : array_like of shape (num_channels, num_resources), optional
        Allocation to begin with; zero if left out.

    Attributes
    ----------
    allocation : numpy.ndarray or None
        What the agent has learned so far; None before the first slot.
    frequencies : numpy.ndarray of shape (num_ports,)
        How often each port had a job.

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
        """Begin with the first step and no arrival seen."""
        self.frequencies: Floats = np.zeros(observation.graph.num_ports)
        self._slots = 0
        self._length = FIRST_STEP

    def learn(
        self, allocation: Floats, observation: MultiServerObservation, ports: Booleans | None, capacity: Floats | None
    ) -> Floats:
        """Ascend from the best start; see :meth:`OnlineGradient.learn`."""
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
        """Return what line searches come to, which earns at least as much as where they begin."""
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
            else:  # the smoothed gradient leads nowhere from here, or the allocation is as good as can be
                self._length = max(0.5 * self._length, SHORTEST_STEP)
                continue
            reward, self._length, best = max(longest, trial(FACTOR**0.5 * longest[1]), key=lambda found: found[0])
        return best


def _reward(rewards: Rewards, allocation: Floats, weights: Floats) -> float:
    """Return the reward of a slot in which each port has so much of a job."""
    gain, overhead, *_ = rewards.evaluate(allocation, weights > 0)
    return float(_of_jobs(rewards, weights) @ (gain - overhead))


def _of_jobs(rewards: Rewards, weights: Floats) -> Floats:
    """Return the weights of jobs, of those of ports: the components of a gang come and go together."""
    if isinstance(rewards, GangRewards):
        first: Floats = weights[np.flatnonzero(np.diff(rewards.job_of, prepend=-1))]
        return first
    return weights


class BestSlot(NamedRepr):
    """The best that a slot's jobs can earn: the ceiling for all that see them first, as far as the slot alone counts.

    The slot is solved by the interior-point method of :func:`best_fixed_allocation`, whose answer is proved to be
    within the gap of the optimum. Where jobs hold what they get (`MultiSlotCluster`), the next slots count too, and
    this is no ceiling.

    Parameters
    ----------
    relative_gap : float
        How far the answer may be from the optimum, as a share of it; at least 0.

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
            Feasible.
        """
        graph, rewards = observation.graph, observation.rewards
        if not isinstance(rewards, RewardModel):
            raise InvalidConfiguration("best-slot solves concave programs, and the rewards of gangs are not concave")
        if observation.capacity is not graph.capacity:  # running jobs may hold a part of it
            channels = zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True)
            rewards = rewards.for_graph(BipartiteGraph(graph.requests, observation.capacity, channels))
        best = best_fixed_allocation(rewards, observation.arrived, relative_gap=self.relative_gap)
        return best.allocation
