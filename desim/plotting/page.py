"""Pages of blocks: one HTML file that needs no other, with tables, pictures and styles inside."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from desim.records import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Block", "Bullets", "Cell", "Chart", "Paragraph", "Picture", "Section", "Table", "picture_of", "write_page"]

#: A vector figure is sharp at any size, and taken unless it has more bytes than this, and this many times those of the
#: pixels.
SMALL, VECTOR_WORTH = 80_000, 2.0
DPI = 150


@dataclass(frozen=True)
class Paragraph:
    """Plain text, and whether it needs attention."""

    text: str
    warn: bool = False
    macro: ClassVar[str] = "paragraph"


@dataclass(frozen=True)
class Bullets:
    """A list of plain texts."""

    texts: Sequence[str]
    macro: ClassVar[str] = "bullets"


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes
    ----------
    text : str
        What it says.
    bold : bool
        Whether it is the best of its kind.
    warn : bool
        Whether it needs attention.
    color : str
        Of a small square before the text, as in CSS; empty for none.
    """

    text: str
    bold: bool = False
    warn: bool = False
    color: str = ""


@dataclass(frozen=True)
class Table:
    """A table as text.

    Attributes
    ----------
    title : str
        What stands above it.
    heads : sequence of str
        Heads of the columns, with units.
    rows : sequence of sequence of str or Cell
        The first cell of each row names it.
    words : sequence of int
        Columns, besides the first, that hold words, which stand on the left; numbers stand on the right.
    note : str
        What stands below it.
    folded : str
        If the table is not seen before it is asked for, what stands in its place.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    words: Sequence[int] = ()
    note: str = ""
    folded: str = ""
    macro: ClassVar[str] = "table"

    @property
    def cells(self) -> list[list[Cell]]:
        """The rows as cells."""
        return [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes
    ----------
    data : bytes
        The content of its file.
    caption : str
        What stands below it.
    alt : str
        What those are told who cannot see it; by default the caption.
    kind : str
        Such as ``"png"`` or ``"svg+xml"``.
    """

    data: bytes = field(repr=False)
    caption: str
    alt: str = ""
    kind: str = "png"
    macro: ClassVar[str] = "picture"

    @property
    def encoded(self) -> str:
        """The data in base 64."""
        return base64.b64encode(self.data).decode()


@dataclass(frozen=True)
class Chart:
    """A place where the script of a page draws.

    Attributes
    ----------
    name : str
        By which the script finds it.
    alt : str
        What is drawn, for those who cannot see it.
    """

    name: str
    alt: str
    macro: ClassVar[str] = "chart"


Block = Paragraph | Bullets | Table | Picture | Chart
"""What a page is made of."""


@dataclass(frozen=True)
class Section:
    """Blocks under a heading, or without one; where it has an anchor, a link at the top of the page leads to it."""

    title: str
    blocks: Sequence[Block]
    anchor: str = ""


def picture_of(figure: Figure, caption: str, alt: str = "") -> Picture:
    """Return a figure as vectors, or as pixels if these are much smaller; the same figure makes the same data."""
    from matplotlib import rc_context

    vector, pixels = io.BytesIO(), io.BytesIO()
    with rc_context({"svg.hashsalt": "desim"}):
        figure.savefig(vector, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
    size = len(vector.getvalue())
    if size > SMALL:
        figure.savefig(pixels, format="png", dpi=DPI, metadata={"Software": None})
        if size > VECTOR_WORTH * len(pixels.getvalue()):
            return Picture(pixels.getvalue(), caption, alt)
    return Picture(vector.getvalue(), caption, alt, "svg+xml")


def write_page(
    path: Path,
    title: str,
    sections: Sequence[Section],
    footer: str,
    *,
    template: str = "page.html.jinja",
    **parts: object,
) -> Path:
    """Write a page; the file appears only once it is complete, and takes the place of one that is there.

    Parameters
    ----------
    path : Path
        The HTML file.
    title : str
        Heading of the page.
    sections : sequence of Section
        What stands below it.
    footer : str
        What stands at the end.
    template : str
        A file of this package.
    **parts
        What else it shows.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    RecordError
        If the file cannot be written.
    """
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("desim.plotting", "."), autoescape=True)
    text = environment.get_template(template).render(title=title, sections=sections, footer=footer, **parts)
    write_atomically(path, lambda draft: draft.write_bytes(text.encode("utf-8", "replace")))
    return path
