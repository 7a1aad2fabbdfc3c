"""The options of the readers with their defaults."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import get_args

import numpy as np

from desim.exceptions import InvalidConfiguration
from desim.workloads.selection import TooWide, ZeroRunTime

__all__ = ["Rules"]


@dataclass(frozen=True)
class Rules:
    """The options of a reader with their defaults, checked.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range; the message names the option and the value.

    See Also
    --------
    desim.workloads.selection.TraceOptions : the meaning of each option.
    """

    zero_run_time: ZeroRunTime = "keep"
    max_cores: int | None = None
    too_wide: TooWide = "drop"
    min_cores: int = 1
    statuses: Collection[int] | None = None
    users: Collection[int] | None = None
    queues: Collection[int] | None = None
    partitions: Collection[int] | None = None
    window: tuple[float, float] | None = None
    shift: bool = False
    max_jobs: int | None = None

    def __post_init__(self) -> None:
        """Check every option."""
        for name, choices in (("zero_run_time", get_args(ZeroRunTime)), ("too_wide", get_args(TooWide))):
            if getattr(self, name) not in choices:
                raise InvalidConfiguration(f"{name} is {getattr(self, name)!r}, want one of {choices}")
        for name in ("max_cores", "min_cores", "max_jobs"):
            number = getattr(self, name)
            if number is not None and not number >= 1:
                raise InvalidConfiguration(f"{name} is {number!r}, want at least 1")
        for name in ("statuses", "users", "queues", "partitions"):
            wanted = getattr(self, name)
            if wanted is not None and not (isinstance(wanted, Collection) and all(map(_is_whole, wanted))):
                raise InvalidConfiguration(f"{name} is {wanted!r}, want a collection of whole numbers such as {{1, 2}}")
        if self.window is not None:
            start, end = self.window
            if math.isnan(start) or not start < end:
                raise InvalidConfiguration(f"window is {self.window!r}, want a start before its end")


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
