"""Processes that go on for as long as there are jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["in_background"]

Made = TypeVar("Made", bound=Callable[..., Any])


def in_background(process: Made) -> Made:
    """Mark a process that goes on for as long as there are jobs, and no longer."""
    process.background = True  # type: ignore[attr-defined]
    return process
