"""How often the units of a cluster, cores or executors, have failed without having been repaired."""

from __future__ import annotations

from desim.exceptions import InvalidConfiguration

__all__ = ["FailureCounts"]


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
