"""Rules of the DAG cluster, checked on the tables of a run.

Times are compared exactly where the simulator has no reason to round (the order of ends and starts on an executor, the
begin of a transfer when its data are complete, the start of a copy when the last of its inputs arrives) and up to four
units in the last place of the largest term where a time is a sum: the end of a copy, the arrival of data. Intervals are
half-open: an executor that is freed at t can be used at t, and a copy that takes no time overlaps with nothing.

Where nodes run task by task (``granularity`` in the description is ``task``), every task is a copy. The executors that
a task receives data from, and how much from each, follow from where the tasks of the parent ran whose results were held
when it was assigned.

What is not recorded cannot be checked: the order in which an executor's queue was filled, when copies were withdrawn,
and how long a task takes whose duration was drawn from measured ones. Where transfers share links (``links`` in the
description), data may arrive later than on their own, and may come from another copy than the one that would have been
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
from desim.problems.dag.tables import EDGES, NODES
from desim.validation import Check, Recorded, Rule, conservation_rule, horizon_rule, rounding, unique_ids_rule

__all__ = ["RULES"]

View = Callable[[Recorded], pl.DataFrame]

RELATIVE = 1e-9
"""Sums of work and of data sizes may differ by this part."""

col = pl.col
status, outcome = col("status").cast(pl.String), col("outcome")
assigned, start, finish = col("assignment_time"), col("starting_time"), col("finish_time")


def _said(find: Callable[[Recorded], Iterable[str]]) -> View:
    """Return a function that puts messages that are written already into a frame."""
    return lambda run: pl.DataFrame({"text": list(find(run))}, {"text": pl.String})


# -- the graph ------------------------------------------------------------------------------------


def _totals(run: Recorded) -> pl.DataFrame:
    """Return the jobs beside how many rows, with how much in all, there are of them in other tables."""
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
    # The element-wise check sees null, NaN and infinity, too.
    bad = times.eval(~(pl.element().is_finite() & (pl.element() >= 0)).fill_null(value=False)).list.any()
    wrong: pl.Expr = (times.len() != run.info["num_executors"]) | bad
    return wrong


def _of_parts(table: str, counts: str, sums: str) -> tuple[Check, ...]:
    """Return the checks of what stands in another table of each job."""
    return (
        Check(
            _totals,
            col(table) != col(counts),
            f"job {{job_id}} has {{{table}}} rows in table {table}, want {{{counts}}}",
        ),
        Check(
            _totals,
            (col(sums) - col(f"{table}_sum")).abs() > RELATIVE * col(f"{table}_sum").abs(),
            f"job {{job_id}}: {sums} is {{{sums}}}, its {table} have {{{table}_sum}}",
        ),
        Check(table, partial(_strangers, table), f"job {{job_id}} has rows in table {table}, but is none"),
    )


# -- executors that are down ----------------------------------------------------------------------


def _downtimes(run: Recorded) -> pl.DataFrame:
    """Return since when and until when executors were down."""
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
    """Return the copies that were withdrawn although there was no outage; a job that ends takes its other copies back.

    A job whose nodes run task by task does not end while any of them waits. Where no data are lost, an outage takes
    back what waits on its own executor only.
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
    """Return the copies that ended before another whose end was recorded earlier: they would have run in the past."""
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
    """Return the copies with whether their node surely, or possibly, had another copy when they were assigned.

    When a copy was withdrawn is not recorded: it may count, or not.
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
    """Return copies, each with a parent that was not assigned by then or, unless nodes are planned ahead, not ready."""
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
    """Return tasks, each with a parent not all of whose tasks had results when it was assigned."""
    pairs = run.once(recorded.of_parents)
    wanted = pairs.select("arrival_number", node="parent", time=assigned)
    return pairs.with_columns(held=recorded.num_held(run, wanted, NODE)).filter(col("held") < col("want"))


def _repeated(run: Recorded) -> pl.DataFrame:
    """Return the tasks that were assigned again although what was assigned before is neither cut nor lost."""
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
    """Return the tasks that started with results of fewer tasks of a parent than there are, or of more."""
    received = run.once(recorded.held_shares).group_by("parent", row="copy").agg(received=col("held").sum())
    pairs = run.once(recorded.of_parents).filter(start.is_not_null())
    pairs = pairs.join(received, on=["row", "parent"], how="left", maintain_order="left")
    return pairs.with_columns(col("received").fill_null(0)).filter(col("received") != col("want"))


def _lost_inputs(run: Recorded) -> pl.DataFrame:
    needed = pl.max_horizontal("arrival_time", "assigned")
    return run.once(transfers).with_columns(needed=needed).filter(col("gone") < col("needed"))


def _wrong_begins(run: Recorded) -> pl.DataFrame:
    frame = run.once(transfers).with_columns(want=recorded.begin(run, "finish", "source"))
    return frame.filter((start < col("want")) | ((start > col("want")) & (not recorded.has_shared_links(run))))


def _wrong_arrivals(run: Recorded) -> pl.Expr:
    """Find the transfers that took another time; on shared links it is what they take at least."""
    want, arrival = start + col("seconds"), col("arrival_time")
    tolerance = rounding(want, col("seconds"))
    alone = (col("source") == col("destination")) | (not recorded.has_shared_links(run))
    return (want - arrival > tolerance) | ((arrival - want > tolerance) & alone)


# -- the rules ------------------------------------------------------------------------------------

_TIMES = ("submission_time", "assignment_time", "receiving_time", "starting_time", "finish_time")


def _backwards(earlier: str, later: str) -> Check:
    text = f"{{what}}: {later} {{{later}}} s lies before {earlier} {{{earlier}}} s"
    return Check(copies, col(later) < col(earlier), text)


def _after_end(column: str) -> Check:
    text = f"{{what}}: {column} {{{column}}} s lies after the end of the job at {{ended}} s"
    return Check(copies, col(column) > col("ended"), text)


def _no_executor(rows: str | View, column: str, subject: str = "{what} in row {row}") -> Check:
    return Check(
        rows,
        lambda run: (col(column) < 0) | (col(column) >= run.info["num_executors"]),
        f"{subject}: {column} is {{{column}}}, want one below {{run.info[num_executors]}}",
    )


def _no_task(view: View) -> Check:
    wrong = (col("task") < 0) | (col("task") >= col("parts"))
    return Check(view, wrong, "{what} in row {row}: task is {task}, want one below {parts}")


def _submitted(run: Recorded) -> Iterator[tuple[Any, ...]]:
    for job in run.once(recorded.submitted):
        sizes = job.num_nodes, job.num_edges, job.work.sum().item(), job.parent_size.sum().item()
        yield job.job_id, job.submission_time, job.label, *sizes


_OF_JOBS = conservation_rule(
    ("job_id", "submission_time", "label", "num_nodes", "num_edges", "work", "data_size"), rows=_submitted
)
_OF_PARTS = (
    Check(
        "nodes",
        partial(recorded.unconserved, table=NODES),
        "job {job_id} was submitted with node {node}, {name}, of work {work} in {num_tasks} tasks with run times "
        "{run_times}, whose durations are measured: {measured}; it is not so recorded",
    ),
    Check(
        "edges",
        partial(recorded.unconserved, table=EDGES),
        "job {job_id} was submitted with an edge from node {parent} to {child} of size {size}; it is not so recorded",
    ),
)


def _rule(name: str, sentence: str, *checks: Check, **options: bool) -> Rule:
    return Rule(name, sentence, checks, **options)


RULES = (
    _rule(
        "executors",
        "executors and channels are complete and as the description says",
        Check("executors", _said(recorded.executor_faults), "{text}"),
        Check("channels", _said(recorded.channel_faults), "{text}"),
        vital=True,
    ),
    _rule(
        "graph",
        "nodes and edges are those of the jobs; every parent comes before its children, so that there is no cycle",
        *_of_parts("nodes", "num_nodes", "work"),
        *_of_parts("edges", "num_edges", "data_size"),
        Check(
            "nodes",
            col("node") != pl.int_range(pl.len()).over(KEY),
            "job {job_id} has node {node} where another number belongs: nodes are numbered from 0 on",
        ),
        Check(
            "nodes",
            _run_times,
            "job {job_id} node {node}: run_times is {run_times}, want {run.info[num_executors]} finite numbers of "
            "at least 0",
        ),
        Check(
            _edges,
            (col("parent") < 0) | (col("parent") >= col("child")) | (col("child") >= col("num_nodes")),
            "job {job_id}: there is an edge from node {parent} to node {child}, want the numbers of {num_nodes} "
            "nodes in ascending order",
        ),
        Check(
            _edges,
            ~pl.struct("arrival_number", "parent", "child").is_first_distinct(),
            "job {job_id}: the edge from node {parent} to node {child} is there twice",
        ),
        vital=True,
    ),
    _rule(
        "references",
        "copies, transfers and outages name only jobs, nodes, tasks, edges and executors that there are",
        Check(
            copies,
            col("submission_time").is_null(),
            "{what} in row {row}: there is no such job of arrival number {arrival_number}",
        ),
        Check(copies, col("parts").is_null(), "{what} in row {row}: the job has no such node"),
        _no_task(copies),
        _no_executor(copies, "executor"),
        Check(
            transfers,
            col("edge_size").is_null(),
            "{what} in row {row}: the job of arrival number {arrival_number} has no such edge",
        ),
        _no_task(transfers),
        *(_no_executor(transfers, end) for end in ("source", "destination")),
        _no_executor("outages", "executor", "the outage at {time} s"),
        vital=True,
    ),
    unique_ids_rule(lambda run: pl.when(status == "completed").then(finish).otherwise(np.inf)),
    horizon_rule("jobs", ("submission_time",), " s"),
    horizon_rule("copies", _TIMES[1:], " s"),
    _rule(
        "job_times",
        "a job starts with the first of its copies and ends when the last of its nodes, or tasks, first finishes",
        Check(
            recorded.jobs_by_nodes,
            start.ne_missing(col("first")),
            "job {job_id} starts at {starting_time} s, the first of its copies at {first} s",
        ),
        Check(
            recorded.jobs_by_nodes,
            (status == "completed") & (col("last") < np.inf) & (finish != col("last")),
            "job {job_id} ends at {finish_time} s, the last of its nodes at {last} s",
        ),
    ),
    _rule(
        "all_nodes",
        "every node, or every task of every node, of a completed job has finished",
        Check(
            recorded.jobs_by_nodes,
            (status == "completed") & (col("last") == np.inf),
            "job {job_id} is completed, but its node {node} has not finished",
        ),
    ),
    _rule(
        "unfinished",
        "what has not ended is not due, and nothing runs or waits when a run has gone on to its end",
        Check(
            recorded.jobs_by_nodes,
            (status != "completed") & (col("last") < np.inf),
            "job {job_id} is {status}, although all its nodes have finished by {last} s",
        ),
        Check(
            copies,
            _overdue,
            "{what}, started at {starting_time} s to run for {whole} s, is still running when the "
            "{run.info[status]} run ends at {run.end_time} s",
        ),
        Check(
            copies,
            _left_in_queues,
            "{what} is still queued when the {run.info[status]} run ends at {run.end_time} s; its job ended at "
            "{ended} s",
        ),
    ),
    _rule(
        "outages",
        "only executors that are up go down, and the reverse",
        Check(
            "outages",
            ~(col("time") >= col("time").shift(fill_value=0.0)),
            "the event at {time} s comes after a later one",
        ),
        Check(
            "outages", lambda run: col("time") > run.end_time, "event at {time} s: the run ended at {run.end_time} s"
        ),
        Check(
            "outages",
            col("event").cast(pl.String) == col("event").cast(pl.String).shift(fill_value="up").over("executor"),
            "executor {executor} goes {event} at {time} s, although it is {event} already",
        ),
    ),
    _rule(
        "copy_times",
        "a copy is assigned after the submission of its job, is next after that, then starts, then finishes",
        Check(
            copies,
            start.is_not_null() & col("receiving_time").is_null(),
            "{what} started at {starting_time} s and was never next: receiving_time is null",
        ),
        *(_backwards(*pair) for pair in (*pairwise(_TIMES), ("assignment_time", "starting_time"))),
    ),
    _rule(
        "after_completion",
        "no copy is assigned or starts after its job has ended",
        _after_end("assignment_time"),
        _after_end("starting_time"),
    ),
    _rule(
        "record_order",
        "the ends of copies are recorded in the order in which they happened",
        Check("copies", _recorded_late, "{what} ended at {finish_time} s, recorded after what ended at {latest} s"),
    ),
    _rule(
        "duration",
        "a copy runs for the work of its node over the speed of its executor, or the job's own run time; a task for an "
        "equal part of that, or any time where it was drawn",
        Check(copies, _durations(), "{what} is {outcome} in [{starting_time}, {finish_time}) s, it takes {whole} s"),
    ),
    _rule(
        "executor_exclusive",
        "no executor runs two copies at once",
        Check(
            recorded.in_turns,
            col("end_before") > start,
            "{what} starts at {starting_time} s, while {what_before} runs there in "
            "[{starting_time_before}, {end_before}) s",
        ),
    ),
    _rule(
        "executor_down",
        "no executor that is down runs a copy or is assigned one, and no queue outlasts an outage",
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
    _rule(
        "interruptions",
        "a copy is cut when its executor goes down",
        Check(
            "copies", _cut_without_outage, "{what} is cut at {finish_time} s, but its executor does not go down then"
        ),
    ),
    _rule(
        "withdrawals",
        "a copy is withdrawn only after an outage or the end of its job; a task, where no data are lost, only after an "
        "outage of its own executor",
        Check(
            "copies",
            _unexplained_withdrawals,
            "{what}, assigned at {assignment_time} s, is withdrawn, but neither an outage from then on nor the end "
            "of its job explains it",
        ),
    ),
    _rule(
        "duplicates",
        "a copy is a duplicate if its node had another copy when it was assigned; tasks are not duplicated",
        Check(
            _duplicates,
            col("duplicate") & ~col("may_be"),
            "{what}, assigned at {assignment_time} s: the node has no other copy then",
            by_node,
        ),
        Check(
            _duplicates,
            ~col("duplicate") & col("is_one"),
            "{what}, assigned at {assignment_time} s, is called no duplicate, but the node has another copy then",
            by_node,
        ),
        Check(copies, col("duplicate"), "{what}, assigned at {assignment_time} s: tasks are not duplicated", by_task),
    ),
    _rule(
        "repetitions",
        "a task is assigned again only when it was cut, withdrawn, or its result lost",
        Check(
            "copies",
            _repeated,
            "{what} is assigned at {assignment_time} s, although what was assigned at {assignment_time_before} s "
            "to executor {executor_before} is neither cut nor lost",
            by_task,
        ),
    ),
    _rule(
        "parents",
        "when a node is assigned its parents are assigned or, unless nodes are planned ahead, have results; when a "
        "task is, all tasks of all parents have",
        Check(
            "copies",
            _without_parents,
            "{what} is assigned at {assignment_time} s, before its parent {parent} is {verb}",
            by_node,
        ),
        Check(
            "copies",
            _before_results,
            "{what} is assigned at {assignment_time} s, when {held} of {want} tasks of its parent {parent} have "
            "results",
            by_task,
        ),
    ),
    _rule(
        "inputs",
        "a copy that starts has one input for each parent of its node, all of it, arrived before; a task has received "
        "results of all tasks of all parents, each once",
        Check(transfers, col("copy").is_null(), "{what}: no copy started there with it"),
        Check(
            transfers,
            col("start") < col("arrival_time"),
            "{what}: the copy starts at {start} s, before they arrive at {arrival_time} s",
        ),
        Check(
            transfers,
            col("size") != col("edge_size"),
            "{what}: the size is {size}, that of the edge is {edge_size}",
            by_node,
        ),
        Check(
            _numbers_of_inputs,
            start.is_not_null() & (col("found") != col("num_parents")),
            "{what} started with {found} inputs, the node has {num_parents} parents",
            by_node,
        ),
        Check(
            "copies",
            _incomplete_shares,
            "{what} started with results of {received} tasks of node {parent}, which has {want}",
            by_task,
        ),
    ),
    _rule(
        "shares",
        "a task receives its equal part of as much of an edge's size as of the parent's tasks ran at the source",
        Check(
            recorded.held_shares,
            col("copy").is_not_null()
            & (col("held") > 0)
            & ((col("size") - col("expected")).abs() > rounding(col("expected"))),
            "{what}: the size is {size}; {held} of {parent_parts} tasks ran there, which makes {expected}",
            by_task,
        ),
    ),
    _rule(
        "sources",
        "data come from a copy that had finished, and whose result is not lost before they have arrived",
        Check(
            transfers,
            col("provider").is_null(),
            "{what} sets out at {starting_time} s, when no copy of it has finished there",
        ),
        Check(
            "transfers",
            _lost_inputs,
            "{what} is lost in the outage at {gone} s, needed from {starting_time} s to {needed} s",
        ),
    ),
    _rule(
        "transfer_times",
        "data set out when they may, and take latency and size over transfer speed, or no time at home",
        Check(
            "transfers",
            _wrong_begins,
            "{what} sets out at {starting_time} s, want {want} s: finished at {finish} s, assigned at {assigned} s",
        ),
        Check(
            transfers,
            _wrong_arrivals,
            "{what}, sent at {starting_time} s, takes {seconds} s and arrives at {arrival_time} s",
        ),
    ),
    _rule(
        "earliest_source",
        "no other copy of the parent would have brought the data earlier (not with shared links, nor of tasks)",
        Check(
            recorded.other_sources,
            (col("lost") > pl.max_horizontal("earlier", "assigned"))
            & (col("arrival_time") - col("earlier") > rounding(col("earlier"))),
            "{what} arrives at {arrival_time} s; from executor {other_source} it would at {earlier} s",
            recorded.moves_alone,
        ),
    ),
    _rule(
        "no_waiting",
        "a copy starts as soon as it is assigned, its data are there, and its executor is free, up and has moved",
        Check(
            recorded.starts,
            (start > col("could")) & ~col("behind"),
            "{what} starts at {starting_time} s, and could at {could} s: assigned at {assignment_time} s, data "
            "there at {data} s, executor free at {free} s",
        ),
    ),
    _rule(
        "moving_delay",
        "an executor moves before it runs a task of another job, unless it has been down in between",
        Check(
            recorded.starts,
            (col("delay") > 0) & (start < col("moved")),
            "{what} starts at {starting_time} s; its executor, free from {free} s on, comes from another job and "
            "has moved at {moved} s",
            by_task,
        ),
    ),
    _rule(
        "links",
        "no link carries more than it can in any stretch of time (with shared links)",
        Check("transfers", _said(recorded.overloads), "{text}", recorded.has_shared_links),
    ),
    replace(_OF_JOBS, checks=(*_OF_JOBS.checks, *_OF_PARTS)),
)
"""What holds of a run of DAG jobs beyond the description of its tables, in the order of checking."""
