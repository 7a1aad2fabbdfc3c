"""What the colours of the copies in a Gantt chart of executors mean: jobs, kinds of jobs or nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.plotting._dag_runs import DagRun
from desim.plotting._job_colors import neighbour_colors
from desim.plotting._style import JOB_COLORS, OTHER_COLOR

__all__ = ["COPY_COLORS", "color_copies"]

Floats = NDArray[np.float64]

#: What copies can be coloured by.
COPY_COLORS = ("job", "label", "node")


def color_copies(runs: Sequence[DagRun], color_by: str) -> tuple[list[Floats], list[tuple[str, Any]]]:
    """Colour the copies of several runs alike.

    Parameters
    ----------
    runs : sequence of DagRun
        The runs.
    color_by : {"job", "label", "node"}
        ``"job"``: each has its own colour while there are enough, and beyond that neighbours differ. ``"label"``: the
        labels of jobs with the most execution have a colour each, the others share a grey. ``"node"``: neighbours
        differ, and all copies of a node are alike.

    Returns
    -------
    faces : list of array, shape (num_copies, 4)
        Red, green, blue and opacity, run by run.
    entries : list of (str, colour)
        Entries of a legend.
    """
    if color_by == "label":
        return _by_label(runs)
    if color_by == "job":
        names = _job_names(runs)
        if len(names) <= len(JOB_COLORS):
            palette, place = _rgba(JOB_COLORS), {job: index for index, job in enumerate(names)}
            faces = [palette[[place[job] for job in run.copies["job_id"].to_list()]] for run in runs]
            entries = [(name, palette[place[job]]) for job, name in names.items()] if len(names) > 1 else []
            return faces, entries
    return [_neighbours(run, color_by) for run in runs], []


def _job_names(runs: Sequence[DagRun]) -> dict[int, str]:
    """Return what the jobs of all runs are called, by submission."""
    names: dict[int, str] = {}
    for run in runs:
        for job_id, label in run.jobs.select("job_id", "label").iter_rows():
            names.setdefault(job_id, f"job {job_id} ({label})" if label else f"job {job_id}")
        for job_id in run.copies["job_id"].unique(maintain_order=True):  # a run that crashed may not know the job
            names.setdefault(job_id, f"job {job_id}")
    return names


def _neighbours(run: DagRun, color_by: str) -> Floats:
    """Give each job, or each node, a colour that its neighbours do not have, as far as there are enough."""
    import polars as pl

    columns = ["job_id"] if color_by == "job" else ["job_id", "node"]
    rows = run.copies.select(pl.struct(columns).rank("dense").alias("job_id"), "submission_time", "starting_time")
    order = rows.with_columns(executor=run.copies["executor"]).with_row_index("place").sort("starting_time", "place")
    ranges = order.select(first="executor", last="executor").with_row_index("row")
    colors = np.empty(len(order), dtype=np.int64)
    colors[order["place"].to_numpy()] = neighbour_colors(order.select("job_id", "submission_time"), ranges, run.size)
    return _rgba(JOB_COLORS)[colors]


def _by_label(runs: Sequence[DagRun]) -> tuple[list[Floats], list[tuple[str, Any]]]:
    import polars as pl

    labels = []
    for run in runs:
        known = run.jobs.select("job_id", "label").unique("job_id", keep="first")
        copies = run.copies.select("job_id", time=pl.col("finish_time") - pl.col("starting_time"))
        labels.append(copies.join(known, on="job_id", how="left", maintain_order="left").fill_null(""))
    totals = (
        pl.concat(labels).group_by("label").agg(pl.col("time").sum()).sort("time", "label", descending=[True, False])
    )
    own = totals["label"].to_list()[: len(JOB_COLORS)]
    place = {label: index for index, label in enumerate(own)}
    palette, others = _rgba((*JOB_COLORS, OTHER_COLOR)), len(JOB_COLORS)
    faces = [palette[[place.get(label, others) for label in part["label"].to_list()]] for part in labels]
    entries: list[tuple[str, Any]] = [(label or "no label", palette[index]) for label, index in place.items()]
    if len(totals) > len(own):
        entries.append((f"{len(totals) - len(own)} others", palette[others]))
    return faces, entries


def _rgba(colors: Sequence[str]) -> Floats:
    from matplotlib.colors import to_rgba_array

    return np.asarray(to_rgba_array(list(colors)), dtype=np.float64)
