"""Modules whose code Python has executed since desim was imported, with the states of their files at that time.

A file may change after its module was loaded. The identity of a run depends on whether it has.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

__all__ = ["executed", "importing"]

executed: dict[str, os.stat_result] = {}
"""States of module files when their code was executed, by path."""


def _importing(frame: FrameType | None) -> dict[str, CodeType]:
    found = {}
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            found[frame.f_code.co_filename] = frame.f_code
        frame = frame.f_back
    return found


importing = _importing(sys._getframe())
"""Code of the modules that were being executed when desim was imported, by path."""


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    """Note the state of a file whose code is about to be executed as a module."""
    if event == "exec" and getattr(arguments[0], "co_name", "") == "<module>":
        with suppress(OSError, ValueError):
            executed[arguments[0].co_filename] = os.stat(arguments[0].co_filename)  # noqa: PTH116 - for speed


sys.addaudithook(_hear)
