"""Batch agents by name, for the command line and for sweeps."""

from __future__ import annotations

from collections.abc import Callable

from agents.batch.backfilling import EASYBackfilling, SimpleBackfilling
from agents.batch.conservative import ConservativeBackfilling
from agents.batch.orders import PRIORITIES, as_priority
from desim.core import Agent
from desim.exceptions import InvalidConfiguration

__all__ = ["create", "descriptions"]

_BACKFILLING: dict[str, tuple[str, Callable[[str], Agent]]] = {
    "backfilling": ("any later job that fits may start", SimpleBackfilling),
    "easy": ("a reservation for the first blocked job", EASYBackfilling),
    "easy-specific": ("the same, on particular cores", lambda order: EASYBackfilling(order, specific_cores=True)),
    "conservative": ("a reservation for every job", ConservativeBackfilling),
    "conservative-specific": (
        "the same, on particular cores",
        lambda order: ConservativeBackfilling(order, specific_cores=True),
    ),
}


def create(name: str) -> Agent:
    """Return a new agent.

    Parameters
    ----------
    name : str
        A priority such as ``"fcfs"`` (strict), or a kind of back-filling over one, such as
        ``"easy-f1"``; without a priority, ``"easy"`` means ``"easy-fcfs"``.

    Returns
    -------
    Agent
        Its ``name`` is the full name.

    Raises
    ------
    InvalidConfiguration
        If there is no such agent.
    """
    if name in PRIORITIES:
        return as_priority(name)
    for prefix in sorted(_BACKFILLING, key=len, reverse=True):
        make = _BACKFILLING[prefix][1]
        if name == prefix:
            return make("fcfs")
        if name.startswith(f"{prefix}-"):
            return make(name.removeprefix(f"{prefix}-"))
    kinds = ", ".join(f"{prefix}-PRIORITY" for prefix in _BACKFILLING)
    raise InvalidConfiguration(f"no batch agent {name!r}; there are {', '.join(PRIORITIES)}, and {kinds}")


def descriptions() -> dict[str, str]:
    """Return every name, or pattern of names, with a line on what the agent does.

    Returns
    -------
    dict of str to str
        In the order in which they are listed.
    """
    lines = {name: (priority.__doc__ or "").splitlines()[0] for name, priority in PRIORITIES.items()}
    return lines | {
        f"{prefix}-PRIORITY": f"Back-filling: {description}." for prefix, (description, _) in _BACKFILLING.items()
    }
