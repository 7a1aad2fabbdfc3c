"""Output of commands on standard output: tables, text and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from desim.notes import console, plain
from desim.reprs import Cell, Table, text_table

__all__ = ["print_json", "print_table", "print_text"]


def print_table(
    heads: Sequence[str], rows: Sequence[Sequence[str | Cell]], *, words: Sequence[int] = (), title: str = ""
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
    print(text_table(Table(title, heads, rows, words), console(sys.stdout)))  # noqa: T201


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
