"""Figures and pages of runs; matplotlib is imported when the first figure is drawn.

Every function takes one result or a mapping of names to results and returns matplotlib ``Axes``,
whose ``figure`` can be saved. Figures are independent of pyplot: they need no display, need not be
closed, and change no global setting. A run keeps its colour in all figures of the same mapping.

:func:`gantt` and :func:`utilization` draw runs of any problem that has such a figure. Figures of one problem are in its
package, such as ``desim.problems.batch.figures``; they can be imported from here, too. :func:`compare_metrics`
and :func:`metric_lines` draw the metrics of any runs, :func:`decision_time_cdf` draws decision times,
:func:`distributions` and :func:`mean_curves` draw distributions and means over time, :func:`critical_differences` and
:func:`performance_profiles` results of :mod:`desim.statistics`, and :func:`view` writes an interactive page with
everything about some runs. For your own figures, use the modules
``axes``, ``bars``, ``curves``, ``maps``, ``graphs`` and ``colors`` of this package, and ``views`` for the interactive
page.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration
from desim.problem import kind_of
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.plotting.comparison import (
        compare_metrics,
        comparison_figures,
        critical_differences,
        decision_time_cdf,
        distributions,
        mean_curves,
        metric_lines,
        performance_profiles,
    )
    from desim.plotting.interactive import view
    from desim.plotting.page import Table
    from desim.problems.batch.figures import queue_length, waiting_by_size
    from desim.problems.dag.drawings import dag_drawing
    from desim.problems.dag.figures import executor_utilization, jobs_in_system, pool_utilization
    from desim.problems.deferrable.figures import capacity_use, known_work
    from desim.problems.multiserver.figures import (
        allocation_map,
        average_reward,
        bipartite_drawing,
        cumulative_reward,
        resource_utilization,
        reward_parts,
        reward_ratio,
    )

__all__ = [
    "Table",
    "allocation_map",
    "average_reward",
    "bipartite_drawing",
    "capacity_use",
    "compare_metrics",
    "comparison_figures",
    "critical_differences",
    "cumulative_reward",
    "dag_drawing",
    "decision_time_cdf",
    "distributions",
    "executor_utilization",
    "gantt",
    "jobs_in_system",
    "known_work",
    "mean_curves",
    "metric_lines",
    "performance_profiles",
    "pool_utilization",
    "queue_length",
    "resource_utilization",
    "reward_parts",
    "reward_ratio",
    "utilization",
    "view",
    "waiting_by_size",
]

#: Modules of the names that this package imports on first access.
HOMES = {
    "plotting.comparison": "compare_metrics comparison_figures critical_differences decision_time_cdf distributions "
    "mean_curves metric_lines performance_profiles",
    "plotting.interactive": "view",
    "plotting.page": "Table",
    "problems.batch.figures": "queue_length waiting_by_size",
    "problems.dag.drawings": "dag_drawing",
    "problems.dag.figures": "executor_utilization jobs_in_system pool_utilization",
    "problems.deferrable.figures": "capacity_use known_work",
    "problems.multiserver.figures": "allocation_map average_reward bipartite_drawing cumulative_reward "
    "resource_utilization reward_parts reward_ratio",
}


def __getattr__(name: str) -> Any:
    """Import a figure on first access, because figures of a problem use the modules of this package."""
    for module, names in HOMES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"desim.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@overload
def gantt(results: Result, **options: Any) -> Axes: ...


@overload
def gantt(results: Mapping[str, Result], **options: Any) -> list[Axes]: ...


def gantt(results: Result | Mapping[str, Result], **options: Any) -> Any:
    """Draw a Gantt chart: jobs on cores, copies of DAG nodes on executors, or jobs in their windows.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other over the same time axis.
    **options
        Options of :func:`desim.problems.batch.figures.gantt`, :func:`desim.problems.dag.figures.gantt`,
        :func:`desim.problems.deferrable.figures.gantt`, or the figure ``gantt`` of another problem.

    Returns
    -------
    Axes or list of Axes
        One panel for a Result, a list of panels for a mapping.

    Raises
    ------
    InvalidConfiguration
        If the argument is not a result or a mapping of results, or their problem has no such figure.
    """
    return _draw("gantt", results, options)


def utilization(results: Result | Mapping[str, Result], **options: Any) -> Axes:
    """Draw the utilization of cores or executors over time.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name; with more than four, each has its own panel.
    **options
        Options of :func:`desim.problems.batch.figures.utilization`, :func:`desim.problems.dag.figures.utilization`, or
        the figure ``utilization`` of another problem.

    Returns
    -------
    Axes
        The panel, or the first of several.

    Raises
    ------
    InvalidConfiguration
        If the argument is not a result or a mapping of results, or their problem has no such figure.
    """
    axes: Axes = _draw("utilization", results, options)
    return axes


def _draw(figure: str, results: Any, options: Mapping[str, Any]) -> Any:
    """Draw a figure of the problem of the first result."""
    first = next(iter(results.values()), None) if isinstance(results, Mapping) else results
    if not isinstance(first, Result):
        raise InvalidConfiguration(f"results: got {results!r}, expected a Result or a mapping of names to results")
    kind = kind_of(first)
    if figure not in kind.figures:
        known = f"there are {', '.join(kind.figures)}" if kind.figures else "there are none"
        near = did_you_mean(figure, kind.figures)
        raise InvalidConfiguration(f"the problem {kind.name!r} has no figure {figure!r}{near}: {known}")
    return kind.figures[figure].draw(results, **options)
