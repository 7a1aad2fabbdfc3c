"""Which rows of a workload file become jobs: the options that all readers share."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, TypedDict, get_args

from desim.exceptions import InvalidConfiguration

__all__ = ["Rules", "TraceOptions"]

ZeroRunTime = Literal["keep", "drop"]
TooWide = Literal["keep", "drop", "error"]


class TraceOptions(TypedDict, total=False):
    """Keyword arguments of the readers; each may be left out.

    Attributes
    ----------
    zero_run_time : {"keep", "drop"}
        What to do with jobs of run time 0. Default ``"keep"``.
    max_cores : int or None
        The widest job that fits; None, the default, sets no limit.
    too_wide : {"drop", "keep", "error"}
        What to do with jobs of more than `max_cores` cores. Default ``"drop"``.
    min_cores : int
        Narrower jobs are filtered out. Default 1.
    statuses, users, queues, partitions : collection of int or None
        Keep only the rows whose status, user, queue or partition is among these. Default None: any.
    window : (float, float) or None
        Keep only the jobs submitted at or after the first and before the second time, in seconds of
        the file's clock. Default None: all.
    shift : bool
        Move all submission times so that the first job that is kept enters at time 0. Default False.
    max_jobs : int or None
        Stop behind this many kept jobs, in the order of the file. Default None: no limit.
    """

    zero_run_time: ZeroRunTime
    max_cores: int | None
    too_wide: TooWide
    min_cores: int
    statuses: Collection[int] | None
    users: Collection[int] | None
    queues: Collection[int] | None
    partitions: Collection[int] | None
    window: tuple[float, float] | None
    shift: bool
    max_jobs: int | None


@dataclass(frozen=True)
class Rules:
    """The options of a reader with their defaults, checked.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range; the message names the option and the value.

    See Also
    --------
    TraceOptions : the meaning of each option.
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
    return isinstance(value, Integral) and not isinstance(value, bool)
