"""Pieces of a self-contained HTML page: escaped text, tables, figures, styles."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Cell", "bullets", "figure", "links", "page", "paragraph", "picture", "section", "swatch", "table"]

#: A vector figure is sharp at any size, and taken unless it has this many times the bytes of the pixels.
VECTOR_WORTH = 2.0
DPI = 150

STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --back: #ffffff; --faint: #595959; --line: #c9c9c9;
  --stripe: #f4f4f4; --warn: #9c3a00; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --back: #161616; --faint: #b0b0b0; --line: #484848;
  --stripe: #222222; --warn: #ffa366; } }
body { margin: 0 auto; padding: 1.5rem; max-width: 72rem; color: var(--text); background: var(--back);
  font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; margin: .5rem 0 1rem; }
caption { text-align: left; color: var(--faint); padding-bottom: .25rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: baseline; }
thead th { vertical-align: bottom; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
thead th { border-bottom: 2px solid var(--line); font-weight: 600; max-width: 9rem; }
tbody th { font-weight: 600; overflow-wrap: break-word; min-width: 7rem; max-width: 20rem; }
tbody tr:nth-child(even) { background: var(--stripe); }
.swatch { display: inline-block; width: .8em; height: .8em; margin-right: .4em; border: 1px solid var(--line); }
.warn { color: var(--warn); font-weight: 600; }
figure { margin: 1rem 0 1.5rem; }
figure img { display: block; width: 100%; height: auto; box-sizing: border-box; background: #ffffff;
  border: 1px solid var(--line); border-radius: 4px; padding: .4rem; }
figcaption, footer, details { font-size: .875rem; }
figcaption, footer { color: var(--faint); }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: .5rem; }
summary { cursor: pointer; }
@media print { body { max-width: none; } figure { break-inside: avoid; } }
"""


class Cell(NamedTuple):
    """A cell of a table.

    Attributes
    ----------
    text : str
        What it says, not escaped.
    bold : bool
        Whether it is the best of its kind.
    warn : bool
        Whether it needs attention.
    before : str
        HTML that stands before the text.
    """

    text: str
    bold: bool = False
    warn: bool = False
    before: str = ""

    def html(self) -> str:
        """Return the content as HTML."""
        text = escape(self.text)
        if self.bold:
            text = f"<strong>{text}</strong>"
        if self.warn:
            text = f'<span class="warn">{text}</span>'
        return self.before + text


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]], words: Sequence[int] = ()) -> str:
    """Return a table whose first column names the rows.

    Parameters
    ----------
    caption : str
        What the table shows.
    heads : sequence of str
        Heads of the columns, with units.
    rows : sequence of sequence of Cell
        The rows.
    words : sequence of int
        Columns, besides the first, that hold words, which stand on the left; numbers stand on the right.

    Returns
    -------
    str
        HTML.
    """
    kinds = ["" if column == 0 or column in words else ' class="number"' for column in range(len(heads))]
    head = "".join(f'<th scope="col"{kind}>{escape(text)}</th>' for kind, text in zip(kinds, heads, strict=True))
    lines = []
    for name, *cells in rows:
        body = "".join(f"<td{kind}>{cell.html()}</td>" for kind, cell in zip(kinds[1:], cells, strict=True))
        lines.append(f'<tr><th scope="row">{name.html()}</th>{body}</tr>')
    return (
        f'<div class="scroll"><table>\n<caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody>\n</table></div>\n"
    )


def figure(drawing: Figure, caption: str, alt: str) -> str:
    """Return a figure, with the picture inside, a caption, and a text for those who cannot see it.

    Parameters
    ----------
    drawing : matplotlib.figure.Figure
        What to show; as vectors, or as pixels if these are much smaller.
    caption, alt : str
        Plain text.

    Returns
    -------
    str
        HTML.
    """
    from matplotlib import rc_context

    vector, pixels = io.BytesIO(), io.BytesIO()
    with rc_context({"svg.hashsalt": "desim"}):  # so that the same run makes the same file
        drawing.savefig(vector, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
    drawing.savefig(pixels, format="png", dpi=DPI, metadata={"Software": None})
    if len(vector.getvalue()) <= VECTOR_WORTH * len(pixels.getvalue()):
        kind, data = "svg+xml", vector.getvalue()
    else:
        kind, data = "png", pixels.getvalue()
    return picture(data, kind, caption, alt)


def picture(data: bytes, kind: str, caption: str, alt: str) -> str:
    """Return a figure from the bytes of a picture.

    Parameters
    ----------
    data : bytes
        The content of its file.
    kind : str
        Such as ``"png"`` or ``"svg+xml"``.
    caption, alt : str
        Plain text: what stands below it, and what those are told who cannot see it.

    Returns
    -------
    str
        HTML.
    """
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    image = f'<img alt="{escape(alt)}" src="{source}">'
    return f"<figure>\n{image}\n<figcaption>{escape(caption)}</figcaption>\n</figure>\n"


def swatch(color: str) -> str:
    """Return a small square of a colour.

    Parameters
    ----------
    color : str
        As in CSS.

    Returns
    -------
    str
        HTML.
    """
    return f'<span class="swatch" style="background: {escape(color)}" aria-hidden="true"></span>'


def paragraph(text: str, *, warn: bool = False) -> str:
    """Return a paragraph.

    Parameters
    ----------
    text : str
        Plain text.
    warn : bool
        Whether it needs attention.

    Returns
    -------
    str
        HTML.
    """
    return f"<p{' class=warn' if warn else ''}>{escape(text)}</p>\n"


def section(title: str, *parts: str, anchor: str = "") -> str:
    """Return a section with a heading.

    Parameters
    ----------
    title : str
        Its heading, plain text.
    *parts : str
        HTML.
    anchor : str
        A name that links lead to.

    Returns
    -------
    str
        HTML.
    """
    name = f' id="{escape(anchor)}"' if anchor else ""
    return f"<section{name}>\n<h2>{escape(title)}</h2>\n{''.join(parts)}</section>\n"


def links(targets: Sequence[tuple[str, str]]) -> str:
    """Return a list of links to sections.

    Parameters
    ----------
    targets : sequence of (str, str)
        Anchors, and what they are called.

    Returns
    -------
    str
        HTML.
    """
    items = "".join(f'<li><a href="#{escape(anchor)}">{escape(text)}</a></li>' for anchor, text in targets)
    return f"<ul>\n{items}</ul>\n"


def bullets(texts: Sequence[str]) -> str:
    """Return a list.

    Parameters
    ----------
    texts : sequence of str
        Plain text.

    Returns
    -------
    str
        HTML.
    """
    return f"<ul>\n{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>\n"


def page(title: str, body: str, footer: str) -> str:
    """Return a whole page.

    Parameters
    ----------
    title : str
        Plain text.
    body : str
        HTML.
    footer : str
        Plain text.

    Returns
    -------
    str
        HTML.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escape(title)}</h1>\n{body}</main>\n<footer>{escape(footer)}</footer>\n</body>\n</html>\n"
    )
