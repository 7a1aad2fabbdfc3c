"""What jobs were given, as a grid: nodes or ports by bins of slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._slot_runs import SlotRun, bin_edges, nice_count

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Grid", "allocation_grid"]

Floats = NDArray[np.float64]

#: More nodes, ports or slots share rows and columns.
MOST_ROWS, MOST_COLUMNS = 128, 300


class Grid(NamedTuple):
    """Means over rows and bins.

    Attributes
    ----------
    values : numpy.ndarray of shape (rows, bins)
        Percent of the capacity of the nodes, NaN where that is 0; or amounts, the mean of the ports of a row.
    edges : numpy.ndarray of shape (bins + 1,)
        Where bins begin and end, in slots; empty if there are none.
    names : list of str
        The first node or port of each row.
    together : int
        Nodes or ports that share a row.
    width : int
        Slots that share a bin.
    """

    values: Floats
    edges: Floats
    names: list[str]
    together: int
    width: int


def allocation_grid(run: SlotRun, resource: str, by: str, span: tuple[float, float]) -> Grid:
    """Average what jobs were given of a resource.

    Parameters
    ----------
    run : SlotRun
        The run.
    resource : str
        Name of the resource.
    by : {"node", "port"}
        Rows: nodes, as shares of their capacities, or ports, as amounts.
    span : (float, float)
        The slots that are shown; the grid ends with the run.

    Returns
    -------
    Grid
        Rows in the order of the graph.

    Raises
    ------
    InvalidConfiguration
        If the run knows no such resource or its allocations were not recorded.
    """
    import polars as pl

    _check(run, resource)
    rows = run.result.scan(f"{by}s").filter(pl.col("resource").cast(pl.String) == resource).collect()
    names = rows[by].cast(pl.String).to_list()
    whole = rows["capacity"].to_numpy() / 100.0 if by == "node" else np.ones(len(names))
    width = nice_count((span[1] - span[0]) / MOST_COLUMNS)
    edges = bin_edges(span[0], min(span[1], run.end), width)
    together = nice_count(len(names) / MOST_ROWS)
    if not len(names) or not len(edges):
        return Grid(np.zeros((0, 0)), np.zeros(0), [], together, width)
    table = _intervals(run, resource, by, names)
    row_of = np.arange(len(names)) // together
    wholes = np.bincount(row_of, weights=whole)[:, None] * np.diff(edges)
    total = _integrals(table, row_of[table["row"].to_numpy()], edges, len(wholes))
    values = np.divide(total, wholes, out=np.full(wholes.shape, np.nan), where=wholes > 0)
    return Grid(values, edges, names[::together], together, width)


def _check(run: SlotRun, resource: str) -> None:
    every = int(run.result.info["record_allocations"])
    if resource not in run.resources:
        known = ", ".join(map(repr, run.resources))
        raise InvalidConfiguration(f"resource is {resource!r}, but results[{run.name!r}] has {known}")
    if every == 0 or (every > 1 and run.result.info["holding"]):
        raise InvalidConfiguration(
            f"results[{run.name!r}] does not hold the allocations of all jobs: record_allocations was {every}, want 1"
        )


def _intervals(run: SlotRun, resource: str, by: str, names: list[str]) -> pl.DataFrame:
    """Return from when to when which row was given how much."""
    import polars as pl

    given = run.result.scan("allocations").filter(pl.col("resource").cast(pl.String) == resource)
    row = pl.col(by).cast(pl.Enum(names)).to_physical().cast(pl.Int64).alias("row")
    begin = pl.col("slot").cast(pl.Float64).alias("begin")
    if run.result.info["holding"]:
        finish = run.result.scan("jobs").select("job_id", "finish_time")
        given = given.join(finish, on="job_id", how="left", maintain_order="left")
        end = pl.col("finish_time").fill_null(run.end)
    else:  # what was recorded stands for the slots that were not
        end = pl.col("slot") + float(run.result.info["record_allocations"])
    return given.select(row, begin, end.alias("end"), "amount").collect()


def _integrals(table: pl.DataFrame, row: NDArray[np.int64], edges: Floats, rows: int) -> Floats:
    """Integrate amounts that are given from begin to end over each bin; shape (rows, bins)."""
    begin, end, amount = (table[name].to_numpy() for name in ("begin", "end", "amount"))
    bins, last = len(edges) - 1, edges[-1]
    partial, rate = np.zeros((2, rows * (bins + 1)))
    for time, change in ((begin, amount), (end, -amount)):
        at = np.clip(time, edges[0], last)
        bin_of = np.searchsorted(edges, at, side="right") - 1  # the last edge opens a bin that is dropped
        upper = np.append(edges[1:], last)[bin_of]
        cell = row * (bins + 1) + bin_of
        partial += np.bincount(cell, weights=change * (upper - at), minlength=len(partial))
        rate += np.bincount(cell, weights=change, minlength=len(rate))
    before = rate.reshape(rows, -1).cumsum(axis=1)[:, :-1]
    before = np.column_stack([np.zeros(rows), before[:, :-1]])
    total = partial.reshape(rows, -1)[:, :-1] + before * np.diff(edges)
    return np.where(total > 1e-9 * before.max(initial=0.0), total, 0.0)
