"""Resources of nodes that executions hold, derived from the tables of a run; for metrics, figures and rules."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from desim.problems.batch.nodes import CORES, GPU, MEMORY

__all__ = ["allocations", "amount_of", "capacities", "devices", "further_resources", "is_readable", "placed"]

KEY = ["arrival_number", "job_id"]
GPUS = "gpus"

_TEXT = r"^([0-9]{1,6}:[0-9]{1,4}( [0-9]{1,6}:[0-9]{1,4})*)?$"


def placed(nodes: pl.DataFrame, requests: pl.DataFrame, placements: pl.DataFrame) -> pl.DataFrame:
    """Join each placement with the request of its job and the resources of its node.

    Parameters
    ----------
    nodes, requests, placements : polars.DataFrame
        Tables of a run.

    Returns
    -------
    polars.DataFrame
        Placements on existing nodes; columns of requests have the prefix ``task_``, those of nodes ``node_``.
    """
    of_jobs = requests.unique(KEY, keep="first", maintain_order=True)
    of_nodes = nodes.unique("node", keep="first", maintain_order=True)
    asked = of_jobs.rename(lambda name: name if name in KEY else f"task_{name}")
    there = of_nodes.rename(lambda name: name if name == "node" else f"node_{name}")
    beside = placements.join(asked, on=KEY, how="inner", maintain_order="left")
    return beside.join(there, on="node", how="inner", maintain_order="left")


def is_readable() -> pl.Expr:
    """Return whether the GPUs of a placement are in the expected format."""
    return pl.col("gpus").str.contains(_TEXT)


def devices(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each GPU that an execution holds, at least in part.

    Parameters
    ----------
    rows : polars.DataFrame
        Placements whose GPUs are readable, see :func:`is_readable`.

    Returns
    -------
    polars.DataFrame
        Columns of `rows`, ``row`` (index into `rows`), ``gpu`` and ``share`` in thousandths.
    """
    parts = rows.with_row_index("row").with_columns(part=pl.col("gpus").str.split(" ")).explode("part")
    pair = pl.col("part").str.split_exact(":", 1).struct
    held = parts.with_columns(gpu=pair.field("field_0"), share=pair.field("field_1"))
    return held.filter(pl.col("part") != "").with_columns(pl.col("gpu", "share").cast(pl.Int64))


def amount_of(name: str, column: str) -> pl.Expr:
    """Return the amount of a named resource in a text such as ``licenses=3 slots=8``; 0 if it is not listed."""
    pairs = pl.col(column).str.split(" ").list.eval(pl.element().filter(pl.element().str.starts_with(f"{name}=")))
    return pairs.list.first().str.strip_prefix(f"{name}=").cast(pl.Int64, strict=False).fill_null(0)


def further_resources(nodes: pl.DataFrame, requests: pl.DataFrame) -> Sequence[str]:
    """Return the sorted names of resources other than cores, memory and GPUs."""
    texts = [*nodes["resources"].unique(), *requests["resources"].unique()]
    return sorted({pair.partition("=")[0] for text in texts for pair in text.split()})


def capacities(nodes: pl.DataFrame) -> pl.DataFrame:
    """Return the amount of each resource that nodes have.

    Parameters
    ----------
    nodes : polars.DataFrame
        Table of nodes.

    Returns
    -------
    polars.DataFrame
        ``node``, ``name``, ``gpu_model`` and one column for each resource that a node has: ``cores``, ``memory`` in
        bytes, ``gpus``, and others.
    """
    further = [amount_of(name, "resources").alias(name) for name in further_resources(nodes, nodes)]
    frame = nodes.select("node", "name", "gpu_model", CORES, MEMORY, GPUS, *further)
    return frame.drop(name for name in (MEMORY, GPUS) if not (frame[name] > 0).any())


def allocations(nodes: pl.DataFrame, requests: pl.DataFrame, placements: pl.DataFrame) -> pl.DataFrame:
    """Return the resources that executions hold over time; a job with exclusive nodes holds all of their resources.

    Parameters
    ----------
    nodes, requests, placements : polars.DataFrame
        Tables of a run.

    Returns
    -------
    polars.DataFrame
        ``job_id``, ``node``, ``starting_time``, ``finish_time`` (null while a job runs) and one column per resource
        of :func:`capacities`.
    """
    rows, there = placed(nodes, requests, placements), capacities(nodes)
    shares = pl.col("gpus").str.extract_all(r":[0-9]+").list.eval(pl.element().str.strip_prefix(":").cast(pl.Int64))
    columns = [shares.list.sum().fill_null(0).alias("held_gpus") / GPU]
    for name in there.columns[3:]:
        if name != GPUS:
            known = name in (CORES, MEMORY)
            each, whole = (
                pl.col(f"{of}_{name}") if known else amount_of(name, f"{of}_resources") for of in ("task", "node")
            )
            amount = pl.when("task_exclusive").then(whole).otherwise(each * pl.col("tasks"))
            columns.append(amount.cast(pl.Float64).alias(f"held_{name}"))
    kept = [pl.col(f"held_{name}").alias(name) for name in there.columns[3:]]
    return rows.with_columns(columns).select(*KEY, "node", "starting_time", "finish_time", *kept)
