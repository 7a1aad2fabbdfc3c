"""A virtual machine of a trace: how long it was there, and what it held."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["HIGH_PRIORITY", "LOW_PRIORITY", "VirtualMachine"]

#: What the packing trace calls high (on demand) and low (may be evicted).
HIGH_PRIORITY, LOW_PRIORITY = 0, 1


class VirtualMachine(NamedTuple):
    """A virtual machine, from its start to its end.

    Attributes
    ----------
    vm_id : int
        Identifier, valid within its file only.
    start, end : float
        When it was there, [start, end), in slots since the beginning of what is read.
    cores : float
        Cores that it held.
    memory : float
        Memory that it held: GB, or the unit in which the reader was told the memory of a machine.
    priority : int
        0 is high, 1 is low: it may be evicted.
    tenant_id : int
        Who owns it, or what it was requested with; -1 if that is unknown.

    Examples
    --------
    >>> machine = VirtualMachine(7, start=2.5, end=6.0, cores=2.0, memory=3.5)
    >>> machine.lifetime
    3.5
    """

    vm_id: int
    start: float
    end: float
    cores: float
    memory: float
    priority: int = HIGH_PRIORITY
    tenant_id: int = -1

    @property
    def lifetime(self) -> float:
        """For how long it was there, in slots."""
        return self.end - self.start
