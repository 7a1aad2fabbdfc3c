"""Which rows of a workload file become jobs: the options that all readers share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypedDict

__all__ = ["TraceOptions"]

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
