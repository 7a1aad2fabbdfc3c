"""Files from outside: every packing and encoding reads alike, and no file fills the memory or is followed for ever."""

from __future__ import annotations

import ast
import bz2
import gzip
import json
import lzma
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import desim
from desim import WorkloadError
from desim.exceptions import InvalidConfiguration
from desim.reading import bytes_of, limits, parse_yaml, read_json, read_text
from desim.workloads import batsim, dax, job_table, swf, wfformat
from desim.workloads.batch import node_file

Put = Callable[..., Path]
ROW = "1 0 -1 10 2 -1 -1 2 10 -1 1 1 1 -1 1 -1 -1 -1"
LOG = f"; MaxProcs: 4\n{ROW}\n{ROW.replace('1 0', '2 5', 1)}\n".encode()
TABLE = b"submission_time,cores,run_time\n0,1,5\n1,2,6\n"


def zstd(content: bytes) -> bytes:
    """Return packed bytes, or skip."""
    module = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    packed: bytes = module.compress(content)
    return packed


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress, zstd])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_packings_line_ends_and_byte_order_marks(
    put: Put, pack: Callable[[bytes], bytes], end: bytes, mark: bytes
) -> None:
    trace = swf.read(put(pack(mark + LOG.replace(b"\n", end)), "log.swf"))
    assert (trace.jobs["submission_time"].tolist(), trace.place.tolist(), trace.num_cores) == ([0, 5], [2, 3], 4)
    table = job_table.read(put(pack(mark + TABLE.replace(b"\n", end)), "log.csv"))
    assert (table.jobs["run_time"].tolist(), table.place.tolist()) == ([5, 6], [2, 3])


def test_utf_16(put: Put) -> None:
    assert len(job_table.read(put(TABLE.decode().encode("utf-16"), "log.csv")).jobs) == 2
    with pytest.raises(WorkloadError, match=r"line 1, column 7: byte 0x78 is not UTF-16 text"):
        read_text(put(b"\xff\xfea\0b\0x"))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstd])
def test_damage(put: Put, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(LOG * 100)
    turned = [packed[:20] + b"\xff\0\xff\0" + packed[24:]] if pack is not zstd else []  # which has no checksum here
    for wrong in (packed[:-9], *turned):
        with pytest.raises(WorkloadError, match=r"file: corrupt (gzip|bzip2|xz|Zstandard) data: "):
            swf.read(put(wrong))


@pytest.mark.parametrize(("content", "message"), [(b"PK\3\4", "is a zip archive"), (b"7z\xbc\xaf\x27\x1c", "a 7z arc")])
def test_archives(put: Put, content: bytes, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        swf.read(put(content))


def test_depth(put: Put) -> None:
    """Brackets in texts do not count, and the place of the bracket too many is told."""
    text = json.dumps({"a": '\\"[' * 200, "b": 1}) + "\n"
    assert read_json(put(text))["b"] == 1
    deep = '{\n"x": "[[", "y": ' + "[" * 99 + "]" * 99 + "}"
    read_json(put(deep))
    with pytest.raises(WorkloadError, match=r"file: line 2, column 116: nested too deeply, expected at most 100"):
        read_json(put(deep.replace("[]", "[[]]")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 20_000, "is not a YAML file: line 1, column 101: nested deeper than 100 levels"),
        ("- " * 5_000, "is not a YAML file: line 1, column 201: nested deeper than 100 levels"),
        ("- &a x\n- *a", "is not a YAML file: line 2, column 3: got an alias, expected none"),
        ("- cores: 2001-99-99", "is not a YAML file: line 1, column 10: got '2001-99-99': month must be in 1..12"),
        (f"- cores: {'9' * 5_000}", "is not a YAML file: line 1, column 10: got '9999"),
        ("- {[]: 1}", "is not a YAML file: line 1, column 4: found unhashable key"),
        ("- \0", "special characters are not allowed"),
        ("- !!python/object:os.system x", "could not determine a constructor for the tag"),
    ],
)
def test_yaml(text: str, message: str) -> None:
    with pytest.raises(WorkloadError) as error:
        parse_yaml("w.yaml", text)
    assert str(error.value).startswith("w.yaml: ") and message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("value", ["9" * 400, "99999999999999999999999999 TiB", -1, True, "\uff11", "x", float("nan")])
def test_no_bytes(value: object) -> None:
    with pytest.raises(InvalidConfiguration, match="memory: got"):
        bytes_of("memory", value)


READERS = {
    ".swf": swf.read, ".json": batsim.read, ".csv": job_table.read, ".parquet": job_table.read, ".dax": dax.read,
    ".yaml": node_file.read, ".wf.json": wfformat.read,
}  # fmt: skip


def bomb(name: str, path: Path) -> Path:
    """Return a file that takes far more than it seems to."""
    if name == "rows":
        path = path.with_suffix(".parquet")
        rows = pl.select(pl.repeat(1, 5_000_000).alias("x")).select(
            submission_time="x", cores="x", run_time=pl.col("x").cast(pl.Float64)
        )
        rows.write_parquet(path)
    elif name == "zero":
        path.symlink_to("/dev/zero")
    elif name == "pipe":
        os.mkfifo(path)
    else:
        packers = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
        with packers[name](path, "wb", *(() if name == "xz" else (1,))) as file:
            for _ in range(24):
                file.write(b"\n" * (1 << 20))
    return path


@pytest.mark.parametrize("name", ["gzip", "bzip2", "xz", "rows", "zero", "pipe"])
def test_bombs(tmp_path: Path, name: str) -> None:
    """Each reader refuses what unpacks without end, is a device, or has rows without end; none takes much memory."""
    path = bomb(name, tmp_path / "bomb")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for suffix, read in READERS.items():
        if (suffix == ".parquet") or name != "rows":
            with pytest.raises(WorkloadError, match=r"unpacks to more than 200|rows in|is a device or a pipe"):
                read(named(path, suffix))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def named(path: Path, suffix: str) -> Path:
    """Return a link with another suffix."""
    link = path.with_name(f"link{suffix}")
    link.symlink_to(path)
    return link


def test_an_option_raises_the_limits(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    with gzip.open(path, "wb") as file:
        file.write(LOG + (b" " * 1023 + b"\n") * (20 << 10))
    with pytest.raises(WorkloadError, match="try --max-size, or"):
        swf.read(path)
    with limits(1 << 30):
        opened = swf.stream(path)
    assert len(list(opened)) == 2, "a stream keeps the limits under which it was opened"
    with limits(30), pytest.raises(WorkloadError, match="is larger than 30 bytes"):
        job_table.read(_written(tmp_path / "w.csv", TABLE))


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_no_reader_opens_a_file_itself() -> None:
    """One module opens what comes from outside; others write, or are given what has been opened."""
    folder = Path(desim.__file__).parent / "workloads"
    opening = {
        "open",
        "open_code",
        "read_text",
        "read_bytes",
        "read_csv",
        "read_parquet",
        "load",
        "GzipFile",
        "safe_load",
    }
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and (name := ast.unparse(node.func)).split(".")[-1] in opening:
                found.add((str(path.relative_to(folder)), name))
    ours = {"read_text", "read_bytes", "read_parquet", "reading.read_text"}
    given = {("files.py", "draft.open"), ("files.py", "gzip.GzipFile")}  # to write
    given |= {("alibaba/reading.py", "tarfile.open"), ("alibaba/reading.py", "pl.read_csv")}
    assert {(path, name) for path, name in found if name not in ours} == given
