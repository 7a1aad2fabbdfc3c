"""What is printed, kept as it is handed over: so that a report shows the tables that the terminal has shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["keep", "transcript"]

_OPEN: ContextVar[list[dict[str, Any]] | None] = ContextVar("transcript", default=None)


@contextmanager
def transcript() -> Iterator[list[dict[str, Any]]]:
    """Keep what the block prints.

    Yields
    ------
    list of dict
        Grows while the block runs: one entry in plain values for each call of :func:`keep`, with its ``kind``.
    """
    kept: list[dict[str, Any]] = []
    before = _OPEN.set(kept)
    try:
        yield kept
    finally:
        _OPEN.reset(before)


@contextmanager
def keep(kind: str, **content: Any) -> Iterator[None]:
    """Keep something if anybody wants it; what the block prints is part of it and not kept once more.

    Parameters
    ----------
    kind : str
        What it is: ``"table"``, ``"text"``, or what a package has besides.
    **content
        In plain values.

    Yields
    ------
    None
        While it is printed.
    """
    kept = _OPEN.get()
    if kept is not None:
        kept.append({"kind": kind, **content})
    before = _OPEN.set(None)
    try:
        yield
    finally:
        _OPEN.reset(before)
