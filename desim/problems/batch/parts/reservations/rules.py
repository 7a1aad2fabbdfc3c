"""Validation rules of advance reservations, on the tables of a batch run."""

from __future__ import annotations

import numpy as np
import polars as pl

from desim.validation import Recorded, RuleBook

__all__ = ["RULES", "cut_executions"]

start, finish = pl.col("starting_time"), pl.col("finish_time")


RULES = RuleBook(only_with="node_reservations")
"""Validation rules of advance reservations."""
rule, check = RULES.rule, RULES.check


def _closed(run: Recorded) -> pl.DataFrame:
    """Return the placements on reserved nodes of jobs whose user is not admitted, once per such reservation."""
    users = run["jobs"].select("arrival_number", "user_id").unique("arrival_number")
    rows = run["placements"].join(run["reservation_nodes"], on="node", maintain_order="left")
    rows = rows.join(run["reservations"], on="reservation", maintain_order="left")
    rows = rows.join(users, on="arrival_number", how="left", maintain_order="left")
    if "user_reservations" in run.info:
        rows = rows.join(run["reservation_users"], on=["reservation", "user_id"], how="anti", maintain_order="left")
    return rows.join(run["nodes"].select("node", "name"), on="node", how="left", maintain_order="left")


def cut_executions(run: Recorded) -> pl.DataFrame:
    """Return the executions that may have been interrupted by the start of a reservation of one of their nodes."""
    columns = ["arrival_number", "starting_time", "finish_time"]
    if "user_reservations" not in run.info:
        return run["interruptions"].select(columns).clear()
    began = run.once(_closed).filter(finish == pl.col("start"))
    return began.join(run["reservation_users"], on="reservation", how="semi").select(columns)


rule("reservations", "outages", "no more cores are up than reservations leave")


@check("at {time} s, {up} cores are up, but reservations leave {most}", only_with="reservations")
def _open_for_jobs(run: Recorded) -> pl.DataFrame:
    """Return the times at which more cores were up than reservations leave; those that admit users leave all up."""
    reservations, outages = run["reservations"], run["outages"]
    if "user_reservations" in run.info:
        reservations = reservations.join(run["reservation_users"], on="reservation", how="anti")
    begins, ends, sizes = (reservations[name].to_numpy() for name in ("start", "end", "cores"))
    moments = np.unique(np.concatenate((begins, outages["time"].to_numpy())))
    moments = moments[moments < run.end_time]
    covers = (begins <= moments[:, None]) & (moments[:, None] < ends)
    least = run.info["num_cores"] - (covers * sizes).sum(axis=1)
    ups = np.concatenate(([run.info["num_cores"]], outages["cores_up"].to_numpy()))
    up = ups[outages["time"].to_numpy().searchsorted(moments, "right")]
    return pl.DataFrame({"time": moments, "up": up, "most": least}).filter(pl.col("up") > pl.col("most"))


rule("reservation_nodes", "reservations", "no job runs on a reserved node, unless the reservation admits its user")


@check(
    "reservation {reservation}: got {cores} cores, but its nodes have {on_nodes}; or a node is unknown or duplicated"
)
def _miscounted(run: Recorded) -> pl.DataFrame:
    """Return the reservations whose nodes do not exist, occur twice, or do not add up to their number of cores."""
    nodes = run["nodes"].unique("node").select("node", of_node="cores")
    of_reservations = run["reservation_nodes"].join(nodes, on="node", how="left", maintain_order="left")
    odd = pl.col("of_node").is_null() | pl.struct("reservation", "node").is_duplicated()
    sums = (
        of_reservations.with_columns(odd=odd)
        .group_by("reservation")
        .agg(pl.col("odd").any(), on_nodes=pl.col("of_node").sum())
    )
    both = run["reservations"].join(sums, on="reservation", how="full", coalesce=True, maintain_order="left_right")
    wrong = pl.col("odd") | (pl.col("on_nodes") != pl.col("cores"))
    return both.filter(wrong.fill_null(True))


@check(
    "job {job_id} of user {user_id} is on node {name!r} in [{starting_time}, {finish_time}) s, which "
    "is reserved in [{start}, {end}) s",
    of="placements",
)
def _in_reservations(run: Recorded) -> pl.DataFrame:
    """Return the executions that run on a node during a reservation that does not admit their user."""
    end = finish.fill_null(run.end_time)
    return run.once(_closed).filter((start < end) & (start < pl.col("end")) & (pl.col("start") < end))
