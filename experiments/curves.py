"""What all learning curves tell, whatever was trained, and what an experiment about them leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from desim.experiments.results import write_results

__all__ = ["Course", "Curves"]


class Course:
    """The course of a training, from validation to validation.

    Attributes
    ----------
    history : sequence of dict
        Entries of :class:`desim.agents.learning.training.Training`.
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

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Wall time of learning and of the episodes for it."""
        return np.array([entry["seconds"] for entry in self.history], dtype=np.float64)


Curve = TypeVar("Curve", bound=Course)


@dataclass(frozen=True)
class Curves(Generic[Curve]):
    """All curves of an experiment.

    Attributes
    ----------
    title : str
        What it is.
    options : Options
        How it was asked for.
    curves : tuple of Course
        Dataclasses; empty if nothing is trained.
    num_invalid : int
        None: nothing is simulated.
    """

    title: str
    options: Any
    curves: tuple[Curve, ...]
    num_invalid: int = 0

    def write(self, rows: Iterable[Mapping[str, Any]]) -> list[Path]:
        """Write ``results.json`` and ``results.csv`` into the directory of the options.

        Parameters
        ----------
        rows : iterable of mapping
            The table.

        Returns
        -------
        list of Path
            The files.
        """
        curves = [asdict(curve) for curve in self.curves]  # type: ignore[call-overload]  # they are dataclasses
        document = {"title": self.title, "options": asdict(self.options), "curves": curves}
        return write_results(self.options.directory, document, list(rows))
