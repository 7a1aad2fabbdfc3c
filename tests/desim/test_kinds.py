"""One descriptor a problem: what is added to it is recorded, checked, measured and found, with no line elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from small_agents import FirstFit, make_jobs

from desim import (
    Column,
    Extension,
    InvalidConfiguration,
    Metric,
    Metrics,
    MissingDependency,
    Problem,
    ProblemDescriptor,
    Result,
    Table,
    simulate,
)
from desim.problem import kind_named, kind_of, kinds
from desim.problems.batch import BatchCluster
from desim.problems.batch.kind import KIND as BATCH
from desim.validation import Check, Rule, rules_of, validate


def measured(result: Result) -> dict[str, float]:
    return BATCH.metrics.measure(result) | {"wide_jobs": float(result.jobs["is_wide"].sum())}


JOBS, *OTHERS = BATCH.tables
WIDE = Column("is_wide", "boolean", "whether it takes half of the cores", formula="requested_number_of_resources >= 2")
LONG = Column("overrun", "float", "run time beyond the request", "s", least=0, formula="run_time - requested_time")
FIFTH = replace(
    BATCH,
    name="fifth",
    tables=(replace(JOBS, columns=(*JOBS.columns, WIDE, LONG)), *OTHERS),
    metrics_from=Metrics((*BATCH.metrics, Metric("wide_jobs", "jobs that take half", "jobs")), measured),
    rules_from=(
        *BATCH.rules,
        Rule("patience", "nobody waits long", (Check("jobs", pl.col("waiting_time") > 60, "job {job_id} waits"),)),
    ),
)


class Fifth(BatchCluster):
    kind = FIFTH

    def tables(self) -> dict[str, Table]:
        return Problem.tables(self)


@pytest.fixture
def result() -> Result:
    return simulate(Fifth(make_jobs((0.0, 1, 100.0), (1.0, 4, 5.0)), num_cores=4), FirstFit())


def test_a_column_a_metric_and_a_rule_are_there_once_they_are_described(result: Result) -> None:
    assert result.jobs["is_wide"].to_list() == [False, True]
    assert result.metrics()["wide_jobs"] == 1.0
    assert [metric.name for metric in kind_of(result).metrics][-1] == "wide_jobs"
    report = validate(result)
    assert report.counts == {"patience": 1}
    assert str(report.violations[0]) == "patience: job 2 waits"
    assert list(report.checks)[-2:] == ["outages", "patience"]


def test_what_a_column_says_becomes_rules(result: Result) -> None:
    def counts(**values: Any) -> dict[str, int]:
        wrong = result.jobs.with_columns(**values).lazy()
        return dict(validate(Result({"jobs": wrong, **others}, result.info, FIFTH)).counts)

    others = {name: result.scan(name) for name in ("interruptions", "outages")}
    assert counts(is_wide=pl.lit(True)) == {"status_fields": 1, "patience": 1}
    assert counts(overrun=pl.lit(1.0)) == {"derived_times": 2, "patience": 1}
    assert counts(overrun=pl.lit(-1.0)) == {"values": 2, "derived_times": 2, "patience": 1}
    assert counts(is_wide=pl.lit("no")) == counts(overrun=pl.lit(None)) == {"columns": 1}


def test_stored_records_lead_to_their_kind(result: Result, tmp_path: Any) -> None:
    stored = Result.load(result.save(tmp_path / "run"))
    assert stored.info["kind"] == f"{__name__}:Fifth.kind"
    assert kind_of(stored) is FIFTH
    assert stored.metrics() == result.metrics()
    assert_frame_equal(stored.jobs, result.jobs)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Return a list of entry points that are installed beside the others."""
    import desim.problem

    points: list[EntryPoint] = []
    known = desim.problem.entry_points
    monkeypatch.setattr(desim.problem, "entry_points", lambda group: [*known(group=group), *points])
    kinds.cache_clear()
    kind_named.cache_clear()
    yield points
    kinds.cache_clear()
    kind_named.cache_clear()


