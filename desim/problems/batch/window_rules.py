"""Validation rules of advance reservations, on the tables of a batch run."""

from __future__ import annotations

import numpy as np
import polars as pl

from desim.validation import Check, Recorded, Rule

__all__ = ["WINDOW_RULES", "cut_by_reservations"]

start, finish = pl.col("starting_time"), pl.col("finish_time")


def _open_for_jobs(run: Recorded) -> pl.DataFrame:
    """Return the times at which more cores were up than reservations leave; those that admit users leave all up."""
    windows, outages = run["windows"], run["outages"]
    if "reservations" in run.info:
        windows = windows.join(run["window_users"], on="window", how="anti")
    begins, ends, sizes = (windows[name].to_numpy() for name in ("start", "end", "cores"))
    moments = np.unique(np.concatenate((begins, outages["time"].to_numpy())))
    moments = moments[moments < run.end_time]
    covers = (begins <= moments[:, None]) & (moments[:, None] < ends)
    least = run.info["num_cores"] - (covers * sizes).sum(axis=1)
    ups = np.concatenate(([run.info["num_cores"]], outages["cores_up"].to_numpy()))
    up = ups[outages["time"].to_numpy().searchsorted(moments, "right")]
    return pl.DataFrame({"time": moments, "up": up, "most": least}).filter(pl.col("up") > pl.col("most"))


def _closed(run: Recorded) -> pl.DataFrame:
    """Return the placements on reserved nodes of jobs whose user is not admitted, once per such reservation."""
    users = run["jobs"].select("arrival_number", "user_id").unique("arrival_number")
    rows = run["placements"].join(run["window_nodes"], on="node", maintain_order="left")
    rows = rows.join(run["windows"], on="window", maintain_order="left")
    rows = rows.join(users, on="arrival_number", how="left", maintain_order="left")
    if "reservations" in run.info:
        rows = rows.join(run["window_users"], on=["window", "user_id"], how="anti", maintain_order="left")
    return rows.join(run["nodes"].select("node", "name"), on="node", how="left", maintain_order="left")


def _in_windows(run: Recorded) -> pl.DataFrame:
    """Return the executions that run on a node during a reservation that does not admit their user."""
    end = finish.fill_null(run.end_time)
    return run.once(_closed).filter((start < end) & (start < pl.col("end")) & (pl.col("start") < end))


def _miscounted(run: Recorded) -> pl.DataFrame:
    """Return the reservations whose nodes do not exist, occur twice, or do not add up to their number of cores."""
    nodes = run["nodes"].unique("node").select("node", of_node="cores")
    of_windows = run["window_nodes"].join(nodes, on="node", how="left", maintain_order="left")
    odd = pl.col("of_node").is_null() | pl.struct("window", "node").is_duplicated()
    sums = of_windows.with_columns(odd=odd).group_by("window").agg(pl.col("odd").any(), want=pl.col("of_node").sum())
    both = run["windows"].join(sums, on="window", how="full", coalesce=True, maintain_order="left_right")
    wrong = pl.col("odd") | (pl.col("want") != pl.col("cores"))
    return both.filter(wrong.fill_null(True))


def cut_by_reservations(run: Recorded) -> pl.DataFrame:
    """Return the executions that may have been interrupted by the start of a reservation of one of their nodes.

    Parameters
    ----------
    run : Recorded
        Run on nodes or cores.

    Returns
    -------
    polars.DataFrame
        Columns ``arrival_number``, ``starting_time`` and ``finish_time``.
    """
    columns = ["arrival_number", "starting_time", "finish_time"]
    if "reservations" not in run.info:
        return run["interruptions"].select(columns).clear()
    began = run.once(_closed).filter(finish == pl.col("start"))
    return began.join(run["window_users"], on="window", how="semi").select(columns)


WINDOW_RULES = (
    Rule(
        "windows",
        "no more cores are up than reservations leave",
        (
            Check(
                "outages",
                _open_for_jobs,
                "at {time} s, {up} cores are up, but reservations leave {most}",
                when=lambda run: "windows" in run.info,
            ),
        ),
    ),
    Rule(
        "window_nodes",
        "no job runs on a reserved node, unless the reservation admits its user",
        (
            Check(
                "windows",
                _miscounted,
                "window {window}: got {cores} cores, but its nodes have {want}; or a node is unknown or duplicated",
                when=lambda run: "node_windows" in run.info,
            ),
            Check(
                "placements",
                _in_windows,
                "job {job_id} of user {user_id} is on node {name!r} in [{starting_time}, {finish_time}) s, which "
                "is reserved in [{start}, {end}) s",
                when=lambda run: "node_windows" in run.info,
            ),
        ),
    ),
)
"""Validation rules of advance reservations."""
