"""Random clusters of executors with DAG jobs, node by node or task by task."""

from __future__ import annotations

import math
from typing import Any

from everything_draws import Drawn, Draws, processes_of, random_edges, stream_of, without_kind
from everything_names import ANY, base_of, looks_ahead

from desim.problems.dag import DagCluster, Executors, Job, SharedLinks, TaskCluster, TaskTimes
from desim.workloads import random_dags, submissions, tpch

__all__ = ["build", "draw", "submitted"]

KINDS = ("whole", "whole", "quarters", "thirds", "any", "mixed")
PLANNING = ("heft", "cpop", "peft", "tdca", "optimum", "portfolio")
"""Agents that plan whole jobs: documented to need ``plan_ahead=True``."""


def runs_tasks(agent: str) -> bool:
    """Tell whether an agent can serve a TaskCluster: tasks are not duplicated, and DEFT, the default, duplicates."""
    return base_of(agent) in ("dls", ANY) or "eft" in base_of(agent).split("-")


def draw(draws: Draws, agent: str) -> Drawn:
    """Draw a cluster and jobs, as plain values."""
    kind = draws.pick(KINDS)
    count = draws.whole(1, 3) if agent == "optimum" else draws.pick((1, 2, 2, 3, 4, 6))
    small = agent == "optimum" or looks_ahead(agent)
    by_task = runs_tasks(agent) and draws.chance(0.5)
    system: dict[str, Any] = {
        "granularity": "task" if by_task else "node",
        "executors": draw_executors(draws, count, kind),
        "transfers": draws.pick(("when_finished", "when_assigned")),
        "outages_lose_data": draws.chance(0.7),
    }
    if by_task:
        system["moving_delay"] = draws.pick((0.0, 0.0, 2.0, 0.125, 1.0 / 3.0))
    else:
        system["plan_ahead"] = base_of(agent).partition(":")[0] in PLANNING or draws.chance(0.4)
        if draws.chance(0.25) and agent != "optimum":  # which refuses links
            system["transfers"] = "when_assigned"
            system["links"] = draw_links(draws, count, kind)
    workload = draw_workload(draws, kind, count, by_task=by_task, small=small)
    until = draw_disturbances(draws, system, workload, kind, count)
    if workload["kind"] == "rows" and "outages" not in system and draws.chance(0.12):
        workload["jobs"] = twice(workload["jobs"])
    return Drawn(system, workload, agent, {}, until)


