"""The tables ``ports``, ``nodes`` and ``channels`` of a multi-server run, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["GraphTables", "graph_faults", "indices", "read_graph"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class GraphTables:
    """Ports, nodes and channels; names in the order of the tables, resources in that of the description.

    Attributes
    ----------
    ports, nodes, resources : tuple of str
        Names.
    requests : array of float, shape (num_ports, num_resources)
        The most that a job of each port takes through one channel.
    capacity, weights : array of float, shape (num_nodes, num_resources)
        What each node has, and the parameter of its utility.
    utilities : array of str, shape (num_nodes, num_resources)
        Names of utilities.
    joined : array of bool, shape (num_ports, num_nodes)
        Where there is a channel.
    """

    ports: tuple[str, ...]
    nodes: tuple[str, ...]
    resources: tuple[str, ...]
    requests: Floats
    capacity: Floats
    weights: Floats
    utilities: NDArray[np.str_]
    joined: NDArray[np.bool_]


def indices(column: pl.Series, names: Sequence[str]) -> Whole:
    """Return the place of each text of a column among names, -1 where it is none of them.

    Parameters
    ----------
    column : polars.Series
        Texts, of any type that polars has for them.
    names : sequence of str
        Each once.

    Returns
    -------
    array of int, shape (n,)
        The places.
    """
    import polars as pl

    known = column.cast(pl.Enum(list(names)), strict=False)
    places: Whole = known.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    return places


def graph_faults(tables: Mapping[str, pl.DataFrame], info: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with the three tables.

    Parameters
    ----------
    tables : mapping of str to polars.DataFrame
        ``ports``, ``nodes`` and ``channels``, with their columns.
    info : mapping
        The description of the run.

    Returns
    -------
    list of str
        Nothing if they are complete, make sense, and agree with the description.
    """
    ports, nodes, channels = (tables[name] for name in ("ports", "nodes", "channels"))
    faults = _product_faults("ports", ports, info["num_ports"], info["resources"])
    faults += _product_faults("nodes", nodes, info["num_nodes"], info["resources"])
    faults += _lowest_faults("ports", ports, "request", ports["request"].to_numpy() >= 0)
    faults += _lowest_faults("nodes", nodes, "capacity", nodes["capacity"].to_numpy() >= 0)
    faults += _lowest_faults("nodes", nodes, "weight", nodes["weight"].to_numpy() > 0)
    if len(channels) != info["num_channels"]:
        faults.append(f"table channels has {len(channels)} rows, the description says {info['num_channels']}")
    repeated = channels.filter(channels.select("port", "node").is_duplicated())
    if len(repeated):
        faults.append(f"the channel from {repeated['port'][0]} to {repeated['node'][0]} is in table channels twice")
    for column, names in (("port", ports["port"]), ("node", nodes["node"])):
        unknown = channels.filter(~channels[column].is_in(names.implode()))
        if len(unknown):
            faults.append(f"table channels names {unknown[column][0]!r}, which is not in table {column}s")
    return faults or _total_faults(nodes, info)


def _product_faults(name: str, table: pl.DataFrame, count: int, resources: Sequence[str]) -> list[str]:
    """Check that there is one row for each name and resource."""
    import polars as pl

    column = name.removesuffix("s")
    names = table[column].unique(maintain_order=True)
    faults = []
    if len(names) != count:
        faults.append(f"table {name} names {len(names)} {name}, the description says {count}")
    wanted = pl.DataFrame({column: names}).join(pl.DataFrame({"resource": resources}), how="cross")
    for what, lacking in (
        ("lacks", wanted.join(table, on=[column, "resource"], how="anti")),
        ("has an unknown resource in", table.join(wanted, on=[column, "resource"], how="anti")),
        ("repeats", table.filter(table.select(column, "resource").is_duplicated())),
    ):
        if len(lacking):
            faults.append(f"table {name} {what} the row of {lacking[column][0]}, {lacking['resource'][0]}")
    return faults


def _lowest_faults(name: str, table: pl.DataFrame, column: str, right: NDArray[np.bool_]) -> list[str]:
    if right.all():
        return []
    row = table.row(int(right.argmin()), named=True)
    of = row[name.removesuffix("s")]
    return [f"table {name}: {column} of {of}, {row['resource']} is {row[column]}, which is too low"]


def _total_faults(nodes: pl.DataFrame, info: Mapping[str, Any]) -> list[str]:
    """Check the capacities of the description."""
    total = np.bincount(indices(nodes["resource"], info["resources"]), nodes["capacity"].to_numpy())
    said = np.array(info["total_capacity"], dtype=np.float64)
    return [
        f"total_capacity of {info['resources'][place]} is {said[place]}, the nodes have {total[place]}"
        for place in np.flatnonzero(~np.isclose(said, total, rtol=1e-9, atol=0.0)).tolist()
    ]


def read_graph(tables: Mapping[str, pl.DataFrame], resources: Sequence[str]) -> GraphTables:
    """Take the three tables apart.

    Parameters
    ----------
    tables : mapping of str to polars.DataFrame
        In which :func:`graph_faults` finds nothing.
    resources : sequence of str
        Names.

    Returns
    -------
    GraphTables
        Their contents.
    """
    ports, nodes, channels = (tables[name] for name in ("ports", "nodes", "channels"))
    port_names, node_names = (
        tuple(map(str, table[column].unique(maintain_order=True)))
        for table, column in ((ports, "port"), (nodes, "node"))
    )
    shape = (len(node_names), len(resources))
    requests = np.empty((len(port_names), len(resources)))
    requests[indices(ports["port"], port_names), indices(ports["resource"], resources)] = ports["request"].to_numpy()
    place = indices(nodes["node"], node_names), indices(nodes["resource"], resources)
    capacity, weights = np.empty(shape), np.empty(shape)
    capacity[place], weights[place] = nodes["capacity"].to_numpy(), nodes["weight"].to_numpy()
    names = np.array(nodes["utility"].to_list(), dtype=np.str_)
    utilities = np.empty(shape, dtype=names.dtype)
    utilities[place] = names
    joined = np.zeros((len(port_names), len(node_names)), dtype=np.bool_)
    joined[indices(channels["port"], port_names), indices(channels["node"], node_names)] = True
    return GraphTables(port_names, node_names, tuple(resources), requests, capacity, weights, utilities, joined)
