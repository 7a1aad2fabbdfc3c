"""Multi-server workloads by name, for the command line and environments."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.problems.multiserver import RewardModel
from desim.workloads.multiserver.arrivals import bernoulli_arrivals
from desim.workloads.multiserver.systems import generate

__all__ = ["descriptions", "draw"]


def descriptions() -> dict[str, str]:
    """Return a one-line description of every workload of the command line.

    Returns
    -------
    dict of str to str
        Descriptions by name; there is one.
    """
    return {"generated": "Machines and requests like those of Alibaba's clusters; arrivals with equal probabilities."}


def draw(
    rng: Generator,
    *,
    num_slots: int = 500,
    num_ports: int = 10,
    num_nodes: int = 128,
    density: float | None = 2.5,
    contention: float = 10.0,
    probability: float = 0.7,
    rewards: RewardModel | None = None,
) -> tuple[RewardModel, NDArray[np.bool_]]:
    """Generate a system of ports and nodes, and the job arrivals by slot and port.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    num_slots : int
        Number of slots.
    num_ports, num_nodes : int
        Number of job types and of machines.
    density : float or None
        Mean number of ports that a node serves.
    contention : float
        Factor by which all requests are multiplied.
    probability : float
        Probability that a job arrives, for each slot and port.
    rewards : RewardModel, optional
        System to use instead of a generated one; the settings of the system are then ignored.

    Returns
    -------
    tuple of RewardModel and numpy.ndarray of shape (num_slots, num_ports)
        System and arrivals.

    Raises
    ------
    InvalidConfiguration
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> rewards, arrivals = draw(np.random.default_rng(1), num_slots=20)
    >>> rewards.graph, arrivals.shape
    (BipartiteGraph(10 ports, 128 nodes, 6 resources, 320 channels), (20, 10))
    """
    if rewards is None:
        rewards = generate(num_ports=num_ports, num_nodes=num_nodes, density=density, contention=contention, seed=rng)
    return rewards, bernoulli_arrivals(num_slots, rewards.graph.num_ports, probability, rng)
