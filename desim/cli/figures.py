"""Figures of runs as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from desim.exceptions import RecordError
from desim.records import write_atomically
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["KINDS", "FigureFormat", "draw_figures", "make_directory", "save_figure"]

FigureFormat = Literal["png", "svg", "pdf"]
KINDS = ("gantt", "utilization", "queue", "waiting")

#: Curves of more runs than these would hide each other in one panel.
MOST_OVERLAID = 4
DOTS_PER_INCH = 150
#: Metadata that would make files of the same run differ.
METADATA = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}


def draw_figures(
    results: Mapping[str, Result], directory: Path, *, kinds: Sequence[str] = KINDS, file_format: FigureFormat = "png"
) -> list[Path]:
    """Draw runs side by side, one file a kind of figure.

    Parameters
    ----------
    results : mapping of str to Result
        Runs by name.
    directory : Path
        Where the files go; those of the same name are replaced.
    kinds : sequence of str
        Some of :data:`KINDS`.
    file_format : {"png", "svg", "pdf"}
        Suffix of the files.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    RecordError
        If a file cannot be written.
    """
    make_directory(directory)
    paths = []
    for kind in kinds:
        axes = _draw(kind, results)
        figure = (axes[0] if isinstance(axes, list) else axes).get_figure(root=True)
        assert figure is not None
        paths.append(save_figure(figure, directory / f"{kind}.{file_format}", file_format))
    return paths


def _draw(kind: str, results: Mapping[str, Result]) -> Axes | list[Axes]:
    from desim.plotting import gantt, queue_length, utilization, waiting_by_size

    several = len(results) > MOST_OVERLAID
    draw: dict[str, Callable[[], Axes | list[Axes]]] = {
        "gantt": lambda: gantt(results),
        "utilization": lambda: utilization(results, panels=True) if several else utilization(results),
        "queue": lambda: queue_length(results, panels=True) if several else queue_length(results),
        "waiting": lambda: waiting_by_size(results),
    }
    return draw[kind]()


def save_figure(figure: Figure, path: Path, file_format: FigureFormat) -> Path:
    """Write a figure, all or nothing; the same figure makes the same file.

    Parameters
    ----------
    figure : Figure
        What to write.
    path : Path
        The file.
    file_format : {"png", "svg", "pdf"}
        Its format.

    Returns
    -------
    Path
        The file.

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
    """Make a directory, unless it is there.

    Parameters
    ----------
    directory : Path
        Its parents are made, too.

    Raises
    ------
    RecordError
        If it cannot be made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot create {directory}: {error.strerror}") from error
