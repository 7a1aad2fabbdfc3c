"""Which metrics of a run have to be numbers, said once more: NaN is for samples that are empty."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from desim.problem import kind_of
from desim.result import Result

__all__ = ["wrong_metrics"]


def wrong_metrics(result: Result) -> list[str]:
    """Return what is wrong with the metrics of a run: names, numbers that are none, and NaN where there is a sample."""
    problem = result.info["problem"]
    values = result.metrics()
    found = [] if list(values) == _expected_names(result) else [f"the metrics are {list(values)}"]
    empty = _EMPTY[problem](result, values)
    for name, value in values.items():
        by_beginning = (why for begin, why in empty.items() if name.startswith(begin))
        reason = empty[name] if name in empty else next(by_beginning, False)
        if math.isinf(value) or (reason is not None and math.isnan(value) != bool(reason)):
            found.append(f"{name} is {value!r}, and it has {'no' if reason else 'a'} sample")
    if values.get("gap_to_lower_bound", 0.0) < -1e-9:
        found.append(f"the makespan {values['makespan']!r} is below its lower bound {values['lower_bound']!r}")
    return found


def _expected_names(result: Result) -> list[str]:
    metrics = kind_of(result).metrics
    if result.info["problem"] == "batch":
        return [*metrics.names_for(()), *_of_sites(result)]
    names = metrics.names_for(result.info.get("resources", ()))
    without = "" if result.info.get("holding", True) else "(with holding)"
    return [name for name in names if not without or without not in metrics[name].meaning]


def _of_sites(result: Result) -> Iterator[str]:
    """Yield the names of metrics that batch clusters have only with qualities of service, or nodes."""
    if "predictor" in result.info:
        yield "prediction_accuracy_mean"
    if "qos" in result.info:
        yield "preemptions"
    if "num_nodes" in result.info:
        yield from (f"utilization_{name}" for name in _capacity(result))
        if result.table("nodes")["gpus"].sum():
            yield "fragmentation_gpus"


def _capacity(result: Result) -> dict[str, list[float]]:
    """Return how much of each resource, and of each model of GPUs, each node has."""
    rows = result.table("nodes").rows(named=True)
    amounts = [dict(pair.split("=") for pair in row["resources"].split()) for row in rows]
    found = {"cores": [float(row["cores"]) for row in rows]}
    if any(row["memory"] for row in rows):
        found["memory"] = [float(row["memory"]) for row in rows]
    if any(row["gpus"] for row in rows):
        found["gpus"] = [float(row["gpus"]) for row in rows]
        models = sorted({row["gpu_model"] for row in rows if row["gpus"]} - {""})
        found |= {f"gpus_{name}": [row["gpus"] * (row["gpu_model"] == name) for row in rows] for name in models}
    names = sorted({name for amount in amounts for name in amount})
    return found | {name: [float(amount.get(name, 0)) for amount in amounts] for name in names}


def _nothing_there(result: Result, begin: float) -> dict[str, bool | None]:
    """Tell of each resource whether no node with any was ever up; None if that is a matter of rounding."""
    if "num_nodes" not in result.info:
        return {}
    end, rows = result.info["end_time"], result.table("nodes").rows(named=True)
    up = [end - begin] * len(rows)
    for time, event, resources in result.table("outages").select("time", "event", "resources").rows():
        left = (end - min(max(time, begin), end)) * (-1.0 if event == "down" else 1.0)
        parts = [part.split("-") for part in resources.split()]
        cores = {core for part in parts for core in range(int(part[0]), int(part[-1]) + 1)}
        for number, row in enumerate(rows):
            up[number] += left * (row["first_core"] in cores)
    found: dict[str, bool | None] = {}
    for name, amounts in _capacity(result).items():
        room = sum(time * amount for time, amount in zip(up, amounts, strict=True))
        is_rounding = 0 < abs(room) < 1e-9 * (end - begin) * sum(amounts)
        found[f"utilization_{name}"] = None if is_rounding else not room > 0
    return found


def _executed(result: Result, finished: pl.DataFrame) -> bool:
    """Tell whether some job that has finished took any time, before it was suspended or after."""
    if (finished["execution_time"] > 0).any():
        return True
    if "qos" not in result.info:
        return False
    cuts = result.table("interruptions").rows(named=True)
    for number in finished["arrival_number"]:
        done = 0.0
        for cut in cuts:
            if cut["arrival_number"] == number:
                done = done + cut["finish_time"] - cut["starting_time"] if cut["outcome"] == "suspended" else 0.0
        if done > 0:
            return True
    return False


def _batch(result: Result, values: dict[str, float]) -> dict[str, Any]:
    """Return by beginnings of names whether the samples are empty."""
    jobs = result.jobs
    finished = jobs.filter(pl.col("status").is_in(["completed", "killed"]))
    times = jobs.filter(pl.col("status") != "rejected")["submission_time"]
    length = result.info["end_time"] - (jobs["submission_time"].min() if len(jobs) else 0.0)
    nodes = _nothing_there(result, result.info["end_time"] - length)
    return nodes | {
        "fragmentation_gpus": not length or not len(jobs),
        "waiting_time": not values["jobs_started"],
        "turnaround_time": not len(finished),
        "slowdown": not _executed(result, finished),
        "bounded_slowdown": not len(finished),
        "fairness": not values["users"],
        "makespan": not len(finished),
        "prediction_accuracy": not len(finished),
        "offered_load": not len(times) or times.min() == times.max(),
        "utilization": not values["available_core_seconds"],
        "queue_length": not length,
        "queued_load_mean": not length,
        "throughput": not length,
    }


def _dag(result: Result, values: dict[str, float]) -> dict[str, Any]:
    jobs, nodes = result.jobs, result.table("nodes")
    measured = len(nodes) > 0 and result.info["granularity"] == "task" and _measured(nodes)
    undone = values["jobs_completed"] < len(jobs) or not len(jobs)
    took = 0.0 if undone else values["makespan"]
    nothing = measured or not len(jobs)
    return {
        "makespan": undone,
        "serial_time": measured,
        "speedup": undone or measured or not took,
        "critical_path": nothing,
        "slr": undone or nothing or not values["critical_path"] > 0,
        "job_slr_mean": measured or not _takes_time(jobs, nodes),
        "lower_bound": nothing,
        "gap_to_lower_bound": undone or nothing or not values["lower_bound"] > 0,
        "turnaround_time": not values["jobs_completed"],
        "waiting_time_mean": not len(jobs["starting_time"].drop_nulls()),
        "utilization": _never_up(result),
        "useful_utilization": _never_up(result),
        "local_share": not result.table("transfers")["size"].sum(),
        "transfer_time_mean": not values["num_transfers"],
    }


def _measured(nodes: pl.DataFrame) -> bool:
    return bool(nodes["measured"].any())


def _takes_time(jobs: pl.DataFrame, nodes: pl.DataFrame) -> bool:
    """Tell whether some node of a job that has completed takes any time wherever it runs."""
    done = set(jobs.filter(status="completed")["job_id"])
    rows = nodes.filter(pl.col("job_id").is_in(done)).select("work", "run_times").rows()
    return any(work > 0 if times is None else min(times) > 0 for work, times in rows)


def _never_up(result: Result) -> bool | None:
    """Tell whether executors were never up from the first submission on; None if that is a matter of rounding."""
    jobs, end = result.jobs, result.info["end_time"]
    begin = jobs["submission_time"].min() if len(jobs) else end
    total = up = result.info["num_executors"] * (end - begin)
    for time, _, event in result.table("outages").rows():
        up += (-1.0 if event == "down" else 1.0) * (end - min(max(time, begin), end))
    return None if 0 < abs(up) < 1e-9 * total else not up > 0


def _deferrable(result: Result, values: dict[str, float]) -> dict[str, Any]:
    slots = result.table("slots")
    none = not len(slots)
    shares = {f"utilization_{name}": not slots[f"capacity_{name}"].sum() for name in result.info["resources"]}
    return {
        "average_reward": none,
        "violation_slots": none,
        **shares,
        "utilization": all(shares.values()),
        "acceptance": not values["jobs_submitted"],
        "expiry_rate": not values["jobs_submitted"],
        "delay": not values["jobs_started"],
        "current_work_mean": none,
        "future_work_mean": none,
        "known_work_mean": none,
    }


def _multiserver(result: Result, values: dict[str, float]) -> dict[str, Any]:
    slots, info, jobs = result.table("slots"), result.info, result.jobs
    holding = info["holding"]
    none = not (info["end_time"] if holding else len(slots))
    shares: dict[str, Any] = {}
    for name, amount in zip(info["resources"], info["total_capacity"], strict=True):
        shares |= {f"{kind}_{name}": not len(slots) or not amount for kind in ("utilization", "reserved")}
    return {
        **{f"average_{name}": none for name in ("reward", "gain", "overhead")},
        **shares,
        "utilization": not len(slots) or not any(info["total_capacity"]),
        "reward_per_job": not len(jobs.filter(pl.col("status") != "queued")),
        "waiting_time": not values["jobs_started"],
        "turnaround_time": not values["jobs_completed"],
        "execution_time": not values["jobs_completed"],
        "speed_mean": not values["jobs_started"],
        "throughput": none,
        "queue_length_mean": none,
    }


_EMPTY: dict[str, Callable[[Result, dict[str, float]], dict[str, Any]]] = {
    "batch": _batch,
    "dag": _dag,
    "deferrable": _deferrable,
    "multiserver": _multiserver,
}
