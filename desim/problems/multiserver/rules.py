"""Rules of the multi-server cluster, checked on the tables of a run.

They hold for jobs that last one slot and for jobs that hold their resources until their work is done, for several jobs
per port and for gangs. Times that are sums of others may differ by four units in the last place; amounts and rewards
may differ by one part in a million.

What is not recorded cannot be checked. If ``record_allocations`` is not 1, rules on amounts and rewards check only the
jobs that start in a recorded slot; the report states the number of rows. Requests of components are not recorded. So
for gangs the rule ``requests`` is skipped, and whether an indivisible component gets its full request is not checked.
The rule ``gain`` knows the utilities of equation (60) of arXiv 2305.06572 and skips jobs that use another one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.exceptions import WorkloadError
from desim.validation import Bounds, Check, Recorded, check_totals, rounding, rule, single_row, sums_at, sums_from

__all__ = ["RULES"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
IntArray = NDArray[np.int64]

RELATIVE = 1e-6
"""Relative tolerance for the difference of two amounts or rewards, due to rounding."""

ABSOLUTE = 1e-8
"""Absolute tolerance for the difference of two amounts or rewards near 0."""

SUMMED = 1e-12
"""Tolerance for sums built by adding and subtracting, relative to the largest value."""

NEGLIGIBLE = 1e-9
"""Amounts up to this are rounding errors, and serve no component."""

UTILITIES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "linear": lambda amount, alpha: alpha * amount,
    "log": lambda amount, alpha: alpha * np.log(amount + 1.0),
    "reciprocal": lambda amount, alpha: amount / (alpha * (amount + alpha)),
    "poly": lambda amount, alpha: alpha * amount / (np.sqrt(amount + 1.0) + 1.0),
}
"""Utilities of equation (60), written so that small amounts do not cancel."""

status = pl.col("status").cast(pl.String)
submission, start, finish = pl.col("submission_time"), pl.col("starting_time"), pl.col("finish_time")
amount, component = pl.col("amount"), pl.col("component")
work, reward = pl.col("work"), pl.col("reward")

HOW = "the {run.info[status]} run ends at {run.end_time}"


def _holding(run: Recorded) -> bool:
    return bool(run.info["holding"])


def _one_slot(run: Recorded) -> bool:
    return not run.info["holding"]


def _gangs(run: Recorded) -> bool:
    return run.info["gang"] is not None


def _num_slots(run: Recorded) -> int:
    return run["slots"].height


# -- ports, nodes and channels -------------------------------------------------------------------


class _Graph(NamedTuple):
    """Names in the order of the tables, resources in that of the description; arrays in the order of the names."""

    ports: list[str]
    nodes: list[str]
    resources: list[str]
    requests: Floats
    capacity: Floats
    weights: Floats
    utilities: NDArray[np.str_]
    joined: Mask


def _graph(run: Recorded) -> _Graph:
    ports, nodes = (run[f"{kind}s"][kind].cast(pl.String).unique(maintain_order=True) for kind in ("port", "node"))
    resources = list(run.info["resources"])

    def by_resource(kind: str, names: pl.Series, column: str) -> NDArray[Any]:
        table = run[f"{kind}s"]
        values = table[column].to_numpy() if column != "utility" else np.array(table[column].to_list(), dtype=np.str_)
        array = np.empty((len(names), len(resources)), dtype=values.dtype)
        array[_places(table[kind], names.to_list()), _places(table["resource"], resources)] = values
        return array

    joined = np.zeros((len(ports), len(nodes)), dtype=np.bool_)
    channels = run["channels"]
    joined[_places(channels["port"], ports.to_list()), _places(channels["node"], nodes.to_list())] = True
    return _Graph(
        ports.to_list(),
        nodes.to_list(),
        resources,
        by_resource("port", ports, "request"),
        by_resource("node", nodes, "capacity"),
        by_resource("node", nodes, "weight"),
        by_resource("node", nodes, "utility"),
        joined,
    )


def _places(column: pl.Series, names: Sequence[str]) -> IntArray:
    """Return the index of each text of a column in a list of distinct names."""
    places: IntArray = column.cast(pl.Enum(list(names))).to_physical().cast(pl.Int64).to_numpy()
    return places


def _listed(kind: str) -> tuple[Check, ...]:
    """Return the checks that there is one row for each port (or node) and resource."""
    table, key = f"{kind}s", [kind, "resource"]
    row = f"the row of {{{kind}}}, {{resource}}"

    def miscounted(run: Recorded) -> pl.DataFrame:
        count = run[table][kind].n_unique()
        return single_row(count != run.info[f"num_{table}"], count=count)

    def lacking(run: Recorded) -> pl.DataFrame:
        names = run[table].select(pl.col(kind).cast(pl.String)).unique(maintain_order=True)
        wanted = names.join(pl.DataFrame({"resource": run.info["resources"]}), how="cross")
        return wanted.join(run[table].select(pl.col(key).cast(pl.String)), on=key, how="anti")

    def unknown(run: Recorded) -> pl.Expr:
        return ~pl.col("resource").cast(pl.String).is_in(run.info["resources"])

    return (
        Check(
            table,
            miscounted,
            f"table {table}: got {{count}} {table}, expected {{run.info[num_{table}]}} as in the description",
        ),
        Check(table, lacking, f"table {table}: {row} is missing"),
        Check(table, unknown, f"table {table}: got an unknown resource in {row}"),
        Check(table, pl.struct(key).is_duplicated(), f"table {table}: {row} is repeated"),
    )


def _too_low(table: str, column: str, wrong: pl.Expr) -> Check:
    kind = table.removesuffix("s")
    return Check(
        table, wrong, f"table {table}: {column} of {{{kind}}}, {{resource}}: got {{{column}}}, which is too low"
    )


def _named(table: str, column: str, owner: str, kind: str) -> Check:
    """Return the check that the names in a column exist in another table or in the description."""

    def unknown(run: Recorded) -> pl.Expr:
        names = run.info["resources"] if owner == "description" else run[owner][kind].cast(pl.String).unique()
        return ~pl.col(column).cast(pl.String).is_in(pl.Series(names).implode())

    who = f"job {{job_id}} in table {table}" if table in ("jobs", "allocations") else f"table {table}"
    return Check(table, unknown, f"{who}: {column}: got {{{column}!r}}, expected the name of an existing {kind}")


def _totals(run: Recorded) -> pl.DataFrame:
    """Return the resources whose total over the nodes differs from the description."""
    said = pl.DataFrame({"resource": run.info["resources"], "said": run.info["total_capacity"]}, strict=False)
    nodes = run["nodes"].select(pl.col("resource").cast(pl.String), "capacity")
    found = said.join(nodes.group_by("resource").agg(found=pl.col("capacity").sum()), on="resource", how="left")
    return found.filter((pl.col("said") - pl.col("found")).abs() > 1e-9 * pl.col("found").abs())


# -- jobs ----------------------------------------------------------------------------------------


def _jobs(run: Recorded) -> pl.DataFrame:
    """Return the jobs with extra columns.

    ``slot`` is the slot for which a job arrived, according to its number, or the number of slots if there is none.
    ``gone`` is the time at which it returned its resources, or the end of the run. ``due`` is the time at which it must
    end, with a tolerance ``slack``. ``recorded`` is whether it started in a slot whose allocations were recorded.
    """
    last = np.cumsum(np.maximum(run["slots"]["arrived"].to_numpy(), 0))
    slot = np.searchsorted(last, run["jobs"]["job_id"].to_numpy(), "right").astype(np.int64)
    length = work / pl.when(reward > 0).then(reward) if _holding(run) else pl.lit(1.0)
    every = run.info["record_allocations"]
    started = start.is_not_null()
    jobs = run["jobs"].with_columns(pl.col("port", "dominant_resource").cast(pl.String))
    jobs = jobs.with_columns(
        slot=slot,
        come=slot < _num_slots(run),
        gone=pl.when(status == "running").then(pl.when(started).then(run.end_time)).otherwise(finish),
        due=start + length,
        length=length,
        recorded=(started & (start % every == 0)).fill_null(False) if every else pl.lit(False),
        who=pl.format("served from slot {} on", start.cast(pl.Int64)).fill_null("never served"),
    ).with_row_index("row")
    slack = RELATIVE * pl.col("length") + rounding(pl.col("due")) if _holding(run) else pl.lit(0.0)
    return jobs.with_columns(pl.col("row").cast(pl.Int64), slack=slack)


def _not_in_its_slot(run: Recorded) -> pl.Expr:
    wrong = (start != start.floor()) | (start < pl.col("slot")) | (start >= _num_slots(run))
    return wrong if _holding(run) else wrong | (start != pl.col("slot"))


def _overtaking(run: Recorded) -> pl.DataFrame:
    """Return the jobs that start while the earlier waiting jobs of their type already fill the slot."""
    places = run.info["jobs_per_port"]
    jobs = run.once(_jobs).sort("port", "job_id", maintain_order=True)
    queues: dict[str, list[float]] = {}
    ahead = []
    for port, begin in zip(jobs["port"], jobs["starting_time"].fill_null(math.inf).to_list(), strict=True):
        queue = queues.setdefault(port, [])  # ascending times at which the jobs that arrived earlier left the queue
        ahead.append(len(queue) - bisect_left(queue, begin))
        insort(queue, begin)
    jobs = jobs.with_columns(ahead=pl.Series(ahead, dtype=pl.Int64)).sort("row")
    return jobs.filter(start.is_not_null() & (pl.col("ahead") >= places))


def _still_running(run: Recorded) -> pl.Expr:
    return (status == "running") & ((pl.col("due") < run.end_time - pl.col("slack")) | run.drained)


def _still_waiting(run: Recorded) -> pl.Expr:
    return (status == "queued") & (pl.col("come") | run.drained)


def _after_the_end(column: str, run: Recorded) -> pl.Expr:
    return pl.col(column) > run.end_time


def _crowded(run: Recorded) -> pl.DataFrame:
    """Return the slots and ports at which too many jobs are served, or start."""
    slot = start.fill_null(-1).cast(pl.Int64) if _holding(run) else pl.col("slot")
    there = run.once(_jobs).with_columns(slot=slot).filter(pl.col("slot").is_between(0, _num_slots(run) - 1))
    counts = there.group_by("slot", "port", maintain_order=True).agg(count=pl.len()).sort("slot", maintain_order=True)
    what = pl.lit("start" if _holding(run) else "arrive")
    return counts.filter(pl.col("count") > run.info["jobs_per_port"]).with_columns(what=what)


# -- slots ---------------------------------------------------------------------------------------


def _number_of_slots(run: Recorded) -> pl.DataFrame:
    """Return a row if the number of slots is wrong; a run that broke off within a slot may have served it."""
    count, end = _num_slots(run), run.end_time
    most = math.ceil(end) if run.info["status"] == "complete" else math.floor(end) + 1
    return single_row(not math.ceil(end) <= count <= most, count=count)


def _not_arrived_then(run: Recorded) -> pl.Expr:
    slot = pl.col("slot")
    return (submission < slot - 1) | ((submission > slot) & pl.col("come"))


def _expected(run: Recorded) -> dict[str, Bounds]:
    """Return the columns of the slots as computed from the other tables; jobs are counted at the beginning of a slot.

    Rewards and amounts count for as long as jobs run within their last slot, or the run goes on in it.
    """
    count, graph, held = _num_slots(run), run.once(_graph), run.once(_held)
    jobs = run.once(_jobs)
    over = pl.max_horizontal(pl.col("gone").ceil() - 1, start) if _holding(run) else start
    last = pl.when(status == "running").then(count - 1.0).otherwise(over)
    active = jobs.filter((start >= 0) & (start == start.floor()) & (start < count) & (pl.col("gone") >= start))
    begin = active["starting_time"].cast(pl.Int64).to_numpy()
    end = active.select(last.clip(start, max(count - 1, 0)).cast(pl.Int64)).to_series().to_numpy() + 1
    rows = active["row"].to_numpy()
    come = sums_at(jobs["slot"].to_numpy(), count)
    waiting = np.cumsum(come - sums_at(begin, count)) if _holding(run) else np.zeros_like(come)
    counts = {"arrived": come, "running": sums_from(begin, end, count), "queued": waiting}
    bounds = {name: Bounds(found, found, found) for name, found in counts.items()}
    slot_ends = np.minimum(end, run.end_time) if _holding(run) else end.astype(np.float64)
    length = slot_ends - (end - 1)
    lasted = np.minimum(active["gone"].to_numpy(), slot_ends) - (end - 1) if _holding(run) else length
    missing = 1.0 - np.divide(lasted, length, out=np.ones_like(length), where=length > 0)

    def means(values: Floats) -> Floats:
        found: Floats = sums_from(begin, end, count, values) - sums_at(end - 1, count, values * missing)
        return found

    for name in ("gain", "overhead", "reward"):
        bounds[name] = _sum(run, name, means(active[name].to_numpy()))
    unknown = sums_from(begin, end, count, (~active["recorded"].to_numpy()).astype(np.float64)) > 0.5
    for place, resource in enumerate(graph.resources):
        name = f"allocated_{resource}"
        found, low, high = _sum(run, name, means(held[rows, place]))
        bounds[name] = Bounds(found, low, np.where(unknown, math.inf, high))
        total = graph.capacity[:, place].sum() * (1 + RELATIVE) + len(graph.nodes) * ABSOLUTE
        allocated, reserved = (run["slots"][f"{kind}_{resource}"].to_numpy() for kind in ("allocated", "reserved"))
        least = allocated - RELATIVE * np.maximum(np.abs(allocated), np.abs(reserved)) - ABSOLUTE
        bounds[f"reserved_{resource}"] = Bounds(allocated, least, np.full(count, total))
    return bounds


def _sum(run: Recorded, column: str, found: Floats) -> Bounds:
    said = run["slots"][column].to_numpy()
    slack = RELATIVE * np.maximum(np.abs(said), np.abs(found)) + ABSOLUTE
    slack = np.maximum(slack, SUMMED * np.abs(found).max(initial=0.0))
    return Bounds(found, found - slack, found + slack)


# -- allocations ---------------------------------------------------------------------------------


def _given(run: Recorded) -> pl.DataFrame:
    """Return the allocations with indices of names, jobs and channels; ``row`` is null without a job."""
    graph, table = run.once(_graph), run["allocations"]
    port, node, resource = (
        _places(table[name], names)
        for name, names in (("port", graph.ports), ("node", graph.nodes), ("resource", graph.resources))
    )
    jobs = run.once(_jobs).unique("job_id", keep="first", maintain_order=True)
    jobs = jobs.select("job_id", "row", "starting_time", "gone", of_port="port")
    part = pl.format(", component {},", component) if _gangs(run) else pl.lit("")
    return (
        table.with_columns(pl.col("port", "node", "resource").cast(pl.String))
        .with_columns(
            node_place=node,
            resource_place=resource,
            joined=graph.joined[port, node],
            most=graph.requests[port, resource],
            part=part,
        )
        .join(jobs, on="job_id", how="left", maintain_order="left")
    )


def _of_jobs(run: Recorded) -> pl.DataFrame:
    return run.once(_given).filter(pl.col("row").is_not_null())


def _repeated(run: Recorded) -> pl.DataFrame:
    return run.once(_of_jobs).filter(~pl.struct("row", "component", "node_place", "resource_place").is_first_distinct())


def _without_allocations(run: Recorded) -> pl.Expr:
    return pl.col("recorded") & ~pl.col("job_id").is_in(run["allocations"]["job_id"].unique().implode())


def _too_few_components(run: Recorded) -> pl.DataFrame:
    """Return the jobs with fewer served components than they need."""
    gang, ports = run.info["gang"], run.once(_graph).ports
    needed = pl.DataFrame({"of_port": ports, "needed": gang["minimum"][:: run.info["jobs_per_port"]]})
    served = run.once(_of_jobs).filter((component >= 0) & (amount > NEGLIGIBLE))
    counts = served.group_by("job_id", "of_port", maintain_order=True).agg(components=component.n_unique())
    counts = counts.join(needed, on="of_port", how="left", maintain_order="left")
    return counts.filter(pl.col("components") < pl.col("needed"))


def _split(run: Recorded) -> pl.DataFrame:
    """Return the indivisible components that get resources from several nodes."""
    served = run.once(_of_jobs).filter((component >= 0) & (amount > RELATIVE) & run.info["gang"]["whole"])
    counts = served.group_by("job_id", "component", maintain_order=True).agg(pl.col("node").unique(maintain_order=True))
    several = counts.filter(pl.col("node").list.len() > 1)
    return several.with_columns(nodes=pl.col("node").list.join(" and "))


def _overloaded(run: Recorded) -> pl.DataFrame:
    """Return when nodes give more than they have; recorded allocations are held from start to end."""
    graph = run.once(_graph)
    held = run.once(_of_jobs).filter(start.is_not_null() & pl.col("gone").is_not_null())
    entry = pl.col("node_place") * len(graph.resources) + pl.col("resource_place")
    taken = held.select(time="starting_time", entry=entry, amount="amount")
    freed = held.select(time="gone", entry=entry, amount=-amount)
    changes = pl.concat([taken, freed]).group_by("time", "entry").agg(amount.sum(), largest=amount.max())
    used = changes.sort("entry", "time").with_columns(amount.cum_sum().over("entry"))
    used = used.filter(pl.col("largest") > 0).sort("time", "entry")
    capacity = graph.capacity.ravel()[used["entry"].to_numpy()]
    over = used.with_columns(capacity=capacity).filter(amount > pl.col("capacity") * (1 + RELATIVE) + ABSOLUTE)
    node, resource = np.divmod(over["entry"].to_numpy(), len(graph.resources))
    names = {"node": np.array(graph.nodes)[node], "resource": np.array(graph.resources)[resource]}
    return over.with_columns(**{key: pl.Series(values, dtype=pl.String) for key, values in names.items()})


def _told_overload(run: Recorded, row: dict[str, Any]) -> str:
    here = (pl.col("node") == row["node"]) & (pl.col("resource") == row["resource"])
    then = (start <= row["time"]) & (pl.col("gone") > row["time"])
    jobs = run.once(_of_jobs).filter(here & then)["job_id"].unique().sort().to_list()
    shown = ", ".join(map(str, jobs[-10:])) + (", ..." if len(jobs) > 10 else "")
    gives = f"{row['node']} gives {row['amount']} of {row['resource']}, expected at most {row['capacity']}"
    return f"slot {row['time']:g}: {gives}; to jobs {shown}"


# -- rewards: equation (7) of arXiv 2305.06572, computed again from the recorded amounts ---------


def _differs(said: str, expected: str) -> pl.Expr:
    one, other = pl.col(said), pl.col(expected)
    return (one - other).abs() > RELATIVE * pl.max_horizontal(one.abs(), other.abs()) + ABSOLUTE


def _held(run: Recorded) -> Floats:
    """Return the recorded amounts given to each job, shape (number of jobs, num_resources)."""
    given, count = run.once(_of_jobs), len(run.info["resources"])
    entries = given["row"].to_numpy() * count + given["resource_place"].to_numpy()
    sums = np.bincount(entries, given["amount"].to_numpy(), minlength=run["jobs"].height * count)
    return sums.astype(np.float64).reshape(-1, count)


def _with_gains(run: Recorded) -> pl.DataFrame:
    """Return the jobs whose utilities are all known here, with the gains that follow from their amounts."""
    graph, jobs = run.once(_graph), run.once(_jobs)
    given = run.once(_of_jobs).filter(amount > 0)
    if _gangs(run):  # a utility applies to the sum over all components
        given = given.group_by("row", "node_place", "resource_place", maintain_order=True).agg(amount.sum())
    job, node, resource, amounts = (
        given[name].to_numpy() for name in ("row", "node_place", "resource_place", "amount")
    )
    names, alpha = graph.utilities[node, resource], graph.weights[node, resource]
    values, known = np.zeros(len(job)), np.zeros(len(job), dtype=np.bool_)
    for name, value in UTILITIES.items():
        rows = np.flatnonzero(names == name)
        values[rows], known[rows] = value(amounts[rows], alpha[rows]), True
    checked = jobs.select(pl.col("recorded") | start.is_null()).to_series().to_numpy().copy()
    checked[job[~known]] = False
    if not np.isin(graph.utilities, list(UTILITIES)).all():  # an unknown utility may differ slightly from 0 at 0
        checked &= jobs["starting_time"].is_not_null().to_numpy()
    expected = np.bincount(job, values, minlength=jobs.height).astype(np.float64)
    return jobs.with_columns(expected=expected).filter(pl.Series(checked))


def _with_overheads(run: Recorded) -> pl.DataFrame:
    """Return the jobs whose allocations are all recorded, with their overheads and the dominant resource."""
    jobs, resources = run.once(_jobs), run.once(_graph).resources
    overheads = run.once(_held) * np.array(run.info["overhead"], dtype=np.float64)
    dominant = _places(jobs["dominant_resource"], resources)
    largest = np.array(resources)[overheads.argmax(axis=1)]
    return jobs.with_columns(
        expected=overheads.max(axis=1),
        own=np.take_along_axis(overheads, dominant[:, None], axis=1)[:, 0],
        largest=pl.Series(largest, dtype=pl.String),
    ).filter(pl.col("recorded") | start.is_null())


# -- the workload --------------------------------------------------------------------------------


def _arrivals(run: Recorded) -> tuple[IntArray, IntArray]:
    """Return the number of jobs per slot and port in the workload, and in the records."""
    ports = run.once(_graph).ports
    given: Iterable[Any] = () if run.workload is None else run.workload
    rows = given if run.drained else islice(given, int(run.end_time) + 1)
    arrivals = [_row(slot, row, len(ports)) for slot, row in enumerate(rows)]
    wanted = np.array(arrivals, dtype=np.int64).reshape(-1, len(ports))
    jobs = run.once(_jobs).filter(~_between_slots(len(wanted)))
    found = np.zeros_like(wanted)
    slots = jobs["submission_time"].cast(pl.Int64).to_numpy()
    np.add.at(found, (slots, _places(jobs["port"], ports)), 1)
    return wanted, found


def _between_slots(count: int) -> pl.Expr:
    return (submission != submission.floor()) | (submission < 0) | (submission >= count)


def _row(slot: int, row: Any, num_ports: int) -> IntArray:
    counts = np.asarray(row)
    if counts.shape != (num_ports,) or counts.dtype.kind not in "bui":
        raise WorkloadError(f"slot {slot}: arrivals: got {row!r}, expected {num_ports} integers, one per port")
    return counts.astype(np.int64)


def _miscounted_arrivals(run: Recorded) -> pl.DataFrame:
    """Return slots and ports with a wrong number of jobs; a stopped run may lack arrivals at its end."""
    wanted, found = run.once(_arrivals)
    wrong = found != wanted
    if not run.drained:
        late = np.arange(len(wanted)) >= run.end_time
        wrong[late] = found[late] > wanted[late]
    slot, port = np.nonzero(wrong)
    names = pl.Series(np.array(run.once(_graph).ports)[port], dtype=pl.String)
    return pl.DataFrame({"slot": slot, "port": names, "wanted": wanted[slot, port], "found": found[slot, port]})


_WHO = "job {job_id}{part} gets {amount} of {resource} from {node} in slot {slot}"


def _row_fault(wrong: pl.Expr | Callable[[Recorded], pl.Expr | pl.DataFrame], why: str) -> Check:
    return Check(_given, wrong, f"{_WHO}: {why}")


RULES = (
    rule(
        "graph",
        "ports, nodes and channels are complete and match the description, and all names refer to them",
        *_listed("port"),
        *_listed("node"),
        _too_low("ports", "request", pl.col("request") < 0),
        _too_low("nodes", "capacity", pl.col("capacity") < 0),
        _too_low("nodes", "weight", pl.col("weight") <= 0),
        Check("nodes", _totals, "total_capacity of {resource}: got {said}, expected {found}, the sum over the nodes"),
        Check(
            "channels",
            lambda run: single_row(run["channels"].height != run.info["num_channels"], count=run["channels"].height),
            "table channels: got {count} rows, expected {run.info[num_channels]} as in the description",
        ),
        Check(
            "channels",
            ~pl.struct("port", "node").is_first_distinct(),
            "the channel from {port} to {node} is in table channels twice",
        ),
        *(_named(table, "port", "ports", "port") for table in ("channels", "jobs", "allocations")),
        *(_named(table, "node", "nodes", "node") for table in ("channels", "allocations")),
        _named("jobs", "dominant_resource", "description", "resource"),
        _named("allocations", "resource", "description", "resource"),
        vital=True,
    ),
    rule(
        "values",
        "all numbers are in range",
        *(
            Check("jobs", wrong, f"job {{job_id}}: {column}: got {{{column}}}, which is too low")
            for column, wrong in (
                ("gain", pl.col("gain") < -ABSOLUTE),
                ("overhead", pl.col("overhead") < -ABSOLUTE),
                ("work", work <= 0),
            )
        ),
    ),
    rule(
        "status_fields",
        "the values of a row match its status and the kind of run",
        Check(
            "jobs",
            lambda run: work.is_null() == _holding(run),
            "job {job_id}: work: got {work}, expected a value if and only if jobs hold resources",
        ),
        Check("jobs", status == "unserved", "job {job_id} is {status} in a run in which jobs wait", when=_holding),
        Check("jobs", status == "running", "job {job_id} is {status} in a run of one-slot jobs", when=_one_slot),
    ),
    rule(
        "start_after_submission",
        "no job starts before its submission",
        Check(
            "jobs",
            start < submission,
            "job {job_id} starts at {starting_time}, before its submission at {submission_time}",
        ),
    ),
    rule(
        "start_slot",
        "a job starts at the beginning of the slot it arrived for or, with holding, of that or a later one",
        Check(
            _jobs,
            _not_in_its_slot,
            "job {job_id} arrives for slot {slot} of {run[slots].height}, but starts at {starting_time}",
        ),
    ),
    rule(
        "minimum_speed",
        "a job starts only with a speed above minimum_speed (with holding)",
        Check(
            "jobs",
            lambda run: start.is_not_null() & ~(reward > run.info["minimum_speed"]),
            "job {job_id} has started with speed {reward}, expected more than {run.info[minimum_speed]}",
            when=_holding,
        ),
    ),
    rule(
        "queue",
        "waiting jobs of a type start in order, at most jobs_per_port per slot (with holding)",
        Check(
            "jobs",
            _overtaking,
            "job {job_id} starts at {starting_time} while {ahead} earlier jobs wait at {port}; at most "
            "{run.info[jobs_per_port]} of a type can start in a slot",
            when=_holding,
        ),
    ),
    rule(
        "finish_time",
        "a job ends one slot after its start or, with holding, when its work is done at its speed",
        *(
            Check(
                _jobs,
                (finish - pl.col("due")).abs() > pl.col("slack"),
                f"job {{job_id}}: finish_time: got {{finish_time}}, expected {{due}}: start {{starting_time}} + {why}",
                when=when,
            )
            for why, when in (("work {work} at speed {reward}", _holding), ("one slot", _one_slot))
        ),
    ),
    rule(
        "unfinished",
        "a job still runs or waits only if it is not due, and none runs at the natural end of a run",
        Check(_jobs, _still_running, f"job {{job_id}}, due at {{due}}, is still running when {HOW}"),
        Check(_jobs, _still_waiting, f"job {{job_id}} of slot {{slot}} is still waiting when {HOW}", when=_one_slot),
        Check(
            _jobs,
            (status != "queued") & ~pl.col("come"),
            f"job {{job_id}} is {{status}}, but its slot has not begun when {HOW}",
        ),
    ),
    rule(
        "horizon",
        "nothing happens after the end of the run, except the ends of slots that have begun",
        *(
            Check(
                "jobs",
                partial(_after_the_end, column),
                f"job {{job_id}}: {column}: got {{{column}}}, expected at most the end of the run, {{run.end_time}}",
                when=_holding if column == "finish_time" else None,
            )
            for column in ("submission_time", "starting_time", "finish_time")
        ),
    ),
    rule(
        "jobs_per_port",
        "at most jobs_per_port jobs of a type are served or, with holding, start in one slot",
        Check(
            "jobs", _crowded, "{count} jobs {what} at {port} in slot {slot}, expected at most {run.info[jobs_per_port]}"
        ),
    ),
    rule(
        "slots",
        "slots are numbered from 0, and their number matches the length of the run",
        Check("slots", pl.col("slot") != pl.int_range(pl.len()), "slot {slot} is out of order"),
        Check("slots", _number_of_slots, f"got {{count}} slots, but {HOW}"),
    ),
    rule(
        "arrivals",
        "the number of arrivals of a slot matches its jobs, which were submitted since the previous slot began",
        Check(
            "slots",
            check_totals(_expected, "arrived"),
            "slot {slot}: arrived: got {said}, expected {found} as in the job table",
        ),
        Check(
            _jobs,
            _not_arrived_then,
            "job {job_id}, submitted at {submission_time}, belongs by its number to slot {slot} of {run[slots].height}",
        ),
    ),
    rule(
        "slot_counts",
        "the numbers of running and waiting jobs at the beginning of a slot match the job table",
        Check(
            "slots",
            check_totals(_expected, "running", "queued"),
            "slot {slot}: {name}: got {said} jobs, expected {found} as in the job table",
        ),
    ),
    rule(
        "slot_rewards",
        "gain, overhead and reward of a slot are time averages of the sums over its running jobs",
        Check(
            "slots",
            check_totals(_expected, "gain", "overhead", "reward"),
            "slot {slot}: {name}: got {said}, expected {found}, that of its jobs",
        ),
    ),
    rule(
        "slot_amounts",
        "the allocated amount of a slot is the mean that its jobs hold; it is at most the reserved amount, which is at "
        "most the capacity",
        Check(
            "slots",
            check_totals(_expected, "allocated_"),
            "slot {slot}: {name}: got {said}, expected {found}, the sum of the recorded allocations",
        ),
        Check(
            "slots",
            check_totals(_expected, "reserved_"),
            "slot {slot}: {name}: got {said}, expected at least the allocated {found} and at most the capacity, {high}",
        ),
    ),
    rule(
        "allocations",
        "an allocation is above 0, matches its job, port and start, and is recorded once",
        _row_fault(pl.col("row").is_null(), "no such job"),
        _row_fault(pl.col("of_port") != pl.col("port"), "the job is of port {of_port}, not {port}"),
        _row_fault(
            pl.col("row").is_not_null() & start.ne_missing(pl.col("slot").cast(pl.Float64)),
            "the job starts at {starting_time}",
        ),
        _row_fault(~(amount > 0), "expected an amount above 0"),
        _row_fault(lambda run: (component > 0) & (not _gangs(run)), "no component {component} without gangs"),
        _row_fault(
            lambda run: (
                pl.col("slot") % max(run.info["record_allocations"], 1) != 0
                if run.info["record_allocations"]
                else pl.lit(True)
            ),
            "not a slot to be recorded, as record_allocations is {run.info[record_allocations]}",
        ),
        _row_fault(_repeated, "recorded twice"),
        Check(
            _jobs,
            _without_allocations,
            "job {job_id} starts at {starting_time}, but none of its allocations is recorded",
        ),
    ),
    rule(
        "channels",
        "jobs get resources only through channels",
        _row_fault(~pl.col("joined"), "no channel from {port}"),
    ),
    rule(
        "requests",
        "no job gets more through a channel than it requests (not checked for gangs)",
        Check(
            _given,
            amount > pl.col("most") * (1 + RELATIVE) + ABSOLUTE,
            _WHO + ", expected at most its request, {most}",
            when=lambda run: not _gangs(run),
        ),
    ),
    rule(
        "gangs",
        "a served job has enough served components, and an indivisible component uses one node (for gangs)",
        Check(
            "jobs",
            _too_few_components,
            "job {job_id} has {components} served components, expected at least {needed}",
            when=_gangs,
        ),
        Check(
            "jobs",
            _split,
            "job {job_id}: the indivisible component {component} gets resources from {nodes}, expected one node",
            when=_gangs,
        ),
    ),
    rule(
        "capacity",
        "no node ever gives more of a resource than it has",
        Check("allocations", _overloaded, _told_overload),
    ),
    rule(
        "gain",
        "a job's gain follows from the utilities of the nodes and its amounts",
        Check(
            _with_gains,
            _differs("gain", "expected"),
            "job {job_id}, {who}: gain: got {gain}, expected {expected} for its amounts",
        ),
    ),
    rule(
        "overhead",
        "a job's overhead is the largest over the resources, that of its dominant resource",
        Check(
            _with_overheads,
            _differs("overhead", "expected"),
            "job {job_id}, {who}: overhead: got {overhead}, expected {expected} for its amounts",
        ),
        Check(
            _with_overheads,
            _differs("own", "expected"),
            "job {job_id}, {who}: dominant_resource: got {dominant_resource} with overhead {own}, expected {largest} "
            "with overhead {expected}",
        ),
    ),
    rule(
        "conservation",
        "the number of jobs of every slot and port matches the arrivals (needs the workload)",
        Check(
            "jobs",
            _miscounted_arrivals,
            "slot {slot}: got {found} jobs at {port}, expected {wanted} as in the workload",
        ),
        Check(
            "jobs",
            lambda run: _between_slots(len(run.once(_arrivals)[0])),
            "job {job_id} is recorded but not in the workload: submitted at {submission_time}",
        ),
        needs_workload=True,
    ),
)
"""Rules of a run beyond the descriptions of its tables, in the order of checking."""
