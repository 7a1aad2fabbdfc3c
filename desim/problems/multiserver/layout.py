"""What the ports of an allocation stand for: types of jobs, their copies and their components."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver.gang import Gang, GangRewards
from desim.problems.multiserver.graph import BipartiteGraph
from desim.problems.multiserver.rewards import RewardModel

__all__ = ["Layout"]

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class Layout:
    """From types of jobs to the ports of the graph that agents see, and back.

    A *seat* is a place for one job in one slot: every type of job has ``copies`` of them, side by side.
    A *port* of the graph that agents see is a seat, or one component of a seat's job.

    Parameters
    ----------
    rewards : RewardModel
        On the graph of job types.
    copies : int
        Jobs of a type that can be served in one slot.
    gang : Gang or None
        Components of the job types.

    Attributes
    ----------
    types : BipartiteGraph
        Its ports are the job types.
    graph : BipartiteGraph
        The graph that agents see.
    rewards : RewardModel or GangRewards
        On that graph.
    type_of : numpy.ndarray of shape (num_seats,)
        Job type of each seat.
    seat_of, component_of : numpy.ndarray of shape (graph.num_ports,)
        Seat of each port, and which component of its job it is, from 0.
    """

    def __init__(self, rewards: RewardModel, copies: int, gang: Gang | None) -> None:
        self.types: BipartiteGraph = rewards.graph
        self.copies = copies
        seats = self.types.repeat_ports(copies)
        self.jobs = rewards if copies == 1 else rewards.for_graph(seats)
        self.gang = None if gang is None else gang.repeat_ports(copies)
        self.type_of: Indices = np.repeat(np.arange(self.types.num_ports), copies)
        if self.gang is None:
            self.rewards: RewardModel | GangRewards = self.jobs
            self.seat_of: Indices = np.arange(seats.num_ports)
            self.component_of: Indices = np.zeros(seats.num_ports, dtype=np.int64)
        else:
            if any(requests.shape[1] != seats.num_resources for requests in self.gang.components):
                raise InvalidConfiguration(f"a component does not request {seats.num_resources} resources")
            self.rewards = GangRewards(self.jobs, self.gang)
            self.seat_of = self.rewards.job_of
            first = np.cumsum(self.gang.counts) - self.gang.counts
            self.component_of = np.arange(len(self.seat_of)) - first[self.seat_of]
        self.graph: BipartiteGraph = self.rewards.graph

    def seats(self, counts: Indices) -> Booleans:
        """Return the seats that are taken when there are so many jobs of each type."""
        if self.copies == 1:
            return counts > 0
        return (counts[:, None] > np.arange(self.copies)).ravel()

    def ports(self, seats: Booleans) -> Booleans:
        """Return the ports of the seats that are taken."""
        return seats if self.gang is None else seats[self.seat_of]

    def of_jobs(self, allocation: Floats) -> Floats:
        """Add up what the components of a job get: an allocation on the graph of seats."""
        return self.rewards.of_jobs(allocation) if isinstance(self.rewards, GangRewards) else allocation
