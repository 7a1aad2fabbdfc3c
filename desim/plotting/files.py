"""Figures of runs written to files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration
from desim.files import write_atomically
from desim.notes import print_note
from desim.problem import kind_of
from desim.records import make_directory
from desim.result import Result
from desim.sweep.comparison import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from desim.plotting.axes import FigureFormat, Style
    from desim.plotting.runs import Window

__all__ = ["draw_figures", "save_figure", "write_figures"]

DOTS_PER_INCH = 150
#: Metadata fields that would make files of the same run differ.
METADATA = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}


def draw_figures(
    shown: Mapping[str, Result] | Comparison,
    directory: Path,
    *,
    kinds: Sequence[str] | None = None,
    window: Window = None,
    **look: Any,
) -> list[Path]:
    """Draw runs side by side, or a comparison with the runs of its first seed or window, one file per figure kind.

    Parameters
    ----------
    shown : mapping of str to Result, or Comparison
        Runs by name, or a comparison whose runs were stored.
    directory : Path
        Directory for the files; files of the same name are replaced.
    kinds : sequence of str, optional
        Names of the figures to draw; None draws all that the results allow.
    window : (float, float), optional
        Start and end of the time range that figures over time show; other figures show whole runs.
    **look
        ``style`` and ``file_format``, see :func:`write_figures`.

    Returns
    -------
    list of Path
        Paths of the files.

    Raises
    ------
    InvalidConfiguration
        If a requested figure is unknown, or cannot be drawn from these results.
    RecordError
        If a file cannot be written.
    """
    figures: dict[str, Callable[[], Axes | list[Axes]]] = {}
    if isinstance(shown, Comparison):
        from desim.plotting.comparison import figures_of

        figures |= figures_of(shown)
        results: Mapping[str, Result] = {agent: runs[0] for agent, runs in shown.results.items()}
        kind = shown.kind
    else:
        results, kind = shown, kind_of(next(iter(shown.values())))
    for name, figure in kind.figures.items():
        if kinds is not None or figure.suits(results.values()):
            options = {"window": window} if window is not None and _has_window(figure.draw) else {}
            figures[name] = partial(figure.draw, results, **options)
    if kinds is not None:
        if not kinds or set(kinds) - figures.keys():
            there = f"expected some of {','.join(figures)}" if figures else f"but {kind.name} has no figures"
            near = "".join(did_you_mean(name, figures) for name in kinds if name not in figures)
            raise InvalidConfiguration(f"--kind: got {','.join(kinds)!r}{near}, {there}")
        figures = {name: figures[name] for name in kinds}
    return write_figures(figures, directory, must=kinds is not None, **look)


def write_figures(
    figures: Mapping[str, Callable[[], Axes | list[Axes]]],
    directory: Path,
    *,
    file_format: FigureFormat = "png",
    style: Style = "screen",
    must: bool = False,
) -> list[Path]:
    """Draw figures to files of their names.

    Parameters
    ----------
    figures : mapping of str to callable
        Functions that draw them, by name.
    directory : Path
        Directory for the files; files of the same name are replaced.
    file_format : {"png", "svg", "pdf"}
        File format, also the suffix of the files.
    style : {"screen", "paper", "paper-wide"}
        Width of the figures, see :func:`desim.plotting.axes.figure_style`.
    must : bool
        Whether a figure that cannot be drawn is an error; otherwise a note tells the reason.

    Returns
    -------
    list of Path
        Paths of the files.

    Raises
    ------
    InvalidConfiguration
        If a figure that must be drawn cannot be drawn.
    RecordError
        If a file cannot be written.
    """
    from desim.plotting.axes import figure_style

    make_directory(directory)
    paths = []
    for name, draw in figures.items():
        with figure_style(style):
            try:
                axes = draw()
            except InvalidConfiguration as error:  # such as allocations that were not recorded
                if must:
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
