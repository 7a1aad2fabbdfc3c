"""Metrics of what a cluster of nodes has beside cores, and of groups of jobs.

Sources: fragmentation: Weng and others, "Beware of fragmentation", USENIX ATC 2023: free GPUs that a typical job of the
workload could not use, weighted by how frequent each kind is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_choice
from desim.exceptions import InvalidConfiguration
from desim.problem import Metric
from desim.problems.batch.allocations import allocations, capacities, devices, is_readable, placed
from desim.problems.batch.fragmentation import Fragmentation, typical_requests
from desim.problems.batch.nodes import GPU, Node, NodeTable, Request
from desim.problems.batch.occupancy import read_core_ranges
from desim.statistics import time_integral

if TYPE_CHECKING:
    import polars as pl

    from desim.result import Result

__all__ = ["NODE_METRICS", "node_metrics", "waits_by"]

Floats = NDArray[np.float64]

AT_ONCE = 16_384
"""States of nodes whose fragmentation is computed together, which takes some 50 MB."""

NODE_METRICS = (
    Metric(
        "utilization_<resource>",
        "on nodes: what executions hold of cores, memory, gpus, those of a model (gpus_MODEL) or a further resource, "
        "over what nodes that are up have, as time averages",
        better="higher",
    ),
    Metric(
        "fragmentation_<resource>",
        "on nodes with GPUs: time average of the free GPUs that a typical job of the workload could not use, over all "
        "GPUs",
        better="lower",
    ),
)


def node_metrics(result: Result, observed: tuple[float, float]) -> dict[str, float]:
    """Compute the metrics of a run on nodes.

    Parameters
    ----------
    result : Result
        The run.
    observed : tuple of float
        Begin and end of the observed interval, in seconds.

    Returns
    -------
    dict of str to float
        Utilization of each resource and GPU model by ``utilization_NAME``; ``fragmentation_gpus`` where there are any.
    """
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
    """Return for how long each node was up, in seconds of the observed interval."""
    begin, end = observed
    up = np.full(len(nodes), end - begin)
    outages = result.table("outages")
    if outages.is_empty():
        return up
    ranges = read_core_ranges(outages["resources"], result.info["num_cores"])
    sign = np.where(outages["event"].cast(str).to_numpy() == "down", -1.0, 1.0)
    left = end - np.clip(outages["time"].to_numpy(), begin, end)  # how much of the interval lies behind each event
    for row, first, last in zip(ranges.row, ranges.first, ranges.last, strict=True):
        low, high = nodes["first_core"].search_sorted(first), nodes["first_core"].search_sorted(last, "right")
        up[low:high] += sign[row] * left[row]
    return up


def _fragmentation(result: Result, nodes: pl.DataFrame, observed: tuple[float, float]) -> float:
    """Return the time average of fragmentation: that of a node changes when something starts or ends there."""
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
    """Return node, time, free cores and free thousandths of GPUs after each change, node by node, in order of time.

    Each node begins empty. Where several things happen at a time all but the last state last for no time.
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
    """Return what a table of nodes says as far as fragmentation needs it."""
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
    """Return what jobs request as far as fragmentation needs it."""
    return [
        Request(cores=cores, gpus=gpus, gpu_models=tuple(models), resources=_pairs(resources))
        for cores, gpus, models, resources in requests.select("cores", "gpus", "gpu_models", "resources").iter_rows()
    ]


def _pairs(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((name, int(amount)) for name, _, amount in (pair.partition("=") for pair in text.split()))


def waits_by(result: Result, group: Literal["partition", "user"]) -> pl.DataFrame:
    """Return how long the jobs of each partition or user waited.

    Parameters
    ----------
    result : Result
        A run of a batch cluster.
    group : {"partition", "user"}
        By the partition that jobs request, which takes nodes (empty for those that request none), or by user (-1 where
        unknown).

    Returns
    -------
    polars.DataFrame
        A row a group, sorted: its name, ``jobs`` that have started, ``core_hours`` of their executions, and of the
        waits in seconds ``mean``, ``median``, ``p95`` and ``max``.

    Raises
    ------
    InvalidConfiguration
        If the cluster has no nodes, and thus no partitions.
    """
    import polars as pl

    check_choice("group", group, ("partition", "user"))
    jobs = result.table("jobs").filter(pl.col("starting_time").is_not_null()).rename({"user_id": "user"})
    if group == "partition":
        if "num_nodes" not in result.info:
            raise InvalidConfiguration("waits by partition: the cluster has no nodes; give user instead")
        key = ["arrival_number", "job_id"]
        jobs = jobs.join(result.table("requests").select(*key, "partition"), on=key, how="left", maintain_order="left")
    wait = pl.col("waiting_time")
    core_seconds = pl.col("requested_number_of_resources") * pl.col("execution_time").fill_null(0.0)
    return (
        jobs.group_by(group)
        .agg(
            jobs=pl.len().cast(pl.Int64),
            core_hours=core_seconds.sum() / 3600,
            mean=wait.mean(),
            median=wait.median(),
            p95=wait.quantile(0.95, "linear"),
            max=wait.max(),
        )
        .sort(group)
    )
