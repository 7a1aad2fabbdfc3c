"""The name of every agent that the registries offer: patterns expanded, all pretrained weights included."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from typing import Any

from everything_anything import ANYTHING

from desim.agents.batch.priorities import PRIORITIES
from desim.agents.batch.window_rules import RULES
from desim.agents.learning.pretrained import PRETRAINED, pretrained_names

__all__ = [
    "ANY",
    "agent_names",
    "base_of",
    "brings_predictor",
    "create",
    "is_learned",
    "kind_of",
    "looks_ahead",
    "patterns_of",
]

ANY = "anything"
"""An agent that answers whatever is allowed; no registry has it."""

_WINDOWS = ("9-1", "0-1", "1-0", "3-2", "16-16")
_BACKFILLING = ("backfilling", "easy", "easy-specific", "easy-moldable", "conservative", "conservative-specific")


def _registry(problem: str) -> Any:
    return import_module(f"desim.agents.{problem}.registry")


def _backfilling(prefix: str) -> Callable[[], list[str]]:
    return lambda: [prefix, *(f"{prefix}-{priority}" for priority in PRIORITIES)]


def _on(kind: str, *bases: str) -> Callable[[], list[str]]:
    return lambda: [f"{kind}:{base}" for base in bases]


def _windows() -> list[str]:
    pairs = product(RULES, _WINDOWS)
    return [f"window-{rule}-{window}" for rule, window in pairs if not (rule == "aged" and window.startswith("0"))]


def _other_windows() -> list[str]:
    """Give each network another window; one that reserves for the oldest job needs a slot at the head."""
    found = []
    for place, name in enumerate(pretrained_names("split-window")):
        reserves = json.loads((PRETRAINED / f"{name}.json").read_text())["config"]["reserve_after"] is not None
        windows = [window for window in _WINDOWS if not (reserves and window.startswith("0"))]
        found.append(f"split-window:{name}@{windows[place % len(windows)]}")
    return found


def _pretrained(prefix: str, kind: str) -> Callable[[], list[str]]:
    return lambda: [f"{prefix}:{name}" for name in pretrained_names(kind)]


def _parts(before: str, after: str) -> list[str]:
    """Return what stands where a pattern of DAG agents has a variable."""
    keys = _registry("dag").descriptions()
    return [key.removeprefix(before).removesuffix(after) for key in keys if _fits(key, before, after)]


def _fits(key: str, before: str, after: str) -> bool:
    return key.startswith(before) and key.endswith(after) and len(key) > len(before) + len(after)


def _orders() -> list[str]:
    return [name for name in _parts("", "-ALLOCATION") if name != "ORDER"]


def _allocations() -> list[str]:
    return [name for name in _parts("ORDER-", "") if not name.startswith("ALLOCATION")]


def _suffixed(suffix: str) -> Callable[[], list[str]]:
    return lambda: [
        f"{order}{allocation}{suffix}"
        for order, allocation in product(_orders(), ["", *(f"-{name}" for name in _allocations())])
    ]


@cache
def _patterns(problem: str) -> dict[str, Callable[[], list[str]]]:
    """Return what each pattern of a registry stands for."""
    if problem == "batch":
        return {f"{prefix}-PRIORITY": _backfilling(prefix) for prefix in _BACKFILLING} | {
            "easy-PRIORITY+PRIORITY": lambda: ["easy-fcfs+sjf-expected", "easy-f1-expected+fcfs"],
            "easy-PRIORITY@PREDICTOR": lambda: ["easy-sjf-expected@oracle", "conservative-fcfs@user-average"],
            "preemptive-AGENT": lambda: [f"preemptive-{name}" for name in ("fcfs", "easy-sjf", "conservative")],
            "window-RULE-HEAD-TAIL": _windows,
            "window-RULE-HEAD-TAIL@SECONDS": lambda: [f"window-reserving-{window}@14400" for window in _WINDOWS],
            "split-window:NAME": _pretrained("split-window", "split-window"),
            "split-window:NAME@HEAD-TAIL": _other_windows,
            "dbf:NAME": list,  # it knows clusters of its own number of cores only
            "inspector:NAME": _pretrained("inspector", "inspector"),
            "inspector-PRIORITY": lambda: [f"inspector-{priority}" for priority in ("sjf", "smallest-first")],
            "schedinspector:NAME": _pretrained("schedinspector", "schedinspector"),
            "schedinspector-PRIORITY": lambda: [f"schedinspector-{priority}" for priority in ("fcfs", "f1")],
            "rollout:BASE": _on("rollout", "fcfs", "easy-f1", "window-shortest-3-2"),
            "rollout-waiting_time_mean:BASE": _on("rollout-waiting_time_mean", "sjf", "conservative", "easy-specific"),
            "search:batch:OBJECTIVE:BUDGET": _searching(
                "batch", "waiting_time_mean:20", "bounded_slowdown_mean:5", "slowdown_mean:0"
            ),
            "replay:FILE": list,  # it refuses all jobs but those of its log
        }
    if problem == "dag":
        found: dict[str, Callable[[], list[str]]] = {f"{order}-ALLOCATION": _one_order(order) for order in _orders()}
        found |= {f"ORDER-{allocation}": list for allocation in _allocations()}  # the pairs are named above
        return found | {
            "ORDER-ALLOCATION-idle": _suffixed("-idle"),
            "ORDER-ALLOCATION-patient": _suffixed("-patient"),
            "graph:NAME": _pretrained("graph", "graph"),
            "lachesis:NAME": _pretrained("lachesis", "lachesis"),
            "decima:NAME": _pretrained("decima", "decima"),
            "portfolio:MEMBERS": lambda: ["portfolio:heft+fifo"],
            "rollout:BASE": _on("rollout", "rank-up-deft", "fifo-eft-idle", "heft"),
            "rollout-turnaround_time_mean:BASE": _on(
                "rollout-turnaround_time_mean", "sjf-insertion-deft", "least-work-eft-patient"
            ),
            "switching:DISPATCHERS": lambda: ["switching:fifo-deft+sjf-eft-idle"],
            "switching-turnaround_time_mean:DISPATCHERS": lambda: [
                "switching-turnaround_time_mean:least-work-eft-patient+rank-up-deft"
            ],
            "search:dag:OBJECTIVE:BUDGET": _searching("dag", "makespan:20", "turnaround_time_mean:5", "job_slr_mean:0"),
        }
    if problem == "deferrable":
        return {
            "rolling-horizon:FORECAST": lambda: [f"rolling-horizon:{name}" for name in ("learned", "seasonal:6")],
            "score:NAME": _pretrained("score", "score"),
            "osdec:NAME": list,  # it knows one resource only, and has tests of its own
            "search:deferrable:OBJECTIVE:BUDGET": _searching("deferrable", "total_reward:20", "total_reward:0"),
        }
    plain = [name for name in _registry(problem).descriptions() if name.islower()]
    # the rewards of gangs are not concave, so that the first refuses them; answers of the other are refused
    solvable = [name for name in plain if name not in ("best-slot", "ogasched")]
    return {
        "ogasched": list,
        "ogasched-VARIANT": lambda: ["ogasched-capped", "ogasched-reservation-leftovers-capped"],
        "exact-oga-VARIANT": lambda: ["exact-oga-reactive-all-forget"],
        "gang-NAME": lambda: [*(f"gang-{name}" for name in solvable), f"gang-{ANY}"],
    }


def _searching(problem: str, *kinds: str) -> Callable[[], list[str]]:
    return lambda: [f"search:{problem}:{kind}" for kind in kinds] if find_spec("numba") else []


def _one_order(order: str) -> Callable[[], list[str]]:
    return lambda: [order, *(f"{order}-{allocation}" for allocation in _allocations())]


def patterns_of(problem: str) -> dict[str, list[str]]:
    """Return the names that each line of a registry stands for; a pattern that is not known here is a KeyError."""
    known = _patterns(problem)
    return {
        line: known[line]()
        if line in known or any(part.isupper() and len(part) > 1 for part in _words(line))
        else [line]
        for line in _registry(problem).descriptions()
    }


def _words(line: str) -> list[str]:
    return line.replace(":", "-").replace("@", "-").split("-")


@cache
def agent_names(problem: str) -> tuple[str, ...]:
    """Return the names of all agents of a problem, in the order of the registry, and :data:`ANY`."""
    return (*dict.fromkeys(name for names in patterns_of(problem).values() for name in names), ANY)


def looks_ahead(name: str) -> bool:
    """Tell whether an agent tries actions in forks, which takes a workload that can be read again, and time."""
    return name.startswith(("rollout", "switching"))


def brings_predictor(name: str) -> bool:
    """Return whether a batch agent brings a predictor of run times; its cluster may then have no other."""
    return name == "easy++" or (name.startswith(("easy-", "conservative-")) and "@" in name)


def base_of(name: str) -> str:
    """Return the (first) agent that another one makes use of; itself if it makes use of none."""
    return name.partition(":")[2].partition("+")[0] if looks_ahead(name) else name


def is_learned(name: str) -> bool:
    """Tell whether an agent has trained weights."""
    return ":" in base_of(name) and not name.startswith(("search:", "portfolio:", "rolling-horizon:"))


def kind_of(name: str) -> str:
    """Return a name for agents that are alike in all but weights, sizes, which cores they take, or where nodes run."""
    if is_learned(name):
        prefix, _, rest = name.partition(":")
        stem, _, window = rest.partition("@")
        config = json.loads((PRETRAINED / f"{stem}.json").read_text())["config"]
        parts = ("network", "rule", "plans", "kind", "mode", "keeps_accepted")
        known = {key: config[key] for key in parts if key in config}
        return f"{prefix}{'@' if window else ''} {known} {config.get('reserve_after') is not None}"
    if looks_ahead(name):
        return name
    if name.startswith("window-"):
        return "-".join(name.split("-")[:2])
    for suffix in ("-idle", "-patient"):
        if name.endswith(suffix):
            pair = name.removesuffix(suffix)
            found = [allocation for allocation in _allocations() if pair.endswith(f"-{allocation}")]
            return pair.removesuffix(f"-{max(found, key=len, default='')}") + suffix
    return name.replace("-specific", "")


@cache
def _loaded(problem: str, name: str) -> Any:
    return _registry(problem).create(name)


def create(problem: str, name: str) -> Any:
    """Return an agent; one with trained weights is loaded once, and has to begin anew by its ``reset``."""
    if name.removeprefix("gang-") == ANY:
        return ANYTHING[problem](gang=name != ANY)
    return _loaded(problem, name) if is_learned(name) else _registry(problem).create(name)
