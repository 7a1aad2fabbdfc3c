"""What the paper publishes, beside ours: three fixed rules, and the learned agent that ours is compared with."""

from __future__ import annotations

from collections.abc import Mapping

from desim.experiments.bihyb.simulate import PASSES, RULES
from desim.experiments.bihyb.stages import FLOATS, WHOLE
from desim.experiments.claims import Claim, FixedRule, read_printed
from desim.experiments.frame import Frame
from desim.statistics import Estimate

PUBLISHED = read_printed("desim.experiments.bihyb")
"""Mean makespans of ten instances, by number of queries and agent."""
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
    """Return the lead of the learned agent over the critical path, which our search has to meet and exceeds."""
    frame = frames.get("stages")
    if frame is None:
        return []
    found = []
    for size in frame.columns(FLOATS):
        if size not in PUBLISHED:
            continue
        learned = PUBLISHED[size]["PPO-BiHyb"]["makespan"]
        lead = 100.0 * (1.0 - learned / PUBLISHED[size]["Critical path"]["makespan"])
        for panel in (FLOATS, WHOLE):
            for row in PASSES:
                if frame.has(panel, size, row):
                    ours = frame.lead(panel, size, row, "makespan", "Critical path")
                    shorter = ours._replace(mean=-ours.mean)
                    what = f"{size} queries, {panel}: PPO-BiHyb, here {row}: shorter than the critical path, %"
                    found.append(Claim(what, lead, shorter, tolerance=0.1, in_order=shorter.mean >= lead))
    return found
