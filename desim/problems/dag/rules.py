"""Rules of the DAG cluster, checked on the tables of a run.

Times are compared exactly where the simulator does not round: the order of ends and starts on an executor, the begin of
a transfer when its data are complete, the start of a copy when its last input arrives. Times that are sums (the end of
a copy, the arrival of data) may differ by four units in the last place of the largest term. Intervals are half-open: an
executor freed at t can be used at t, and a copy without duration overlaps with nothing.

If nodes run task by task (``granularity`` in the description is ``task``), every task is a copy. The executors that a
task receives data from, and how much from each, follow from where the parent's tasks ran whose results were held when
the task was assigned.

What is not recorded cannot be checked: the order in which an executor's queue was filled, when copies were withdrawn,
and how long a task takes whose duration was sampled from measured ones. If transfers share links (``links`` in the
description), data may arrive later than they would alone, and from a copy other than the one that would have been
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from desim.problems.dag import recorded
from desim.problems.dag.recorded import KEY, NODE, by_node, by_task, copies, transfers
from desim.problems.dag.tables import EDGES, MODES, NODES
from desim.validation import Check, Recorded, conservation_rule, horizon_rule, rounding, rule, unique_ids_rule

__all__ = ["RULES"]

View = Callable[[Recorded], pl.DataFrame]

RELATIVE = 1e-9
"""Relative tolerance for sums of work and of data sizes."""

col = pl.col
status, outcome = col("status").cast(pl.String), col("outcome")
assigned, start, finish = col("assignment_time"), col("starting_time"), col("finish_time")


def _said(find: Callable[[Recorded], Iterable[str]]) -> View:
    """Return a view with one row per message, given a function that yields finished messages."""
    return lambda run: pl.DataFrame({"text": list(find(run))}, {"text": pl.String})


# -- the graph ------------------------------------------------------------------------------------


def _totals(run: Recorded) -> pl.DataFrame:
    """Return the jobs with the number and the total of their rows in the tables of nodes and edges."""
    jobs = run["jobs"]
    for table, part in (("nodes", "work"), ("edges", "size")):
        totals = run[table].group_by(KEY).agg(pl.len().alias(table), col(part).sum().alias(f"{table}_sum"))
        jobs = jobs.join(totals, on=KEY, how="left", maintain_order="left")
    return jobs.with_columns(col("nodes", "edges", "nodes_sum", "edges_sum").fill_null(0))


def _strangers(table: str, run: Recorded) -> pl.DataFrame:
    return run[table].join(run["jobs"].select(KEY), on=KEY, how="anti", maintain_order="left")


def _edges(run: Recorded) -> pl.DataFrame:
    return run["edges"].join(run["jobs"].select(*KEY, "num_nodes"), on=KEY, how="left", maintain_order="left")


def _run_times(run: Recorded) -> pl.Expr:
    times = col("run_times").list
    # The element-wise check also catches null and NaN; a run time is infinite where the node may not run.
    bad = times.eval(~(pl.element().is_not_nan() & (pl.element() >= 0)).fill_null(value=False)).list.any()
    wrong: pl.Expr = (times.len() != run.info["num_executors"]) | bad | (times.min() == np.inf)
    return wrong


def _of_parts(table: str, counts: str, sums: str) -> tuple[Check, ...]:
    """Return the checks of the jobs' rows in another table."""
    return (
        Check(
            _totals,
            col(table) != col(counts),
            f"job {{job_id}}: got {{{table}}} rows in table {table}, expected {{{counts}}}",
        ),
        Check(
            _totals,
            (col(sums) - col(f"{table}_sum")).abs() > RELATIVE * col(f"{table}_sum").abs(),
            f"job {{job_id}}: {sums}: got {{{sums}}}, expected {{{table}_sum}}, the sum over its {table}",
        ),
        Check(table, partial(_strangers, table), f"job {{job_id}} has rows in table {table}, but is not in table jobs"),
    )


# -- executors that are down ----------------------------------------------------------------------


