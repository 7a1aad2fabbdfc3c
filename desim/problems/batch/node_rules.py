"""Validation rules of a batch cluster of nodes, on the tables ``nodes``, ``requests`` and ``placements``.

The rules recompute what is held on nodes from requests and placements; they share no code with the simulation.
Time intervals are half-open, as for cores: resources released at time t may be used at time t.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import polars as pl

from desim.problems.batch.allocations import amount_of, devices, further_resources, is_readable, placed
from desim.problems.batch.nodes import CORES, GPU, MEMORY, Request
from desim.problems.batch.occupancy import read_core_ranges
from desim.problems.batch.recorded import KEY, SPAN, Arrivals, all_executions, has_suspensions
from desim.validation import Recorded, RuleBook, single_row

__all__ = ["NODE_RULES"]

tasks, node = pl.col("tasks"), pl.col("node")


_SPAN = "in [{starting_time}, {finish_time}) s"
NODE_RULES = RuleBook(only_with="num_nodes")
"""Validation rules of a run on nodes, in the order of checking."""
rule, check = NODE_RULES.rule, NODE_RULES.check


def _placed(run: Recorded) -> pl.DataFrame:
    """Return the placements on existing nodes, with the requests of their jobs and the resources of their nodes."""
    return placed(run["nodes"], run["requests"], run["placements"])


def _readable(run: Recorded) -> pl.DataFrame:
    return run.once(_placed).filter(is_readable())


def _devices(run: Recorded) -> pl.DataFrame:
    return devices(_readable(run))


def _values(one: Request) -> tuple[Any, ...]:
    """Return a request in the column order of the table."""
    further = " ".join(f"{name}={amount}" for name, amount in one.resources)
    amounts = one.tasks, one.cores, one.memory, float(one.gpus), list(one.gpu_models), further
    return (*amounts, one.partition, list(one.features), list(one.excluded_features), one.exclusive, one.tasks_per_node)


def _lasts() -> pl.Expr:
    """Return whether executions take time: one that is interrupted as it starts may start again at once."""
    return pl.col("starting_time").ne_missing(pl.col("finish_time"))


def _held(run: Recorded) -> pl.DataFrame:
    """Return the amount of each resource of a node that each execution holds, and the capacity.

    A suspended job holds everything except its cores until it resumes.
    """
    placed, devices = run.once(_placed), run.once(_devices)
    cores = _holding(placed, pl.lit(CORES), tasks * pl.col("task_cores"), pl.col("node_cores"))
    if run.once(has_suspensions):
        placed, devices = (_until_resumed(run, rows) for rows in (placed, devices))
    all_of = [(MEMORY, pl.col("task_memory"), pl.col("node_memory"))]
    further = further_resources(run["nodes"], run["requests"])
    all_of += [(name, amount_of(name, "task_resources"), amount_of(name, "node_resources")) for name in further]
    held = [cores, *(_holding(placed, pl.lit(name), tasks * each, capacity) for name, each, capacity in all_of)]
    there = GPU * (pl.col("gpu") < pl.col("node_gpus")).cast(pl.Int64)
    held.append(_holding(devices, pl.format("thousandths of GPU {}", "gpu"), pl.col("share"), there))
    return pl.concat(held).filter(pl.col("amount") > 0)


def _until_resumed(run: Recorded, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows of executions; those of suspended jobs are extended until the job resumes."""
    suspended = run.where("interruptions", pl.col("outcome") == "suspended").select(SPAN).unique()
    ran = run.once(all_executions).select(SPAN).sort(SPAN, nulls_last=True)
    following = ran.with_columns(until=pl.col("starting_time").shift(-1).over("arrival_number"), suspended=True)
    following = following.join(suspended, on=SPAN, how="semi").unique(SPAN, keep="last", maintain_order=True)
    both = rows.join(following, on=SPAN, how="left", maintain_order="left")
    each = [name for name in (*SPAN, "node", "gpu") if name in rows.columns]
    last = pl.struct(each).is_last_distinct()  # among executions of zero length at the same instant
    until = pl.when(pl.col("suspended") & last).then("until").otherwise("finish_time")
    return both.with_columns(finish_time=until).drop("until", "suspended")


