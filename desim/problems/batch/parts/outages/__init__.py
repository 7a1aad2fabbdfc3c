"""Outages: units of a batch cluster leave and return to service, and the jobs on them are interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from desim.problems.batch.tables import with_cores
from desim.tables import Column, Table

if TYPE_CHECKING:
    from desim.problems.batch.cluster import BatchCluster

__all__: list[str] = []

TABLES = (
    Table(
        "outages",
        "cores that failed or were repaired",
        (
            Column("time", "float", "time of the event", unit="s"),
            Column("event", "text", "whether the cores went down or up", values=("down", "up")),
            Column("resources", "text", 'affected cores, as ranges such as "0-3 7"'),
            Column("cores_up", "integer", "number of cores that are up from then on", unit="cores"),
        ),
        sort_by=("time",),
        pack=with_cores("resources", "time", "event", "resources", "cores_up"),
    ),
)
"""Tables of a run."""


def begin_outage(cluster: BatchCluster, units: list[int]) -> None:
    """Take units out of service, and interrupt the jobs that run on them.

    Parameters
    ----------
    cluster : BatchCluster
        Cluster in a run.
    units : list of int
        Numbers of cores or nodes in service; may be empty.
    """
    if units:
        cores = cluster.resources.core_set_of(units)
        clear_cores(cluster, cores, down=cluster.resources.down | cores)
        _change(cluster, "down", cores)
        cluster.emit("outage", cluster.failures.ids(units))


def end_outage(cluster: BatchCluster, units: list[int]) -> None:
    """Return units to service.

    Parameters
    ----------
    cluster : BatchCluster
        Cluster in a run.
    units : list of int
        Numbers of cores or nodes out of service; may be empty.
    """
    if units:
        cores = cluster.resources.core_set_of(units)
        cluster.resources.set_down(cluster.resources.down & ~cores)
        _change(cluster, "up", cores)
        cluster.emit("repair", cluster.failures.ids(units))


def clear_cores(cluster: BatchCluster, cores: int, down: int, users: Sequence[str | int] = ()) -> None:
    """Set the cores that are down, and interrupt the jobs on given cores.

    Parameters
    ----------
    cluster : BatchCluster
        Cluster in a run.
    cores : int
        Cores to clear, as a bit set.
    down : int
        All cores that are down, as a bit set.
    users : sequence of int
        Users whose jobs are not interrupted.
    """
    running = cluster._state.running.values()
    hit = [one for one in running if one.cores & cores and one.job.user_id not in users]
    cluster.resources.set_down(down)
    for execution in reversed(hit):  # each is requeued before jobs submitted at the same time
        cluster._interrupt(execution)
    for cleared in cluster._cleared:
        cleared(cores, users)


def _change(cluster: BatchCluster, event: str, cores: int) -> None:
    """Record that cores went down or came up, and open a cycle."""
    up = cluster.num_cores - cluster.resources.down.bit_count()
    cluster.simulation.records.tables["outages"].append((cluster.env.now, event, cores, up))
    cluster._open_cycle()