def _downtimes(run: Recorded) -> pl.DataFrame:
    """Return the periods in which executors were down."""
    number = pl.int_range(pl.len()).over("executor").alias("number")
    up, down = (run.once(events).with_columns(number) for events in (recorded.ups, recorded.downs))
    down = down.join(up.rename({"at": "until"}), on=["executor", "number"], how="left", maintain_order="left")
    return down.select("executor", "at", since="at", until=col("until").fill_null(np.inf))


def _while_down(first: str, end: str, run: Recorded) -> pl.DataFrame:
    """Return the copies whose executor was down between two of their times."""
    frame = run.once(copies)
    wanted = frame.select("executor", time=end)
    downtime = recorded.last(wanted, run.once(_downtimes), ["executor"], exact=False)
    frame = frame.hstack(downtime.drop("at")).with_columns(begin=first, finally_=end)
    return frame.filter(col("until") > col("begin"))


def _outlasting(run: Recorded) -> pl.DataFrame:
    frame = run.once(copies)
    outage = recorded.next_down(run, frame["executor"], frame["assignment_time"], exact=False)
    kept = pl.when(outcome == "queued").then(np.inf).otherwise(start)
    return frame.with_columns(outage=outage).filter(col("outage") < kept)


def _cut_without_outage(run: Recorded) -> pl.DataFrame:
    frame = run.once(copies).filter(outcome == "interrupted")
    outage = recorded.next_down(run, frame["executor"], frame["finish_time"], exact=True)
    return frame.with_columns(outage=outage).filter(col("outage") != finish)


def _unexplained_withdrawals(run: Recorded) -> pl.DataFrame:
    """Return the withdrawn copies that neither an outage nor the end of their job explains.

    A job whose nodes run task by task does not end while any task waits. If no data are lost, an outage withdraws only
    copies that wait on the executor itself.
    """
    frame, moments = run.once(copies).filter(outcome == "withdrawn"), run.once(recorded.downs)
    since = moments.group_by("executor").agg(since=col("at").max())
    if by_node(run) or run.info["outages_lose_data"]:
        since = run["executors"].select("executor", since=pl.lit(moments["at"].max(), pl.Float64))
    frame = frame.join(since, on="executor", how="left", maintain_order="left")
    ended = col("ended").is_not_null() & by_node(run)
    return frame.filter(~ended & (assigned > col("since")).fill_null(value=True))


# -- copies ---------------------------------------------------------------------------------------


def _recorded_late(run: Recorded) -> pl.DataFrame:
    """Return the copies that ended before another copy whose end was recorded earlier."""
    ended = run.once(copies).filter(outcome.is_in(["completed", "interrupted"])).with_columns(latest=finish.cum_max())
    return ended.filter(col("latest") - finish > rounding(col("latest")))


def _durations() -> pl.Expr:
    due, whole = start + col("whole"), col("whole")
    late = finish - due
    completed = (outcome == "completed") & (late.abs() > rounding(due, whole))
    return completed | ((outcome == "interrupted") & (late > rounding(due, whole)))


def _overdue(run: Recorded) -> pl.Expr:
    due = start + col("whole")
    late = (due < run.end_time - rounding(due)).fill_null(value=False)
    return (outcome == "running") & (late | (run.drained & col("ended").is_null()))


def _left_in_queues(run: Recorded) -> pl.Expr:
    return (outcome == "queued") & (col("ended").is_not_null() | run.drained)


# -- assignments ----------------------------------------------------------------------------------


def _duplicates(run: Recorded) -> pl.DataFrame:
    """Return the copies with whether their node certainly, or possibly, had another copy when they were assigned.

    The time of a withdrawal is not recorded, so a withdrawn copy may or may not count.
    """
    frame = run.once(copies)
    others = frame.select(*NODE, other="row", then=assigned, lost="gone", is_duplicate="duplicate")
    pairs = frame.select(*NODE, "row", "assignment_time").join(others, on=NODE).filter(col("row") != col("other"))
    then, lost = col("then"), col("lost")
    surely = ((then < assigned) | ((then == assigned) & ~col("is_duplicate"))) & (lost > assigned)
    possibly = (then <= assigned) & ~(lost < assigned).fill_null(value=False)
    found = pairs.group_by("row").agg(is_one=surely.fill_null(value=False).any(), may_be=possibly.any())
    frame = frame.join(found, on="row", how="left", maintain_order="left")
    return frame.with_columns(col("is_one", "may_be").fill_null(value=False))


