"""Tables of a run of DAG jobs as its rules need them: copies and transfers joined with what they refer to.

Every view returns the rows of a table, in their order, with extra columns. A time that does not exist is null; one that
never comes is infinite.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.problems.dag.executors import LISTED, MILLION
from desim.problems.dag.job import Job
from desim.problems.dag.tables import with_demands
from desim.tables import Table
from desim.validation import Recorded

__all__ = [
    "KEY",
    "NODE",
    "begin",
    "by_node",
    "by_task",
    "channel_faults",
    "copies",
    "downs",
    "executor_faults",
    "has_modes",
    "has_outages",
    "has_shared_links",
    "held_shares",
    "in_turns",
    "jobs_by_nodes",
    "last",
    "moves_alone",
    "next_down",
    "nodes",
    "num_held",
    "of_parents",
    "on_pools",
    "one_by_one",
    "other_sources",
    "overloads",
    "pool_faults",
    "starts",
    "submitted",
    "transfers",
    "unconserved",
    "ups",
]

KEY = ["arrival_number", "job_id"]
"""Columns that identify the job of a row; both must match."""

NODE = ["arrival_number", "node"]
"""Columns that identify a node."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

col = pl.col
INF = pl.lit(np.inf)


def by_task(run: Recorded) -> bool:
    """Return whether nodes run task by task."""
    return bool(run.info["granularity"] == "task")


def by_node(run: Recorded) -> bool:
    """Return whether nodes run as a whole."""
    return not by_task(run)


def has_outages(run: Recorded) -> bool:
    """Return whether executors went down."""
    return not run["outages"].is_empty()


def has_shared_links(run: Recorded) -> bool:
    """Return whether transfers share links, so that they may take longer than they would alone."""
    return run.info.get("links") is not None


def moves_alone(run: Recorded) -> bool:
    """Return whether each copy takes each input from the source with the earliest arrival."""
    return by_node(run) and not has_shared_links(run)


def on_pools(run: Recorded) -> bool:
    """Return whether executors are pools, which run several nodes at once."""
    return bool(run.info.get("resources"))


def has_modes(run: Recorded) -> bool:
    """Return whether nodes have several modes."""
    return "modes" in run.info


def one_by_one(run: Recorded) -> bool:
    """Return whether executors run one copy at a time."""
    return not on_pools(run)


def _beside(frame: pl.DataFrame, other: pl.DataFrame, on: str | Sequence[str]) -> pl.DataFrame:
    return frame.join(other, on=on, how="left", maintain_order="left")


def last(
    frame: pl.DataFrame,
    events: pl.DataFrame,
    keys: Sequence[str],
    *,
    strategy: Literal["backward", "forward"] = "backward",
    exact: bool = True,
) -> pl.DataFrame:
    """Return, for each row of a frame, the last event with the same keys up to the row's time.

    Parameters
    ----------
    frame : polars.DataFrame
        Frame with the keys and a column ``time``; null finds nothing.
    events : polars.DataFrame
        Events with the keys and a column ``at``.
    keys : sequence of str
        Columns to match.
    strategy : {"backward", "forward"}
        Direction of the search; ``"forward"`` finds the first event from the row's time on instead.
    exact : bool
        Whether an event at exactly that time counts.

    Returns
    -------
    polars.DataFrame
        Columns of the events, in the order of the frame, null if there is none. If times are equal, the last event.
    """
    wanted = frame.select(*keys, "time").with_row_index("place").sort("time", maintain_order=True)
    found = wanted.join_asof(
        events.sort("at", maintain_order=True),
        left_on="time",
        right_on="at",
        by=list(keys),
        strategy=strategy,
        coalesce=False,
        allow_exact_matches=exact,
        check_sortedness=False,
    )
    return found.sort("place").drop("place", "time", *keys)


def downs(run: Recorded) -> pl.DataFrame:
    """Return the times at which executors went down."""
    return run["outages"].filter(col("event") == "down").select("executor", at="time")


