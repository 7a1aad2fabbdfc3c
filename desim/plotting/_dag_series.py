"""The data behind the figures of a DAG run, as pure functions of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.plotting._dag_ids import number_jobs

if TYPE_CHECKING:
    import polars as pl

__all__ = ["dag_step_curves", "down_spans", "useless_copies", "waiting_spans"]

Floats = NDArray[np.float64]


def down_spans(outages: pl.DataFrame, end_time: float) -> Floats:
    """Return when executors were down.

    Parameters
    ----------
    outages : polars.DataFrame
        Table of a DAG run.
    end_time : float
        End of the run in seconds, which ends the outages that nobody has repaired.

    Returns
    -------
    array of shape (n, 3)
        Executor, begin and end (s) of each, by end.
    """
    since: dict[int, float] = {}
    spans: list[tuple[float, float, float]] = []
    for time, executor, event in outages.select("time", "executor", "event").iter_rows():
        if event == "down":
            since[executor] = time
        elif executor in since:
            spans.append((executor, since.pop(executor), time))
    spans += [(executor, time, end_time) for executor, time in since.items()]
    return np.array(spans, dtype=np.float64).reshape(-1, 3)


def waiting_spans(copies: pl.DataFrame, down: Floats, end_time: float) -> Floats:
    """Return when executors had something to run whose data were not there, and ran nothing.

    A copy that was taken back before it started does not count: when that happened is not recorded.

    Parameters
    ----------
    copies : polars.DataFrame
        Table of a DAG run.
    down : array of shape (n, 3)
        As :func:`down_spans` returns it.
    end_time : float
        End of the run in seconds.

    Returns
    -------
    array of shape (n, 3)
        Executor, begin and end (s) of each, by executor and time; they do not overlap.
    """
    import polars as pl

    started = copies.filter(pl.col("starting_time").is_not_null())
    waited = copies.filter(
        pl.col("receiving_time").is_not_null()
        & (pl.col("starting_time").is_not_null() | (pl.col("outcome") == "queued"))
    ).with_columns(pl.col("starting_time").fill_null(end_time))
    busy = started.select("executor", "starting_time", pl.col("finish_time").fill_null(end_time))
    waits = _rows(waited, "receiving_time", "starting_time")
    kinds = [waits, _rows(busy, "starting_time", "finish_time"), down]
    executors = np.concatenate([np.tile(spans[:, 0], 2) for spans in kinds])
    times = np.concatenate([spans[:, 1:].T.ravel() for spans in kinds])
    # waiting counts 1 and anything that rules it out so much that the sum tells both
    large = len(copies) + 1
    weights = [1, large, large]
    changes = np.concatenate([np.repeat([w, -w], len(spans)) for w, spans in zip(weights, kinds, strict=True)])
    order = np.lexsort((times, executors))
    level = changes[order].cumsum()[:-1]
    begin, end = times[order][:-1], times[order][1:]
    kept = (level > 0) & (level < large) & (end > begin)
    return np.column_stack([executors[order][:-1][kept], begin[kept], end[kept]])


def _rows(table: pl.DataFrame, begin: str, end: str) -> Floats:
    return table.select("executor", begin, end).to_numpy().astype(np.float64)


def useless_copies(
    jobs: pl.DataFrame, edges: pl.DataFrame, copies: pl.DataFrame, transfers: pl.DataFrame
) -> NDArray[np.bool_]:
    """Tell which copies of completed jobs ran for nothing, though no outage cut them.

    Useful are copies whose data some copy that started has taken, and of nodes without children those that completed
    first: as in :mod:`desim.problems.dag.metrics`. Where an executor has run a copy more than once, the data are those
    of the last one that had finished when they were sent.

    Parameters
    ----------
    jobs, edges, copies, transfers : polars.DataFrame
        Tables of a DAG run; of the copies perhaps only some.

    Returns
    -------
    array of bool, shape (num_copies,)
        In the order of the copies.
    """
    import polars as pl

    jobs, edges, copies, transfers = number_jobs(jobs, edges, copies, transfers)
    node, task = ["job_id", "node"], ["job_id", "node", "task"]
    done = copies.select(*task, "executor", "finish_time", "outcome").with_row_index("place")
    done = done.filter(pl.col("outcome") == "completed").sort("finish_time", maintain_order=True)
    sent = transfers.select("job_id", node="parent", executor="source", time="starting_time").sort("time")
    taken = done.with_columns(
        until=pl.col("finish_time").shift(-1).over([*task, "executor"]).fill_null(float("inf"))
    ).join_asof(
        sent,
        left_on="finish_time",
        right_on="time",
        by=[*node, "executor"],
        strategy="forward",
        check_sortedness=False,
        coalesce=False,
    )
    parents = edges.select("job_id", node="parent").unique()
    last = done.filter(pl.int_range(pl.len()).over(task) == 0).join(parents, on=node, how="anti")
    over = jobs.filter(pl.col("status") == "completed")["job_id"]
    useless = (
        copies.select(pl.col("job_id").is_in(over.implode()) & pl.col("outcome").is_in(["completed", "running"]))
        .to_series()
        .to_numpy()
        .copy()
    )
    useless[taken.filter(pl.col("time") < pl.col("until"))["place"].to_numpy()] = False
    useless[last["place"].to_numpy()] = False
    return np.asarray(useless, dtype=np.bool_)


def dag_step_curves(
    jobs: pl.DataFrame, copies: pl.DataFrame, down: Floats, num_executors: int, end_time: float
) -> pl.DataFrame:
    """Return what changes over a run as step functions of time.

    Parameters
    ----------
    jobs, copies : polars.DataFrame
        Tables of a DAG run; of the copies those that have started, with the end of the run as the finish of those that
        still run.
    down : array of shape (n, 3)
        As :func:`down_spans` returns it.
    num_executors : int
        Executors of the cluster.
    end_time : float
        End of the run in seconds.

    Returns
    -------
    polars.DataFrame
        One row an instant at which something changes, and one at 0 and at ``end_time``: ``time`` (s), ``running``
        (executors that run a copy), ``up`` (executors that are not down) and ``jobs`` (submitted and not finished). A
        row holds from its time to the next row's.
    """
    import polars as pl

    count = pl.Int64
    events = [
        pl.DataFrame({"time": [0.0, end_time]}),
        copies.select(time="starting_time", running=pl.lit(1, count)),
        copies.select(time="finish_time", running=pl.lit(-1, count)),
        pl.DataFrame({"time": down[:, 1], "up": np.full(len(down), -1)}),
        pl.DataFrame({"time": down[:, 2], "up": np.full(len(down), 1)}).filter(pl.col("time") < end_time),
        jobs.select(time="submission_time", jobs=pl.lit(1, count)),
        jobs.drop_nulls("finish_time").select(time="finish_time", jobs=pl.lit(-1, count)),
    ]
    table = pl.concat(events, how="diagonal")
    names = ("running", "up", "jobs")
    changes = table.group_by("time").agg(pl.col(names).sum()).sort("time")
    return changes.select("time", pl.col(names).cum_sum()).with_columns(pl.col("up") + num_executors)