def _without_parents(run: Recorded) -> pl.DataFrame:
    """Return copies with each parent that was not assigned in time or, without planning ahead, had no result."""
    others = run.once(copies).select(
        "arrival_number", parent="node", then=assigned, result=pl.when(outcome == "completed").then(finish), lost="gone"
    )
    pairs = run.once(recorded.of_parents)
    found = pairs.select("pair", "arrival_number", "parent", "duplicate", "assignment_time").join(
        others, on=["arrival_number", "parent"]
    )
    here = col("then") <= assigned
    if not run.info["plan_ahead"]:
        ready = (col("result") <= assigned).fill_null(value=False) & ~(col("lost") < assigned).fill_null(value=False)
        here &= col("duplicate") | ready
    missing = pairs.join(found.filter(here), on="pair", how="anti", maintain_order="left")
    return missing.with_columns(verb=pl.lit("assigned" if run.info["plan_ahead"] else "ready"))


def _before_results(run: Recorded) -> pl.DataFrame:
    """Return tasks with each parent whose tasks did not all have results when the task was assigned."""
    pairs = run.once(recorded.of_parents)
    wanted = pairs.select("arrival_number", node="parent", time=assigned)
    return pairs.with_columns(held=recorded.num_held(run, wanted, NODE)).filter(col("held") < col("parent_tasks"))


def _repeated(run: Recorded) -> pl.DataFrame:
    """Return the tasks assigned again although the previous assignment was neither interrupted nor lost."""
    part = [*NODE, "task"]
    frame = run.once(copies).sort(*part, "assignment_time", maintain_order=True)
    before = col("gone", "assignment_time", "executor").shift().over(part).name.suffix("_before")
    return frame.with_columns(before).filter(col("gone_before") > assigned)


# -- inputs ---------------------------------------------------------------------------------------


def _numbers_of_inputs(run: Recorded) -> pl.DataFrame:
    found = run.once(transfers).group_by(row="copy").agg(found=pl.len())
    frame = run.once(copies).join(found, on="row", how="left", maintain_order="left")
    return frame.with_columns(col("found").fill_null(0))


def _incomplete_shares(run: Recorded) -> pl.DataFrame:
    """Return the tasks that started with results of fewer, or more, tasks of a parent than the parent has."""
    received = run.once(recorded.held_shares).group_by("parent", row="copy").agg(received=col("held").sum())
    pairs = run.once(recorded.of_parents).filter(start.is_not_null())
    pairs = pairs.join(received, on=["row", "parent"], how="left", maintain_order="left")
    return pairs.with_columns(col("received").fill_null(0)).filter(col("received") != col("parent_tasks"))


def _lost_inputs(run: Recorded) -> pl.DataFrame:
    needed = pl.max_horizontal("arrival_time", "assigned")
    return run.once(transfers).with_columns(needed=needed).filter(col("gone") < col("needed"))


def _wrong_begins(run: Recorded) -> pl.DataFrame:
    frame = run.once(transfers).with_columns(due=recorded.begin(run, "finish", "source"))
    return frame.filter((start < col("due")) | ((start > col("due")) & (not recorded.has_shared_links(run))))


def _wrong_arrivals(run: Recorded) -> pl.Expr:
    """Find transfers with a wrong duration; on shared links, those that are too short."""
    want, arrival = start + col("seconds"), col("arrival_time")
    tolerance = rounding(want, col("seconds"))
    alone = (col("source") == col("destination")) | (not recorded.has_shared_links(run))
    return (want - arrival > tolerance) | ((arrival - want > tolerance) & alone)


# -- the rules ------------------------------------------------------------------------------------

_TIMES = ("submission_time", "assignment_time", "receiving_time", "starting_time", "finish_time")


def _backwards(earlier: str, later: str) -> Check:
    text = f"{{what}}: {later}: got {{{later}}} s, expected no earlier than {earlier}, {{{earlier}}} s"
    return Check(copies, col(later) < col(earlier), text)