def ups(run: Recorded) -> pl.DataFrame:
    """Return the times at which executors came back up."""
    return run["outages"].filter(col("event") == "up").select("executor", at="time")


def next_down(run: Recorded, executor: pl.Series, time: pl.Series, *, exact: bool) -> pl.Series:
    """Return when executors next go down after (or at) given times; infinite if never."""
    if not has_outages(run):
        return pl.Series(np.full(len(time), np.inf))
    frame = pl.DataFrame({"executor": executor, "time": time})
    return last(frame, run.once(downs), ["executor"], strategy="forward", exact=exact)["at"].fill_null(np.inf)


def last_repair(run: Recorded, executor: pl.Series, time: pl.Series) -> pl.Series:
    """Return when executors last came back up by given times; 0 if never."""
    if not has_outages(run):
        return pl.Series(np.zeros(len(time)))
    frame = pl.DataFrame({"executor": executor, "time": time})
    return last(frame, run.once(ups), ["executor"])["at"].fill_null(0.0)


def nodes(run: Recorded) -> pl.DataFrame:
    """Return the nodes with ``parts`` (number of tasks, 1 without tasks) and ``num_parents``."""
    parents = run["edges"].group_by("arrival_number", node="child").agg(num_parents=pl.len())
    parts = col("num_tasks") if by_task(run) else pl.lit(1)
    return _beside(run["nodes"], parents, NODE).with_columns(col("num_parents").fill_null(0), parts=parts)


def copies(run: Recorded) -> pl.DataFrame:
    """Return the copies joined with their jobs and nodes.

    Extra columns: ``row``; ``submission_time`` of the job, null if there is no such job; ``ended``, when the job
    completed, null before; ``num_parents`` and ``parts`` of the node, null if there is no such node; ``run_times`` in
    its mode and, in runs with modes, ``num_modes``; ``whole``, the run time, null if it was sampled; ``end``, when the
    copy left its executor, infinite if it still runs; ``gone``, when its result was lost or it was interrupted,
    infinite if never, null if unknown; ``what``, its name.

    Parameters
    ----------
    run : Recorded
        Recorded run.
    """
    of_nodes = run.once(nodes).select(*NODE, "work", "run_times", "measured", "num_parents", "parts")
    of_jobs = run["jobs"].select(
        *KEY, "submission_time", ended=pl.when(col("status").cast(pl.String) == "completed").then("finish_time")
    )
    own = col("run_times").list.get("executor", null_on_oob=True)
    kind = pl.when("duplicate").then(pl.lit("duplicate of ")).otherwise(pl.lit(""))
    frame = _beside(run["copies"].with_row_index("row"), of_jobs, KEY)
    frame = _beside(_beside(frame, of_nodes, NODE), run["executors"].select("executor", "speed"), "executor")
    if has_modes(run):
        modes = run["modes"].select(*NODE, "mode", in_mode="run_times")
        counts = modes.group_by(NODE).agg(num_modes=pl.len())
        frame = _beside(_beside(frame, modes, [*NODE, "mode"]), counts, NODE)
        frame = frame.with_columns(col("num_modes").fill_null(1), run_times=pl.coalesce("in_mode", "run_times"))
    frame = frame.with_columns(
        outcome=col("outcome").cast(pl.String),
        whole=pl.when(~(pl.lit(by_task(run)) & col("measured"))).then(
            pl.coalesce(own, col("work") / col("speed")) / col("parts")
        ),
        end=pl.when(col("outcome").cast(pl.String) == "running").then(INF).otherwise("finish_time"),
        what=pl.format("{}job {} node {}{} on executor {}", kind, "job_id", "node", _task(run), "executor"),
    )
    return frame.with_columns(gone=_gone(run, frame))


def _task(run: Recorded) -> pl.Expr:
    return pl.format(" task {}", "task") if by_task(run) else pl.lit("")


