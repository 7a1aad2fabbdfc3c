"""Alibaba traces: each way a file can be broken, with its message."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads import alibaba
from desim.workloads.files import LONGEST_LINE

TASK = b"M1,3,j_1,1,Terminated,100,160,50.0,0.39"
NODE = b"openb-node-0,32000,262144,0,"
NODES = b"sn,cpu_milli,memory_mib,gpu,model"


def with_field(column: str, text: str) -> bytes:
    """Return the good task with one field replaced."""
    fields = TASK.decode().split(",")
    fields[alibaba.TABLES["batch_task"].names.index(column)] = text
    return ",".join(fields).encode()


def archive(**members: bytes) -> bytes:
    """Return a tar archive."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as packed:
        for name, data in members.items():
            info = tarfile.TarInfo(name.replace("_csv", ".csv"))
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return content.getvalue()


def refusal(use: Callable[[], object]) -> str:
    """Return the message of the WorkloadError that a call raises."""
    with pytest.raises(WorkloadError) as caught:
        use()
    assert len(caught.value.args) == 1
    return str(caught.value)


BROKEN = [
    (b"M1,3,j_1", "3 fields, want 9 (a truncated line?)"),
    (TASK[:-5], "8 fields, want 9 (a truncated line?)"),
    (TASK + b",", "10 fields, want 9"),
    (b"  ", "1 fields, want 9 (a truncated line?)"),
    (with_field("plan_cpu", "much"), "column plan_cpu: got 'much', want a number"),
    (with_field("plan_mem", " 1"), "column plan_mem: got ' 1', want a number"),
    (with_field("plan_mem", "1_0"), "column plan_mem: got '1_0', want a number"),
    (with_field("start_time", "nan"), "column start_time: got 'nan', want a number"),
    (with_field("start_time", "12:30"), "column start_time: got '12:30', want a number"),
    (with_field("end_time", "-inf"), "column end_time: got '-inf', want a number between -1e15 and 1e15"),
    (with_field("end_time", "1e16"), "column end_time: got '1e16', want a number between -1e15 and 1e15"),
    (with_field("instance_num", "2.5"), "column instance_num: got '2.5', want a whole number"),
    (with_field("instance_num", "x"), "column instance_num: got 'x', want a whole number"),
    (
        with_field("instance_num", "9" * 400),
        f"column instance_num: got '{'9' * 37}...', want a whole number between -1e15 and 1e15",
    ),
    (with_field("job_name", ""), "column job_name: got '', want text"),
    (with_field("task_name", ""), "column task_name: got '', want text"),
    (TASK.replace(b"j_1", b"j\x001"), "byte 0x00 at position 7, want plain UTF-8 text"),
    (TASK.replace(b"M1", b"M\xff"), "byte 0xff at position 2, want plain UTF-8 text"),
    (TASK.replace(b"3", b"3\r"), "byte 0x0d at position 5, want plain UTF-8 text"),
    (TASK.replace(b"M1", b'"M1"'), "a quotation mark at position 1, want plain UTF-8 text"),
    (b"\x7fELF\x02\x01\x01", "byte 0x7f at position 1, want plain UTF-8 text"),
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("line", "message"), BROKEN, ids=[message[:60] for _, message in BROKEN])
def test_broken_lines(tmp_path: Path, line: bytes, message: str, packed: bool) -> None:
    path = tmp_path / "batch_task.csv"
    content = b"\n".join([TASK, line, TASK, b""])
    path.write_bytes(gzip.compress(content) if packed else content)
    for use in (alibaba.read, alibaba.requests, lambda path: list(alibaba.stream(path, batch_rows=1))):
        assert refusal(lambda use=use: use(path)) == f"{path}: line 2: {message}"


def test_the_first_fault_of_the_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "batch_task.csv"
    lines = [TASK, with_field("plan_mem", "x"), with_field("plan_cpu", "y"), b"1,2", b"\xff"]
    for kept in range(4):
        path.write_bytes(b"\n".join([TASK, *lines[kept + 1 :]]))
        message = ["column plan_mem: got 'x'", "column plan_cpu: got 'y'", "2 fields", "byte 0xff"][kept]
        assert refusal(lambda: alibaba.read(path)).startswith(f"{path}: line 2: {message}")
    path.write_bytes(with_field("plan_cpu", "y").replace(b"3", b"three"))
    assert (
        refusal(lambda: alibaba.read(path)) == f"{path}: line 1: column instance_num: got 'three', want a whole number"
    )


@pytest.mark.parametrize(("batch_rows", "broken"), [(1, 31), (7, 701), (1_000, 10_501), (100_000, 10_501)])
def test_the_line_is_right_in_a_late_batch(tmp_path: Path, batch_rows: int, broken: int) -> None:
    path = tmp_path / "machine_usage.csv"
    lines = [b"m_%d,%d,1,2,3,4,5,6,7" % (number, number) for number in range(1, broken + 2_000)]
    lines[broken - 1] = b"m_1,10,1,2,3,4,5,6,broken"
    path.write_bytes(b"\n".join(lines))
    source = alibaba.stream(path, batch_rows=batch_rows)
    message = f"{path}: line {broken}: column disk_io_percent: got 'broken', want a number"
    assert refusal(lambda: [len(frame) for frame in source]) == message
    assert source.report.rows == (broken - 1) // batch_rows * batch_rows
    # Blank lines count, and other line ends count once
    path.write_bytes(b"\r\n\r\n" + b"\r\n".join(lines))
    message = message.replace(f"line {broken}", f"line {broken + 2}")
    assert refusal(lambda: list(alibaba.stream(path, batch_rows=batch_rows))) == message