def _after_end(column: str) -> Check:
    text = f"{{what}}: {column}: got {{{column}}} s, expected no later than the end of the job, {{ended}} s"
    return Check(copies, col(column) > col("ended"), text)


def _no_executor(rows: str | View, column: str, subject: str = "{what} in row {row}") -> Check:
    return Check(
        rows,
        lambda run: (col(column) < 0) | (col(column) >= run.info["num_executors"]),
        f"{subject}: {column}: got {{{column}}}, expected a number from 0 to below {{run.info[num_executors]}}",
    )


def _no_task(view: View) -> Check:
    wrong = (col("task") < 0) | (col("task") >= col("parts"))
    return Check(view, wrong, "{what} in row {row}: task: got {task}, expected a number from 0 to below {parts}")


def _submitted(run: Recorded) -> Iterator[tuple[Any, ...]]:
    for job in run.once(recorded.submitted):
        sizes = job.num_nodes, job.num_edges, job.work.sum().item(), job.parent_size.sum().item()
        yield job.job_id, job.submission_time, job.label, *sizes


_OF_JOBS = conservation_rule(
    ("job_id", "submission_time", "label", "num_nodes", "num_edges", "work", "data_size"), rows=_submitted
)


def _without_mode(run: Recorded) -> pl.DataFrame:
    """Return the nodes with modes whose run times are not those of the quickest mode on each executor."""
    key = [*KEY, "node"]
    times = run["modes"].select(*key, "run_times", executor=pl.int_ranges(col("run_times").list.len()))
    least = times.explode("run_times", "executor").group_by(*key, "executor").agg(col("run_times").min())
    frame = least.sort(*key, "executor").group_by(key, maintain_order=True).agg(least="run_times")
    return frame.join(run["nodes"].select(*NODE, "run_times"), on=NODE, how="left", maintain_order="left")


_OF_PARTS = (
    Check(
        "nodes",
        partial(recorded.unconserved, table=NODES),
        "job {job_id} was submitted with node {node} ({name}) of work {work}, {num_tasks} tasks, run times "
        "{run_times}, measured durations: {measured}; expected the same in table nodes",
    ),
    Check(
        "edges",
        partial(recorded.unconserved, table=EDGES),
        "job {job_id} was submitted with an edge from node {parent} to {child} of size {size}; expected the same in "
        "table edges",
    ),
    Check(
        "modes",
        partial(recorded.unconserved, table=MODES),
        "job {job_id} was submitted with mode {mode} of node {node} and run times {run_times}; expected the same in "
        "table modes",
        recorded.has_modes,
    ),
)


