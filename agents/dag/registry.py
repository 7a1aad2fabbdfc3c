"""DAG agents by name.

An order and an allocation make a list scheduler, such as ``"rank-up-deft"`` or ``"fifo-eft"``; the default allocation
is ``deft``. With the suffix ``-idle``, nodes wait until an executor is idle; with ``-patient``, they also wait while a
busy executor would finish them sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from desim.agents.dag.allocation import DEFT, EFT, Allocation, InsertionDEFT, InsertionEFT
from desim.agents.dag.list_scheduling import HEFT, ListScheduler, PatientScheduler
from desim.agents.dag.optimum import Optimum
from desim.agents.dag.orders import FIFO, HRRN, SJF, CriticalPath, LeastWork, Order, RandomOrder, RankUp
from desim.agents.dag.portfolio import Portfolio
from desim.agents.dag.published import CPOP, DLS, PEFT
from desim.agents.dag.rollout import RolloutAgent
from desim.agents.dag.switching import SwitchingAgent
from desim.agents.dag.tdca import TDCA
from desim.agents.registry import Family, Registry
from desim.checks import did_you_mean
from desim.core import Agent
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions"]

_ORDERS: dict[str, tuple[str, Callable[[], Order]]] = {
    "fifo": ("the job that arrived first", FIFO),
    "sjf": ("the job with the least total mean run time", SJF),
    "hrrn": ("the job with the highest response ratio", HRRN),
    "hrrn-node": ("the node with the highest response ratio", partial(HRRN, "node")),
    "rank-up": ("the node with the highest upward rank (longest path to the end of its job)", RankUp),
    "critical-path": ("the node on the longest path through its job", CriticalPath),
    "least-work": ("the job with the least unassigned work", LeastWork),
    "random": ("a random node", RandomOrder),
}

_ALLOCATIONS: dict[str, tuple[str, type[Allocation]]] = {
    "eft": ("earliest finish time", EFT),
    "insertion-eft": ("earliest finish time, also in idle intervals", InsertionEFT),
    "deft": ("earliest finish time, with a copy of one parent if that helps", DEFT),
    "insertion-deft": (
        "earliest finish time, with a copy of one parent if that helps, also in idle intervals",
        InsertionDEFT,
    ),
}

_SLACKS = {"least-work": 1.35}
"""Slacks other than 1 of patient schedulers, by order: the best for mean completion times on generated workloads."""


def _list_scheduler(order: str, rest: str) -> Agent:
    """Return the list scheduler for an order and the rest of its name: allocation, ``idle`` or ``patient``, if any."""
    allocation, _, mode = f"-{rest}".rpartition("-") if rest.endswith(("idle", "patient")) else (f"-{rest}", "", "")
    allocation = allocation.removeprefix("-") or "deft"
    if allocation not in _ALLOCATIONS:
        near = did_you_mean(rest, _ALLOCATIONS)
        raise InvalidConfiguration(
            f"unknown allocation {rest!r}{near}; expected one of {', '.join(_ALLOCATIONS)}, -idle and -patient"
        )
    parts = _ORDERS[order][1](), _ALLOCATIONS[allocation][1]()
    if mode == "patient":
        return PatientScheduler(*parts, slack=_SLACKS.get(order, 1.0))
    return ListScheduler(*parts, only_idle=mode == "idle")


def _graph(source: str) -> Agent:
    """Return the agent with trained weights, given by a pretrained name or a path."""
    from desim.agents.dag.graph_agent import GraphAgent

    return GraphAgent.named(source)


def _lachesis(source: str) -> Agent:
    """Return LACHESIS with trained weights, given by a pretrained name or a path."""
    from desim.agents.dag.printed import LachesisAgent

    return LachesisAgent.named(source)


def _decima(source: str) -> Agent:
    """Return Decima-DEFT with trained weights, given by a pretrained name or a path."""
    from desim.agents.dag.printed import DecimaAgent

    return DecimaAgent.named(source)


def _search(rest: str) -> Agent:
    """Return the search agent for an objective and optionally a budget and a guide, such as ``makespan:1000``."""
    from desim.agents.dag.search import SearchAgent

    return SearchAgent.named(f"dag:{rest}", _REGISTRY.create)


_MEMBERS = "heft+cpop+peft+dls+tdca+rank-up-insertion-deft+rank-up-deft-patient+critical-path-deft+fifo-deft"
"""Default members of the portfolio."""

_DISPATCHERS = "rank-up-deft-patient+least-work-deft-patient+sjf-deft-patient"
"""Default members of switching agents."""

_REGISTRY: Registry = Registry(
    "dag",
    {
        "heft": ("HEFT: highest upward rank first, earliest finish time with insertion; plans ahead.", HEFT),
        "cpop": ("CPOP: as HEFT, with the critical path on one executor; plans ahead.", CPOP),
        "peft": ("PEFT: as HEFT, with a table of optimistic remaining costs; plans ahead.", PEFT),
        "dls": ("DLS: the pair of node and executor with the highest dynamic level.", DLS),
        "tdca": ("TDCA: clusters of nodes with duplicates, merged onto the executors; plans ahead.", TDCA),
        "optimum": ("Optimal plans for a few small jobs that arrive together; needs ortools; plans ahead.", Optimum),
    },
    {
        **{
            f"{order}-ALLOCATION": Family(
                f"List scheduling: {text} comes next.", partial(_list_scheduler, order), "deft"
            )
            for order, (text, _) in _ORDERS.items()
        },
        "lachesis:NAME": Family(
            "LACHESIS as published: trained weights, by name or path.",
            _lachesis,
        ),
        "decima:NAME": Family(
            "Decima as released, with DEFT: trained weights, by name or path.",
            _decima,
        ),
        "graph:NAME": Family(
            "desim's graph network with DEFT: trained weights, by name or path.",
            _graph,
        ),
        "rollout:BASE": Family(
            "Try assignments in simulation, with agent BASE for later decisions, to minimize the makespan.",
            lambda base: RolloutAgent(_REGISTRY.create(base)),
        ),
        "rollout-turnaround_time_mean:BASE": Family(
            "As rollout, to minimize the mean time from arrival to completion.",
            lambda base: RolloutAgent(_REGISTRY.create(base), objective="turnaround_time_mean"),
        ),
        "portfolio:MEMBERS": Family(
            "Carry out the plan with the shortest simulated makespan among several agents (A+B+C); plans ahead.",
            lambda members: Portfolio([_REGISTRY.create(name) for name in members.split("+")]),
            _MEMBERS,
        ),
        "switching:DISPATCHERS": Family(
            "Whenever a job arrives, simulate several agents (A+B+C) and follow the one with the shortest makespan.",
            lambda members: SwitchingAgent([_REGISTRY.create(name) for name in members.split("+")]),
            _DISPATCHERS,
        ),
        "switching-turnaround_time_mean:DISPATCHERS": Family(
            "As switching, to minimize the mean time from arrival to completion.",
            lambda members: SwitchingAgent(
                [_REGISTRY.create(name) for name in members.split("+")], objective="turnaround_time_mean"
            ),
            _DISPATCHERS,
        ),
        "search:dag:OBJECTIVE:BUDGET": Family(
            "Search over orders and executors of nodes, and follow the best plan; needs numba. Add :AGENT to start "
            "from that agent's plan too.",
            _search,
            "makespan",
        ),
    },
    {
        **{f"ORDER-{allocation}": f"List scheduling by {text}." for allocation, (text, _) in _ALLOCATIONS.items()},
        "ORDER-ALLOCATION-idle": "List scheduling in which nodes wait until an executor is idle.",
        "ORDER-ALLOCATION-patient": "The same; nodes also wait while a busy executor would finish them sooner.",
    },
)
create, descriptions = _REGISTRY.create, _REGISTRY.descriptions
