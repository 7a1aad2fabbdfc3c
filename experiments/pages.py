"""Reports as files: one HTML page that needs no other, or a page of the documentation with its pictures."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from desim.experiments.account import Account
from desim.experiments.chapters import Bullets, Chapter, Element, Paragraph, Picture, Table, chapters_of
from desim.plotting import page
from desim.records import write_atomically

if TYPE_CHECKING:
    from desim.experiments.families import Family

__all__ = ["write_page", "write_restructured_text"]

WORSE = ("worse", "does not hold")
#: No line ends here.
BOUND = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"


def write_page(family: Family, accounts: Sequence[Account], directory: Path, path: Path) -> Path:
    """Write one HTML file, with all pictures inside.

    Parameters
    ----------
    family : Family
        Whose experiments they are.
    accounts : sequence of Account
        What they have left.
    directory : Path
        Of their results, where pictures are.
    path : Path
        The file, replaced if it is there.

    Returns
    -------
    Path
        The file.
    """
    sections = [
        page.Section(chapter.title, [_block(element, directory) for element in chapter.elements], chapter.name)
        for chapter in chapters_of(family, accounts)
    ]
    return page.write_page(path, family.title, sections, f"Made with desim {accounts[0].code.get('desim', '')}.")


def _block(element: Element, directory: Path) -> page.Block:
    match element:
        case Paragraph(text, warn):
            return page.Paragraph(text, warn)
        case Bullets(texts):
            return page.Bullets(texts)
        case Table(title, heads, rows, words):
            cells = [[page.Cell(text, warn=text in WORSE) for text in row] for row in rows]
            return page.Table(title, [head.replace("\n", " ") for head in heads], cells, words)
        case Picture(file, caption):
            path = directory / file
            return page.Picture(path.read_bytes(), caption) if path.exists() else page.Paragraph(_lost(file), warn=True)


def _lost(file: str) -> str:
    return f"The picture {file} is not there any more."


def write_restructured_text(family: Family, accounts: Sequence[Account], directory: Path, path: Path) -> Path:
    """Write a page of the documentation, and its pictures into a directory beside it that is called like the page.

    Parameters
    ----------
    family : Family
        Whose experiments they are.
    accounts : sequence of Account
        What they have left.
    directory : Path
        Of their results, where pictures are.
    path : Path
        The page, replaced if it is there.

    Returns
    -------
    Path
        The page.
    """
    heading = f"{family.title}: results"
    parts = [f"{heading}\n{'=' * len(heading)}\n"]
    for chapter in chapters_of(family, accounts):
        parts.append(_chapter_text(chapter, directory, path))
    text = "\n".join(parts)
    write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8"))
    return path


def _chapter_text(chapter: Chapter, directory: Path, path: Path) -> str:
    lines = [f"{chapter.title}\n{'-' * len(chapter.title)}\n"]
    for element in chapter.elements:
        match element:
            case Paragraph(text, warn):
                lines.append(f"**{_escaped(text)}**\n" if warn else f"{_escaped(text)}\n")
            case Bullets(texts):
                lines.append("\n".join(f"* {_escaped(text)}" for text in texts) + "\n")
            case Table():
                lines.append(_table_text(element))
            case Picture(file) if not (directory / file).exists():
                lines.append(f"**{_escaped(_lost(file))}**\n")
            case Picture(file, caption):
                target = path.with_suffix("") / file.replace("/", "-")
                target.parent.mkdir(parents=True, exist_ok=True)
                data = (directory / file).read_bytes()
                write_atomically(target, lambda draft, data=data: draft.write_bytes(data))  # type: ignore[misc]
                name = f"{path.stem}/{target.name}"
                lines.append(f".. figure:: {name}\n   :alt: {caption}\n\n   {_escaped(caption)}\n")
    return "\n".join(lines)


def _table_text(table: Table) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([_escaped(head.replace("\n", " ")) for head in table.heads])
    writer.writerows([[_escaped(cell).replace(" ± ", BOUND) for cell in row] for row in table.rows])
    body = "".join(f"   {line}\n" for line in written.getvalue().splitlines())
    title = f" {_escaped(table.title)}" if table.title else ""
    return f".. csv-table::{title}\n   :header-rows: 1\n\n{body}"


def _escaped(text: str) -> str:
    """Return plain text so that nothing in it is markup: no list, rule or title begins with a separator."""
    escaped = re.sub(r"([\\*`|_<>])", r"\\\1", text)
    return escaped if re.match(r"$|\w+([ ,]|$)|[-+]?\d+\.\d", escaped) else f"\\ {escaped}"
