"""Blocks of a study's report: paragraphs, tables, figures and frames.

A study yields blocks. The terminal shows them as they come, an account stores them, and reports and pages of the
documentation are made from them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desim.cli.output import print_table, print_text
from desim.experiments.frame import Frame
from desim.files import write_atomically
from desim.notes import plain
from desim.plotting.page import Bullets, Cell, Paragraph, Table
from desim.statistics import Estimate
from desim.sweep import Outcomes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Block",
    "Bullets",
    "Cell",
    "Drawing",
    "Fault",
    "Paragraph",
    "Runs",
    "Table",
    "print_block",
    "restored",
    "short",
    "stored",
    "with_interval",
]

DOTS_PER_INCH = 150


@dataclass(frozen=True)
class Fault:
    """Error in the results, such as invalid records; the program then ends with a nonzero exit status."""

    text: str


@dataclass(frozen=True)
class Runs:
    """Summary of a sweep: runs performed now, runs stored before, and the time of all runs.

    Attributes
    ----------
    title : str
        Name of the sweep.
    performed, stored : int
        Numbers of runs performed now, and stored before.
    seconds : float
        Total time of all runs, in seconds.
    """

    title: str
    performed: int
    stored: int
    seconds: float

    @classmethod
    def of(cls, outcomes: Outcomes) -> Runs:
        """Return the summary of the outcomes of a sweep."""
        return cls(outcomes.title, outcomes.performed, outcomes.stored, outcomes.seconds)


@dataclass(frozen=True)
class Drawing:
    """Figure with a caption.

    Attributes
    ----------
    file : str
        Name of its file in the directory of the study.
    caption : str
        Caption of the figure.
    figure : Figure, optional
        Figure to be written to the file.
    """

    file: str
    caption: str
    figure: Figure | None = None

    def write(self, directory: Path) -> None:
        """Write the file completely or not at all."""
        figure = self.figure
        assert figure is not None
        directory.mkdir(parents=True, exist_ok=True)
        draw = partial(figure.savefig, dpi=DOTS_PER_INCH, format="png")
        write_atomically(directory / self.file, draw)


Block = Paragraph | Fault | Bullets | Table | Runs | Drawing | Frame

KINDS: dict[str, type[Block]] = {
    kind.__name__.lower(): kind for kind in (Paragraph, Fault, Bullets, Table, Runs, Drawing)
}


def stored(block: Block) -> dict[str, Any]:
    """Return a block as plain values; figures and frames are stored in separate files."""
    if isinstance(block, Drawing):
        block = replace(block, figure=None)
    assert not isinstance(block, Frame), "a frame is stored in a separate file"
    return {"kind": type(block).__name__.lower(), **plain(asdict(block))}


def restored(content: Mapping[str, Any]) -> Block:
    """Return a stored block."""
    values = dict(content)
    kind = KINDS[values.pop("kind")]
    if kind is Table:
        values["rows"] = [[Cell(**cell) if isinstance(cell, dict) else cell for cell in row] for row in values["rows"]]
    return kind(**values)


def print_block(block: Block) -> None:
    """Print a block on the terminal, if it has text."""
    match block:
        case Paragraph(text) | Fault(text):
            print_text(text)
        case Table():
            print_table(
                block.heads,
                block.rows,
                words=block.words,
                title=block.title,
            )


# -- numbers as text --------------------------------------------------------------------------------


def short(value: float | None) -> str:
    """Return a number with at least four digits; a dash if it is missing or not finite."""
    if value is None or not math.isfinite(value):
        return "–"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{min(digits, 4)}f}"


def with_interval(estimate: Estimate | None, digits: int | None = None) -> str:
    """Return a mean with the half-width of its interval, such as ``"3,105 ± 20"``.

    Parameters
    ----------
    estimate : Estimate or None
        Mean with its interval; may be missing or not finite.
    digits : int, optional
        Digits after the decimal point, for a number with a sign. Default: four significant digits without a sign.

    Returns
    -------
    str
        Text; a dash if the mean is missing or not finite.
    """
    if estimate is None or not math.isfinite(estimate.mean):
        return "–"
    mean = short(estimate.mean) if digits is None else f"{estimate.mean:+.{digits}f}"
    if not math.isfinite(estimate.half_width):
        return mean
    width = f"{estimate.half_width:,.2g}" if digits is None else f"{estimate.half_width:.{digits}f}"
    if digits is None and estimate.half_width >= 10:
        width = f"{estimate.half_width:,.0f}"
    return f"{mean} ± {width}"
