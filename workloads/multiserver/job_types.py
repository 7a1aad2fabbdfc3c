"""Job types of a trace: representative requests, and the arrivals of each type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.checks import check_float, check_int
from desim.exceptions import WorkloadError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["MEMORY_UNIT", "amounts_of", "job_types", "memory_column", "trace_arrivals"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: GiB per unit of memory: with 8, a machine has about as many units as cores.
MEMORY_UNIT = 8.0
#: Number of most frequent shapes that are candidates: their distances fill 32 MB.
_CANDIDATES = 2_000
#: Columns with the memory of a trace, and the unit of each. A machine of cluster-trace-v2018 has 96 cores, 100 percent.
_UNITS = {"memory": MEMORY_UNIT, "memory_percent": 1.0}


def job_types(requests: pl.DataFrame, num_types: int) -> pl.DataFrame:
    """Choose representative requests of a trace that cover its different kinds of requests.

    The types are medoids: shapes (cores, memory, GPUs) of the trace that keep the mean distance between a request and
    its nearest type small. They are chosen one by one, each so that this mean decreases most ("build", the
    first phase of L. Kaufman and P. J. Rousseeuw, "Finding groups in data", 1990, chapter 2); fewer types are therefore
    the first of more. Distances are Euclidean between ``log2(1 + amount)`` in cores, units of 8 GiB (or percent)
    and GPUs, so that doubling any large amount gives the same distance. Shapes are rounded to thousandths; the
    candidates are the 2,000 most frequent ones. Ties go to the more frequent shape, then to the one
    with fewer cores, less memory and fewer GPUs.

    Parameters
    ----------
    requests : polars.DataFrame
        Requests as returned by `desim.workloads.alibaba.requests`, see `from_alibaba`. Each row is one job and counts
        once, however many instances it has.
    num_types : int
        Number of types to choose, >= 1.

    Returns
    -------
    polars.DataFrame
        One row per type, in the order in which they were chosen: ``cpu`` (cores), ``memory`` (GB) and
        ``memory_percent``, one of which is null, ``gpu``, and ``share``, the share of requests nearest to this type.

    Raises
    ------
    InvalidConfiguration
        If `num_types` is not positive.
    WorkloadError
        If a column is missing, no usable request is left, or the requests have fewer than `num_types` shapes.
    """
    import polars as pl

    wanted = check_int("num_types", num_types, least=1)
    memory = memory_column(requests=requests)
    columns = ["cpu", memory, "gpu"]
    known = _known("requests", requests, memory)
    shapes = known.select(pl.col(columns).round(3)).group_by(columns).len()
    shapes = shapes.sort("len", *columns, descending=[True, False, False, False]).head(_CANDIDATES)
    if len(shapes) < wanted:
        raise WorkloadError(f"requests: got {len(shapes)} different shapes, expected at least num_types = {wanted}")
    points = _scores(_amounts(shapes, memory))
    chosen = _medoids(points, shapes["len"].to_numpy().astype(np.float64), wanted)
    nearest = _nearest(_scores(_amounts(known, memory)), points[chosen])
    other = next(name for name in _UNITS if name != memory)
    return (
        shapes[chosen]
        .with_columns(
            pl.lit(None, dtype=pl.Float64).alias(other),
            share=pl.Series(np.bincount(nearest, minlength=wanted) / len(known)),
        )
        .select("cpu", "memory", "memory_percent", "gpu", "share")
    )


def trace_arrivals(
    requests: pl.DataFrame, types: pl.DataFrame, *, slot_seconds: float, num_slots: int | None = None
) -> Indices:
    """Count the arrivals of a trace by slot and nearest job type.

    Slot 0 begins with the first arrival. ``trace_arrivals(...) > 0`` limits them to one job per port and slot, as in
    arXiv 2305.06572.

    Parameters
    ----------
    requests : polars.DataFrame
        Requests as returned by `desim.workloads.alibaba.requests`. Rows without an arrival time are left out, and so
        are those that `job_types` leaves out. Each row is one job, however many instances it has.
    types : polars.DataFrame
        Types as returned by `job_types`; type l is port l of the system of `from_alibaba`. Distances are those of
        `job_types`, and ties go to the first type.
    slot_seconds : float
        Length of a slot in seconds, > 0.
    num_slots : int, optional
        Number of slots: later arrivals are left out, or empty slots added. By default, the last slot is that of the
        last arrival.

    Returns
    -------
    numpy.ndarray of int64, shape (num_slots, len(types))
        Number of jobs by slot and type.

    Raises
    ------
    InvalidConfiguration
        If `slot_seconds` or `num_slots` is not positive.
    WorkloadError
        If a column is missing, no row is left, or the tables state memory in different units.
    """
    seconds = check_float("slot_seconds", slot_seconds, above=0)
    slots = None if num_slots is None else check_int("num_slots", num_slots, least=1)
    memory = memory_column(requests=requests, types=types)
    _require("requests", requests, ("arrival_time",))
    arrived = _known("requests", requests.filter(requests["arrival_time"].is_not_null()), memory)
    time = arrived["arrival_time"].to_numpy().astype(np.float64)
    slot = np.floor((time - time.min()) / seconds)
    count = int(slot.max()) + 1 if slots is None else slots
    port = _nearest(_scores(_amounts(arrived, memory)), _scores(amounts_of("types", types, memory)))
    early = slot < count
    places = slot[early].astype(np.int64) * len(types) + port[early]
    return np.bincount(places, minlength=count * len(types)).reshape(count, len(types))


def memory_column(**frames: pl.DataFrame) -> str:
    """Return the name of a column that states memory in all given tables.

    Parameters
    ----------
    **frames : polars.DataFrame
        Tables by name; the names are for messages.

    Returns
    -------
    {"memory", "memory_percent"}
        First of these columns with values in all tables.

    Raises
    ------
    WorkloadError
        If there is no such column.
    """
    for name, frame in frames.items():
        _require(name, frame, ("cpu", *_UNITS, "gpu"))
    for column in _UNITS:
        if all(frame[column].is_not_null().any() for frame in frames.values()):
            return column
    tables = " and ".join(frames)
    raise WorkloadError(
        f"{tables}: expected memory in GB, or in percent of the largest machine, in at least one row of each"
    )


def amounts_of(name: str, frame: pl.DataFrame, memory: str) -> Floats:
    """Return the known amounts in a table of machines, requests or types.

    Parameters
    ----------
    name : str
        Name of the table, for messages.
    frame : polars.DataFrame
        Table of machines, requests or types.
    memory : {"memory", "memory_percent"}
        Name of the column that states memory.

    Returns
    -------
    numpy.ndarray of shape (n, 3)
        Cores, units of memory and GPUs of each row.

    Raises
    ------
    WorkloadError
        If no row is left with known amounts.
    """
    return _amounts(_known(name, frame, memory), memory)


def _require(name: str, frame: pl.DataFrame, columns: tuple[str, ...]) -> None:
    missing = next((column for column in columns if column not in frame.columns), None)
    if missing is not None:
        raise WorkloadError(f"{name}: has no column {missing!r}, only {', '.join(frame.columns)}")


def _known(name: str, frame: pl.DataFrame, memory: str) -> pl.DataFrame:
    """Return the rows of a table with known amounts that are not all zero."""
    import polars as pl

    amounts = [pl.col("cpu"), pl.col(memory), pl.col("gpu").fill_null(0)]
    found = frame.with_columns(amounts[2]).filter(
        pl.all_horizontal(column.is_not_null() for column in amounts),
        pl.any_horizontal(column > 0 for column in amounts),
    )
    if found.is_empty():
        raise WorkloadError(f"{name}: none of {len(frame)} rows has known amounts of cpu and {memory}")
    return found


def _amounts(frame: pl.DataFrame, memory: str) -> Floats:
    columns = [frame[column].to_numpy().astype(np.float64) for column in ("cpu", memory, "gpu")]
    amounts: Floats = np.column_stack(columns) / np.array([1.0, _UNITS[memory], 1.0])
    return amounts


def _scores(amounts: Floats) -> Floats:
    scores: Floats = np.log2(1.0 + amounts)
    return scores


def _nearest(points: Floats, centres: Floats) -> Indices:
    """Return the index of the nearest centre of each point, the first of ties; memory grows with the points only."""
    best = np.full(len(points), np.inf)
    index = np.zeros(len(points), dtype=np.int64)
    for position, centre in enumerate(centres):
        distance = np.square(points - centre).sum(axis=1)
        closer = distance < best
        best[closer], index[closer] = distance[closer], position
    return index


def _medoids(points: Floats, weights: Floats, count: int) -> list[int]:
    """Choose points one by one so that the weighted sum of distances to the nearest chosen one decreases most.

    Ties go to the first point.
    """
    squares = np.square(points[:, None, :] - points).sum(axis=2)
    distances = np.sqrt(squares)
    nearest = np.full(len(points), np.inf)
    chosen: list[int] = []
    for _ in range(count):
        costs = weights @ np.minimum(nearest[:, None], distances)
        costs[chosen] = np.inf
        # The tolerance keeps ties independent of the order of summation
        chosen.append(int((costs <= costs.min() * (1 + 1e-9) + 1e-12).argmax()))
        nearest = np.minimum(nearest, distances[chosen[-1]])
    return chosen
