"""The data behind the figures of deferrable jobs, as pure functions of the tables of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["executions", "expiring_work", "job_boxes", "remaining_work", "use_by_group"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: What adding and subtracting amounts may leave, in relation to the largest.
RESIDUE = 1e-9


def executions(jobs: pl.DataFrame, evictions: pl.DataFrame, end_time: float) -> pl.DataFrame:
    """Return all executions of a run, those included that an eviction cut.

    Parameters
    ----------
    jobs, evictions : polars.DataFrame
        Tables of a run of deferrable jobs.
    end_time : float
        End of the last slot, which stands for the end of jobs that are still running.

    Returns
    -------
    polars.DataFrame
        One row an execution, by start: the columns of ``jobs``, of the execution's own job; ``row``, its place in
        ``jobs``; ``begin`` and ``end`` of the execution, and when it ``would_end`` if nothing cuts it, in slots;
        ``cut``, whether it was evicted, and ``runs_on``, whether it goes on when the run ends.
    """
    import polars as pl

    numbered = jobs.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    last = numbered.drop_nulls("starting_time").with_columns(
        begin="starting_time",
        end=pl.col("finish_time").fill_null(end_time),
        cut=pl.col("status").cast(pl.String) == "evicted",
        runs_on=pl.col("finish_time").is_null(),
    )
    earlier = (
        evictions.select("job_id", begin=pl.col("starting_time").cast(pl.Float64), end="eviction_time")
        .with_columns(pl.col("end").cast(pl.Float64), cut=pl.lit(True), runs_on=pl.lit(False))
        .join(last.filter("cut"), on=["job_id", "begin"], how="anti")
        .sort("begin")
        .join_asof(  # job ids may come back once their job has left, so the last submission before the start counts
            numbered.sort("submission_time"),
            left_on="begin",
            right_on="submission_time",
            by="job_id",
            coalesce=False,
            check_sortedness=False,
        )
        .drop_nulls("row")  # a run that crashed may know an eviction and not its job
    )
    both = pl.concat([last, earlier.select(last.columns)]).sort("begin", "row")
    return both.with_columns(would_end=pl.col("begin") + pl.col("requested_time"))


def use_by_group(table: pl.DataFrame, resource: str, group: Indices, num_groups: int, num_slots: int) -> Floats:
    """Return what the executions of each group hold in each slot.

    Parameters
    ----------
    table : polars.DataFrame
        As :func:`executions` returns it.
    resource : str
        Name of the resource.
    group : array of int, shape (num_executions,)
        The group of each execution.
    num_groups, num_slots : int
        How many there are.

    Returns
    -------
    array, shape (num_groups, num_slots)
        Amounts.
    """
    begin, end = _slots_of(table, 0, num_slots)
    amount = table[f"requested_{resource}"].to_numpy()
    cells = num_groups * (num_slots + 1)
    change = np.zeros(cells)
    for slot, by in ((begin, amount), (end, -amount)):
        change += np.bincount(group * (num_slots + 1) + slot, weights=by, minlength=cells)
    return _without_residue(change.reshape(num_groups, num_slots + 1).cumsum(axis=1)[:, :-1])


def job_boxes(table: pl.DataFrame, resource: str, edges: Floats) -> tuple[Floats, Indices]:
    """Pile up what executions hold in each bin of slots, the earliest start at the bottom.

    Parameters
    ----------
    table : polars.DataFrame
        As :func:`executions` returns it.
    resource : str
        Name of the resource.
    edges : array, shape (num_bins + 1,)
        Where bins begin and end, in slots.

    Returns
    -------
    boxes : array, shape (n, 4)
        Begin, end, lower and upper edge of rectangles; as high as the mean amount in the bin. Neighbouring bins share
        one where they can.
    owners : array of int, shape (n,)
        The execution of each.
    """
    if len(edges) < 2:
        return np.empty((0, 4)), np.empty(0, dtype=np.int64)
    begin, end = (np.clip(table[name].to_numpy(), edges[0], edges[-1]) for name in ("begin", "end"))
    first = np.searchsorted(edges, begin, side="right") - 1
    counts = np.where(end > begin, np.searchsorted(edges, end, side="left") - first, 0)
    owner = np.repeat(np.arange(len(table)), counts)
    bins = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts) + first[owner]
    shared = np.minimum(end[owner], edges[bins + 1]) - np.maximum(begin[owner], edges[bins])
    high = table[f"requested_{resource}"].to_numpy()[owner] * shared / np.diff(edges)[bins]
    by_bin = np.argsort(bins, kind="stable")
    tops = high[by_bin].cumsum()
    below = np.concatenate([[0.0], tops])[np.searchsorted(bins[by_bin], bins[by_bin], side="left")]
    top = np.empty_like(tops)
    top[by_bin] = tops - below
    return _joined(np.column_stack([edges[bins], edges[bins + 1], top - high, top]), owner)


def _joined(boxes: Floats, owner: Indices) -> tuple[Floats, Indices]:
    """Make one rectangle of those of an execution that follow each other at the same height."""
    unseen = 1e-6 * boxes[:, 3].max(initial=0.0)
    kept = (np.abs(np.diff(boxes[:, 2:], axis=0)) <= unseen).all(axis=1) & (owner[1:] == owner[:-1])
    opens = np.flatnonzero(np.append(True, ~kept))[: len(boxes)]
    joined = boxes[opens]
    joined[:, 1] = boxes[np.append(opens[1:], len(boxes))[: len(opens)] - 1, 1]
    seen = joined[:, 3] > joined[:, 2]  # a job may hold nothing of a resource
    return joined[seen], owner[opens][seen]


def remaining_work(table: pl.DataFrame, resource: str, num_slots: int) -> Floats:
    """Return what is left to do of the jobs that run on as each slot begins: amount times slots.

    Parameters
    ----------
    table : polars.DataFrame
        As :func:`executions` returns it.
    resource : str
        Name of the resource.
    num_slots : int
        How many slots there are.

    Returns
    -------
    array, shape (num_slots,)
        Jobs that are started in the slot do not count, nor do those that are evicted as it begins.
    """
    begin, end = _slots_of(table, 1, num_slots)
    amount, would_end = table[f"requested_{resource}"].to_numpy(), table["would_end"].to_numpy()
    held, until = (
        np.bincount(begin, weights, num_slots + 2) - np.bincount(end, weights, num_slots + 2)
        for weights in (amount, amount * would_end)
    )
    left: Floats = until.cumsum() - held.cumsum() * np.arange(num_slots + 2.0)
    return _without_residue(left[:num_slots])


def expiring_work(jobs: pl.DataFrame, resource: str, num_slots: int) -> Floats:
    """Return the work of the jobs that expire with each slot, amount times slots, of shape (num_slots,)."""
    import polars as pl

    work = pl.col(f"requested_{resource}") * pl.col("requested_time")
    expired = jobs.filter(pl.col("status").cast(pl.String) == "expired").select("latest_start", work=work)
    slot = np.minimum(expired["latest_start"].to_numpy(), num_slots)
    return np.bincount(slot, expired["work"].to_numpy(), num_slots + 1)[:num_slots].astype(np.float64)


def _slots_of(table: pl.DataFrame, shift: int, num_slots: int) -> tuple[Indices, Indices]:
    """Return the first slot of executions, so many later, and the first in which they do not run any more."""
    begin = np.minimum(table["begin"].to_numpy().astype(np.int64) + shift, num_slots)
    end = np.minimum(table["end"].to_numpy().astype(np.int64), num_slots)
    return begin, np.maximum(begin, end)


def _without_residue(amounts: Floats) -> Floats:
    """Return amounts without the specks below and above 0 that rounding leaves."""
    return np.where(amounts > RESIDUE * amounts.max(initial=0.0), amounts, 0.0)
