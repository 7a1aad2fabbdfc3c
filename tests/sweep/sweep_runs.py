"""Runs that are quick, deterministic and, if asked, ill-behaved; and the program that performs a sweep of them.

Runs from seed ``HELD_FROM`` (a variable of the environment) on do not end as long as there is a file ``TRACE.held``.
"""

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
from desim.sweep import Run, Store, Workers, run_all

HELD = "HELD_FROM"  # a name, since a variable that is named where it is read counts as used


@dataclass(frozen=True)
class Walk:
    """A random walk: where it leaves a trace, and how many steps it takes."""

    trace: str
    steps: int = 10


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
    while run.seed >= float(os.environ.get(HELD, "inf")) and Path(f"{run.setting.trace}.held").exists():
        time.sleep(0.01)
    path = np.cumsum(run.agent.length * np.random.default_rng(run.seed).normal(size=run.setting.steps))
    return {"path": path.tolist(), "end": float(path[-1]), "nothing": float("nan")}


def record(run: Run, out: Path | None) -> dict[str, Any]:
    """Walk and write records."""
    if out is not None:
        out.mkdir()
        (out / "note.txt").write_text(f"{run.seed}")
    return walk(run)


def awkward(run: Run) -> dict[str, Any]:
    return {"seeds": {run.seed}}


def misbehave(run: Run) -> None:
    if run.agent.policy == "raises" and run.seed % 3 == 1:
        raise WorkloadError(f"step {run.seed} leads nowhere")
    if run.agent.policy == "dies" and run.seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if run.agent.policy == "dies once" and run.seed == 2:
        Path(f"{run.setting.trace}.ill").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    if run.agent.policy == "stops" and run.seed == 2:
        raise KeyboardInterrupt


def traced(trace: Path) -> list[int]:
    return sorted(int(line) for line in trace.read_text().split()) if trace.exists() else []


def die_at(number: int, directory: str) -> None:
    """Let this process be killed when it is about to write to a directory for the nth time, in whatever way."""
    left = iter(range(number - 1, -1, -1))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event in ("os.rename", "os.remove", "os.mkdir") or (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if writes and str(arguments[0]).startswith(directory) and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main(store: str, trace: str, count: str, jobs: str, steps: str, dies_at: str) -> int:
    """Perform a sweep as a program does."""
    if int(dies_at):
        die_at(int(dies_at), store)
    runs = walks(Path(trace), int(count), steps=int(steps))
    try:
        run_all(walk, runs, Store(Path(store)), workers=Workers(int(jobs)), title="walks")
    except DesimError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    from sweep_runs import main as imported_main  # not from __main__, whose functions are refused

    sys.exit(imported_main(*sys.argv[1:]))
