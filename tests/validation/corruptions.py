"""Ways to corrupt a valid run: each returns another result with one thing changed."""

from __future__ import annotations

import polars as pl


def moved(run, row, shift):
    """Move a job's execution in time, with all that follows from it."""
    job = run.row("jobs", row)
    start, finish = job["starting_time"] + shift, job["starting_time"] + shift + job["execution_time"]
    turnaround = finish - job["submission_time"]
    return run.edited(
        "jobs",
        row,
        starting_time=start,
        finish_time=finish,
        waiting_time=start - job["submission_time"],
        turnaround_time=turnaround,
        stretch=turnaround / job["execution_time"],
    )


def rescaled(run, row, execution, **values):
    """Give a job another execution time, with all that follows from it."""
    job = run.row("jobs", row)
    finish = job["starting_time"] + execution
    turnaround = finish - job["submission_time"]
    times = {"execution_time": execution, "finish_time": finish, "turnaround_time": turnaround}
    times["useful_execution_time"] = execution
    return run.edited("jobs", row, **times, stretch=turnaround / execution, **values)


def waits(run):
    """Find a job that waited."""
    return int(run.result.jobs.select((pl.col("waiting_time").fill_null(0) > 1).arg_max()).item())


def neighbour_in_time(run):
    """Return two jobs of one size that run at the same time."""
    jobs = run.result.jobs.filter(pl.col("execution_time") > 1)
    for one in jobs.iter_rows(named=True):
        for other in jobs.iter_rows(named=True):
            together = one["starting_time"] < other["finish_time"] and other["starting_time"] < one["finish_time"]
            same_size = one["requested_number_of_resources"] == other["requested_number_of_resources"]
            if one is not other and one["job_id"] < other["job_id"] and together and same_size:
                return one, other
    raise LookupError("no two jobs of one size run together")


def on_the_cores_of_another(run):
    """Let a job run on the cores of one that runs at the same time; the number of cores in use stays."""
    one, other = neighbour_in_time(run)
    return run.edited("jobs", run.find("jobs", job_id=one["job_id"]), allocated_resources=other["allocated_resources"])


def two_at_once(run):
    """Start a job that waited as soon as it was submitted."""
    row = waits(run)
    return moved(run, row, -run.row("jobs", row)["waiting_time"])


def on_a_core_that_is_down(run):
    """Invent an outage that takes a core down and up again, at once, while a job runs on it."""
    jobs, outages = run.result.jobs, run.result.table("outages")
    job = jobs.filter(pl.col("execution_time") > 5).row(3, named=True)
    core = int(job["allocated_resources"].replace("-", " ").split()[0])
    middle = job["starting_time"] + job["execution_time"] / 2
    add = pl.DataFrame(
        {"time": [middle, middle], "event": ["down", "up"], "resources": [str(core)] * 2, "cores_up": [11, 12]},
        schema=outages.schema,
    )
    return run.with_table("outages", pl.concat([outages, add]))


def drop(run, table, row):
    """Remove a row."""
    frame = run.result.table(table)
    return run.with_table(table, frame.filter(pl.int_range(pl.len()) != row))


def repeat(run, table, row):
    """Put a row in twice."""
    frame = run.result.table(table)
    return run.with_table(table, pl.concat([frame, frame[row]]))


def with_job(run, **values):
    """Edit the first job with an execution."""
    return run.edited("jobs", run.find("jobs", status="completed"), **values)


def cut(run, **values):
    """Edit the first interruption."""
    return run.edited("interruptions", 0, **values)


def shifted_cut(run):
    """Let the first interruption end a little before its outage."""
    return cut(run, finish_time=run.row("interruptions", 0)["finish_time"] - 1e-3)


def cut_elsewhere(run):
    """Let the first interruption have happened on as many cores that did not fail."""
    row = run.row("interruptions", 0)
    count = run.row("jobs", run.find("jobs", job_id=row["job_id"]))["requested_number_of_resources"]
    failed = run.result.table("outages").filter((pl.col("time") == row["finish_time"]) & (pl.col("event") == "down"))
    down = {core for text in failed["resources"] for core in numbers(text)}
    others = [str(core) for core in range(12) if core not in down][:count]
    assert len(others) == count
    return cut(run, allocated_resources=" ".join(others))


def numbers(text):
    """Read core ranges, one by one."""
    for part in text.split(" "):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def one_core_less(run):
    """Take a core from a job of several."""
    row = int(run.result.jobs.select((pl.col("allocated_resources").fill_null("").str.contains("-")).arg_max()).item())
    cores = list(numbers(run.row("jobs", row)["allocated_resources"]))
    return run.edited("jobs", row, allocated_resources=" ".join(map(str, cores[1:])))


def wider_than_what_is_up(run):
    """Say that one core is up from the first outage on: the count alone tells."""
    outages = run.result.table("outages")
    return run.with_table("outages", outages.with_columns(cores_up=pl.lit(1, pl.Int64)))


