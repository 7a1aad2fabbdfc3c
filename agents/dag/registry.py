"""DAG agents by name, for sweeps and the command line."""

from __future__ import annotations

from collections.abc import Callable

from desim.agents.dag.allocation import DEFT, EFT, Allocation, InsertionDEFT, InsertionEFT
from desim.agents.dag.list_scheduling import HEFT, ListScheduler, PatientScheduler
from desim.agents.dag.optimum import Optimum
from desim.agents.dag.orders import FIFO, HRRN, SJF, CriticalPath, LeastWork, Order, RandomOrder, RankUp
from desim.agents.dag.published import CPOP, DLS, PEFT
from desim.agents.dag.tdca import TDCA
from desim.core import Agent
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions"]

_GRAPH, _ROLLOUT = "graph", "rollout"

_ORDERS: dict[str, tuple[str, Callable[[], Order]]] = {
    "fifo": ("the job that arrived first comes next", FIFO),
    "sjf": ("the job with the least mean run time in all comes next", SJF),
    "hrrn": ("the job with the highest response ratio comes next", HRRN),
    "hrrn-node": ("the node with the highest response ratio comes next", lambda: HRRN("node")),
    "rank_up": ("the node with the longest way to the end of its job comes next", RankUp),
    "critical-path": ("the node on the longest path through its job comes next", CriticalPath),
    "least-work": ("the job with the least work left to assign comes next", LeastWork),
    "random": ("any node comes next", RandomOrder),
}

_ALLOCATIONS: dict[str, tuple[str, Callable[[], Allocation]]] = {
    "eft": ("the executor where it finishes first", EFT),
    "insertion-eft": ("the same, in idle time too", InsertionEFT),
    "deft": ("the executor where it finishes first, with a copy of one parent before it if that helps", DEFT),
    "insertion-deft": ("the same, in idle time too", InsertionDEFT),
}

_AGENTS: dict[str, tuple[str, Callable[[], Agent]]] = {
    "heft": ("Upward ranks, then the executor where the node finishes first, in idle time too; plans ahead.", HEFT),
    "cpop": ("HEFT with the nodes of the critical path on one executor; plans ahead.", CPOP),
    "peft": ("HEFT with a table of what is still to come; plans ahead.", PEFT),
    "dls": ("The pair of node and executor with the highest dynamic level.", DLS),
    "tdca": ("Clusters of nodes with duplicates, merged onto the executors; plans ahead.", TDCA),
    "optimum": ("The exact optimum, for a few small jobs; needs ortools; plans ahead.", Optimum),
}


_SLACKS = {"least-work": 1.35}
"""Of patient schedulers, if it is not 1, by order: what kept mean completion times shortest on generated workloads."""


def create(name: str) -> Agent:
    """Return a new agent.

    Parameters
    ----------
    name : str
        One that :func:`descriptions` lists, such as ``"heft"``, or an order and an allocation, such as
        ``"rank_up-deft"`` or ``"fifo-eft"``; an order alone goes with ``deft``. With ``-idle`` behind these, nodes are
        kept back until an executor is idle, with ``-patient`` also while a busy one would finish them sooner.

    Returns
    -------
    Agent
        With its default parameters, or with trained weights: ``"graph:NAME"``, a pretrained name or a path; or one
        that looks ahead with another one: ``"rollout:BASE"`` or ``"rollout-completion_time:BASE"``.

    Raises
    ------
    InvalidConfiguration
        If there is no such agent.
    """
    if name in _AGENTS:
        return _AGENTS[name][1]()
    if name.startswith(f"{_GRAPH}:"):
        return _graph(name.partition(":")[2])
    if name.startswith((f"{_ROLLOUT}:", f"{_ROLLOUT}-")):
        return _rollout(name)
    pair = name.removesuffix("-idle").removesuffix("-patient")
    for order, (_, make_order) in _ORDERS.items():
        for allocation, (_, make_allocation) in _ALLOCATIONS.items():
            if pair in (f"{order}-{allocation}", order if allocation == "deft" else None):
                if name.endswith("-patient"):
                    slack = _SLACKS.get(order, 1.0)
                    return PatientScheduler(make_order(), make_allocation(), slack=slack)
                return ListScheduler(make_order(), make_allocation(), only_idle=pair != name)
    raise InvalidConfiguration(
        f"no dag agent {name!r}; there are {', '.join(_AGENTS)}, and ORDER-ALLOCATION with an order of "
        f"{', '.join(_ORDERS)} and an allocation of {', '.join(_ALLOCATIONS)}, with or without "
        f"-idle or -patient, {_GRAPH}:NAME, and {_ROLLOUT}:BASE"
    )


def _graph(source: str) -> Agent:
    """Return the agent of trained weights: a pretrained name or a path."""
    from desim.agents.dag.graph_agent import GraphAgent

    return GraphAgent.named(source)


def _rollout(name: str) -> Agent:
    """Return the rollout agent of a name such as ``rollout:fifo-deft`` or ``rollout-completion_time:fifo-deft``."""
    from desim.agents.dag.rollout import RolloutAgent

    kind, _, base = name.partition(":")
    objective = kind.removeprefix(_ROLLOUT).removeprefix("-") or "makespan"
    return RolloutAgent(create(base), objective=objective)  # type: ignore[arg-type]  # it checks


def descriptions() -> dict[str, str]:
    """Return every name, or pattern of names, with a line on what the agent does.

    Returns
    -------
    dict of str to str
        In the order in which they are listed.
    """
    lines = {name: text for name, (text, _) in _AGENTS.items()}
    lines |= {f"{name}-ALLOCATION": f"List scheduling: {text}." for name, (text, _) in _ORDERS.items()}
    lines |= {f"ORDER-{name}": f"List scheduling: {text}." for name, (text, _) in _ALLOCATIONS.items()}
    lines["ORDER-ALLOCATION-idle"] = "List scheduling that keeps nodes back until an executor is idle."
    lines["ORDER-ALLOCATION-patient"] = (
        "The same, and nodes are held back while a busy executor would finish them sooner."
    )
    lines[f"{_GRAPH}:NAME"] = "LACHESIS or Decima with DEFT: trained weights, by name or path."
    lines[f"{_ROLLOUT}:BASE"] = (
        "Tries assignments in simulation, another agent doing the rest; rollout-completion_time:BASE."
    )
    return lines
