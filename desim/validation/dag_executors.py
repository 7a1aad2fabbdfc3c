"""The executors of a run of DAG jobs and the channels between them: as described, and when they are down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desim.validation.dag_lookup import latest
from desim.validation.report import Findings
from desim.validation.tables import Columns, to_arrays

if TYPE_CHECKING:
    import polars as pl

__all__ = ["channel_tables", "check_executors", "last_repair", "next_down"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]


def check_executors(tables: Mapping[str, pl.DataFrame], info: Mapping[str, Any], findings: Findings) -> None:
    """Check executors and channels in themselves and against the description.

    Parameters
    ----------
    tables : mapping of str to polars.DataFrame
        The tables of the run.
    info : mapping
        Its description.
    findings : Findings
        Takes the violations of the rule ``executors``.
    """
    executors, channels = tables["executors"], to_arrays(tables["channels"])
    count = info["num_executors"]
    faults = []
    if executors["executor"].to_list() != list(range(count)):
        faults.append(f"executors are {executors['executor'].to_list()}, want the numbers 0 to {count - 1}")
    for column, expected in (("speed", info["speeds"]), ("name", info["executors"])):
        given = executors[column].to_list()
        if given != expected:
            faults.append(f"the {column}s of the executors are {given}, described as {expected}")
    speeds = enumerate(executors["speed"].to_list())
    faults += [f"executor {number} has speed {speed}, want above 0" for number, speed in speeds if speed <= 0]
    source, destination = channels["source"], channels["destination"]
    keys, wanted = source * count + destination, np.flatnonzero(~np.eye(count, dtype=np.bool_))
    outside = (source < 0) | (source >= count) | (destination < 0) | (destination >= count)
    if outside.any() or not np.array_equal(np.sort(keys), wanted):
        pairs = {(int(one), int(other)) for one, other in zip(source, destination, strict=True)}
        missing = sorted({(int(key // count), int(key % count)) for key in wanted} - pairs)
        faults.append(
            f"there are {len(keys)} channels for {len(wanted)} pairs of executors; "
            f"missing between {missing[:3] or 'none'}"
        )
    else:
        for column in ("transfer_speed", "latency"):
            faults += _channel_faults(column, channels[column], info[column], (source, destination), count)
    findings.note("executors", count + len(keys), faults)


def _channel_faults(
    column: str, values: Floats, described: Any, pairs: tuple[Whole, Whole], num_executors: int
) -> list[str]:
    """Compare what channels are with the description: a number for all, or a table; None stands for infinity."""
    expected = np.array(described, dtype=np.float64)  # None becomes NaN, alone and within a table
    expected[np.isnan(expected)] = np.inf
    if expected.ndim and expected.shape != (num_executors, num_executors):
        return [f"{column} is described with shape {expected.shape} for {num_executors} executors"]
    table = np.broadcast_to(expected, (num_executors, num_executors))[pairs]
    wrong = np.flatnonzero((values != table) | (values < 0))
    return [
        f"the {column} from executor {pairs[0][row]} to {pairs[1][row]} is {values[row]}, described as {table[row]}"
        for row in wrong.tolist()
    ]


def channel_tables(tables: Mapping[str, pl.DataFrame]) -> tuple[Floats, Floats]:
    """Return transfer speeds and latencies by pair of executors.

    Parameters
    ----------
    tables : mapping of str to polars.DataFrame
        The tables of the run.

    Returns
    -------
    transfer_speeds, latencies : array of float, shape (num_executors, num_executors)
        Units of data per second, infinite on the diagonal; seconds, 0 on the diagonal.
    """
    channels, count = to_arrays(tables["channels"]), len(tables["executors"])
    transfer_speeds, latencies = np.full((count, count), np.inf), np.zeros((count, count))
    transfer_speeds[channels["source"], channels["destination"]] = channels["transfer_speed"]
    latencies[channels["source"], channels["destination"]] = channels["latency"]
    return transfer_speeds, latencies


def next_down(outages: Columns, down: Mask, executor: Whole, times: Floats, after: Mask) -> Floats:
    """Return when executors next go down.

    Parameters
    ----------
    outages : mapping of str to array
        The table of outages.
    down : array of bool
        Which of its rows take an executor down.
    executor : array of int, shape (n,)
        Executors.
    times : array of float, shape (n,)
        From when on, in seconds.
    after : array of bool, shape (n,)
        Whether an outage at that very time is left out.

    Returns
    -------
    array of float, shape (n,)
        In seconds, infinite if there is no outage.
    """
    result = np.full(len(times), np.inf)
    moments, failed = outages["time"][down], outages["executor"][down]
    for number in np.unique(failed):
        own = np.append(np.sort(moments[failed == number]), np.inf)
        here = np.flatnonzero(executor == number)
        left, right = (np.searchsorted(own, times[here], side) for side in ("left", "right"))
        result[here] = own[np.minimum(np.where(after[here], right, left), len(own) - 1)]
    return result


def last_repair(outages: Columns, down: Mask, executor: Whole, times: Floats) -> Floats:
    """Return when executors last came back.

    Parameters
    ----------
    outages : mapping of str to array
        The table of outages.
    down : array of bool
        Which of its rows take an executor down.
    executor : array of int, shape (n,)
        Executors.
    times : array of float, shape (n,)
        Up to when, in seconds.

    Returns
    -------
    array of float, shape (n,)
        In seconds, 0 if they never did.
    """
    repairs = outages["time"][~down]
    found: Floats = np.append(repairs, 0.0)[latest(outages["executor"][~down], repairs, executor, times)]
    return found
