"""Agents for gangs: allocations repaired so that no gang is served in part (arXiv 2305.06572, section 3.5).

A job must have enough components or none, which makes the feasible set non-convex. As the paper suggests, an agent
solves the relaxed problem without this condition, and its allocation is repaired before it is carried out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import GangRewards, MultiServerObservation
from desim.problems.multiserver.rewards import NEGLIGIBLE
from desim.reprs import NamedRepr

__all__ = ["GangRepair"]

Floats = NDArray[np.float64]

#: Relative tolerance when an indivisible component is fitted into the free capacity.
ROUNDING = 1e-12


class GangRepair(NamedRepr):
    """Agent that makes the allocations of another agent feasible for gangs.

    Jobs are processed in descending order of their reward under the agent's allocation. Divisible components keep their
    allocation. If too few components of a job have one, further components get free capacity, on the node that has
    most of it for them; if that is not enough, the job gets nothing.

    Indivisible components, those of a ``Gang(whole=True)``, are rounded. In descending order of their allocation, each
    is placed on the node that the agent prefers among those where it fits. The first m_l are always placed, further
    ones only if they increase the job's reward. If fewer than m_l fit, the job gets nothing.

    Parameters
    ----------
    agent : Agent
        Agent that allocates as if components were independent.
    """

    considers = frozenset({"gangs"})

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.name = f"gang-{getattr(agent, 'name', type(agent).__name__)}"

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Reset the wrapped agent."""
        reset = getattr(self.agent, "reset", None)
        if reset is not None:
            reset(simulation_info, rng)

    def act(self, observation: MultiServerObservation) -> Floats:
        """Return the repaired allocation of the agent.

        Parameters
        ----------
        observation : MultiServerObservation
            Observation of a cluster with gangs.

        Returns
        -------
        numpy.ndarray of shape (num_channels, num_resources)
            Feasible allocation.

        Raises
        ------
        InvalidConfiguration
            If the cluster has no gangs.
        """
        rewards = observation.rewards
        if not isinstance(rewards, GangRewards):
            raise InvalidConfiguration(
                f"{self.name}: got a cluster without gangs; try MultiServerCluster(..., gang=...)"
            )
        answer = self.agent.act(observation)
        wanted = np.zeros(observation.graph.shape) if answer is None else np.array(answer, dtype=np.float64)
        wanted *= observation.arrived[observation.graph.channel_port][:, None]
        earnings = rewards.evaluate(wanted, observation.arrived)
        jobs = np.flatnonzero(rewards.jobs_arrived(observation.arrived))
        order = jobs[np.argsort(-(earnings.gain - earnings.overhead)[jobs], kind="stable")]
        repair = _round if rewards.gang.whole else _complete
        return repair(rewards, observation, wanted, order.tolist())


def _channels(rewards: GangRewards, job: int) -> list[NDArray[np.int64]]:
    """Return the channels of each component of a job."""
    ports = np.flatnonzero(rewards.job_of == job)
    bounds = np.searchsorted(rewards.graph.channel_port, [ports[0], *(ports + 1)])
    return [np.arange(first, last) for first, last in pairwise(bounds.tolist())]


def _complete(rewards: GangRewards, observation: MultiServerObservation, wanted: Floats, order: list[int]) -> Floats:
    """Serve further components of jobs that have too few; remove a job that cannot get enough."""
    graph, gang = rewards.graph, rewards.gang
    given = wanted.copy()
    served = rewards.components_served(given)
    short = [job for job in order if 0 < served[job] < gang.minimum[job]]
    for job in short:
        for channels in _channels(rewards, job):
            if served[job] == gang.minimum[job]:
                break
            if (given[channels] > NEGLIGIBLE).any():
                continue
            free = np.maximum(observation.capacity - graph.node_sums(given), 0.0)
            offers = np.minimum(graph.channel_requests[channels], free[graph.channel_node[channels]])
            if (offers > NEGLIGIBLE).any():
                best = int(offers.sum(axis=1).argmax())
                given[channels[best]] = offers[best]
                served[job] += 1
        if served[job] < gang.minimum[job]:
            given[np.concatenate(_channels(rewards, job))] = 0.0
    return given


def _round(rewards: GangRewards, observation: MultiServerObservation, wanted: Floats, order: list[int]) -> Floats:
    """Place whole components, guided by the fractional allocation."""
    graph, gang = rewards.graph, rewards.gang
    placed = np.zeros_like(wanted)
    free = observation.capacity.copy()
    for job in order:
        components = _channels(rewards, job)
        mass = [float(wanted[channels].sum()) for channels in components]
        before, earned, count = free.copy(), 0.0, 0
        for component in sorted(range(len(components)), key=lambda index: (-mass[index], index)):
            channels = components[component]
            request = graph.channel_requests[channels[:1]]
            nodes = graph.channel_node[channels]
            fits = (request <= free[nodes] * (1 + ROUNDING)).all(axis=1)
            if not fits.any() or not request.any():
                continue
            best = int(np.where(fits, wanted[channels].sum(axis=1), -1.0).argmax())
            placed[channels[best]] = request[0]
            reward = _reward(rewards, observation, placed, job)
            if count >= gang.minimum[job] and reward <= earned:
                placed[channels[best]] = 0.0
                continue
            free[nodes[best]] = np.maximum(free[nodes[best]] - request[0], 0.0)
            earned, count = reward, count + 1
        if count < gang.minimum[job]:
            placed[np.concatenate(components)] = 0.0
            free = before
    return placed


def _reward(rewards: GangRewards, observation: MultiServerObservation, allocation: Floats, job: int) -> float:
    earnings = rewards.evaluate(allocation, observation.arrived)
    return float(earnings.gain[job] - earnings.overhead[job])
