"""Alibaba traces: tables made up from their schemas, batches, packed files, and each way a file can be broken."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import polars as pl
import pytest
from alibaba_files import archive
from workload_files import refusal

from desim.reading import LONGEST_LINE
from desim.workloads import alibaba
from desim.workloads.alibaba import TABLES, Column, Finding, TableSchema

DTYPES = {"string": pl.String, "whole number": pl.Int64, "number": pl.Float64}


def value(column: Column, row: int) -> str | int | float:
    """Return a value that fits a column and differs from row to row."""
    if column.kind == "string":
        return f"{column.name[0]}_{row}|é"
    return row if column.kind == "whole number" else row % 100 + 0.25


def rows(schema: TableSchema, number: int) -> list[list[str | int | float | None]]:
    """Return rows of a table in which fields that may be empty take turns to be so."""
    found: list[list[str | int | float | None]] = []
    for row in range(number):
        found.append([value(column, row) for column in schema.columns])
        empty = row % (len(schema.columns) + 3)
        if empty < len(schema.columns) and not schema.columns[empty].required:
            found[-1][empty] = None
    return found


def written(schema: TableSchema, table: list[list[str | int | float | None]]) -> bytes:
    """Return a file as published."""
    lines = [",".join("" if field is None else str(field) for field in row) for row in table]
    return "".join(f"{line}\n" for line in ([",".join(schema.names)] if schema.header else []) + lines).encode()


@pytest.mark.parametrize("name", TABLES)
def test_tables_come_back_as_written(tmp_path: Path, name: str) -> None:
    schema = TABLES[name]
    table = rows(schema, 100)
    expected = pl.DataFrame(table, schema={column.name: DTYPES[column.kind] for column in schema.columns}, orient="row")
    content = written(schema, table)
    header = b"" if schema.header else (",".join(schema.names) + "\n").encode()
    for number, form in enumerate(
        [
            content,
            content.removesuffix(b"\n"),
            content.replace(b"\n", b"\r\n"),
            content.replace(b"\n", b"\n\n") + b"\n",
            b"\xef\xbb\xbf" + content,
            header + content,
            gzip.compress(content),
            gzip.compress(
                archive(**{f"folder__._{name}.csv.txt": content, f"folder__{name}_csv": content, "README.md": content})
            ),
            archive(**{f"{name}_csv": content, f"._{name}_csv": content}),
        ]
    ):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(form)
        assert alibaba.read(path, name).equals(expected), number
        source = alibaba.stream(path, name, batch_rows=30)
        assert (pl.concat(list(source)).equals(expected), source.report.rows) == (True, 100)


@pytest.mark.parametrize("batch_rows", [1, 50, 99, 101])
def test_batches(tmp_path: Path, batch_rows: int) -> None:
    schema = TABLES["batch_task"]
    path = tmp_path / "batch_task.csv"
    path.write_bytes(written(schema, rows(schema, 100)))
    source = alibaba.stream(path, batch_rows=batch_rows)
    frames = list(source)
    assert [len(frame) for frame in frames[:-1]] == [batch_rows] * (len(frames) - 1)
    assert 1 <= len(frames[-1]) <= batch_rows
    assert pl.concat(frames).equals(alibaba.read(path))
    # Every iteration reads the file anew
    assert [frame.to_dicts() for frame in source] == [frame.to_dicts() for frame in frames]
    assert source.report.rows == 100


def test_numbers_as_pandas_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "pai_task_table.csv"
    path.write_text("j,t,2.0,Failed,1e3,,600.0,.5,+50.0,\n")
    expected = ("j", "t", 2, "Failed", 1_000.0, None, 600.0, 0.5, 50.0, None)
    found = alibaba.read(path)
    assert (found.row(0), found["inst_num"].dtype) == (expected, pl.Int64)


USAGE = """m_1,10,50,40,,2.5,-1,101,20
m_1,20,-1,101,101.0,-1,1e2,0,-1.0
m_2,10,100,0,100.5,101,-2,250,101
m_2,20,-1,,5,1,5,5,5
"""


def test_values_that_stand_for_unknown_ones(tmp_path: Path) -> None:
    path = tmp_path / "machine_usage.csv"
    path.write_text(USAGE)
    source = alibaba.stream(path, batch_rows=3)
    found = pl.concat(list(source)).drop("machine_id", "time_stamp")
    assert found.rows() == [
        (50, 40, None, 2.5, None, None, 20),
        (None, None, None, -1, 100, 0, None),  # mkpi has no range
        (100, 0, 100.5, 101, -2, 250, None),  # outside, but nothing that stands for unknown
        (None, None, 5, 1, 5, 5, 5),
    ]
    report = source.report
    assert report.counts == {
        Finding("changed", "cpu_util_percent"): 2,
        Finding("changed", "mem_util_percent"): 1,
        **{Finding("changed", column): 1 for column in ("mem_gps", "net_in", "net_out")},
        **{Finding("noted", column): 1 for column in ("mem_gps", "net_in", "net_out")},
        Finding("changed", "disk_io_percent"): 2,
    }
    assert report.places[Finding("changed", "cpu_util_percent")] == [2, 4]
    assert report.places[Finding("noted", "net_out")] == [3]
    assert alibaba.read(path).drop("machine_id", "time_stamp").equals(found)


def test_the_report(tmp_path: Path) -> None:
    path = tmp_path / "machine_meta.csv"
    path.write_text("".join(f"m_{row},0,1,2,96,{-1 if row % 2 else row},USING\n" for row in range(2_000)))
    source = alibaba.stream(path, batch_rows=300)
    assert sum(map(len, source)) == 2_000
    found = source.report.as_dict()
    places = {name: (entry["count"], entry["places"]) for name, entry in found["reasons"].items()}
    assert places == {"mem_size_changed": (1_000, [2, 4, 6, 8, 10]), "mem_size_noted": (949, [103, 105, 107, 109, 111])}
    assert json.loads(json.dumps(found)) == found
    assert str(source.report).splitlines()[0] == "2,000 rows: 1,000 values cleared"
    assert str(alibaba.TableReport(rows=3)) == "3 rows: 0 values cleared"


@pytest.mark.parametrize("form", ["plain", "gzip", "tar"])
def test_memory_follows_the_batch_not_the_file(tmp_path: Path, form: str) -> None:
    lines = b"m_1,10,50,40,1,2.5,3,4,20\n" * 10_000
    path = tmp_path / "machine_usage.csv"

    def peak(times: int) -> int:
        content = {
            "plain": bytes,
            "gzip": gzip.compress,
            "tar": lambda lines: gzip.compress(archive(machine_usage_csv=lines)),
        }[form]
        path.write_bytes(content(lines * times))
        tracemalloc.start()
        try:
            assert sum(len(frame) for frame in alibaba.stream(path, batch_rows=2_000)) == 10_000 * times
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # Polars' own memory is not traced, but that of the bytes handed to it is: 2 MB of them in the larger file
    assert peak(10) < peak(3) + 500_000 < 3_000_000


TASK = b"M1,3,j_1,1,Terminated,100,160,50.0,0.39"
NODE = b"openb-node-0,32000,262144,0,"
NODES = b"sn,cpu_milli,memory_mib,gpu,model"


def with_field(column: str, text: str) -> bytes:
    """Return the good task with one field replaced."""
    fields = TASK.decode().split(",")
    fields[alibaba.TABLES["batch_task"].names.index(column)] = text
    return ",".join(fields).encode()


BROKEN = [
    (b"M1,3,j_1", "got 3 fields, expected 9 (a truncated line?)"),
    (TASK + b",", "got 10 fields, expected 9"),
    (with_field("plan_cpu", "much"), "column plan_cpu: got 'much', expected a number"),
    (with_field("plan_mem", "1_0"), "column plan_mem: got '1_0', expected a number"),
    (with_field("start_time", "nan"), "column start_time: got 'nan', expected a number"),
    (with_field("end_time", "1e16"), "column end_time: got '1e16', expected a number from -1e15 to 1e15"),
    (with_field("instance_num", "2.5"), "column instance_num: got '2.5', expected a whole number"),
    (
        with_field("instance_num", "9" * 400),
        f"column instance_num: got '{'9' * 37}...', expected a whole number from -1e15 to 1e15",
    ),
    (with_field("job_name", ""), "column job_name: got '', expected text"),
    (TASK.replace(b"j_1", b"j\x001"), "got byte 0x00 at position 7, expected UTF-8 text without quotation marks"),
    (TASK.replace(b"M1", b'"M1"'), "got a quotation mark at position 1, expected UTF-8 text without quotation marks"),
]


@pytest.mark.parametrize(("line", "message"), BROKEN, ids=[message[:60] for _, message in BROKEN])
def test_broken_lines(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "batch_task.csv"
    content = b"\n".join([TASK, line, TASK, b""])
    path.write_bytes(content)
    for use in (alibaba.read, alibaba.requests, lambda path: list(alibaba.stream(path, batch_rows=1))):
        assert refusal(lambda use=use: use(path)) == f"{path}: line 2: {message}"


def test_the_first_fault_of_the_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "batch_task.csv"
    lines = [TASK, with_field("plan_mem", "x"), with_field("plan_cpu", "y"), b"1,2", b"\xff"]
    for kept in range(4):
        path.write_bytes(b"\n".join([TASK, *lines[kept + 1 :]]))
        message = ["column plan_mem: got 'x'", "column plan_cpu: got 'y'", "got 2 fields", "got byte 0xff"][kept]
        assert refusal(lambda: alibaba.read(path)).startswith(f"{path}: line 2: {message}")
    path.write_bytes(with_field("plan_cpu", "y").replace(b"3", b"three"))
    assert (
        refusal(lambda: alibaba.read(path))
        == f"{path}: line 1: column instance_num: got 'three', expected a whole number"
    )


@pytest.mark.parametrize(("batch_rows", "broken"), [(7, 701), (1_000, 10_501)])
def test_the_line_is_right_in_a_late_batch(tmp_path: Path, batch_rows: int, broken: int) -> None:
    path = tmp_path / "machine_usage.csv"
    lines = [b"m_%d,%d,1,2,3,4,5,6,7" % (number, number) for number in range(1, broken + 2_000)]
    lines[broken - 1] = b"m_1,10,1,2,3,4,5,6,broken"
    path.write_bytes(b"\n".join(lines))
    source = alibaba.stream(path, batch_rows=batch_rows)
    message = f"{path}: line {broken}: column disk_io_percent: got 'broken', expected a number"
    assert refusal(lambda: [len(frame) for frame in source]) == message
    assert source.report.rows == (broken - 1) // batch_rows * batch_rows
    # Blank lines count, and other line ends count once
    path.write_bytes(b"\r\n\r\n" + b"\r\n".join(lines))
    message = message.replace(f"line {broken}", f"line {broken + 2}")
    assert refusal(lambda: list(alibaba.stream(path, batch_rows=batch_rows))) == message


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (NODES.replace(b"memory_mib", b"memory"), "column 3: got 'memory', expected 'memory_mib'"),
        (NODES[:-6], "got 4 columns, expected 5: sn,cpu_milli,memory_mib,gpu,model"),
        (NODES + b",rack", "got 6 columns, expected 5: sn,cpu_milli,memory_mib,gpu,model"),
        (b"\xff" * 50, f"column 1: got '{'�' * 37}...', expected 'sn'"),
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
            assert refusal(lambda use=use: use(path)) == f"{path}: got no row of openb_node_list, expected at least one"
    path.write_bytes(b"\n\n")
    assert (
        refusal(lambda: alibaba.read(path, "batch_task")) == f"{path}: got no row of batch_task, expected at least one"
    )


def test_endless_lines(tmp_path: Path) -> None:
    path = tmp_path / "batch_task.csv"
    path.write_bytes(TASK + b"\n" + TASK + b"\n" + b"7" * 3 * LONGEST_LINE)
    message = f"{path}: line 3 is longer than 1,048,576 bytes"
    assert refusal(lambda: alibaba.read(path)) == message
    assert refusal(lambda: list(alibaba.stream(path, batch_rows=1))) == message


def test_archives_without_one_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "batch_task.tar.gz"
    path.write_bytes(gzip.compress(archive(README=b"text", batch_task=b"data")))
    assert refusal(lambda: alibaba.read(path)) == f"{path}: got an archive without a CSV file, expected one CSV file"
    path.write_bytes(gzip.compress(archive(a_csv=TASK, b=b"text", c_csv=TASK)))
    assert refusal(lambda: alibaba.read(path)) == f"{path}: got 'a.csv' and 'c.csv', expected one CSV file"
