"""Gantt charts of DAG runs: which executor ran which copy when, and what it waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from desim.exceptions import InvalidConfiguration
from desim.plotting._copy_colors import COPY_COLORS, color_copies
from desim.plotting._dag_runs import load_dag_runs
from desim.plotting._executor_bars import ExecutorChart, draw_executors, make_executors
from desim.plotting._panels import add_legend, given_or_new_panels
from desim.plotting._runs import check_window, common_span
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_executor_gantt", "executor_gantt"]


class _Options(TypedDict, total=False):
    """Options of :func:`executor_gantt`, which explains them."""

    color_by: str
    transfers: Literal["auto"] | bool
    critical_chain: bool
    speeds: bool
    window: tuple[float, float] | None
    labels: Literal["auto"] | bool


@overload
def executor_gantt(
    results: Result, *, axes: Axes | None = ..., **options: Unpack[_Options]
) -> Axes: ...  # numpydoc ignore=GL08


@overload
def executor_gantt(
    results: Mapping[str, Result], *, axes: Sequence[Axes] | None = ..., **options: Unpack[_Options]
) -> list[Axes]: ...  # numpydoc ignore=GL08


def executor_gantt(
    results: Result | Mapping[str, Result],
    *,
    color_by: str = "job",
    transfers: Literal["auto"] | bool = "auto",
    critical_chain: bool = False,
    speeds: bool = False,
    window: tuple[float, float] | None = None,
    labels: Literal["auto"] | bool = "auto",
    axes: Axes | Sequence[Axes] | None = None,
) -> Axes | list[Axes]:
    """Draw which executor ran which copy of a node when.

    Every copy that started is a bar in the row of its executor. Duplicates are dotted; copies that an outage cut
    are hatched, and so, in grey, are executors that were down. A thin grey bar is the time in which an executor
    waited for the data of the copy that was next and ran nothing. Copies that still run end with the chart.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other over the same time axis.
    color_by : {"job", "label", "node"}
        ``"job"``: each job has its own colour up to eight, with more neighbours differ. ``"label"``: the eight labels
        of jobs with the most execution have a colour each. ``"node"``: neighbours differ, and copies of a
        node are alike.
    transfers : {"auto", True, False}
        Whether arrows show data that move to another executor, from when they are sent to when they have arrived;
        ``"auto"`` shows them up to 200 a run.
    critical_chain : bool
        Frame the copies that determine when the run was over, in black, with the transfers between them: each started
        when the one before it had finished, or its data had arrived.
    speeds : bool
        Write the speeds of the executors behind their names.
    window : (float, float), optional
        Show only this span of time, in seconds.
    labels : {"auto", True, False}
        Whether bars carry the names of their nodes, behind the id of the job if there are several: where
        they fit, all visible ones, or none. Nodes without a name have their number; where they run task by task, that
        of the task follows.
    axes : Axes or sequence of Axes, optional
        Where to draw, one a run; by default on a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. Executor k stands at y = k, times are in seconds of simulated time.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``dag``.

    Examples
    --------
    >>> from desim.agents.dag import ListScheduler, RankUp
    >>> from desim import simulate
    >>> from desim.problems.dag import DagCluster, Executors, Job
    >>> job = Job(1, [2.0, 1.0, 4.0], [("a", "c", 10.0), ("b", "c", 5.0)], names="abc")
    >>> result = simulate(DagCluster([job], Executors([1.0, 2.0], 10.0)), ListScheduler(RankUp()))
    >>> sorted(text.get_text() for text in executor_gantt(result).texts)
    ['a', 'b', 'c']
    """
    return draw_executor_gantt(
        results,
        color_by=color_by,
        transfers=transfers,
        critical_chain=critical_chain,
        speeds=speeds,
        window=window,
        labels=labels,
        axes=axes,
    )


def draw_executor_gantt(
    results: Result | Mapping[str, Result],
    *,
    color_by: str,
    transfers: Literal["auto"] | bool = "auto",
    critical_chain: bool = False,
    speeds: bool = False,
    window: tuple[float, float] | None,
    labels: Literal["auto"] | bool,
    axes: Axes | Sequence[Axes] | None,
) -> Axes | list[Axes]:
    """Draw what :func:`executor_gantt` describes.

    Parameters
    ----------
    results, color_by, transfers, critical_chain, speeds, window, labels, axes : object
        As there.

    Returns
    -------
    Axes or list of Axes
        As there.
    """
    if color_by not in COPY_COLORS:
        raise InvalidConfiguration(f"color_by is {color_by!r}, want one of {', '.join(map(repr, COPY_COLORS))}")
    for name, value in (("labels", labels), ("transfers", transfers)):
        if value not in ("auto", True, False):
            raise InvalidConfiguration(f"{name} is {value!r}, want 'auto', True or False")
    window = check_window(window)
    runs = load_dag_runs(results)
    span = common_span(runs, window)
    charts = [make_executors(run, drawn=transfers, chain=critical_chain) for run in runs]
    faces, entries = color_copies(runs, color_by)
    tallest = max(run.size for run in runs)
    height = min(max(0.38 * tallest, 1.4), 6.4 if len(runs) == 1 else 3.6)
    panels, own = given_or_new_panels(axes, len(runs), height=height)
    for panel, chart, shades in zip(panels, charts, faces, strict=True):
        draw_executors(
            panel,
            chart,
            shades,
            span=span,
            labels=labels,
            speeds=speeds,
            time_label=panel is panels[-1] or not own,
        )
    _add_keys(panels, charts, entries, own=own)
    return panels[0] if isinstance(results, Result) else panels


def _add_keys(panels: list[Axes], charts: list[ExecutorChart], colors: list[tuple[str, Any]], *, own: bool) -> None:
    """Explain colours, hatches and frames."""
    from matplotlib.patches import Patch

    from desim.plotting._boxes import CUT, DOWN, WAITING
    from desim.plotting._executor_bars import CRITICAL, DUPLICATE

    entries = [(name, Patch(facecolor=color)) for name, color in colors]
    if any(len(chart.waits) for chart in charts):
        entries.append(("waiting for data", Patch(**WAITING)))
    if any(chart.duplicates.any() for chart in charts):
        entries.append(("duplicate", Patch(**DUPLICATE)))
    if any(chart.outcome("interrupted").any() for chart in charts):
        entries.append(("cut by an outage", Patch(**CUT)))
    if any(len(chart.down) for chart in charts):
        entries.append(("executor down", Patch(**DOWN)))
    if any(chart.chain is not None and len(chart.chain.copies) for chart in charts):
        entries.append(("critical chain", Patch(**CRITICAL)))
    add_legend(panels, [patch for _, patch in entries], [name for name, _ in entries], own=own)
