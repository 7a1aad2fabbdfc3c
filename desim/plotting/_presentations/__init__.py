"""What figures, tables and reports know of results, problem by problem."""

from __future__ import annotations

from collections.abc import Mapping

from desim.plotting._presentations.base import Better, Figure, Presentation, Remarks
from desim.plotting._presentations.batch import BATCH
from desim.plotting._presentations.dag import DAG
from desim.plotting._presentations.deferrable import DEFERRABLE
from desim.plotting._presentations.multiserver import MULTISERVER

__all__ = ["PRESENTATIONS", "Better", "Figure", "Presentation", "Remarks", "presentation_of"]

PRESENTATIONS: Mapping[str, Presentation] = {
    presentation.problem: presentation for presentation in (BATCH, DAG, DEFERRABLE, MULTISERVER)
}


def presentation_of(problem: str) -> Presentation:
    """Return what is known of a problem's results: of a problem that is not desim's, its name."""
    return PRESENTATIONS.get(problem) or Presentation(problem)
