"""``desim convert``."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from command_line import Desim

from desim import Result
from desim.workloads.batch import registry


def test_workloads_survive_all_formats(desim: Desim, log: Path, tmp_path: Path) -> None:
    names = ["one.json", "two.parquet", "three.swf.gz", "four.json.gz", "five.swf"]
    for source, target in pairwise([log, *(tmp_path / name for name in names)]):
        outcome = desim("convert", source, target)
        assert outcome.status == 0
        assert outcome.out == f"written: {target}, 5 jobs\n"
        assert registry.read(target).jobs == registry.read(log).jobs
        assert registry.read(target).num_cores == 8


def test_headers_of_logs_are_kept(desim: Desim, log: Path, tmp_path: Path) -> None:
    log.write_text("; Computer: an old one\n" + log.read_text())
    assert desim("convert", log, tmp_path / "copy.swf").status == 0
    assert "; Computer: an old one\n" in (tmp_path / "copy.swf").read_text()


def test_cores_may_be_given_and_must_be_for_batsim(desim: Desim, log: Path, tmp_path: Path) -> None:
    nameless = tmp_path / "nameless.swf"
    nameless.write_text(log.read_text().replace("; MaxProcs: 8\n", ""))
    outcome = desim("convert", nameless, tmp_path / "a.json")
    assert outcome.status == 2
    assert "states the cores" in outcome.err
    assert desim("convert", nameless, tmp_path / "a.json", "--cores", "16").status == 0
    assert registry.read(tmp_path / "a.json").num_cores == 16
    assert "does not state the machine's number of cores" in desim("convert", nameless, tmp_path / "a.parquet").err
    assert desim("convert", log, tmp_path / "b.swf", "--cores", "16").status == 0
    assert registry.read(tmp_path / "b.swf").num_cores == 16


def test_what_a_format_does_not_hold_is_told(desim: Desim, tmp_path: Path) -> None:
    corpus = Path(__file__).parent.parent / "corpus"
    for source, target, told in (
        ("sacct.csv", "a.csv", "a.csv omits it, too"),
        ("links.swf", "a.json", "does not hold: queue"),
        ("double_edge.dax", "a.stg", "does not hold: names of nodes, sizes of data"),
        ("taillard.jsp", "a.jsp", ""),
    ):
        outcome = desim("convert", corpus / source, tmp_path / target, *(["--to", "sacct"] * (target == "a.csv")))
        assert outcome.status == 0
        assert told in outcome.err
        assert outcome.err.count("\n") == (1 if told else 0)
    assert (tmp_path / "a.csv").read_text().endswith("2024-10-27T00:30:10|01:00:00|01:00:00|4\n")


def test_repairs_of_a_conversion_are_told(desim: Desim, broken_log: Path, tmp_path: Path) -> None:
    outcome = desim("convert", broken_log, tmp_path / "a.json")
    assert "1 row dropped" in outcome.out
    assert "6 jobs" in outcome.out


def test_results_become_csv(desim: Desim, stored: Path, tmp_path: Path) -> None:
    assert desim("convert", stored, tmp_path / "jobs.csv").status == 0
    table = Result.load(stored).jobs
    again = pl.read_csv(tmp_path / "jobs.csv", schema_overrides=dict(table.schema))
    assert again.equals(table)
    assert desim("convert", stored, tmp_path / "batsim.csv", "--to", "batsim-csv").status == 0
    assert (tmp_path / "batsim.csv").read_text().startswith("job_id,workload_name,profile,submission_time,")


def test_results_become_traces(desim: Desim, stored: Path, tmp_path: Path) -> None:
    assert desim("convert", stored, tmp_path / "trace.json", "--to", "chrome-trace").status == 0
    document = json.loads((tmp_path / "trace.json").read_text())
    assert {event["name"] for event in document["traceEvents"] if event["ph"] == "X"} == {
        f"job {number}" for number in (1, 2, 3, 4, 9)
    }


@pytest.mark.parametrize(
    ("source", "target", "more", "message"),
    [
        ("absent.swf", "a.json", [], "cannot be read"),
        ("tiny.swf", "a.txt", [], "unknown workload format"),
        ("tiny.swf", "a.csv", ["--to", "csv"], "is for results"),
        ("tiny.swf", "tiny.swf", [], "exists"),
        ("tiny.swf", ".", [], "got a directory, expected a file"),
        ("tiny.swf", "absent/a.swf", [], "cannot be written"),
        ("tiny.swf", "a.swf.xz", [], "only .gz is compressed"),
        ("tiny.swf", "a.csv", ["--to", "taillard"], "is for job shops"),
        ("tiny.swf", "a.swf", ["--to", "sacct"], "a .csv file"),
        ("tiny.swf", "a.stg", [], "unknown workload format"),
        ("graph.stg", "a.csv", ["--to", "sacct"], "is for jobs"),
        ("graph.stg", "a.json", ["--cores", "4"], "--cores is for jobs"),
        ("graph.stg", "a.jsp", [], "expected executors, which this format states"),
        ("stored", "a.csv", ["--to", "sacct"], "is for workloads"),
        ("stored", "a.swf", [], "a .csv file"),
        ("stored", "a.csv", ["--to", "chrome-trace"], "a .json file"),
        ("stored", "a.csv", ["--cores", "4"], "--cores is for workloads"),
        ("stored", "absent/a.csv", [], "cannot write"),
        (".", "a.csv", [], "no result in"),
    ],
)
def test_unusable_arguments_of_convert(
    desim: Desim, tmp_path: Path, stored: Path, source: str, target: str, more: list[str], message: str
) -> None:
    (tmp_path / "graph.stg").write_text("1\n0 5 0\n")
    before = sorted(tmp_path.rglob("*"))
    outcome = desim("convert", tmp_path / source, tmp_path / target, *more)
    assert outcome.status == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_files_are_replaced_only_by_force(desim: Desim, stored: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    target.write_text("mine")
    assert desim("convert", stored, target).status == 2
    assert target.read_text() == "mine"
    assert desim("convert", stored, target, "--force").status == 0
    assert target.read_text() != "mine"
