"""Alibaba traces: tables made up from their schemas, batches, packed files and the report."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tracemalloc
from pathlib import Path

import polars as pl
import pytest

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


def packed(content: bytes, *names: str) -> bytes:
    """Return a gzipped archive with files of the same content."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return target.getvalue()


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
            packed(content, f"{name}/._{name}.csv.txt", f"{name}/{name}.csv", "README.md"),
            gzip.decompress(packed(content, f"{name}.csv", f"._{name}.csv")),
        ]
    ):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(form)
        assert alibaba.read(path, name).equals(expected), number
        source = alibaba.stream(path, name, batch_rows=30)
        assert (pl.concat(list(source)).equals(expected), source.report.rows) == (True, 100)


@pytest.mark.parametrize("batch_rows", [1, 2, 50, 99, 100, 101, 1_000_000])
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


def test_a_block_that_looks_like_zlib_data_is_text(tmp_path: Path) -> None:
    path = tmp_path / "machine_meta.csv"
    path.write_bytes(b"x\xda\x81,0,1,2,96,50,USING\n")
    assert alibaba.read(path)["machine_id"].to_list() == ["xځ"]


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
    assert places == {
        "mem_size_changed": (1_000, [2, 4, 6, 8, 10]),
        "mem_size_noted": (949, [103, 105, 107, 109, 111]),
    }
    assert json.loads(json.dumps(found)) == found
    assert str(source.report).splitlines()[0] == "2,000 rows: 1,000 values cleared"
    assert str(alibaba.TableReport(rows=3)) == "3 rows: 0 values cleared"


@pytest.mark.parametrize("form", ["plain", "gzip", "tar"])
def test_memory_follows_the_batch_not_the_file(tmp_path: Path, form: str) -> None:
    lines = b"m_1,10,50,40,1,2.5,3,4,20\n" * 10_000
    path = tmp_path / "machine_usage.csv"

    def peak(times: int) -> int:
        content = {"plain": bytes, "gzip": gzip.compress, "tar": lambda lines: packed(lines, "machine_usage.csv")}[form]
        path.write_bytes(content(lines * times))
        tracemalloc.start()
        try:
            assert sum(len(frame) for frame in alibaba.stream(path, batch_rows=2_000)) == 10_000 * times
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # Polars' own memory is not traced, but that of the bytes handed to it is: 3 MB of them in the larger file
    assert peak(12) < peak(3) + 500_000 < 3_000_000
