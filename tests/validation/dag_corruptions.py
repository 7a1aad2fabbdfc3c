"""Ways to corrupt a valid run of DAG jobs: each returns another result with one thing changed."""

from __future__ import annotations

import polars as pl
from dag_runs import Run

from desim import Result

OUTCOME = pl.col("outcome").cast(pl.String)
STATUS = pl.col("status").cast(pl.String)
MOVED = pl.col("source") != pl.col("destination")
LONG = pl.col("finish_time") - pl.col("starting_time") > 1.0
MEASURED = pl.col("measured")
SIZED = pl.col("size") > 0


def copy(run: Run, condition: pl.Expr | str, **values: float | str | bool | None) -> Result:
    """Edit the first copy of an outcome, or that meets another condition."""
    wanted = condition == OUTCOME if isinstance(condition, str) else condition
    return run.edited("copies", run.find("copies", wanted), **values)


def shifted(run: Run, table: str, condition: pl.Expr, **shifts: float) -> Result:
    """Shift times of the first row of a table that meets a condition."""
    row = run.find(table, condition)
    old = run.row(table, row)
    return run.edited(table, row, **{column: old[column] + shift for column, shift in shifts.items()})


def job(run: Run, was: str, **values: float | str | bool | None) -> Result:
    """Edit the first job of a status."""
    return run.edited("jobs", run.find("jobs", was == STATUS), **values)


def renamed(run: Run, table: str, column: str, value: int) -> Result:
    """Write another number into the first row of a table."""
    return run.edited(table, 0, **{column: value})


def unfinished_node(run: Run) -> Result:
    """Say that an original of a job that is completed was withdrawn, and forget what it was sent."""
    copies = run.result.table("copies").with_row_index()
    only = copies.filter(pl.len().over("job_id", "node") == 1).row(0, named=True)
    gone = dict.fromkeys(("receiving_time", "starting_time", "finish_time"))
    result = run.edited("copies", only["index"], outcome="withdrawn", **gone)
    mine = (pl.col("job_id") == only["job_id"]) & (pl.col("child") == only["node"])
    mine &= pl.col("destination") == only["executor"]
    return run.again(result).with_table("transfers", run.result.table("transfers").filter(~mine))


def same_executor(run: Run) -> Result:
    """Let a copy without parents, which runs for long, run where another is running then, as fast."""
    copies = run.result.table("copies").with_row_index()
    for one in copies.filter(LONG).iter_rows(named=True):
        middle = (one["starting_time"] + one["finish_time"]) / 2
        others = copies.filter((pl.col("executor") != one["executor"]) & (pl.col("starting_time") > middle))
        others = others.filter(pl.col("starting_time") < one["finish_time"])
        if len(others):
            return run.edited("copies", others["index"][0], executor=one["executor"])
    raise LookupError("no two executors run at the same time")


def swapped_source(run: Run) -> Result:
    """Say that data that were moved came from an executor that has never run their node."""
    transfers, copies = run.result.table("transfers").with_row_index(), run.result.table("copies")
    for row in transfers.filter(MOVED).iter_rows(named=True):
        mine = copies.filter((pl.col("job_id") == row["job_id"]) & (pl.col("node") == row["parent"]))
        free = set(range(len(run.result.table("executors")))) - {*mine["executor"], row["destination"]}
        if free:
            return run.edited("transfers", row["index"], source=min(free))
    raise LookupError("every executor has run every node")


def from_afar(run: Run) -> Result:
    """Let a copy take its data from the parent's original although a duplicate was nearer, and arrive as late."""
    transfers, copies = run.result.table("transfers").with_row_index(), run.result.table("copies")
    channels = run.result.table("channels")
    for row in transfers.filter(~MOVED & (pl.col("size") > 0)).iter_rows(named=True):
        mine = (pl.col("job_id") == row["job_id"]) & (pl.col("node") == row["parent"])
        others = copies.filter(mine & (pl.col("executor") != row["source"]) & (OUTCOME == "completed"))
        for other in others.iter_rows(named=True):
            pair = (pl.col("source") == other["executor"]) & (pl.col("destination") == row["destination"])
            channel = channels.filter(pair).row(0, named=True)
            arrival = other["finish_time"] + channel["latency"] + row["size"] / channel["transfer_speed"]
            child = (pl.col("job_id") == row["job_id"]) & (pl.col("node") == row["child"])
            start = copies.filter(child & (pl.col("executor") == row["destination"]))["starting_time"][0]
            if row["arrival_time"] < arrival <= start:
                changes = {"source": other["executor"], "starting_time": other["finish_time"], "arrival_time": arrival}
                return run.edited("transfers", row["index"], **changes)
    raise LookupError("no data could have come later")


