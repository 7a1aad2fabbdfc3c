"""Rules of the batch cluster, checked on the tables ``jobs``, ``interruptions`` and ``outages``.

Times are compared exactly where the simulator has no reason to round (the order of ends and starts on a core, say) and
up to four units in the last place where a time is the sum or difference of others. Intervals are half-open: a core
that is freed at t can be used at t, and an execution that takes no time overlaps with nothing. A job that is running
when the run ends holds its cores until then.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.problems.batch.occupancy import CoreRanges, conflicts, overloads, read_core_ranges, spread
from desim.validation import Check, Recorded, Rule, conservation_rule, horizon_rule, rounding, unique_ids_rule

__all__ = ["RULES"]

KEY = ["arrival_number", "job_id"]
"""What a row says of its job, and both have to be right."""

status = pl.col("status").cast(pl.String)
submission, start, finish = pl.col("submission_time"), pl.col("starting_time"), pl.col("finish_time")
execution, run_time, requested = pl.col("execution_time"), pl.col("run_time"), pl.col("requested_time")
cores = pl.col("requested_number_of_resources")


def _has_left(run: Recorded) -> pl.Expr:
    return pl.when(status.is_in(["running", "queued"])).then(pl.lit(np.inf)).otherwise(finish)


def _whole(run: Recorded) -> pl.Expr:
    """Return how long a job runs if nothing cuts it."""
    return pl.min_horizontal(run_time, requested) if run.info["kill_at_request"] else run_time


def _execution_time(run: Recorded) -> pl.Expr:
    too_long = (run_time > requested) & pl.lit(run.info["kill_at_request"])
    completed = (status == "completed") & ((execution != run_time) | too_long)
    killed = (status == "killed") & ((execution != requested) | ~too_long)
    whole = _whole(run)
    lost = (status == "lost") & (execution > whole + rounding(finish, whole))
    return completed | killed | lost


def _unfinished(run: Recorded) -> pl.DataFrame:
    due = pl.col("due")
    jobs = run["jobs"].with_columns(due=start + _whole(run))
    return jobs.filter((status == "running") & ((due < run.end_time - rounding(due)) | run.drained))


def _rejected(run: Recorded) -> pl.Expr:
    rejected = status == "rejected"
    return ((cores > pl.lit(run.info["num_cores"])) != rejected) | (rejected & pl.lit(run.info["too_wide"] != "reject"))


# -- cores ---------------------------------------------------------------------------------------


def _core_ranges(run: Recorded) -> dict[str, CoreRanges]:
    columns = {"jobs": "allocated_resources", "interruptions": "allocated_resources", "outages": "resources"}
    return {table: read_core_ranges(run[table][column], run.info["num_cores"]) for table, column in columns.items()}


def _malformed(table: str) -> Check:
    def wrong(run: Recorded) -> pl.DataFrame:
        return run[table].filter(pl.Series(run.once(_core_ranges)[table].malformed))

    text = "job {job_id} in table " + table + ": cores {allocated_resources!r} are not ascending ranges of core ids "
    return Check(table, wrong, text + "below {run.info[num_cores]}")


def _executions(run: Recorded) -> pl.DataFrame:
    """Return all executions: those of the job table, then those that were cut and repeated."""
    ended = pl.when(status == "running").then(run.end_time).otherwise(finish)
    number, row = pl.col("arrival_number"), pl.int_range(pl.len(), dtype=pl.Int64)
    final = (
        run["jobs"]
        .select(number, "job_id", requested=cores, begin=start, end=ended, row=row, final=True)
        .filter(pl.col("begin").is_not_null() & pl.col("end").is_not_null())
    )
    cut = (
        run["interruptions"]
        .select(number, "job_id", "outcome", begin=start, end=finish, row=row, final=False)
        .filter(pl.col("outcome") == "requeued")
        .join(_jobs_by_number(run).select(*KEY, requested=cores), on=KEY, how="left")
    )
    return pl.concat([final, cut.select(final.columns)]).with_columns(known=pl.col("requested").is_not_null())


def _jobs_by_number(run: Recorded) -> pl.DataFrame:
    """Return the jobs that were interrupted, each number once; few of all, so that joins with them are small."""
    interrupted = pl.col("arrival_number").is_in(run["interruptions"]["arrival_number"].implode())
    jobs = run["jobs"].filter((status != "rejected") & interrupted)
    return jobs.unique("arrival_number", keep="first", maintain_order=True)


def _ranges_of_executions(run: Recorded) -> CoreRanges:
    """Return the core ranges of all executions, in their order."""
    executions, ranges = run.once(_executions), run.once(_core_ranges)
    final, rows = executions["final"].to_numpy(), executions["row"].to_numpy()
    return _joined(_chosen(ranges["jobs"], rows[final]), _chosen(ranges["interruptions"], rows[~final]))


def _chosen(ranges: CoreRanges, rows: NDArray[np.int64]) -> CoreRanges:
    """Keep the ranges of chosen rows, ascending, and number these from 0."""
    number = np.full(len(ranges.counts), -1, np.int64)
    number[rows] = np.arange(len(rows))
    row = number[ranges.row]
    keep = row >= 0
    return CoreRanges(row[keep], ranges.first[keep], ranges.last[keep], ranges.malformed[rows], ranges.counts[rows])


def _joined(one: CoreRanges, other: CoreRanges) -> CoreRanges:
    """Put the rows of two columns of ranges one after the other."""
    shifted = other._replace(row=other.row + len(one.counts))
    return CoreRanges(*(np.concatenate(arrays) for arrays in zip(one, shifted, strict=True)))


def _core_count(run: Recorded) -> pl.DataFrame:
    ranges = run.once(_ranges_of_executions)
    executions = run.once(_executions).with_columns(held=pl.Series(ranges.counts), bad=pl.Series(ranges.malformed))
    return executions.filter(pl.col("known") & ~pl.col("bad") & (pl.col("held") != pl.col("requested")))


def _one_at_a_time(run: Recorded) -> pl.DataFrame:
    again = pl.col("arrival_number").is_duplicated()  # a single execution overlaps with no other
    executions = run.once(_executions).filter("known").filter(again).sort("arrival_number", "final", "begin", "end")
    before = [pl.col(name).shift().over("arrival_number").alias(f"{name}_before") for name in ("begin", "end")]
    return executions.with_columns(before).filter(pl.col("end_before") > pl.col("begin"))


def _capacity(run: Recorded) -> pl.DataFrame:
    """Compare the cores in use, by what jobs request, whatever their core ids, with those that are up."""
    begin, end = pl.col("begin"), pl.col("end")
    executions = run.once(_executions).with_columns(pl.col("requested").fill_null(0))
    executions = executions.filter((begin < end) & (pl.col("requested") <= run.info["num_cores"]))
    times, used, up = overloads(
        *(executions[name].to_numpy() for name in ("begin", "end", "requested")),
        limit_times=run["outages"]["time"].to_numpy(),
        limits=run["outages"]["cores_up"].to_numpy(),
        num_cores=run.info["num_cores"],
    )
    jobs = [executions.filter((begin <= time) & (end > time))["job_id"].to_list() for time in times[:20].tolist()]
    shown = [", ".join(map(str, ids[-10:])) + ", ..." * (len(ids) > 10) for ids in jobs] + [""] * (len(times) - 20)
    return pl.DataFrame({"time": times, "used": used, "up": up, "jobs": pl.Series(shown, dtype=pl.String)})


# -- outages -------------------------------------------------------------------------------------


def _outage_ranges(run: Recorded) -> pl.Expr:
    ranges = run.once(_core_ranges)["outages"]
    return pl.lit(pl.Series(ranges.malformed | (ranges.counts == 0)))


def _cores_up(run: Recorded) -> pl.DataFrame:
    counts = pl.Series(run.once(_core_ranges)["outages"].counts)
    change = pl.when(pl.col("event") == "down").then(-counts).otherwise(counts)
    events = run["outages"].with_columns(want=run.info["num_cores"] + change.cum_sum())
    return events.filter(pl.col("want") != pl.col("cores_up"))


def _core_events(run: Recorded) -> pl.DataFrame:
    """Return core by core when it went down or came back."""
    ranges = run.once(_core_ranges)["outages"]
    index, core = spread(ranges.first, ranges.last)
    events = run["outages"].select("time", "event")[ranges.row[index]].with_columns(core=pl.Series(core))
    following = (pl.col("event").shift().over("core"), pl.col("time").shift(-1).over("core"))
    return events.sort("core", maintain_order=True).with_columns(before=following[0], until=following[1])


def _downtimes(run: Recorded) -> pl.DataFrame:
    return run.once(_core_events).filter(pl.col("event") == "down").with_columns(pl.col("until").fill_null(np.inf))


def _twice(run: Recorded) -> pl.DataFrame:
    return run.once(_core_events).filter(
        pl.col("event").cast(pl.String) == pl.col("before").cast(pl.String).fill_null("up")
    )


def _overlaps(run: Recorded) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return executions that share a core at a time, and executions on a core that is down."""
    downtimes, executions = run.once(_downtimes), run.once(_executions)
    core, count = downtimes["core"].to_numpy(), len(downtimes)
    none = np.zeros(count, np.bool_)
    ranges = _joined(
        CoreRanges(np.arange(count), core, core, none, none.astype(np.int64)), run.once(_ranges_of_executions)
    )
    begins = np.concatenate((downtimes["time"].to_numpy(), executions["begin"].to_numpy()))
    ends = np.concatenate((downtimes["until"].to_numpy(), executions["end"].to_numpy()))
    shared, down = conflicts(begins, ends, ranges, run.info["num_cores"], count)
    sides = (
        executions.select("job_id", "begin", "end")[side - count] for side in (shared.earlier, shared.later, down.later)
    )
    earlier, later, held = sides
    spans = pl.DataFrame({"down_from": begins[down.earlier], "down_until": ends[down.earlier]})
    return (
        earlier.hstack(later.rename(lambda name: f"{name}_later")).with_columns(core=pl.Series(shared.core)),
        held.hstack(spans).with_columns(core=pl.Series(down.core)),
    )


