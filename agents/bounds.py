"""Solutions with a proven upper bound, and the gap between the two."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["Bounded"]


class Bounded(ABC):
    """A solution with a proven upper bound on the value of any solution.

    Attributes
    ----------
    value : float
        Value of the solution; larger is better.
    """

    value: float

    @abstractmethod
    def highest(self) -> float:
        """Return the upper bound on the value of any solution.

        Returns
        -------
        float
            The upper bound.
        """

    @property
    def gap(self) -> float:
        """The largest possible improvement: upper bound minus value."""
        return self.highest() - self.value

    @property
    def relative_gap(self) -> float:
        """The gap divided by the upper bound; 0 if there is no gap."""
        return self.gap / self.highest() if self.gap > 0 else 0.0
