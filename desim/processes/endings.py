"""Ends of a run: processes that go on no longer than the jobs, and one that ends a run before they are done."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import simpy

from desim.checks import check_int

__all__ = ["in_background", "stop_after"]

Made = TypeVar("Made", bound=Callable[..., Any])


def in_background(process: Made) -> Made:
    """Mark a process that goes on for as long as there are jobs, and keeps no run alive."""
    process.background = True  # type: ignore[attr-defined]
    return process


def stop_after(event: str, count: int) -> Callable[[Any], Generator[simpy.Event, Any, None]]:
    """Return a process that ends a run when something has happened for a number of times.

    An episode of the DBF paper ends with its 1,000th start, for example, although jobs are queued and more
    would arrive. Such a run is ``truncated``.

    Parameters
    ----------
    event : str
        One of the events of the problem, such as ``"start"``.
    count : int
        The run ends with the count-th of these events, at least 1.

    Returns
    -------
    callable
        To be passed to a problem in ``processes=[...]``.

    Raises
    ------
    InvalidConfiguration
        If the count is no whole number of at least 1; when the problem is bound, if it has no such event.

    Examples
    --------
    >>> from desim.agents.batch import FCFS
    >>> from desim import simulate
    >>> from desim.problems.batch import BatchCluster, Job
    >>> jobs = [Job(number, 10.0 * number, 1, 5.0, 5.0) for number in range(9)]
    >>> result = simulate(BatchCluster(jobs, 1, processes=[stop_after("start", 3)]), FCFS())
    >>> result.info["end_time"], result.jobs["status"].to_list()
    (20.0, ['completed', 'completed', 'running'])
    """
    check_int("count", count, least=1)

    def run(problem: Any) -> Generator[simpy.Event, Any, None]:
        """Count, and end the run in time."""
        left = count

        def count_down(time: float, subject: Any) -> None:
            """Count one event."""
            nonlocal left
            left -= 1
            if left == 0:
                problem.simulation.stop(truncated=True)

        problem.on(event, count_down)  # at once: a process begins with time, and may miss what happens at 0
        return _nothing()

    return in_background(run)


def _nothing() -> Generator[simpy.Event, Any, None]:
    yield from ()
