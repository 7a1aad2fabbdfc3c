"""Validation rules of outages, on the table ``outages``, and what other rules ask about them."""

from __future__ import annotations

import numpy as np
import polars as pl

from desim.problems.batch.occupancy import CoreRanges, read_core_ranges, spread
from desim.validation import Recorded, RuleBook

__all__ = ["RULES", "capacity", "downtimes"]

RULES = RuleBook()
"""Validation rules of outages."""
rule, check = RULES.rule, RULES.check


def _ranges(run: Recorded) -> CoreRanges:
    return read_core_ranges(run["outages"]["resources"], run.info["num_cores"])


def _core_events(run: Recorded) -> pl.DataFrame:
    """Return the outage and repair events of each single core."""
    ranges = run.once(_ranges)
    index, core = spread(ranges.first, ranges.last)
    events = run["outages"].select("time", "event")[ranges.row[index]].with_columns(core=pl.Series(core))
    following = (pl.col("event").shift().over("core"), pl.col("time").shift(-1).over("core"))
    return events.sort("core", maintain_order=True).with_columns(before=following[0], until=following[1])


def downtimes(run: Recorded) -> pl.DataFrame:
    """Return from when until when each core was down, infinite if it was not repaired."""
    if run["outages"].is_empty():
        return pl.DataFrame()
    return run.once(_core_events).filter(pl.col("event") == "down").with_columns(pl.col("until").fill_null(np.inf))


def capacity(run: Recorded) -> pl.DataFrame:
    """Return how many cores were up after each outage and repair."""
    return run["outages"].select("time", "cores_up")


rule("outages", "outages", "only cores that are up go down, and vice versa; the number of cores that are up is correct")


@check("outage at {time} s: {resources!r} are not cores of the cluster", of_rows=True)
def _outage_ranges(run: Recorded) -> pl.Expr:
    ranges = run.once(_ranges)
    return pl.lit(pl.Series(ranges.malformed | (ranges.counts == 0)))


check("outage at {time} s: listed after a later one", of_rows=True)(
    ~(pl.col("time") >= pl.col("time").shift(fill_value=0.0))
)
check("outage at {time} s: after the end of the run at {run.end_time} s", of_rows=True)(
    lambda run: pl.col("time") > run.end_time
)


@check("outage at {time} s: got {cores_up} cores up afterwards, expected {expected}", of_rows=True)
def _cores_up(run: Recorded) -> pl.DataFrame:
    counts = pl.Series(run.once(_ranges).counts)
    change = pl.when(pl.col("event") == "down").then(-counts).otherwise(counts)
    events = run["outages"].with_columns(expected=run.info["num_cores"] + change.cum_sum())
    return events.filter(pl.col("expected") != pl.col("cores_up"))


@check("core {core} goes {event} at {time} s, but is already {event}", of_rows=True)
def _twice(run: Recorded) -> pl.DataFrame:
    return run.once(_core_events).filter(
        pl.col("event").cast(pl.String) == pl.col("before").cast(pl.String).fill_null("up")
    )