# -- interruptions -------------------------------------------------------------------------------


def _cuts(run: Recorded) -> pl.DataFrame:
    """Return the interruptions, with the job of each."""
    jobs = _jobs_by_number(run).select(
        *KEY,
        "submission_time",
        status_of_job=status,
        whole=_whole(run),
        job_start=start,
        job_finish=finish,
        job_cores="allocated_resources",
        known=True,
    )
    return run["interruptions"].join(jobs, on=KEY, how="left", maintain_order="left")


def _impossible_cuts(run: Recorded) -> pl.DataFrame:
    whole, length = pl.col("whole"), finish - start
    possible = (submission <= start) & (start <= finish) & (finish <= run.end_time)
    wrong = ~possible | (length > whole + rounding(finish, whole))
    return run.once(_cuts).filter(pl.col("known") & wrong)


def _without_cause(run: Recorded) -> pl.DataFrame:
    """Return the executions that were cut although none of their cores went down at that moment."""
    ranges = run.once(_core_ranges)["interruptions"]
    index, core = spread(ranges.first, ranges.last)
    cuts = run["interruptions"].with_row_index("row")
    held = cuts.select(pl.col("row").cast(pl.Int64), finish)[ranges.row[index]].with_columns(core=pl.Series(core))
    caused = held.join(run.once(_downtimes), left_on=["finish_time", "core"], right_on=["time", "core"], how="semi")
    explained = pl.col("row").is_in(caused["row"].unique().implode()) | pl.Series(ranges.malformed)
    return cuts.filter(~explained)


