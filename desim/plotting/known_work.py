"""How much work a platform for deferrable jobs knows of over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from desim.plotting._deferrable_runs import DeferrableRun, load_deferrable_runs
from desim.plotting._deferrable_series import expiring_work, remaining_work
from desim.plotting._panels import add_keys, given_or_new_panels, group_digits, how_many, plain, set_titles
from desim.plotting._slot_bins import BinWidth, bin_means, bin_width_of, draw_stack
from desim.plotting._slot_runs import bin_edges, check_slots, slot_axis, slot_span
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["known_work"]

#: The layers from the bottom, in colours of Okabe and Ito, "Color Universal Design", 2008, and a grey.
LAYERS: dict[str, dict[str, Any]] = {
    "running: what is left": {"facecolor": "#0072B2"},
    "window open": {"facecolor": "#8CC3E6"},
    "window open, expires in the slot": {"facecolor": "#D55E00"},
    "window not open yet": {"facecolor": "#E2E2E2"},
}


@overload
def known_work(
    results: Result, *, bin_width: BinWidth = ..., slots: tuple[int, int] | None = ..., axes: Axes | None = ...
) -> Axes: ...  # numpydoc ignore=GL08


@overload
def known_work(
    results: Mapping[str, Result],
    *,
    bin_width: BinWidth = ...,
    slots: tuple[int, int] | None = ...,
    axes: Sequence[Axes] | None = ...,
) -> list[Axes]: ...  # numpydoc ignore=GL08


def known_work(
    results: Result | Mapping[str, Result],
    *,
    bin_width: BinWidth = "auto",
    slots: tuple[int, int] | None = None,
    axes: Axes | Sequence[Axes] | None = None,
) -> Axes | list[Axes]:
    """Draw the work that is known and not done yet as each slot begins, before jobs are started in it.

    From the bottom: what is left of the jobs that run on; jobs whose window is open, those apart that the slot lets
    expire because they are not started in their last one; and jobs that are known and whose window is not open yet.
    Work is the amount of the first resource times the duration.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One run, or several by name, which are drawn one above the other with the same axes.
    bin_width : int, "auto" or None
        Draw means over bins of so many slots. None draws every slot; ``"auto"`` does so for up to 250 slots.
    slots : (int, int), optional
        Show only the slots from the first to before the second.
    axes : Axes or sequence of Axes, optional
        Where to draw, one a run; by default on a new figure.

    Returns
    -------
    Axes or list of Axes
        One for a Result, a list for a mapping. Slot t reaches from t to t + 1.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range or the results are not those of ``deferrable``.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.deferrable import DeferrableCluster, Job
    >>> class Nobody:
    ...     def act(self, observation):
    ...         return None
    >>> axes = known_work(simulate(DeferrableCluster([Job(1, 0.0, 1, 3, 5, 2.0)], [4]), Nobody()))
    >>> axes.get_ylabel(), axes.get_title("right")
    ('known work (core-slots)', '1 of 1 job expired, 10 core-slots')
    """
    window = check_slots(slots)
    runs = load_deferrable_runs(results)
    span = slot_span([*runs], window)
    width = bin_width_of(bin_width, span)
    panels, own = given_or_new_panels(axes, len(runs), height=2.1 if len(runs) > 1 else 3.4)
    highest = 0.0
    seen = np.zeros(len(LAYERS), dtype=np.bool_)
    for panel, run in zip(panels, runs, strict=True):
        edges = bin_edges(span[0], min(span[1], run.end), width)
        layers = bin_means(_work(run), edges)
        plain(panel, grid="y")
        draw_stack(panel, edges, layers, list(LAYERS.values()), list(LAYERS))
        slot_axis(panel, *span, label=panel is panels[-1] or not own)
        group_digits(panel.yaxis)
        panel.set_ylabel(f"known work ({run.work_unit})")
        set_titles(panel, run.title, _remark(run, width))
        highest = max(highest, layers.sum(axis=0).max(initial=0.0))
        seen |= layers.any(axis=1)
    for panel in panels:
        panel.set_ylim(0.0, 1.06 * highest or 1.0)
    add_keys(panels, LAYERS, seen.tolist(), own=own)
    return panels[0] if isinstance(results, Result) else panels


def _work(run: DeferrableRun) -> NDArray[np.float64]:
    """Return the work of each layer in each slot, of shape (layers, slots)."""
    first, count = run.resources[0], len(run.slots)
    current, future = (run.slots[f"{name}_work"].to_numpy() for name in ("current", "future"))
    expiring = np.minimum(expiring_work(run.result.jobs, first, count), current)
    return np.stack([remaining_work(run.executions, first, count), current - expiring, expiring, future])


def _remark(run: DeferrableRun, width: int) -> str:
    """Count what has expired in the whole run."""
    import polars as pl

    jobs = run.result.jobs
    expired = jobs.filter(pl.col("status").cast(pl.String) == "expired")
    words = how_many(len(jobs), "job")
    if len(expired):
        words = f"{len(expired):,} of {words} expired, {expired['revenue'].sum():,.10g} {run.work_unit}"
    return "; ".join([words] + [f"means over {width} slots"] * (width > 1))
