"""Output of commands on standard output: tables, text and JSON."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from desim.notes import console, plain

__all__ = ["Text", "command_line", "print_json", "print_table", "print_text"]


class Text(NamedTuple):
    """Table cell with emphasis, which plain files do not show."""

    text: str
    style: str = "bold"


def print_table(
    heads: Sequence[str], rows: Sequence[Sequence[str | Text]], *, words: Sequence[int] = (), title: str = ""
) -> None:
    """Print a table whose first column holds names.

    Parameters
    ----------
    heads : sequence of str
        Column headings.
    rows : sequence of sequences
        Cells as text.
    words : sequence of int
        Columns besides the first that hold words and are aligned left; numbers are aligned right.
    title : str
        Title above the table.
    """
    import rich.table
    from rich import box
    from rich.text import Text as RichText

    if title:
        print_text(title, "bold")
    table = rich.table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    lines_of_heads = max(head.count("\n") for head in heads)
    for number, head in enumerate(heads):
        left = number == 0 or number in words
        text = "\n" * (lines_of_heads - head.count("\n")) + head
        table.add_column(RichText(text), justify="left" if left else "right", overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(RichText(*cell) if isinstance(cell, Text) else RichText(cell) for cell in row))
    screen = console(sys.stdout)
    with screen.capture() as written:
        screen.print(table)
    lines = written.get().splitlines()
    print("\n".join(lines if screen.is_terminal else [line.rstrip() for line in lines]) + "\n")  # noqa: T201


def print_text(text: str, style: str = "") -> None:
    """Print a line or paragraph unchanged.

    Parameters
    ----------
    text : str
        Text to print.
    style : str
        Style on terminals, such as ``"bold"``.
    """
    from rich.text import Text as RichText

    console(sys.stdout).print(RichText(text, style), soft_wrap=True)


def print_json(document: Any) -> None:
    """Print a document as JSON.

    Parameters
    ----------
    document : object
        Any value that :func:`plain` accepts.
    """
    print(json.dumps(plain(document), indent=2, allow_nan=False))  # noqa: T201


def command_line() -> str | None:
    """Return the command line that started this program; None if the program is not ``desim``."""
    program = Path(sys.argv[0])
    is_ours = program.stem == "desim" or program.parts[-2:] == ("desim", "__main__.py")
    return shlex.join(["desim", *sys.argv[1:]]) if is_ours else None
