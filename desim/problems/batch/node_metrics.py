"""Metrics of a cluster of nodes: utilization of resources, and GPU fragmentation.

Source of the fragmentation metric: Weng and others, "Beware of fragmentation", USENIX ATC 2023. It is the amount of
free GPUs that a typical job of the workload could not use, weighted by the frequency of each request.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.measures import time_integral
from desim.problem import Metric
from desim.problems.batch.allocations import allocations, capacities, devices, is_readable, placed
from desim.problems.batch.fragmentation import Fragmentation, typical_requests
from desim.problems.batch.nodes import GPU, Node, NodeTable, Request
from desim.problems.batch.occupancy import read_core_ranges

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["NODE_METRICS", "node_metrics"]

Floats = NDArray[np.float64]

AT_ONCE = 16_384
"""Number of node states whose fragmentation is computed together, which takes about 50 MB."""

NODE_METRICS = (
    Metric(
        "utilization_<resource>",
        "on nodes: time average of what executions hold over what nodes that are up have, for cores, memory, gpus, "
        "GPUs of one model (gpus_MODEL) or another resource",
        better="higher",
    ),
    Metric(
        "fragmentation_<resource>",
        "on nodes with GPUs: time average of the fraction of all GPUs that is free but unusable for a typical job of "
        "the workload",
        better="lower",
    ),
)


def node_metrics(result: Result, observed: tuple[float, float]) -> dict[str, float]:
    """Return the metrics of the resources of nodes.

    Parameters
    ----------
    result : Result
        Result of the run.
    observed : tuple of float
        Start and end of the observed interval, in seconds.

    Returns
    -------
    dict of str to float
        ``utilization_NAME`` of each resource and GPU model; ``fragmentation_gpus`` if there are GPUs. Empty without
        nodes.
    """
    if "num_nodes" not in result.info:
        return {}
    nodes = result.table("nodes")
    held = allocations(nodes, result.table("requests"), result.table("placements"))
    there = capacities(nodes)
    up = _time_up(result, nodes, observed)
    begin, end = held["starting_time"].to_numpy(), held["finish_time"].fill_null(result.end_time).to_numpy()
    node = held["node"].to_numpy()
    values: dict[str, float] = {}
    for name in there.columns[3:]:
        amounts, capacity = held[name].cast(float).to_numpy(), there[name].cast(float).to_numpy()
        groups = {name: np.ones(len(nodes), np.bool_)}
        if name == "gpus":
            models = nodes["gpu_model"].to_numpy()
            groups |= {f"gpus_{model}": models == model for model in sorted(set(models[capacity > 0])) if model}
        for group, of_group in groups.items():
            mine, room = of_group[node], float((up * capacity)[of_group].sum())
            used = time_integral(begin[mine], end[mine], amounts[mine], observed)
            values[f"utilization_{group}"] = used / room if room else math.nan
    if "gpus" in there.columns:
        values["fragmentation_gpus"] = _fragmentation(result, nodes, observed)
    return values


def _time_up(result: Result, nodes: pl.DataFrame, observed: tuple[float, float]) -> Floats:
    """Return the seconds of the observed interval during which each node was up."""
    begin, end = observed
    up = np.full(len(nodes), end - begin)
    if "outages" not in result.table_names:
        return up
    outages = result.table("outages")
    ranges = read_core_ranges(outages["resources"], result.info["num_cores"])
    sign = np.where(outages["event"].cast(str).to_numpy() == "down", -1.0, 1.0)
    left = end - np.clip(outages["time"].to_numpy(), begin, end)  # seconds of the interval after each event
    for row, first, last in zip(ranges.row, ranges.first, ranges.last, strict=True):
        low, high = nodes["first_core"].search_sorted(first), nodes["first_core"].search_sorted(last, "right")
        up[low:high] += sign[row] * left[row]
    return up


def _fragmentation(result: Result, nodes: pl.DataFrame, observed: tuple[float, float]) -> float:
    """Return the time average of fragmentation; that of a node changes only when an execution starts or ends there."""
    requests, length = result.table("requests"), observed[1] - observed[0]
    if requests.is_empty() or not length:
        return math.nan
    table = NodeTable(_nodes(nodes))
    typical = typical_requests(_requests(requests))
    measure = Fragmentation(typical, table)
    node, times, free, gpus = _states(result, nodes, table)
    lost = np.concatenate(
        [
            measure.of(node[place : place + AT_ONCE], free[place : place + AT_ONCE], gpus[place : place + AT_ONCE])
            for place in range(0, len(node), AT_ONCE)
        ]
    )
    follows = np.append(node[1:] == node[:-1], False)
    until = np.where(follows, np.append(times[1:], 0.0), result.end_time)
    return time_integral(times, until, lost / GPU, observed) / length / table.num_gpus


def _states(result: Result, nodes: pl.DataFrame, table: NodeTable) -> tuple[Any, Floats, Any, Any]:
    """Return node, time, free cores and free thousandths of GPUs after each change, by node and time.

    Each node is initially empty. Of several changes at the same time, only the last state has a duration above 0.
    """
    import polars as pl

    requests, placements = result.table("requests"), result.table("placements")
    cores = allocations(nodes, requests, placements).select("node", "starting_time", "finish_time", "cores")
    shares = devices(placed(nodes, requests, placements).filter(is_readable()))
    columns = [f"gpu_{gpu}" for gpu in range(table.gpus.shape[1])]
    none = [pl.lit(0, pl.Int64).alias(name) for name in columns]
    of_gpus = [pl.when(pl.col("gpu") == gpu).then("share").otherwise(0).alias(name) for gpu, name in enumerate(columns)]
    held = pl.concat(
        [
            cores.with_columns(pl.col("cores").cast(pl.Int64), *none),
            shares.select("node", "starting_time", "finish_time", pl.lit(0, pl.Int64).alias("cores"), *of_gpus),
        ]
    )
    amounts = ["cores", *columns]
    empty = pl.DataFrame({"node": nodes["node"], "time": pl.repeat(-math.inf, len(nodes), eager=True)})
    changes = pl.concat(
        [
            empty.with_columns(pl.lit(0, pl.Int64).alias(name) for name in amounts),
            held.select("node", pl.col("starting_time").alias("time"), *(-pl.col(name) for name in amounts)),
            held.select("node", pl.col("finish_time").alias("time"), *amounts).drop_nulls("time"),
        ]
    )
    changes = changes.group_by("node", "time").agg(pl.col(amounts).sum()).sort("node", "time")
    changes = changes.with_columns(pl.col(amounts).cum_sum().over("node"))
    node, moved = changes["node"].to_numpy(), changes.select(amounts).to_numpy()
    return node, changes["time"].to_numpy(), table.capacity[node, 0] + moved[:, 0], table.gpus[node] + moved[:, 1:]


def _nodes(nodes: pl.DataFrame) -> list[Node]:
    """Return the nodes of a table, with the values that fragmentation needs."""
    return [
        Node(
            row["name"],
            row["cores"],
            gpus=row["gpus"],
            gpu_model=row["gpu_model"],
            resources=dict(_pairs(row["resources"])),
        )
        for row in nodes.iter_rows(named=True)
    ]


def _requests(requests: pl.DataFrame) -> list[Request]:
    """Return the requests of a table, with the values that fragmentation needs."""
    return [
        Request(cores=cores, gpus=gpus, gpu_models=tuple(models), resources=_pairs(resources))
        for cores, gpus, models, resources in requests.select("cores", "gpus", "gpu_models", "resources").iter_rows()
    ]


def _pairs(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((name, int(amount)) for name, _, amount in (pair.partition("=") for pair in text.split()))
