"""Multi-server agents by name, for sweeps and the command line."""

from __future__ import annotations

from collections.abc import Callable

from desim.agents.multiserver.gang import GangRepair
from desim.agents.multiserver.oga import AdaGrad, OGASched, OptimisticOGA
from desim.agents.multiserver.rivals import DRF, BinPacking, Fairness, Spreading
from desim.core import Agent
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions"]

_AGENTS: dict[str, tuple[str, Callable[[], Agent]]] = {
    "oga-reactive": ("Online gradient ascent (OGASched) that sees the jobs of a slot first.", OGASched),
    "oga-reservation": ("Online gradient ascent (OGASched) that reserves first.", lambda: OGASched("reservation")),
    "drf": ("Dominant resource fairness: jobs in ascending order of their dominant shares.", DRF),
    "drf-progressive": (
        "Dominant resource fairness: dominant shares on every node grow together.",
        lambda: DRF("progressive"),
    ),
    "fairness": ("Every node shares each resource in proportion to requests.", Fairness),
    "bin-packing": ("Workers go to the fullest nodes.", BinPacking),
    "spreading": ("Workers go to the emptiest nodes.", Spreading),
    "adagrad-reactive": ("Online gradient ascent with AdaGrad's steps that sees the jobs first.", AdaGrad),
    "adagrad-reservation": (
        "Online gradient ascent with AdaGrad's steps that reserves first.",
        lambda: AdaGrad("reservation"),
    ),
    "optimistic-oga": ("Optimistic online gradient ascent that reserves first.", OptimisticOGA),
}


def create(name: str) -> Agent:
    """Return a new agent.

    Parameters
    ----------
    name : str
        One that :func:`descriptions` lists; with ``gang-`` before it, its answers are repaired for gangs.

    Returns
    -------
    Agent
        With its default parameters.

    Raises
    ------
    InvalidConfiguration
        If there is no such agent.
    """
    if name in _AGENTS:
        return _AGENTS[name][1]()
    if name.startswith("gang-"):
        return GangRepair(create(name.removeprefix("gang-")))
    raise InvalidConfiguration(f"no multiserver agent {name!r}; there are {', '.join(_AGENTS)}, and gang-NAME")


def descriptions() -> dict[str, str]:
    """Return every name with a line on what the agent does.

    Returns
    -------
    dict of str to str
        In the order in which they are listed.
    """
    lines = {name: text for name, (text, _) in _AGENTS.items()}
    return lines | {"gang-NAME": "Any of these, repaired so that no gang is served in part."}
