"""What the paper publishes of its policies, beside ours: all of them are fixed rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from desim.experiments.claims import Claim, FixedRule, read_printed
from desim.experiments.frame import Frame
from desim.experiments.openb.allocation import PANEL

OWN = "FGD"
METRIC = "allocated_at_130"
POINTS = 0.5
"""Percent of all GPUs by which ours may be off."""

PUBLISHED = read_printed("desim.experiments.openb")
"""Percent of the GPUs in use when 130 percent have been requested: means of ten orders by workload and policy, from the
artifact of the paper."""


def fixed_rules(frames: Mapping[str, Frame]) -> list[FixedRule]:
    """Return the policies that the paper compares its own with."""
    return [
        FixedRule(policy, workload, "GPUs in use at 130 %, %", paper, ours, within=POINTS)
        for frame, workload in _measured(frames)
        for policy, paper in _published(workload).items()
        for ours in (frame.estimate(PANEL, workload, policy, METRIC),)
    ]


def claims(frames: Mapping[str, Frame]) -> list[Claim]:
    """Return by how much the paper's policy is ahead of the best of the others on each workload."""
    found = []
    for frame, workload in _measured(frames):
        published = _published(workload)
        rival = max((policy for policy in published if policy != OWN), key=published.__getitem__)
        lead = frame.difference(PANEL, workload, OWN, METRIC, rival)
        what = f"{workload}: {OWN} has more GPUs in use than {rival}, points"
        paper = published[OWN] - published[rival]
        found.append(Claim(what, paper, lead, tolerance=POINTS, in_order=lead.low > 0))
    return found


def _published(workload: str) -> dict[str, float]:
    return {policy: by_metric[METRIC] for policy, by_metric in PUBLISHED[workload].items()}


def _measured(frames: Mapping[str, Frame]) -> Sequence[tuple[Frame, str]]:
    """Return the workloads of the paper that were measured."""
    frame = frames.get("allocation")
    return [] if frame is None else [(frame, name) for name in frame.columns(PANEL) if name in PUBLISHED]
