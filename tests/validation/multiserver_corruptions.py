"""Ways to corrupt a valid multi-server run: each returns another result with one thing changed."""

from __future__ import annotations

import polars as pl
from multiserver_runs import Run

from desim import Result

STATUS = pl.col("status").cast(pl.String)


def job(run: Run, was: str, **values: float | str | bool | None) -> Result:
    """Edit the first job of a status."""
    return run.edited("jobs", run.find("jobs", was == STATUS), **values)


def busy(run: Run) -> int:
    """Return the row of a job that has ended, waited if any has, and holds much of something in a recorded slot."""
    every = run.result.info["record_allocations"]
    jobs = run.result.jobs.with_row_index()
    ended = jobs.filter((STATUS == "completed") & (pl.col("starting_time") % every == 0))
    return int(ended.sort("waiting_time", "overhead", descending=True)["index"][0])


def amounts(run: Run, row: int) -> pl.DataFrame:
    """Return the allocations of a job with their row numbers, the largest first."""
    mine = run.result.table("allocations").with_row_index().filter(pl.col("job_id") == run.row("jobs", row)["job_id"])
    return mine.sort("amount", descending=True)


def given(run: Run, **values: float | str) -> Result:
    """Edit the largest allocation of a busy job."""
    return run.edited("allocations", int(amounts(run, busy(run))["index"][0]), **values)


def scaled(run: Run, factor: float) -> Result:
    """Multiply the largest allocation of a busy job."""
    largest = amounts(run, busy(run))
    return run.edited("allocations", int(largest["index"][0]), amount=float(largest["amount"][0]) * factor)


def lower(run: Run, table: str, column: str) -> Result:
    """Say that the port or node of the largest allocation of a busy job has a little less than that."""
    name = table.removesuffix("s")
    largest = amounts(run, busy(run)).row(0, named=True)
    row = run.find(table, (pl.col(name) == largest[name]) & (pl.col("resource") == largest["resource"]))
    change = largest["amount"] * 0.999 - run.row(table, row)[column]
    if table == "nodes":
        resources, total = run.result.info["resources"], list(run.result.info["total_capacity"])
        total[resources.index(largest["resource"])] += change
        run = Run(run.described(total_capacity=total), run.arrivals)
    return run.edited(table, row, **{column: largest["amount"] * 0.999})


def elsewhere(run: Run) -> Result:
    """Let the largest allocation of a busy job come from a node to which it has no channel."""
    row = busy(run)
    channels = run.result.table("channels").filter(pl.col("port") == run.row("jobs", row)["port"])
    others = [name for name in run.result.table("nodes")["node"].unique() if name not in set(channels["node"])]
    return given(run, node=sorted(others)[0])


def moved(run: Run, row: int, shift: float) -> Result:
    """Move a job in time, with all that follows from it but for its allocations."""
    old = run.row("jobs", row)
    start, submission = old["starting_time"] + shift, old["submission_time"]
    times = {"starting_time": start, "waiting_time": start - submission}
    if old["finish_time"] is not None:
        finish = old["finish_time"] + shift
        times |= {"finish_time": finish, "turnaround_time": finish - submission}
    return run.edited("jobs", row, **times)


def moved_with_amounts(run: Run, row: int, shift: float) -> Result:
    """Move a job in time with its allocations."""
    mine = pl.col("job_id") == run.row("jobs", row)["job_id"]
    frame = run.result.table("allocations")
    frame = frame.with_columns(pl.when(mine).then(pl.col("slot") + int(shift)).otherwise("slot").alias("slot"))
    return Run(moved(run, row, shift), run.arrivals).with_table("allocations", frame)


def longer(run: Run, row: int, shift: float) -> Result:
    """Let a job end later or earlier."""
    old = run.row("jobs", row)
    finish = old["finish_time"] + shift
    execution, turnaround = finish - old["starting_time"], finish - old["submission_time"]
    return run.edited("jobs", row, finish_time=finish, execution_time=execution, turnaround_time=turnaround)


