"""Metrics: pure functions of the tables that a run leaves behind.

`metrics_of` finds the function that fits a result's problem; its module documents names, units and options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from desim.exceptions import InvalidConfiguration
from desim.metrics.multiserver import (
    MULTISERVER_METRICS,
    multiserver_metrics,
    multiserver_result_metrics,
    reward_ratio,
    running_average_reward,
)
from desim.metrics.units import KNOWN
from desim.problem import Metric, Metrics, kind_of

if TYPE_CHECKING:
    from desim.result import Result

__all__ = [
    "MULTISERVER_METRICS",
    "metrics_of",
    "multiserver_metrics",
    "reward_ratio",
    "running_average_reward",
]

_MEASURES: dict[str, Callable[..., dict[str, float]]] = {
    "multiserver": multiserver_result_metrics,
}


def metrics_of(result: Result, **options: Any) -> dict[str, float]:
    """Return the metrics of a run.

    Parameters
    ----------
    result : Result
        The run; only the columns that are needed are read.
    **options
        What the problem's own function takes, see `multiserver_metrics`; there are no
        options for DAG jobs and for deferrable jobs.

    Returns
    -------
    dict of str to float
        The metrics by name, in a fixed order; NaN where nothing can be said.

    Raises
    ------
    InvalidConfiguration
        If the result names no problem that has metrics, or an option is out of range.
    """
    kind = kind_of(result)
    if kind.metrics.described:
        return kind.metrics.measure(result, **options)
    problem = result.info.get("problem")
    measure = _MEASURES.get(str(problem))
    if measure is None:
        raise InvalidConfiguration(
            f"no metrics for problem {problem!r} (run status {result.info.get('status')!r}); "
            f"there are metrics for {', '.join(_MEASURES)}"
        )
    return measure(result, **options)


def _described(meanings: Mapping[str, str], measure: Callable[..., dict[str, float]]) -> Metrics:
    metrics = []
    for name, text in meanings.items():
        fitting = [kind for kind in KNOWN["units"] if name == kind or name.startswith(f"{kind}_")]
        unit, better = KNOWN["units"][max(fitting, key=len)] if fitting else ("", None)
        metrics.append(Metric(name, text, unit, better))
    return Metrics(tuple(metrics), measure, KNOWN["headline"], KNOWN["main"])


MULTISERVER = _described(MULTISERVER_METRICS, multiserver_result_metrics)
