"""Files that desim has written itself: their fields have the types that they should have."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import pytest

from desim import RecordError
from desim.files import read_fields


class Part(TypedDict):
    """A part."""

    name: str
    kind: Literal["a", "b"]


class Whole(TypedDict):
    """A file."""

    count: int
    share: float
    is_last: bool | None
    parts: list[Part]
    sums: NotRequired[dict[str, float | None]]
    anything: Any


GOOD = {
    "count": 1,
    "share": 2,
    "is_last": None,
    "parts": [{"name": "x", "kind": "a"}],
    "sums": {"y": 0.5, "z": None},
    "anything": [1, {"a": []}],
    "further": 3,
}


def test_fields_are_read_with_those_that_nobody_uses(tmp_path: Path) -> None:
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(GOOD))
    assert read_fields(path, Whole) == GOOD
    path.write_text(json.dumps({name: value for name, value in GOOD.items() if name != "sums"}))
    assert "sums" not in read_fields(path, Whole)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"count": "1"}, "count: got '1', expected int"),
        ({"count": True}, "count: got True, expected int"),
        ({"count": 1.0}, "count: got 1.0, expected int"),
        ({"share": None}, "share: got None, expected float"),
        ({"is_last": 0}, "is_last: got 0, expected bool or null"),
        ({"parts": {}}, "parts: got {}, expected list"),
        ({"parts": [{"name": "x", "kind": "a"}, {"name": "x"}]}, "parts[1]: kind is missing"),
        ({"parts": [{"name": 3, "kind": "a"}]}, "parts[0].name: got 3, expected str"),
        ({"parts": [{"name": "x", "kind": "c"}]}, "parts[0].kind: got 'c', expected one of a, b"),
        ({"parts": [{"name": "x", "kind": []}]}, "parts[0].kind: got [], expected one of a, b"),
        ({"parts": [3]}, "parts[0]: got 3, expected an object"),
        ({"sums": {"y": "0.5"}}, "sums['y']: got '0.5', expected float or null"),
    ],
)
def test_a_field_of_another_type_is_named(tmp_path: Path, changes: dict[str, Any], fault: str) -> None:
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(GOOD | changes))
    with pytest.raises(RecordError) as error:
        read_fields(path, Whole)
    assert str(error.value) == f"{path} cannot be read: {fault}"


def test_what_is_no_such_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "whole.json"
    with pytest.raises(FileNotFoundError):
        read_fields(path, Whole)
    for content, fault in (
        ("[1]", "content: got [1], expected an object"),
        ("{}", "content: count is missing"),
        ("{", "Expecting property name"),
        ("[" * 100_000, "nested too deeply"),
    ):
        path.write_text(content)
        with pytest.raises(RecordError, match=r"whole\.json cannot be read: ") as error:
            read_fields(path, Whole)
        assert fault in str(error.value)
    for other in ("pipe", "device", "large"):
        path = tmp_path / other
        if other == "pipe":
            os.mkfifo(path)
        elif other == "device":
            path.symlink_to("/dev/zero")
        else:
            path.touch()
            os.truncate(path, 1 << 40)
        with pytest.raises(RecordError, match="expected a plain file of at most 256 MiB"):
            read_fields(path, Whole)