def runs_again_before(run):
    """Let a cut execution overlap with the one after it."""
    row = run.row("interruptions", 0)
    last = run.row("jobs", run.find("jobs", job_id=row["job_id"]))
    return cut(run, finish_time=last["starting_time"] + 1e-3)


def overdue(run):
    """Say that a job ran although it was due long before the end."""
    row = run.find("jobs", status="completed")
    gone = dict.fromkeys(("finish_time", "execution_time", "turnaround_time", "stretch", "useful_execution_time"))
    return run.edited("jobs", row, status="running", success=False, **gone)


def still_running_at_the_end(run):
    """Say that the last job to end was still running when the complete run ended."""
    row = int(run.result.jobs["finish_time"].arg_max())
    gone = dict.fromkeys(("finish_time", "execution_time", "turnaround_time", "stretch", "useful_execution_time"))
    return run.edited("jobs", row, status="running", success=False, **gone)


def finished_earlier(run, shift):
    """Let a completed job have finished a little earlier than its execution time says."""
    row = run.find("jobs", status="completed")
    finish = run.row("jobs", row)["finish_time"] - shift
    turnaround = finish - run.row("jobs", row)["submission_time"]
    stretch = turnaround / run.row("jobs", row)["execution_time"]
    return run.edited("jobs", row, finish_time=finish, turnaround_time=turnaround, stretch=stretch)


def killed_after_its_run_time(run):
    """Let a killed job run for its whole run time."""
    row = run.find("jobs", status="killed")
    return rescaled(run, row, run.row("jobs", row)["run_time"])


def id_of_the_job_before(run):
    """Give a job that was submitted while another one waited the id of that one."""
    jobs = run.result.jobs
    row = int(jobs.select((pl.col("submission_time").shift(-1) < pl.col("starting_time")).arg_max()).item())
    return run.edited("jobs", row + 1, job_id=run.row("jobs", row)["job_id"])


def cut_after_its_last_execution(run):
    """Let the first interruption have happened at the very end."""
    end = run.result.info["end_time"]
    return cut(run, starting_time=end, finish_time=end)


def same_group(run):
    """Let all jobs be those of one user."""
    group = pl.when(pl.col("limit") == 0).then(pl.lit("3")).otherwise("group")
    return run.with_table("limited_jobs", run.result.table("limited_jobs").with_columns(group=group))


def unknown_quality(run):
    """Let a job that has nothing to do with preemption have a quality that there is not."""
    named, told = run.result.table("job_qos"), run.result.table("preemptions")
    involved = {*told["job_id"], *told["preempted_by"]}
    row = next(place for place, job_id in enumerate(named["job_id"]) if job_id not in involved)
    return run.edited("job_qos", row, qos="nobody")


def preempted_by_another(run):
    """Say that it was another urgent job that took the first one off."""
    told, urgent = run.row("preemptions", 0), run.result.table("job_qos").filter(qos="urgent")
    other = urgent.filter(pl.col("job_id") != told["preempted_by"]).row(-1, named=True)
    return run.edited("preemptions", 0, preempted_by=other["job_id"], number_preempted_by=other["arrival_number"])


def resumed_elsewhere(run):
    """Let a job that was suspended have run before on a core that nobody used then, in the place of one of its own."""
    columns = ["starting_time", "finish_time", "allocated_resources"]
    cuts = run.result.table("interruptions")
    ran = pl.concat([table.select(columns) for table in (run.result.jobs, cuts)]).drop_nulls()
    for row, cut in enumerate(cuts.iter_rows(named=True)):
        together = (pl.col("starting_time") < cut["finish_time"]) & (pl.col("finish_time") > cut["starting_time"])
        used = {core for text in ran.filter(together)["allocated_resources"] for core in numbers(text)}
        idle = [core for core in range(12) if core not in used]
        if cut["outcome"] == "suspended" and idle:
            cores = sorted([idle[0], *list(numbers(cut["allocated_resources"]))[1:]])
            return run.edited("interruptions", row, allocated_resources=" ".join(map(str, cores)))
    raise LookupError("no core was idle while a job ran that was suspended")


def began_later(run):
    """Let a job that was suspended once, and ended, have begun a little later."""
    cuts, jobs = run.result.table("interruptions"), run.result.jobs.filter(status="completed", attempts=2)
    row = next(
        place
        for place, cut in enumerate(cuts.iter_rows(named=True))
        if cut["outcome"] == "suspended" and cut["job_id"] in jobs["job_id"]
    )
    return run.edited("interruptions", row, starting_time=cuts["starting_time"][row] + 0.1)


def cut_by_no_outage(run):
    """Say that it was an outage that cut the first job that was preempted and sent back."""
    return run.edited("interruptions", run.find("interruptions", outcome="preempted"), outcome="requeued")
