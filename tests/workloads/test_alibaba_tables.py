"""Alibaba traces: the schemas, against the published header lines, and which table a file holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from desim.exceptions import InvalidConfiguration
from desim.workloads.alibaba.tables import TABLES, find_table

FILES = Path(__file__).resolve().parents[3] / "shared" / "data" / "alibaba"
PAI = [name for name in TABLES if name.startswith("pai_")]


@pytest.mark.parametrize("name", PAI)
def test_columns_are_those_of_the_header_file(name: str) -> None:
    path = FILES / f"{name}.header"
    if not path.is_file():
        pytest.skip(f"needs {path.name} in the shared data")
    assert path.read_text().strip().split(",") == list(TABLES[name].names)


def test_the_traces() -> None:
    counts = {schema.trace: 0 for schema in TABLES.values()}
    for name, schema in TABLES.items():
        counts[schema.trace] += 1
        assert schema.name == name
        assert schema.header == (schema.trace == "cluster-trace-gpu-v2023")
        assert len(set(schema.names)) == len(schema.names)
        assert any(column.required for column in schema.columns)
    assert counts == {"cluster-trace-v2018": 6, "cluster-trace-gpu-v2020": 7, "cluster-trace-gpu-v2023": 2}
    widths = {name: len(TABLES[name].columns) for name in TABLES if TABLES[name].trace == "cluster-trace-v2018"}
    assert widths == {
        "machine_meta": 7,
        "machine_usage": 9,
        "container_meta": 8,
        "container_usage": 11,
        "batch_task": 9,
        "batch_instance": 14,
    }


def test_only_numbers_have_ranges() -> None:
    for schema in TABLES.values():
        for column in schema.columns:
            assert (column.minimum is None) == (column.maximum is None)
            if column.kind == "string":
                assert (column.unit, column.minimum, column.invalid) == ("", None, ())
            if column.invalid:
                assert (column.minimum, column.maximum, column.invalid) == (0, 100, (-1, 101))
    cleared = [column.name for column in TABLES["batch_instance"].columns if column.invalid]
    assert cleared == ["mem_avg", "mem_max"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("batch_task.csv", "batch_task"),
        ("some/where/batch_task.tar.gz", "batch_task"),
        ("machine_meta.csv.gz", "machine_meta"),
        (Path("machine_usage.tgz"), "machine_usage"),
        ("pai_machine_metric.csv", "pai_machine_metric"),
        ("pai_machine_spec.gz", "pai_machine_spec"),
        ("pai_job_table.tar", "pai_job_table"),
        ("openb_node_list_all_node.csv", "openb_node_list"),
        ("openb_pod_list_gpuspec33.csv", "openb_pod_list"),
        ("openb_pod_list", "openb_pod_list"),
        ("container_meta-1", "container_meta"),
    ],
)
def test_the_file_name_decides(path: str | Path, name: str) -> None:
    assert find_table(path) is TABLES[name]


def test_unknown_tables() -> None:
    for path in ("tasks.csv", "my_batch_task.csv", "batch_tasks.csv", "batch_task/data.csv", ""):
        with pytest.raises(InvalidConfiguration) as caught:
            find_table(path)
        assert str(caught.value) == (
            f"{path}: the file name does not say which table it holds, want table to be one of {', '.join(TABLES)}"
        )
    with pytest.raises(InvalidConfiguration) as caught:
        find_table("batch_task.csv", "batch")
    assert str(caught.value) == f"table is 'batch', want table to be one of {', '.join(TABLES)}"
    assert find_table("tasks.csv", "batch_task") is TABLES["batch_task"]


def test_tables_that_the_caller_cannot_use() -> None:
    among = ("machine_meta", "openb_node_list")
    with pytest.raises(InvalidConfiguration) as caught:
        find_table("batch_task.csv", among=among)
    wanted = "want table to be one of machine_meta, openb_node_list"
    assert str(caught.value) == f"batch_task.csv: holds the table batch_task, {wanted}"
    with pytest.raises(InvalidConfiguration, match=f"^table is 'batch_task', {wanted}$"):
        find_table("machine_meta.csv", "batch_task", among)
