"""What the colours of a Gantt chart mean: jobs, users, statuses or a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._job_colors import neighbour_colors
from desim.plotting._style import JOB_COLORS, OTHER_COLOR

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.cm import ScalarMappable

__all__ = ["COLOR_COLUMNS", "Coloring", "color_executions"]

#: What a chart can be coloured by, with the column of the job table that it needs.
COLOR_COLUMNS = {
    "job": "job_id",
    "user": "user_id",
    "status": "status",
    "requested_cores": "requested_number_of_resources",
    "requested_number_of_resources": "requested_number_of_resources",
    "submission_time": "submission_time",
    "requested_time": "requested_time",
    "run_time": "run_time",
    "execution_time": "execution_time",
    "waiting_time": "waiting_time",
    "turnaround_time": "turnaround_time",
    "stretch": "stretch",
    "attempts": "attempts",
}
DURATION_COLUMNS = (
    "requested_time",
    "run_time",
    "execution_time",
    "waiting_time",
    "turnaround_time",
    "submission_time",
)
#: How an execution can have ended; each always has the same colour.
STATUSES = ("completed", "killed", "lost", "running", "requeued")
UNITS = {"requested_number_of_resources": "cores requested", "stretch": "stretch", "attempts": "executions so far"}


class Coloring(NamedTuple):
    """Colours and what they mean.

    Attributes
    ----------
    faces : list of array, shape (n, 4)
        Red, green, blue and opacity of each execution, run by run.
    entries : list of (str, colour)
        Entries of a legend.
    scale : ScalarMappable or None
        What a colour bar is made of.
    label : str
        Label of the colour bar.
    """

    faces: list[NDArray[np.float64]]
    entries: list[tuple[str, Any]]
    scale: ScalarMappable | None
    label: str


def color_executions(
    tables: Sequence[pl.DataFrame], ranges: Sequence[pl.DataFrame], sizes: Sequence[int], color_by: str
) -> Coloring:
    """Colour the executions of several runs alike.

    Parameters
    ----------
    tables : sequence of polars.DataFrame
        Executions, run by run, with the column that ``color_by`` needs.
    ranges : sequence of polars.DataFrame
        Their ranges of core ids.
    sizes : sequence of int
        Cores of each run's cluster.
    color_by : str
        A key of :data:`COLOR_COLUMNS`.

    Returns
    -------
    Coloring
        Colours, and entries of a legend or a scale.

    Raises
    ------
    InvalidConfiguration
        If the charts cannot be coloured by this.
    """
    if color_by not in COLOR_COLUMNS:
        raise InvalidConfiguration(f"color_by is {color_by!r}, want one of {', '.join(map(repr, COLOR_COLUMNS))}")
    if color_by == "job":
        return _by_job(tables, ranges, sizes)
    if color_by in ("user", "status"):
        return _by_category(tables, color_by)
    return _by_number(tables, COLOR_COLUMNS[color_by])


def _by_job(tables: Sequence[pl.DataFrame], ranges: Sequence[pl.DataFrame], sizes: Sequence[int]) -> Coloring:
    palette = _rgba(JOB_COLORS)
    parts = zip(tables, ranges, sizes, strict=True)
    return Coloring([palette[neighbour_colors(*part)] for part in parts], [], None, "")


def _by_category(tables: Sequence[pl.DataFrame], color_by: str) -> Coloring:
    """Give statuses, or the users with the most core-seconds, their own colours; all others share a grey."""
    import polars as pl

    column = pl.col(COLOR_COLUMNS[color_by]).cast(pl.String).fill_null("-1").alias("category")
    categories = [table.select(column)["category"] for table in tables]
    present = _by_work(tables, categories)
    own = list(STATUSES) if color_by == "status" else present[: len(JOB_COLORS)]
    index_of = {category: index for index, category in enumerate(own)}
    palette, others = _rgba((*JOB_COLORS, OTHER_COLOR)), len(JOB_COLORS)
    faces = [palette[np.asarray([index_of.get(c, others) for c in part], dtype=np.int64)] for part in categories]
    entries: list[tuple[str, Any]] = [
        (_category_name(color_by, category), palette[index])
        for category, index in index_of.items()
        if category in present
    ]
    if len(present) > len(entries):
        entries.append((f"{len(present) - len(entries)} others", palette[others]))
    return Coloring(faces, entries, None, "")


def _by_work(tables: Sequence[pl.DataFrame], categories: Sequence[pl.Series]) -> list[str]:
    """Return the categories by the core-seconds of their executions, the largest first."""
    import polars as pl

    work = pl.col("requested_number_of_resources") * (pl.col("finish_time") - pl.col("starting_time"))
    parts = [table.select(category, work=work) for table, category in zip(tables, categories, strict=True)]
    totals = pl.concat(parts).group_by("category").agg(pl.col("work").sum())
    return totals.sort("work", "category", descending=[True, False])["category"].to_list()


def _category_name(color_by: str, category: str) -> str:
    if color_by == "status":
        return category
    return "unknown user" if category == "-1" else f"user {category}"


def _by_number(tables: Sequence[pl.DataFrame], column: str) -> Coloring:
    """Colour by a scale that is dark for small numbers, logarithmic where the numbers span decades."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable

    values = [table[column].cast(float).to_numpy() for table in tables]
    known = np.concatenate([part[np.isfinite(part)] for part in values])
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    scale = ScalarMappable(_norm(column, low, high), colormaps["viridis"].with_extremes(bad=OTHER_COLOR))
    faces = [np.asarray(scale.to_rgba(np.ma.masked_invalid(part)), dtype=np.float64).reshape(-1, 4) for part in values]
    label = UNITS.get(column, column.replace("_", " "))
    return Coloring(faces, [], scale, label)


def _norm(column: str, low: float, high: float) -> Any:
    from matplotlib.colors import LogNorm, Normalize, SymLogNorm

    if column in DURATION_COLUMNS and column != "submission_time" and high > 200.0:
        return SymLogNorm(linthresh=10.0, linscale=0.3, vmin=0.0, vmax=high)
    if low >= 1.0 and high > 20.0 * low:
        return LogNorm(low, high)
    return Normalize(low, high if high > low else low + 1.0)


def _rgba(colors: Sequence[str]) -> NDArray[np.float64]:
    from matplotlib.colors import to_rgba_array

    return np.asarray(to_rgba_array(list(colors)), dtype=np.float64)
