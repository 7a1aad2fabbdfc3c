"""Runs that are quick, deterministic and, if asked, ill-behaved; and the program that performs a sweep of them."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from desim.exceptions import DesimError, WorkloadError
from desim.experiments.run import Run
from desim.experiments.runner import perform_all
from desim.experiments.store import Store
from desim.parallel import Workers


@dataclass(frozen=True)
class Walk:
    """A random walk: where it leaves a trace, how many steps it takes, and for how long."""

    trace: str
    steps: int = 10
    seconds: float = 0.0


@dataclass(frozen=True)
class Walker:
    """Who walks: ``"faithful"``, or one that misbehaves with some seeds as long as there is a file ``TRACE.ill``."""

    policy: str = "faithful"
    length: float = 1.0


def walks(trace: Path, count: int, walker: Walker | None = None, **how: Any) -> list[Run]:
    return [Run(Walk(str(trace), **how), walker or Walker(), seed) for seed in range(count)]


def walk(run: Run) -> dict[str, Any]:
    with Path(run.setting.trace).open("a") as file:
        file.write(f"{run.seed}\n")
    if Path(f"{run.setting.trace}.ill").exists():
        misbehave(run)
    time.sleep(run.setting.seconds)
    path = np.cumsum(run.agent.length * np.random.default_rng(run.seed).normal(size=run.setting.steps))
    return {"path": path.tolist(), "end": float(path[-1]), "nothing": float("nan")}


def misbehave(run: Run) -> None:
    if run.agent.policy == "raises" and run.seed % 3 == 1:
        raise WorkloadError(f"step {run.seed} leads nowhere")
    if run.agent.policy == "dies" and run.seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)


def traced(trace: Path) -> list[int]:
    return sorted(int(line) for line in trace.read_text().split()) if trace.exists() else []


def main(store: str, trace: str, count: str, jobs: str, steps: str, seconds: str) -> int:
    """Perform a sweep as a program does."""
    runs = walks(Path(trace), int(count), steps=int(steps), seconds=float(seconds))
    try:
        perform_all(walk, runs, Store(Path(store)), workers=Workers(int(jobs)), title="walks")
    except DesimError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    from sweep_runs import main as imported_main  # not from __main__, whose functions are refused

    sys.exit(imported_main(*sys.argv[1:]))
