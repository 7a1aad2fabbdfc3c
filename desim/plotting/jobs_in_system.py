"""How many DAG jobs are in the system over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from desim.plotting._dag_runs import load_dag_runs
from desim.plotting._lines import CurveOptions, axes_of, column, count_axis, draw_curves, from_zero
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["jobs_in_system"]


@overload
def jobs_in_system(
    results: Result | Mapping[str, Result], *, panels: Literal[False] = ..., **options: Unpack[CurveOptions]
) -> Axes: ...  # numpydoc ignore=GL08


@overload
def jobs_in_system(
    results: Result | Mapping[str, Result], *, panels: Literal[True], **options: Unpack[CurveOptions]
) -> list[Axes]: ...  # numpydoc ignore=GL08


def jobs_in_system(
    results: Result | Mapping[str, Result],
    *,
    panels: bool = False,
    bin_width: float | Literal["auto"] | None = "auto",
    window: tuple[float, float] | None = None,
    colors: Mapping[str, Any] | None = None,
    axes: Axes | Sequence[Axes] | None = None,
) -> Axes | list[Axes]:
    """Draw how many jobs had been submitted and not finished over time, of runs of ``dag``.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name.
    panels : bool
        One panel a run, one above the other, instead of one panel for all.
    bin_width : float, "auto" or None
        Draw means over bins of so many seconds. None draws every step; ``"auto"`` does so for runs of up to
        500 copies.
    window : (float, float), optional
        Show only this span of time, in seconds.
    colors : mapping of str to colour, optional
        Colours of some runs, by name.
    axes : Axes or sequence of Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    Axes or list of Axes
        A list, one a run, if ``panels``. Times are in seconds, whatever the unit of the ticks.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``dag``.
    """
    drawn = draw_curves(
        load_dag_runs(results),
        partial(column, name="jobs"),
        "jobs in the system",
        panels=panels,
        bin_width=bin_width,
        window=window,
        colors=colors,
        axes=axes,
    )
    from_zero(drawn)
    for panel, _ in drawn:
        count_axis(panel)
    return axes_of(drawn, panels=panels)