def _wrong_outcomes(run: Recorded) -> pl.Expr:
    return (pl.col("outcome") == "requeued") != pl.lit(run.info["on_outage"] == "requeue")


def _lost_otherwise(run: Recorded) -> pl.DataFrame:
    same = (pl.col("status_of_job") == "lost") & (pl.col("job_cores") == pl.col("allocated_resources"))
    same &= (pl.col("job_start") == start) & (pl.col("job_finish") == finish)
    lost = (pl.col("outcome") == "lost") & pl.col("known")
    return run.once(_cuts).filter(lost & ~same.fill_null(False))


def _lost_unseen(run: Recorded) -> pl.DataFrame:
    lost = run["interruptions"].filter(pl.col("outcome") == "lost")
    return run["jobs"].filter(status == "lost").join(lost, on="arrival_number", how="anti")


def _attempts(run: Recorded) -> pl.DataFrame:
    cuts = run["interruptions"].group_by(KEY).agg(cuts=pl.len().cast(pl.Int64))
    begun = status.is_in(["completed", "killed", "running"])
    # Only a job that was interrupted can want more than its last execution: the join is with few rows.
    interrupted = pl.col("arrival_number").is_in(cuts["arrival_number"].implode())
    jobs = run["jobs"].filter(interrupted | (pl.col("attempts") != begun.cast(pl.Int64)))
    jobs = jobs.join(cuts, on=KEY, how="left", maintain_order="left")
    admitted = pl.when(status == "rejected").then(0).otherwise(pl.col("cuts").fill_null(0))
    jobs = jobs.with_columns(cuts=admitted, want=admitted + begun)
    return jobs.filter(pl.col("attempts") != pl.col("want"))


_SPAN = "in [{begin}, {end}) s"