def later(run: Run) -> Result:
    """Let the last copy of the run wait for a second before it starts; its job ends as much later."""
    row = int(run.result.table("copies")["finish_time"].arg_max())
    old = run.row("copies", row)
    result = run.edited("copies", row, starting_time=old["starting_time"] + 1, finish_time=old["finish_time"] + 1)
    end = run.find("jobs", pl.col("job_id") == old["job_id"])
    times = {name: run.row("jobs", end)[name] + 1 for name in ("finish_time", "turnaround_time")}
    result = run.again(result).edited("jobs", end, **times)
    return run.again(result).described(end_time=run.result.info["end_time"] + 1)


def lost_earlier(run: Run) -> Result:
    """Let the executor that data come from fail while they are on their way, and come back at once."""
    row = run.row("transfers", run.find("transfers", MOVED & (pl.col("arrival_time") > pl.col("starting_time"))))
    time = (row["starting_time"] + row["arrival_time"]) / 2
    return with_outage(run, row["source"], time)


def with_outage(run: Run, executor: int, time: float) -> Result:
    """Add an outage that is over at once."""
    schema = run.result.table("outages").schema
    added = pl.DataFrame([(time, executor, "down"), (time, executor, "up")], schema, orient="row")
    return run.with_table("outages", pl.concat([run.result.table("outages"), added]).sort("time", maintain_order=True))


def outage_meanwhile(run: Run) -> Result:
    """Add an outage in the middle of a copy, which goes on."""
    row = run.row("copies", run.find("copies", LONG))
    return with_outage(run, row["executor"], (row["starting_time"] + row["finish_time"]) / 2)


def outage_before_start(run: Run) -> Result:
    """Add an outage of an executor that is idle, while a copy waits in its queue."""
    copies = run.result.table("copies")
    for row in copies.filter(pl.col("assignment_time") < pl.col("starting_time") - 1e-3).iter_rows(named=True):
        time = row["starting_time"] - 1e-4
        here = copies.filter(pl.col("executor") == row["executor"])
        busy = here.filter((pl.col("starting_time") < time) & (pl.col("finish_time") > time))
        data = run.result.table("transfers").filter(pl.col("source") == row["executor"])
        if not len(busy) and not len(data.filter(pl.col("arrival_time") > time)):
            return with_outage(run, row["executor"], time)
    raise LookupError("no executor is idle before a copy that waits")


def waiting_on(run: Run) -> int:
    """Return an executor that is idle, with copies in its queue, when the run ends."""
    copies = run.result.table("copies")
    busy = copies.filter(OUTCOME == "running")["executor"].implode()
    return int(copies.filter((OUTCOME == "queued") & ~pl.col("executor").is_in(busy))["executor"][0])


def submitted_earlier(run: Run) -> Result:
    """Let the second job come while the first, of the same id, is in the system."""
    old = run.row("jobs", 1)
    times = {"waiting_time": old["starting_time"] - 5.0, "turnaround_time": old["finish_time"] - 5.0}
    return run.edited("jobs", 1, submission_time=5.0, **times)


def ended_earlier(run: Run) -> Result:
    """Let the longest job end before its last copy starts."""
    row = int(run.result.jobs["turnaround_time"].arg_max())
    return run.edited("jobs", row, finish_time=run.row("jobs", row)["submission_time"] + 0.5, turnaround_time=0.5)


def cut_without_outage(run: Run) -> Result:
    """Forget the outage that cut a copy."""
    time = run.row("copies", run.find("copies", OUTCOME == "interrupted"))["finish_time"]
    executor = run.row("copies", run.find("copies", OUTCOME == "interrupted"))["executor"]
    frame = run.result.table("outages").with_row_index()
    own = frame.filter((pl.col("executor") == executor) & (pl.col("time") >= time))["index"][:2]
    return run.with_table("outages", frame.filter(~pl.col("index").is_in(own.implode())).drop("index"))


def before_parents(run: Run) -> Result:
    """Say that a node was assigned when its job was submitted, although it has parents."""
    copies = run.result.table("copies").with_row_index()
    children = run.result.table("edges").select("job_id", node="child").unique()
    late = copies.join(children, on=["job_id", "node"], how="semi").join(
        run.result.jobs.select("job_id", "submission_time"), on="job_id"
    )
    late = late.filter(~pl.col("duplicate") & (pl.col("assignment_time") > pl.col("submission_time"))).sort("index")
    return run.edited("copies", late["index"][0], assignment_time=late["submission_time"][0])


def narrower(run: Run, factor: float) -> Result:
    """Say that every link carries less than it did."""
    links = run.result.info["links"]
    return run.described(links=links | {"bandwidths": [factor * value for value in links["bandwidths"]]})


