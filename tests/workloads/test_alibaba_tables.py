"""Alibaba traces: schemas, published files against the figures stated for them, machines and requests in one form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from workload_files import data

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads import alibaba
from desim.workloads.alibaba.tables import TABLES, find_table

PAI = [name for name in TABLES if name.startswith("pai_")]


@pytest.mark.parametrize("name", PAI)
def test_columns_are_those_of_the_header_file(name: str) -> None:
    path = data(f"alibaba/{name}.header")
    assert path.read_text().strip().split(",") == list(TABLES[name].names)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("batch_task.csv", "batch_task"),
        ("some/where/batch_task.tar.gz", "batch_task"),
        (Path("machine_usage.tgz"), "machine_usage"),
        ("openb_node_list_all_node.csv", "openb_node_list"),
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
            f"{path}: the file name does not begin with that of a table, "
            f"expected table to be one of {', '.join(TABLES)}"
        )
    with pytest.raises(InvalidConfiguration) as caught:
        find_table("batch_task.csv", "batch")
    assert str(caught.value) == f"table: got 'batch', expected table to be one of {', '.join(TABLES)}"
    assert find_table("tasks.csv", "batch_task") is TABLES["batch_task"]


def counts(column: pl.Series) -> dict[object, int]:
    return dict(Counter(column.to_list()))


def test_nodes_of_2023() -> None:
    found = alibaba.machines(data("alibaba/openb_node_list_all_node.csv"))
    assert (len(found), found["gpu"].sum(), found["cpu"].sum()) == (1_523, 6_212, 125_514)
    assert round(found["memory"].sum() / 1024, 2) == 583.68
    gpus = dict(found.filter(pl.col("gpu") > 0).group_by("model").agg(pl.col("gpu").sum()).iter_rows())
    assert gpus == {"G2": 4_392, "T4": 842, "G3": 312, "P100": 265, "V100M32": 204, "V100M16": 195, "A10": 2}
    assert found.filter(pl.col("model") == "")["gpu"].unique().to_list() == [0]
    assert found.row(0) == ("openb-node-0000", "", 32.0, 256.0, None, 0)


def test_pods_of_2023() -> None:
    pods = alibaba.read(data("alibaba/openb_pod_list_default.csv"))
    assert len(pods) == 8_152
    assert counts(pods["num_gpu"]) == {0: 1_088, 1: 6_989, 2: 16, 4: 15, 8: 44}
    assert counts(pods["qos"]) == {"LS": 4_647, "BE": 3_398, "Burstable": 100, "Guaranteed": 7}
    assert counts(pods["pod_phase"]) == {"Running": 5_193, "Failed": 1_870, "Pending": 897, "Succeeded": 192}
    assert len(pods.filter(pl.col("num_gpu") == 1, pl.col("gpu_milli") < 1000)) == 3_078
    assert (pods["gpu_spec"].null_count(), pods["scheduled_time"].null_count()) == (8_152, 897)
    lifetime = pods["deletion_time"] - pods["creation_time"]
    assert (lifetime.median(), round(lifetime.mean()), lifetime.max()) == (540, 25_839, 12_537_496)
    assert lifetime.quantile(0.9, "nearest") == pytest.approx(6_574, abs=1)
    assert (pods["deletion_time"].min(), pods["deletion_time"].max()) == (9_964_972, 12_902_960)


def test_published_requests_of_2023() -> None:
    path = data("alibaba/openb_pod_list_default.csv")
    found = alibaba.requests(path)
    assert round(found["gpu"].sum(), 1) == 6_086.8
    assert round(found["cpu"].sum(), 1) == 85_436.0
    assert round(found["memory"].sum() / 1024, 1) == 289.5
    arrival = found["arrival_time"]
    assert (arrival.is_sorted(), arrival.min(), arrival.max()) == (True, 0, 12_901_761)
    assert counts(found["instances"]) == {1: 8_152}
    assert found.filter(pl.col("duration").is_null())["status"].unique().to_list() == ["Pending"]
    assert found["duration"].null_count() == 897
    # The line of openb-pod-0001: 6000,12288,1,460,,LS,Running,427061,12902960,427061
    duration = 12_902_960.0 - 427_061.0
    assert found.row(1) == (*("openb-pod-0001", "", "Running", 427_061.0, duration), *(1, 6.0, 12.0, None, 0.46, ""))


def test_machines_of_2020() -> None:
    found = alibaba.machines(data("alibaba/pai_machine_spec.csv"))
    assert (len(found), found["gpu"].sum()) == (1_897, 6_742)
    assert (found["cpu"].sum(), found["memory"].sum()) == (156_576, 948_224)
    kinds = Counter(found.select("model", "cpu", "memory", "gpu").iter_rows())
    assert kinds == {
        ("P100", 64, 512, 2): 798,
        ("T4", 96, 512, 2): 497,
        ("MISC", 96, 512, 8): 280,
        ("V100M32", 96, 384, 8): 135,
        ("", 96, 512, 0): 83,
        ("V100", 96, 512, 8): 59,
        ("V100", 96, 384, 8): 45,
    }


@pytest.mark.parametrize(
    "name",
    [
        "openb_node_list_all_node.csv",
        "openb_node_list_gpu_node.csv",
        "openb_pod_list_default.csv",
        "pai_machine_spec.csv",
    ],
)
def test_every_field_of_a_published_file_is_kept(name: str) -> None:
    path = data(f"alibaba/{name}")
    source = alibaba.stream(path, batch_rows=500)
    frames = list(source)
    assert max(map(len, frames)) == 500
    schema = source.schema
    lines = path.read_text().splitlines()[1 if schema.header else 0 :]
    written = [
        ",".join("" if value is None else str(value).removesuffix(".0") for value in row)
        for row in pl.concat(frames).iter_rows()
    ]
    assert written == lines
    assert pl.concat(frames).equals(alibaba.read(path))
    assert (source.report.rows, source.report.counts) == (len(lines), {})


MACHINE = {
    "machine_id": pl.String,
    "model": pl.String,
    "cpu": pl.Float64,
    "memory": pl.Float64,
    "memory_percent": pl.Float64,
    "gpu": pl.Int64,
}
REQUEST = {
    "job_id": pl.String,
    "task_name": pl.String,
    "status": pl.String,
    "arrival_time": pl.Float64,
    "duration": pl.Float64,
    "instances": pl.Int64,
    "cpu": pl.Float64,
    "memory": pl.Float64,
    "memory_percent": pl.Float64,
    "gpu": pl.Float64,
    "gpu_model": pl.String,
}

Put = Callable[..., Path]


def test_machines_of_2018_count_once(put: Put) -> None:
    path = put(
        "m_2,0,1,r1,96,100,USING\nm_1,0,1,r2,64,-1,USING\nm_2,500,1,r1,48,50,IMPORT\nm_3,7,1,r1,,12.5,USING\n",
        "machine_meta.csv",
    )
    found = alibaba.machines(path)
    assert found.schema == MACHINE
    assert found.rows() == [
        ("m_2", "", 96.0, None, 100.0, 0),
        ("m_1", "", 64.0, None, None, 0),
        ("m_3", "", None, None, 12.5, 0),
    ]


def test_machines_of_2020_and_2023(put: Put) -> None:
    of_2020 = alibaba.machines(put("a,CPU,96,512,0\nb,T4,96,512.5,2\n", "pai_machine_spec.csv"))
    assert of_2020.schema == MACHINE
    assert of_2020.rows() == [("a", "", 96, 512, None, 0), ("b", "T4", 96, 512.5, None, 2)]
    text = "sn,cpu_milli,memory_mib,gpu,model\na,1500,512,0,\nb,32000,262144,8,G2\n"
    of_2023 = alibaba.machines(put(text, "nodes.csv"), "openb_node_list")
    assert of_2023.schema == MACHINE
    assert of_2023.rows() == [("a", "", 1.5, 0.5, None, 0), ("b", "G2", 32, 256, None, 8)]


def test_requests_of_2018(put: Put) -> None:
    path = put(
        "M1,10,j_1,1,Terminated,100,160,50.0,0.39\n"
        "R2_1,1,j_1,1,Failed,160,160,100.0,101\n"
        "task_x,2,j_2,12,Running,7,9,,\n"
        "M1,3,j_3,3,Terminated,7,0,100,1\n"
        "M1,3,j_4,3,Waiting,,,100,1\n"
        "M1,,j_5,3,Terminated,,5,100,1\n",
        "batch_task.csv",
    )
    found = alibaba.requests(path)
    assert found.schema == REQUEST
    assert found.rows() == [
        ("j_1", "M1", "Terminated", 100.0, 60.0, 10, 0.5, None, 0.39, 0.0, ""),
        ("j_1", "R2_1", "Failed", 160.0, 0.0, 1, 1.0, None, None, 0.0, ""),
        ("j_2", "task_x", "Running", 7.0, None, 2, None, None, None, 0.0, ""),
        ("j_3", "M1", "Terminated", 7.0, None, 3, 1.0, None, 1.0, 0.0, ""),
        ("j_4", "M1", "Waiting", None, None, 3, 1.0, None, 1.0, 0.0, ""),
        ("j_5", "M1", "Terminated", None, None, None, 1.0, None, 1.0, 0.0, ""),
    ]


def test_requests_of_2020(put: Put) -> None:
    path = put(
        "a,worker,4,Terminated,1000.5,1900.0,600.0,29.5,50.0,T4\n"
        "a,ps,1,Running,1000,2000,100,4,,CPU\n"
        "b,tensorflow,,,,,,,,\n",
        "pai_task_table.csv",
    )
    found = alibaba.requests(path)
    assert found.schema == REQUEST
    assert found.rows() == [
        ("a", "worker", "Terminated", 1_000.5, 899.5, 4, 6.0, 29.5, None, 0.5, "T4"),
        ("a", "ps", "Running", 1_000.0, None, 1, 1.0, 4.0, None, None, ""),
        ("b", "tensorflow", None, None, None, None, None, None, None, None, ""),
    ]


PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def test_requests_of_2023(put: Put) -> None:
    path = put(
        PODS + "p1,12000,16384,8,1000,V100M16|V100M32,LS,Running,5,100,20\n"
        "p2,500,512,1,460,,BE,Pending,6,100,\n"
        "p3,500,512,0,0,,BE,Failed,6,,7\n"
        "p4,500,512,0,0,,BE,Failed,6,6,7\n",
        "openb_pod_list_multigpu20.csv",
    )
    found = alibaba.requests(path)
    assert found.schema == REQUEST
    assert found.rows() == [
        ("p1", "", "Running", 5.0, 80.0, 1, 12.0, 16.0, None, 8.0, "V100M16|V100M32"),
        ("p2", "", "Pending", 6.0, None, 1, 0.5, 0.5, None, 0.46, ""),
        ("p3", "", "Failed", 6.0, None, 1, 0.5, 0.5, None, 0.0, ""),
        ("p4", "", "Failed", 6.0, None, 1, 0.5, 0.5, None, 0.0, ""),
    ]


def test_tables_of_another_kind(put: Put) -> None:
    path = put("M1,10,j_1,1,Terminated,100,160,50.0,0.39\n", "batch_task.csv")
    three = "expected table to be one of machine_meta, pai_machine_spec, openb_node_list"
    with pytest.raises(InvalidConfiguration) as caught:
        alibaba.machines(path)
    assert str(caught.value) == f"{path}: got the table batch_task, {three}"
    with pytest.raises(InvalidConfiguration, match=f"^table: got 'openb_pod_list', {three}$"):
        alibaba.machines(path, "openb_pod_list")
    with pytest.raises(
        InvalidConfiguration, match=r"expected table to be one of batch_task, pai_task_table, openb_pod_list$"
    ):
        alibaba.requests(path, "pai_job_table")
    with pytest.raises(InvalidConfiguration, match="the file name does not begin with that of a table"):
        alibaba.requests("tasks.csv")


def test_machines_that_appear_twice(put: Put) -> None:
    path = put("a,CPU,96,512,0\nb,T4,96,512,2\nb,T4,96,512,2\n", "pai_machine_spec.csv")
    with pytest.raises(WorkloadError) as caught:
        alibaba.machines(path)
    assert str(caught.value) == f"{path}: machine_id: got 'b' more than once"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("pai_machine_spec", "a,T4,-96,512,2", "machine_id 'a': cpu: got -96.0"),
        ("machine_meta", "m,0,0,0,-1,50,USING", "machine_id 'm': cpu: got -1.0"),
        ("batch_task", "M1,2,j_1,1,Terminated,1,2,50,-0.5", "job_id 'j_1': memory_percent: got -0.5"),
        ("openb_pod_list", PODS + "p,12000,1,1,-500,,LS,Running,5,100,20", "job_id 'p': gpu: got -0.5"),
    ],
)
def test_negative_amounts(put: Put, name: str, text: str, message: str) -> None:
    path = put(text, f"{name}.csv")
    use = alibaba.requests if "task" in name or "pod" in name else alibaba.machines
    with pytest.raises(WorkloadError) as caught:
        use(path)
    assert str(caught.value) == f"{path}: {message}, expected >= 0"
