"""One run of the experiments: a cluster, an agent, a seed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from desim import Result, simulate
from desim.agents.multiserver import (
    DRF,
    AdaGrad,
    BinPacking,
    Fairness,
    GeometricSteps,
    OGASched,
    OptimisticOGA,
    Spreading,
)
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.experiments.run import Choice, is_valid
from desim.problems.multiserver import MultiServerCluster
from desim.sweep import Run
from desim.workloads.multiserver import bernoulli_arrivals, generate

__all__ = ["MOST_POINTS", "Choice", "Setting", "create", "perform"]

#: Points that are kept of a curve over time.
MOST_POINTS = 500


@dataclass(frozen=True)
class Setting:
    """A cluster and its workload; the defaults are those of table II and of section 4.

    Attributes
    ----------
    num_ports, num_nodes : int
        |L| and |R|.
    density : float
        Mean number of ports that a node serves; the paper varies it around 2.5.
    contention : float
        Multiplies all requests.
    utilities : str
        ``"mixed"``, or the name of one utility for all nodes and resources.
    weights, overhead : tuple of float
        Ranges of alpha and beta.
    probability : float
        With which a job arrives at a port in a slot, rho.
    num_slots : int
        T.
    check : bool
        Record all allocations and check the records with `desim.validation`.
    """

    num_ports: int = 10
    num_nodes: int = 128
    density: float = 2.5
    contention: float = 10.0
    utilities: str = "mixed"
    weights: tuple[float, float] = (1.0, 1.5)
    overhead: tuple[float, float] = (0.3, 0.5)
    probability: float = 0.7
    num_slots: int = 2_000
    check: bool = False


def _ogasched(form: Any, initial: float, decay: float) -> Agent:
    return OGASched(form, GeometricSteps(initial, decay))


def _optimistic(initial: float, decay: float) -> Agent:
    return OptimisticOGA(GeometricSteps(initial, decay))


_POLICIES: dict[str, Callable[..., Agent]] = {
    "OGASched": _ogasched,
    "DRF": DRF,
    "Fairness": Fairness,
    "BinPacking": BinPacking,
    "Spreading": Spreading,
    "AdaGrad": AdaGrad,
    "OptimisticOGA": _optimistic,
}


def create(choice: Choice) -> Agent:
    """Return a new agent.

    Parameters
    ----------
    choice : Choice
        Which one.

    Returns
    -------
    Agent
        With the parameters of the choice.

    Raises
    ------
    InvalidConfiguration
        If there is no such policy.
    """
    if choice.policy not in _POLICIES:
        raise InvalidConfiguration(f"no policy {choice.policy!r}; there are {', '.join(_POLICIES)}")
    return _POLICIES[choice.policy](**dict(choice.parameters))


def perform(run: Run) -> dict[str, Any]:
    """Simulate a run. All agents of one setting and seed face the same cluster and the same arrivals.

    Parameters
    ----------
    run : Run
        Of a :class:`Setting` and a :class:`Choice`.

    Returns
    -------
    dict
        ``average_reward``, ``average_gain``, ``average_overhead`` per slot; ``negative_slots``, the share of slots
        whose reward is below 0; ``utilization`` by resource; ``curve`` with the running ``average_reward`` at up to
        500 numbers of ``slots``; ``num_jobs``; ``seconds_per_slot`` of wall time; ``valid``, None if unchecked.
    """
    setting: Setting = run.setting
    rewards = generate(
        num_ports=setting.num_ports,
        num_nodes=setting.num_nodes,
        density=setting.density,
        contention=setting.contention,
        utilities=setting.utilities,
        weights=setting.weights,
        overhead=setting.overhead,
        seed=run.seed,
    )
    arrivals = bernoulli_arrivals(setting.num_slots, setting.num_ports, setting.probability, run.seed)
    cluster = MultiServerCluster(rewards, arrivals, record_allocations=int(setting.check))
    agent = create(run.agent)
    started = time.perf_counter()
    result = simulate(cluster, agent, seed=run.seed)
    seconds = time.perf_counter() - started
    return _measured(result) | {
        "seconds_per_slot": seconds / setting.num_slots,
        "valid": is_valid(result, arrivals, check=setting.check),
    }


def _measured(result: Result) -> dict[str, Any]:
    slots = result.table("slots")
    rewards = slots["reward"].to_numpy()
    running = np.cumsum(rewards) / np.arange(1, len(rewards) + 1)
    points = np.unique(np.linspace(1, len(rewards), MOST_POINTS).round().astype(np.int64))
    capacity = dict(zip(result.info["resources"], result.info["total_capacity"], strict=True))
    return {
        "average_reward": float(rewards.mean()),
        "average_gain": float(slots["gain"].to_numpy().mean()),
        "average_overhead": float(slots["overhead"].to_numpy().mean()),
        "negative_slots": float((rewards < 0).mean()),
        "utilization": {
            name: float(slots[f"allocated_{name}"].to_numpy().mean()) / total if total else None
            for name, total in capacity.items()
        },
        "curve": {"slots": points.tolist(), "average_reward": running[points - 1].tolist()},
        "num_jobs": int(slots["arrived"].sum()),
    }
