"""Validation rules of the batch cluster, on the tables ``jobs`` and ``interruptions``.

Times are compared exactly where the simulator does not round (for example ends and starts on a core), and with a
tolerance of four units in the last place where a time is a sum or difference of others. Intervals are half-open: a core
that is released at time t may be used at time t, and an execution of zero length overlaps with nothing. A job that is
running when the run ends holds its cores until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.problems.batch.executions import with_kept_time
from desim.problems.batch.node_rules import NODE_RULES
from desim.problems.batch.occupancy import Conflicts, CoreRanges, conflicts, overloads, read_core_ranges, spread
from desim.problems.batch.parts import gathered
from desim.problems.batch.recorded import KEY, as_they_ran, has_other_times, has_suspensions, is_uneven, worked_before
from desim.problems.batch.tables import FINISHED
from desim.validation import Recorded, RuleBook, conservation_rule, duplicated, horizon_rule, rounding

__all__ = ["RULES"]

status = pl.col("status").cast(pl.String)
submission, start, finish = pl.col("submission_time"), pl.col("starting_time"), pl.col("finish_time")
execution, run_time, requested = pl.col("execution_time"), pl.col("run_time"), pl.col("requested_time")
cores = pl.col("requested_number_of_resources")

Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]

_OF_EXECUTIONS = (
    *KEY,
    "requested_number_of_resources",
    "starting_time",
    "finish_time",
    "status",
    "allocated_resources",
)


_SPAN = "in [{begin}, {end}) s"
_MISCOUNTED = "job {job_id} requests {requested} cores, but has {held} " + _SPAN
RULES = RuleBook()
"""Validation rules of a batch run in addition to those in its table descriptions, in the order of checking."""
rule, check = RULES.rule, RULES.check


def _whole(run: Recorded) -> pl.Expr:
    """Return the duration of a job's last execution if it is not interrupted."""
    left = _left(run)
    whole = pl.min_horizontal(left, _allowed(run)) if run.info["enforce_time_limit"] else left
    return whole - worked_before(run) if run.once(has_suspensions) else whole


def _allowed(run: Recorded) -> pl.Expr:
    """Return the time limit of a job."""
    return requested + run.info["over_time_limit"] if "over_time_limit" in run.info else requested


def _left(run: Recorded) -> pl.Expr:
    """Return the work of a job that is not saved; all of it if nodes differ, where saved work has no fixed length."""
    last = run.once(_saved_work)
    if last.is_empty() or run.once(is_uneven):
        return run_time
    return run_time - pl.col("arrival_number").replace_strict(last["arrival_number"], last["work"], default=0.0)


def _kept(run: Recorded, worked: pl.Expr) -> list[pl.Expr]:
    """Return the seconds that a job keeps of those that it has worked, by each feature that explains some."""
    found = (kept(run, worked) for kept in gathered("kept", "rules"))
    return [seconds for seconds in found if seconds is not None]


def _saved_work(run: Recorded) -> pl.DataFrame:
    """Return the seconds, at the speed of the last execution, that checkpoints have saved of interrupted jobs."""
    if not run.height("interruptions") or not _kept(run, pl.lit(0.0)):
        return pl.DataFrame(schema={"arrival_number": pl.Int64, "work": pl.Float64})
    return (
        run.where("interruptions", pl.col("outcome") != "suspended")
        .group_by("arrival_number")
        .agg(work=(pl.col("work_after") / pl.col("speed")).max())
        .filter(pl.col("work") > 0)
    )


# -- cores ---------------------------------------------------------------------------------------


def _core_ranges(table: str, run: Recorded) -> CoreRanges:
    return read_core_ranges(run[table]["allocated_resources"], run.info["num_cores"])


_ranges_of_jobs, _ranges_of_interruptions = (partial(_core_ranges, table) for table in ("jobs", "interruptions"))


_IS_RUNNING = status == "running"
_THERE = pl.col("begin").is_not_null() & pl.col("end").is_not_null()


