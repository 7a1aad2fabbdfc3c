"""What a study shows: paragraphs, tables, figures, checks, and the numbers of a paper beside ours.

A study yields blocks. The terminal shows them as they come, an account keeps them, and reports and pages of the
documentation are made of the same blocks.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from desim.cli.output import Text, plain, print_table, print_text
from desim.experiments.frame import Frame, lead_percent
from desim.plotting.page import Bullets, Cell, Paragraph, Table
from desim.records import write_atomically
from desim.statistics import Estimate
from desim.sweep import Outcomes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Beside",
    "Besides",
    "Block",
    "Bullets",
    "Cell",
    "Check",
    "Checks",
    "Data",
    "Drawing",
    "Fault",
    "Paragraph",
    "Runs",
    "Table",
    "lead_percent",
    "print_block",
    "restored",
    "short",
    "stored",
    "with_interval",
]

DOTS_PER_INCH = 150


@dataclass(frozen=True)
class Fault:
    """Something that must not be, such as records that are not valid: the program ends with a status that is not 0."""

    text: str


@dataclass(frozen=True)
class Check:
    """Something that was to be shown, with figures, and whether it is so."""

    text: str
    holds: bool

    def __str__(self) -> str:
        """Return a line for the terminal."""
        return f"{'holds' if self.holds else 'FAILS'}: {self.text}"


@dataclass(frozen=True)
class Checks:
    """What was to be shown; a trial in a smaller size need not."""

    checks: Sequence[Check]

    def table(self) -> Table:
        """Return it for a report."""
        rows = [[check.text, "holds" if check.holds else "does not hold"] for check in self.checks]
        return Table("What was to be shown", ["", ""], rows, (0, 1))


@dataclass(frozen=True)
class Beside:
    """Something that a paper states as a number, and the same as it was measured here.

    Attributes
    ----------
    what : str
        What it is, with its unit.
    paper : float
        The paper's number. How certain it is, papers hardly say.
    ours : Estimate
        Ours, with its interval; one without an interval counts as it is.
    better : {"more", "less", ""}
        What would be better; nothing if it is only to be near.
    """

    what: str
    paper: float
    ours: Estimate
    better: Literal["more", "less", ""] = ""

    @property
    def verdict(self) -> str:
        """Whether ours is better or worse than the paper beyond the interval, as in the paper, other, or a dash."""
        if not math.isfinite(self.ours.mean):
            return "–"
        known = math.isfinite(self.ours.half_width)
        low, high = (self.ours.low, self.ours.high) if known else (self.ours.mean, self.ours.mean)
        if low <= self.paper <= high:
            return "as in the paper"
        if not self.better:
            return "other"
        return "better" if (low > self.paper) == (self.better == "more") else "worse"


@dataclass(frozen=True)
class Besides:
    """Numbers of the paper beside ours; a trial in a smaller size is not compared with a paper."""

    rows: Sequence[Beside]
    is_trial: bool = False

    def verdicts(self) -> list[str]:
        """Return what becomes of each."""
        return ["trial" if self.is_trial else row.verdict for row in self.rows]

    def cells(self) -> list[list[str]]:
        """Return the rows of a table: what, the paper's, ours, the verdict."""
        pairs = zip(self.rows, self.verdicts(), strict=True)
        return [[row.what, short(row.paper), with_interval(row.ours), verdict] for row, verdict in pairs]


@dataclass(frozen=True)
class Runs:
    """A sweep that came before: runs that were performed, those that were stored already, and what all of them took.

    Attributes
    ----------
    title : str
        Name of the sweep.
    performed, stored : int
        Numbers of runs.
    seconds : float
        Of all runs, one after another.
    """

    title: str
    performed: int
    stored: int
    seconds: float

    @classmethod
    def of(cls, outcomes: Outcomes) -> Runs:
        """Return it of what a sweep has brought."""
        return cls(outcomes.title, outcomes.performed, outcomes.stored, outcomes.seconds)


