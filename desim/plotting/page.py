"""Pages of blocks: one self-contained HTML file with tables, pictures and styles inside."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from desim.files import write_atomically
from desim.reprs import Cell, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Block", "Bullets", "Cell", "Chart", "Paragraph", "Picture", "Section", "Table", "picture_of", "write_page"]

#: A figure is stored as vectors unless these have more bytes than the first number and more than the second number
#: times the bytes of its pixels.
SMALL, VECTOR_WORTH = 80_000, 2.0
DPI = 150


#: Scripts within a page that a browser runs; others are data.
SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


@dataclass(frozen=True)
class Paragraph:
    """Plain text, which may be marked as a warning."""

    text: str
    warn: bool = False


@dataclass(frozen=True)
class Bullets:
    """List of plain texts."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Picture:
    """Picture with a caption.

    Attributes
    ----------
    data : bytes
        Content of the image file.
    caption : str
        Caption below the picture.
    alt : str
        Alternative text for readers who cannot see it; default: the caption.
    kind : str
        Image type, such as ``"png"`` or ``"svg+xml"``.
    """

    data: bytes = field(repr=False)
    caption: str
    alt: str = ""
    kind: str = "png"

    @property
    def encoded(self) -> str:
        """Data in base 64."""
        return base64.b64encode(self.data).decode()


@dataclass(frozen=True)
class Chart:
    """Place where the script of a page draws.

    Attributes
    ----------
    name : str
        Name by which the script finds it.
    alt : str
        Alternative text for readers who cannot see it.
    """

    name: str
    alt: str


Block = Paragraph | Bullets | Table | Picture | Chart
"""Element of a page."""


@dataclass(frozen=True)
class Section:
    """Blocks with an optional heading; if there is an anchor, a link at the top of the page leads to the section."""

    title: str
    blocks: Sequence[Block]
    anchor: str = ""


def picture_of(figure: Figure, caption: str, alt: str = "") -> Picture:
    """Return a figure as vectors, or as pixels if these are much smaller; the same figure gives the same data."""
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
    """Write a page; an existing file is replaced only when the new one is complete.

    Parameters
    ----------
    path : Path
        HTML file.
    title : str
        Heading of the page.
    sections : sequence of Section
        Sections of the page.
    footer : str
        Text at the end of the page.
    template : str
        Name of a template file in this package.
    **parts
        Other values for the template.

    Returns
    -------
    Path
        Path of the file.

    Raises
    ------
    RecordError
        If the file cannot be written.
    """
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("desim.plotting", "."), autoescape=True)
    text = environment.get_template(template).render(title=title, sections=sections, footer=footer, **parts)
    text = text.replace("<head>\n", f"<head>\n{_policy(text)}\n", 1)
    write_atomically(path, lambda draft: draft.write_bytes(text.encode("utf-8", "replace")))
    return path


def _policy(text: str) -> str:
    """Return the element with which a browser runs the scripts of a page only, and loads nothing from elsewhere."""
    digests = (hashlib.sha256(script.encode("utf-8", "replace")) for script in SCRIPT.findall(text))
    scripts = " ".join(f"'sha256-{base64.b64encode(digest.digest()).decode()}'" for digest in digests) or "'none'"
    rules = f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
    return f"<meta http-equiv=\"Content-Security-Policy\" content=\"{rules}; base-uri 'none'; form-action 'none'\">"
