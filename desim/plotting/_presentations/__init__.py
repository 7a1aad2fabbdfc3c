"""What figures, tables and reports know of results, problem by problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from desim.plotting._presentations.base import Better, Figure, Presentation, Remarks
from desim.plotting._presentations.batch import BATCH
from desim.plotting._presentations.dag import DAG
from desim.plotting._presentations.deferrable import DEFERRABLE
from desim.plotting._presentations.multiserver import MULTISERVER
from desim.problem import Kind

__all__ = ["PRESENTATIONS", "Better", "Figure", "Presentation", "Remarks", "presentation_of"]

PRESENTATIONS: Mapping[str, Presentation] = {
    presentation.problem: presentation for presentation in (BATCH, DAG, DEFERRABLE, MULTISERVER)
}


def presentation_of(kind: Kind) -> Presentation:
    """Return what is known of a problem's results."""
    known = PRESENTATIONS.get(kind.name)
    if known is not None and kind.metrics.names == tuple(known.meanings):
        return known
    described = kind.metrics
    if not described.described:
        return known or Presentation(kind.name)
    return replace(
        known or Presentation(kind.name, time_unit=kind.time_unit),
        meanings={metric.name: metric.meaning for metric in described},
        headline=described.headline,
        main=described.main or described.headline,
        kinds={metric.name: (metric.unit, metric.better) for metric in described},
    )