@dataclass(frozen=True)
class Drawing:
    """A figure.

    Attributes
    ----------
    file : str
        Name of its file in the directory of the study.
    caption : str
        What it shows.
    figure : Figure, optional
        What is written into the file.
    """

    file: str
    caption: str
    figure: Figure | None = None

    def write(self, directory: Path) -> None:
        """Write the file, all or nothing."""
        figure = self.figure
        assert figure is not None
        directory.mkdir(parents=True, exist_ok=True)
        draw = partial(figure.savefig, dpi=DOTS_PER_INCH, format="png")
        write_atomically(directory / self.file, draw)


@dataclass(frozen=True)
class Data:
    """What programs read: ``results.json`` and ``results.csv``.

    Attributes
    ----------
    document : mapping
        Everything, in values that JSON has.
    rows : sequence of mapping
        The table, whose columns are the keys of all rows; a row may lack some.
    without : str
        A key of the rows that the table leaves out.
    """

    document: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    without: str = ""

    def write(self, directory: Path) -> None:
        """Write the files, each all or nothing."""
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(plain(self.document), indent=1, allow_nan=False) + "\n"
        names = dict.fromkeys(name for row in self.rows for name in row if name != self.without)
        table = io.StringIO()
        writer = csv.DictWriter(table, list(names), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(self.rows)
        for name, content in (("results.json", text), ("results.csv", table.getvalue())):
            write_atomically(directory / name, partial(Path.write_text, data=content))


Block = Paragraph | Fault | Bullets | Table | Checks | Besides | Runs | Drawing | Data | Frame

KINDS: dict[str, type[Block]] = {
    kind.__name__.lower(): kind for kind in (Paragraph, Fault, Bullets, Table, Checks, Besides, Runs, Drawing)
}


def stored(block: Block) -> dict[str, Any]:
    """Return a block in plain values; figures and data have files of their own."""
    if isinstance(block, Drawing):
        block = replace(block, figure=None)
    assert not isinstance(block, Frame), "a frame has a file of its own"
    content = asdict(block)
    if isinstance(block, Besides):
        content["rows"] = [vars(row) | {"ours": row.ours._asdict()} for row in block.rows]
    return {"kind": type(block).__name__.lower(), **plain(content)}


def restored(content: Mapping[str, Any]) -> Block:
    """Return the block that was stored."""
    values = dict(content)
    kind = KINDS[values.pop("kind")]
    if kind is Checks:
        values["checks"] = [Check(**check) for check in values["checks"]]
    if kind is Table:
        values["rows"] = [[Cell(**cell) if isinstance(cell, dict) else cell for cell in row] for row in values["rows"]]
    if kind is Besides:
        values["rows"] = [Beside(**row | {"ours": _estimate(row["ours"])}) for row in values["rows"]]
    return kind(**values)


def _estimate(values: Mapping[str, Any]) -> Estimate:
    known: dict[str, Any] = {name: math.nan if value is None else value for name, value in values.items()}
    return Estimate(**known)


def print_block(block: Block) -> None:
    """Show a block on the terminal, if it has anything to read."""
    match block:
        case Paragraph(text) | Fault(text):
            print_text(text)
        case Table():
            print_table(
                block.heads,
                [[_shown(cell) for cell in row] for row in block.cells],
                words=block.words,
                title=block.title,
            )
        case Checks(checks) if checks:
            for check in checks:
                print_text(str(check))
            print_text(f"{sum(check.holds for check in checks)} of {len(checks)} checks hold.")
        case Besides(numbers) if numbers:
            cells = [[*cells, _shown(Cell(verdict, bold=verdict == "worse"))] for *cells, verdict in block.cells()]
            print_table(["", "the paper", "ours", ""], cells, words=(3,), title="The paper's figures beside ours")


def _shown(cell: Cell) -> str | Text:
    return Text(cell.text) if cell.bold else cell.text


# -- numbers in words -------------------------------------------------------------------------------


def short(value: float | None) -> str:
    """Return a number with four digits or more; a dash for what is not a number."""
    if value is None or not math.isfinite(value):
        return "–"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{min(digits, 4)}f}"


def with_interval(estimate: Estimate | None, digits: int | None = None) -> str:
    """Return a mean with half the width of its interval, such as ``"3,105 ± 20"``.

    Parameters
    ----------
    estimate : Estimate or None
        Nothing, or a mean that may not be a number.
    digits : int, optional
        Digits after the point, with a sign before; as many as four significant ones without, if left out.

    Returns
    -------
    str
        A dash for what is not a number.
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
