"""Ends of runs: background processes, which do not keep a run alive, and a process that ends a run early."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import simpy

from desim.checks import check_int

__all__ = ["in_background", "stop_after"]

Made = TypeVar("Made", bound=Callable[..., Any])


def in_background(process: Made) -> Made:
    """Mark a process as a background process, which does not keep a run alive after the last job."""
    process.background = True  # type: ignore[attr-defined]
    return process


def stop_after(event: str, count: int) -> Callable[[Any], Generator[simpy.Event, Any, None]]:
    """Return a process that ends a run after a given number of events.

    An episode of the DBF paper, for example, ends with its 1,000th start, although jobs are queued and more
    would arrive. Such a run has status ``truncated``.

    Parameters
    ----------
    event : str
        Name of an event of the problem, such as ``"start"``.
    count : int
        Number of events after which the run ends, at least 1.

    Returns
    -------
    callable
        Process to pass to a problem in ``processes=[...]``.

    Raises
    ------
    InvalidConfiguration
        If the count is not an integer >= 1; when the problem is bound, if it has no such event.

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
        """Count events, and end the run after the last one."""
        left = count

        def count_down(time: float, subject: Any) -> None:
            """Count one event."""
            nonlocal left
            left -= 1
            if left == 0:
                problem.simulation.stop(truncated=True)

        problem.on(event, count_down)  # not inside the process, which starts too late for events at time 0
        return _nothing()

    return in_background(run)


def _nothing() -> Generator[simpy.Event, Any, None]:
    yield from ()
