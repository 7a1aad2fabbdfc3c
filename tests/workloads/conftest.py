"""Files for the tests of the workloads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from swf_rows import HEADER


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a file: text or bytes as they are, anything else as JSON."""

    def make(content: Any, name: str = "file") -> Path:
        path = tmp_path / name
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return make


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes rows into a file with a header."""

    def make(*rows: str, header: str = HEADER) -> Path:
        path = tmp_path / "log.swf"
        path.write_text(header + "\n".join(rows) + "\n")
        return path

    return make
