"""What is assigned to one executor, and when it is expected to run."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter, itemgetter

from desim.problems.dag.copies import Copy

__all__ = ["Timetable"]


class Timetable:
    """The copies of one executor that run or wait, in order, with the idle times between them; live, do not change it.

    Attributes
    ----------
    running : Copy or None
        What runs now.
    waiting : list of Copy
        What comes next, in order; expected starts and finishes are those of the copies.
    gaps : list of (float, float)
        Idle times before waiting copies as (begin, end), in seconds, in order.
    free_since : float
        When the executor last became free, or came back from an outage, in seconds.
    """

    __slots__ = ("free_since", "gaps", "running", "waiting")

    def __init__(self) -> None:
        self.running: Copy | None = None
        self.waiting: list[Copy] = []
        self.gaps: list[tuple[float, float]] = []
        self.free_since = 0.0

    def finish_before(self, position: int) -> float:
        """Return when what comes before a position of the queue is expected to have finished, in seconds."""
        if position:
            return self.waiting[position - 1].finish
        return self.free_since if self.running is None else self.running.finish

    def earliest_gap(self, ready: float, duration: float) -> tuple[float, int] | None:
        """Find the first idle time before a waiting copy that something fits into.

        Parameters
        ----------
        ready : float
            Earliest start, not before now, in seconds.
        duration : float
            In seconds.

        Returns
        -------
        (float, int) or None
            The start in seconds and the position in the queue; None if it fits into no gap.
        """
        gaps = self.gaps
        for index in range(bisect_left(gaps, ready + duration, key=_end), len(gaps)):
            begin, end = gaps[index]
            start = begin if begin > ready else ready
            if start < end and start + duration <= end:  # at the end itself, others may be that take no time
                return start, bisect_left(self.waiting, end, key=_start)
        return None


_end = itemgetter(1)
_start = attrgetter("start")
