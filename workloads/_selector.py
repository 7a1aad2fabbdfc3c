"""Apply the rules of a reader to blocks of rows and keep the books."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job
from desim.workloads._columns import Columns
from desim.workloads._rules import Rules
from desim.workloads.report import Reason, RepairReport

__all__ = ["Selector", "SubmitOrder", "collect", "shifted"]

Mask = NDArray[np.bool_]
SubmitOrder = Literal["sort", "error"]


class SeenNumbers:
    """All job numbers given out so far.

    Numbers that come in increasing order, as in nearly every log, are kept as runs without gaps;
    only the others are remembered one by one. The memory follows the gaps, not the jobs.
    """

    def __init__(self) -> None:
        self._first: list[int] = []
        self._last: list[int] = []
        self._late: set[int] = set()

    def extend(self, numbers: NDArray[np.int64]) -> bool:
        """Add numbers that increase and lie above all seen; otherwise do nothing and return False."""
        gaps = np.diff(numbers)
        if (gaps < 1).any() or (self._last and numbers[0] <= self._last[-1]):
            return False
        cuts = np.flatnonzero(gaps > 1)
        first, last = numbers[np.r_[0, cuts + 1]].tolist(), numbers[np.r_[cuts, len(numbers) - 1]].tolist()
        if self._last and first[0] == self._last[-1] + 1:
            self._last[-1] = last.pop(0)
            first.pop(0)
        self._first += first
        self._last += last
        return True

    def claim(self, number: int) -> int:
        """Add one number and return it, or the largest number so far + 1 if it was seen before."""
        if not self._last or number > self._last[-1]:
            self._first.append(number)
            self._last.append(number)
            return number
        run = bisect_right(self._first, number) - 1
        if number in self._late or (run >= 0 and number <= self._last[run]):
            self._last[-1] += 1
            return self._last[-1]
        self._late.add(number)
        return number


class Selector:
    """Turns blocks of rows into blocks of jobs, in the order of the file.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    rules : Rules
        What to drop and what to change.
    report : RepairReport
        Where to count.
    unsorted : {"error", "sort"}
        Whether a submit time below an earlier one is an error, or only counted.
    """

    def __init__(self, source: str, rules: Rules, report: RepairReport, unsorted: SubmitOrder = "error") -> None:
        if unsorted not in get_args(SubmitOrder):
            raise InvalidConfiguration(f"unsorted is {unsorted!r}, want one of {get_args(SubmitOrder)}")
        self.source, self.rules, self.report, self.unsorted = source, rules, report, unsorted
        self._numbers = SeenNumbers()
        self._latest = 0.0

    @property
    def full(self) -> bool:
        """Whether as many jobs were kept as are wanted."""
        return self.rules.max_jobs is not None and self.report.jobs >= self.rules.max_jobs

    def feed(self, rows: Columns) -> Columns:
        """Drop, repair and count the rows of one block.

        Parameters
        ----------
        rows : Columns
            Rows that follow those of the calls before.

        Returns
        -------
        Columns
            The rows that are jobs, fit to be made into Job objects.

        Raises
        ------
        WorkloadError
            For a job that is too wide or out of order where the rules make that an error.
        """
        drops = [(reason, mask) for reason, mask in self._drops(rows) if mask.any()]
        keep = ~np.logical_or.reduce([mask for _, mask in drops]) if drops else np.ones(len(rows), dtype=np.bool_)
        if self.rules.max_jobs is not None:
            kept = np.flatnonzero(keep)
            wanted = self.rules.max_jobs - self.report.jobs
            if len(kept) > wanted:
                rows = rows.take(slice(int(kept[wanted - 1]) + 1))
        keep = keep[: len(rows)]
        self._count(rows, drops)
        chosen = rows.take(keep)
        self.report.rows += len(rows)
        self.report.jobs += len(chosen)
        return self._repair(chosen) if len(chosen) else chosen

    def finish(self) -> None:
        """Check that there is any job at all.

        Raises
        ------
        WorkloadError
            If not one row became a job.
        """
        if not self.report.jobs:
            why = f"; dropped: {self.report.summary()}" if self.report.rows else ""
            raise WorkloadError(f"{self.source}: no usable job in {self.report.rows} rows{why}")

    def _drops(self, rows: Columns) -> Iterator[tuple[Reason, Mask]]:
        rules = self.rules
        parts = [status for status in (2, 3, 4) if rules.statuses is None or status not in rules.statuses]
        yield Reason.PARTIAL_EXECUTION, np.isin(rows.status, parts)
        yield Reason.CANCELLED, (rows.status == 5) & ((rows.run_time <= 0) | (rows.cores < 1))
        yield Reason.NEGATIVE_SUBMIT, rows.submission_time < 0
        yield Reason.UNKNOWN_CORES, rows.cores < 1
        yield Reason.UNKNOWN_RUN_TIME, rows.run_time < 0
        if rules.zero_run_time == "drop":
            yield Reason.ZERO_RUN_TIME_DROPPED, rows.run_time == 0
        yield Reason.FILTERED, rows.cores < rules.min_cores
        for values, wanted in (
            (rows.status, rules.statuses),
            (rows.user, rules.users),
            (rows.queue, rules.queues),
            (rows.partition, rules.partitions),
        ):
            if wanted is not None:
                yield Reason.FILTERED, ~np.isin(values, list(wanted))
        if rules.window is not None:
            start, end = rules.window
            yield Reason.FILTERED, (rows.submission_time < start) | (rows.submission_time >= end)
        if rules.max_cores is not None and rules.too_wide != "keep":
            yield Reason.TOO_WIDE, rows.cores > rules.max_cores

    def _count(self, rows: Columns, drops: list[tuple[Reason, Mask]]) -> None:
        undecided = np.ones(len(rows), dtype=np.bool_)
        for reason, mask in drops:
            hit = mask[: len(rows)] & undecided
            if reason is Reason.TOO_WIDE and self.rules.too_wide == "error" and hit.any():
                self._refuse_width(rows.take(hit))
            self.report.add(reason, rows.place[hit])
            undecided &= ~hit

    def _repair(self, rows: Columns) -> Columns:
        note = self.report.add
        unknown = rows.requested_time <= 0
        requested = np.where(unknown, rows.run_time, rows.requested_time)
        note(Reason.ASSUMED_CORES, rows.place[rows.assumed_cores])
        note(Reason.ASSUMED_REQUESTED_TIME, rows.place[unknown])
        note(Reason.ZERO_RUN_TIME, rows.place[rows.run_time == 0])
        note(Reason.OVERRUN, rows.place[rows.run_time > requested])
        if self.rules.max_cores is not None:
            note(Reason.WIDER_THAN_MAX, rows.place[rows.cores > self.rules.max_cores])
        self._check_order(rows)
        return replace(rows, job_id=self._number(rows), requested_time=requested)

    def _check_order(self, rows: Columns) -> None:
        latest = np.maximum.accumulate(np.r_[self._latest, rows.submission_time])
        early = rows.submission_time < latest[:-1]
        self._latest = float(latest[-1])
        if not early.any():
            return
        if self.unsorted == "error":
            at = int(np.argmax(early))
            raise WorkloadError(
                f"{self.source}: {self.report.locate(rows.place[at])}: submit time {rows.submission_time[at]:.15g} "
                f"lies before the {latest[at]:.15g} of an earlier row; only read(..., unsorted='sort') accepts that"
            )
        self.report.add(Reason.OUT_OF_ORDER, rows.place[early])

    def _number(self, rows: Columns) -> NDArray[np.int64]:
        if self._numbers.extend(rows.job_id):
            return rows.job_id
        numbers = np.array([self._numbers.claim(number) for number in rows.job_id.tolist()], dtype=np.int64)
        self.report.add(Reason.RENUMBERED, rows.place[numbers != rows.job_id])
        return numbers

    def _refuse_width(self, rows: Columns) -> None:
        raise WorkloadError(
            f"{self.source}: {self.report.locate(rows.place[0])}: job {rows.job_id[0]} needs "
            f"{rows.cores[0]:.0f} cores, more than max_cores={self.rules.max_cores}"
        )


def shifted(blocks: Iterable[Columns], shift: bool) -> Iterator[Columns]:
    """Move the submission times of sorted blocks so that the first job enters at time 0.

    Parameters
    ----------
    blocks : iterable of Columns
        Sorted by submission time.
    shift : bool
        Whether to move them at all.

    Yields
    ------
    Columns
        The blocks that are not empty.
    """
    origin: float | None = None
    for block in blocks:
        if len(block):
            if origin is None:
                origin = float(block.submission_time[0]) if shift else 0.0
            yield replace(block, submission_time=block.submission_time - origin)


def collect(blocks: Iterable[Columns], shift: bool) -> list[Job]:
    """Gather all jobs in the order of their submission.

    Parameters
    ----------
    blocks : iterable of Columns
        What a `Selector` let through; at least one row in all.
    shift : bool
        Whether the first job moves to time 0.

    Returns
    -------
    list of Job
        Sorted by submission time; equal times keep the order of the file.
    """
    rows = Columns.concatenate(list(blocks))
    rows = rows.take(np.argsort(rows.submission_time, kind="stable"))
    return [job for block in shifted([rows], shift) for job in block.jobs()]
