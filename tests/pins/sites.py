"""Stored scenarios of sites as clusters and agents of today; all that these files know of the interface of ``batch``.

A scenario is plain values under names of its own: ``machine`` (cores, or nodes as rows of :data:`NODE`), ``rules``,
``limits``, ``windows``, ``qualities``, ``failures``, and ``jobs`` as rows of :data:`JOB`. A size of a job is what it
requests (a number of cores, or in brackets the place of one of ``requests``), for how long, how long it runs, and how
long with GPUs of some models. Rows end with their last value that is not the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
from everything_anything import AnySite
from everything_draws import submitting

from desim.agents.batch.registry import create
from desim.agents.batch.trace_replay import TraceReplay
from desim.problems.batch import (
    AdvanceReservation,
    BatchCluster,
    Dependency,
    FragmentationGradient,
    Job,
    Limit,
    Node,
    QualityOfService,
    Request,
    Size,
    typical_requests,
)
from desim.processes import Outage, planned_outages, random_outages, stop_after

__all__ = ["agent", "cluster", "episode", "jobs"]

JOB = {"id": 0, "submission": 0, "user": -1, "sizes": [], "quality": "", "queue": "", "after": [], "think": 0}
"""With defaults."""
NODE = ("name", "cores", "memory", "gpus", "gpu_model", "partition", "speed", "features", "resources")
RULES = {
    "kills": True,
    "grace": 0.0,
    "checkpoint_every": None,
    "forgives": False,
    "loses": False,
    "asks_when_empty": False,
}
"""With defaults."""
QUALITY = ("name", "priority", "preempts", "mode")
LIMIT = {"jobs": "running_jobs", "cores": "running_cores", "job_cores": "job_cores", "job_seconds": "job_time"}
REQUEST = {
    "tasks": "tasks",
    "cores": "cores",
    "memory": "memory",
    "gpus": "gpus",
    "models": "gpu_models",
    "resources": "resources",
    "partition": "partition",
    "features": "features",
    "without": "excluded_features",
    "alone": "exclusive",
    "per_node": "tasks_per_node",
}


def jobs(scenario: Mapping[str, Any]) -> list[Job]:
    """Return all jobs, in order of submission."""
    requests = [Request(**_renamed(one, REQUEST)) for one in scenario.get("requests", ())]
    return [_job(row, requests) for row in _rows(scenario)]


def _rows(scenario: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [JOB | dict(zip(JOB, row, strict=False)) for row in scenario["jobs"]]


def _job(row: Mapping[str, Any], requests: Sequence[Request]) -> Job:
    made: list[Size] = []
    for what, requested, run, *by_model in row["sizes"]:
        request = requests[what[0]] if isinstance(what, list) else None
        cores = what if request is None else request.num_cores
        made.append(Size(cores, float(requested), float(run), request, by_model[0] if by_model else {}))
    return Job(
        row["id"],
        float(row["submission"]),
        *made[0][:3],
        row["user"],
        *made[0][3:4],
        sizes=tuple(made[1:]),
        run_times=made[0].run_times,
        after=Dependency(tuple(row["after"]), float(row["think"])) if row["after"] else None,
        queue=row["queue"],
        qos=row["quality"],
    )


def cluster(scenario: Mapping[str, Any]) -> BatchCluster:
    """Return the cluster, with a fresh workload and fresh processes."""
    made = jobs(scenario)
    rules, own = RULES | scenario["rules"], scenario.get("own", [])
    stream = [job for place, job in enumerate(made) if place not in own]
    return BatchCluster(
        iter(stream) if scenario.get("read_once") and not any(job.after for job in stream) else stream,
        **_machine(scenario["machine"], made),
        enforce_time_limit=rules["kills"],
        over_time_limit=rules["grace"],
        checkpoint_interval=rules["checkpoint_every"],
        infeasible="forward" if rules["forgives"] else "raise",
        too_wide="reject",
        on_outage="lose" if rules["loses"] else "requeue",
        ask_when_empty=rules["asks_when_empty"],
        cycle="arrival",  # the only one there was when the scenarios were recorded
        limits=[Limit(per, members, **_renamed(most, LIMIT)) for per, members, most in scenario.get("limits", ())],
        reservations=[_window(*row) for row in scenario.get("windows", ())],
        qos=[QualityOfService(**dict(zip(QUALITY, row, strict=True))) for row in scenario.get("qualities", ())],
        processes=[*_processes(scenario), *([submitting([made[place] for place in own])] if own else [])],
    )


def _renamed(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    values = {names[name]: value for name, value in given.items()}
    return {name: tuple(map(_tuple, value)) if isinstance(value, list) else value for name, value in values.items()}


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _machine(machine: Mapping[str, Any], made: Sequence[Job]) -> dict[str, Any]:
    if "cores" in machine:
        return {"num_cores": machine["cores"]}
    nodes = [dict(zip(NODE, row, strict=True)) for row in machine["nodes"]]
    placement = machine["placement"]
    if placement == "fgd":
        requests = [job.request or Request(tasks=job.requested_cores) for job in made]
        placement = FragmentationGradient(typical_requests(requests or [Request()]))
    return {
        "nodes": [Node(**node | {"features": frozenset(node["features"])}) for node in nodes],
        "placement": placement,
    }


def _window(begin: float, end: float, kind: str, which: Any, users: Sequence[int]) -> AdvanceReservation:
    """Return what is closed: a number of cores, some nodes or all, or a partition."""
    return AdvanceReservation(begin, end, **{kind: which}, users=tuple(users))


def _processes(scenario: Mapping[str, Any]) -> list[Any]:
    found = []
    kind = "cores" if "cores" in scenario["machine"] else "nodes"
    if planned := scenario.get("failures", {}).get("planned"):
        found.append(planned_outages([Outage(a, b, **{kind: units}) for a, b, units in planned]))
    if drawn := scenario.get("failures", {}).get("random"):
        found.append(random_outages(*drawn[:2], unit=drawn[2]))
    if last := scenario.get("stops_after"):
        found.append(stop_after({"submission": "arrival"}.get(last[0], last[0]), last[1]))
    return found


def agent(scenario: Mapping[str, Any]) -> Any:
    """Return the agent; one that repeats a log gets the log."""
    name = scenario["agent"]
    if name == "anything":
        return AnySite()
    if name == "replay":
        nodes = {job_id: [(node, tasks) for node, tasks in where] for job_id, _, where in scenario["log"] if where}
        return TraceReplay({job_id: start for job_id, start, _ in scenario["log"]}, nodes=nodes)
    return create(name)


def episode(scenario: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """Return the environment of a scenario's cluster."""
    made: Callable[..., BatchCluster] = lambda rng: cluster(scenario)  # noqa: E731
    sees = _machine(scenario["machine"], [])
    sees.pop("placement", None)
    settings = dict(scenario["episode"])
    return gymnasium.make("desim/Batch-v0", jobs=made, num_jobs=len(scenario["jobs"]), **sees, **settings)
