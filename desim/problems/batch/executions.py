"""Executions of a job: what the interrupted ones have done, and all executions of a run as one table.

A job has one execution from each start or resumption to its completion, interruption or suspension. The job table holds
the last execution of each job, the table of interruptions all earlier ones, so that no execution is recorded twice.
:func:`executions` joins them. Waiting, slowdown and waste are defined over executions, in the same way for jobs that
are requeued, resume from checkpoints, are suspended or lost:

* ``earlier_execution_time`` is the duration of all executions but the last.
* ``waiting_time`` is the time from submission to the last start, except while the job ran.
* ``useful_execution_time`` is the execution time whose work no later interruption has taken away.
* The rest of the execution time is rework: turnaround time = waiting time + useful execution time + rework. The rules
  ``derived_times``, ``finish_time`` and ``work`` together check this identity.
* The slowdown is the turnaround time over the useful execution time.

Work is counted in seconds at speed 1, that of the run time with which the job was submitted. An execution that begins
with ``work_before`` and runs for t seconds at speed v has done x = ``work_before`` + v t. Of it, ``work_after`` is
kept: all if the job is suspended; none if it is lost, or requeued without checkpoints; with a checkpoint every T
seconds, the work at the last restart plus v T floor(u / T), where u is the time that the job ran since that restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from desim.problems.batch.execution import Execution

    Keeps = Callable[[Execution, float], float]

__all__ = ["executions", "with_kept_time"]


class PastExecutions:
    """What the interrupted executions of a job that is still in the system have done.

    Attributes
    ----------
    count : int
        Number of executions.
    length : float
        Their total duration in seconds.
    saved : float
        Work that checkpoints have saved, in seconds on the nodes where the job ran last; not known to agents.
    """

    __slots__ = ("_kept", "_restart_work", "_run_time", "_since_restart", "count", "length", "saved")

    def __init__(self) -> None:
        self.count = 0
        self.length = self.saved = 0.0
        self._kept = 0.0  # seconds before the last restart that no later interruption can take away
        self._restart_work = 0.0  # work with which the job last began anew or from a checkpoint
        self._run_time = 0.0  # of the job, where it ran last
        self._since_restart: list[tuple[float, float, float, float]] = []  # work before and done, speed and duration

    def cut(
        self, execution: Execution, now: float, outcome: str, speed: float, keeps: Iterable[Keeps]
    ) -> tuple[float, float]:
        """Add an execution that ends early.

        Parameters
        ----------
        execution : Execution
            Execution that ends.
        now : float
            Current time in seconds.
        outcome : {"requeued", "lost", "preempted", "suspended"}
            What happens to the job.
        speed : float
            Seconds of work per second.
        keeps : iterable of callable
            Methods :meth:`Part.keeps`, of which the one that keeps most counts.

        Returns
        -------
        (float, float)
            Work at the start of the execution and work that is kept, in seconds at speed 1.
        """
        length = now - execution.starting_time
        before = self._restart_work + speed * execution.done
        reached = before + speed * length
        self.count += 1
        self.length += length
        self._run_time = execution.job.run_time
        self._since_restart.append((before, reached, speed, length))
        if outcome == "suspended":
            return before, reached
        if outcome == "lost":
            return before, 0.0
        if worked := max((kept(execution, execution.done + length) for kept in keeps), default=0.0):
            self.saved += worked
            self._restart_work += speed * worked
        self._kept += sum(_kept_time(*one, self._restart_work) for one in self._since_restart)
        self._since_restart.clear()
        return before, self._restart_work

    def move(self, run_time: float) -> None:
        """Convert saved work to other nodes, on which the job has the given run time in seconds."""
        if self.saved:
            self.saved = min(run_time, self.saved * (run_time / self._run_time))

    def useful(self) -> float:
        """Return the seconds of the executions whose work is kept if the job finishes now."""
        return self._kept + sum(length for *_, length in self._since_restart)


NO_PAST = PastExecutions()
"""Past of a job that was never interrupted."""


def _kept_time(before: float, reached: float, speed: float, length: float, kept: float) -> float:
    """Return the seconds of an execution whose work is kept.

    Parameters
    ----------
    before, reached : float
        Work at its start and at its end, in seconds at speed 1.
    speed : float
        Seconds of work per second.
    length : float
        Duration in seconds.
    kept : float
        Work that was kept at its end or, if less, at any later interruption.
    """
    return length if kept >= reached else max(kept - before, 0.0) / speed


def with_kept_time(interruptions: pl.DataFrame) -> pl.DataFrame:
    """Add to interruptions the seconds of each execution whose work no later interruption took away.

    Parameters
    ----------
    interruptions : polars.DataFrame
        Table of interruptions, or at least its times, speeds, amounts of work and arrival numbers.

    Returns
    -------
    polars.DataFrame
        The rows in their order, with the column ``kept_time``.
    """
    import polars as pl

    before, speed = pl.col("work_before"), pl.col("speed")
    length = pl.col("finish_time") - pl.col("starting_time")
    least = pl.col("work_after").reverse().cum_min().reverse().over("arrival_number")
    kept = pl.when(least >= before + speed * length).then(length).otherwise((least - before).clip(0) / speed)
    return interruptions.with_columns(kept_time=kept)


def executions(jobs: pl.DataFrame, interruptions: pl.DataFrame, end: float) -> pl.DataFrame:
    """Return all executions of a run.

    Parameters
    ----------
    jobs, interruptions : polars.DataFrame
        Tables of a batch run; of ``jobs``, at least the times and cores of the last execution, ``status`` and
        ``arrival_number``.
    end : float
        End of the run in seconds, used as the finish time of jobs that are still running.

    Returns
    -------
    polars.DataFrame
        One row per execution, by start: the columns of ``jobs``, ``cut`` and ``resumed`` (bool). After an interruption,
        the status of the execution is its outcome, for instance ``requeued``, even if the job ran again later. ``cut``
        marks executions whose work may have been lost, which suspended executions do not; ``resumed`` those before
        which the job was suspended, not queued.
    """
    import polars as pl

    own = ("starting_time", "finish_time", "allocated_resources")
    last = jobs.filter(pl.col("starting_time").is_not_null()).with_columns(
        pl.col("finish_time").fill_null(end), pl.col("status").cast(pl.String), cut=pl.col("status") == "lost"
    )
    outcome = pl.col("outcome").cast(pl.String)
    if interruptions.is_empty():
        ran = last.sort("starting_time", "job_id", maintain_order=True)
        return ran.with_columns(resumed=pl.lit(False))
    cut = interruptions.filter(outcome != "lost").select("arrival_number", *own, outcome, cut=outcome != "suspended")
    cut = cut.join(jobs.drop(own), on="arrival_number").with_columns(status="outcome")
    ran = pl.concat([last, cut.select(last.columns)]).sort("starting_time", "job_id", maintain_order=True)
    return ran.with_columns(resumed=pl.col("status").shift().over("arrival_number").eq_missing("suspended"))
