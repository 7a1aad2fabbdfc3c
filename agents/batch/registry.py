"""Batch agents by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name

from desim.agents.batch.backfilling import ConservativeBackfilling, EASYBackfilling, SimpleBackfilling
from desim.agents.batch.moldable import MoldableBackfilling
from desim.agents.batch.preemptive import PreemptiveAgent
from desim.agents.batch.priorities import EXPECTED, PRIORITIES
from desim.agents.batch.rollout import RolloutAgent
from desim.agents.registry import Family, Registry
from desim.core import Agent
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions"]


def _window_rule(rest: str) -> Agent:
    """Return the window rule of a name such as ``window-reserving-9-1@7200``, given without ``window-``."""
    from desim.agents.batch.window_rules import HORIZON, WindowRule

    found = re.fullmatch(r"(.+)-(\d+)-(\d+)(?:@(\d+(?:\.\d+)?|inf))?", rest)
    if found is None:
        raise InvalidConfiguration(f"unknown batch agent 'window-{rest}'; try for example window-shortest-9-1")
    rule, head, tail, horizon = found.groups()
    if horizon is not None and rule != "reserving":
        raise InvalidConfiguration(f"unknown batch agent 'window-{rest}': only rule 'reserving' has a horizon")
    return WindowRule(rule, int(head), int(tail), horizon=float(horizon or HORIZON))  # type: ignore[arg-type]  # WindowRule checks it


def _split_window(source: str) -> Agent:
    """Return the agent with trained weights, given by a pretrained name or a path, optionally with ``@HEAD-TAIL``."""
    from desim.agents.batch.split_window import SplitWindowAgent

    stem, _, window = source.rpartition("@") if "@" in source.rpartition("/")[2] else (source, "", "")
    head, _, tail = window.partition("-")
    if window and not (head.isdecimal() and tail.isdecimal()):
        raise InvalidConfiguration(f"window: got {window!r}, expected HEAD-TAIL; try for example @9-1")
    agent = SplitWindowAgent.named(stem, **({"head": int(head), "tail": int(tail)} if window else {}))
    agent.name = f"split-window:{source}"
    return agent


def _imported(where: str, text: str) -> Agent:
    """Return an agent of a module that is imported when it is needed; it is made by, say, ``dbf:DBFAgent.named``."""
    agent: Agent = resolve_name(f"desim.agents.batch.{where}")(text)
    return agent


def _easy(rest: str, *, specific_cores: bool = False) -> Agent:
    """Return EASY with an order, or with two such as ``fcfs+sjf-expected``: the second is that of backfilling."""
    orders, _, predictor = rest.partition("@")
    order, _, backfill = orders.partition("+")
    return EASYBackfilling(order, specific_cores=specific_cores, backfill=backfill or None, predictor=predictor or None)


def _conservative(rest: str, *, specific_cores: bool = False) -> Agent:
    """Return conservative backfilling with an order, and possibly a predictor."""
    order, _, predictor = rest.partition("@")
    return ConservativeBackfilling(order, specific_cores=specific_cores, predictor=predictor or None)


def _easy_plus_plus() -> Agent:
    """Return EASY++ under its own name."""
    agent = EASYBackfilling("fcfs", backfill="sjf-expected", predictor="user-average")
    agent.name = "easy++"
    return agent


_BACKFILLING: dict[str, tuple[str, Callable[[str], Agent]]] = {
    "backfilling": ("any later job that fits may start", SimpleBackfilling),
    "easy": ("the first blocked job has a reservation", _easy),
    "easy-specific": ("EASY with reservations of particular cores", partial(_easy, specific_cores=True)),
    "easy-moldable": ("EASY with the best size of each moldable job", MoldableBackfilling),
    "conservative": ("every job has a reservation", _conservative),
    "conservative-specific": (
        "every job has a reservation of particular cores",
        partial(_conservative, specific_cores=True),
    ),
}

_REGISTRY: Registry = Registry(
    "batch",
    {
        **{name: ((priority.__doc__ or "").splitlines()[0], priority) for name, priority in PRIORITIES.items()},
        **{
            name: (f"As {name.removesuffix('-expected')}, by predicted run times.", make)
            for name, make in EXPECTED.items()
        },
        "easy++": (
            "EASY by predicted run times (of the user's last two jobs) that backfills the shortest job first.",
            _easy_plus_plus,
        ),
    },
    {
        **{
            f"{kind}-PRIORITY": Family(f"Backfilling: {text}.", make, "fcfs")
            for kind, (text, make) in _BACKFILLING.items()
        },
        "easy-PRIORITY+PRIORITY": Family(
            "EASY in one order that backfills in another, such as easy-fcfs+sjf-expected.", _easy, "fcfs"
        ),
        "easy-PRIORITY@PREDICTOR": Family(
            "EASY, or conservative-..., that plans by a predictor: request, user-average, user-average:N or oracle.",
            _easy,
            "fcfs",
        ),
        "preemptive-AGENT": Family(
            "A priority order or backfilling agent whose first job may preempt others, by QOS.",
            lambda base: PreemptiveAgent(_REGISTRY.create(base)),
            "easy",
        ),
        "window-RULE-HEAD-TAIL": Family(
            "Start a fitting job in a window of the queue: shortest, smallest, first, random, or another rule.",
            _window_rule,
        ),
        "window-RULE-HEAD-TAIL@SECONDS": Family("Rule 'reserving' with a horizon other than 3600 s.", _window_rule),
        "split-window:NAME": Family(
            "A network over a window of the queue: pretrained name, or path such as ./out/split-window-9-1.",
            _split_window,
        ),
        "split-window:NAME@HEAD-TAIL": Family("The same network with another window.", _split_window),
        "dbf:NAME": Family(
            "DBF as published: pretrained name, or path such as ./out/dbf-m20-t1.",
            partial(_imported, "dbf:DBFAgent.named"),
        ),
        "inspector:NAME": Family(
            "A network that rejects some choices of a priority, after SchedInspector: pretrained name, or path.",
            partial(_imported, "inspector:Inspector.named"),
        ),
        "inspector-PRIORITY": Family(
            "Base policy of inspector: the chosen job waits for its cores, and others backfill as in EASY.",
            partial(_imported, "inspector:Inspector"),
        ),
        "schedinspector:NAME": Family(
            "SchedInspector as its program was released: pretrained name, or path.",
            partial(_imported, "inspector:SchedInspector.named"),
        ),
        "schedinspector-PRIORITY": Family(
            "Base policy of schedinspector: others start in order of arrival if they end before the chosen job starts.",
            partial(_imported, "inspector:SchedInspector"),
        ),
        "rollout:BASE": Family(
            "Try starts in simulation, with agent BASE for later decisions, to minimize the mean bounded slowdown.",
            lambda base: RolloutAgent(_REGISTRY.create(base)),
        ),
        "rollout-waiting_time_mean:BASE": Family(
            "As rollout, to minimize the mean waiting time.",
            lambda base: RolloutAgent(_REGISTRY.create(base), objective="waiting_time_mean"),
        ),
        "search:batch:OBJECTIVE:BUDGET": Family(
            "Search over orders of the queue, and start what the best order starts now; needs numba.",
            lambda rest: _imported("search:SearchAgent.named", f"batch:{rest}"),
            "waiting_time_mean",
        ),
        "replay:FILE": Family(
            "Start each job at the time recorded in the log, or as soon as possible after it.",
            partial(_imported, "trace_replay:TraceReplay.named"),
        ),
    },
)
create, descriptions = _REGISTRY.create, _REGISTRY.descriptions
