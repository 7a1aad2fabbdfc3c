"""Agents by name, of all problems, and orders by name, class or instance."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from desim import InvalidConfiguration, plugins, simulate
from desim.agents.batch import (
    F1,
    FCFS,
    PRIORITIES,
    ConservativeBackfilling,
    EASYBackfilling,
    Priority,
    SimpleBackfilling,
    as_priority,
)
from desim.agents.learning.pretrained import pretrained_names
from desim.exceptions import DisregardedWarning
from desim.problem import Problem, declared, kinds
from desim.problems import dag
from desim.problems.batch import BatchCluster, Job, QualityOfService, Size
from desim.problems.deferrable import DeferrableCluster
from desim.problems.multiserver import BipartiteGraph, Gang, MultiServerCluster, RewardModel
from desim.processes import random_outages

JOBS = [Job(number, float(number % 7), 1 + number % 4, 9.0, 1.0 + number % 5) for number in range(40)]
JOBS.sort(key=lambda job: job.submission_time)

DAG_ORDERS = ["fifo", "sjf", "hrrn", "hrrn-node", "rank-up", "critical-path", "least-work", "random"]
DAG_ALLOCATIONS = ["eft", "insertion-eft", "deft", "insertion-deft"]
PARTS: dict[str, dict[str, list[str]]] = {
    "batch": {
        "PRIORITY+PRIORITY": ["fcfs+sjf-expected", "f1+f1"],
        "PRIORITY": list(PRIORITIES),
        "PREDICTOR": ["oracle", "user-average:3"],
        "RULE-HEAD-TAIL@SECONDS": ["reserving-9-1@600.5"],
        "RULE-HEAD-TAIL": ["shortest-9-1", "random-4-4"],
        "HEAD-TAIL": ["3-2"],
        "AGENT": ["f1", "easy", "conservative-specific-sjf", "easy-moldable-lcfs"],
        "BASE": ["easy", "conservative-specific-sjf", "window-aged-3-3"],
        "OBJECTIVE": ["waiting_time_mean", "slowdown_mean"],
        "BUDGET": ["20", "0.001s"],
        "FILE": [str(Path(__file__).with_name("recorded.swf"))],
    },
    "dag": {
        "ORDER": DAG_ORDERS,
        "ALLOCATION": DAG_ALLOCATIONS,
        "BASE": ["fifo", "heft", "dls", "least-work-patient"],
        "MEMBERS": ["heft", "cpop+fifo-patient+dls"],
        "DISPATCHERS": ["dls", "sjf-idle+least-work-patient"],
        "OBJECTIVE": ["turnaround_time_mean", "job_slr_mean"],
        "BUDGET": ["20", "0.001s"],
    },
    "deferrable": {
        "OBJECTIVE": ["total_reward"],
        "BUDGET": ["20", "0.001s"],
        "FORECAST": ["persistence", "seasonal", "learned:12"],
    },
    "multiserver": {"NAME": ["drf", "exact-oga-reactive"], "VARIANT": ["reservation-forget-eta=5"]},
}
"""What the capitals in patterns of names may be; NAME is of trained weights otherwise."""

FEATURES = {
    "batch": {"moldable"},
    "dag": {"links", "outages", "arrivals", "demands", "modes"},
    "deferrable": {"eviction"},
    "multiserver": {"gangs"},
}
"""What an agent can declare that it takes into account."""

LISTED = {
    "batch": [*PRIORITIES, "easy-PRIORITY", "conservative-specific-PRIORITY", "split-window:NAME@HEAD-TAIL"],
    "dag": ["heft", "optimum", "hrrn-node-ALLOCATION", "ORDER-insertion-deft", "ORDER-ALLOCATION-idle", "graph:NAME"],
    "deferrable": ["fifo", "smallest-work", "list-plan", "list-plan-worth", "rolling-horizon", "score:NAME"],
    "multiserver": ["exact-oga-reservation", "drf-progressive", "optimistic-oga", "gang-NAME"],
}


def filled(problem: str, pattern: str) -> Iterator[str]:
    """Yield names of a pattern."""
    parts = dict(PARTS[problem])
    if pattern.endswith(":NAME") or ":NAME@" in pattern:
        parts["NAME"] = pretrained_names(pattern.partition(":")[0])[:2]
    for part, choices in parts.items():
        if part in pattern:
            for choice in choices:
                yield from filled(problem, pattern.replace(part, choice, 1))
            return
    yield pattern


NAMES = [
    (problem, name)
    for problem in PARTS
    for pattern in plugins.describe_agents(problem)
    for name in dict.fromkeys(filled(problem, pattern))
]


def plain(value: Any) -> Any:
    """Return what an agent is made of, as far as that can be compared."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    kind = type(value).__name__
    public = {key: part for key, part in getattr(value, "__dict__", {}).items() if not key.startswith("_")}
    return [kind, {key: plain(part) for key, part in public.items() if key not in ("policy", "network", "training")}]


