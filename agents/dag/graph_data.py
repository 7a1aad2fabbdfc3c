"""Graphs of a system as PyTorch Geometric's ``Data``, for networks of your own."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch
from torch_geometric.data import Data

from desim.problems.dag.graph_encoder import SystemGraph

__all__ = ["from_data", "to_data"]

#: The names that PyTorch Geometric has for what it knows of.
NAMES = {"nodes": "x", "edges": "edge_index", "edge_times": "edge_attr"}


def to_data(graph: SystemGraph) -> Data:
    """Return a graph for PyTorch Geometric.

    Parameters
    ----------
    graph : SystemGraph
        Of :meth:`desim.problems.dag.graph_encoder.GraphEncoder.graph`.

    Returns
    -------
    torch_geometric.data.Data
        ``x`` (n, F), ``edge_index`` (2, e) from parent to child, ``edge_attr`` (e, 1), ``job`` (n,), the job of each
        node, and all other arrays under their own names.
    """
    tensors = {one.name: torch.from_numpy(np.array(getattr(graph, one.name))) for one in fields(graph)}
    tensors["edges"] = tensors["edges"].T.contiguous()
    tensors["edge_times"] = tensors["edge_times"][:, None]
    named = {NAMES.get(name, name): tensor for name, tensor in tensors.items()}
    return Data(**named, job=torch.from_numpy(graph.job_of_node), num_nodes=len(graph.nodes))


def from_data(data: Data) -> SystemGraph:
    """Return the graph that was given to PyTorch Geometric.

    Parameters
    ----------
    data : torch_geometric.data.Data
        Of :func:`to_data`.

    Returns
    -------
    SystemGraph
        With equal arrays.
    """
    arrays = {one.name: data[NAMES.get(one.name, one.name)].numpy() for one in fields(SystemGraph)}
    arrays["edges"] = np.ascontiguousarray(arrays["edges"].T)
    arrays["edge_times"] = arrays["edge_times"][:, 0]
    return SystemGraph(**arrays)
