"""The refusal of agents that only count cores to run on clusters with nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from desim.exceptions import InvalidConfiguration

__all__ = ["refuse_nodes"]


def refuse_nodes(simulation_info: Mapping[str, Any], name: str, instead: str) -> None:
    """Raise an error if the cluster has nodes; called in the ``reset`` of agents that only count cores.

    Parameters
    ----------
    simulation_info : mapping
        Description of the problem that agents get at the beginning of a run.
    name : str
        Name of the agent.
    instead : str
        Name of the most similar agent that supports nodes.

    Raises
    ------
    InvalidConfiguration
        If the cluster has nodes.
    """
    if simulation_info.get("num_nodes"):
        raise InvalidConfiguration(f"{name}: got a cluster with nodes, expected one without; try {instead}")
