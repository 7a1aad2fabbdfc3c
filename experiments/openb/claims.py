"""What the paper publishes of its policies, beside ours: all of them are fixed rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from desim.experiments.claims import Claim, FixedRule
from desim.experiments.frame import Frame
from desim.experiments.openb.allocation import PANEL, WORKLOADS
from desim.experiments.openb.policies import POLICIES

OWN = "FGD"
METRIC = "allocated_at_130"
POINTS = 0.5
"""Percent of all GPUs by which ours may be off."""

PUBLISHED: Mapping[str, Mapping[str, float]] = {
    workload: dict(zip(POLICIES, values, strict=True))
    for workload, values in zip(
        WORKLOADS,
        (
            (87.47, 90.85, 91.88, 92.00, 93.08, 95.39),
            (91.24, 93.27, 93.79, 93.72, 93.79, 95.21),
            (87.43, 90.39, 92.18, 92.46, 93.30, 94.95),
            (86.00, 89.56, 90.02, 90.03, 91.69, 94.15),
            (88.69, 92.06, 93.56, 93.71, 93.93, 95.65),
        ),
        strict=True,
    )
}
"""Percent of the GPUs in use when 130 percent have been requested: means of ten orders by workload and policy, from the
artifact of the paper."""


def fixed_rules(frames: Mapping[str, Frame]) -> list[FixedRule]:
    """Return the policies that the paper compares its own with."""
    return [
        FixedRule(policy, workload, "GPUs in use at 130 %, %", paper, ours, within=POINTS)
        for frame, workload in _measured(frames)
        for policy, paper in PUBLISHED[workload].items()
        for ours in (frame.estimate(PANEL, workload, policy, METRIC),)
    ]


def claims(frames: Mapping[str, Frame]) -> list[Claim]:
    """Return by how much the paper's policy is ahead of the best of the others on each workload."""
    found = []
    for frame, workload in _measured(frames):
        published = PUBLISHED[workload]
        rival = max((policy for policy in published if policy != OWN), key=published.__getitem__)
        lead = frame.difference(PANEL, workload, OWN, METRIC, rival)
        what = f"{workload}: {OWN} has more GPUs in use than {rival}, points"
        paper = published[OWN] - published[rival]
        found.append(Claim(what, paper, lead, tolerance=POINTS, in_order=lead.low > 0))
    return found


def _measured(frames: Mapping[str, Frame]) -> Sequence[tuple[Frame, str]]:
    """Return the workloads of the paper that were measured."""
    frame = frames.get("allocation")
    return [] if frame is None else [(frame, name) for name in frame.columns(PANEL) if name in PUBLISHED]
