"""Random platforms with deferrable jobs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from everything_draws import Drawn, Draws, processes_of, stream_of, without_kind

from desim.agents.deferrable import CapacityShield, Persistence, Seasonal
from desim.problems.deferrable import DeferrableCluster, Job
from desim.processes import (
    Pattern,
    mean_reverting_capacity,
    on_demand_vms,
    replayed_capacity,
    replayed_vms,
    stepped_capacity,
)
from desim.workloads import deferrable

__all__ = ["build", "draw", "submitted"]

RESOURCES = ("cores", "memory", "disk")
PRIORITIES = ("fifo", "sjf", "smallest-work", "tetris", "earliest-deadline", "largest-revenue", "least-slack", "random")
"""Agents that are made with a forecast, as those with trained weights and the rolling horizon are."""


def draw(draws: Draws, agent: str) -> Drawn:
    """Draw a platform and jobs, as plain values; networks are for one resource."""
    kind = draws.pick(("whole", "whole", "quarters", "thirds", "any", "mixed"))
    width = 1 if agent.startswith("score:") else draws.pick((1, 1, 2, 3))
    generated = width == 1 and draws.chance(0.25)
    last = draws.pick((1, 4, 9, 20))
    weights = [draws.pick((0.0, 10.0, 2.25)) for _ in range(width)]
    system: dict[str, Any] = {
        "resources": list(RESOURCES[:width]),
        "num_slots": draws.whole(1, last + 6) if draws.chance(0.5) else None,
        "delay_weight": draws.pick((2.0, 0.0, 0.75)),
        "violation_weight": weights if len(set(weights)) > 1 else weights[0],
        "overcommit": draws.chance(0.7),
        "eviction": draws.pick(("never", "lost", "restarted", "restarted")),
        "real_time": draws.chance(0.2),
    }
    if generated:
        system["num_slots"] = draws.pick((12, 24, 40))
        settings = {"num_slots": system["num_slots"], "arrival_rate": draws.pick((0.3, 1.36, 4.0))}
        workload: dict[str, Any] = {"kind": "generated", **settings, "seed": draws.seed()}
        system["capacity"] = {"kind": "generated"}
    else:
        workload = draw_workload(draws, system, kind, last)
        system["capacity"] = draw_capacity(draws, kind, width, last)
    rows = workload.get("rows", [])
    until = draws.end([row[1] for row in rows] + [row[2] + row[4] for row in rows if row[4] < 50] + [float(last)])
    if draws.chance(0.1) and not generated:
        event = draws.pick(("arrival", "start", "completion", "expiry", "eviction", "slot"))
        system["stop_after"] = [event, draws.whole(1, 10)]
    longest = max((row[4] for row in rows), default=0)
    return Drawn(system, workload, agent, draw_options(draws, agent, system, longest), until)


def draw_options(draws: Draws, agent: str, system: dict[str, Any], longest: int) -> dict[str, Any]:
    """Draw a shield for the agents that take one, and other settings of the rolling horizon.

    A shield is asked for as many slots as the longest job runs, so that those that all but never end are left out.
    """
    options: dict[str, Any] = {}
    width = len(system["resources"])
    takes_one = agent in PRIORITIES or agent == "rolling-horizon" or agent.startswith("score:")
    if takes_one and longest < 1_000 and draws.chance(0.3):
        margins = [[draws.uniform(0.0, 3.0) for _ in range(width)] for _ in range(draws.whole(1, 5))]
        options["shield"] = {"period": draws.pick((0, 1, 3)), "margins": margins}
    if agent in PRIORITIES and draws.chance(0.3):
        options["skip"] = False
    if agent == "rolling-horizon":
        options["horizon"] = draws.pick((None, 1, 6))
        options["every"] = draws.pick((1, 1, 3))
        options["margin"] = draws.pick((0.0, 0.2, 1.0))
        options["overcommit"] = system["overcommit"] and draws.chance(0.4)
    return options


def draw_workload(draws: Draws, system: dict[str, Any], kind: str, last: int) -> dict[str, Any]:
    count = draws.pick((0, 1, 3, 8, 8, 15, 15, 30, 30, 100))
    offset = draws.pick((0, 0, -20, 2**53 - 200))
    ids = [int(number) + offset for number in draws.rng.permutation(count + 30)[:count]]
    rows = draw_rows(draws, system, kind, ids, last)
    own = sorted(draws.some(range(len(rows)), 4)) if draws.chance(0.15) and not system["real_time"] else []
    if draws.chance(0.2) and not system["real_time"]:
        rows = renamed(rows)
        own = []
    return {"kind": "rows", "rows": rows, "own": own, "numpy": draws.chance(0.1), "iterator": draws.chance(0.1)}


def draw_rows(draws: Draws, system: dict[str, Any], kind: str, ids: list[int], last: int) -> list[tuple[Any, ...]]:
    """Draw jobs: known at a slot's beginning or between two, windows of one slot or many, some that never fit."""
    whole, lead_time = draws.chance(0.4), draws.pick((0, 1, 4))
    slack, longest, most = draws.pick((0, 1, 5, 9)), draws.pick((1, 3, 7)), draws.pick((2, 6, 12))
    huge = draws.chance(0.1) and system["num_slots"] is not None
    times = sorted(draws.whole(0, last) + (0.0 if whole else draws.pick((0.0, 0.125, 0.5, 0.75))) for _ in ids)
    rows = []
    for job_id, time in zip(ids, times, strict=True):
        earliest = math.ceil(time) + draws.whole(0, lead_time)
        latest, duration = earliest + draws.whole(0, slack), draws.whole(1, longest)
        if huge and draws.chance(0.2):
            latest, duration = draws.pick(((2**53, duration), (latest, 2**52), (2**40, 2**40)))
        cores = draws.amount(kind, most) or 0.25
        if draws.chance(0.05):
            cores *= 1e6
        others = tuple(draws.amount(kind, 5) if draws.chance(0.6) else 0.0 for _ in system["resources"][1:])
        rows.append((job_id, float(time), earliest, latest, duration, cores, others))
    return rows


