"""Batch agents by name, for the command line and for sweeps."""

from __future__ import annotations

from collections.abc import Callable

from desim.agents.batch.backfilling import ConservativeBackfilling, EASYBackfilling, SimpleBackfilling
from desim.agents.batch.priorities import PRIORITIES, as_priority
from desim.core import Agent
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions"]

_BACKFILLING: dict[str, tuple[str, Callable[[str], Agent]]] = {
    "backfilling": ("any later job that fits may start", SimpleBackfilling),
    "easy": ("a reservation for the first blocked job", EASYBackfilling),
    "easy-specific": ("the same, on particular cores", lambda order: EASYBackfilling(order, specific_cores=True)),
    "conservative": ("a reservation for every job", ConservativeBackfilling),
    "conservative-specific": (
        "the same, on particular cores",
        lambda order: ConservativeBackfilling(order, specific_cores=True),
    ),
}

SPLIT_WINDOW, INSPECTOR, ROLLOUT = "split-window", "inspector", "rollout"
_PATTERNS = {
    "window-RULE-HEAD-TAIL": "A job that fits in a window: the shortest, smallest, first, one at random, and others.",
    "split-window:NAME": "A network on a window of the queue: pretrained, or a path such as ./out/split-window-9-1.",
    "split-window:NAME@HEAD-TAIL": "The same on another window.",
    "inspector:NAME": "SchedInspector: a network rejects some choices of a priority; pretrained, or a path.",
    "rollout:BASE": "Tries starts in simulation, another agent doing the rest; rollout-waiting_time:BASE for the wait.",
}


def create(name: str) -> Agent:
    """Return a new agent.

    Parameters
    ----------
    name : str
        A priority such as ``"fcfs"`` (strict), or a kind of back-filling over one, such as
        ``"easy-f1"``; without a priority, ``"easy"`` means ``"easy-fcfs"``.

    Returns
    -------
    Agent
        Its ``name`` is the full name.

    Raises
    ------
    InvalidConfiguration
        If there is no such agent.
    """
    if name in PRIORITIES:
        return as_priority(name)
    for prefix, make_named in _NAMED.items():
        if name.startswith(prefix):
            return make_named(name)
    for prefix in sorted(_BACKFILLING, key=len, reverse=True):
        make = _BACKFILLING[prefix][1]
        if name == prefix:
            return make("fcfs")
        if name.startswith(f"{prefix}-"):
            return make(name.removeprefix(f"{prefix}-"))
    kinds = ", ".join([*(f"{prefix}-PRIORITY" for prefix in _BACKFILLING), *_PATTERNS])
    raise InvalidConfiguration(f"no batch agent {name!r}; there are {', '.join(PRIORITIES)}, and {kinds}")


def _window_rule(name: str) -> Agent:
    """Return the rule of a name such as ``window-shortest-9-1``."""
    from desim.agents.batch.window_rules import WindowRule

    _, *rule, head, tail = name.split("-") if name.count("-") >= 3 else ("", "", "", "")
    if not (head.isdecimal() and tail.isdecimal()):
        raise InvalidConfiguration(f"no batch agent {name!r}; want for example window-shortest-9-1")
    return WindowRule("-".join(rule), int(head), int(tail))  # type: ignore[arg-type]  # it checks


def _split_window(name: str) -> Agent:
    """Return the agent of trained weights: a pretrained name or a path, and perhaps ``@HEAD-TAIL``."""
    from desim.agents.batch.split_window import SplitWindowAgent

    source = name.partition(":")[2]
    stem, _, window = source.rpartition("@") if "@" in source.rpartition("/")[2] else (source, "", "")
    head, _, tail = window.partition("-")
    if window and not (head.isdecimal() and tail.isdecimal()):
        raise InvalidConfiguration(f"no window {window!r}; want for example @9-1")
    sizes = {"head": int(head), "tail": int(tail)} if window else {}
    agent = SplitWindowAgent.named(stem, **sizes)
    agent.name = name
    return agent


def _inspector(name: str) -> Agent:
    """Return the inspector of trained weights: a pretrained name or a path."""
    from desim.agents.batch.inspector import Inspector

    return Inspector.named(name.partition(":")[2])


def _rollout(name: str) -> Agent:
    """Return the rollout agent of a name such as ``rollout:easy`` or ``rollout-waiting_time:easy``."""
    from desim.agents.batch.rollout import RolloutAgent

    kind, _, base = name.partition(":")
    objective = kind.removeprefix(ROLLOUT).removeprefix("-") or "bounded_slowdown"
    return RolloutAgent(create(base), objective=objective)  # type: ignore[arg-type]  # it checks


_NAMED: dict[str, Callable[[str], Agent]] = {
    "window-": _window_rule,
    f"{SPLIT_WINDOW}:": _split_window,
    f"{INSPECTOR}:": _inspector,
    f"{ROLLOUT}:": _rollout,
    f"{ROLLOUT}-": _rollout,
}


def descriptions() -> dict[str, str]:
    """Return every name, or pattern of names, with a line on what the agent does.

    Returns
    -------
    dict of str to str
        In the order in which they are listed.
    """
    lines = {name: (priority.__doc__ or "").splitlines()[0] for name, priority in PRIORITIES.items()}
    return (
        lines
        | {f"{prefix}-PRIORITY": f"Back-filling: {description}." for prefix, (description, _) in _BACKFILLING.items()}
        | _PATTERNS
    )