def _holding(rows: pl.DataFrame, resource: pl.Expr, amount: pl.Expr, capacity: pl.Expr) -> pl.DataFrame:
    columns = ["job_id", "node", "node_name", "starting_time", "finish_time"]
    return rows.select(*columns, resource=resource, amount=amount, capacity=capacity)


def _above_capacity(held: pl.DataFrame) -> pl.DataFrame:
    """Return the starts after which more of a node's resource is held than it has."""
    lasting = held.with_columns(pl.col("finish_time").fill_null(np.inf))
    lasting = lasting.filter(pl.col("starting_time") < pl.col("finish_time"))
    ends = lasting.with_columns(starting_time="finish_time", amount=-pl.col("amount"))
    changes = pl.concat([lasting, ends]).sort("node", "resource", "starting_time", "amount")  # ends before starts
    held_then = changes.with_columns(used=pl.col("amount").cum_sum().over("node", "resource"))
    return held_then.filter((pl.col("amount") > 0) & (pl.col("used") > pl.col("capacity")))


rule("nodes", "nodes", "nodes and cores are numbered consecutively (this and the following rules: on nodes)")


@check("node {node} with first core {first_core}: expected node {expected} with first core {expected_core}")
def _misnumbered(run: Recorded) -> pl.DataFrame:
    """Return the nodes whose number or first core does not follow from the preceding nodes."""
    nodes = run["nodes"]
    first = [0, *accumulate(nodes["cores"].to_list())]
    numbered = nodes.with_columns(expected=pl.int_range(pl.len()), expected_core=pl.Series(first[:-1], dtype=pl.Int64))
    return numbered.filter((node != pl.col("expected")) | (pl.col("first_core") != pl.col("expected_core")))


@check("got {count} nodes with {cores} cores, expected {run.info[num_nodes]} with {run.info[num_cores]}")
def _miscounted_nodes(run: Recorded) -> pl.DataFrame:
    count, cores = run.height("nodes"), run["nodes"]["cores"].sum()
    return single_row((count, cores) != (run.info["num_nodes"], run.info["num_cores"]), count=count, cores=cores)


rule("requests", "requests", "every job has exactly one request, whose cores match the job table")


@check("job {job_id} with {requested} cores: its request is {tasks} tasks of {cores} cores, or occurs twice")
def _misrequested(run: Recorded) -> pl.DataFrame:
    """Return jobs without exactly one request, and requests without a job, which only a failed run may leave behind."""
    jobs = run["jobs"].select(*KEY, requested="requested_number_of_resources")
    both = jobs.join(run["requests"], on=KEY, how="full", coalesce=True, maintain_order="left_right")
    unasked = pl.col("requested").is_null() & pl.lit(run.info["status"] != "failed")
    other = pl.col("requested") != tasks * pl.col("cores")
    return both.filter(tasks.is_null() | unasked | other | pl.struct(KEY).is_duplicated())


rule(
    "placements",
    "placements",
    "every execution has placements on nodes, each node once, and every placement has an execution",
)


@check("job {job_id} runs " + _SPAN + ", but has no placement on a node")
def _nowhere(run: Recorded) -> pl.DataFrame:
    return run.once(all_executions).join(
        run["placements"], on=SPAN, how="anti", nulls_equal=True, maintain_order="left"
    )


@check(
    "job {job_id} is placed on node {node} " + _SPAN + ", but it does not run then, is placed there twice, "
    "or the node does not exist"
)
def _unexecuted(run: Recorded) -> pl.DataFrame:
    known = run["placements"].join(run["nodes"], on="node", how="semi", maintain_order="left")
    return pl.concat(
        [
            run["placements"].join(
                run.once(all_executions), on=SPAN, how="anti", nulls_equal=True, maintain_order="left"
            ),
            run["placements"].join(run["nodes"], on="node", how="anti", maintain_order="left"),
            known.filter(pl.struct(*SPAN, "node").is_duplicated() & _lasts()),
        ]
    )


