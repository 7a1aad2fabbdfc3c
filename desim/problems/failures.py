"""Clusters whose units, cores or executors, fail and come back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from desim.exceptions import InvalidConfiguration
from desim.problem import Problem

__all__ = ["FailureCounts", "UnitCluster"]


class Failures(Protocol):
    """The part of a cluster that takes units down and brings them back."""

    def fail(self, units: int) -> None:
        """Take units down."""

    def repair(self, units: int) -> None:
        """Bring units back."""


class UnitCluster(Problem):
    """Base class of the clusters of units that can fail.

    Parameters
    ----------
    processes : iterable of callables
        Extra SimPy processes.
    """

    jobs: Iterable[Any]
    _failures: Failures

    def _forget_sources(self) -> None:
        """Forget where jobs, outages and whatever else processes do come from, and who listens."""
        self.jobs = ()
        self.processes = ()
        self.foreground = []
        self.listeners = {event: [] for event in self.events}
        self.listening = False

    @property
    def num_units(self) -> int:
        """How many cores or executors can fail."""
        raise NotImplementedError

    def fail(self, units: int) -> None:
        """Take cores or executors down now, with what runs on them.

        Call it from a process, in the phase CAPACITY of its instant. Failures nest: a unit that has failed twice must
        be repaired twice.

        Parameters
        ----------
        units : int
            The cores or executors, as a bit set.

        Raises
        ------
        InvalidConfiguration
            If one of them does not exist.
        """
        self._failures.fail(units)

    def repair(self, units: int) -> None:
        """Bring cores or executors back now; the counterpart of :meth:`fail`.

        Parameters
        ----------
        units : int
            The cores or executors, as a bit set.

        Raises
        ------
        InvalidConfiguration
            If one of them does not exist or is not down.
        """
        self._failures.repair(units)


class FailureCounts:
    """How often each unit has failed without having been repaired.

    Parameters
    ----------
    kind : str
        What the units are called in errors.
    num_units : int
        How many there are.
    """

    def __init__(self, kind: str, num_units: int) -> None:
        self._kind = kind
        self._counts = [0] * num_units

    def fail(self, units: int) -> list[int]:
        """Count failures.

        Parameters
        ----------
        units : int
            The units that fail, as a bit set.

        Returns
        -------
        list of int
            Those that were up, ascending.

        Raises
        ------
        InvalidConfiguration
            If one of them does not exist.
        """
        members = self._members(units)
        for unit in members:
            self._counts[unit] += 1
        return [unit for unit in members if self._counts[unit] == 1]

    def repair(self, units: int, time: float) -> list[int]:
        """Count repairs.

        Parameters
        ----------
        units : int
            The units that are repaired, as a bit set.
        time : float
            When, in seconds.

        Returns
        -------
        list of int
            Those that are up again, ascending.

        Raises
        ------
        InvalidConfiguration
            If one of them does not exist or is not down.
        """
        members = self._members(units)
        for unit in members:
            if not self._counts[unit]:
                raise InvalidConfiguration(f"{self._kind} {unit} cannot be repaired at time {time}: it is not down")
        for unit in members:
            self._counts[unit] -= 1
        return [unit for unit in members if not self._counts[unit]]

    def _members(self, units: int) -> list[int]:
        count = len(self._counts)
        if units < 0 or units >> count:
            raise InvalidConfiguration(
                f"the set {units:#x} does not lie within the {count} {self._kind}s of the cluster"
            )
        return [unit for unit, digit in enumerate(f"{units:b}"[::-1]) if digit == "1"]
