"""Options take effect or are refused: every option of every problem, in several settings."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from desim import plugins
from desim.exceptions import DesimError
from desim.problem import Problem, kinds
from desim.problems.batch import BatchCluster
from desim.problems.dag import DagCluster, Job, TaskCluster
from desim.problems.deferrable import DeferrableCluster
from desim.problems.multiserver import MultiServerCluster, MultiSlotCluster
from desim.scenario import system_of
from desim.sweep.identity import identity_of
from desim.sweep.options import options_of
from desim.workloads.dag.registry import write

LOG = "; MaxProcs: 8\n" + "".join(
    f"{number} {submission} 0 50 4 -1 -1 4 60 9 1 {number % 2} 5 -1 -1 -1 -1 -1\n"
    for number, submission in enumerate([*range(1, 9), 400], 1)
)
TABLE = "submission_time,requested_cores,requested_time,run_time,group,user\n" + "".join(
    f"{number},4,60,50,{number % 3},{number % 2}\n" for number in [*range(1, 9), 400]
)
SHOP = "2 2\n0 3 1 2\n1 4 0 1\n"
#: Settings in which all options are tried; FILE is written by the test.
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("batch", {"jobs": 20, "cores": 64}),
    ("batch", {"jobs": 20, "nodes": "8x8"}),
    ("batch", {"trace": "log.swf"}),
    ("batch", {"trace": "table.csv", "cores": 8}),
    ("batch", {"trace": "batsim.json"}),
    ("batch", {"jobs": 20, "mean_time_to_failure": 9e5, "mean_time_to_repair": 1e3}),
    ("dag", {"jobs": 3}),
    ("dag", {"jobs": 3, "tasks": True}),
    ("dag", {"jobs": 3, "links": "bus"}),
    ("dag", {"jobs": 3, "mean_time_to_failure": 99.0, "mean_time_to_repair": 9.0}),
    ("dag", {"trace": "workflow.json", "executors": 4}),
    ("dag", {"trace": "shop.jsp"}),
    *(("deferrable", {"workload": name, "slots": 60}) for name in ("default", "fluctuating")),
    ("multiserver", {"slots": 20, "nodes": 6}),
    ("multiserver", {"slots": 20, "nodes": 6, "work": 2.0}),
]
TEXTS: dict[str, list[Any]] = {
    "trace": ["log.swf"],
    "nodes": ["2x8"],
    "columns": ["requested_time=run_time"],
    "attributes": ["group"],
    "demands": ["cores", "cores,memory"],
    "capacity": ["cores=4"],
    "max_size": ["2GiB"],
    "cycle": ["arrival", "event", "60"],
    "predictor": ["user-average", "oracle"],
    "placement": ["best-fit"],
    "reservations": ["0:100:4"],
    "limits": ["user:running_jobs=1"],
    "qos": ["urgent:preempts=low+low:scope=user:members=1"],
    "workload": ["core-2"],
    "split": ["4s", "4jobs"],
    "sample": ["2x2jobs"],
    "window": [0, 3],
    "warm_up": [7.0, "2jobs"],
    "cool_down": [7.0, "2jobs"],
}
TEXTS["set"] = [("slack=3",), ("arrival_phase=0.3",), ("capacity_phase=0.3",), ("capacity_swing=0.2",)]
#: What says only what is the default there, or decides about jobs that these files do not have.
SAME = {("dependencies", "drop"), ("plan_ahead", "no"), ("unknown_profile", "drop"), ("allow_disconnected", False)}
#: What concerns only files that are large, or lack something, or have something to repair.
SAME |= {("max_size", "2GiB"), ("strict", True)}
SAME |= {(name, value) for name in ("default_run_time", "default_size") for value in (0.5, 7.0)}


def leaves(options: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield path, type and value of each option."""
    hints = get_type_hints(type(options), include_extras=True)
    for one in fields(options):
        value = getattr(options, one.name)
        if is_dataclass(value):
            yield from leaves(value, (*path, one.name))
        else:
            yield (*path, one.name), hints[one.name], value


def with_value(options: Any, path: tuple[str, ...], value: Any) -> Any:
    """Return the options with another value of one of them."""
    name, *rest = path
    return replace(options, **{name: with_value(getattr(options, name), tuple(rest), value) if rest else value})


def value_of(options: Any, path: tuple[str, ...]) -> Any:
    """Return the value of an option."""
    for name in path:
        options = getattr(options, name)
    return options


def others(name: str, hint: Any, value: Any) -> Iterator[Any]:
    """Yield other values of an option, of each of its types."""
    if name in TEXTS:
        yield from TEXTS[name]
    elif get_origin(hint) in (Annotated, Union, types.UnionType):
        parts = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
        for part in parts:
            yield from others(name, part, value)
    elif get_origin(hint) is Literal:
        yield from (one for one in get_args(hint) if one != value)
    elif hint is not type(None):
        yield from {bool: [not value], int: [2 if value == 3 else 3], float: [0.5, 7.0]}[hint]


def digest(problem: str, options: Any) -> str:
    """Return the digest of everything that the options of a run make."""
    system = system_of(problem)
    instance = system.instance(options)
    made = instance.make(plugins.create_agent(problem, str(system.default_agent)))
    further = instance.until, instance.is_streamed, system.metric_options(options), system.seed_of(options)
    return identity_of((made, list(getattr(made, "jobs", ())), further)).digest


@pytest.mark.parametrize(("problem", "given"), SETTINGS)
def test_every_option_has_an_effect_or_is_refused(
    problem: str, given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.swf").write_text(LOG)
    Path("shop.jsp").write_text(SHOP)
    Path("table.csv").write_text(TABLE)
    jobs = [{"id": number, "subtime": number, "res": 1, "walltime": 9, "profile": "p"} for number in range(1, 5)]
    profiles = {"p": {"type": "delay", "delay": 5}}
    Path("batsim.json").write_text(json.dumps({"nb_res": 8, "jobs": jobs, "profiles": profiles}))
    write("workflow.json", Job(1, [2.0, 3.0, 4.0], [(0, 1, 5.0), (0, 2, 6.0)], names=["a", "b", "c"]))
    base = options_of(system_of(problem).options, given)
    plain = digest(problem, base)
    assert plain == digest(problem, base)
    defaults = system_of(problem).instance(base).options
    silent = []
    for path, hint, value in leaves(base):
        for other in others(path[-1], hint, value):
            if other == value or other == value_of(defaults, path) or (path[-1], other) in SAME:
                continue
            try:
                found = digest(problem, with_value(base, path, other))
            except DesimError:
                continue
            if found == plain:
                silent.append((path[-1], other))
    assert not silent


GIVEN_OTHERWISE = {
    "batch": {"num_cores", "infeasible", "ask_when_empty", "parts", "processes"},
    "dag": {"processes"},
    "deferrable": {"jobs", "num_slots", "resources", "processes"},
    "multiserver": {"rewards", "arrivals", "gang", "processes"},
}
"""Arguments of clusters that are objects, come from a workload, or belong to own agents."""


@pytest.mark.parametrize(
    "cluster",
    [BatchCluster, DagCluster, TaskCluster, DeferrableCluster, MultiServerCluster, MultiSlotCluster],
)
def test_arguments_of_clusters_are_options(cluster: type[Problem]) -> None:
    options = {path[-1] for path, _, _ in leaves(system_of(cluster.name).options())}
    assert signature(cluster).parameters.keys() - options <= GIVEN_OTHERWISE[cluster.name]


def test_the_settings_are_of_all_problems() -> None:
    assert {problem for problem, _ in SETTINGS} == {name for name, kind in kinds().items() if kind.system_from}
