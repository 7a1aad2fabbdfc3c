"""Representations of objects at a prompt and in notebooks: one line, or a small table; tables of texts."""

from __future__ import annotations

import inspect
import io
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from desim.checks import short_repr
from desim.notes import console

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Cell", "NamedRepr", "Summarized", "Table", "arguments_of", "html_rows", "html_table", "text_table"]


class Summarized:
    """Mixin for objects that show a few facts instead of all their content."""

    def summary(self) -> Mapping[str, Any]:
        """Return the facts to show, by name, as plain values."""
        return {}

    def __repr__(self) -> str:
        """Return the facts in one line."""
        facts = ", ".join(f"{name}={short_repr(value)}" for name, value in self.summary().items())
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        """Return the facts as an HTML table, for notebooks."""
        return html_table(type(self).__name__, self.summary())


class NamedRepr:
    """Mixin for agents that show their class and the name that creates them."""

    def __repr__(self) -> str:
        """Return class and name in one line."""
        name = getattr(self, "name", None)  # an agent under construction may have no name yet
        return f"<{type(self).__name__}>" if name is None else f"<{type(self).__name__} {name!r}>"

    def _repr_html_(self) -> str:
        """Return class and name as HTML, for notebooks."""
        return f"<code>{escape(repr(self))}</code>"


def arguments_of(made: object, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an object that differ from their defaults, with sizes in place of collections.

    Parameters
    ----------
    made : object
        The object.
    values : mapping
        Known values of arguments by name; others are read from attributes.

    Returns
    -------
    dict
        Values in the order of the arguments.
    """
    found: dict[str, Any] = {}
    _, *parameters = inspect.signature(type(made).__init__).parameters.items()
    for name, parameter in parameters:
        value = values.get(name, getattr(made, name, None))
        if isinstance(value, bool | int | float | str):
            if value != parameter.default:
                found[name] = value
        elif isinstance(value, tuple) and value == parameter.default:
            continue
        elif isinstance(value, Sized) and (len(value) or parameter.default is parameter.empty):
            found[name] = Count(len(value))
        elif value is not None and not isinstance(value, Sized):
            found[name] = Count(None)
    return found


class Count:
    """Number of elements of a collection that is not shown.

    Parameters
    ----------
    number : int or None
        Number of elements; None if unknown.
    """

    def __init__(self, number: int | None) -> None:
        self.number = number

    def __repr__(self) -> str:
        """Return the number in brackets that stand for a list."""
        return "..." if self.number is None else f"[{self.number:,}]"


@dataclass(frozen=True)
class Cell:
    """Cell of a table.

    Attributes
    ----------
    text : str
        Content.
    bold : bool
        Whether the value is the best of its kind.
    warn : bool
        Whether the value needs attention.
    color : str
        CSS colour of a small square before the text; empty for none.
    """

    text: str
    bold: bool = False
    warn: bool = False
    color: str = ""


@dataclass(frozen=True)
class Table:
    """Table of texts.

    Attributes
    ----------
    title : str
        Title above the table.
    heads : sequence of str
        Column headings, with units.
    rows : sequence of sequence of str or Cell
        Rows; the first cell names the row.
    words : sequence of int
        Columns besides the first that hold words and are aligned left; numbers are aligned right.
    note : str
        Note below the table.
    folded : str
        Label shown instead of the table until a reader opens it; empty if the table is always visible.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    words: Sequence[int] = ()
    note: str = ""
    folded: str = ""

    @property
    def cells(self) -> list[list[Cell]]:
        """Rows as cells."""
        return [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows]


def html_table(title: str, facts: Mapping[str, Any], rows: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """Return an HTML table of facts for notebooks.

    Parameters
    ----------
    title : str
        Heading.
    facts : mapping
        Plain values by name, one row each.
    rows : mapping of str to mapping, optional
        Second table below: cells by heading, one row each.

    Returns
    -------
    str
        HTML without styles.
    """
    left = "style='text-align:left'"
    cells = [
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(_text(value))}</td></tr>"
        for name, value in facts.items()
    ]
    parts = [f"<b>{escape(title)}</b>", f"<table>{''.join(cells)}</table>"]
    if rows:
        heads = "".join(f"<th>{escape(head)}</th>" for head in next(iter(rows.values())))
        body = "".join(
            f"<tr><th {left}>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row.values())}</tr>"
            for name, row in rows.items()
        )
        parts.append(f"<table><tr><th></th>{heads}</tr>{body}</table>")
    return "".join(parts)


def html_rows(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """Return an HTML table of rows for notebooks.

    Parameters
    ----------
    title : str
        Heading.
    heads : sequence of str
        Headings of the columns.
    rows : sequence of sequence of str
        Cells; the first cell names its row.
    note : str
        Note below the table.

    Returns
    -------
    str
        HTML without styles.
    """
    left = "style='text-align:left'"
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr><th {left}>{escape(first)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    parts = [f"<b>{escape(title)}</b>"] if title else []
    parts += [f"<table><tr>{head}</tr>{body}</table>"] if rows else []
    return "".join([*parts, f"<p>{escape(note)}</p>"] if note else parts)


def text_table(table: Table, screen: Console | None = None) -> str:
    """Return a table as text, in columns, with its title and its note.

    Parameters
    ----------
    table : Table
        Table of texts; those in bold look so on a terminal only.
    screen : Console, optional
        Where the text is to be shown; default: in a file.

    Returns
    -------
    str
        Lines, each with its end.
    """
    import rich.table
    from rich import box
    from rich.text import Text

    screen = console(io.StringIO()) if screen is None else screen
    made = rich.table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    lines_of_heads = max(head.count("\n") for head in table.heads)
    for number, head in enumerate(table.heads):
        left = number == 0 or number in table.words
        text = "\n" * (lines_of_heads - head.count("\n")) + head
        made.add_column(Text(text), justify="left" if left else "right", overflow="fold", no_wrap=number == 0)
    for row in table.cells:
        made.add_row(*(Text(cell.text, "bold" if cell.bold else "") for cell in row))
    with screen.capture() as written:
        if table.title:
            screen.print(Text(table.title, "bold"), soft_wrap=True)
        screen.print(made)
        if table.note:
            screen.print(Text(f"\n{table.note}"), soft_wrap=True)
    lines = written.get().splitlines()
    return "".join(f"{line if screen.is_terminal else line.rstrip()}\n" for line in lines)


def _text(value: Any) -> str:
    if isinstance(value, str | bool):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else short_repr(value)
