"""How objects show themselves at a prompt and in a notebook: in a line, and as a small table."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence, Sized
from html import escape
from typing import Any

from desim.checks import short_repr

__all__ = ["NamedRepr", "Summarized", "arguments_of", "html_rows", "html_table"]


class Summarized:
    """Mixin of objects that show a few facts instead of all that is in them."""

    def summary(self) -> Mapping[str, Any]:
        """Return what is to be shown, by name; plain values."""
        return {}

    def __repr__(self) -> str:
        """Return the facts in a line."""
        facts = ", ".join(f"{name}={short_repr(value)}" for name, value in self.summary().items())
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        """Return the facts as a table, for notebooks."""
        return html_table(type(self).__name__, self.summary())


class NamedRepr:
    """Mixin of agents: they show their class, and the name that makes them again."""

    def __repr__(self) -> str:
        """Return class and name in a line."""
        name = getattr(self, "name", None)  # one that is being made may have none yet
        return f"<{type(self).__name__}>" if name is None else f"<{type(self).__name__} {name!r}>"

    def _repr_html_(self) -> str:
        """Return the same for notebooks."""
        return f"<code>{escape(repr(self))}</code>"


def arguments_of(made: object, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an object that were not left at their defaults, with the size of what holds many.

    Parameters
    ----------
    made : object
        What was made.
    values : mapping
        Values of the arguments by name, as far as they are known; attributes stand for others.

    Returns
    -------
    dict
        In the order of the arguments.
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
    """How many there are of something that is not shown.

    Parameters
    ----------
    number : int or None
        None if nobody knows.
    """

    def __init__(self, number: int | None) -> None:
        self.number = number

    def __repr__(self) -> str:
        """Return it in brackets that stand for a list."""
        return "..." if self.number is None else f"[{self.number:,}]"


def html_table(title: str, facts: Mapping[str, Any], rows: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """Return a table for notebooks.

    Parameters
    ----------
    title : str
        Its heading.
    facts : mapping
        Plain values by name, a row each.
    rows : mapping of str to mapping, optional
        Another table below: cells by heading, a row each.

    Returns
    -------
    str
        HTML without style of its own.
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
    """Return a table of rows for notebooks.

    Parameters
    ----------
    title : str
        Its heading.
    heads : sequence of str
        Headings of the columns.
    rows : sequence of sequence of str
        Cells, of which the first names its row.
    note : str
        What stands below.

    Returns
    -------
    str
        HTML without style of its own.
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


def _text(value: Any) -> str:
    if isinstance(value, str | bool):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else short_repr(value)
