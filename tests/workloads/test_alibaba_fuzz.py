"""Alibaba traces: damaged files give a table or a WorkloadError, as a second, slow reader says."""

from __future__ import annotations

import csv
import gzip
import math
import re
from pathlib import Path

import pytest
from alibaba_files import archive
from hypothesis import given, settings
from hypothesis import strategies as st

from desim.exceptions import WorkloadError
from desim.workloads import alibaba
from desim.workloads.alibaba import TABLES, TableSchema

CONTENT = {
    "batch_task": b"M1,10,j_1,1,Terminated,100,160,50.0,0.39\nR2_1,1,j_1,1,Failed,160,160,100.0,101\n\n"
    b"task_x,2,j_2,12,Running,7,9,,\nM1,3.0,j_3,3,Terminated,7,0,1e2,-1\n",
    "openb_node_list": b"sn,cpu_milli,memory_mib,gpu,model\nn-0,32000,262144,0,\nn-1,64000,262144,2,P100\n"
    b"n-2,96000,393216,8,G\xc3\xa9\n",
    "pai_group_tag_table": b"i1,u1,,g1,\ni2,u2,V100,g2,ctr\ni3,,T4,,bert\n",
}
TOKENS = [
    *(b"", b",", b"\n", b"\r\n", b"\r", b",,", b"\n\n", b" ", b"\t", b'"', b"'", b";", b"|", b"\0", b"\x0b", b"\x7f"),
    *(b"-1", b"101", b"0", b"nan", b"inf", b"-Infinity", b"NaN", b"1e15", b"1e16", b"1e999", b"9" * 40, b"1_0"),
    *(b"0.5", b"5.", b".5", b"+1", b"--1", b"1e", b"0x10", b"true", b"null", b"\xff", b"\xc3", b"\xe2\x82\xac"),
    *(b"\xef\xbb\xbf", b"\x1f\x8b", b"\xd9\xa1", b"\xe2\x80\xa8", b"\xc2\x85", b"x\xda\x80", b"ustar"),
]
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

damage = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(TOKENS) | st.binary(max_size=4)), max_size=4
)


def damaged(content: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    """Replace some bytes at some places."""
    for place, removed, token in changes:
        at = round(place * len(content))
        content = content[:at] + token + content[at + removed :]
    return content


Row = list[str | int | float | None]


def reference(content: bytes, schema: TableSchema) -> tuple[list[Row], int]:
    """Return the rows of a file and the line of its first fault, 0 if it has none."""
    lines = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    start = 0
    if lines[0] == ",".join(schema.names).encode():
        start = 1
    elif schema.header:
        return [], 1
    found: list[Row] = []
    for number, line in enumerate(lines[start:], start + 1):
        if line:
            row = reference_row(line, schema)
            if row is None:
                return found, number
            found.append(row)
    return found, 0


def reference_row(line: bytes, schema: TableSchema) -> Row | None:
    """Return the values of a line, None if it does not fit."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return None
    if re.search('[\x00-\x08\x0b-\x1f\x7f"]', text):
        return None
    fields = next(csv.reader([text], quoting=csv.QUOTE_NONE))
    if len(fields) != len(schema.columns):
        return None
    row: Row = []
    for field, column in zip(fields, schema.columns, strict=True):
        if not field:
            if column.required:
                return None
            row.append(None)
        elif column.kind == "string":
            row.append(field)
        else:
            number = float(field) if NUMBER.fullmatch(field) else math.nan
            if not abs(number) <= 1e15 or (column.kind == "whole number" and not number.is_integer()):
                return None
            row.append(None if number in column.invalid else number)
    return row


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a path that is written again and again."""
    return tmp_path_factory.mktemp("fuzz") / "file"


def check(path: Path, name: str, content: bytes) -> None:
    """Compare the reader with the reference."""
    path.write_bytes(content)
    rows, broken = reference(content, TABLES[name])
    try:
        found = alibaba.read(path, name)
    except WorkloadError as error:
        message = str(error)
        assert message.startswith(f"{path}: ")
        assert "\n" not in message
        if broken:
            assert message.startswith(f"{path}: line {broken}: "), (message, content)
        else:
            assert not rows, (message, content)
            assert message.endswith((": is empty", f": got no row of {name}, expected at least one"))
    else:
        assert not broken, content
        assert found.rows() == [tuple(row) for row in rows]


@settings(max_examples=250, deadline=None)
@given(name=st.sampled_from(list(CONTENT)), changes=damage)
def test_damaged_files(path: Path, name: str, changes: list[tuple[float, int, bytes]]) -> None:
    content = damaged(CONTENT[name], changes)
    if not content.startswith(b"\x1f\x8b"):
        check(path, name, content)


FIELDS = st.sampled_from([token.decode("utf-8", "replace") for token in TOKENS]) | st.floats().map(str) | st.text()


@settings(max_examples=120, deadline=None)
@given(fields=st.lists(FIELDS, min_size=7, max_size=7), before=st.integers(0, 3))
def test_any_fields(path: Path, fields: list[str], before: int) -> None:
    good = "m_1,0,1,r1,96,50,USING\n"
    check(path, "machine_meta", (good * before + ",".join(fields) + "\n" + good).encode("utf-8", "replace"))


@settings(max_examples=120, deadline=None)
@given(changes=damage, outside=st.booleans(), form=st.sampled_from(["gzip", "tar", "tar.gz"]))
def test_damaged_packed_files(path: Path, changes: list[tuple[float, int, bytes]], outside: bool, form: str) -> None:
    content = CONTENT["batch_task"]
    content = content if outside else damaged(content, changes)
    if "tar" in form:
        content = archive(batch_task_csv=content)[:2048]
        # Most of an archive is padding: aim at its header
        content = damaged(content[:512], changes) + content[512:] if outside and form == "tar" else content
    if "gz" in form:
        content = gzip.compress(content, mtime=0)
        content = damaged(content, changes) if outside else content
    path.write_bytes(content)
    try:
        found = alibaba.read(path, "batch_task")
    except WorkloadError as error:
        assert str(error).startswith(f"{path}: ")
        assert changes
    else:
        assert len(found)
        if not changes:
            assert len(found) == 4


def test_the_damage_is_neither_trivial_nor_always_fatal(path: Path) -> None:
    outcomes = []
    for token in TOKENS:
        for at in range(0, len(CONTENT["batch_task"]), 23):
            content = damaged(CONTENT["batch_task"], [(at / len(CONTENT["batch_task"]), 1, token)])
            if not content.startswith(b"\x1f\x8b"):
                outcomes.append(reference(content, TABLES["batch_task"])[1])
                check(path, "batch_task", content)
    assert {0, 1, 2, 4, 5} <= set(outcomes)
    assert 0.1 < outcomes.count(0) / len(outcomes) < 0.9