def test_a_table_with_a_header_counts_it(tmp_path: Path) -> None:
    path = tmp_path / "openb_node_list.csv"
    for start in (b"", b"\xef\xbb\xbf"):
        path.write_bytes(start + b"\n".join([NODES, NODE, NODE.replace(b"32000", b"")]))
        assert refusal(lambda: alibaba.read(path)) == f"{path}: line 3: column cpu_milli: got '', want a whole number"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (NODE, "column 1: got 'openb-node-0', want 'sn'"),
        (NODES.replace(b"memory_mib", b"memory"), "column 3: got 'memory', want 'memory_mib'"),
        (NODES.upper(), "column 1: got 'SN', want 'sn'"),
        (NODES[:-6], "got 4 columns, want 5: sn,cpu_milli,memory_mib,gpu,model"),
        (NODES + b",rack", "got 6 columns, want 5: sn,cpu_milli,memory_mib,gpu,model"),
        (b"", "column 1: got '', want 'sn'"),
        (b"\xff" * 50, f"column 1: got '{'�' * 37}...', want 'sn'"),
    ],
)
def test_wrong_headers(tmp_path: Path, header: bytes, message: str) -> None:
    path = tmp_path / "openb_node_list.csv"
    path.write_bytes(header + b"\n" + NODE)
    for use in (alibaba.read, alibaba.machines):
        assert refusal(lambda use=use: use(path)) == f"{path}: line 1: the header of openb_node_list: {message}"


def test_files_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "openb_node_list.csv"
    for content in (b"", gzip.compress(b""), archive(a_csv=b"")):
        path.write_bytes(content)
        assert refusal(lambda: alibaba.stream(path)) == f"{path}: is empty"
    for content in (NODES, NODES + b"\n", NODES + b"\r\n\r\n\n"):
        path.write_bytes(content)
        for use in (alibaba.read, alibaba.machines):
            assert refusal(lambda use=use: use(path)) == f"{path}: holds no row of openb_node_list"
    path.write_bytes(b"\n\n")
    assert refusal(lambda: alibaba.read(path, "batch_task")) == f"{path}: holds no row of batch_task"


def test_endless_lines(tmp_path: Path) -> None:
    path = tmp_path / "batch_task.csv"
    path.write_bytes(TASK + b"\n" + TASK + b"\n" + b"7" * 3 * LONGEST_LINE)
    message = f"{path}: line 3 is longer than 1,048,576 bytes"
    assert refusal(lambda: alibaba.read(path)) == message
    assert refusal(lambda: list(alibaba.stream(path, batch_rows=1))) == message


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    missing = tmp_path / "batch_task.csv"
    for path, message in (
        (missing, f"{missing}: cannot be read: No such file or directory"),
        (tmp_path, f"{tmp_path}: cannot be read: Is a directory"),
        ("a\0b", r"'a\x00b': cannot be read: embedded null byte"),
    ):
        for use in (alibaba.stream, alibaba.read, alibaba.requests):
            assert refusal(lambda use=use, path=path: use(path, "batch_task")) == message


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "batch_task.csv"
    path.write_bytes(TASK)
    path.chmod(0)
    assert refusal(lambda: alibaba.read(path)) == f"{path}: cannot be read: Permission denied"


def test_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "batch_task.csv.gz"
    for whole in (gzip.compress(TASK * 50, mtime=0), gzip.compress(archive(a_csv=TASK * 50), mtime=0)):
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 0xFF
        for content in (whole[:-9], whole[:2], whole[:30], bytes(damaged), whole[:-8] + bytes(8)):
            path.write_bytes(content)
            assert refusal(lambda: alibaba.read(path)).startswith(f"{path}: corrupt gzip data: ")


def test_archives_without_one_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "batch_task.tar.gz"
    path.write_bytes(gzip.compress(archive(README=b"text", batch_task=b"data")))
    assert refusal(lambda: alibaba.read(path)) == f"{path}: is an archive without a csv file"
    path.write_bytes(gzip.compress(archive(a_csv=TASK, b=b"text", c_csv=TASK)))
    assert refusal(lambda: alibaba.read(path)) == f"{path}: holds 'a.csv' and 'c.csv', want one csv file"


def test_truncated_archives(tmp_path: Path) -> None:
    path = tmp_path / "batch_task.tar"
    whole = archive(a_csv=b"\n".join([TASK] * 100))
    path.write_bytes(whole[:2_000])
    assert refusal(lambda: alibaba.read(path)).startswith(f"{path}: corrupt tar archive: ")
    path.write_bytes(whole[:300])
    assert refusal(lambda: alibaba.read(path)).startswith(f"{path}: corrupt tar archive: ")


@pytest.mark.parametrize("value", [0, -1, True, "3"])
def test_numbers_of_rows(tmp_path: Path, value: object) -> None:
    path = tmp_path / "batch_task.csv"
    path.write_bytes(TASK)
    with pytest.raises(InvalidConfiguration) as caught:
        alibaba.stream(path, batch_rows=value)  # type: ignore[arg-type]
    assert str(caught.value) == f"batch_rows is {value!r}, want a whole number of at least 1"