def _gone(run: Recorded, frame: pl.DataFrame) -> pl.Series:
    """Return when each copy's result was lost or the copy was interrupted.

    A result completed at the instant of an outage is lost with it. A copy that both starts and ends at that instant may
    have come after the outage, if the executor was repaired at once.
    """
    executor, finish = frame["executor"], frame["finish_time"]
    lost = pl.Series(np.full(len(frame), np.inf))
    if run.info["outages_lose_data"]:
        at_once = (frame["starting_time"] == finish) & (last_repair(run, executor, finish) == finish)
        after = next_down(run, executor, finish, exact=False)
        lost = after.zip_with(at_once.fill_null(False), next_down(run, executor, finish, exact=True))
    return frame.select(
        pl.when(col("outcome") == "interrupted")
        .then("finish_time")
        .when(col("outcome") == "completed")
        .then(lost)
        .when(col("outcome") != "withdrawn")
        .then(INF)
    ).to_series()


def num_held(run: Recorded, frame: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """Return the number of task results held at given times.

    Parameters
    ----------
    run : Recorded
        Recorded run.
    frame : polars.DataFrame
        Frame with a column ``time`` and the keys.
    keys : sequence of str
        Columns of the copies by which to count.

    Returns
    -------
    polars.Series
        For each row, the number of tasks that have finished by then and whose results have not been lost by then.
    """
    done = run.once(copies).filter(col("outcome") == "completed")
    finished, lost = (
        last(frame, done.select(*keys, at=time).sort("at").with_columns(count=pl.int_range(pl.len()).over(keys)), keys)
        for time in ("finish_time", "gone")
    )
    return (finished["count"] + 1).fill_null(0) - (lost["count"] + 1).fill_null(0)


def of_parents(run: Recorded) -> pl.DataFrame:
    """Return a row (``pair``) for each copy and each parent of its node, with the parent's parts (``parent_tasks``)."""
    edges = run["edges"].select("arrival_number", "parent", node="child")
    parents = run.once(nodes).select("arrival_number", parent="node", parent_tasks="parts")
    pairs = run.once(copies).join(edges, on=NODE, maintain_order="left")
    return _beside(pairs, parents, ["arrival_number", "parent"]).with_row_index("pair")


def _received(run: Recorded) -> pl.DataFrame:
    """Return the copies that started; ``number`` counts earlier starts of the same on the same executor."""
    started = run.once(copies).filter(col("starting_time").is_not_null())
    started = started.sort("starting_time", "end", maintain_order=True)
    return started.with_columns(number=pl.int_range(pl.len()).over(*NODE, "task", "executor"))


def transfers(run: Recorded) -> pl.DataFrame:
    """Return the transfers joined with the copies that they connect.

    Extra columns: ``row``; ``edge_size``, null if there is no such edge; ``parts`` of the child; ``copy``, the row of
    the receiving copy, null if there is none, with its ``start`` and ``assigned``; ``provider``, the row of the source
    copy (the last to finish there before the transfer began, or before the task was assigned), with its ``finish`` and
    ``gone``; ``back_since``, when the destination was last repaired before the assignment, as an outage loses received
    data; ``seconds``, the duration if nothing else is moving; ``what``, the name. If an executor ran a node several
    times, the rows of each input are in the order of the starts.

    Parameters
    ----------
    run : Recorded
        Recorded run.
    """
    keys = [*NODE, "task", "executor"]
    edge = [*KEY, "parent", "child"]
    frame = _beside(run["transfers"].with_row_index("row"), run["edges"].select(*edge, edge_size="size"), edge)
    frame = frame.with_columns(
        node="child",
        executor="destination",
        time="starting_time",
        what=pl.format(
            "job {}: data of node {} for node {}{}, from executor {} to {}",
            *("job_id", "parent", "child", _task(run), "source", "destination"),
        ),
        number=pl.int_range(pl.len()).over(*edge, "task", "destination", *(["source"] * by_task(run))),
    )
    frame = _beside(frame, run.once(nodes).select(*NODE, "parts"), NODE)
    started = run.once(_received)
    if by_task(run):  # in a repeated run, data may come from other executors, but are then sent later
        before = last(frame, started.select(*keys, "number", at="starting_time"), keys, exact=False)["number"]
        frame = frame.with_columns(pl.max_horizontal("number", (before + 1).fill_null(0)))
    receivers = started.select(*keys, "number", copy="row", start="starting_time", assigned="assignment_time")
    frame = _beside(frame, receivers, [*keys, "number"])
    done = run.once(copies).filter(col("outcome") == "completed")
    provided = done.select(*NODE, "executor", "gone", provider="row", finish="finish_time", at="finish_time")
    until = col("assigned").fill_null(np.inf) if by_task(run) else col("starting_time")
    wanted = frame.select("arrival_number", node="parent", executor="source", time=until)
    back_since = pl.Series(np.zeros(len(frame)))
    if run.info["outages_lose_data"]:
        back_since = last_repair(run, frame["destination"], frame["assigned"])
    providers = last(wanted, provided, [*NODE, "executor"]).drop("at").with_columns(back_since=back_since)
    frame = frame.drop("node", "executor", "time", "number").hstack(providers)
    return frame.with_columns(seconds=_seconds(run, frame, "source"))


def _seconds(run: Recorded, frame: pl.DataFrame, source: str) -> pl.Series:
    """Return how long transfers take if nothing else is moving, from the executor in a given column."""
    ends = frame[source].to_numpy(), frame["destination"].to_numpy()
    speed, latency = (_of_pairs(run, column, *ends) for column in ("transfer_speed", "latency"))
    return pl.Series(latency + frame["size"].to_numpy() / speed)


def _of_pairs(run: Recorded, column: str, source: Integers, destination: Integers) -> Floats:
    """Return the described transfer speeds or latencies of pairs of executors; within an executor, data take no time.

    A check compares the table of channels with the description, which holds equal values of all pairs as one number.
    """
    values = run.once(_described)[column]
    if values.ndim:
        last = len(values) - 1
        values = values[source.clip(0, last), destination.clip(0, last)]
    return np.where(source == destination, np.inf if column == "transfer_speed" else 0.0, values)


def _described(run: Recorded) -> dict[str, Floats]:
    """Return transfer speeds and latencies as described: a number, or a table."""
    found = {}
    for column in ("transfer_speed", "latency"):
        values = np.array(run.info[column], dtype=np.float64)  # None becomes NaN, alone or within a table
        values[np.isnan(values)] = np.inf
        found[column] = values
    return found


def begin(run: Recorded, result: str, source: str) -> pl.Expr:
    """Return when transfers can begin, given the columns of the results' finish times and of the sources."""
    since = "back_since" if run.info["transfers"] == "when_finished" else "assigned"
    return pl.when(col(source) == col("destination")).then(result).otherwise(pl.max_horizontal(result, since))


def other_sources(run: Recorded) -> pl.DataFrame:
    """Return each transfer joined with each other finished copy of the parent.

    Extra columns: ``other_source``, and ``earlier``, when the data would have arrived from there.

    Parameters
    ----------
    run : Recorded
        Recorded run.
    """
    done = run.once(copies).filter(col("outcome") == "completed")
    done = done.select(
        "arrival_number", parent="node", other="row", other_source="executor", result="finish_time", lost="gone"
    )
    pairs = run.once(transfers).filter(col("copy").is_not_null()).join(done, on=["arrival_number", "parent"])
    pairs = pairs.filter(col("other").ne_missing(col("provider"))).sort("row", maintain_order=True)
    seconds = _seconds(run, pairs, "other_source")
    return pairs.with_columns(earlier=begin(run, "result", "other_source") + seconds)


def held_shares(run: Recorded) -> pl.DataFrame:
    """Return the transfers with ``held``, the parent's tasks with results at the source, and ``expected`` size."""
    parents = run.once(nodes).select("arrival_number", parent="node", parent_parts="parts")
    frame = _beside(run.once(transfers), parents, ["arrival_number", "parent"])
    wanted = frame.select("arrival_number", node="parent", executor="source", time="assigned")
    frame = frame.with_columns(held=num_held(run, wanted, [*NODE, "executor"]))
    return frame.with_columns(expected=col("held") / col("parent_parts") * col("edge_size") / col("parts"))


def jobs_by_nodes(run: Recorded) -> pl.DataFrame:
    """Return the jobs with ``first`` (first start) and ``last`` (when the last node, ``node``, first finished)."""
    done = run.once(copies).filter(col("outcome") == "completed")
    done = done.group_by(*NODE, "task").agg(col("finish_time").min())
    done = done.group_by(NODE).agg(first=col("finish_time").max(), count=pl.len())
    finished = pl.when(col("count") == col("parts")).then("first").otherwise(INF)
    of_nodes = (
        run.once(nodes).sort(NODE).join(done, on=NODE, how="left", maintain_order="left").select(*NODE, first=finished)
    )
    latest = of_nodes.group_by("arrival_number").agg(
        last=col("first").max(), node=col("node").get(col("first").arg_max())
    )
    starts = run["copies"].group_by("arrival_number").agg(first=col("starting_time").min())
    return _beside(_beside(run["jobs"], latest, "arrival_number"), starts, "arrival_number")


def in_turns(run: Recorded) -> pl.DataFrame:
    """Return the copies that started, joined with the previous copy on the same executor."""
    names = ("what", "starting_time", "end", "arrival_number")
    started = run.once(copies).filter(col("starting_time").is_not_null())
    started = started.sort("executor", "starting_time", "end", maintain_order=True)
    return started.with_columns(col(*names).shift().over("executor").name.suffix("_before"))


def starts(run: Recorded) -> pl.DataFrame:
    """Return the copies that started with the earliest time at which they could start.

    Extra columns: ``free``, when their executor was up and had finished the previous copy; ``delay``, how long it then
    moved to their job; ``moved``, when it had moved; ``data``, when their data had arrived; ``could``, the latest of
    these; ``behind``, whether a copy ahead of them may have been withdrawn at the moment of their start.

    Parameters
    ----------
    run : Recorded
        Recorded run.
    """
    frame = run.once(in_turns)
    repair = last_repair(run, frame["executor"], frame["starting_time"])
    frame = frame.with_columns(repair=repair, free=pl.max_horizontal("end_before", repair.alias("repair")))
    delay = pl.lit(0.0)
    if by_task(run):
        # After an outage, there is no move from another job; a copy without duration may follow directly on a repair.
        moves = (col("arrival_number") != col("arrival_number_before")) & (
            (col("repair") < col("end_before")) | (col("repair") == col("starting_time_before"))
        )
        delay = pl.when(moves).then(pl.lit(float(run.info["moving_delay"]))).otherwise(0.0)
    data = run.once(transfers).group_by(row="copy").agg(data=col("arrival_time").max())
    gone = run.once(copies).filter(col("outcome") == "withdrawn")
    first = gone.group_by("executor").agg(first_withdrawn=col("assignment_time").min())
    frame = _beside(_beside(frame, data, "row"), first, "executor")
    frame = frame.with_columns(col("data").fill_null(0.0), delay=delay)
    frame = frame.with_columns(moved=pl.max_horizontal("free", "assignment_time") + col("delay"))
    moments = pl.concat([run.once(downs)["at"], gone["ended"].drop_nulls()])
    moved = moments + float(frame["delay"].max() or 0.0)  # type: ignore[arg-type]  # a number
    start = col("starting_time")
    at_once = pl.when(col("delay") > 0).then(start.is_in(moved.implode())).otherwise(start.is_in(moments.implode()))
    behind = (at_once & (col("first_withdrawn") <= start)).fill_null(value=False)
    return frame.with_columns(could=pl.max_horizontal("moved", "data"), behind=behind).sort("row")


# -- pools ----------------------------------------------------------------------------------------


def pool_faults(run: Recorded) -> Iterator[str]:
    """Yield copies that overfill a pool, and those that wait although their demands are free.

    A copy that starts later than its assignment, its data, the copy before it in the queue, and the repair of its pool
    must have waited for amounts that became free just then, unless a withdrawal made it the next one.

    Parameters
    ----------
    run : Recorded
        Recorded run.
    """
    resources = run.info["resources"]
    demands = [f"demand_{resource}" for resource in resources]
    capacities = run["executors"].select(f"capacity_{resource}" for resource in resources).to_numpy()
    data = run.once(transfers).group_by(row="copy").agg(data=col("arrival_time").max())
    modes = run["modes"] if has_modes(run) else None
    frame = _beside(with_demands(run.once(copies), run["nodes"], modes, resources), data, "row")
    moments = {*run.once(downs)["at"].to_list(), *frame.filter(col("outcome") == "withdrawn")["ended"].to_list()}
    started = frame.filter(col("starting_time").is_not_null() & (col("executor") < len(capacities)))
    started = started.with_columns(repair=last_repair(run, started["executor"], started["starting_time"]))
    started = started.sort("executor", "starting_time", "assignment_time", maintain_order=True)
    for own in started.partition_by("executor", maintain_order=True):
        capacity = capacities[own["executor"][0]].tolist()
        start, end = own["starting_time"].to_numpy(), own["end"].to_numpy()
        held = np.column_stack(
            [own[name].fill_null(most).to_numpy() for name, most in zip(demands, capacity, strict=True)]
        )
        assigned = own["assignment_time"].to_numpy()
        ready = np.maximum(np.maximum(assigned, own["data"].fill_null(0.0).to_numpy()), own["repair"].to_numpy())
        ready = np.maximum(ready, np.append(0.0, start[:-1]))
        most, least = np.array(capacity) * (1 + RELATIVE_LOAD), np.array(capacity) + 0.5 / MILLION
        late: dict[float, list[int]] = defaultdict(list)
        reached: dict[float, float] = {}  # by start: earliest assignment of a copy that could not start before
        for place, (what, begin) in enumerate(zip(own["what"].to_list(), start.tolist(), strict=True)):
            taken = held[(start <= begin) & (end > begin)].sum(axis=0)
            if (taken > most).any():
                yield f"{what} starts at {begin} s, when copies there hold {taken.tolist()} of {capacity}"
            wanted = held[(start < begin) & (end >= begin)].sum(axis=0) + held[place]
            if begin > ready[place] and begin not in moments and not (wanted > least).any():
                late[begin].append(place)
            else:
                reached[begin] = min(reached.get(begin, np.inf), assigned[place])
        for begin, places in late.items():
            for place in places:
                if reached.get(begin, np.inf) > assigned[place]:  # nothing ahead of it in the queue explains the wait
                    yield (
                        f"{own['what'][place]} starts at {begin} s, expected {ready[place]} s: "
                        f"{held[place].tolist()} of {capacity} were free"
                    )


# -- checks that write their own messages ---------------------------------------------------------

CHANNELS_AT_ONCE = 100_000
"""Channels that are checked together."""

RELATIVE_LOAD = 1e-6
"""Relative tolerance for the load of a link: each begin and end of a transfer recomputes the rates, with rounding."""


# -- executors and channels -----------------------------------------------------------------------


def executor_faults(run: Recorded) -> Iterator[str]:
    """Yield differences between the executors and the description of the run."""
    executors, count = run["executors"], run.info["num_executors"]
    if executors["executor"].to_list() != list(range(count)):
        yield f"executor: got {executors['executor'].to_list()}, expected the numbers 0 to {count - 1}"
    for column, expected in (("speed", run.info["speeds"]), ("name", run.info["executors"])):
        if executors[column].to_list() != expected:
            yield f"{column}: got {executors[column].to_list()}, expected {expected} as in the description"
    for number, speed in enumerate(executors["speed"].to_list()):
        if not speed > 0:
            yield f"speed of executor {number}: got {speed}, expected a number above 0"


def channel_faults(run: Recorded) -> Iterator[str]:
    """Yield channels that are missing or differ from the description of the run."""
    channels, count = run["channels"], run.info["num_executors"]
    is_uniform = not any(values.ndim for values in run.once(_described).values())
    if channels.is_empty() and is_uniform and count > LISTED:
        return
    if count * (count - 1) != len(channels):
        yield f"channels: got {len(channels)}, expected {count * (count - 1)}, one per pair of executors"
        return
    for column, values in run.once(_described).items():
        if values.shape not in ((), (count, count)):
            yield f"{column}: got a description of shape {values.shape}, expected {(count, count)}"
            return
    if any(len(_misplaced(*portion, count)) for portion in _portions(channels)):
        channels = channels.sort("source", "destination")
    for first, portion in _portions(channels):
        for row in _misplaced(first, portion, count).tolist():
            source, destination = (ends.item(row) for ends in _pairs(first, portion, count))
            yield (
                f"channels: got one from executor {portion['source'][row]} to {portion['destination'][row]}, expected "
                f"one from {source} to {destination}, one per pair of executors"
            )
            return
        ends = _pairs(first, portion, count)
        for column in ("transfer_speed", "latency"):
            values, expected = portion[column].to_numpy(), _of_pairs(run, column, *ends)
            faulty = (values != expected) | (values < 0) | ((values == 0) & (column == "transfer_speed"))
            for row in np.flatnonzero(faulty).tolist():
                yield (
                    f"{column} from executor {ends[0][row]} to {ends[1][row]}: got {values[row]}, expected "
                    f"{expected[row]}"
                )


def _portions(channels: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield parts of the channels, each with the number of its first row: of many executors, there are very many."""
    for first in range(0, len(channels), CHANNELS_AT_ONCE):
        yield first, channels[first : first + CHANNELS_AT_ONCE]


def _pairs(first: int, portion: pl.DataFrame, count: int) -> tuple[Integers, Integers]:
    """Return the executors of channels in order, from a row on."""
    source, destination = np.divmod(np.arange(first, first + len(portion)), max(count - 1, 1))
    return source, destination + (destination >= source)


def _misplaced(first: int, portion: pl.DataFrame, count: int) -> Integers:
    """Return the rows that are not the channels in order."""
    source, destination = _pairs(first, portion, count)
    wrong = (portion["source"].to_numpy() != source) | (portion["destination"].to_numpy() != destination)
    return np.flatnonzero(wrong)


# -- shared links ---------------------------------------------------------------------------------


def overloads(run: Recorded) -> Iterator[str]:
    """Yield overloads of links, counted from the begin of each period in which a link is in use without a break.

    Changes of the rates are not recorded, but a transfer uses its links only between its own begin and arrival. So the
    transfers that have arrived by some time are at most what the link has carried since the period began.

    Parameters
    ----------
    run : Recorded
        Recorded run.
    """
    links = run.info["links"]
    frame = run.once(transfers)
    pairs = frame.group_by("source", "destination").agg("row").rows()
    uses: dict[int, list[int]] = defaultdict(list)
    known: dict[int, dict[int, list[int]]] = {}
    for source, destination, rows in pairs:
        for link in _route(links, source, destination, known):
            uses[link] += rows
    for link, rows in sorted(uses.items()):
        if links["bandwidths"][link] is not None:
            yield from _overloads_of(links["names"][link], links["bandwidths"][link], frame[sorted(rows)])


def _route(
    links: Mapping[str, Any], source: int, destination: int, known: dict[int, dict[int, list[int]]]
) -> list[int]:
    """Return the links between two executors; older runs have a route for each pair.

    Of networks, the paths from a source that have been found are added to the known ones.
    """
    if source == destination:
        return []
    if "neighbors" in links:
        if source not in known:
            known[source] = _paths(links["neighbors"], links["executors"][source])
        return known[source][links["executors"][destination]]
    if "routes" in links:
        return list(links["routes"][source][destination])
    between = links["between"][links["groups"][source]][links["groups"][destination]]
    return [*links["up"][source], *between, *links["down"][destination]]


def _paths(neighbors: Sequence[Sequence[Sequence[int]]], source: int) -> dict[int, list[int]]:
    """Return the links on the first path with the fewest of them from one vertex to each other."""
    paths: dict[int, list[int]] = {source: []}
    level = [source]
    while level:
        following = []
        for vertex in level:
            for other, link in neighbors[vertex]:
                if other not in paths:
                    paths[other] = [*paths[vertex], link]
                    following.append(other)
        level = following
    return paths


def _overloads_of(name: str, bandwidth: float, frame: pl.DataFrame) -> Iterator[str]:
    frame = frame.sort("starting_time", maintain_order=True)
    begin, arrival, size = (frame[column].to_numpy() for column in ("starting_time", "arrival_time", "size"))
    free = np.ones(len(frame), dtype=np.bool_)
    free[1:] = begin[1:] > np.maximum.accumulate(arrival)[:-1]
    stretch = np.cumsum(free) - 1
    since = begin[free][stretch]
    order = np.lexsort((arrival, stretch))
    total = np.cumsum(size[order])
    before = np.append(0.0, total)[np.flatnonzero(free)]  # a period occupies the same places in both orders
    carried = total - before[stretch[order]]
    room = bandwidth * (arrival - since)[order]
    changes = np.arange(len(order)) - np.flatnonzero(free)[stretch[order]] + 1  # of rates; each rounds the clock
    allowed = room + RELATIVE_LOAD * total + bandwidth * 4.0 * changes * np.spacing(arrival[order])
    for place in np.flatnonzero(carried > allowed).tolist():
        row = order[place]
        yield (
            f"link {name}: carried {carried[place]} from {since[row]} s to {arrival[row]} s, expected at most "
            f"{room[place]}; {frame['what'][int(row)]}"
        )


# -- conservation ---------------------------------------------------------------------------------


def submitted(run: Recorded) -> list[Job]:
    """Return the jobs of the workload by submission time; of a stopped run, those submitted up to its end."""
    jobs: Iterable[Job] = run.workload or ()
    known = jobs if run.drained else takewhile(lambda job: not job.submission_time > run.end_time, jobs)
    return sorted(known, key=attrgetter("submission_time"))


def unconserved(run: Recorded, table: Table) -> pl.DataFrame:
    """Return the nodes or edges of submitted jobs that are not recorded as they were submitted.

    Parameters
    ----------
    run : Recorded
        Recorded run.
    table : Table
        Table of the nodes or of the edges.

    Returns
    -------
    polars.DataFrame
        Nodes or edges as submitted. Jobs are matched by identifier; jobs with the same identifier by submission time.
    """
    left: dict[int, list[int]] = defaultdict(list)  # arrival numbers by job id, the last submitted first
    known = run["jobs"].sort("submission_time", "arrival_number", descending=True)
    for job_id, number in known.select("job_id", "arrival_number").iter_rows():
        left[job_id].append(number)
    pairs = [(job, left[job.job_id].pop()) for job in run.once(submitted) if left[job.job_id]]
    assert table.pack is not None
    found = run[table.name]
    given = pl.DataFrame(table.pack(pairs, run.info), found.schema)
    names = table.bound(run.info).names
    same = [col(name).cast(pl.List(pl.String)).list.join(" ") if name == "run_times" else name for name in names]
    return given.join(found, left_on=same, right_on=same, how="anti", nulls_equal=True, maintain_order="left")
