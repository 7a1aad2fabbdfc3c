"""Figures of runs written to files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from desim.exceptions import InvalidConfiguration
from desim.notes import print_note
from desim.problem import ProblemDescriptor
from desim.records import make_directory, write_atomically
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from desim.plotting.axes import Style
    from desim.plotting.runs import Window

__all__ = ["FigureFormat", "draw_figures", "save_figure"]

FigureFormat = Literal["png", "svg", "pdf"]
DOTS_PER_INCH = 150
#: Metadata fields that would make files of the same run differ.
METADATA = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}


def draw_figures(
    results: Mapping[str, Result],
    directory: Path,
    kind: ProblemDescriptor,
    *,
    kinds: Sequence[str] | None = None,
    file_format: FigureFormat = "png",
    window: Window = None,
    style: Style = "screen",
) -> list[Path]:
    """Draw runs side by side, one file per figure kind.

    Parameters
    ----------
    results : mapping of str to Result
        Runs by name.
    directory : Path
        Directory for the files; files of the same name are replaced.
    kind : ProblemDescriptor
        Description of the problem, with its figures.
    kinds : sequence of str, optional
        Names of the figures to draw; None draws all that the results allow.
    file_format : {"png", "svg", "pdf"}
        File format, also the suffix of the files.
    window : (float, float), optional
        Start and end of the time range that figures over time show; other figures show whole runs.
    style : {"screen", "paper", "paper-wide"}
        Width of the figures, see :func:`desim.plotting.axes.figure_style`.

    Returns
    -------
    list of Path
        Paths of the files.

    Raises
    ------
    InvalidConfiguration
        If a requested figure cannot be drawn from these results.
    RecordError
        If a file cannot be written.
    """
    from desim.plotting.axes import figure_style

    make_directory(directory)
    paths = []
    fitting = [name for name, figure in kind.figures.items() if figure.suits(results.values())]
    for name in fitting if kinds is None else kinds:
        draw = kind.figures[name].draw
        options = {} if window is None or not _has_window(draw) else {"window": window}
        with figure_style(style):
            try:
                axes = draw(results, **options)
            except InvalidConfiguration as error:  # such as allocations that were not recorded
                if kinds is not None:
                    raise
                print_note(f"desim: no figure {name!r}: {error}")
                continue
            figure = (axes[0] if isinstance(axes, list) else axes).get_figure(root=True)
            assert figure is not None
            paths.append(save_figure(figure, directory / f"{name}.{file_format}", file_format))
    return paths


def _has_window(draw: Callable[..., object]) -> bool:
    """Return whether a figure can show part of the time; curves take the option through ``**options``."""
    parameters = signature(draw).parameters
    return "window" in parameters or any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values())


def save_figure(figure: Figure, path: Path, file_format: FigureFormat) -> Path:
    """Write a figure to a file, completely or not at all; the same figure gives the same bytes.

    Parameters
    ----------
    figure : Figure
        The figure.
    path : Path
        Path of the file.
    file_format : {"png", "svg", "pdf"}
        File format.

    Returns
    -------
    Path
        Path of the file.

    Raises
    ------
    RecordError
        If the file cannot be written.
    """
    from matplotlib import rc_context

    def _write(draft: Path) -> None:
        with rc_context({"svg.hashsalt": "desim"}):
            figure.savefig(draft, format=file_format, dpi=DOTS_PER_INCH, metadata=METADATA[file_format])

    write_atomically(path, _write)
    return path
