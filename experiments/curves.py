"""What all learning curves tell, whatever was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Course"]


class Course:
    """The course of a training, from validation to validation.

    Attributes
    ----------
    history : sequence of dict
        Entries of :class:`agents.learning.training.Training`.
    """

    history: Sequence[Mapping[str, Any]]

    @property
    def decisions(self) -> NDArray[np.float64]:
        """Decisions that were learned from, at each validation."""
        return np.array([entry["steps"] for entry in self.history], dtype=np.float64)

    @property
    def episodes(self) -> NDArray[np.float64]:
        """Training episodes that had ended, at each validation."""
        return np.cumsum([entry.get("episodes", 0) for entry in self.history], dtype=np.float64)
