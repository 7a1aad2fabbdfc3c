"""The examples of `make test` are the same each time, whatever has been imported and in whichever order tests run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def examples() -> list[tuple[int, float, str]]:
    """Return what a test is shown."""
    shown: list[tuple[int, float, str]] = []

    @given(st.integers(), st.floats(allow_nan=False), st.text())
    @settings(max_examples=300)
    def look(number: int, fraction: float, word: str) -> None:
        shown.append((number, fraction, word))

    look()
    return shown


@pytest.mark.skipif(not settings().derandomize, reason="random examples are wanted")
def test_examples_do_not_depend_on_what_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = examples()
    (tmp_path / "full_of_constants.py").write_text("".join(f"C{n} = ({n}000, {n}.125, 'word{n}')\n" for n in range(99)))
    monkeypatch.syspath_prepend(tmp_path)
    __import__("full_of_constants")
    after = examples()
    del sys.modules["full_of_constants"]
    assert before == after
