"""Priorities by name."""

from __future__ import annotations

from desim.agents.batch.priorities import F1, F2, F3, F4, FCFS, LCFS, SJF, UNICEP, WFP3, Priority, SmallestFirst
from desim.exceptions import InvalidConfiguration

__all__ = ["PRIORITIES", "as_priority"]

PRIORITIES: dict[str, type[Priority]] = {
    priority.name: priority for priority in (FCFS, LCFS, SJF, SmallestFirst, F1, F2, F3, F4, WFP3, UNICEP)
}
"""The priorities by name, in the order in which they are listed."""


def as_priority(order: str | Priority | type[Priority]) -> Priority:
    """Return the priority that a name, an instance or a class stands for.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        For example ``"fcfs"``, ``FCFS()`` or ``FCFS``.

    Returns
    -------
    Priority
        An instance.

    Raises
    ------
    InvalidConfiguration
        If it stands for none.
    """
    if isinstance(order, Priority):
        return order
    if isinstance(order, type) and issubclass(order, Priority):
        return order()
    if isinstance(order, str) and order in PRIORITIES:
        return PRIORITIES[order]()
    raise InvalidConfiguration(f"no priority {order!r}; there are {', '.join(PRIORITIES)}")
