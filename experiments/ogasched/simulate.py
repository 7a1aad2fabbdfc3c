"""One run of the experiments: a cluster, an agent, a seed; and one of which the regret is measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from desim import Result, simulate
from desim.agents.multiserver import (
    DRF,
    AdaGrad,
    BestSlot,
    BinPacking,
    ExactOGA,
    Fairness,
    GeometricSteps,
    LineSearchOGA,
    OptimisticOGA,
    Spreading,
)
from desim.agents.multiserver.oga import OnlineGradient, TheoreticalSteps
from desim.agents.multiserver.regret import regret_bound, regret_curve
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.experiments.measured import Choice, is_valid
from desim.problems.multiserver import MultiServerCluster, RewardModel, SlotOutcome
from desim.sweep import Run
from desim.workloads.multiserver import bernoulli_arrivals, generate

__all__ = [
    "ARRIVALS",
    "MOST_POINTS",
    "Learner",
    "RegretSetting",
    "Setting",
    "create",
    "perform",
    "perform_regret",
    "worst_served",
]

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
    return ExactOGA(form, GeometricSteps(initial, decay))


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
    "LineSearchOGA": LineSearchOGA,
    "BestSlot": BestSlot,
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


# -- regret -----------------------------------------------------------------------------------------

ARRIVALS = ("random", "periodic", "adversarial")
"""How jobs arrive."""


@dataclass(frozen=True)
class RegretSetting:
    """The cluster of table II with other arrivals.

    Attributes
    ----------
    arrivals : str
        ``"random"``: at every port with probability 0.7; ``"periodic"``: at 7 of 10 ports, one further round in every
        slot; ``"adversarial"``: at the half of the ports that would earn least with what is reserved for them.
    num_slots : int
        The horizon T.
    num_ports, num_nodes : int
        |L| and |R|.
    """

    arrivals: str
    num_slots: int
    num_ports: int = 10
    num_nodes: int = 128


@dataclass(frozen=True)
class Learner:
    """An online gradient method that reserves before it sees the jobs.

    Attributes
    ----------
    policy : str
        ``"OGASched, theory"`` with the constant step of theorem 1, ``"OGASched, half of it"`` with a step half as long
        (with the full one, the bounds of allocations hold the regret down at short horizons, which makes it seem to
        grow faster than it does), ``"OGASched"`` with the steps of table II, ``"AdaGrad"``, or ``"LineSearch"``.
    """

    policy: str


LEARNERS: dict[str, Callable[[int], OnlineGradient]] = {
    "OGASched, theory": lambda num_slots: ExactOGA("reservation", TheoreticalSteps(num_slots)),
    "OGASched, half of it": lambda num_slots: ExactOGA("reservation", TheoreticalSteps(num_slots, 0.5)),
    "OGASched": lambda num_slots: ExactOGA("reservation", GeometricSteps(25.0, 0.9999)),
    "AdaGrad": lambda num_slots: AdaGrad("reservation", 10.0),
    "LineSearch": lambda num_slots: LineSearchOGA("reservation"),
}


def worst_served(rewards: RewardModel, allocation: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the half of the ports that would earn least.

    Parameters
    ----------
    rewards : RewardModel
        Utilities and overhead.
    allocation : numpy.ndarray of shape (num_channels, num_resources)
        What is reserved.

    Returns
    -------
    numpy.ndarray of bool, shape (num_ports,)
        At least one port; ties go to the lower ports.
    """
    num_ports = rewards.graph.num_ports
    earnings = rewards.evaluate(allocation, np.ones(num_ports, dtype=np.bool_))
    worst = np.zeros(num_ports, dtype=np.bool_)
    order = np.argsort(earnings.gain - earnings.overhead, kind="stable")
    worst[order[: max(1, num_ports // 2)]] = True
    return worst


def perform_regret(run: Run) -> dict[str, Any]:
    """Simulate a run and measure its regret at the end.

    Parameters
    ----------
    run : Run
        Of a :class:`RegretSetting` and a :class:`Learner`.

    Returns
    -------
    dict
        ``regret``, ``bound`` of theorem 1, ``earned``, the total reward, and ``num_jobs``.

    Raises
    ------
    InvalidConfiguration
        If the setting names unknown arrivals or the agent an unknown policy.
    """
    setting: RegretSetting = run.setting
    if setting.arrivals not in ARRIVALS:
        raise InvalidConfiguration(f"arrivals is {setting.arrivals!r}, want one of {', '.join(ARRIVALS)}")
    if run.agent.policy not in LEARNERS:
        raise InvalidConfiguration(f"no policy {run.agent.policy!r}; there are {', '.join(LEARNERS)}")
    rewards = generate(num_ports=setting.num_ports, num_nodes=setting.num_nodes, seed=run.seed)
    agent = LEARNERS[run.agent.policy](setting.num_slots)
    cluster = MultiServerCluster(
        rewards,
        _arrivals(setting, run.seed),
        record_allocations=0,
        processes=[_adversary(agent, setting.num_slots)] if setting.arrivals == "adversarial" else [],
    )
    seen: list[SlotOutcome] = []
    cluster.on("slot", lambda time, outcome: seen.append(outcome._replace(allocation=None)))
    result = simulate(cluster, agent, seed=run.seed)
    earned = result.table("slots")["reward"].to_numpy()
    arrived = np.array([outcome.arrived for outcome in seen])
    (regret,) = regret_curve(rewards, arrived, earned, slots=[setting.num_slots])
    return {
        "regret": float(regret),
        "bound": regret_bound(rewards, setting.num_slots),
        "earned": float(earned.sum()),
        "num_jobs": int(arrived.sum()),
    }


def _arrivals(setting: RegretSetting, seed: int) -> NDArray[Any]:
    """Return the jobs that the workload has; an adversary sends its own."""
    shape = setting.num_slots, setting.num_ports
    if setting.arrivals == "random":
        return np.asarray(bernoulli_arrivals(*shape, seed=seed))
    if setting.arrivals == "periodic":
        slots, ports = np.indices(shape)
        return np.asarray((slots + ports) % setting.num_ports < 0.7 * setting.num_ports)
    return np.zeros(shape, dtype=np.bool_)


def _adversary(
    agent: OnlineGradient, num_slots: int
) -> Callable[[MultiServerCluster], Generator[simpy.Event, Any, None]]:
    """Return a process that sees, half a slot ahead, what the agent has reserved, and sends jobs accordingly."""

    def send(cluster: MultiServerCluster) -> Generator[simpy.Event, Any, None]:
        nothing = np.zeros(cluster.rewards.graph.shape)
        for slot in range(num_slots):
            reserved = nothing if agent.allocation is None else agent.allocation
            for port in np.flatnonzero(worst_served(cluster.rewards, reserved)).tolist():
                cluster.submit(port)
            yield cluster.env.timeout(1.0 if slot else 0.5)

    return send
