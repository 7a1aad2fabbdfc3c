"""Figures of experiments: axes, and files that are whole or not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from desim.records import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

__all__ = ["new_figure", "write_figure"]

RESOLUTION = 150


def new_figure(rows: int, columns: int, *, width: float, height: float, turn: bool = False) -> tuple[Figure, Any]:
    """Return a figure and its axes.

    Parameters
    ----------
    rows, columns : int
        Shape of the array of axes.
    width, height : float
        Of one axes, in inches.
    turn : bool
        Draw the rows beside each other.

    Returns
    -------
    tuple of Figure and numpy.ndarray
        The axes have the shape (rows, columns).
    """
    from matplotlib.figure import Figure

    down, across = (columns, rows) if turn else (rows, columns)
    figure = Figure(figsize=(width * across, height * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False)
    return figure, axes.T if turn else axes


def write_figure(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG; its directory is made.

    Parameters
    ----------
    figure : Figure
        What to write.
    path : Path
        The file, replaced if it is there.

    Returns
    -------
    Path
        The file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda target: figure.savefig(target, dpi=RESOLUTION, format="png"))
    return path