rule(
    "placed_tasks",
    "placements",
    "an execution has the number of tasks that its job requests, and no node has more of them than allowed",
)


@check("job {job_id} requests {task_tasks} tasks, but has {tasks} " + _SPAN)
def _misplaced_tasks(run: Recorded) -> pl.DataFrame:
    whole = run.once(_placed).filter(_lasts()).group_by(SPAN, maintain_order=True)
    sums = whole.agg(tasks.sum(), pl.col("task_tasks").first())
    return sums.filter(tasks != pl.col("task_tasks"))


@check(
    "job {job_id} has {tasks} tasks on node {node_name!r} " + _SPAN + ", but allows at most "
    "{task_tasks_per_node} per node"
)
def _crowded(run: Recorded) -> pl.DataFrame:
    return run.once(_placed).filter(tasks > pl.col("task_tasks_per_node"))


rule("suitable_nodes", "placements", "jobs run on nodes with the partition, GPU model and features that they request")


@check(
    "job {job_id} is on node {node_name!r} (partition {node_partition!r}, GPU model {node_gpu_model!r}, "
    "features {node_features}), but requests partition {task_partition!r}, GPU models {task_gpu_models}, "
    "features {task_features} and none of {task_excluded_features}"
)
def _unsuitable(run: Recorded) -> pl.DataFrame:
    partition, models = pl.col("task_partition"), pl.col("task_gpu_models")
    wanted, there = pl.col("task_features"), pl.col("node_features")
    suits = (
        ((partition == "") | (partition == pl.col("node_partition")))
        & ((models.list.len() == 0) | models.list.contains(pl.col("node_gpu_model")))
        & (wanted.list.set_difference(there).list.len() == 0)
        & (pl.col("task_excluded_features").list.set_intersection(there).list.len() == 0)
    )
    return run.once(_placed).filter(~suits)


rule("held_gpus", "placements", "tasks hold the GPUs that they request: entire GPUs, or a share of a single one")


@check(
    "job {job_id} holds GPUs {gpus!r} of node {node_name!r}, which has {node_gpus}, but each of its "
    "{tasks} tasks requests {task_gpus} (exclusive: {task_exclusive})"
)
def _wrong_gpus(run: Recorded) -> pl.DataFrame:
    """Return the placements that do not hold the requested GPUs, or, with exclusive nodes, all GPUs."""
    unreadable = run.once(_placed).filter(~is_readable())
    share, each = pl.col("share"), (pl.col("task_gpus") * GPU).round().cast(pl.Int64)
    devices = run.once(_devices).with_columns(each=each)
    odd = (
        (pl.col("gpu") >= pl.col("node_gpus"))
        | pl.struct("row", "gpu").is_duplicated()
        | ~share.is_between(1, GPU)
        | ((pl.col("each") >= GPU) | pl.col("task_exclusive")) & (share != GPU)
        | (pl.col("each") > 0) & (pl.col("each") < GPU) & ~pl.col("task_exclusive") & (share % pl.col("each") != 0)
    )
    sums = devices.group_by("row").agg(held=share.sum(), odd=odd.any())
    rows = _readable(run).with_row_index("row").join(sums, on="row", how="left", maintain_order="left")
    want = pl.when("task_exclusive").then(pl.col("node_gpus") * GPU).otherwise(each * tasks)
    wrong = rows.filter(pl.col("odd").fill_null(False) | (pl.col("held").fill_null(0) != want))
    return pl.concat([unreadable, wrong.select(unreadable.columns)])


rule(
    "cores_on_nodes",
    "placements",
    "the cores of an execution are on its nodes, and match in number what its tasks there request",
)


