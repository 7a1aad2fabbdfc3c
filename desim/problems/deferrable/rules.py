"""Rules of the cluster for deferrable jobs, checked on the tables ``jobs``, ``slots`` and ``evictions``.

They hold for every kind of eviction, with and without overcommitment and lead time, and for any number of resources.
Times and counts are compared exactly. Sums of amounts and rewards may differ by one part in 1e9, and the amount used
may exceed the capacity by as much without being a violation.

What is not recorded cannot be checked. The capacity is taken as recorded. The order of starts within a slot is unknown,
so the order of evictions among those jobs is not checked. A slot in which the run broke off has no row in the table of
slots. Without a workload, jobs submitted at the beginning of a slot may become known only in the next slot, as do jobs
that a process submits after the slot has begun.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.exceptions import WorkloadError
from desim.validation import (
    Bounds,
    Check,
    Recorded,
    Rule,
    check_totals,
    conservation_rule,
    single_row,
    sums_at,
    sums_from,
)

__all__ = ["RULES"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
IntArray = NDArray[np.int64]

TOLERANCE = 1e-9
"""Excess of the amount used that is no violation, relative to the capacity, or to 1 if the capacity is smaller."""

RELATIVE = 1e-9
"""Relative tolerance for the difference of two sums, due to rounding."""

ABSOLUTE = 1e-9
"""Absolute tolerance for the difference of two sums, for sums near 0."""

SUMMED = 1e-12
"""Tolerance for products, and for sums built by adding and subtracting, relative to the largest value."""

SHORT, TOO_MUCH = 0.5, 2.0
"""Multiples of the tolerance above the capacity from which the amount used justifies an eviction, and from which it
forbids that a job stays."""

LARGEST = 2**53
"""Largest integer up to which floats represent all integers."""

KEY = ["arrival_number", "job_id"]
"""Columns that identify the job of a row; both must match."""

status = pl.col("status").cast(pl.String)
submission = pl.col("submission_time")
first, last, length = pl.col("earliest_start"), pl.col("latest_start"), pl.col("requested_time")
start, finish, eviction = pl.col("starting_time"), pl.col("finish_time"), pl.col("eviction_time")
due = start + length


# -- end of a run --------------------------------------------------------------------------------


def _is_complete(run: Recorded) -> bool:
    return bool(run.info["status"] == "complete")


def _is_cut(run: Recorded) -> bool:
    """Return whether the run ended because of ``until``; events at that time are not part of it."""
    return _is_complete(run) and run.info["until"] is not None and run.end_time >= run.info["until"]


def _is_drained(run: Recorded) -> bool:
    """Return whether the run went on until no event was left."""
    return _is_complete(run) and not _is_cut(run) and run.info["num_slots"] is None


def _last_slot(run: Recorded) -> int:
    """Return the last slot in which anything can have happened; a slot that broke off has no row."""
    count = run["slots"].height
    return count if not _is_complete(run) and run.end_time == count else count - 1


HOW = "the {run.info[status]} run ends at {run.end_time}"


# -- jobs ----------------------------------------------------------------------------------------


def _reused(run: Recorded) -> pl.DataFrame:
    """Return the jobs submitted while another job with the same identifier was in the system."""
    gone = pl.when(status == "expired").then(last.cast(pl.Float64)).otherwise(finish.fill_null(math.inf))
    jobs = run["jobs"].with_columns(gone=gone).sort("job_id", "arrival_number")
    before = (pl.col(name).shift().over("job_id").alias(f"{name}_before") for name in ("gone", "submission_time"))
    return jobs.with_columns(before).filter(submission < pl.col("gone_before"))


def _misnumbered(run: Recorded) -> pl.DataFrame:
    jobs = run["jobs"].sort("arrival_number", maintain_order=True)
    return jobs.with_columns(before=submission.shift()).filter(submission < pl.col("before"))


def _too_small(run: Recorded) -> pl.Expr:
    return pl.col(f"requested_{run.info['resources'][0]}") <= 0


def _revenue(run: Recorded) -> pl.DataFrame:
    jobs = run["jobs"].with_columns(worth=pl.col(f"requested_{run.info['resources'][0]}") * length)
    return jobs.filter((pl.col("revenue") - pl.col("worth")).abs() > SUMMED * pl.col("worth").abs())


def _not_in_window(run: Recorded) -> pl.Expr:
    return (start != start.floor()) | (start < first) | (start > last) | (start > _last_slot(run))


def _not_at_once(run: Recorded) -> pl.Expr:
    return pl.lit(run.info["real_time"]) & ((submission != first) | (first != last))


def _running_on(run: Recorded) -> pl.DataFrame:
    ended = due <= run.end_time if _is_complete(run) and not _is_cut(run) else due < run.end_time
    return run["jobs"].with_columns(due=due).filter((status == "running") & (ended | _is_drained(run)))


def _queued_still(run: Recorded) -> pl.Expr:
    return (status == "queued") & ((last < run["slots"].height) | _is_drained(run))


def _after_the_end(column: str, run: Recorded) -> pl.Expr:
    return pl.col(column) >= run.end_time if _is_cut(run) else pl.col(column) > run.end_time


def _number_of_slots(run: Recorded) -> pl.DataFrame:
    """Return a row if the number of slots is wrong; a run that broke off within a slot may have served it."""
    count, end = run["slots"].height, run.end_time
    most = math.ceil(end) if _is_complete(run) else math.floor(end) + 1
    return single_row(not math.ceil(end) <= count <= most, count=count)


def _early_end(run: Recorded) -> pl.DataFrame:
    complete = _is_complete(run) and not _is_cut(run)
    planned = run["slots"].height if _is_drained(run) else run.info["num_slots"]
    return single_row(complete and run.end_time != planned)


# -- evictions -----------------------------------------------------------------------------------


def _cuts(run: Recorded) -> pl.DataFrame:
    """Return the evictions, joined with their jobs where they exist."""
    jobs = run["jobs"].unique("arrival_number", keep="first", maintain_order=True)
    jobs = jobs.select(*KEY, "earliest_start", "latest_start", "requested_time", of_job=status, known=True)
    cuts = run["evictions"].join(jobs, on=KEY, how="left", maintain_order="left")
    return cuts.with_columns(pl.col("known").fill_null(False))


def _impossible_times(run: Recorded) -> pl.Expr:
    return (eviction <= start) | (eviction - start >= length) | (eviction > _last_slot(run))


def _runs(run: Recorded) -> pl.DataFrame:
    """Return the execution of each job from start to end or eviction: first starts that stood, then the others.

    ``row`` is the row of the job table. ``end`` is the first slot in which the job does not run any more, even if that
    is after the end of the simulation.
    """
    jobs = run["jobs"].with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    stood = status.is_in(["completed", "running"]) & (start == start.floor())
    lasted = jobs.filter(stood).select("row", begin=_slot(start), end=_slot(start) + _slot(length), stood=True)
    rows = jobs.unique("arrival_number", keep="first", maintain_order=True).select(*KEY, "row")
    cuts = run.once(_cuts).filter("known").join(rows, on=KEY, how="left", maintain_order="left")
    return pl.concat([lasted, cuts.select("row", begin="starting_time", end="eviction_time", stood=False)])


def _slot(time: pl.Expr) -> pl.Expr:
    """Return a time as an integer slot, clipped so that sums cannot overflow."""
    return time.clip(-(2**60), 2**60).cast(pl.Int64)


def _in_succession(run: Recorded) -> pl.DataFrame:
    return run.once(_runs).sort("row", "begin", "end", maintain_order=True)


def _started_anew(run: Recorded) -> pl.DataFrame:
    """Return the executions that begin before the previous execution of the same job has ended."""
    before = [pl.col(name).shift().over("row").alias(f"{name}_before") for name in ("begin", "end")]
    runs = run.once(_in_succession).with_columns(before).filter(pl.col("begin") < pl.col("end_before"))
    return runs.with_columns(job_id=run["jobs"]["job_id"].gather(runs["row"]))


def _not_the_last(run: Recorded) -> pl.DataFrame:
    """Return the evicted jobs whose recorded end is not the last of their evictions."""
    final = run.once(_in_succession).group_by("row").agg(pl.col("begin", "end").last())
    jobs = run["jobs"].with_row_index("row").with_columns(pl.col("row").cast(pl.Int64)).filter(status == "evicted")
    pairs = jobs.join(final, on="row", how="left", maintain_order="left")
    other = start.ne_missing(pl.col("begin").cast(pl.Float64)) | finish.ne_missing(pl.col("end").cast(pl.Float64))
    return pairs.filter(other & start.is_not_null() & finish.is_not_null())


def _miscounted(run: Recorded) -> pl.DataFrame:
    found = run.once(_cuts).filter("known").group_by(KEY).agg(found=pl.len().cast(pl.Int64))
    jobs = run["jobs"].join(found, on=KEY, how="left", maintain_order="left")
    return jobs.with_columns(pl.col("found").fill_null(0)).filter(pl.col("evictions") != pl.col("found"))


def _outcomes(run: Recorded) -> pl.DataFrame:
    """Return evictions with the wrong outcome: jobs may come back only while their window is open."""
    kind = run.info["eviction"]
    lost = (pl.col("of_job") == "evicted") & (eviction == eviction.max().over("arrival_number"))
    closed = last < eviction if kind == "restarted" else pl.lit(True)
    fate = pl.when("lost").then(pl.lit("was lost")).otherwise(pl.lit("came back"))
    cuts = run.once(_cuts).filter("known").with_columns(lost=lost)
    expected = "no eviction" if kind == "never" else kind
    return cuts.filter((pl.col("lost") != closed) | (kind == "never")).with_columns(
        fate=fate, expected=pl.lit(expected)
    )


# -- columns of the slots, computed from the other tables -----------------------------------------


def _matrix(run: Recorded, table: str, kind: str) -> Floats:
    """Return the columns of a kind, one per resource."""
    return run[table].select(f"{kind}_{name}" for name in run.info["resources"]).cast(pl.Float64).to_numpy()


class _Amounts(NamedTuple):
    """Amounts of the slots and of the jobs, one column per resource, and the tolerated excess."""

    capacity: Floats
    used: Floats
    violation: Floats
    requests: Floats
    tolerance: Floats
    excess: Floats


def _amounts(run: Recorded) -> _Amounts:
    capacity, used, violation = (_matrix(run, "slots", kind) for kind in ("capacity", "used", "violation"))
    tolerance = TOLERANCE * np.maximum(np.abs(capacity), 1.0)
    requests = _matrix(run, "jobs", "requested")
    return _Amounts(capacity, used, violation, requests, tolerance, np.maximum(used - capacity, 0.0))


def _expected(run: Recorded) -> dict[str, Bounds]:
    """Return the columns of the slots as computed from the other tables."""
    return _of_known(run) | _of_events(run) | _of_rewards(run)


def _count(found: IntArray, late: IntArray | int = 0) -> Bounds:
    return Bounds(found, found - late, found)


def _sum(
    run: Recorded, column: str, found: Floats, at_most: Mask | bool = False, slack: Floats | float = 0.0
) -> Bounds:
    """Return the bounds of a sum; if it is only known to be an upper bound, the lower bound is 0."""
    said = run["slots"][column].to_numpy()
    slack = slack + SUMMED * np.abs(found).max(initial=0.0) + ABSOLUTE
    slack = slack + RELATIVE * np.maximum(np.abs(said), np.abs(found))
    return Bounds(found, np.where(at_most, 0.0, found) - slack, found + slack)


def _of_known(run: Recorded) -> dict[str, Bounds]:
    """Return the number of arrivals, of jobs that could start in each slot, and of jobs that can start later."""
    jobs, count = run["jobs"], run["slots"].height
    known = jobs.select(_slot(submission.ceil())).to_series().to_numpy()
    opens = np.maximum(jobs.select(_slot(first)).to_series().to_numpy(), known)
    revenue = jobs["revenue"].to_numpy()
    current = np.rint(_current(run, np.ones(len(jobs)))).astype(np.int64)
    future = sums_from(known, opens, count)
    late = np.zeros(count, dtype=np.int64)
    if run.workload is None:  # processes may have submitted jobs after a slot had begun
        late = _late(run, known, current + future)
    return {
        "arrived": _count(sums_at(known, count) - late + np.append(0, late)[:count]),
        "current": _count(current, late),
        "future": _count(future, late),
        "current_work": _sum(run, "current_work", _current(run, revenue), late > 0),
        "future_work": _sum(run, "future_work", sums_from(known, opens, count, revenue), late > 0),
    }


def _current(run: Recorded, weights: Floats) -> Floats:
    """Return the sum of the weights of the jobs that could start in each slot, including those that expire in it."""
    count, jobs, runs = run["slots"].height, run["jobs"], run.once(_runs)
    opens, closes = (jobs.select(_slot(column)).to_series().to_numpy() for column in (first, last))
    lost = runs.filter(~pl.col("stood"))
    job, time = lost["row"].to_numpy(), lost["end"].to_numpy()
    back = closes[job] >= time if run.info["eviction"] == "restarted" else np.zeros(len(job), dtype=np.bool_)
    came = sums_at(opens, count, weights) + sums_at(time[back], count, weights[job[back]])
    ends = sums_at(runs["begin"].to_numpy() + 1, count, weights[runs["row"].to_numpy()])
    expired = jobs.select((status == "expired").arg_true()).to_series().to_numpy()
    ends += sums_at(closes[expired] + 1, count, weights[expired])
    sums: Floats = np.cumsum(came - ends)
    return sums


def _late(run: Recorded, known: IntArray, waiting: IntArray) -> IntArray:
    """Return how many jobs were submitted at the beginning of each slot, but too late for it.

    The only evidence is that the same number is missing among the arrivals and among the waiting jobs.
    """
    slots, count = run["slots"], run["slots"].height
    missing = waiting - (slots["current"] + slots["future"]).to_numpy()
    ahead = np.cumsum(sums_at(known, count) - slots["arrived"].to_numpy())
    at_slot = sums_at(known[run["jobs"]["submission_time"].to_numpy() == known], count)
    return np.where((missing > 0) & (missing == ahead) & (missing <= at_slot), missing, 0)


def _of_events(run: Recorded) -> dict[str, Bounds]:
    """Return the number of events in each slot, and the jobs running after the starts, with the amounts they hold."""
    count, runs, requests = run["slots"].height, run.once(_runs), run.once(_amounts).requests
    job, begin, end = (runs[name].to_numpy() for name in ("row", "begin", "end"))
    expired = run["jobs"].filter(status == "expired").select(_slot(last)).to_series().to_numpy()
    return {
        "started": _count(sums_at(begin, count)),
        "expired": _count(sums_at(expired, count)),
        "evicted": _count(sums_at(run["evictions"]["eviction_time"].to_numpy(), count)),
        "running": _count(sums_from(begin, end, count)),
        **{
            f"used_{name}": _sum(run, f"used_{name}", sums_from(begin, end, count, requests[job, place]))
            for place, name in enumerate(run.info["resources"])
        },
    }


def _of_rewards(run: Recorded) -> dict[str, Bounds]:
    """Return revenue, delay and reward of each slot: equation (6) of the OSDEC paper, minus evictions."""
    count, runs, amounts = run["slots"].height, run.once(_runs), run.once(_amounts)
    job, begin, end = (runs[name].to_numpy() for name in ("row", "begin", "end"))
    lost = ~runs["stood"].to_numpy()
    delays = (begin - run["jobs"]["earliest_start"].to_numpy()[job]).astype(np.float64)
    weights = np.array(run.info["violation_weights"], dtype=np.float64)
    reward, size = -(amounts.excess @ weights), amounts.excess @ weights + amounts.tolerance @ weights / RELATIVE
    bounds = {}
    parts = (
        ("revenue", run["jobs"]["revenue"].to_numpy()[job], 1.0),
        ("delay", delays, -float(run.info["delay_weight"])),
    )
    for column, values, factor in parts:
        gained, taken = sums_at(begin, count, values), sums_at(end[lost], count, values[lost])
        slack = RELATIVE * (np.abs(gained) + np.abs(taken))
        bounds[column] = _sum(run, column, gained - taken, slack=slack)
        reward = reward + factor * (gained - taken)
        size = size + abs(factor) * (np.abs(gained) + np.abs(taken))
    return bounds | {"reward": _sum(run, "reward", reward, slack=RELATIVE * size)}


def _where(run: Recorded, wrong: Mask) -> pl.DataFrame:
    """Return the slots and resources that are wrong, with the amounts."""
    at, place = np.nonzero(wrong)
    amounts, names = run.once(_amounts), np.array(run.info["resources"])
    return pl.DataFrame(
        {
            "slot": run["slots"]["slot"].gather(at),
            "name": pl.Series(names[place], dtype=pl.String),
            **{kind: getattr(amounts, kind)[at, place] for kind in ("capacity", "used", "violation")},
        }
    )


def _violation(run: Recorded) -> pl.DataFrame:
    amounts = run.once(_amounts)
    differs = np.abs(amounts.violation - amounts.excess) > 2 * amounts.tolerance
    return _where(run, differs | (amounts.violation < 0))


def _started_beyond(run: Recorded) -> pl.DataFrame:
    """Return slots that start jobs requesting a resource whose use then exceeds its capacity."""
    runs, amounts = run.once(_runs), run.once(_amounts)
    needs = (amounts.requests[runs["row"].to_numpy()] > 0).astype(np.float64)
    started = sums_at(runs["begin"].to_numpy(), run["slots"].height, needs)
    beyond = (started > 0) & (amounts.excess > 2 * amounts.tolerance)
    return _where(run, beyond & (not run.info["overcommit"]))


# -- the order of evictions: the last started first, if they hold a resource that is short -------


class _Evicted(NamedTuple):
    """Evictions in the order in which they must have happened: by slot, the last started first.

    Attributes
    ----------
    slot, start, job : array of int, shape (n,)
        Slots of the eviction and of the start, and row of the job table.
    group : array of int, shape (n,)
        Number of the group of jobs that were started together and evicted together.
    requests : array of float, shape (n, num_resources)
        Amounts that the job held.
    over : array of float, shape (num_groups, num_resources)
        Excess over the capacity of the amounts that the remaining jobs hold after the evictions of the group.
    """

    slot: IntArray
    start: IntArray
    job: IntArray
    group: IntArray
    requests: Floats
    over: Floats


def _over_before(run: Recorded) -> Floats:
    """Return the excess over the capacity of each slot of what the continuing jobs hold, before any eviction."""
    runs, amounts, count = run.once(_runs), run.once(_amounts), run["slots"].height
    requests = amounts.requests[runs["row"].to_numpy()]
    lost = ~runs["stood"].to_numpy()
    gone = sums_at(runs["end"].to_numpy()[lost], count, requests[lost])
    over: Floats = amounts.used - sums_at(runs["begin"].to_numpy(), count, requests) + gone - amounts.capacity
    return over


def _in_order(run: Recorded) -> _Evicted:
    """Return the evictions of recorded slots in order, with the remaining excess."""
    lost = run.once(_runs).filter(~pl.col("stood") & pl.col("end").is_between(0, run["slots"].height - 1))
    lost = lost.sort("end", "begin", descending=[False, True], maintain_order=True)
    slot, start, job = (lost[name].to_numpy() for name in ("end", "begin", "row"))
    requests = run.once(_amounts).requests[job]
    new_slot = np.append(True, slot[1:] != slot[:-1])[: len(slot)]
    new = new_slot | np.append(True, start[1:] != start[:-1])[: len(slot)]
    gone = requests.copy()
    if len(slot):  # restart the sum in each slot: a total over all slots would lose small differences
        firsts = np.flatnonzero(new_slot)
        gone[firsts[1:]] -= np.add.reduceat(requests, firsts, axis=0)[:-1]
    gone = np.cumsum(gone, axis=0)
    final = np.append(new[1:], True)[: len(slot)]
    over = run.once(_over_before)[slot[final]] - gone[final]
    return _Evicted(slot, start, job, np.cumsum(new) - 1, requests, over)


def _needless(run: Recorded) -> pl.DataFrame:
    """Return the evictions that are unnecessary even in the best possible order, searching backwards.

    The tables do not tell the order of starts within a slot. So these jobs may have been evicted in any order in which
    each eviction is necessary. Later evictions can only find a smaller excess. So a job whose eviction is necessary as
    the last of the remaining ones is put last, as long as there is one.
    """
    evicted = run.once(_in_order)
    done, over = np.full(len(evicted.slot), run.info["eviction"] == "never"), evicted.over.copy()
    least = SHORT * run.once(_amounts).tolerance[evicted.slot]
    while True:
        short = over[evicted.group] + evicted.requests > least
        more = ~done & ((evicted.requests > 0) & short).any(axis=1)
        if not more.any():
            break
        done |= more
        for place, held in enumerate(evicted.requests.T):
            over[:, place] += np.bincount(evicted.group[more], held[more], minlength=len(over))
    ids = run["jobs"]["job_id"].gather(evicted.job[~done])
    return pl.DataFrame({"job_id": ids, "slot": evicted.slot[~done], "start": evicted.start[~done]})


def _survivors(run: Recorded) -> pl.DataFrame:
    """Return jobs that stay although they hold a resource that is short and started after the evicted ones."""
    runs, amounts, evicted = run.once(_runs), run.once(_amounts), run.once(_in_order)
    too_much = run.once(_over_before) > TOO_MUCH * amounts.tolerance
    enough = evicted.over[evicted.group] <= TOO_MUCH * amounts.tolerance[evicted.slot]
    told: list[dict[str, Any]] = []
    for place, name in enumerate(run.info["resources"] if run.info["eviction"] != "never" else ()):
        settled = np.full(run["slots"].height, -1)  # start of the jobs whose eviction settles the shortage
        rows = enough[:, place]
        np.maximum.at(settled, evicted.slot[rows], evicted.start[rows])
        holders = runs.filter(pl.Series(amounts.requests[runs["row"].to_numpy(), place] > 0))
        newest = _newest(holders, run["slots"].height)
        for slot in np.flatnonzero(too_much[:, place] & (newest > settled)).tolist():
            stays = holders.filter((pl.col("begin") == newest[slot]) & (pl.col("end") > slot))
            job = run["jobs"]["job_id"][stays["row"][0]]
            told.append({"slot": slot, "job_id": job, "start": newest[slot], "name": name})
    return pl.DataFrame(told, schema={"slot": pl.Int64, "job_id": pl.Int64, "start": pl.Int64, "name": pl.String})


def _newest(runs: pl.DataFrame, count: int) -> IntArray:
    """Return, for each slot, the last earlier start of an execution that continues in it; -1 if there is none."""
    longest = np.zeros(count, dtype=np.int64)
    there = runs.filter(pl.col("begin").is_between(0, count - 1))
    np.maximum.at(longest, there["begin"].to_numpy(), there["end"].to_numpy())
    newest = np.full(count, -1)
    holders: list[tuple[int, int]] = []  # (start, end); entries further down end later
    for slot, end in enumerate(longest.tolist()):
        while holders and holders[-1][1] <= slot:
            holders.pop()
        if holders:
            newest[slot] = holders[-1][0]
        holders.append((slot, end))
    return newest


# -- the workload --------------------------------------------------------------------------------


def _submitted_columns(run: Recorded) -> list[str]:
    times = ["job_id", "submission_time", "earliest_start", "latest_start", "requested_time"]
    return [*times, *(f"requested_{name}" for name in run.info["resources"])]


def _submitted(run: Recorded) -> Iterator[tuple[Any, ...]]:
    """Return the workload's jobs as rows of numbers in order of arrival; in real time, by earliest start."""
    rows = (_numbers(job, len(run.info["resources"]) - 1) for job in run.workload or ())
    if not run.info["real_time"]:
        return rows
    come = rows if run.drained else takewhile(lambda row: not row[1] > run.end_time, rows)
    at_once = ((job_id, earliest, earliest, earliest, *rest) for job_id, _, earliest, _, *rest in come)
    return iter(sorted(at_once, key=lambda row: row[1]))


