"""What a solution brings and what none can exceed, and how far these are apart."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["Bounded"]


class Bounded(ABC):
    """A solution with a proof of how good it is.

    Attributes
    ----------
    value : float
        What the solution brings.
    """

    value: float

    @abstractmethod
    def highest(self) -> float:
        """Return what no solution can exceed.

        Returns
        -------
        float
            The upper bound.
        """

    @property
    def gap(self) -> float:
        """The most that a better solution could add to the value."""
        return self.highest() - self.value

    @property
    def relative_gap(self) -> float:
        """The gap, relative to the upper bound; 0 if there is no gap."""
        return self.gap / self.highest() if self.gap > 0 else 0.0