RULES = (
    unique_ids_rule(_has_left, status != "rejected"),
    Rule(
        "start_after_submission",
        "no job starts before its submission",
        (
            Check(
                "jobs",
                start < submission,
                "job {job_id} starts at {starting_time} s, before its submission at {submission_time} s",
            ),
        ),
    ),
    Rule(
        "finish_time",
        "a job ends at its start plus its execution time",
        (
            Check(
                "jobs",
                (finish - (start + execution)).abs() > rounding(finish, start, execution),
                "job {job_id}: end {finish_time} s is not start {starting_time} s + execution {execution_time} s",
            ),
        ),
    ),
    Rule(
        "execution_time",
        "a completed job ran for its run time, a killed one for its requested time, a lost one no longer",
        (
            Check(
                "jobs",
                _execution_time,
                "job {job_id} is {status} after {execution_time} s, with run time {run_time} s, requested time "
                "{requested_time} s, kill_at_request {run.info[kill_at_request]}",
            ),
        ),
    ),
    Rule(
        "unfinished",
        "a job is still running only if it is not due yet, and none is when a run has gone on to its end",
        (
            Check(
                "jobs",
                _unfinished,
                "job {job_id}, started at {starting_time} s and due at {due} s, is still running when the "
                "{run.info[status]} run ends at {run.end_time} s",
            ),
        ),
    ),
    Rule(
        "rejected",
        "the rejected jobs are those that are wider than the cluster",
        (
            Check(
                "jobs",
                _rejected,
                "job {job_id} is {status}: it requests {requested_number_of_resources} of {run.info[num_cores]} cores, "
                "too_wide is {run.info[too_wide]!r}",
            ),
        ),
    ),
    horizon_rule("jobs", ("submission_time", "starting_time", "finish_time"), " s"),
    Rule(
        "outages",
        "only cores that are up go down, and the reverse; the number of cores that are up is right",
        (
            Check("outages", _outage_ranges, "outage at {time} s: {resources!r} are no cores of the cluster"),
            Check(
                "outages", ~(pl.col("time") >= pl.col("time").shift(fill_value=0.0)), "outage at {time} s is too late"
            ),
            Check(
                "outages",
                lambda run: pl.col("time") > run.end_time,
                "outage at {time} s: the run ended at {run.end_time} s",
            ),
            Check("outages", _cores_up, "after the outage at {time} s {cores_up} cores are up, want {want}"),
            Check("outages", _twice, "core {core} goes {event} at {time} s, although it is {event} already"),
        ),
    ),
    Rule(
        "interruptions",
        "an interrupted job exists, was running, and was cut by the outage of one of its cores",
        (
            Check(
                "interruptions",
                lambda run: run.once(_cuts).filter(pl.col("known").is_null()),
                "job {job_id} was interrupted, but there is no such job",
            ),
            Check(
                "interruptions",
                _impossible_cuts,
                "job {job_id}, submitted at {submission_time} s, due after {whole} s, was cut while it ran from "
                "{starting_time} s to {finish_time} s; the run ended at {run.end_time} s",
            ),
            Check(
                "interruptions",
                _without_cause,
                "job {job_id} was cut at {finish_time} s on cores {allocated_resources}, but none of them went down "
                "then",
            ),
            Check(
                "interruptions",
                _wrong_outcomes,
                "job {job_id} was {outcome} at {finish_time} s, on_outage is {run.info[on_outage]!r}",
            ),
            Check(
                "interruptions",
                _lost_otherwise,
                "job {job_id} was lost on cores {allocated_resources} from {starting_time} s to {finish_time} s, but "
                "its own row says otherwise",
            ),
            Check("jobs", _lost_unseen, "job {job_id} is lost without an interruption"),
        ),
    ),
    Rule(
        "attempts",
        "the attempts of a job are its interruptions, plus one for an execution that was not cut",
        (Check("jobs", _attempts, "job {job_id} with {cuts} interruptions has {attempts} attempts, want {want}"),),
    ),
    Rule(
        "one_at_a_time",
        "the executions of a job do not overlap, and the one in the job table is the last",
        (
            Check(
                "jobs",
                _one_at_a_time,
                "job {job_id} runs in [{begin}, {end}) s after it ran in [{begin_before}, {end_before}) s",
            ),
        ),
    ),
    Rule(
        "core_ranges",
        "allocated cores are written as ascending ranges of existing cores",
        (_malformed("jobs"), _malformed("interruptions")),
    ),
    Rule(
        "core_count",
        "every execution holds as many cores as its job requests",
        (Check("jobs", _core_count, "job {job_id} requests {requested} cores and has {held} " + _SPAN),),
    ),
    Rule(
        "core_exclusive",
        "no core serves two jobs at once",
        (
            Check(
                "jobs",
                lambda run: run.once(_overlaps)[0],
                "core {core} serves job {job_id} "
                + _SPAN
                + " and job {job_id_later} in [{begin_later}, {end_later}) s",
            ),
        ),
    ),
    Rule(
        "core_down",
        "no core serves a job while it is down",
        (
            Check(
                "jobs",
                lambda run: run.once(_overlaps)[1],
                "core {core} serves job {job_id} " + _SPAN + " and is down in [{down_from}, {down_until}) s",
            ),
        ),
    ),
    Rule(
        "capacity",
        "the number of cores in use is never above the number of cores that are up",
        (Check("jobs", _capacity, "at {time} s {used} cores are in use and {up} up; running: jobs {jobs}"),),
    ),
    conservation_rule(
        ("job_id", "submission_time", "requested_number_of_resources", "requested_time", "run_time", "user_id"), tuple
    ),
)
"""What holds of a batch run beyond the description of its tables, in the order of checking."""
