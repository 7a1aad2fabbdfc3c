"""How far many runs have come: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from desim.cli.output import progress, remark

__all__ = ["duration", "runs_progress"]

#: Seconds from one line to the next.
PERIOD = 30.0


@contextmanager
def runs_progress(
    title: str, total: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int, int], None]]:
    """Tell how far runs have come while the block runs.

    Parameters
    ----------
    title : str
        What they are for.
    total : int
        How many there are.
    clock : callable
        Returns the time in seconds.

    Yields
    ------
    callable
        To be called with the number of runs that have ended and the number of those among them that have failed.
    """
    begin = last = clock()

    def tell(ended: int, failed: int) -> None:
        """Say it if it is time again."""
        nonlocal last
        now = clock()
        if now - last >= PERIOD and 0 < ended < total:
            last = now
            failures = f", {failed} failed" if failed else ""
            left = duration((now - begin) / ended * (total - ended))
            remark(f"{title}: {ended} of {total} runs{failures}, about {left} left")

    with progress(title, total, "runs") as advance:
        yield tell if advance is None else lambda ended, failed: advance(ended)


def duration(seconds: float) -> str:
    """Return a duration in words.

    Parameters
    ----------
    seconds : float
        How long it is.

    Returns
    -------
    str
        Such as ``"40 s"``, ``"12 min"`` or ``"3.5 h"``.
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