def another_reward(run: Run, row: int, **values: float) -> Result:
    """Change gain or overhead of a job, and its reward."""
    new = run.row("jobs", row) | values
    return run.edited("jobs", row, **values, reward=new["gain"] - new["overhead"])


def another_dominant(run: Run) -> Result:
    """Call another resource dominant."""
    row = busy(run)
    names = run.result.info["resources"]
    place = names.index(run.row("jobs", row)["dominant_resource"])
    return run.edited("jobs", row, dominant_resource=names[place - 1])


def still_running(run: Run, row: int) -> Result:
    """Say that a job that has ended was still running at the end of the run."""
    gone = dict.fromkeys(("finish_time", "execution_time", "turnaround_time"))
    return run.edited("jobs", row, status="running", success=False, **gone)


def still_waiting(run: Run) -> Result:
    """Say that a job that was left unserved was still waiting."""
    return job(run, "unserved", status="queued")


def swapped_in_queue(run: Run) -> Result:
    """Let two jobs of a type change places: the later one starts first, with all that the other has."""
    jobs = run.result.jobs.with_row_index().filter(pl.col("starting_time").is_not_null())
    for _, queue in jobs.group_by("port", maintain_order=True):
        for first, second in zip(queue.iter_rows(named=True), queue[1:].iter_rows(named=True), strict=False):
            if first["starting_time"] < second["starting_time"] and second["submission_time"] <= first["starting_time"]:
                return _exchanged(run, first, second)
    raise LookupError("no two jobs of a type wait together")


def _exchanged(run: Run, first: dict, second: dict) -> Result:
    columns = ("starting_time", "finish_time", "execution_time", "gain", "overhead", "reward", "dominant_resource")
    columns += ("status", "success", "work")
    for one, other in ((first, second), (second, first)):
        values = {column: other[column] for column in columns}
        values["waiting_time"] = other["starting_time"] - one["submission_time"]
        finish = other["finish_time"]
        values["turnaround_time"] = None if finish is None else finish - one["submission_time"]
        run = Run(run.edited("jobs", one["index"], **values), run.arrivals)
    ids = {first["job_id"]: second["job_id"], second["job_id"]: first["job_id"]}
    frame = run.result.table("allocations")
    return run.with_table("allocations", frame.with_columns(pl.col("job_id", "arrival_number").replace(ids)))


def component_gone(run: Run) -> Result:
    """Take away what one component of a job gets that needs more than one."""
    rows = run.result.table("allocations")
    needed = dict(zip(run.result.table("ports")["port"].unique(maintain_order=True), _minimum(run), strict=True))
    counts = rows.group_by("job_id", "port", maintain_order=True).agg(pl.col("component").n_unique())
    for job_id, port, count in counts.iter_rows():
        if count == needed[port] > 1:
            mine = pl.col("job_id") == job_id
            one = rows.filter(mine)["component"][0]
            return run.with_table("allocations", rows.filter(~(mine & (pl.col("component") == one))))
    raise LookupError("no job needs all the components that it has")


def _minimum(run: Run) -> list[int]:
    info = run.result.info
    return info["gang"]["minimum"][:: info["jobs_per_port"]]


def split_component(run: Run) -> Result:
    """Move one resource of an indivisible component to another node."""
    channels = run.result.table("channels")
    rows = run.result.table("allocations").with_row_index()
    several = rows.filter(pl.len().over("job_id", "component") > 1)
    for row in several.iter_rows(named=True):
        others = channels.filter((pl.col("port") == row["port"]) & (pl.col("node") != row["node"]))
        if len(others):
            return run.edited("allocations", row["index"], node=others["node"][0])
    raise LookupError("no component can be split")


def unknown(run: Run, table: str, column: str) -> Result:
    """Write an unknown name into the first row."""
    frame = run.result.table(table).with_columns(pl.col(column).cast(pl.String))
    first = pl.int_range(pl.len()) == 0
    new = pl.when(first).then(pl.lit("nowhere")).otherwise(column).alias(column)
    return run.with_table(table, frame.with_columns(new))
