"""Batch agents by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from desim import plugins
from desim.agents.batch.backfilling import ConservativeBackfilling, EASYBackfilling, SimpleBackfilling
from desim.agents.batch.moldable import MoldableBackfilling
from desim.agents.batch.preemptive import PreemptiveAgent
from desim.agents.batch.priorities import PRIORITIES
from desim.agents.batch.rollout import RolloutAgent
from desim.agents.learning.pretrained import made_of
from desim.agents.registry import Family, Registry
from desim.core import Agent
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions", "files"]


def _window_rule(rest: str) -> Agent:
    """Return the rule of what is left of a name such as ``window-shortest-9-1`` or ``window-reserving-9-1@7200``."""
    from desim.agents.batch.window_rules import HORIZON, WindowRule

    found = re.fullmatch(r"(.+)-(\d+)-(\d+)(?:@(\d+(?:\.\d+)?|inf))?", rest)
    if found is None:
        raise InvalidConfiguration(f"no batch agent 'window-{rest}'; want for example window-shortest-9-1")
    rule, head, tail, horizon = found.groups()
    if horizon is not None and rule != "reserving":
        raise InvalidConfiguration(f"no batch agent 'window-{rest}': only 'reserving' has a horizon that one chooses")
    return WindowRule(rule, int(head), int(tail), horizon=float(horizon or HORIZON))  # type: ignore[arg-type]  # it checks


def _stem_and_window(source: str) -> tuple[str, str]:
    stem, _, window = source.rpartition("@") if "@" in source.rpartition("/")[2] else (source, "", "")
    return stem, window


def _split_window(source: str) -> Agent:
    """Return the agent of trained weights: a pretrained name or a path, and perhaps ``@HEAD-TAIL``."""
    from desim.agents.batch.split_window import SplitWindowAgent

    stem, window = _stem_and_window(source)
    head, _, tail = window.partition("-")
    if window and not (head.isdecimal() and tail.isdecimal()):
        raise InvalidConfiguration(f"no window {window!r}; want for example @9-1")
    agent = SplitWindowAgent.named(stem, **({"head": int(head), "tail": int(tail)} if window else {}))
    agent.name = f"split-window:{source}"
    return agent


def _window_files(source: str) -> tuple[Path, ...] | None:
    return made_of(_stem_and_window(source)[0], "split-window")


def _dbf(source: str) -> Agent:
    """Return DBF with trained weights: a pretrained name or a path."""
    from desim.agents.batch.dbf import DBFAgent

    return DBFAgent.named(source)


def _inspector(source: str, *, released: bool = False) -> Agent:
    """Return the inspector of trained weights: a pretrained name or a path."""
    from desim.agents.batch.inspector import Inspector, SchedInspector

    return (SchedInspector if released else Inspector).named(source)


def _accepting(base: str, *, released: bool = False) -> Agent:
    """Return an inspector that accepts everything, which is its base policy."""
    from desim.agents.batch.inspector import Inspector, SchedInspector

    return (SchedInspector if released else Inspector)(base)


def _search(rest: str) -> Agent:
    """Return the search agent of an objective and perhaps a budget, such as ``waiting_time:300``."""
    from desim.agents.batch.search import SearchAgent

    return SearchAgent.named(f"batch:{rest}")


def _recorded(source: str) -> Agent:
    """Return what repeats the starts that a log recorded."""
    from desim.agents.batch.trace_replay import TraceReplay

    return TraceReplay.named(source)


def _log(source: str) -> tuple[Path, ...] | None:
    """Return the file of a log; None for what only a reader can tell."""
    provider = plugins.workload_provider("batch", source)
    return (Path(source),) if plugins.is_ours(provider.__name__) and source not in provider.descriptions() else None


def _base_files(base: str) -> tuple[Path, ...] | None:
    """Return the files of the agent that another one is made of."""
    return _REGISTRY.files(base)


_BACKFILLING: dict[str, tuple[str, Callable[[str], Agent]]] = {
    "backfilling": ("any later job that fits may start", SimpleBackfilling),
    "easy": ("a reservation for the first blocked job", EASYBackfilling),
    "easy-specific": ("the same, on particular cores", partial(EASYBackfilling, specific_cores=True)),
    "easy-moldable": ("each moldable job in the best of its sizes", MoldableBackfilling),
    "conservative": ("a reservation for every job", ConservativeBackfilling),
    "conservative-specific": ("the same, on particular cores", partial(ConservativeBackfilling, specific_cores=True)),
}

_REGISTRY: Registry = Registry(
    "batch",
    {name: ((priority.__doc__ or "").splitlines()[0], priority) for name, priority in PRIORITIES.items()},
    {
        **{
            f"{kind}-PRIORITY": Family(f"Backfilling: {text}.", make, "fcfs")
            for kind, (text, make) in _BACKFILLING.items()
        },
        "preemptive-AGENT": Family(
            "An order or a backfilling whose first job preempts others, by quality of service.",
            lambda base: PreemptiveAgent(_REGISTRY.create(base)),
            "easy",
            _base_files,
        ),
        "window-RULE-HEAD-TAIL": Family(
            "A job that fits in a window: the shortest, smallest, first, one at random, and others.", _window_rule
        ),
        "window-RULE-HEAD-TAIL@SECONDS": Family(
            "The rule 'reserving' with another horizon than an hour.", _window_rule
        ),
        "split-window:NAME": Family(
            "A network on a window of the queue: pretrained, or a path such as ./out/split-window-9-1.",
            _split_window,
            files=_window_files,
        ),
        "split-window:NAME@HEAD-TAIL": Family("The same on another window.", _split_window, files=_window_files),
        "dbf:NAME": Family(
            "DBF as its paper prints it: pretrained, or a path such as ./out/dbf-m20-t1.",
            _dbf,
            files=partial(made_of, agent="dbf"),
        ),
        "inspector:NAME": Family(
            "A network rejects some choices of a priority, after SchedInspector: pretrained, or a path.",
            _inspector,
            files=partial(made_of, agent="inspector"),
        ),
        "inspector-PRIORITY": Family(
            "What it inspects: a chosen job keeps its place until it has started, beside others by EASY.", _accepting
        ),
        "schedinspector:NAME": Family(
            "SchedInspector as its program was released: pretrained, or a path.",
            partial(_inspector, released=True),
            files=partial(made_of, agent="schedinspector"),
        ),
        "schedinspector-PRIORITY": Family(
            "What that inspects: others start in order of arrival, if they have ended before.",
            partial(_accepting, released=True),
        ),
        "rollout:BASE": Family(
            "Tries starts in simulation, another agent doing the rest, for short bounded slowdowns.",
            lambda base: RolloutAgent(_REGISTRY.create(base)),
            files=_base_files,
        ),
        "rollout-waiting_time:BASE": Family(
            "The same, for short waits.",
            lambda base: RolloutAgent(_REGISTRY.create(base), objective="waiting_time"),
            files=_base_files,
        ),
        "search:batch:OBJECTIVE:BUDGET": Family(
            "Moves jobs in the order of the queue, and starts what the best plan starts now; needs numba.",
            _search,
            "waiting_time",
        ),
        "replay:FILE": Family(
            "Starts jobs when the log says that they started, or as soon as they can.", _recorded, files=_log
        ),
    },
)
create, descriptions, files = _REGISTRY.create, _REGISTRY.descriptions, _REGISTRY.files
