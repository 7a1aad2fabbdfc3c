"""The command line as a function, small workloads, stored runs, and what is compared."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from command_line import HEADER, ROWS, Desim, Outcome, swf_row

from desim import comparing
from desim.cli import main
from desim.sweep import Run, study
from desim.sweep import simulated as performed


@pytest.fixture
def desim(capsys: pytest.CaptureFixture[str]) -> Desim:
    """Return a function that carries out a command line in this process."""

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        return Outcome(status, *capsys.readouterr())

    return run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log of five jobs on eight cores; job 2 runs longer than it requests."""
    path = tmp_path / "tiny.swf"
    path.write_text(HEADER + "\n".join(swf_row(*row) for row in ROWS) + "\n")
    return path


@pytest.fixture
def broken_log(tmp_path: Path) -> Path:
    """Return a log with a cancelled job and one without a request."""
    path = tmp_path / "broken.swf"
    rows = [swf_row(*row) for row in ROWS]
    rows.insert(1, "5 1 -1 -1 -1 -1 -1 4 10 -1 5 1 -1 -1 -1 -1 -1 -1")
    rows.append("10 50 -1 7 2 -1 -1 -1 -1 -1 1 1 -1 -1 -1 -1 -1 -1")
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def stored(tmp_path: Path, desim: Desim, log: Path) -> Path:
    """Return the directory of a run of the log."""
    path = tmp_path / "stored"
    assert desim("run", "batch", "--trace", log, "--agent", "fcfs", "--out", path).status == 0
    return path


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return a list that takes agent and seed of every run that is compared in this process."""
    runs: list[tuple[str, int]] = []
    original = performed.simulate_run

    @wraps(original)
    def simulate_run(run: Run, out: Path | None) -> Any:
        found = original(run, out)
        runs.append((run.policy, run.seed))
        return found

    monkeypatch.setattr(study, "simulate_run", simulate_run)
    return runs


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip what is slow when agents are compared."""
    monkeypatch.setattr(comparing, "draw_figures", lambda *arguments, **look: [])
    monkeypatch.setattr(comparing, "write_comparison", lambda comparison, path: path)