RULES = (
    rule(
        "executors",
        "executors and channels are complete and match the description",
        Check("executors", _said(recorded.executor_faults), "{text}"),
        Check("channels", _said(recorded.channel_faults), "{text}"),
        vital=True,
    ),
    rule(
        "graph",
        "nodes and edges match the jobs, and every parent precedes its children, so there are no cycles",
        *_of_parts("nodes", "num_nodes", "work"),
        *_of_parts("edges", "num_edges", "data_size"),
        Check(
            "nodes",
            col("node") != pl.int_range(pl.len()).over(KEY),
            "job {job_id}: got node {node} out of order, expected consecutive numbers from 0",
        ),
        Check(
            "nodes",
            _run_times,
            "job {job_id} node {node}: run_times: got {run_times}, expected {run.info[num_executors]} numbers >= 0, "
            "finite on at least one executor",
        ),
        Check(
            _without_mode,
            col("run_times").ne_missing(col("least")),
            "job {job_id} node {node}: run_times: got {run_times}, expected {least}, those of the quickest mode",
            recorded.has_modes,
        ),
        Check(
            _edges,
            (col("parent") < 0) | (col("parent") >= col("child")) | (col("child") >= col("num_nodes")),
            "job {job_id}: got an edge from node {parent} to node {child}, expected ascending numbers of its "
            "{num_nodes} nodes",
        ),
        Check(
            _edges,
            ~pl.struct("arrival_number", "parent", "child").is_first_distinct(),
            "job {job_id}: the edge from node {parent} to node {child} is recorded twice",
        ),
        vital=True,
    ),
    rule(
        "references",
        "copies, transfers and outages refer only to existing jobs, nodes, tasks, edges and executors",
        Check(
            copies,
            col("submission_time").is_null(),
            "{what} in row {row}: no such job with arrival number {arrival_number}",
        ),
        Check(copies, col("parts").is_null(), "{what} in row {row}: the job has no such node"),
        _no_task(copies),
        Check(
            copies,
            (col("mode") < 0) | (col("mode") >= col("num_modes")),
            "{what} in row {row}: mode: got {mode}, expected a number from 0 to below {num_modes}",
            recorded.has_modes,
        ),
        _no_executor(copies, "executor"),
        Check(
            transfers,
            col("edge_size").is_null(),
            "{what} in row {row}: the job with arrival number {arrival_number} has no such edge",
        ),
        _no_task(transfers),
        *(_no_executor(transfers, end) for end in ("source", "destination")),
        _no_executor("outages", "executor", "the outage at {time} s"),
        vital=True,
    ),
    rule(
        "eligible",
        "a copy is assigned only to an executor that may run its node",
        Check(
            copies,
            col("run_times").list.get(col("executor"), null_on_oob=True) == np.inf,
            "{what}, assigned at {assignment_time} s: the node may not run there, its run times are {run_times}",
        ),
    ),
    unique_ids_rule(lambda run: pl.when(status == "completed").then(finish).otherwise(np.inf)),
    horizon_rule("jobs", ("submission_time",), " s"),
    horizon_rule("copies", _TIMES[1:], " s"),
    rule(
        "job_times",
        "a job starts with its first copy and ends when its last node, or task, finishes for the first time",
        Check(
            recorded.jobs_by_nodes,
            start.ne_missing(col("first")),
            "job {job_id}: starting_time: got {starting_time} s, expected {first} s, the start of its first copy",
        ),
        Check(
            recorded.jobs_by_nodes,
            (status == "completed") & (col("last") < np.inf) & (finish != col("last")),
            "job {job_id}: finish_time: got {finish_time} s, expected {last} s, the finish of its last node",
        ),
    ),
    rule(
        "all_nodes",
        "in a completed job, every node, or every task of every node, has finished",
        Check(
            recorded.jobs_by_nodes,
            (status == "completed") & (col("last") == np.inf),
            "job {job_id} is completed, but its node {node} has not finished",
        ),
    ),
    rule(
        "unfinished",
        "unfinished copies and jobs are not overdue, and nothing runs or waits at the natural end of a run",
        Check(
            recorded.jobs_by_nodes,
            (status != "completed") & (col("last") < np.inf),
            "job {job_id} is {status}, although all its nodes had finished by {last} s",
        ),
        Check(
            copies,
            _overdue,
            "{what}, started at {starting_time} s with a run time of {whole} s, is still running at the end of the "
            "{run.info[status]} run, {run.end_time} s",
        ),
        Check(
            copies,
            _left_in_queues,
            "{what} is still queued at the end of the {run.info[status]} run, {run.end_time} s; its job ended at "
            "{ended} s",
        ),
    ),
    rule(
        "outages",
        "executors go down only when up, and up only when down",
        Check(
            "outages",
            ~(col("time") >= col("time").shift(fill_value=0.0)),
            "the event at {time} s is recorded after a later one",
        ),
        Check(
            "outages",
            lambda run: col("time") > run.end_time,
            "event at {time} s: expected no later than the end of the run, {run.end_time} s",
        ),
        Check(
            "outages",
            col("event").cast(pl.String) == col("event").cast(pl.String).shift(fill_value="up").over("executor"),
            "executor {executor} goes {event} at {time} s, although it is already {event}",
        ),
    ),
    rule(
        "copy_times",
        "a copy is assigned after its job is submitted, then comes next on its executor, then starts, then finishes",
        Check(
            copies,
            start.is_not_null() & col("receiving_time").is_null(),
            "{what} started at {starting_time} s, but receiving_time is null: it never was next on its executor",
        ),
        *(_backwards(*pair) for pair in (*pairwise(_TIMES), ("assignment_time", "starting_time"))),
    ),
    rule(
        "after_completion",
        "no copy is assigned or starts after the end of its job",
        _after_end("assignment_time"),
        _after_end("starting_time"),
    ),
    rule(
        "record_order",
        "ends of copies are recorded in the order in which they happened",
        Check("copies", _recorded_late, "{what} ended at {finish_time} s, but is recorded after an end at {latest} s"),
    ),
    rule(
        "duration",
        "a copy runs for the work of its node over the speed of its executor, or for the job's own run time; a task "
        "runs for an equal share of that, or for any time if its duration was sampled",
        Check(
            copies,
            _durations(),
            "{what} is {outcome} in [{starting_time}, {finish_time}) s, expected a run time of {whole} s",
        ),
    ),
    rule(
        "executor_exclusive",
        "no executor, other than a pool, runs two copies at once",
        Check(
            recorded.in_turns,
            col("end_before") > start,
            "{what} starts at {starting_time} s, while {what_before} runs there in "
            "[{starting_time_before}, {end_before}) s",
            recorded.one_by_one,
        ),
    ),
    rule(
        "pools",
        "no pool holds more than its capacity, and no copy waits for amounts that are free",
        Check("copies", _said(recorded.pool_faults), "{text}", recorded.on_pools),
    ),
    rule(
        "executor_down",
        "an executor that is down runs no copy and is assigned none, and its queue does not outlast the outage",
        *(
            Check(
                "copies",
                partial(_while_down, first, end),
                f"{{what}} {verb} from {{begin}} s to {{finally_}} s, but the executor is down in "
                "[{since}, {until}) s",
                recorded.has_outages,
            )
            for first, end, verb in (
                ("starting_time", "end", "runs"),
                ("assignment_time", "assignment_time", "is assigned"),
            )
        ),
        Check(
            "copies",
            _outlasting,
            "{what}, assigned at {assignment_time} s, still waits or starts after the outage of its executor at "
            "{outage} s",
            recorded.has_outages,
        ),
    ),
    rule(
        "interruptions",
        "a copy is interrupted only when its executor goes down",
        Check(
            "copies",
            _cut_without_outage,
            "{what} is interrupted at {finish_time} s, but its executor does not go down then",
        ),
    ),
    rule(
        "withdrawals",
        "a copy is withdrawn only after an outage or the end of its job; a task, if no data are lost, only after an "
        "outage of its executor",
        Check(
            "copies",
            _unexplained_withdrawals,
            "{what}, assigned at {assignment_time} s, is withdrawn, but there was neither an outage since then nor the "
            "end of its job",
        ),
    ),
    rule(
        "duplicates",
        "a copy is a duplicate if its node had another copy when it was assigned; tasks have no duplicates",
        Check(
            _duplicates,
            col("duplicate") & ~col("may_be"),
            "{what}, assigned at {assignment_time} s: expected no duplicate, as the node had no other copy then",
            by_node,
        ),
        Check(
            _duplicates,
            ~col("duplicate") & col("is_one"),
            "{what}, assigned at {assignment_time} s: expected a duplicate, as the node had another copy then",
            by_node,
        ),
        Check(copies, col("duplicate"), "{what}, assigned at {assignment_time} s: tasks have no duplicates", by_task),
    ),
    rule(
        "repetitions",
        "a task is assigned again only after it was interrupted or withdrawn, or its result was lost",
        Check(
            "copies",
            _repeated,
            "{what} is assigned at {assignment_time} s, although the assignment at {assignment_time_before} s to "
            "executor {executor_before} was neither interrupted nor lost",
            by_task,
        ),
    ),
    rule(
        "parents",
        "when a node is assigned, its parents are assigned or, without planning ahead, have results; when a task is "
        "assigned, all tasks of all parents have results",
        Check(
            "copies",
            _without_parents,
            "{what} is assigned at {assignment_time} s, before its parent {parent} is {verb}",
            by_node,
        ),
        Check(
            "copies",
            _before_results,
            "{what} is assigned at {assignment_time} s, when only {held} of {parent_tasks} tasks of its parent "
            "{parent} have results",
            by_task,
        ),
    ),
    rule(
        "inputs",
        "a copy that starts has one complete input per parent of its node, arrived before the start; a task has "
        "received the results of all tasks of all parents, each once",
        Check(transfers, col("copy").is_null(), "{what}: no copy started there with these data"),
        Check(
            transfers,
            col("start") < col("arrival_time"),
            "{what}: the copy starts at {start} s, before the data arrive at {arrival_time} s",
        ),
        Check(
            transfers,
            col("size") != col("edge_size"),
            "{what}: size: got {size}, expected {edge_size} as for the edge",
            by_node,
        ),
        Check(
            _numbers_of_inputs,
            start.is_not_null() & (col("found") != col("num_parents")),
            "{what} started with {found} inputs, expected {num_parents}, one per parent",
            by_node,
        ),
        Check(
            "copies",
            _incomplete_shares,
            "{what} started with results of {received} tasks of node {parent}, expected {parent_tasks}",
            by_task,
        ),
    ),
    rule(
        "shares",
        "a task receives an equal share of the edge's data, from each source in proportion to the parent's tasks there",
        Check(
            recorded.held_shares,
            col("copy").is_not_null()
            & (col("held") > 0)
            & ((col("size") - col("expected")).abs() > rounding(col("expected"))),
            "{what}: size: got {size}, expected {expected}: {held} of {parent_parts} tasks ran there",
            by_task,
        ),
    ),
    rule(
        "sources",
        "data come from a finished copy whose result is not lost before the data arrive",
        Check(
            transfers,
            col("provider").is_null(),
            "{what} are sent at {starting_time} s, but no copy of that node has finished there by then",
        ),
        Check(
            "transfers",
            _lost_inputs,
            "{what} are lost in the outage at {gone} s, but needed from {starting_time} s to {needed} s",
        ),
    ),
    rule(
        "transfer_times",
        "transfers begin as soon as they may, and take latency plus size over transfer speed, or no time within one "
        "executor",
        Check(
            "transfers",
            _wrong_begins,
            "{what} are sent at {starting_time} s, expected {due} s: finished at {finish} s, assigned at {assigned} s",
        ),
        Check(
            transfers,
            _wrong_arrivals,
            "{what}, sent at {starting_time} s, arrive at {arrival_time} s, expected after {seconds} s",
        ),
    ),
    rule(
        "earliest_source",
        "data come from the copy of the parent with the earliest arrival (not checked for shared links and tasks)",
        Check(
            recorded.other_sources,
            (col("lost") > pl.max_horizontal("earlier", "assigned"))
            & (col("arrival_time") - col("earlier") > rounding(col("earlier"))),
            "{what} arrive at {arrival_time} s; from executor {other_source}, they would arrive at {earlier} s",
            recorded.moves_alone,
        ),
    ),
    rule(
        "no_waiting",
        "a copy starts as soon as it is assigned, its data have arrived, and its executor is free, up and has moved",
        Check(
            recorded.starts,
            (start > col("could")) & ~col("behind"),
            "{what} starts at {starting_time} s, expected {could} s: assigned at {assignment_time} s, data arrived at "
            "{data} s, executor free at {free} s",
            recorded.one_by_one,
        ),
    ),
    rule(
        "moving_delay",
        "an executor moves before it runs a task of another job, unless it was down in between",
        Check(
            recorded.starts,
            (col("delay") > 0) & (start < col("moved")),
            "{what} starts at {starting_time} s, expected no earlier than {moved} s: its executor, free at {free} s, "
            "must move from another job first",
            by_task,
        ),
    ),
    rule(
        "links",
        "no link carries more than its bandwidth allows in any period (with shared links)",
        Check("transfers", _said(recorded.overloads), "{text}", recorded.has_shared_links),
    ),
    replace(_OF_JOBS, checks=(*_OF_JOBS.checks, *_OF_PARTS)),
)
"""Rules of a run of DAG jobs beyond the descriptions of its tables, in the order of checking."""