def other_runs(run: Run) -> Result:
    """Change a run time of a node that has its own."""
    frame = run.result.table("nodes")
    row = run.find("nodes", pl.col("run_times").is_not_null())
    times = frame["run_times"].to_list()
    times[row] = [time + 1.0 for time in times[row]]
    return run.with_table("nodes", frame.with_columns(run_times=pl.Series(times, dtype=pl.List(pl.Float64))))


# -- task by task -------------------------------------------------------------------------------------


def copies_with(run: Run) -> pl.DataFrame:
    """Return the copies with row numbers, and with what the table of nodes tells about their nodes."""
    nodes = run.result.table("nodes").select("job_id", "node", "num_tasks", "measured")
    copies = run.result.table("copies").with_row_index()
    return copies.join(nodes, on=["job_id", "node"], maintain_order="left")


def longer(run: Run, seconds: float) -> Result:
    """Let a task that is not measured, the last of its executor, and not the last of its job, end later."""
    copies = copies_with(run).filter(~MEASURED & (OUTCOME == "completed"))
    ends = run.result.jobs.select("job_id", end="finish_time")
    copies = copies.join(ends, on="job_id", maintain_order="left")
    for row in copies.iter_rows(named=True):
        time = row["finish_time"]
        others = run.result.table("copies").filter(pl.col("executor") == row["executor"])
        children = run.result.table("edges").filter(pl.col("job_id") == row["job_id"])["parent"].to_list()
        is_last = others["starting_time"].max() == row["starting_time"] and row["node"] not in children
        if is_last and time + seconds < row["end"]:
            return run.edited("copies", row["index"], finish_time=time + seconds)
    raise LookupError("no task is followed by nothing")


def not_measured(run: Run) -> Result:
    """Say that the durations of a job were not drawn."""
    nodes = run.result.table("nodes")
    mine = nodes.filter(MEASURED)["job_id"][0]
    return run.with_table("nodes", nodes.with_columns(measured=MEASURED & (pl.col("job_id") != mine)))


def unfinished_task(run: Run) -> Result:
    """Say that a task of a node without children, of a job that is completed, was withdrawn, and forget its data."""
    edges = run.result.table("edges").select("job_id", node="parent").unique()
    copies = copies_with(run).join(edges, on=["job_id", "node"], how="anti", maintain_order="left")
    ends = run.result.jobs.select("job_id", end="finish_time", begin="starting_time")
    copies = copies.join(ends, on="job_id", maintain_order="left").filter(pl.col("num_tasks") > 1)
    row = copies.filter(pl.col("starting_time") > pl.col("begin")).row(0, named=True)
    gone = dict.fromkeys(("receiving_time", "starting_time", "finish_time"))
    result = run.edited("copies", row["index"], outcome="withdrawn", **gone)
    mine = (pl.col("job_id") == row["job_id"]) & (pl.col("child") == row["node"]) & (pl.col("task") == row["task"])
    return run.again(result).with_table("transfers", run.result.table("transfers").filter(~mine))


def twice(run: Run) -> Result:
    """Give a task the number of another of its node that is done by then."""
    row = copies_with(run).filter((pl.col("num_tasks") > 1) & (pl.col("task") == 1)).row(0, named=True)
    return run.edited("copies", row["index"], task=0)


def moved_share(run: Run, by: float) -> Result:
    """Let a task receive more from one executor, and less from another."""
    transfers = run.result.table("transfers").with_row_index()
    key = ["job_id", "parent", "child", "task", "destination"]
    rows = transfers.filter(SIZED & (pl.len().over(key) > 1))
    first = rows.row(0, named=True)
    other = rows.filter(pl.col("index") > first["index"]).filter(*(pl.col(name) == first[name] for name in key))
    result = run.edited("transfers", first["index"], size=first["size"] * (1 + by))
    return run.again(result).edited("transfers", other["index"][0], size=other["size"][0] - first["size"] * by)


def started_before_moving(run: Run) -> Result:
    """Let the first task after a change of job start, and end, before its executor has moved."""
    copies = run.result.table("copies").with_row_index().sort("executor", "starting_time")
    before = copies.select(pl.col("job_id", "executor", "finish_time").shift().name.prefix("last_"))
    joined = pl.concat([copies, before], how="horizontal").filter(
        (pl.col("last_executor") == pl.col("executor")) & (pl.col("last_job_id") != pl.col("job_id"))
    )
    late = joined.filter(pl.col("starting_time") == pl.max_horizontal("last_finish_time", "assignment_time") + 1.0)
    old = late.row(0, named=True)
    return run.edited("copies", old["index"], **{name: old[name] - 0.25 for name in ("starting_time", "finish_time")})