def renamed(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Give jobs the identifier of one that has certainly left before they come, where there is one."""
    gone: list[tuple[float, int]] = []
    found = []
    for job_id, time, earliest, latest, duration, *rest in rows:
        free = next((pair for pair in gone if pair[0] < time), (0.0, job_id))
        gone = [pair for pair in gone if pair is not free] + [(latest + duration, free[1])]
        found.append((free[1], time, earliest, latest, duration, *rest))
    return found


def draw_capacity(draws: Draws, kind: str, width: int, last: int) -> dict[str, Any]:
    """Draw what on-demand jobs leave: nothing at times, a series, steps between slots, noise, or machines that come."""
    most = draws.pick((3, 10, 25, 60, 60))

    def amounts() -> list[float]:
        return [0.0 if draws.chance(0.15) else draws.amount(kind, most) for _ in range(width)]

    choice = draws.pick(("series", "series", "repeated", "steps", "noise", "vms", "random_vms"))
    if choice in ("series", "repeated"):
        return {"kind": choice, "table": [amounts() for _ in range(draws.whole(1, last + 3))]}
    if choice == "steps":
        times = sorted(draws.whole(0, 8 * last + 8) / draws.pick((8, 1)) for _ in range(draws.whole(0, last + 2)))
        return {"kind": choice, "steps": [(float(time), amounts()) for time in (0, *times)]}
    if choice == "noise":
        return {
            "kind": choice,
            "level": [float(draws.whole(0, most)) for _ in range(width)],
            "amplitude": draws.pick((0.0, 0.8)),
            "coefficient": draws.pick((0.0, 0.5, 0.97)),
            "deviation": draws.pick((0.0, 0.5, 4.0)),
            "correlation": draws.pick((0.0, 1.0, 0.4)),
            "whole": draws.chance(0.5),
        }
    total = [float(draws.whole(most // 2, most)) for _ in range(width)]
    if choice == "vms":
        starts = sorted(draws.uniform(-3.0, last + 2.0) for _ in range(draws.whole(0, 20)))
        lives = (0.0, 1.0, 2.5, math.inf)
        return {"kind": choice, "total": total, "vms": [(s, s + draws.pick(lives), amounts()) for s in starts]}
    sizes = [amounts() for _ in range(3)]
    law = {"lifetime": draws.pick((0.5, 4.0)), "batch_size": draws.whole(1, 3), "warm_up": draws.pick((0.0, 10.0))}
    return {"kind": choice, "total": total, "arrivals": draws.pick((0.0, 0.5, 3.0)), "sizes": sizes, **law}


class VM(NamedTuple):
    """A recorded on-demand VM."""

    start: float
    end: float
    cores: float
    memory: float = 0.0
    disk: float = 0.0


def _capacity(capacity: dict[str, Any]) -> Any:
    options = without_kind(capacity)
    kind = capacity["kind"]
    if kind in ("series", "repeated"):
        table = options["table"]
        return table if kind == "series" else replayed_capacity(table, repeat=True)
    if kind == "steps":
        return stepped_capacity(options["steps"])
    if kind == "noise":
        swing = {"amplitude": options.pop("amplitude"), "day_length": 8}
        level = [Pattern(mean, **swing) for mean in options.pop("level")]
        return mean_reverting_capacity(level, **options)
    if kind == "vms":
        return replayed_vms(options["total"], [VM(start, end, *amounts) for start, end, amounts in options["vms"]])
    total, rate, lifetime = (options.pop(name) for name in ("total", "arrivals", "lifetime"))
    return on_demand_vms(total, rate, lifetime, **options)


def _generated(workload: dict[str, Any]) -> deferrable.Scenario:
    options = {name: value for name, value in workload.items() if name not in ("kind", "seed")}
    return deferrable.generate(deferrable.Settings(**options), seed=workload["seed"])


def build(drawn: Drawn) -> DeferrableCluster:
    """Return the cluster."""
    system, workload = dict(drawn.system), drawn.workload
    jobs, capacity = submitted(drawn), system.pop("capacity")
    process = _generated(workload).capacity if capacity["kind"] == "generated" else _capacity(capacity)
    processes = processes_of(system, jobs, workload)
    return DeferrableCluster(stream_of(jobs, workload), process, processes=processes, **system)


def submitted(drawn: Drawn) -> list[Job]:
    """Return what the records are to be compared with."""
    workload = drawn.workload
    if workload["kind"] == "generated":
        return list(_generated(workload).jobs)
    jobs = [Job(*row) for row in workload["rows"]]
    return [in_numpy(job) for job in jobs] if workload["numpy"] else jobs


def in_numpy(job: Job) -> Job:
    """Return a job whose numbers are numpy's, as a table of them gives."""
    whole = {name: np.int64(getattr(job, name)) for name in ("job_id", "earliest_start", "latest_start", "duration")}
    return job._replace(**whole, submission_time=np.float64(job.submission_time), cores=np.float64(job.cores))


def with_options(agent: Any, options: dict[str, Any]) -> Any:
    """Give an agent its shield and other settings."""
    for name, value in options.items():
        if name == "shield":
            base = Seasonal(value["period"]) if value["period"] else Persistence()
            agent.forecast = CapacityShield(base, np.array(value["margins"]), 0.1)
        else:
            setattr(agent, name, value)
    return agent
