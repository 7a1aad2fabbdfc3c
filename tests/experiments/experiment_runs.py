"""Runs that cost nothing and leave a trace, for the tests of store and runner."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desim.exceptions import WorkloadError
from desim.experiments.run import Run


@dataclass(frozen=True)
class Sum:
    """Where runs leave a trace."""

    trace: str


@dataclass(frozen=True)
class Factor:
    """What the seed is multiplied by; the policy ``"stop"`` ends runs from seed 2 on as Ctrl-C does."""

    policy: str
    factor: float = 2.0


def runs(trace: Path, seeds: Sequence[int], *, policy: str = "double") -> list[Run]:
    return [Run(Sum(str(trace)), Factor(policy), seed) for seed in seeds]


def multiply(run: Run) -> dict[str, Any]:
    with Path(run.setting.trace).open("a") as file:
        file.write(f"{run.seed}\n")
    if run.agent.policy == "stop" and run.seed >= 2:
        raise KeyboardInterrupt
    if run.agent.policy == "fail":
        raise WorkloadError("port 3 is on fire")
    while run.seed >= 2 and Path(f"{run.setting.trace}.held").exists():
        time.sleep(0.01)
    return {"product": run.agent.factor * run.seed, "curve": [run.seed, run.seed + 0.5], "nothing": None}


def traced(trace: Path) -> list[int]:
    """Return the seeds that were really run, in order."""
    return [int(line) for line in trace.read_text().split()] if trace.exists() else []
