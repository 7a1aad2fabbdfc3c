"""What nobody claims."""

from __future__ import annotations

from collections.abc import Mapping

from desim.experiments.claims import Claim, FixedRule
from desim.experiments.frame import Frame


def fixed_rules(frames: Mapping[str, Frame]) -> list[FixedRule]:
    return [
        FixedRule("FCFS <1>", "load 1", "wait, s", 11.5, frame.estimate("load", "1", "FCFS <1>", "wait"))
        for frame in frames.values()
    ]


def claims(frames: Mapping[str, Frame]) -> list[Claim]:
    return [
        Claim(
            "FCFS waits longer than SJF, s",
            8.0,
            frame.difference("load", "1", "FCFS <1>", "wait", "SJF | *2*"),
            in_order=True,
            reason="Half of it.",
        )
        for frame in frames.values()
    ]
