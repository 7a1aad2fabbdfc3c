"""Logs for the tests of the workloads: made up, and real where they are at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from swf_rows import HEADER

LOGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "swf"


@pytest.fixture(scope="session")
def real_log() -> Callable[[str], Path]:
    """Return a function from the name of a log to its path, which skips the test if it is absent."""

    def find(name: str) -> Path:
        path = LOGS / name
        if not path.is_file():
            pytest.skip(f"needs the log {name} in the shared data")
        return path

    return find


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes rows into a file with a header."""

    def make(*rows: str, header: str = HEADER) -> Path:
        path = tmp_path / "log.swf"
        path.write_text(header + "\n".join(rows) + "\n")
        return path

    return make