def twice(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return jobs, and the same identifiers again once all are certainly gone: nothing fails, and no agent waits on."""
    last = max((job["submission_time"] for job in jobs), default=0.0)
    data = sum(size for job in jobs for *_, size in job["edges"])
    gone = min(1e6 * (last + sum(sum(job["work"]) for job in jobs) + data + 1e3), 2.0**42)  # which clocks can tell
    return [*jobs, *(job | {"submission_time": job["submission_time"] + gone} for job in jobs)]


def draw_disturbances(draws: Draws, system: dict[str, Any], workload: dict[str, Any], kind: str, count: int) -> float:
    """Draw outages, or an early end, and return the horizon."""
    jobs = jobs_of(workload, count)
    slowest = min(system["executors"]["speeds"])
    times = [job.submission_time for job in jobs]
    work = [float(job.work.sum()) / slowest for job in jobs]
    span = max(times, default=0.0) + sum(work)
    until = draws.end([*times, *(time + length for time, length in zip(times, work, strict=True)), span / count])
    choice = draws.whole(0, 7)
    if choice < 2:
        whole = "whole" if kind == "whole" and span > 8 else "any"
        system["outages"] = draws.outages(count, max(span / count, 1.0), whole)
    elif choice == 2 and span > 0:
        system["outages"] = {
            "kind": "random",
            "mean_time_to_failure": draws.uniform(0.3, 3.0) * span,
            "mean_time_to_repair": draws.uniform(0.01, 0.3) * span,
            "units_per_failure": draws.whole(1, count),
        }
        until = min(until, draws.uniform(1.0, 4.0) * span)
    elif choice == 3 and jobs:
        event = draws.pick(("arrival", "assignment", "start", "completion", "job_completion"))
        system["stop_after"] = [event, draws.whole(1, 10)]
    return until


def draw_executors(draws: Draws, count: int, kind: str) -> dict[str, Any]:
    """Draw speeds and channels; some pairs, or all, need no time."""
    exact = kind in ("whole", "quarters")
    speeds = (0.5, 1.0, 2.0, 4.0) if exact else (0.7, 1.1, 2.3, 1e-3 if kind == "mixed" else 0.9)
    rates = (0.5, 1.0, 4.0, math.inf) if exact else (0.3, 3.0, math.inf, 1e6)
    delays = (0.0, 0.0, 0.25, 2.0) if exact else (0.0, 0.1, 1e-7)

    def pairs(values: tuple[float, ...]) -> Any:
        if draws.chance(0.5):
            return draws.pick(values)
        return [[draws.pick(values) for _ in range(count)] for _ in range(count)]

    return {
        "speeds": [draws.pick(speeds) for _ in range(count)],
        "transfer_speed": pairs(rates),
        "latency": pairs(delays),
    }


def draw_links(draws: Draws, count: int, kind: str) -> dict[str, Any]:
    rates = (0.5, 1.0, 2.0, math.inf) if kind in ("whole", "quarters") else (0.3, 1.7, 40.0)
    links = draws.whole(1, 4)
    choice = draws.whole(0, 3)
    if choice == 0:
        return {"kind": "bus", "num_executors": count, "bandwidth": draws.pick(rates)}
    if choice == 1:
        return {"kind": "star", "up": [draws.pick(rates) for _ in range(count)]}
    if choice == 2:
        first = draws.whole(0, count)
        sizes = [size for size in (first, count - first) if size]
        return {"kind": "racks", "sizes": sizes, "bandwidth": draws.pick(rates), "within": draws.pick(rates)}
    routes = [[sorted(draws.some(range(links), links)) for _ in range(count)] for _ in range(count)]
    return {"kind": "routes", "bandwidths": [draws.pick(rates) for _ in range(links)], "routes": routes}


def draw_workload(draws: Draws, kind: str, executors: int, *, by_task: bool, small: bool) -> dict[str, Any]:
    choice = draws.whole(0, 9)
    seed, num_jobs = draws.seed(), draws.whole(1, 2 if small else 3)
    spread = {"seed": seed, "interval": draws.pick((0.0, 1.0, 30.0))}
    if choice == 0 and not small:
        queries = draws.some(range(1, 23), 4) or [6]
        data = {"ccr": draws.pick((0.0, 0.5, 2.0)), "task_times": by_task}
        return {
            "kind": "tpch",
            "num_jobs": 1 if by_task else num_jobs,
            "sizes": [2],
            "queries": queries,
            **data,
            **spread,
        }
    if choice == 1:
        size = 4 if small else 25
        own = executors if draws.chance(0.3) else None
        law = {"shape": draws.pick((0.5, 1.0, 2.0)), "ccr": draws.pick((0.0, 0.5, 5.0)), "num_executors": own}
        return {"kind": "layers", "num_jobs": num_jobs, "num_nodes": draws.whole(1, size), **law, **spread}
    if choice == 2 and not small:
        shape = draws.pick(sorted(PROGRAMS))
        amounts = {"work": draws.pick((0.0, 1.0, 2.5)), "size": draws.pick((0.0, 1.0, 7.0))}
        return {"kind": "program", "num_jobs": num_jobs, "shape": shape, **amounts, **spread}
    jobs, time = [], 0.0 if draws.chance(0.5) else draws.amount(kind, 10)
    count = draws.pick((0, 1, 1, 2, 2)) if small else draws.pick((0, 1, 1, 2, 2, 3, 3, 5, 8))
    ids = draws.rng.permutation(12)[:count].tolist()
    offset = draws.pick((0, 0, -4, 2**40))
    for job_id in ids:
        jobs.append(draw_job(draws, kind, executors, by_task=by_task, small=small) | {"job_id": job_id + offset})
        jobs[-1]["submission_time"] = time
        time += draws.amount(kind, 15) if draws.chance(0.7) else 0.0
    own = sorted(draws.some(range(count), 2)) if draws.chance(0.15) else []
    return {"kind": "rows", "jobs": jobs, "own": own, "iterator": draws.chance(0.1) and not small}


def draw_job(draws: Draws, kind: str, executors: int, *, by_task: bool, small: bool) -> dict[str, Any]:
    """Draw one job: a node alone, a chain, a star, a graph, or one of several parts."""
    nodes = draws.whole(1, 4) if small else draws.pick((1, 1, 2, 4, 7, 12, 20, 40))
    shape = draws.pick(("graph", "graph", "graph", "chain", "out", "in", "parts"))
    if shape == "chain":
        nodes = nodes if small else draws.pick((nodes, 50))
        pairs = [(node - 1, node) for node in range(1, nodes)]
    elif shape in ("out", "in"):
        pairs = [(0, node) if shape == "out" else (node, nodes - 1) for node in range(1, nodes)]
        pairs = [(0, nodes - 1) if parent == child else (parent, child) for parent, child in pairs]
    else:
        pairs = random_edges(draws, nodes)
        if shape == "parts":
            pairs = [pair for pair in pairs if draws.chance(0.6)]
    data = draws.pick((0, 1, 3, 10))
    job: dict[str, Any] = {
        "work": [draws.amount(kind, 6) for _ in range(nodes)],
        "edges": [(*pair, draws.amount(kind, data)) for pair in pairs],
        "allow_disconnected": shape == "parts",
    }
    if draws.chance(0.2):
        job["run_times"] = [[draws.amount(kind, 6) for _ in range(executors)] for _ in range(nodes)]
    if by_task:
        job["num_tasks"] = [draws.pick((1, 1, 2, 3, 7)) for _ in range(nodes)]
        if draws.chance(0.35):
            job["task_times"] = [draw_task_times(draws, kind) for _ in range(nodes)]
    return job


def draw_task_times(draws: Draws, kind: str) -> dict[str, Any]:
    """Draw durations as if measured with 2 and with 5 executors; some waves are empty."""
    fresh = [draws.amount(kind, 4) for _ in range(draws.whole(0, 3))]
    first = [*fresh, *(draws.amount(kind, 4) for _ in range(draws.whole(0, 3)))]
    rest = [draws.amount(kind, 4) for _ in range(draws.whole(0 if first else 1, 3))]
    speed = {"warm_up": draws.pick((0.0, 1.0)), "reference_speed": draws.pick((1.0, 0.5))}
    return {"executors": [2, 5], "fresh": [fresh, []], "first": [first, first], "rest": [rest, []], **speed}


PROGRAMS: dict[str, Any] = {
    "chain": lambda **amounts: random_dags.chain(20, **amounts),
    "fork_join": lambda **amounts: random_dags.fork_join(5, stages=2, **amounts),
    "gaussian_elimination": lambda **amounts: random_dags.gaussian_elimination(5, **amounts),
    "fft": lambda **amounts: random_dags.fft(4, **amounts),
    "out_tree": lambda **amounts: random_dags.out_tree(4, **amounts),
    "in_tree": lambda **amounts: random_dags.in_tree(4, **amounts),
}


def jobs_of(workload: dict[str, Any], executors: int) -> list[Job]:
    """Return all jobs."""
    options = without_kind(workload)
    if workload["kind"] == "rows":
        return [_job(**row) for row in workload["jobs"]]
    seed, interval = options.pop("seed"), options.pop("interval")
    num_jobs = options.pop("num_jobs")
    if workload["kind"] == "tpch":
        jobs = tpch.generate(num_jobs, seed=seed, **options)
    elif workload["kind"] == "layers":
        jobs = [random_dags.generate(job_id=number, seed=seed + number, **options) for number in range(num_jobs)]
    else:
        make = PROGRAMS[options.pop("shape")]
        jobs = [make(job_id=number, **options) for number in range(num_jobs)]
    return submissions.poisson(jobs, interval, seed) if interval else submissions.batch(jobs)


def _job(**row: Any) -> Job:
    times = row.pop("task_times", None)
    measured = None if times is None else [TaskTimes(**one) for one in times]
    return Job(**row, task_times=measured)


def _links(links: dict[str, Any] | None) -> SharedLinks | None:
    if links is None:
        return None
    options = without_kind(links)
    if links["kind"] == "routes":
        return SharedLinks(**options)
    make: Any = getattr(SharedLinks, links["kind"])
    found: SharedLinks = make(**options)
    return found


def build(drawn: Drawn) -> DagCluster:
    """Return the cluster."""
    system, workload = dict(drawn.system), drawn.workload
    executors = Executors(**system.pop("executors"))
    jobs = jobs_of(workload, executors.num_executors)
    processes, stream = processes_of(system, jobs, workload), stream_of(jobs, workload)
    if system.pop("granularity") == "task":
        return TaskCluster(stream, executors, processes=processes, **system)
    links = _links(system.pop("links", None))
    return DagCluster(stream, executors, links=links, processes=processes, **system)


def submitted(drawn: Drawn) -> list[Job]:
    """Return what the records are to be compared with."""
    return jobs_of(drawn.workload, len(drawn.system["executors"]["speeds"]))
