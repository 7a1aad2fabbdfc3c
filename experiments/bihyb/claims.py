"""What the paper publishes of its three fixed rules, beside ours."""

from __future__ import annotations

from collections.abc import Mapping

from desim.experiments.bihyb.simulate import RULES
from desim.experiments.bihyb.stages import FLOATS, PUBLISHED
from desim.experiments.claims import Claim, FixedRule
from desim.experiments.frame import Frame
from desim.statistics import Estimate

ROUNDED = 0.01
"""Percent by which ours may be off: the publication rounds to whole numbers."""


def fixed_rules(frames: Mapping[str, Frame]) -> list[FixedRule]:
    """Return the rules of the paper, in its arithmetic."""
    frame = frames.get("stages")
    if frame is None:
        return []
    return [
        FixedRule(
            rule, f"{size} queries", "makespan", PUBLISHED[size][rule]["makespan"], _mean(frame, size, rule), ROUNDED
        )
        for size in frame.columns(FLOATS)
        if size in PUBLISHED
        for rule in RULES
    ]


def _mean(frame: Frame, size: str, row: str, panel: str = FLOATS) -> Estimate:
    return frame.estimate(panel, size, row, "makespan")


def claims(frames: Mapping[str, Frame]) -> list[Claim]:
    """Return no claims: the learned agents of the paper are not run here, only their published means are shown."""
    return []
