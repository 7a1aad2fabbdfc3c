"""Gantt charts: which job held which cores when, which executor ran what, or which job ran when in its window."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, overload

from desim.exceptions import InvalidConfiguration
from desim.plotting._bars import Chart, draw_chart, make_chart
from desim.plotting._coloring import COLOR_COLUMNS, Coloring, color_executions
from desim.plotting._named_results import problem_of
from desim.plotting._panels import add_legend, given_or_new_panels
from desim.plotting._runs import check_window, common_span, load_runs
from desim.plotting.executor_gantt import draw_executor_gantt
from desim.plotting.job_windows import draw_job_windows
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["gantt"]


@overload
def gantt(
    results: Result,
    *,
    by: Literal["core", "job"] | None = ...,
    color_by: str | None = ...,
    window: tuple[float, float] | None = ...,
    labels: Literal["auto"] | bool = ...,
    axes: Axes | None = ...,
) -> Axes: ...  # numpydoc ignore=GL08


@overload
def gantt(
    results: Mapping[str, Result],
    *,
    by: Literal["core", "job"] | None = ...,
    color_by: str | None = ...,
    window: tuple[float, float] | None = ...,
    labels: Literal["auto"] | bool = ...,
    axes: Sequence[Axes] | None = ...,
) -> list[Axes]: ...  # numpydoc ignore=GL08


def gantt(
    results: Result | Mapping[str, Result],
    *,
    by: Literal["core", "job"] | None = None,
    color_by: str | None = None,
    window: tuple[float, float] | None = None,
    labels: Literal["auto"] | bool = "auto",
    axes: Axes | Sequence[Axes] | None = None,
) -> Axes | list[Axes]:
    """Draw which job held which cores when, or, of runs of ``dag``, which executor ran which copies.

    The charts of executors are those of :func:`executor_gantt`, which has more options. Of runs of ``deferrable`` the
    chart shows the first jobs with their windows, as :func:`job_windows` does. In those of cores every
    execution is a rectangle for each range of neighbouring cores that it held. Executions
    that an outage cut are hatched, and so, in grey, are cores that were down. A chart of few jobs
    has edges and job ids; in one of many jobs they would hide the data, and colours alone tell
    neighbours apart. Jobs that are still running end with the chart; queued and rejected jobs are
    only counted, above the chart on the right.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other over the same time axis.
    by : {"core", "job"}, optional
        What stands on the y axis: core ids, which is the default, or jobs in order of submission, with a thin line
        from a job's submission to its start. Not for ``dag``; for ``deferrable`` it is ``"job"``.
    color_by : str, optional
        ``"job"``, the default: neighbours differ, and an execution that was repeated keeps its colour. ``"user"`` and
        ``"status"``: the eight with the most core-seconds have a colour each. A number of the job table:
        ``"waiting_time"``, ``"requested_cores"``, ``"requested_time"``, ``"run_time"``, ``"execution_time"``,
        ``"turnaround_time"``, ``"submission_time"``, ``"stretch"`` or ``"attempts"``. For ``dag``: ``"job"``,
        ``"label"`` or ``"node"``. Not for ``deferrable``.
    window : (float, float), optional
        Show only this span of time, in seconds; for ``deferrable`` the slots of which a part lies in it.
    labels : {"auto", True, False}
        Whether rectangles carry job ids, names of nodes, or the cores of deferrable jobs: where they fit, all visible
        ones, or none.
    axes : Axes or sequence of Axes, optional
        Where to draw, one a run; by default on a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. Times are in seconds of simulated time, whatever
        the unit that the ticks show; for ``deferrable`` in slots.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``batch``, ``dag`` or ``deferrable``.

    Examples
    --------
    >>> from desim.agents.batch import FCFS
    >>> from desim import simulate
    >>> from desim.problems.batch import BatchCluster, Job
    >>> jobs = [Job(1, 0.0, 2, 10.0, 10.0), Job(2, 1.0, 2, 5.0, 5.0)]
    >>> axes = gantt(simulate(BatchCluster(jobs, num_cores=2), FCFS()))
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('time (s)', 'core id')
    """
    problem = problem_of(results, "batch")
    if problem == "deferrable":
        _refuse(problem, by=by if by != "job" else None, color_by=color_by)
        return draw_job_windows(results, slots=_slots(window), labels=labels, axes=axes)
    color_by = "job" if color_by is None else color_by
    if problem == "dag":
        _refuse(problem, by=by)
        return draw_executor_gantt(results, color_by=color_by, window=window, labels=labels, axes=axes)
    by = "core" if by is None else by
    _check(by, color_by, labels)
    window = check_window(window)
    runs = load_runs(results, ["allocated_resources", "user_id", COLOR_COLUMNS[color_by]])
    span = common_span(runs, window)
    charts = [make_chart(run, by) for run in runs]
    coloring = color_executions(
        [chart.executions for chart in charts],
        [chart.ranges for chart in charts],
        [run.num_cores for run in runs],
        color_by,
    )
    tallest = max(chart.rows for chart in charts)
    height = min(max(0.3 * tallest, 1.8), 4.2 if len(runs) == 1 else 2.6)
    panels, own = given_or_new_panels(axes, len(runs), height=height)
    for panel, chart, faces in zip(panels, charts, coloring.faces, strict=True):
        draw_chart(
            panel,
            chart,
            faces,
            span=span,
            labels=labels,
            time_label=panel is panels[-1] or not own,
        )
    _add_keys(panels, charts, coloring, own=own)
    return panels[0] if isinstance(results, Result) else panels


def _refuse(problem: str, **options: object) -> None:
    """Raise if an option is given that charts of a problem do not have."""
    for name, value in options.items():
        if value is not None:
            raise InvalidConfiguration(f"{name} is {value!r}, which is not for results of the problem {problem!r}")


def _slots(window: tuple[float, float] | None) -> tuple[int, int] | None:
    """Return the slots that a window touches."""
    window = check_window(window)
    return None if window is None else (max(0, math.floor(window[0])), math.ceil(window[1]))


def _check(by: str, color_by: str, labels: object) -> None:
    if by not in ("core", "job"):
        raise InvalidConfiguration(f"by is {by!r}, want 'core' or 'job'")
    if color_by not in COLOR_COLUMNS:
        raise InvalidConfiguration(f"color_by is {color_by!r}, want one of {', '.join(map(repr, COLOR_COLUMNS))}")
    if labels not in ("auto", True, False):
        raise InvalidConfiguration(f"labels is {labels!r}, want 'auto', True or False")


def _add_keys(panels: list[Axes], charts: list[Chart], coloring: Coloring, *, own: bool) -> None:
    """Explain colours and hatches."""
    from matplotlib.patches import Patch

    from desim.plotting._boxes import CUT, DOWN, WAITING
    from desim.plotting._time_axis import color_bar

    entries = [(name, Patch(facecolor=color)) for name, color in coloring.entries]
    if any(chart.waiting for chart in charts):
        entries.append(("waiting", Patch(**WAITING)))
    if any(chart.executions["cut"].any() for chart in charts):
        entries.append(("cut by an outage", Patch(**CUT)))
    if any(len(chart.down) for chart in charts):
        entries.append(("cores down", Patch(**DOWN)))
    add_legend(panels, [patch for _, patch in entries], [name for name, _ in entries], own=own)
    if coloring.scale is not None:
        color_bar(panels, coloring.scale, coloring.label)
