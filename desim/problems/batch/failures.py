"""Which cores are down."""

from __future__ import annotations

from desim.exceptions import InvalidConfiguration
from desim.problems.batch.cores import to_core_ids

__all__ = ["CoreFailures"]


class CoreFailures:
    """Counts of failures a core: a core that has failed twice must be repaired twice.

    Parameters
    ----------
    num_cores : int
        Cores of the cluster.

    Attributes
    ----------
    down : int
        The cores that are down, as a bit set.
    """

    def __init__(self, num_cores: int) -> None:
        self.down = 0
        self._num_cores = num_cores
        self._counts = [0] * num_cores

    def add(self, cores: int) -> int:
        """Let cores fail; return those that were up before.

        Raises
        ------
        InvalidConfiguration
            If a core does not exist.
        """
        fresh = 0
        for core in self._core_ids(cores):
            self._counts[core] += 1
            if self._counts[core] == 1:
                fresh |= 1 << core
        self.down |= fresh
        return fresh

    def remove(self, cores: int) -> int:
        """Repair cores; return those that are up again.

        Raises
        ------
        InvalidConfiguration
            If a core does not exist or is not down.
        """
        core_ids = self._core_ids(cores)
        for core in core_ids:
            if not self._counts[core]:
                raise InvalidConfiguration(f"core {core} cannot be repaired: it is not down")
        fresh = 0
        for core in core_ids:
            self._counts[core] -= 1
            if not self._counts[core]:
                fresh |= 1 << core
        self.down &= ~fresh
        return fresh

    def _core_ids(self, cores: int) -> list[int]:
        if cores < 0 or cores >> self._num_cores:
            raise InvalidConfiguration(f"core set {cores:#x} does not lie within the {self._num_cores} cores")
        return [int(core) for core in to_core_ids(cores)]
