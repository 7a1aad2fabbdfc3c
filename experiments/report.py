"""Reports: the blocks of a paper's studies as a self-contained HTML page, or as a page of the documentation."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from desim.experiments.claims import (
    Claim,
    FixedRule,
    RegisterItem,
    claims_table,
    fixed_rules_table,
    register_table,
)
from desim.experiments.frame import Frame
from desim.experiments.report_blocks import (
    Block,
    Bullets,
    Drawing,
    Fault,
    Paragraph,
    Runs,
    Table,
)
from desim.experiments.study import TRIAL, Account
from desim.files import write_atomically
from desim.formatting import how_many
from desim.plotting.page import Block as PageBlock
from desim.plotting.page import Picture, Section, write_page

__all__ = ["Chapter", "Opening", "chapters_of", "documented", "write_documentation", "write_report"]

LONGEST_FILE_NAME = 60
#: A mean and its interval, which are never separated by a line break.
BOUND = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Chapter:
    """Part of a report with a heading.

    Attributes
    ----------
    name : str
        Name used in links, one word.
    title : str
        Heading of the chapter.
    blocks : list of Block
        Paragraphs, lists, tables, and drawings whose files are in the directory of the results.
    """

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Opening:
    """Opening of a report.

    Attributes
    ----------
    claims : list of Claim
        Claims of the paper, with verdicts.
    rules : list of FixedRule
        Numbers of the paper for rules without learning.
    register : list of RegisterItem
        Details that the paper does not state, and departures from it.
    """

    claims: Sequence[Claim] = ()
    rules: Sequence[FixedRule] = ()
    register: Sequence[RegisterItem] = ()

    def blocks(self) -> Iterator[Block]:
        """Yield the tables that are not empty."""
        if self.claims:
            yield claims_table(self.claims)
        if self.rules:
            yield Paragraph(RULES_FIRST)
            yield fixed_rules_table(self.rules)
        if self.register:
            yield register_table(self.register)


RULES_FIRST = (
    "Fixed rules pin down workload and metric. "
    "No verdict on a learned agent stands on a workload that is not calibrated."
)


def chapters_of(
    title: str, source: str, modules: Sequence[str], accounts: Sequence[Account], opening: Opening = Opening()
) -> list[Chapter]:
    """Return all chapters of a report.

    Parameters
    ----------
    title, source : str
        Subject of the studies, and the paper.
    modules : sequence of str
        Names of all studies of the paper.
    accounts : sequence of Account
        Accounts of the completed studies, at least one.
    opening : Opening
        Claims, fixed rules and register.

    Returns
    -------
    list of Chapter
        A summary, one chapter per study, and a chapter on how they were run.
    """
    chapters = [Chapter("summary", "Summary", list(_summary(f"{title}. The paper: {source}", accounts, opening)))]
    chapters += [
        Chapter(account.name, f"{account.name}: {account.title}", list(_told(account))) for account in accounts
    ]
    missing = [name for name in modules if name not in {account.name for account in accounts}]
    return [*chapters, Chapter("settings", "Settings, code and machine", list(_settings(accounts, missing)))]


def _of(kind: type[Any], accounts: Sequence[Account]) -> list[Any]:
    return [block for account in accounts for block in account.blocks if isinstance(block, kind)]


def _summary(beginning: str, accounts: Sequence[Account], opening: Opening) -> Iterator[Block]:
    yield Paragraph(beginning)
    if any(account.is_reduced for account in accounts):
        yield Paragraph(TRIAL, warn=True)
    yield from (Paragraph(f"{one.name} has failed: {one.error}", warn=True) for one in accounts if one.error)
    yield from opening.blocks()
    yield Paragraph(
        "Numbers after ± are half-widths of 95 % confidence intervals; differences are paired by seed. Where a claim "
        "counts several trainings of an agent, the interval is the root of the sum of squares of two: that of the "
        "means of the trainings, and that of the means of the workloads."
    )


def _told(account: Account) -> Iterator[Block]:
    """Yield the blocks of a study: its figures, then the others in order; tables are folded if there are figures."""
    yield Paragraph(f"Settings: {_settings_of(account)}.")
    if account.error:
        yield Paragraph(f"It has failed: {account.error}", warn=True)
    drawings = [replace(block, file=f"{account.name}/{block.file}") for block in _of(Drawing, [account])]
    yield from drawings
    for block in _in_order(account):
        yield _folded(block) if drawings and isinstance(block, Table) and not block.folded else block


def _in_order(account: Account) -> Iterator[Block]:
    """Yield the blocks of a study in order, without its figures."""
    for block in account.blocks:
        match block:
            case Runs(_, performed, stored, seconds):
                yield Paragraph(
                    f"{performed + stored:,} runs, which took {_duration(seconds)} in total; {stored:,} of "
                    "them were stored before."
                )
            case Fault(text):
                yield Paragraph(text, warn=True)
            case Paragraph() | Table() | Bullets():
                yield block


def _folded(table: Table) -> Table:
    """Return a table that a reader has to open."""
    return replace(table, folded=f"{table.title or 'Table'} ({how_many(len(table.rows), 'row')})")


def _settings(accounts: Sequence[Account], missing: Sequence[str]) -> Iterator[Block]:
    runs = _of(Runs, accounts)
    count, seconds = sum(one.performed + one.stored for one in runs), sum(one.seconds for one in runs)
    wall = sum(account.seconds for account in accounts)
    left_out = f" Not run: {', '.join(missing)}." if missing else ""
    yield Paragraph(
        f"{how_many(len(accounts), 'experiment')} with {count:,} runs, which took {_duration(seconds)} in "
        f"total. The wall time of the last call was {_duration(wall)}; runs that were stored before take none."
        f"{left_out}"
    )
    rows = [
        [
            account.name,
            _settings_of(account),
            " ".join(filter(None, (account.code.get(name, "") for name in ("desim", "commit", "digest")))),
            _duration(account.seconds),
        ]
        for account in accounts
    ]
    heads = ["experiment", "settings", "version, commit and digest of the code", "wall time"]
    yield Table("How each experiment was run", heads, rows, (0, 1, 2))
    machines = dict.fromkeys(tuple(sorted(account.machine.items())) for account in accounts)
    yield from (Paragraph(", ".join(f"{name} {value}" for name, value in machine)) for machine in machines)


def _settings_of(account: Account) -> str:
    """Return the settings as text, without those that are off or empty, and without paths of directories."""
    words = []
    for name, value in account.options.items():
        if value is not None and value is not False:
            shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            if isinstance(value, str) and Path(value).is_absolute():
                shown = f".../{Path(value).name}"
            words.append(name.replace("_", " ") if value is True else f"{name.replace('_', ' ')} {shown}")
    return ", ".join(words)


def _duration(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {left} s" if minutes else f"{left} s"


def _lost(file: str) -> Paragraph:
    return Paragraph(f"The picture {file} is missing.", warn=True)


# -- HTML -------------------------------------------------------------------------------------------


def write_report(title: str, chapters: Sequence[Chapter], version: str, directory: Path, path: Path) -> Path:
    """Write a report as one HTML file that contains all pictures.

    Parameters
    ----------
    title : str
        Heading of the report.
    chapters : sequence of Chapter
        Chapters of the report.
    version : str
        Version of desim.
    directory : Path
        Directory of the results with the pictures.
    path : Path
        File to write; an existing one is replaced.

    Returns
    -------
    Path
        File that was written.
    """
    sections = [
        Section(chapter.title, [_on_page(block, directory) for block in chapter.blocks], chapter.name)
        for chapter in chapters
    ]
    return write_page(path, title, sections, f"Made with desim {version}.")


def _on_page(block: Block, directory: Path) -> PageBlock:
    if isinstance(block, Drawing):
        path = directory / block.file
        return Picture(path.read_bytes(), block.caption) if path.exists() else _lost(block.file)
    if isinstance(block, Table):
        return replace(block, heads=[head.replace("\n", " ") for head in block.heads])
    assert isinstance(block, Paragraph | Bullets), block
    return block


# -- reStructuredText -------------------------------------------------------------------------------


def write_documentation(
    title: str, chapters: Sequence[Chapter], directory: Path, path: Path, frames: Mapping[str, Frame] | None = None
) -> Path:
    """Write a report as a page of the documentation; pictures and folded tables go into a directory of its name.

    Parameters
    ----------
    title : str
        Heading of the page.
    chapters : sequence of Chapter
        Chapters of the report.
    directory : Path
        Directory of the results with the pictures.
    path : Path
        File of the page; an existing one is replaced.
    frames : mapping of str to Frame, optional
        Measurements of the studies by name; they are written next to the page as ``NAME.csv``, without curves.

    Returns
    -------
    Path
        File of the page.
    """
    for name, frame in (frames or {}).items():
        _beside_page(path, f"{name}.csv", frame.without_curves().data.write_csv().encode())
    heading = f"{title}: results"
    parts = [f"{heading}\n{'=' * len(heading)}\n"]
    for chapter in chapters:
        parts.append(f"{chapter.title}\n{'-' * len(chapter.title)}\n")
        names = _file_names(chapter)
        parts += [_in_text(block, directory, path, name) for block, name in zip(chapter.blocks, names, strict=True)]
    text = "\n".join(parts)
    write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8"))
    return path


def _file_names(chapter: Chapter) -> list[str]:
    """Return a file name for each table, from its title, numbered if it repeats; empty for other blocks."""
    names: list[str] = []
    for block in chapter.blocks:
        words = re.findall(r"[a-z0-9]+", block.title.lower()) if isinstance(block, Table) else []
        name = "-".join([chapter.name, *(words or ["table"])])[:LONGEST_FILE_NAME].rstrip("-")
        same = sum(other.partition(".")[0] == name for other in names)
        names.append("" if not isinstance(block, Table) else f"{name}.{same + 1}" if same else name)
    return names


def _in_text(block: Block, directory: Path, page: Path, name: str) -> str:
    match block:
        case Drawing(file, caption):
            if not (directory / file).exists():
                return _in_text(_lost(file), directory, page, name)
            target = _beside_page(page, file.replace("/", "-"), (directory / file).read_bytes())
            return f".. figure:: {target}\n   :alt: {caption}\n\n   {_escaped(caption)}\n"
        case Table() if block.folded:
            return f".. folded-table:: {_folded_file(block, page, name)}\n\n   {_escaped(block.folded)}\n"
    return documented(block)


def documented(block: Block) -> str:
    """Return the reStructuredText of a paragraph, a list or a table that is not folded."""
    match block:
        case Paragraph(text, warn):
            return f"**{_escaped(text)}**\n" if warn else f"{_escaped(text)}\n"
        case Bullets(texts):
            return "\n".join(f"* {_escaped(text)}" for text in texts) + "\n"
        case Table():
            return _table_text(block)
    raise AssertionError(block)


def _beside_page(page: Path, name: str, data: bytes) -> str:
    """Write a file into the directory of a page, and return its path relative to the page."""
    target = page.with_suffix("") / name
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, lambda draft: draft.write_bytes(data))
    return f"{page.stem}/{name}"


def _folded_file(table: Table, page: Path, name: str) -> str:
    """Write a table as a CSV file, for the page and for programs, and return its path relative to the page."""
    heads = [head.replace("\n", " ") for head in table.heads]
    rows = [[cell.text for cell in row] for row in table.cells]
    return _beside_page(page, f"{name}.csv", _written([heads, *rows]).encode())


def _table_text(table: Table) -> str:
    heads = [_escaped(head.replace("\n", " ")) for head in table.heads]
    rows = [[_escaped(cell.text).replace(" ± ", BOUND) for cell in row] for row in table.cells]
    body = "".join(f"   {line}\n" for line in _written([heads, *rows]).splitlines())
    title = f" {_escaped(table.title)}" if table.title else ""
    return f".. csv-table::{title}\n   :header-rows: 1\n\n{body}"


def _written(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text as comma-separated values."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue()


def _escaped(text: str) -> str:
    """Return text escaped so that nothing in it is markup."""
    escaped = re.sub(r"([\\*`|_<>])", r"\\\1", text)
    return escaped if re.match(r"$|\w+([ ,]|$)|[-+]?\d+\.\d", escaped) else f"\\ {escaped}"
