"""Classes of job sizes and the waiting times in them, as pure functions of job tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    import polars as pl

__all__ = ["check_edges", "class_counts", "class_names", "classify", "default_edges", "waiting_quantiles"]

QUANTILES = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}


def classify(jobs: pl.DataFrame, size: str, edges: Sequence[float]) -> pl.DataFrame:
    """Sort jobs into classes of size.

    Parameters
    ----------
    jobs : polars.DataFrame
        Job table with ``requested_number_of_resources``, ``run_time``, ``waiting_time`` and ``status``.
    size : {"cores", "core_seconds"}
        What the size of a job is: cores requested, or these times its run time in seconds.
    edges : sequence of float
        Class i is [edges[i], edges[i + 1]).

    Returns
    -------
    polars.DataFrame
        One row for each job that lies in a class and was not rejected: ``class`` (index) and ``waiting_time``
        (s, null for a job that has not started).
    """
    import polars as pl

    accepted = jobs.filter(pl.col("status") != "rejected")
    index = np.searchsorted(np.asarray(edges, dtype=np.float64), _sizes(accepted, size), side="right") - 1
    classes = accepted.select(pl.Series("class", index, dtype=pl.Int64), "waiting_time")
    return classes.filter(pl.col("class").is_between(0, len(edges) - 2))


def waiting_quantiles(classes: pl.DataFrame) -> pl.DataFrame:
    """Return percentiles of the waiting time in each class.

    Parameters
    ----------
    classes : polars.DataFrame
        As :func:`classify` returns it.

    Returns
    -------
    polars.DataFrame
        One row for each class with a job that has started: ``class``, ``p5``, ``p25``, ``p50``,
        ``p75`` and ``p95`` (s, interpolated linearly).
    """
    import polars as pl

    waiting = pl.col("waiting_time")
    percentiles = {name: waiting.quantile(share, interpolation="linear") for name, share in QUANTILES.items()}
    return classes.drop_nulls("waiting_time").group_by("class").agg(**percentiles).sort("class")


def class_counts(classes: pl.DataFrame, number: int) -> list[int]:
    """Return how many jobs are in each of a number of classes."""
    return np.bincount(classes["class"].to_numpy(), minlength=number).tolist()  # type: ignore[no-any-return]


def default_edges(jobs: Sequence[pl.DataFrame], size: str) -> list[float]:
    """Return edges that hold the jobs of all tables.

    Classes of cores end at powers of two: 1, 2, 3 to 4, 5 to 8 and so on. Classes of core-seconds
    begin at powers of ten, and everything below 10 is one class.
    """
    highest = max((float(_sizes(table, size).max()) for table in jobs if len(table)), default=1.0)
    if size == "cores":
        exponent = int(np.ceil(np.log2(max(highest, 1.0))))
        return [1.0, *(2.0**power + 1.0 for power in range(exponent + 1))]
    return [0.0, *(10.0**power for power in range(1, int(np.floor(np.log10(max(highest, 1.0)))) + 2))]


def check_edges(edges: Sequence[float]) -> list[float]:
    """Return edges as numbers, or raise InvalidConfiguration unless there are two or more that ascend."""
    try:
        numbers = [float(edge) for edge in edges]
    except (TypeError, ValueError):
        raise InvalidConfiguration(f"edges is {edges!r}, want numbers") from None
    if len(numbers) < 2 or not all(low < high for low, high in pairwise(numbers)):
        raise InvalidConfiguration(f"edges is {edges!r}, want at least two numbers, ascending")
    return numbers


def class_names(edges: Sequence[float], size: str) -> list[str]:
    """Return what the classes are called on an axis."""
    pairs = pairwise(edges)
    if size == "cores" and all(edge == int(edge) for edge in edges):
        return [f"{low:.0f}" if high - low == 1 else f"{low:.0f}-{high - 1:.0f}" for low, high in pairs]
    names = [f"{_short(low)} to {_short(high)}" for low, high in pairs]
    if edges[0] == 0:
        names[0] = f"below {_short(edges[1])}"
    return names


def _sizes(jobs: pl.DataFrame, size: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    cores = jobs["requested_number_of_resources"].cast(float)
    return (cores if size == "cores" else cores * jobs["run_time"]).to_numpy()


def _short(number: float) -> str:
    """Write a number with k, M, G or T for thousands."""
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:g} {letter}"
    return f"{number:g}"
