"""Notes and progress of long work on standard error, and values as JSON has them."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from html import escape
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "plain", "print_note", "progress"]

#: Width of text that is not for a terminal: never wrapped or cut.
ENDLESS = 100_000
#: Seconds between two drawings of a progress bar in a notebook.
BETWEEN_DRAWINGS = 0.2


def print_note(text: str) -> None:
    """Print a note that is not part of the result on standard error.

    Parameters
    ----------
    text : str
        One line.
    """
    print(text, file=sys.stderr, flush=True)  # noqa: T201


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
    screen = console(sys.stderr)
    if not screen.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    count = f"{{task.completed:,.0f}}{f' / {total:,}' if total else ''} {unit}"
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn(count), TimeElapsedColumn())
    left = (TimeRemainingColumn(),) if total else ()
    with Progress(*columns, *left, console=screen, transient=True) as bar:
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


def console(file: Any) -> Console:
    """Return a console of Rich on a file, which wraps lines on a terminal only."""
    from rich.console import Console

    screen = Console(file=file, highlight=False, markup=False, emoji=False)
    if not screen.is_terminal:
        screen.width = ENDLESS
    return screen