def _last_executions(jobs: pl.DataFrame, run: Recorded) -> pl.DataFrame:
    """Return the last execution of each job, with its cores; begin and end are null if there is none."""
    ended = pl.when(_IS_RUNNING).then(run.end_time).otherwise(finish)
    number, held = pl.col("arrival_number"), pl.col("allocated_resources")
    return jobs.select(number, "job_id", requested=cores, begin=start, end=ended, cores=held, final=True)


def _cut_executions(run: Recorded) -> pl.DataFrame:
    """Return the interrupted executions after which the job ran again; those of lost jobs are in the job table."""
    interruptions = run["interruptions"]
    if interruptions.is_empty():
        unknown = pl.lit(None, pl.Int64)
        return interruptions.select(
            *KEY, requested=unknown, begin=start, end=finish, cores="allocated_resources", final=False
        )
    return (
        interruptions.filter(pl.col("outcome") != "lost")
        .join(_jobs_by_number(run).select(*KEY, requested=cores), on=KEY, how="left", maintain_order="left")
        .select(*KEY, "requested", begin=start, end=finish, cores="allocated_resources", final=False)
    )


def _executions(run: Recorded) -> pl.DataFrame:
    """Return all executions: those of the job table, then those that were interrupted and repeated."""
    final = [_last_executions(jobs, run).filter(_THERE) for jobs in run.portions("jobs", _OF_EXECUTIONS)]
    return pl.concat([*final, run.once(_cut_executions)])


def _jobs_by_number(run: Recorded) -> pl.DataFrame:
    """Return the interrupted jobs, each arrival number once; they are few, so that joins with them are small."""
    interrupted = pl.col("arrival_number").is_in(run["interruptions"]["arrival_number"].implode())
    jobs = run.where("jobs", (status != "rejected") & interrupted)
    return jobs.unique("arrival_number", keep="first", maintain_order=True)


def _joined(one: CoreRanges, other: CoreRanges) -> CoreRanges:
    """Concatenate the rows of two columns of ranges."""
    shifted = other._replace(row=other.row + len(one.counts))
    return CoreRanges(*(np.concatenate(arrays) for arrays in zip(one, shifted, strict=True)))


def _miscounted(executions: pl.DataFrame, ranges: CoreRanges) -> pl.DataFrame:
    held = pl.Series(ranges.counts)
    wrong = (held != executions["requested"]) & ~pl.Series(ranges.malformed)
    return executions.with_columns(held=held).filter(wrong).filter(_THERE) if wrong.any() else pl.DataFrame()


def _overloads(run: Recorded, executions: pl.DataFrame) -> tuple[Floats, IntArray, IntArray]:
    """Return the times at which more cores are in use than are up, the cores in use, and the cores up.

    The cores in use are those that jobs request, whatever their core ids.
    """
    changes, feasible = run.once(_changes_of_capacity), _feasible(run, executions)
    begin, end, requested = (executions[name].to_numpy()[feasible] for name in ("begin", "end", "requested"))
    return overloads(
        begin,
        end,
        requested.astype(np.int64),
        limit_times=changes["time"].to_numpy(),
        limits=changes["cores_up"].to_numpy(),
        num_cores=run.info["num_cores"],
    )


def _feasible(run: Recorded, executions: pl.DataFrame) -> NDArray[np.bool_]:
    """Return which executions take time, and are of jobs that exist and can run."""
    begin, end, requested = (executions[name].to_numpy() for name in ("begin", "end", "requested"))
    feasible: NDArray[np.bool_] = (begin < end) & (requested <= run.info["num_cores"])  # NaN of an unknown job is not
    return feasible


# -- cores that are down ---------------------------------------------------------------------------


def _explained(name: str, run: Recorded, schema: dict[str, Any]) -> pl.DataFrame:
    """Return what the features explain under a name, as one table."""
    found: list[pl.DataFrame] = [one(run) for one in gathered(name, "rules")]
    return pl.concat([pl.DataFrame(schema=schema), *(one.select(*schema) for one in found if len(one))])


def _downtimes(run: Recorded) -> pl.DataFrame:
    """Return from when until when each core was down."""
    return _explained("downtimes", run, {"core": pl.Int64, "time": pl.Float64, "until": pl.Float64})


def _changes_of_capacity(run: Recorded) -> pl.DataFrame:
    """Return how many cores were up after each change of their number."""
    return _explained("capacity", run, {"time": pl.Float64, "cores_up": pl.Int64})