@check("job {job_id} has {held} cores on node {node} " + _SPAN + ", but its tasks there request {requested}")
def _wrong_cores(run: Recorded) -> pl.DataFrame:
    """Return nodes where the cores of an execution differ in number from what its tasks there request."""
    executions, nodes = run.once(all_executions), run["nodes"]
    ranges = read_core_ranges(executions["allocated_resources"], run.info["num_cores"])
    first = nodes["first_core"].to_numpy()
    on = [np.searchsorted(first, core, "right") - 1 for core in (ranges.first, ranges.last)]
    frame = pl.DataFrame({"row": ranges.row, "first": ranges.first, "last": ranges.last, "on": on[0], "to": on[1]})
    held = frame.with_columns(node=pl.int_ranges("on", pl.col("to") + 1)).explode("node")
    held = held.join(nodes.select("node", "first_core", "cores"), on="node", maintain_order="left")
    end = pl.min_horizontal("last", pl.col("first_core") + pl.col("cores") - 1)
    held = held.with_columns(held=end - pl.max_horizontal("first", "first_core") + 1)
    held = held.group_by("row", "node").agg(pl.col("held").sum())
    numbered = executions.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64), bad=ranges.malformed)
    spans = numbered.filter(~pl.col("bad") & _lasts()).select("row", *SPAN)
    wanted = run.once(_placed).select(*SPAN, "node", requested=tasks * pl.col("task_cores"))
    held = held.join(spans, on="row").drop("row")
    wanted = wanted.join(spans, on=SPAN, how="semi", nulls_equal=True)
    both = held.join(wanted, on=[*SPAN, "node"], how="full", coalesce=True, nulls_equal=True)
    both = both.with_columns(pl.col("held", "requested").fill_null(0)).sort(*SPAN, "node")
    return both.filter(pl.col("held") != pl.col("requested"))


rule("node_capacity", "placements", "executions never hold more of a resource or a GPU of a node than the node has")


@check(
    "at {starting_time} s, when job {job_id} starts, {used} {resource} of node {node_name!r} are held, but "
    "the node has {capacity}"
)
def _overcommitted(run: Recorded) -> pl.DataFrame:
    return _above_capacity(_held(run))


rule("exclusive_nodes", "placements", "a job that requests exclusive nodes shares none with other jobs")


@check(
    "at {starting_time} s, when job {job_id} starts, node {node_name!r} is shared although a job requests "
    "it exclusively"
)
def _not_alone(run: Recorded) -> pl.DataFrame:
    """Return the starts after which a job that requests exclusive nodes shares one.

    Such a job counts as more jobs than there can be, other jobs as one.
    """
    many = run.height("placements") + 1
    amount = pl.when("task_exclusive").then(many).otherwise(1).cast(pl.Int64)
    jobs = pl.lit("jobs")
    return _above_capacity(_holding(run.once(_placed), jobs, amount, pl.lit(many, pl.Int64)))


rule(
    "request_conservation",
    "requests",
    "requests are those of the workload (which must be a sequence)",
    needs_workload=True,
)


@check("job {job_id}: the request differs from the workload in {what}")
def _changed_requests(run: Recorded) -> pl.DataFrame:
    """Return requests that differ from the workload, which must be a sequence because it is read again."""
    if not isinstance(run.workload, Sequence):
        return pl.DataFrame()
    names = [name for name in run["requests"].columns if name not in KEY]
    arrivals = Arrivals(run)
    numbered = ((arrivals.number(row, job.job_id), job) for row, job in enumerate(run.workload))
    given = [(number, *_values(job.request)) for number, job in numbered if job.request is not None and not job.sizes]
    schema = {name: run["requests"].schema[name] for name in ("arrival_number", *names)}
    workload = pl.DataFrame(given, schema, orient="row")
    both = run["requests"].join(workload, on="arrival_number", suffix="_given", maintain_order="left")
    wrong = [(name, pl.col(name).ne_missing(pl.col(f"{name}_given"))) for name in names]
    what = pl.concat_str([pl.when(other).then(pl.lit(f"{name} ")).otherwise(pl.lit("")) for name, other in wrong])
    return both.with_columns(what=what.str.strip_chars_end()).filter(pl.any_horizontal(other for _, other in wrong))
