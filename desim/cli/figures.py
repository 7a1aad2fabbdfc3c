"""Figures of runs written to files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from desim.checks import did_you_mean
from desim.cli.options import listed
from desim.exceptions import InvalidConfiguration, RecordError
from desim.notes import print_note
from desim.problem import ProblemDescriptor
from desim.records import write_atomically
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from desim.plotting.axes import Style
    from desim.plotting.runs import Window

__all__ = ["FigureFormat", "chosen_kinds", "draw_figures", "make_directory", "save_figure"]

FigureFormat = Literal["png", "svg", "pdf"]
DOTS_PER_INCH = 150
#: Metadata fields that would make files of the same run differ.
METADATA = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}


def chosen_kinds(asked: str | None, kind: ProblemDescriptor) -> list[str]:
    """Return the names of the requested figures.

    Parameters
    ----------
    asked : str or None
        Names separated by commas; None means all figures.
    kind : ProblemDescriptor
        Description of the problem, with its figures.

    Returns
    -------
    list of str
        Names without duplicates.

    Raises
    ------
    InvalidConfiguration
        If a name is unknown, or no name is given.
    """
    known = list(kind.figures)
    if asked is None:
        return known
    kinds = list(dict.fromkeys(listed(asked)))
    if not kinds or set(kinds) - set(known):
        there = f"expected some of {','.join(known)}" if known else f"but {kind.name} has no figures"
        near = "".join(did_you_mean(name, known) for name in kinds if name not in known)
        raise InvalidConfiguration(f"--kind: got {asked!r}{near}, {there}")
    return kinds


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


def make_directory(directory: Path) -> None:
    """Create a directory if it does not exist.

    Parameters
    ----------
    directory : Path
        The directory; missing parents are created, too.

    Raises
    ------
    RecordError
        If it cannot be created.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot create {directory}: {error.strerror}") from error
