"""Random batch clusters with their jobs."""

from __future__ import annotations

from typing import Any

import numpy as np
from everything_draws import Drawn, Draws, moments_of, processes_of, stream_of, without_kind
from everything_names import brings_predictor, looks_ahead

from desim.problems.batch import BatchCluster, Job
from desim.workloads import arrivals, lublin

__all__ = ["build", "draw", "submitted"]

Row = tuple[int, float, int, float, float, int]
"""Of a job: identifier, submission, cores, requested time, run time, user."""

KINDS = ("whole", "whole", "quarters", "thirds", "any", "mixed")


def draw(draws: Draws, agent: str) -> Drawn:
    """Draw a cluster and jobs, as plain values."""
    system: dict[str, Any] = {
        "num_cores": draws.pick((1, 2, 2, 3, 4, 5, 8, 16, 33, 64, 100, 256, 1_000)),
        "enforce_time_limit": draws.chance(0.7),
        "infeasible": "forward" if draws.chance(0.3) else "raise",
        "too_wide": "reject" if draws.chance(0.25) else "error",
        "on_outage": "lose" if draws.chance(0.3) else "requeue",
        "ask_when_empty": draws.chance(0.15),
    }
    workload = draw_workload(draws, system, small=looks_ahead(agent))
    rows = rows_of(workload)
    times = [row[1] for row in rows]
    lengths = [min(row[3], row[4]) if system["enforce_time_limit"] else row[4] for row in rows]
    span = max(moments_of(times, lengths), default=10.0)
    until = draws.end(moments_of(times, lengths))
    choice = draws.whole(0, 7)
    if choice < 2:
        kind = "whole" if draws.chance(0.5) and span > 8 else "any"
        system["outages"] = draws.outages(system["num_cores"], max(span, 1.0), kind)
    elif choice == 2 and span > 0:
        system["outages"] = {
            "kind": "random",
            "mean_time_to_failure": draws.uniform(0.3, 3.0) * span,
            "mean_time_to_repair": draws.uniform(0.01, 0.3) * span,
            "units_per_failure": draws.whole(-(-system["num_cores"] // 8), system["num_cores"]),
        }
        until = min(until, draws.uniform(1.0, 4.0) * span)  # what is cut again and again never ends
    elif choice == 3 and rows:
        event = draws.pick(("arrival", "start", "completion"))
        system["stop_after"] = [event, draws.whole(1, len(rows))]
    if "outages" not in system and not agent.startswith("split-window:") and draws.chance(0.12):
        workload |= {"rows": twice(workload["rows"])} if workload["kind"] == "rows" else {}
    system["cycle"] = draws.cycle()
    predictor = draws.predictor()
    system["predictor"] = "request" if brings_predictor(agent) else predictor
    return Drawn(system, workload, agent, {}, until)


def draw_workload(draws: Draws, system: dict[str, Any], *, small: bool) -> dict[str, Any]:
    choice = draws.whole(0, 9)
    if choice < 2:
        return {
            "kind": "lublin",
            "num_jobs": draws.whole(2, 10 if small else 40),
            "num_cores": system["num_cores"],
            "seed": draws.seed(),
            "model": draws.pick(("all", "batch", "interactive", "two_types")),
            "overestimate": draws.pick((1.0, 2.0, 10.0)),
            "num_users": draws.pick((None, 3)),
        }
    if choice == 2:
        return {
            "kind": "poisson",
            "num_jobs": draws.whole(1, 10 if small else 40),
            "arrival_rate": draws.pick((0.1, 1.0, 10.0)),
            "service": draws.pick((0.0, 1.0, 5.0)),
            "cores": draws.whole(1, system["num_cores"]),
            "seed": draws.seed(),
        }
    rows = draw_rows(
        draws,
        system,
        draws.pick((0, 1, 2, 3, 5, 5, 8, 8, 12) if small else (0, 1, 2, 3, 5, 8, 8, 12, 12, 20, 20, 30, 30, 80)),
    )
    own = sorted(draws.some(range(len(rows)), 4)) if draws.chance(0.15) else []
    return {
        "kind": "rows",
        "rows": rows,
        "own": own,
        "numpy": draws.chance(0.05),
        "iterator": draws.chance(0.1) and not small,
    }


def draw_rows(draws: Draws, system: dict[str, Any], count: int) -> list[Row]:
    """Draw jobs: simultaneous ones, some that take no time, wide ones, requests that are too long or too short."""
    kind, num_cores = draws.pick(KINDS), system["num_cores"]
    widest = draws.pick((num_cores, num_cores, max(1, num_cores // 2), 1))
    longest, gap = draws.pick((2, 5, 12, 40)), draws.pick((0, 1, 2, 4, 12))
    exactness = draws.pick(("exact", "long", "killed", "any"))
    ids = draws.rng.permutation(3 * count + 1)[:count].tolist() if draws.chance(0.7) else list(range(count))
    offset = draws.pick((0, 0, -3, 2**40, 2**62))
    time = 0.0 if draws.chance(0.5) else draws.amount(kind, 20)
    rows: list[Row] = []
    for job_id in ids:
        requested = draws.amount(kind, longest)
        run = {
            "exact": lambda requested=requested: requested,
            "long": lambda requested=requested: requested * draws.pick((0.0, 0.25, 0.5, 1.0)),
            "killed": lambda requested=requested: requested + draws.amount(kind, 3),
            "any": lambda: draws.amount(kind, longest),
        }[exactness]()
        cores = draws.whole(1, widest)
        if system["too_wide"] == "reject" and draws.chance(0.1):
            cores += num_cores
        rows.append((int(job_id) + offset, time, cores, requested, run, draws.pick((-1, 0, 1, 7))))
        time += draws.amount(kind, gap) if not draws.chance(0.2) else 0.0
    return rows


def twice(rows: list[Row]) -> list[Row]:
    """Return jobs, and the same identifiers again once all are certainly gone: nothing fails, and nobody waits on."""
    ends = max((row[1] for row in rows), default=0.0) + sum(row[4] + row[3] for row in rows)
    gone = 1e3 * ends + 1e5 * (len(rows) + 1)  # an inspector lets a job wait for half a day
    return [*rows, *((row[0], row[1] + gone, *row[2:]) for row in rows)]


def rows_of(workload: dict[str, Any]) -> list[Row]:
    """Return the rows of the jobs."""
    if workload["kind"] == "rows":
        rows: list[Row] = workload["rows"]
        return rows
    return [tuple(job) for job in jobs_of(workload)]


def jobs_of(workload: dict[str, Any]) -> list[Job]:
    """Return all jobs, those of a process of its own included."""
    options = without_kind(workload)
    if workload["kind"] == "lublin":
        return list(lublin.generate(**options))
    if workload["kind"] == "poisson":
        mean = options.pop("service")
        service = arrivals.exponential(mean) if mean else arrivals.constant(0.0)
        return list(arrivals.poisson_jobs(service=service, **options))
    if workload["numpy"]:
        kinds = (np.int64, np.float64, np.int64, np.float64, np.float64, np.int64)
        return [Job(*(kind(value) for kind, value in zip(kinds, row, strict=True))) for row in workload["rows"]]
    return [Job(*row) for row in workload["rows"]]


def build(drawn: Drawn) -> BatchCluster:
    """Return the cluster."""
    system, jobs = dict(drawn.system), jobs_of(drawn.workload)
    processes = processes_of(system, jobs, drawn.workload)
    return BatchCluster(stream_of(jobs, drawn.workload), processes=processes, **{"cycle": "arrival"} | system)


def submitted(drawn: Drawn) -> list[Job]:
    """Return what the records are to be compared with."""
    return jobs_of(drawn.workload)
