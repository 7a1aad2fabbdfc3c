"""Validation rules of preemption by QOS, on the tables ``qos``, ``job_qos`` and ``preemptions``.

The rules look up in the tables which jobs may preempt which; they share no code with the simulation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from desim.problems.batch.occupancy import read_core_ranges, spread
from desim.problems.batch.recorded import all_executions
from desim.validation import Recorded, RuleBook

__all__ = ["RULES"]

NUMBER = "arrival_number"
outcome = pl.col("outcome")


RULES = RuleBook(only_with="qos")
"""Validation rules of a run with QOS levels, in the order of checking."""
rule, check = RULES.rule, RULES.check


def _executions(run: Recorded) -> pl.DataFrame:
    """Return all executions by job and start; of those that start and end together, the last one comes last."""
    held = run.once(all_executions).with_columns(pl.col("finish_time").fill_null(run.end_time))
    return held.sort(NUMBER, "starting_time", "finish_time", outcome.is_null(), maintain_order=True)


def _qos_of(run: Recorded) -> pl.DataFrame:
    """Return the QOS of each job that has one, with its properties."""
    jobs = run["job_qos"].select(NUMBER, "qos").unique(NUMBER, keep="first", maintain_order=True)
    return jobs.join(run["qos"], on="qos", how="inner", maintain_order="left")


def _suspensions(run: Recorded) -> pl.DataFrame:
    """Return start and end of each suspension, and the cores of the job before and after it."""
    following = [
        pl.col(name).shift(-1).over(NUMBER).alias(alias)
        for name, alias in (("starting_time", "until"), ("allocated_resources", "afterwards"))
    ]
    found = run.once(_executions).with_columns(following).filter(outcome == "suspended")
    return found.with_columns(pl.col("until").fill_null(run.end_time))


rule(
    "qos",
    "job_qos",
    "jobs have known QOS levels, which do not preempt themselves (this and the following two rules: with QOS levels)",
)


@check("job {job_id} has the QOS {qos!r}, which is unknown, or two of them")
def _unknown(run: Recorded) -> pl.DataFrame:
    """Return jobs with an unknown QOS or with two, and QOS records of unknown jobs."""
    jobs = run["job_qos"]
    known = jobs.join(run["qos"], on="qos", how="semi").join(run["jobs"], on=[NUMBER, "job_id"], how="semi")
    wrong = jobs.join(known, on=[NUMBER, "job_id", "qos"], how="anti")
    return pl.concat([wrong, jobs.filter(pl.col(NUMBER).is_duplicated())])


@check("job {job_id} has a grace time of {grace_time} s, but its QOS {qos!r} one of {of_level} s")
def _other_grace(run: Recorded) -> pl.DataFrame:
    """Return jobs whose grace time is not that of their QOS level, if the level states one."""
    if "grace_time" not in run.info:
        return run["job_qos"].clear()
    stated = run["qos"].select("qos", of_level="grace_time")
    both = run["job_qos"].join(stated, on="qos", how="inner", maintain_order="left")
    return both.filter(pl.col("grace_time") != pl.col("of_level"))


@check("QOS {qos!r} preempts {preempts}: one is unknown, or preempts it back", of="qos")
def _circular(run: Recorded) -> pl.DataFrame:
    """Return the QOS levels that preempt an unknown one or, possibly via others, themselves."""
    preempts: dict[str, list[str]] = dict(run["qos"].select("qos", "preempts").iter_rows())
    left = dict(preempts)
    while free := [name for name, others in left.items() if not any(other in left for other in others)]:
        for name in free:
            del left[name]
    unknown = [name for name, others in preempts.items() if not all(other in preempts for other in others)]
    return run["qos"].filter(pl.col("qos").is_in([*left, *unknown]))


rule(
    "preemptions",
    "preemptions",
    "jobs are only preempted by jobs whose QOS preempts theirs and that start at that time, after any grace time",
)


@check(
    "at {time} s, job {job_id} with QOS {qos!r} is preempted ({mode}) by job {preempted_by} with "
    "QOS {qos_preempting!r}, which preempts {preempts}"
)
def _not_allowed(run: Recorded) -> pl.DataFrame:
    """Return the preemptions that the QOS levels do not allow, or in another mode than that of the preempted job."""
    victims = run.once(_qos_of).select(NUMBER, "qos", wanted="mode")
    others = run.once(_qos_of).select("preempts", number_preempted_by=NUMBER, qos_preempting="qos")
    both = run["preemptions"].join(victims, on=NUMBER, how="left", maintain_order="left")
    both = both.join(others, on="number_preempted_by", how="left", maintain_order="left")
    may = pl.col("qos").is_in(pl.col("preempts")).fill_null(False)
    right = (pl.col("mode").cast(pl.String) == pl.col("wanted").cast(pl.String)).fill_null(False)
    return both.filter(~(may & right))


@check(
    "job {job_id} was interrupted {cuts} times at {time} s by preemption (mode {mode}), but preempted {recorded} times"
)
def _unexplained(run: Recorded) -> pl.DataFrame:
    """Return interruptions by preemption that do not match the preemption table, and vice versa."""
    mode = pl.when(outcome == "preempted").then(pl.lit("requeue")).otherwise(pl.lit("suspend"))
    cuts = run.where("interruptions", outcome.is_in(["preempted", "suspended"]))
    cuts = cuts.select(NUMBER, "job_id", time="finish_time", mode=mode).group_by(pl.all()).len("cuts")
    recorded = run["preemptions"].select(NUMBER, "job_id", "time", pl.col("mode").cast(pl.String))
    recorded = recorded.group_by(pl.all()).len("recorded")
    both = cuts.join(recorded, on=[NUMBER, "job_id", "time", "mode"], how="full", coalesce=True)
    counts = both.with_columns(pl.col("cuts", "recorded").fill_null(0).cast(pl.Int64))
    return counts.filter(pl.col("cuts") != pl.col("recorded")).sort("time", NUMBER)


@check("job {preempted_by} preempts job {job_id} at {time} s, but does not start then")
def _late(run: Recorded) -> pl.DataFrame:
    """Return the preemptions whose preempting job does not start at that time."""
    starts = run.once(_executions).select(preempted_by="job_id", number_preempted_by=NUMBER, time="starting_time")
    return run["preemptions"].join(starts, on=starts.columns, how="anti", maintain_order="left")


@check(
    "job {preempted_by} preempts job {job_id} at {time} s, announced at {announced} s: the grace time of "
    "{grace_time} s is not over, or the longest one has passed, or one of the jobs was not there"
)
def _hasty(run: Recorded) -> pl.DataFrame:
    """Return preemptions before the grace time is over, or of jobs that did not run or wait at the announcement."""
    if "grace_time" not in run.info:
        return run["preemptions"].clear()
    time, announced = pl.col("time"), pl.col("announced")
    grace = run["job_qos"].select(NUMBER, "grace_time").unique(NUMBER, keep="first", maintain_order=True)
    ran = run.where("interruptions", outcome.is_in(["preempted", "suspended"]))
    ran = ran.group_by(NUMBER, time="finish_time").agg(pl.col("starting_time").min())
    waited = run["jobs"].select("submission_time", number_preempted_by=NUMBER)
    both = run["preemptions"].join(grace, on=NUMBER, how="left", maintain_order="left")
    both = both.join(ran, on=[NUMBER, "time"], how="left", maintain_order="left")
    both = both.join(waited, on="number_preempted_by", how="left", maintain_order="left")
    is_over = announced + pl.col("grace_time").fill_null(0.0) <= time
    is_short = time <= announced + pl.lit(grace["grace_time"].max(), pl.Float64)
    was_there = (pl.col("starting_time") <= announced) & (pl.col("submission_time") <= announced)
    return both.filter(~(is_over & is_short & was_there.fill_null(True)))


rule(
    "suspended",
    "interruptions",
    "a suspended job resumes on its cores, which only jobs that may preempt it use in the meantime",
)


@check(
    "job {job_id} was suspended at {finish_time} s on cores {allocated_resources}, but resumes at {until} "
    "s on {afterwards}"
)
def _moved(run: Recorded) -> pl.DataFrame:
    """Return the suspended jobs that resumed on other cores, or ended without resuming."""
    there = pl.col("afterwards") == pl.col("allocated_resources")
    finished = run.where("jobs", pl.col("status").is_in(["completed", "killed", "lost", "running"])).select(NUMBER)
    found = run.once(_suspensions)
    lost = found.filter(pl.col("afterwards").is_null()).join(finished, on=NUMBER, how="semi")
    return pl.concat([found.filter(~there), lost])


@check(
    "job {other} starts at {start} s on cores of job {job_id}, which is suspended in [{begin}, {end}) s, "
    "without being allowed to preempt it"
)
def _intruders(run: Recorded) -> pl.DataFrame:
    """Return jobs that ran on cores of a suspended job without being allowed to preempt it."""
    gaps, ran, num_cores = run.once(_suspensions), run.once(_executions), run.info["num_cores"]
    ran = ran.filter(pl.col("starting_time") < pl.col("finish_time"))
    begins, ends = ran["starting_time"].to_numpy(), ran["finish_time"].to_numpy()
    ranges = read_core_ranges(ran["allocated_resources"], num_cores)
    index, core = spread(ranges.first, ranges.last)
    row_of_core = ranges.row[index]
    job_qos = dict(run.once(_qos_of).select(NUMBER, "qos").iter_rows())
    preempts = dict(run["qos"].select("qos", "preempts").iter_rows())
    numbers, found = ran[NUMBER].to_numpy(), []
    held = read_core_ranges(gaps["allocated_resources"], num_cores)
    for place, (number, begin, end) in enumerate(gaps.select(NUMBER, "finish_time", "until").iter_rows()):
        mine = held.row == place
        _, cores = spread(held.first[mine], held.last[mine])
        there = np.unique(row_of_core[np.isin(core, cores)])
        for row in there[(begins[there] < end) & (ends[there] > begin)].tolist():
            if job_qos.get(number) not in preempts.get(job_qos.get(int(numbers[row]), ""), ()):
                found.append((gaps["job_id"][place], begin, end, ran["job_id"][row], begins[row]))
    ids = gaps.schema["job_id"]
    schema: dict[str, Any] = {"job_id": ids, "begin": pl.Float64, "end": pl.Float64, "other": ids, "start": pl.Float64}
    return pl.DataFrame(found, schema, orient="row")
