"""Standard Workload Format: each way to be broken, with its message."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from desim.exceptions import WorkloadError
from desim.workloads import swf

GOOD = b"1 0 -1 10 2 -1 -1 2 10 -1 1 -1 -1 -1 -1 -1 -1 -1"


def with_field(field: int, text: str) -> bytes:
    """Return the good row with one field replaced."""
    fields = GOOD.split()
    fields[field - 1] = text.encode()
    return b" ".join(fields)


BROKEN = [
    (b"1 2 3", "line 2: 3 fields, want 18 (a truncated line?)"),
    (GOOD[:-3], "line 2: 17 fields, want 18 (a truncated line?)"),
    (GOOD + b" 7", "line 2: 19 fields, want 18"),
    (with_field(4, "abc"), "line 2: field 4 (run time) is 'abc', want a number"),
    (with_field(2, "12:30"), "line 2: field 2 (submit time) is '12:30', want a number"),
    (with_field(18, "-"), "line 2: field 18 (think time) is '-', want a number"),
    (with_field(7, "nan"), "line 2: field 7 (used memory) is 'nan', want a number"),
    (with_field(9, "inf"), "line 2: field 9 (requested time) is 'inf', want a number"),
    (with_field(9, "-Infinity"), "line 2: field 9 (requested time) is '-Infinity', want a number"),
    (with_field(1, "1_000"), "line 2: field 1 (job number) is '1_000', want a number"),
    (with_field(3, "1e16"), "line 2: field 3 (wait time) is '1e16', want a number between -1e15 and 1e15"),
    (with_field(3, "-1e999"), "line 2: field 3 (wait time) is '-1e999', want a number between -1e15 and 1e15"),
    (with_field(6, "9" * 400), f"line 2: field 6 (average CPU time) is '{'9' * 37}...', want a number between"),
    (with_field(5, "2.5"), "line 2: field 5 (allocated processors) is '2.5', want a whole number"),
    (with_field(8, "-0.5"), "line 2: field 8 (requested processors) is '-0.5', want a whole number"),
    (with_field(12, "1e-3"), "line 2: field 12 (user) is '1e-3', want a whole number"),
    (with_field(10, "5;"), "line 2: field 10 (requested memory) is '5;', want a number"),
    (with_field(14, "é"), "line 2: byte 0xc3 at column 35, want plain ASCII text"),
    (GOOD.replace(b"10", b"1\x000", 1), "line 2: byte 0x00 at column 9, want plain ASCII text"),
    (GOOD.replace(b" ", b"\x0b", 1), "line 2: byte 0x0b at column 2, want plain ASCII text"),
    (b"\x7fELF\x01", "line 2: byte 0x7f at column 1, want plain ASCII text"),
    (b"; note \x00", "line 2: control character 0x00 in a comment line"),
    (b"7" * (1 << 21), "line 2 is longer than 1,048,576 bytes"),
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("line", "message"), BROKEN, ids=[message[:60] for _, message in BROKEN])
def test_broken_lines(tmp_path: Path, line: bytes, message: str, packed: bool) -> None:
    path = tmp_path / "log.swf"
    content = b"\n".join([GOOD, line, GOOD.replace(b"1", b"3", 1), b""])
    path.write_bytes(gzip.compress(content) if packed else content)
    for use in (swf.read, lambda path: list(swf.stream(path))):
        with pytest.raises(WorkloadError) as caught:
            use(path)
        assert str(caught.value).startswith(f"{path}: {message}")
        assert len(caught.value.args) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no usable job in 0 rows"),
        (b"\n \n", "no usable job in 0 rows"),
        (b"; MaxProcs: 4\n", "no usable job in 0 rows"),
        (with_field(4, "-1"), "no usable job in 1 rows; dropped: 1 unknown_run_time"),
        (b";\n" * 100_001, "line 100001: more than 100,000 header lines"),
    ],
)
def test_files_without_jobs(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "log.swf"
    path.write_bytes(content)
    with pytest.raises(WorkloadError) as caught:
        swf.read(path)
    assert str(caught.value) == f"{path}: {message}"


def test_the_line_is_right_in_a_late_block(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    lines = [with_field(1, str(number)) for number in range(1, 12_001)]
    lines[10_500] = with_field(9, "x")
    path.write_bytes(b"; head\n\n" + b"\n".join(lines))
    with pytest.raises(WorkloadError, match=r"line 10503: field 9 \(requested time\) is 'x', want a number"):
        swf.read(path)
    lines[10_500] = b""
    lines[11_000] = b"1 2"
    path.write_bytes(b"\r\n".join(lines))
    with pytest.raises(WorkloadError, match="line 11001: 2 fields, want 18"):
        swf.read(path)


def test_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    whole = gzip.compress(GOOD * 50, mtime=0)
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    for content in (whole[:-9], whole[:2], bytes(damaged), whole + b"tail", whole[:-8] + bytes(8)):
        path.write_bytes(content)
        with pytest.raises(WorkloadError) as caught:
            swf.read(path)
        assert str(caught.value).startswith(f"{path}: corrupt gzip data: ")


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    missing = tmp_path / "missing.swf"
    for path, message in (
        (missing, f"{missing}: cannot be read: No such file or directory"),
        (tmp_path, f"{tmp_path}: cannot be read: Is a directory"),
        ("a\0b", r"'a\x00b': cannot be read: embedded null byte"),
    ):
        for use in (swf.read, swf.stream):
            with pytest.raises(WorkloadError) as caught:
                use(path)
            assert str(caught.value) == message


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_bytes(GOOD)
    path.chmod(0)
    with pytest.raises(WorkloadError, match="cannot be read: Permission denied"):
        swf.read(path)
