"""Validation rules of limits, on the tables ``limits`` and ``limited_jobs`` of a batch run."""

from __future__ import annotations

import numpy as np
import polars as pl

from desim.problems.batch.occupancy import overloads
from desim.problems.batch.recorded import KEY, all_executions
from desim.validation import Recorded, RuleBook

__all__ = ["RULES", "impossible"]


RULES = RuleBook(only_with="limits")
"""Validation rules of limits."""
rule, check = RULES.rule, RULES.check


def impossible(run: Recorded) -> pl.Series:
    """Return the arrival numbers of the jobs that request more than their limits allow."""
    if "limits" not in run.info:
        return pl.Series(dtype=pl.Int64)
    limits = run["limited_jobs"].join(run["limits"], on="limit").join(run["jobs"], on=KEY)
    cores, requested = pl.col("requested_number_of_resources"), pl.col("requested_time")
    wide = (cores > pl.col("job_cores")) | (cores > pl.col("running_cores"))
    beyond = wide.fill_null(False) | (requested > pl.col("job_time")).fill_null(False)
    return limits.filter(beyond)["arrival_number"]


_NONE, _NO_COUNT = np.zeros(0), np.zeros(0, np.int64)


rule("limits", "jobs", "no user, partition or queue ever exceeds its limits of running jobs and cores")


@check("at {time} s, {what} of group {group} is {used}, but at most {most} are allowed")
def _beyond_groups(run: Recorded) -> pl.DataFrame:
    """Return the times at which a group had more running jobs or cores than allowed, with the numbers."""
    members = run["limited_jobs"].join(run["limits"].select("limit", "running_jobs", "running_cores"), on="limit")
    ran = run.once(all_executions).select(
        *KEY, begin="starting_time", end=pl.col("finish_time").fill_null(run.end_time)
    )
    jobs = run["jobs"].select(*KEY, requested="requested_number_of_resources")
    executions = ran.filter(pl.col("begin") < pl.col("end")).join(jobs, on=KEY, maintain_order="left")
    found = []
    for (_, group), part in members.join(executions, on=KEY).group_by("limit", "group", maintain_order=True):
        sizes = {"running_jobs": np.ones(len(part), np.int64), "running_cores": part["requested"].to_numpy()}
        for name, size in sizes.items():
            most = part[name][0]
            if most is None:
                continue
            spans = part["begin"].to_numpy(), part["end"].to_numpy()
            times, used, _ = overloads(*spans, size, limit_times=_NONE, limits=_NO_COUNT, num_cores=most)
            if len(times):
                columns = {"time": times, "used": used}
                found.append(pl.DataFrame(columns).with_columns(group=pl.lit(group), most=most, what=pl.lit(name)))
    return pl.concat(found) if found else pl.DataFrame()
