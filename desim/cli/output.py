"""Output of commands: tables and JSON on standard output, progress and notes on standard error."""

from __future__ import annotations

import json
import math
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from html import escape
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Text", "command_line", "plain", "print_json", "print_note", "print_table", "print_text", "progress"]

#: Width of text that is not for a terminal: never wrapped or cut.
ENDLESS = 100_000
#: Seconds between two drawings of a progress bar in a notebook.
BETWEEN_DRAWINGS = 0.2


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
    console = _console(sys.stdout)
    with console.capture() as written:
        console.print(table)
    lines = written.get().splitlines()
    print("\n".join(lines if console.is_terminal else [line.rstrip() for line in lines]) + "\n")  # noqa: T201


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

    _console(sys.stdout).print(RichText(text, style), soft_wrap=True)


def print_note(text: str) -> None:
    """Print a note that is not part of the result on standard error.

    Parameters
    ----------
    text : str
        One line.
    """
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def print_json(document: Any) -> None:
    """Print a document as JSON.

    Parameters
    ----------
    document : object
        Any value that :func:`plain` accepts.
    """
    print(json.dumps(plain(document), indent=2, allow_nan=False))  # noqa: T201


def plain(value: Any) -> Any:
    """Return a value converted to types that JSON has.

    Parameters
    ----------
    value : object
        Numbers, strings, mappings, sequences, dataclasses and paths, nested at will.

    Returns
    -------
    object
        The converted value; numbers that are not finite become None.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return fspath(value) if isinstance(value, PathLike) else value


def command_line() -> str | None:
    """Return the command line that started this program; None if the program is not ``desim``."""
    program = Path(sys.argv[0])
    is_ours = program.stem == "desim" or program.parts[-2:] == ("desim", "__main__.py")
    return shlex.join(["desim", *sys.argv[1:]]) if is_ours else None


@contextmanager
def progress(title: str, total: int | None, unit: str) -> Iterator[Callable[[int], None] | None]:
    """Show a progress bar on the terminal, or below the notebook cell, while the block runs.

    Parameters
    ----------
    title : str
        Label of the bar.
    total : int or None
        Number of steps, if known.
    unit : str
        Unit of a step, in the plural.

    Yields
    ------
    callable or None
        Function to call with the number of steps done; None if there is neither a terminal nor a notebook.
    """
    if _is_notebook():
        with _notebook_bar(title, total, unit) as advance:
            yield advance
        return
    console = _console(sys.stderr)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    count = f"{{task.completed:,.0f}}{f' / {total:,}' if total else ''} {unit}"
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn(count), TimeElapsedColumn())
    left = (TimeRemainingColumn(),) if total else ()
    with Progress(*columns, *left, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


def _is_notebook() -> bool:
    """Return whether this program runs in a notebook kernel, which displays output."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def _notebook_bar(title: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Show a progress bar in the output of a cell, redrawn a few times per second; finally show the time taken."""
    display = sys.modules["IPython"].display
    begin = last = time.monotonic()
    done = 0

    def shown(bar: str) -> Any:
        count = f"{done:,}{f' / {total:,}' if total else ''} {unit}, {time.monotonic() - begin:.0f} s"
        return display.HTML(f"{escape(title)} {bar} {escape(count)}")

    def draw() -> Any:
        return shown(f"<progress{f' max={total} value={done}' if total else ''}></progress>")

    def advance(steps: int) -> None:
        nonlocal done, last
        done = steps
        if time.monotonic() - last >= BETWEEN_DRAWINGS:
            last = time.monotonic()
            handle.update(draw())

    handle = display.display(draw(), display_id=True)
    try:
        yield advance
    finally:
        handle.update(shown("-"))


def _console(file: Any) -> Console:
    from rich.console import Console

    console = Console(file=file, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = ENDLESS
    return console
