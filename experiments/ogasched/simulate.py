"""Simulation of one run: a cluster, an agent, and a seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from desim import simulate
from desim.agents.multiserver import Breaches, create
from desim.exceptions import InvalidConfiguration
from desim.experiments.frame import Choice
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, RewardModel
from desim.sweep import Run
from desim.validation import validate
from desim.workloads.multiserver import RESOURCES, bernoulli_arrivals, generate

HORIZONS = (1_000, 2_000, 5_000, 10_000)
"""Horizons of table III; shorter runs are the beginning of longer ones, so one run gives the rewards of all."""
MEMORY_UNIT = 8.0
"""GiB per unit of memory in :func:`desim.workloads.multiserver.generate`."""
#: Number of points of a curve over time.
POINTS = 100


@dataclass(frozen=True)
class Setting:
    """Cluster and workload; the defaults are those of table II and section 4.

    Attributes
    ----------
    num_ports, num_nodes : int
        Numbers of ports |L| and nodes |R|.
    density : float
        Mean number of ports that a node serves.
    contention : float
        Factor by which all requests are multiplied.
    utilities : str
        ``"mixed"``, or the name of one utility for all nodes and resources.
    overhead : tuple of float
        Range of the overheads beta.
    probability : float
        Probability rho that a job arrives at a port in a slot.
    num_slots : int
        Number of slots T.
    memory : float
        GiB per unit of memory.
    system : int
        Seed of the system; if negative, the seed of the run.
    check : bool
        Whether to record all allocations and check the records with `desim.validation`.
    """

    num_ports: int = 10
    num_nodes: int = 128
    density: float = 2.5
    contention: float = 10.0
    utilities: str = "mixed"
    overhead: tuple[float, float] = (0.3, 0.5)
    probability: float = 0.7
    num_slots: int = 2_000
    memory: float = MEMORY_UNIT
    system: int = -1
    check: bool = False


def system(setting: Setting, seed: int) -> RewardModel:
    """Return the system of a run.

    Parameters
    ----------
    setting : Setting
        Setting of the system.
    seed : int
        Seed of the run.
    """
    rewards = generate(
        num_ports=setting.num_ports,
        num_nodes=setting.num_nodes,
        density=setting.density,
        contention=setting.contention,
        utilities=setting.utilities,
        overhead=setting.overhead,
        seed=seed if setting.system < 0 else setting.system,
    )
    if setting.memory == MEMORY_UNIT:
        return rewards
    graph, units = rewards.graph, np.ones(len(RESOURCES))
    units[RESOURCES.index("memory")] = MEMORY_UNIT / setting.memory
    channels = zip(graph.channel_port.tolist(), graph.channel_node.tolist(), strict=True)
    scaled = BipartiteGraph(graph.requests * units, graph.capacity * units, channels)
    return rewards.for_graph(scaled)


def breaks_limits(policy: str) -> bool:
    """Return whether an agent's answers can violate limits, by its name in the registry."""
    return policy.startswith("ogasched") and "capped" not in policy


def perform(run: Run) -> dict[str, Any]:
    """Simulate a run. All agents of a setting and seed get the same cluster and the same arrivals.

    Parameters
    ----------
    run : Run
        Run of a :class:`Setting` and a :class:`Choice`.

    Returns
    -------
    dict
        ``average_reward``, ``average_gain``, ``average_overhead`` per slot; ``until_1000`` and so on, the average
        reward of the first slots; for algorithm 1 as printed, ``above_request`` and ``above_capacity``, percentages
        of slots that violate constraints (5) and (6), ``excess_request``, the mean percentage of allocated amounts that
        exceeds requests, and ``worst_request``, the largest excess in percent of a request; ``defined_slots``, the
        slots before a reward was not a number; ``valid``, None if unchecked; and the running average reward as a curve
        over slots.
    """
    setting: Setting = run.setting
    choice: Choice = run.agent
    arrivals = bernoulli_arrivals(setting.num_slots, setting.num_ports, setting.probability, run.seed)
    rewards, lenient = system(setting, run.seed), breaks_limits(choice.policy)
    cluster = MultiServerCluster(rewards, arrivals, record_allocations=int(setting.check), enforce_limits=not lenient)
    agent: Any = create(choice.policy)
    try:
        result = simulate(cluster, agent, seed=run.seed)
    except InvalidConfiguration:
        if "leftovers" not in choice.policy:
            raise
        return {"average_reward": None, "defined_slots": agent.breaches.slots - 1, "valid": None}
    slots = result.table("slots")
    earned = slots["reward"].to_numpy()
    running = np.cumsum(earned) / np.arange(1, len(earned) + 1)
    found: dict[str, Any] = {
        "average_reward": float(earned.mean()),
        "average_gain": float(slots["gain"].to_numpy().mean()),
        "average_overhead": float(slots["overhead"].to_numpy().mean()),
        "defined_slots": len(earned),
    }
    found |= {f"until_{horizon}": float(running[horizon - 1]) for horizon in HORIZONS if horizon <= len(earned)}
    breaches: Breaches | None = getattr(agent, "breaches", None)
    if breaches is not None:
        shares = ("above_request", "above_capacity", "excess_request")
        found |= {name: 100.0 * getattr(breaches, name) / breaches.slots for name in shares}
        found["worst_request"] = 100.0 * breaches.worst_request
    valid = None
    if setting.check:  # the published algorithm does violate requests
        broken = {violation.rule for violation in validate(result, arrivals).violations}
        valid = broken <= ({"requests"} if lenient else set())
    points = np.unique(np.linspace(1, len(earned), POINTS).round().astype(np.int64)).tolist()
    return found | {"valid": valid, "by slot": {"average_reward": {slot: float(running[slot - 1]) for slot in points}}}
