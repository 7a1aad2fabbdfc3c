"""What the executors of a DAG run spent their time on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from desim.plotting._boxes import add_boxes
from desim.plotting._dag_runs import DagRun, load_dag_runs
from desim.plotting._dag_series import useless_copies, waiting_spans
from desim.plotting._executor_rows import executor_rows
from desim.plotting._panels import add_keys, given_or_new_panels, plain, set_titles
from desim.plotting._style import DOWN_COLOR, OTHER_COLOR
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["executor_utilization"]

Floats = NDArray[np.float64]

#: What executors do, with the colours of Okabe and Ito, "Color Universal Design", 2008, and greys.
ACTIVITIES: dict[str, dict[str, Any]] = {
    "useful copies": {"facecolor": "#0072B2"},
    "useless copies": {"facecolor": "#E69F00"},
    "interrupted copies": {"facecolor": "#D55E00"},
    "waiting for data": {"facecolor": "#9AD0F0"},
    "idle": {"facecolor": "#F2F2F2"},
    "down": {"facecolor": OTHER_COLOR, "edgecolor": DOWN_COLOR, "hatch": "\\\\\\\\"},
}
HALF = 0.4


@overload
def executor_utilization(
    results: Result, *, speeds: bool = ..., axes: Axes | None = ...
) -> Axes: ...  # numpydoc ignore=GL08


@overload
def executor_utilization(
    results: Mapping[str, Result], *, speeds: bool = ..., axes: Sequence[Axes] | None = ...
) -> list[Axes]: ...  # numpydoc ignore=GL08


def executor_utilization(
    results: Result | Mapping[str, Result], *, speeds: bool = False, axes: Axes | Sequence[Axes] | None = None
) -> Axes | list[Axes]:
    """Draw which share of the time each executor spent on what, as stacked bars.

    A copy is useless if its job has completed and no copy that started has taken its data; where its node has
    no children, if it was not the first copy to complete. An executor waits for data if it has a copy to run whose data
    are not there, and runs nothing. Of a copy that was taken back before it started that is not known, and counts as
    idle.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, one panel each.
    speeds : bool
        Write the speeds of the executors behind their names.
    axes : Axes or sequence of Axes, optional
        Where to draw, one a run; by default on a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. Executor k stands at y = k; x is the share of the time from the
        beginning of the run, which is 0 or a first submission that comes late, to its end, in percent.

    Raises
    ------
    InvalidConfiguration
        If the results are not those of ``dag``.

    Examples
    --------
    >>> from desim.agents.dag import ListScheduler, RankUp
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster, Executors, Job
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0)), ListScheduler(RankUp()))
    >>> executor_utilization(result).get_title("right")
    'on average 57.1 % useful'
    """
    runs = load_dag_runs(results)
    tallest = max(run.size for run in runs)
    height = min(max(0.3 * tallest, 1.2), 6.4 if len(runs) == 1 else 3.6)
    panels, own = given_or_new_panels(axes, len(runs), height=height)
    shares = [_shares(run) for run in runs]
    for panel, run, table in zip(panels, runs, shares, strict=True):
        _draw(panel, run, table, speeds=speeds, label=panel is panels[-1] or not own)
    seen = np.any([table.sum(axis=0) > 0 for table in shares], axis=0)
    styles = {name: {"linewidth": 0.0} | style for name, style in ACTIVITIES.items()}
    add_keys(panels, styles, seen.tolist(), own=own)
    return panels[0] if isinstance(results, Result) else panels


def _shares(run: DagRun) -> Floats:
    """Return the share of the time that each executor spends on each activity, of shape (executors, activities)."""
    import polars as pl

    copies = run.copies
    interrupted = (copies["outcome"] == "interrupted").to_numpy()
    edges, transfers = run.result.table("edges"), run.result.table("transfers")
    useless = useless_copies(run.jobs, edges, copies, transfers)
    kind = np.where(interrupted, 2, np.where(useless, 1, 0))
    lasting = copies.select(pl.col("finish_time") - pl.col("starting_time")).to_series().to_numpy()
    total = np.zeros((run.size, len(ACTIVITIES)))
    np.add.at(total, (copies["executor"].to_numpy(), kind), lasting)
    for activity, spans in ((3, waiting_spans(run.result.table("copies"), run.down, run.end)), (5, run.down)):
        np.add.at(total[:, activity], spans[:, 0].astype(np.int64), _after(spans, run.begin))
    length = run.end - run.begin
    if not length > 0:
        return np.zeros_like(total)
    total[:, 4] = np.maximum(length - total.sum(axis=1), 0.0)
    shares: Floats = total / length
    return shares


def _after(spans: Floats, begin: float) -> Floats:
    """Return how long spans last from a time on, in seconds."""
    lasting: Floats = np.maximum(spans[:, 2] - np.maximum(spans[:, 1], begin), 0.0)
    return lasting


def _draw(axes: Axes, run: DagRun, shares: Floats, *, speeds: bool, label: bool) -> None:
    """Draw one panel."""
    ends = 100.0 * shares.cumsum(axis=1)
    begins = ends - 100.0 * shares
    rows = np.arange(run.size)
    half = HALF if run.size <= 60 else 0.5
    for activity, (name, style) in enumerate(ACTIVITIES.items()):
        boxes = np.column_stack([begins[:, activity], ends[:, activity], rows - half, rows + half])
        seen = boxes[boxes[:, 1] > boxes[:, 0]]
        add_boxes(axes, seen, name, **({"linewidth": 0.0, "zorder": 2.0} | style))
    plain(axes)
    axes.set_xlim(0.0, 100.0)
    axes.set_xlabel("share of the time (%)" if label else "")
    executor_rows(axes, run, speeds=speeds)
    set_titles(axes, run.title, f"on average {100.0 * shares[:, 0].mean():.3g} % useful")