@pytest.mark.parametrize(("problem", "name"), NAMES)
def test_the_name_of_an_agent_makes_it(problem: str, name: str) -> None:
    agent: Any = plugins.create_agent(problem, name)
    again: Any = plugins.create_agent(problem, agent.name)
    assert again is not agent
    assert plugins.named_agent(problem, name)[0] == again.name == agent.name
    assert plain(again) == plain(agent)


def everything() -> dict[str, Problem]:
    """Return a problem of each kind with all features that agents may not take into account."""
    moldable = [job._replace(qos="low", sizes=(Size(1, 9.0, 9.0),)) for job in JOBS]
    levels = [QualityOfService("high", preempts=("low",)), QualityOfService("low")]
    modes = [None, [dag.Mode(2.0, {"cores": 1.0}), dag.Mode(1.0, {"cores": 2.0})]]
    chain = dag.Job(0, [1.0, 2.0], [(0, 1, 3.0)], demands=[{"cores": 1.0}, None], modes=modes)
    graph = BipartiteGraph([[1.0]], [[2.0]])
    return {
        "batch": BatchCluster(moldable, 8, qos=levels),
        "dag": dag.DagCluster(
            [chain, chain.submitted(5.0, job_id=1)],
            dag.Executors([1.0, 2.0], 4.0, capacities=[{"cores": 2.0}] * 2),
            transfers="when_assigned",
            links=dag.SharedLinks.bus(2, 1.0),
            processes=[random_outages(9.0, 1.0)],
        ),
        "deferrable": DeferrableCluster([], [4.0, 4.0], num_slots=2, eviction="lost"),
        "multiserver": MultiServerCluster(RewardModel(graph, "log"), np.ones((5, 1), int), gang=Gang([[[1.0]]], 1)),
    }


EVERYTHING = everything()


@pytest.mark.parametrize(("problem", "name"), NAMES)
def test_agents_say_what_they_take_into_account(problem: str, name: str) -> None:
    agent: Any = plugins.create_agent(problem, name)
    whole = EVERYTHING[problem]
    considered, there = declared(agent, "considers", frozenset()), set(whole.features())
    assert considered <= there == FEATURES[problem]
    told = whole.disregarded(agent)
    assert bool(told) == (considered < there)
    assert all((f"{feature} (" in told) == (feature not in considered) for feature in there)
    if problem == "dag" and hasattr(agent, "reset"):  # the agent decides whether nodes are planned ahead
        chain = dag.Job(0, [1.0, 2.0], [(0, 1, 3.0)])
        plain = dag.DagCluster([chain], dag.Executors([1.0, 2.0], 4.0))
        agent.reset(plain.for_agent(agent).describe(), np.random.default_rng(0))


def test_what_is_not_taken_into_account_is_told_before_the_run() -> None:
    whole = EVERYTHING["dag"]
    with pytest.warns(DisregardedWarning, match=r"heft does not take into account: links \(.*\), outages \("):
        info = simulate(whole, "heft").info
    assert info["planned_end"] > 0
    with pytest.warns(DisregardedWarning, match=r"^rollout:fifo-eft does not take into account: demands \("):
        simulate(whole, "rollout:fifo-eft")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(EVERYTHING["multiserver"], "gang-drf")


