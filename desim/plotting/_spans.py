"""From when to when figures show a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

__all__ = ["begin_of", "end_of"]

#: Columns of tables that say when something happened, in seconds or slots.
TIMES = ("time", "submission_time", "assignment_time", "starting_time", "finish_time")


def end_of(info: Mapping[str, Any], *tables: pl.DataFrame) -> float:
    """Return when a run ended; of a run that crashed, the last time in its records."""
    if info.get("end_time") is not None:
        return float(info["end_time"])
    return max([0.0, *(_last(table[name]) for table in tables for name in TIMES if name in table.columns)])


def begin_of(jobs: pl.DataFrame, end: float) -> float:
    """Return from when on a run is shown: from 0, or from its first submission if that comes late, in seconds."""
    first = float(jobs["submission_time"].min() or 0.0)  # type: ignore[arg-type]
    return 0.0 if first <= 0.05 * (end - first) else first


def _last(times: pl.Series) -> float:
    return float(times.max() or 0.0)  # type: ignore[arg-type]