def test_a_fifth_problem_of_a_package_is_found_by_its_name(installed: list[EntryPoint]) -> None:
    installed.append(EntryPoint("fifth", f"{__name__}:FIFTH", "desim.problems"))
    assert list(kinds()) == ["batch", "dag", "deferrable", "fifth", "multiserver"]
    assert kind_of("fifth") is FIFTH
    assert list(rules_of("fifth"))[-1] == "patience"


def test_a_package_adds_to_a_problem(installed: list[EntryPoint], monkeypatch: pytest.MonkeyPatch) -> None:
    more = ModuleType("more")
    more.MORE = Extension(agents=("more",), trainings={"mine": "more:Options"})  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "more", more)
    installed.append(EntryPoint("batch", "more:MORE", "desim.problems"))
    assert kinds()["batch"].agents == (*BATCH.agents, "more")
    assert {"batch", "mine"} <= set(kinds()["batch"].trainings)
    assert kinds()["batch"].rules == BATCH.rules


def test_what_cannot_be_imported_is_named(installed: list[EntryPoint]) -> None:
    installed.append(EntryPoint("other", "no_such_module:KIND", "desim.problems"))
    with pytest.raises(MissingDependency, match="no_such_module"):
        kinds()
    with pytest.raises(MissingDependency, match=r"no\.such:thing cannot be imported"):
        _ = ProblemDescriptor(name="mine", rules_from="no.such:thing").rules


def test_a_problem_that_nobody_has_described_has_a_name_and_no_metrics() -> None:
    class Bare(Problem):
        name = "bare"

    result = simulate(Bare(), FirstFit())
    assert result.table_names == ()
    with pytest.raises(InvalidConfiguration, match="bare"):
        result.metrics()


def test_metrics_of_each_resource_are_described_once() -> None:
    described = Metrics((Metric("used_<resource>", "in use", "cores", "higher"), Metric("used", "all")), dict)
    assert described["used_gpu"].better == "higher"
    assert described["used"].meaning == "all"
    assert described["unknown"] == Metric("unknown", "")


TABLE = Table(
    "things",
    "a thing",
    (
        Column("thing_id", "integer", "which"),
        Column("size_{}", "float", "how much", each="resources", null="unknown"),
        Column("list", "floats", "numbers", null="none"),
        Column("double_{}", "float", "twice", each="resources", null="unknown", formula="2 * size_{}"),
    ),
)


def test_a_table_has_a_column_for_each_thing_of_the_description() -> None:
    table = TABLE.bound({"resources": ["cores", "gpus"]})
    assert table.names == ("thing_id", "size_cores", "size_gpus", "list", "double_cores", "double_gpus")
    frame = table.to_frame([(1, 2.0, None, [1.0, 2.0]), (2, None, 3.0, None)])
    assert frame["double_cores"].to_list() == [4.0, None]
    assert frame["size_gpus"].to_list() == [None, 3.0]
    assert frame["list"].to_list() == [[1.0, 2.0], None]
    assert list(table.faults(frame)) == []
    assert table.to_frame([]).schema == frame.schema
    with pytest.raises(InvalidConfiguration, match="the table things lacks the columns size_disks"):
        table.select(frame, "thing_id", "size_disks")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"thing_id": pl.lit("one")}, "table things, column thing_id: got String, expected integer"),
        ({"thing_id": pl.lit(None, pl.Int64)}, "table things, column thing_id: got 2 nulls, the first in row 0"),
        (
            {"size_gpus": pl.lit(math.inf)},
            "table things, column size_gpus: got inf in row 0, expected a finite number",
        ),
    ],
)
def test_what_is_wrong_with_a_column_is_told(change: dict[str, pl.Expr], message: str) -> None:
    table = TABLE.bound({"resources": ["gpus"]})
    frame = table.to_frame([(1, 2.0, None), (2, None, None)]).with_columns(**change)
    assert message in list(table.faults(frame))
    assert list(table.faults(frame.drop("list"))) == [message, "table things has no column list"]
