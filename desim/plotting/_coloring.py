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
    """Give the categories that use most core-seconds their own colours; the rest share a grey."""
    import polars as pl

    column = COLOR_COLUMNS[color_by]
    work = pl.col("requested_number_of_resources") * (pl.col("finish_time") - pl.col("starting_time"))
    ranking = (
        pl.concat([table.select(category=pl.col(column).cast(pl.String), work=work) for table in tables])
        .group_by("category")
        .agg(pl.col("work").sum())
        .sort("work", "category", descending=[True, False], nulls_last=True)["category"]
        .to_list()
    )
    own = ranking[: len(JOB_COLORS)]
    index_of = {category: index for index, category in enumerate(own)}
    palette = _rgba((*JOB_COLORS, OTHER_COLOR))
    faces = []
    for table in tables:
        categories = table[column].cast(pl.String).to_list()
        faces.append(palette[np.asarray([index_of.get(c, len(JOB_COLORS)) for c in categories], dtype=np.int64)])
    prefix = "user " if color_by == "user" else ""
    entries: list[tuple[str, Any]] = [(f"{prefix}{c}", palette[i]) for i, c in enumerate(own)]
    entries = [("unknown user" if name in ("user -1", "user None") else name, color) for name, color in entries]
    if len(ranking) > len(own):
        entries.append((f"{len(ranking) - len(own)} others", palette[-1]))
    return Coloring(faces, entries, None, "")


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