@pytest.mark.parametrize("problem", PARTS)
def test_objectives_are_called_as_the_metrics_are(problem: str) -> None:
    metrics = {metric.name for metric in kinds()[problem].metrics.described}
    for pattern in plugins.describe_agents(problem):
        rollout = re.fullmatch(r"rollout-(.+):BASE", pattern)
        if rollout:
            assert rollout[1] in metrics
        if "OBJECTIVE" in pattern:
            with pytest.raises(InvalidConfiguration, match="objective: got 'OBJECTIVE', expected one of") as refusal:
                plugins.create_agent(problem, pattern)
            assert metrics.issuperset(re.findall(r"'(\w+)'", str(refusal.value).partition("expected one of")[2]))
    for name, settings in plugins.trainings().items():
        for setting in ("objective", "reward"):
            if name.partition("-")[0] == problem and setting in get_type_hints(plugins.training_settings(name)):
                choices = get_args(get_type_hints(plugins.training_settings(name))[setting])
                assert metrics.issuperset(choices), (settings, choices)


@pytest.mark.parametrize("problem", PARTS)
def test_every_agent_is_listed_with_what_it_does(problem: str) -> None:
    lines = plugins.describe_agents(problem)
    assert set(LISTED[problem]) <= set(lines)
    assert all(len(line) > 10 and line.endswith(".") for line in lines.values())


@pytest.mark.parametrize("kind", ["backfilling", "easy", "easy-specific", "conservative", "conservative-specific"])
def test_without_an_order_it_is_that_of_arrival(kind: str) -> None:
    assert plugins.create_agent("batch", kind).name == f"{kind}-fcfs"  # type: ignore[attr-defined]


def test_an_order_alone_goes_with_deft() -> None:
    names = [plugins.create_agent("dag", name).name for name in ("hrrn-node", "sjf-idle", "least-work-patient")]  # type: ignore[attr-defined]
    assert names == ["hrrn-node-deft", "sjf-deft-idle", "least-work-deft-patient"]


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        *(
            ("batch", name)
            for name in ("", "random", "easy-", "easy-random", "-fcfs", "fcfs-easy", "EASY", "window-a-b")
        ),
        *(
            ("dag", name)
            for name in ("", "HEFT", "eft", "deft-fifo", "fifo-", "fifo-idle-eft", "heft-idle", "fifo-dls")
        ),
        *(("deferrable", name) for name in ("", "sjf-work", "FIFO", "list-plan-best", "score")),
        *(("multiserver", name) for name in ("", "oga", "gang-", "gang-oga", "DRF", "fcfs", "gang-NAME")),
    ],
)
def test_a_name_that_means_nothing(problem: str, name: str) -> None:
    hints = r"; (expected one of|try for example) .*|unknown priority|is an agent for problem"
    with pytest.raises(InvalidConfiguration, match=hints):
        plugins.create_agent(problem, name)


@pytest.mark.parametrize("kind", [SimpleBackfilling, EASYBackfilling, ConservativeBackfilling])
def test_an_order_is_given_by_name_class_or_instance(kind: type) -> None:
    tables = [simulate(BatchCluster(JOBS, 4), kind(order)).jobs for order in ("f1", F1, F1())]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


@pytest.mark.parametrize("order", ["nonsense", 3, None, int, EASYBackfilling])
def test_an_order_that_is_none(order: object) -> None:
    with pytest.raises(InvalidConfiguration, match="unknown priority"):
        as_priority(order)  # type: ignore[arg-type]


def test_an_order_of_ones_own() -> None:
    class WidestFirst(Priority):
        name = "widest"

        def scores(self, queue: object, time: float) -> np.ndarray:
            return -queue.requested_cores.astype(float)  # type: ignore[attr-defined]

    assert EASYBackfilling(WidestFirst).name == "easy-widest"
    jobs = [Job(1, 0.0, 4, 5.0, 5.0), Job(2, 1.0, 1, 5.0, 5.0), Job(3, 2.0, 4, 5.0, 5.0)]
    assert simulate(BatchCluster(jobs, 4), WidestFirst()).jobs["starting_time"].to_list() == [0, 10, 5]
    assert isinstance(as_priority(FCFS), FCFS)