def _conflicts(run: Recorded, executions: pl.DataFrame, downtimes: pl.DataFrame) -> tuple[Conflicts, Conflicts]:
    """Return executions that share a core at the same time, and executions on a core that is down."""
    core, count = downtimes["core"].to_numpy(), len(downtimes)
    none = np.zeros(count, np.bool_)
    ranges = _joined(
        CoreRanges(np.arange(count), core, core, none, none.astype(np.int64)),
        read_core_ranges(executions["cores"], run.info["num_cores"]),
    )
    begins = np.concatenate((downtimes["time"].to_numpy(), executions["begin"].to_numpy()))
    ends = np.concatenate((downtimes["until"].to_numpy(), executions["end"].to_numpy()))
    return conflicts(begins, ends, ranges, run.info["num_cores"], count)


def _overlaps(run: Recorded) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return executions that share a core at the same time, and executions on a core that is down."""
    clashes = run.once(_clashes)
    if not (clashes.overlap or clashes.downtime):
        return pl.DataFrame(), pl.DataFrame()
    downtimes, executions = run.once(_downtimes), run.once(_executions)
    shared, down = _conflicts(run, executions, downtimes)
    sides = (
        executions.select("job_id", "begin", "end")[side - len(downtimes)]
        for side in (shared.earlier, shared.later, down.later)
    )
    earlier, later, held = sides
    spans = downtimes.select(down_from="time", down_until="until")[down.earlier]
    return (
        earlier.hstack(later.rename(lambda name: f"{name}_later")).with_columns(core=pl.Series(shared.core)),
        held.hstack(spans).with_columns(core=pl.Series(down.core)),
    )


class Clashes(NamedTuple):
    """Flags: executions overlap on a core, run on a core that is down, or use more cores than are up."""

    overlap: bool = False
    downtime: bool = False
    overload: bool = False


def _by_begin(run: Recorded) -> Iterator[pl.DataFrame]:
    """Yield all executions in nonempty portions that are ordered by start, but not sorted within."""
    cut = run.once(_cut_executions)
    for jobs in run.portions("jobs", _OF_EXECUTIONS, by=("starting_time",)):
        executions = _last_executions(jobs, run).filter(_THERE)
        if cut.is_empty() and not executions.is_empty():
            yield executions
        elif not executions.is_empty():
            come = pl.col("begin") <= executions["begin"].max()
            yield pl.concat([executions, cut.filter(come)])
            cut = cut.filter(~come)
    if not cut.is_empty():
        yield cut


def _clashes(run: Recorded) -> Clashes:
    """Scan the executions by start in portions, and keep only those that may still be running.

    If two executions overlap, the earlier one is still running when the later one starts; and the number of cores in
    use grows only at starts. If there is a violation, its details are computed from all executions at once.
    """
    downtimes, found, running = run.once(_downtimes), Clashes(), run.once(_cut_executions).clear()
    for portion in _by_begin(run):
        executions, near = pl.concat([running, portion]), downtimes
        if len(downtimes):
            late, early = pl.col("until") > executions["begin"].min(), pl.col("time") < executions["end"].max()
            near = downtimes.filter(late & early)
        shared, down = _conflicts(run, executions, near)
        times, _, _ = _overloads(run, executions)
        found = Clashes(*(one or len(more) > 0 for one, more in zip(found, (shared[0], down[0], times), strict=True)))
        running = executions.filter(pl.col("end") > portion["begin"].max())
    return found


# -- interruptions -------------------------------------------------------------------------------


def _cuts(run: Recorded) -> pl.DataFrame:
    """Return the interruptions, with the job of each."""
    whole = pl.lit(np.inf) if run.once(is_uneven) else run_time  # the run time may be longer on other nodes
    if run.once(has_other_times):
        whole = pl.when(start.is_null()).then(np.inf).otherwise(whole)  # queued jobs have their submitted run time
    jobs = _jobs_by_number(run).select(
        *KEY,
        "submission_time",
        status_of_job=status,
        whole=pl.min_horizontal(whole, _allowed(run)) if run.info["enforce_time_limit"] else whole,
        job_start=start,
        job_finish=finish,
        job_cores="allocated_resources",
        known=True,
    )
    return run["interruptions"].join(jobs, on=KEY, how="left", maintain_order="left")


# -- rules ----------------------------------------------------------------------------------------


rule("start_after_submission", "jobs", "jobs start at or after their submission")
check("job {job_id} starts at {starting_time} s, before its submission at {submission_time} s", by_row=True)(
    start < submission
)
rule("finish_time", "jobs", "a job ends at its start plus its execution time")
check(
    "job {job_id}: end {finish_time} s, expected start {starting_time} s + execution {execution_time} s", by_row=True
)((finish - (start + execution)).abs() > rounding(finish, start, execution))
rule(
    "execution_time",
    "jobs",
    "a completed job ran for its run time, a killed one for its time limit, and a lost one no longer, including "
    "work before a suspension",
)


@check(
    "job {job_id} is {status} after {execution_time} s, but has run time {run_time} s, requested time "
    "{requested_time} s, enforce_time_limit {run.info[enforce_time_limit]}",
    by_row=True,
)
def _execution_time(run: Recorded) -> pl.Expr:
    left, allowed, kills = _left(run), _allowed(run), pl.lit(run.info["enforce_time_limit"])
    too_long = (left > allowed) & kills
    is_other, is_too_long, is_unlimited = execution != left, too_long, execution != allowed
    if run.once(has_suspensions):  # work before a suspension is a sum of differences, and rounded
        before = worked_before(run)
        is_other, is_unlimited = (
            pl.when(before > 0)
            .then((before + execution - whole).abs() > rounding(finish, before, whole))
            .otherwise(execution != whole)
            for whole in (left, allowed)
        )
    if run.once(is_uneven):  # saved work is known only in seconds on other nodes
        saved = pl.col("arrival_number").is_in(run.once(_saved_work)["arrival_number"].implode())
        is_other = pl.when(saved).then(execution > left).otherwise(is_other)
        is_too_long = pl.when(saved).then((execution > allowed) & kills).otherwise(too_long)
    completed = (status == "completed") & (is_other | is_too_long)
    killed = (status == "killed") & (is_unlimited | ~too_long)
    whole = _whole(run)
    lost = (status == "lost") & (execution > whole + rounding(finish, whole))
    return completed | killed | lost


rule(
    "unfinished", "jobs", "jobs that are still running are not due yet, and no job is running when a run has completed"
)


@check(
    "job {job_id}, started at {starting_time} s and due at {due} s, is still running when the "
    "{run.info[status]} run ends at {run.end_time} s",
    by_row=True,
)
def _unfinished(run: Recorded) -> pl.DataFrame:
    running, due = run["jobs"].filter(_IS_RUNNING), pl.col("due")
    if running.is_empty():
        return running
    jobs = running.with_columns(due=start + _whole(run))
    return jobs.filter((due < run.end_time - rounding(due)) | run.drained)


rule("rejected", "jobs", "exactly the jobs that request more than the cluster has or a limit allows are rejected")


@check(
    "job {job_id} is {status}: it requests {requested_number_of_resources} of {run.info[num_cores]} cores, "
    "and too_wide is {run.info[too_wide]!r}",
    by_row=True,
)
def _rejected(run: Recorded) -> pl.Expr:
    rejected, impossible = status == "rejected", cores > pl.lit(run.info["num_cores"])
    for beyond in gathered("impossible", "rules"):
        impossible |= pl.col("arrival_number").is_in(run.once(beyond).implode())
    unfounded = ~impossible & pl.lit("num_nodes" not in run.info)  # a job with few cores may not fit on nodes, either
    return (impossible & ~rejected) | (rejected & (unfounded | pl.lit(run.info["too_wide"] != "reject")))


RULES.append(horizon_rule("jobs", ("submission_time", "starting_time", "finish_time"), " s"))
rule(
    "interruptions",
    "interruptions",
    "an interrupted job exists, was running, and was preempted or hit by an outage of one of its cores",
)


@check("job {job_id} was interrupted, but does not exist", of_rows=True)
def _unknown_cuts(run: Recorded) -> pl.DataFrame:
    return run.once(_cuts).filter(pl.col("known").is_null() & ("is_cut" not in run.info))


@check(
    "job {job_id}, submitted at {submission_time} s and due after {whole} s, was interrupted in an "
    "execution from {starting_time} s to {finish_time} s; the run ended at {run.end_time} s",
    of_rows=True,
)
def _impossible_cuts(run: Recorded) -> pl.DataFrame:
    whole, length = pl.col("whole"), finish - start
    possible = (submission <= start) & (start <= finish) & (finish <= run.end_time)
    wrong = ~possible | (length > whole + rounding(finish, whole))
    return run.once(_cuts).filter(pl.col("known") & wrong)


@check(
    "job {job_id} was interrupted at {finish_time} s on cores {allocated_resources}, but none of them went down then",
    of_rows=True,
)
def _without_cause(run: Recorded) -> pl.DataFrame:
    """Return the executions that were interrupted without an outage or reservation of their cores at that time."""
    ranges = run.once(_ranges_of_interruptions)
    index, core = spread(ranges.first, ranges.last)
    cuts = run["interruptions"].with_row_index("row")
    by_outage = pl.col("outcome").is_in(["requeued", "lost"])
    held = cuts.select(pl.col("row").cast(pl.Int64), finish)[ranges.row[index]].with_columns(core=pl.Series(core))
    caused = held.join(run.once(_downtimes), left_on=["finish_time", "core"], right_on=["time", "core"], how="semi")
    explained = pl.col("row").is_in(caused["row"].unique().implode()) | pl.Series(ranges.malformed)
    unexplained = cuts.filter(by_outage & ~explained)
    for cut in gathered("cut_executions", "rules"):
        others = run.once(cut)
        unexplained = unexplained.join(others, on=others.columns, how="anti", maintain_order="left")
    return unexplained


@check("job {job_id} was {outcome} at {finish_time} s, but on_outage is {run.info[on_outage]!r}", of_rows=True)
def _wrong_outcomes(run: Recorded) -> pl.Expr:
    return pl.col("outcome") == ("lost" if run.info["on_outage"] == "requeue" else "requeued")


@check(
    "job {job_id} was lost on cores {allocated_resources} from {starting_time} s to {finish_time} s, but "
    "its row in the job table differs",
    of_rows=True,
)
def _lost_otherwise(run: Recorded) -> pl.DataFrame:
    same = (pl.col("status_of_job") == "lost") & (pl.col("job_cores") == pl.col("allocated_resources"))
    same &= (pl.col("job_start") == start) & (pl.col("job_finish") == finish)
    lost = (pl.col("outcome") == "lost") & pl.col("known")
    return run.once(_cuts).filter(lost & ~same.fill_null(False))


_IS_LOST = status == "lost"


@check("job {job_id} is lost without an interruption", of="jobs")
def _lost_unseen(run: Recorded) -> pl.DataFrame:
    jobs = run.where("jobs", _IS_LOST)
    if jobs.is_empty():
        return jobs
    lost = run["interruptions"].filter(pl.col("outcome") == "lost")
    return jobs.join(lost, on="arrival_number", how="anti")


rule(
    "attempts",
    "jobs",
    "the attempts of a job are its interruptions, plus one if its last execution was not interrupted",
)


_BEGUN = status.is_in(["completed", "killed", "running"])
_ODD_ATTEMPTS = pl.col("attempts") != _BEGUN.cast(pl.Int64)


def _with_interruptions_or(odd: pl.Expr, run: Recorded) -> pl.DataFrame:
    """Return the jobs that were interrupted or are odd without it; they are few, so that joins with them are small."""
    numbers = run["interruptions"]["arrival_number"]
    return run.where("jobs", odd | pl.col("arrival_number").is_in(numbers.implode()) if len(numbers) else odd)


@check("job {job_id} with {cuts} interruptions: got {attempts} attempts, expected {expected}")
def _attempts(run: Recorded) -> pl.DataFrame:
    jobs = _with_interruptions_or(_ODD_ATTEMPTS, run)
    if jobs.is_empty():
        return jobs
    cuts = run["interruptions"].group_by(KEY).agg(cuts=pl.len().cast(pl.Int64))
    jobs = jobs.join(cuts, on=KEY, how="left", maintain_order="left")
    admitted = pl.when(status == "rejected").then(0).otherwise(pl.col("cuts").fill_null(0))
    jobs = jobs.with_columns(cuts=admitted, expected=admitted + _BEGUN)
    return jobs.filter(pl.col("attempts") != pl.col("expected"))


rule("one_at_a_time", "jobs", "the executions of a job do not overlap, and the one in the job table is the last")


@check("job {job_id} runs in [{begin}, {end}) s, but also in [{begin_before}, {end_before}) s")
def _one_at_a_time(run: Recorded) -> pl.DataFrame:
    cut, known = run.once(_cut_executions), pl.col("requested").is_not_null()
    numbers = pl.concat([run.column("jobs", "arrival_number"), cut.filter(known)["arrival_number"]])
    repeated = duplicated(numbers)  # only jobs with several executions can overlap
    if repeated.is_empty():
        return pl.DataFrame()
    again = pl.col("arrival_number").is_in(repeated.implode())
    final = _last_executions(run.where("jobs", again), run).filter(_THERE)
    executions = pl.concat([final, cut.filter(known & again)]).sort("arrival_number", "final", "begin", "end")
    before = [pl.col(name).shift().over("arrival_number").alias(f"{name}_before") for name in ("begin", "end")]
    return executions.with_columns(before).filter(pl.col("end_before") > pl.col("begin"))


rule("core_ranges", "jobs", "allocated cores are written as ascending ranges of existing cores")


def _malformed(table: str, ranges: Callable[[Recorded], CoreRanges], run: Recorded) -> pl.DataFrame:
    malformed = run.once(ranges).malformed
    return run[table].filter(pl.Series(malformed)) if malformed.any() else pl.DataFrame()


for name, ranges in {"jobs": _ranges_of_jobs, "interruptions": _ranges_of_interruptions}.items():
    found = f"job {{job_id}} in table {name}: cores {{allocated_resources!r}} are not ascending ranges of core ids "
    check(found + "below {run.info[num_cores]}", of=name, by_row=True)(partial(_malformed, name, ranges))
rule("core_count", "jobs", "every execution holds the number of cores that its job requests")


@check(_MISCOUNTED, by_row=True)
def _miscounted_jobs(run: Recorded) -> pl.DataFrame:
    return _miscounted(_last_executions(run["jobs"], run), run.once(_ranges_of_jobs))


@check(_MISCOUNTED)
def _miscounted_cuts(run: Recorded) -> pl.DataFrame:
    cut = run.once(_cut_executions)
    return _miscounted(cut, read_core_ranges(cut["cores"], run.info["num_cores"]))


rule("core_exclusive", "jobs", "no core runs two jobs at the same time")
check("core {core} runs job {job_id} " + _SPAN + " and job {job_id_later} in [{begin_later}, {end_later}) s")(
    lambda run: run.once(_overlaps)[0]
)
rule("core_down", "jobs", "no core serves a job while it is down")
check("core {core} runs job {job_id} " + _SPAN + ", but is down in [{down_from}, {down_until}) s")(
    lambda run: run.once(_overlaps)[1]
)
rule("capacity", "jobs", "the number of cores in use never exceeds the number of cores that are up")


@check("at {time} s, {used} cores are in use, but {up} are up; running jobs: {jobs}")
def _capacity(run: Recorded) -> pl.DataFrame:
    if not run.once(_clashes).overload:
        return pl.DataFrame()
    executions = run.once(_executions)
    times, used, up = _overloads(run, executions)
    executions = executions.filter(pl.Series(_feasible(run, executions)))
    begin, end = pl.col("begin"), pl.col("end")
    jobs = [executions.filter((begin <= time) & (end > time))["job_id"].to_list() for time in times[:20].tolist()]
    shown = [", ".join(map(str, ids[-10:])) + ", ..." * (len(ids) > 10) for ids in jobs] + [""] * (len(times) - 20)
    return pl.DataFrame({"time": times, "used": used, "up": up, "jobs": pl.Series(shown, dtype=pl.String)})


RULES += NODE_RULES
rule(
    "work",
    "interruptions",
    "an execution goes on with the work that was kept: all at a suspension, full checkpoint intervals otherwise; "
    "the execution times of a job are the sums over its executions",
)


@check(
    "job {job_id}, interrupted ({outcome}) at {finish_time} s: got work of {work_before} s before and "
    "{work_after} s kept, expected {begun} s and {expected} s",
    of_rows=True,
)
def _wrong_work(run: Recorded) -> pl.DataFrame:
    """Return the interruptions whose work does not follow from earlier ones, their outcome and the checkpoints."""
    number = "arrival_number"
    before, after, speed, outcome = (pl.col(name) for name in ("work_before", "work_after", "speed", "outcome"))
    restarts = outcome != "suspended"
    cuts = (
        run["interruptions"]
        .sort("finish_time", maintain_order=True)
        .with_columns(
            begun=after.shift(fill_value=0.0).over(number),
            restart=pl.when(restarts).then(after).forward_fill().shift().fill_null(0.0).over(number),
            stretch=restarts.shift(fill_value=False).cum_sum().over(number),  # suspensions split a stretch of work
        )
    )
    worked = (finish - start).cum_sum().over(number, "stretch")
    reached, tolerance = before + speed * (finish - start), rounding(finish, worked)
    bounds = {}
    for name, time in {"least": worked - tolerance, "expected": worked, "most": worked + tolerance}.items():
        # at the very end of an interval, rounding decides whether the checkpoint counts
        saved = pl.max_horizontal(0.0, *_kept(run, time))
        kept = pl.when(outcome == "lost").then(0.0).otherwise(pl.col("restart") + speed * saved)
        bounds[name] = pl.when(restarts).then(kept).otherwise(reached)
    cuts = cuts.with_columns(**bounds, reached=reached)
    off = rounding(finish, pl.col("reached"))
    right = (after >= pl.col("least") - off) & (after <= pl.col("most") + off)
    return cuts.filter(~right.fill_null(False) | ((before - pl.col("begun")).abs() > off).fill_null(True))


earlier, useful = pl.col("earlier_execution_time"), pl.col("useful_execution_time")
_IS_FINISHED = status.is_in(FINISHED)
_ODD_TIMES = (earlier != 0) | useful.ne_missing(pl.when(_IS_FINISHED).then(execution))


@check(
    "job {job_id}: got {earlier_execution_time} s of earlier executions and {useful_execution_time} s of "
    "useful execution time, expected {earlier} s and {expected} s",
    of="jobs",
)
def _wrong_sums(run: Recorded) -> pl.DataFrame:
    """Return the jobs whose execution times do not add up to those of their executions."""
    jobs = _with_interruptions_or(_ODD_TIMES, run)
    if jobs.is_empty():
        return jobs
    cuts = with_kept_time(run["interruptions"])
    again = cuts.filter(pl.col("outcome") != "lost").group_by(KEY)
    sums = again.agg(earlier=(finish - start).sum(), kept=pl.col("kept_time").sum(), last_cut=finish.max())
    jobs = jobs.join(sums, on=KEY, how="left", maintain_order="left").with_columns(
        pl.col("earlier", "kept").fill_null(0.0)
    )
    jobs = jobs.with_columns(expected=pl.when(_IS_FINISHED).then(pl.col("kept") + execution))
    off = 16 * rounding(pl.col("last_cut").fill_null(0.0), pl.col("earlier"))
    wrong = (useful - pl.col("expected")).abs() > off
    wrong = wrong.fill_null(useful.is_null() != pl.col("expected").is_null())
    return jobs.filter(((earlier - pl.col("earlier")).abs() > off) | wrong)


RULES += gathered("RULES", "rules")


def _submitted(run: Recorded) -> Iterable[tuple[Any, ...]]:
    """Return the jobs of the workload, with the changes that features explain."""
    jobs: Iterable[tuple[Any, ...]] = as_they_ran(run)
    for submitted in gathered("submitted", "rules"):
        jobs = submitted(run, jobs)
    return jobs


columns = ("job_id", "submission_time", "requested_number_of_resources", "requested_time", "run_time", "user_id")
RULES.append(conservation_rule(columns, rows=_submitted))
