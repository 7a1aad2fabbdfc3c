"""Rows of executors on the y axis of a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from desim.plotting._dag_runs import DagRun
from desim.plotting._panels import panel_pixels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["executor_names", "executor_rows"]

#: Least distance between names, in pixels at 100 dots an inch.
NAME_HEIGHT = 10.5
LONGEST_NAME = 24


def executor_names(run: DagRun, *, speeds: bool = False) -> list[str]:
    """Return what the executors are called: numbers if they have no names of their own; with their speeds if asked."""
    info = run.info
    given = [str(name) for name in info["executors"]]
    if given == [f"executor{number}" for number in range(len(given))]:
        given = [str(number) for number in range(len(given))]
    names = [name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…" for name in given]
    if not speeds:
        return names
    return [f"{name} ({speed:.4g})" for name, speed in zip(names, info["speeds"], strict=True)]


def executor_rows(axes: Axes, run: DagRun, *, speeds: bool = False) -> None:
    """Make the y axis one of executors, the first at the top; where rows are low, not all are named.

    Parameters
    ----------
    axes : Axes
        Where.
    run : DagRun
        Whose executors.
    speeds : bool
        Write speeds behind the names.
    """
    names = executor_names(run, speeds=speeds)
    height = panel_pixels(axes)[1] / len(names)
    step = next(
        step
        for power in (1, 10, 100, 1_000, 10_000)
        for step in (power, 2 * power, 5 * power)
        if step * height >= NAME_HEIGHT
    )
    shown = range(0, len(names), step)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(
        shown, [names[number] for number in shown], parse_math=False, fontsize=9 if height * step >= 14.0 else 7
    )
    axes.tick_params(axis="y", length=2.0)
    axes.set_ylabel("executor (speed)" if speeds else "executor")
