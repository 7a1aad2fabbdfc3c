"""DAG agents by name.

An order and an allocation make a list scheduler, such as ``"rank-up-deft"`` or ``"fifo-eft"``; an order alone goes
with ``deft``. With ``-idle`` behind these, nodes are kept back until an executor is idle, with ``-patient`` also while
a busy one would finish them sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from desim.agents.dag.allocation import DEFT, EFT, Allocation, InsertionDEFT, InsertionEFT
from desim.agents.dag.list_scheduling import HEFT, ListScheduler, PatientScheduler
from desim.agents.dag.optimum import Optimum
from desim.agents.dag.orders import FIFO, HRRN, SJF, CriticalPath, LeastWork, Order, RandomOrder, RankUp
from desim.agents.dag.portfolio import Portfolio
from desim.agents.dag.published import CPOP, DLS, PEFT
from desim.agents.dag.rollout import RolloutAgent
from desim.agents.dag.tdca import TDCA
from desim.agents.learning.pretrained import made_of
from desim.agents.registry import Family, Registry
from desim.checks import did_you_mean
from desim.core import Agent
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions", "files"]

_ORDERS: dict[str, tuple[str, Callable[[], Order]]] = {
    "fifo": ("the job that arrived first comes next", FIFO),
    "sjf": ("the job with the least mean run time in all comes next", SJF),
    "hrrn": ("the job with the highest response ratio comes next", HRRN),
    "hrrn-node": ("the node with the highest response ratio comes next", partial(HRRN, "node")),
    "rank-up": ("the node with the longest way to the end of its job comes next", RankUp),
    "critical-path": ("the node on the longest path through its job comes next", CriticalPath),
    "least-work": ("the job with the least work left to assign comes next", LeastWork),
    "random": ("any node comes next", RandomOrder),
}

_ALLOCATIONS: dict[str, tuple[str, type[Allocation]]] = {
    "eft": ("the executor where it finishes first", EFT),
    "insertion-eft": ("the same, in idle time too", InsertionEFT),
    "deft": ("the executor where it finishes first, with a copy of one parent before it if that helps", DEFT),
    "insertion-deft": ("the same, in idle time too", InsertionDEFT),
}

_SLACKS = {"least-work": 1.35}
"""Of patient schedulers, if it is not 1, by order: what kept mean completion times shortest on generated workloads."""


def _list_scheduler(order: str, rest: str) -> Agent:
    """Return the list scheduler of an order, and of an allocation or none, and perhaps ``idle`` or ``patient``."""
    allocation, _, mode = f"-{rest}".rpartition("-") if rest.endswith(("idle", "patient")) else (f"-{rest}", "", "")
    allocation = allocation.removeprefix("-") or "deft"
    if allocation not in _ALLOCATIONS:
        near = did_you_mean(rest, _ALLOCATIONS)
        raise InvalidConfiguration(
            f"no allocation {rest!r}{near}; there are {', '.join(_ALLOCATIONS)}, -idle and -patient"
        )
    parts = _ORDERS[order][1](), _ALLOCATIONS[allocation][1]()
    if mode == "patient":
        return PatientScheduler(*parts, slack=_SLACKS.get(order, 1.0))
    return ListScheduler(*parts, only_idle=mode == "idle")


def _graph(source: str) -> Agent:
    """Return the agent of trained weights: a pretrained name or a path."""
    from desim.agents.dag.graph_agent import GraphAgent

    return GraphAgent.named(source)


def _lachesis(source: str) -> Agent:
    """Return LACHESIS with trained weights: a pretrained name or a path."""
    from desim.agents.dag.printed import LachesisAgent

    return LachesisAgent.named(source)


def _decima(source: str) -> Agent:
    """Return Decima-DEFT with trained weights: a pretrained name or a path."""
    from desim.agents.dag.printed import DecimaAgent

    return DecimaAgent.named(source)


def _search(rest: str) -> Agent:
    """Return the search agent of an objective, perhaps a budget and a guide, such as ``makespan:1000``."""
    from desim.agents.dag.search import SearchAgent

    return SearchAgent.named(f"dag:{rest}", _REGISTRY.create)


def _guide_files(rest: str) -> tuple[Path, ...] | None:
    """Return the files of the agent that a search begins with; it stands behind objective and budget."""
    guide = ":".join(rest.split(":")[2:])
    return _REGISTRY.files(guide) if guide else ()


def _base_files(base: str) -> tuple[Path, ...] | None:
    """Return the files of the agent that another one is made of."""
    return _REGISTRY.files(base)


def _member_files(members: str) -> tuple[Path, ...] | None:
    found: tuple[Path, ...] = ()
    for name in members.split("+"):
        files = _REGISTRY.files(name)
        if files is None:
            return None
        found += files
    return found


_MEMBERS = "heft+cpop+peft+dls+tdca+rank-up-insertion-deft+rank-up-deft-patient+critical-path-deft+fifo-deft"
"""Of the portfolio that names none."""

_REGISTRY: Registry = Registry(
    "dag",
    {
        "heft": ("Upward ranks, then the executor where the node finishes first, in idle time too; plans ahead.", HEFT),
        "cpop": ("HEFT with the nodes of the critical path on one executor; plans ahead.", CPOP),
        "peft": ("HEFT with a table of what is still to come; plans ahead.", PEFT),
        "dls": ("The pair of node and executor with the highest dynamic level.", DLS),
        "tdca": ("Clusters of nodes with duplicates, merged onto the executors; plans ahead.", TDCA),
        "optimum": ("The exact optimum, for a few small jobs; needs ortools; plans ahead.", Optimum),
    },
    {
        **{
            f"{order}-ALLOCATION": Family(f"List scheduling: {text}.", partial(_list_scheduler, order), "deft")
            for order, (text, _) in _ORDERS.items()
        },
        "lachesis:NAME": Family(
            "LACHESIS as its paper prints it: trained weights, by name or path.",
            _lachesis,
            files=partial(made_of, agent="lachesis"),
        ),
        "decima:NAME": Family(
            "Decima as released, with DEFT: trained weights, by name or path.",
            _decima,
            files=partial(made_of, agent="decima"),
        ),
        "graph:NAME": Family(
            "A graph network of desim's own with DEFT: trained weights, by name or path.",
            _graph,
            files=partial(made_of, agent="graph"),
        ),
        "rollout:BASE": Family(
            "Tries assignments in simulation, another agent doing the rest, for a short makespan.",
            lambda base: RolloutAgent(_REGISTRY.create(base)),
            files=_base_files,
        ),
        "rollout-completion_time:BASE": Family(
            "The same, for short times from arrival to completion.",
            lambda base: RolloutAgent(_REGISTRY.create(base), objective="completion_time"),
            files=_base_files,
        ),
        "portfolio:MEMBERS": Family(
            "Carries out the plan of several agents (A+B+C) that is done first in simulation; plans ahead.",
            lambda members: Portfolio([_REGISTRY.create(name) for name in members.split("+")]),
            _MEMBERS,
            _member_files,
        ),
        "search:dag:OBJECTIVE:BUDGET": Family(
            "Moves nodes to other places and executors, and follows the best plan; needs numba. With an agent's name "
            "behind the budget it begins with what that one would do, too.",
            _search,
            "makespan",
            _guide_files,
        ),
    },
    {
        **{f"ORDER-{allocation}": f"List scheduling: {text}." for allocation, (text, _) in _ALLOCATIONS.items()},
        "ORDER-ALLOCATION-idle": "List scheduling that keeps nodes back until an executor is idle.",
        "ORDER-ALLOCATION-patient": "The same, and nodes are held back while a busy executor would finish them sooner.",
    },
)
create, descriptions, files = _REGISTRY.create, _REGISTRY.descriptions, _REGISTRY.files