def _numbers(job: Any, others: int) -> tuple[Any, ...]:
    try:
        *numbers, amounts = job
        wrong = len(numbers) != 6 or len(amounts) != others
    except (TypeError, ValueError):
        wrong = True
    if wrong:
        raise WorkloadError(f"jobs: got {job!r}, expected a deferrable job with {others} amounts in others")
    return (*numbers, *amounts)


def _rule(name: str, sentence: str, *checks: tuple[str, Any, str]) -> Rule:
    return Rule(name, sentence, tuple(Check(*check) for check in checks))


def _agreeing(rule: str, sentence: str, *columns: str) -> Rule:
    message = "slot {slot}: {name}: got {said}, expected {found} by the other tables"
    return _rule(rule, sentence, ("slots", check_totals(_expected, *columns), message))


def _when(wrong: Callable[[Recorded], pl.Expr]) -> Callable[[Recorded], pl.DataFrame]:
    """Return a view of the evictions of known jobs that satisfy an expression."""
    return lambda run: run.once(_cuts).filter(pl.col("known") & wrong(run))


_WINDOW = "submission {submission_time}, earliest start {earliest_start} and latest start {latest_start}"

RULES = (
    _rule(
        "values",
        "all times, durations, requests, counts and capacities are in range",
        *(
            ("jobs", pl.col(name).abs() > LARGEST, f"job {{job_id}}: {name}: got {{{name}}}, expected at most 2**53")
            for name in ("job_id", "latest_start", "requested_time")
        ),
        ("jobs", _too_small, "job {job_id}: the request of the first resource must be above 0"),
    ),
    _rule(
        "unique_ids",
        "at most one job with a given id is in the system at any time",
        (
            "jobs",
            _reused,
            "job {job_id} is submitted at {submission_time}, while the one with the same id, submitted at "
            "{submission_time_before}, is in the system until {gone_before}",
        ),
    ),
    _rule(
        "arrival_numbers",
        "jobs are numbered in the order in which they were submitted",
        (
            "jobs",
            _misnumbered,
            "job {job_id}, submitted at {submission_time}, has arrival number {arrival_number}, but the job before it "
            "was submitted at {before}",
        ),
    ),
    _rule(
        "windows",
        "a job is submitted no later than its earliest start, which is no later than its latest start",
        ("jobs", (submission > first) | (first > last), f"job {{job_id}}: {_WINDOW} are not in ascending order"),
    ),
    _rule(
        "real_time",
        "in real time, submission, earliest start and latest start of a job are equal",
        ("jobs", _not_at_once, f"job {{job_id}}: {_WINDOW} are not equal"),
    ),
    _rule(
        "starts",
        "a job starts in a slot of its window and of the run",
        (
            "jobs",
            _not_in_window,
            "job {job_id}: starting_time: got {starting_time}, expected a slot from {earliest_start} to "
            "{latest_start}, within the {run[slots].height} slots of the run",
        ),
    ),
    _rule(
        "finish_time",
        "a completed job ran for its duration; an evicted job ran shorter, for a whole number of slots",
        (
            "jobs",
            (status == "completed") & (finish != due),
            "job {job_id} ends at {finish_time}, expected {requested_time} slots after its start at {starting_time}",
        ),
        (
            "jobs",
            (status == "evicted") & ((finish <= start) | (finish >= due) | (finish > finish.floor())),
            "job {job_id} is evicted at {finish_time}, expected a slot after its start at {starting_time} and before "
            "its end, {requested_time} slots later",
        ),
    ),
    _rule(
        "revenue",
        "a job's revenue is its request of the first resource times its duration",
        (
            "jobs",
            _revenue,
            "job {job_id}: revenue: got {revenue}, expected {worth} ({run.info[resources][0]} x duration)",
        ),
    ),
    _rule(
        "unfinished",
        "a job still runs at the end only if it is not due, and is queued only if its window is open; a run that went "
        "on until no event was left has neither",
        ("jobs", _running_on, f"job {{job_id}}, due at {{due}}, is still running when {HOW}"),
        (
            "jobs",
            _queued_still,
            f"job {{job_id}}, with latest start {{latest_start}}, is still {{status}} when {HOW}",
        ),
    ),
    _rule(
        "expiry",
        "a job has expired only if its window has ended",
        (
            "jobs",
            lambda run: (status == "expired") & (last > _last_slot(run)),
            f"job {{job_id}} has expired, but could still start up to slot {{latest_start}}; {HOW}",
        ),
    ),
    _rule(
        "horizon",
        "nothing happens after the end of the run",
        *(
            ("jobs", partial(_after_the_end, name), f"job {{job_id}}: {name} is {{{name}}}, but {HOW}")
            for name in ("submission_time", "finish_time")
        ),
    ),
    _rule(
        "slots",
        "slots are numbered from 0, their number matches the length of the run, and a complete run reached its end",
        (
            "slots",
            pl.col("slot") != pl.int_range(pl.len()),
            "slot {slot} is out of order, expected consecutive numbers from 0",
        ),
        ("slots", _number_of_slots, f"got {{count}} slots, but {HOW}"),
        (
            "slots",
            _early_end,
            f"{HOW}, expected num_slots ({{run.info[num_slots]!r}}), until ({{run.info[until]!r}}) or the last job",
        ),
    ),
    _agreeing(
        "slot_counts",
        "the numbers of jobs that become known, could start, open later, start, expire, are evicted and run in a slot "
        "match the other tables, so every job is accounted for from its submission on",
        *("arrived", "current", "future", "started", "expired", "evicted", "running"),
    ),
    _agreeing(
        "slot_work",
        "current and future work are cores times duration of the jobs that can start now or later",
        *("current_work", "future_work"),
    ),
    _agreeing("used", "the amount used in a slot is the sum of the requests of jobs running after the starts", "used_"),
    _rule(
        "violation",
        "the violation of a slot is the excess of the amount used over the capacity",
        (
            "slots",
            _violation,
            "slot {slot}: violation_{name}: got {violation}, expected the excess of {used} used over {capacity}",
        ),
    ),
    _agreeing(
        "slot_rewards",
        "revenue and delay of a slot are those of the started jobs minus those of the evicted ones, and the reward "
        "follows from them by equation (6) of the OSDEC paper",
        *("revenue", "delay", "reward"),
    ),
    _rule(
        "overcommit",
        "without overcommitment, no job starts beyond the capacity",
        ("slots", _started_beyond, "slot {slot}: jobs that need {name} start, but {used} is used of {capacity}"),
    ),
    _rule(
        "evictions",
        "an evicted job was started in its window and had neither ended nor been evicted; the evictions of a job match "
        "its number of evictions, and the last one ends an evicted job",
        (
            "evictions",
            lambda run: run.once(_cuts).filter(~pl.col("known")),
            "job {job_id}, evicted at {eviction_time}: no such job in table jobs",
        ),
        (
            "evictions",
            _when(lambda run: (start < first) | (start > last)),
            "job {job_id}, evicted at {eviction_time}, was started at {starting_time}, expected a slot from "
            "{earliest_start} to {latest_start}",
        ),
        (
            "evictions",
            _when(_impossible_times),
            "job {job_id} is evicted at {eviction_time}, expected a slot of the {run[slots].height} of the run within "
            "{requested_time} slots after the start at {starting_time}",
        ),
        (
            "evictions",
            _started_anew,
            "job {job_id} starts at {begin}, but its execution from {begin_before} lasts until {end_before}",
        ),
        (
            "evictions",
            _not_the_last,
            "job {job_id}: got the final eviction at {finish_time} with start {starting_time}, expected the last of "
            "its evictions",
        ),
        (
            "evictions",
            _miscounted,
            "job {job_id}: evictions: got {evictions}, expected {found} as in table evictions",
        ),
    ),
    _rule(
        "eviction_outcomes",
        "jobs are evicted never, for good, or for good only if their window has ended, as configured",
        (
            "evictions",
            _outcomes,
            "job {job_id}, evicted at {eviction_time} with latest start {latest_start}, {fate}, expected for evicted "
            "jobs: {expected}",
        ),
    ),
    _rule(
        "eviction_order",
        "a job is evicted if and only if it holds a resource that is still short once jobs started later have gone",
        (
            "evictions",
            _needless,
            "slot {slot}: job {job_id}, started at {start}, is evicted, although without the jobs started later no "
            "resource that it holds is short",
        ),
        ("evictions", _survivors, "slot {slot}: job {job_id}, started at {start}, stays, although {name} is short"),
    ),
    conservation_rule(_submitted_columns, rows=_submitted),
)
"""Rules of a run beyond the descriptions of its tables, in the order of checking."""
