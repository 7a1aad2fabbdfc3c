"""Alibaba traces: machines and requests of the three traces in one form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads import alibaba

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

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file."""

    def make(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


def test_machines_of_2018_count_once(write: Write) -> None:
    path = write(
        "machine_meta.csv",
        "m_2,0,1,r1,96,100,USING\nm_1,0,1,r2,64,-1,USING\nm_2,500,1,r1,48,50,IMPORT\nm_3,7,1,r1,,12.5,USING\n",
    )
    found = alibaba.machines(path)
    assert found.schema == MACHINE
    assert found.rows() == [
        ("m_2", "", 96.0, None, 100.0, 0),
        ("m_1", "", 64.0, None, None, 0),
        ("m_3", "", None, None, 12.5, 0),
    ]


def test_machines_of_2020_and_2023(write: Write) -> None:
    of_2020 = alibaba.machines(write("pai_machine_spec.csv", "a,CPU,96,512,0\nb,T4,96,512.5,2\n"))
    assert of_2020.schema == MACHINE
    assert of_2020.rows() == [("a", "", 96, 512, None, 0), ("b", "T4", 96, 512.5, None, 2)]
    text = "sn,cpu_milli,memory_mib,gpu,model\na,1500,512,0,\nb,32000,262144,8,G2\n"
    of_2023 = alibaba.machines(write("nodes.csv", text), "openb_node_list")
    assert of_2023.schema == MACHINE
    assert of_2023.rows() == [("a", "", 1.5, 0.5, None, 0), ("b", "G2", 32, 256, None, 8)]


def test_requests_of_2018(write: Write) -> None:
    path = write(
        "batch_task.csv",
        "M1,10,j_1,1,Terminated,100,160,50.0,0.39\n"
        "R2_1,1,j_1,1,Failed,160,160,100.0,101\n"
        "task_x,2,j_2,12,Running,7,9,,\n"
        "M1,3,j_3,3,Terminated,7,0,100,1\n"
        "M1,3,j_4,3,Waiting,,,100,1\n"
        "M1,,j_5,3,Terminated,,5,100,1\n",
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


def test_requests_of_2020(write: Write) -> None:
    path = write(
        "pai_task_table.csv",
        "a,worker,4,Terminated,1000.5,1900.0,600.0,29.5,50.0,T4\n"
        "a,ps,1,Running,1000,2000,100,4,,CPU\n"
        "b,tensorflow,,,,,,,,\n",
    )
    found = alibaba.requests(path)
    assert found.schema == REQUEST
    assert found.rows() == [
        ("a", "worker", "Terminated", 1_000.5, 899.5, 4, 6.0, 29.5, None, 0.5, "T4"),
        ("a", "ps", "Running", 1_000.0, None, 1, 1.0, 4.0, None, None, ""),
        ("b", "tensorflow", None, None, None, None, None, None, None, None, ""),
    ]


PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def test_requests_of_2023(write: Write) -> None:
    path = write(
        "openb_pod_list_multigpu20.csv",
        PODS + "p1,12000,16384,8,1000,V100M16|V100M32,LS,Running,5,100,20\n"
        "p2,500,512,1,460,,BE,Pending,6,100,\n"
        "p3,500,512,0,0,,BE,Failed,6,,7\n"
        "p4,500,512,0,0,,BE,Failed,6,6,7\n",
    )
    found = alibaba.requests(path)
    assert found.schema == REQUEST
    assert found.rows() == [
        ("p1", "", "Running", 5.0, 80.0, 1, 12.0, 16.0, None, 8.0, "V100M16|V100M32"),
        ("p2", "", "Pending", 6.0, None, 1, 0.5, 0.5, None, 0.46, ""),
        ("p3", "", "Failed", 6.0, None, 1, 0.5, 0.5, None, 0.0, ""),
        ("p4", "", "Failed", 6.0, None, 1, 0.5, 0.5, None, 0.0, ""),
    ]


def test_many_rows_keep_their_order(write: Write) -> None:
    lines = [f"M{row},1,j_{row},1,Terminated,{row},{2 * row},100,1" for row in range(123_456)]
    path = write("batch_task.csv", "\n".join(lines))
    found = alibaba.requests(path)
    assert found["job_id"].to_list() == [f"j_{row}" for row in range(123_456)]
    assert found["duration"].equals(found["arrival_time"].alias("duration"))


def test_tables_of_another_kind(write: Write) -> None:
    path = write("batch_task.csv", "M1,10,j_1,1,Terminated,100,160,50.0,0.39\n")
    three = "want table to be one of machine_meta, pai_machine_spec, openb_node_list"
    with pytest.raises(InvalidConfiguration) as caught:
        alibaba.machines(path)
    assert str(caught.value) == f"{path}: holds the table batch_task, {three}"
    with pytest.raises(InvalidConfiguration, match=f"^table is 'openb_pod_list', {three}$"):
        alibaba.machines(path, "openb_pod_list")
    with pytest.raises(
        InvalidConfiguration, match=r"want table to be one of batch_task, pai_task_table, openb_pod_list$"
    ):
        alibaba.requests(path, "pai_job_table")
    with pytest.raises(InvalidConfiguration, match="the file name does not say which table it holds"):
        alibaba.requests("tasks.csv")


def test_machines_that_appear_twice(write: Write) -> None:
    path = write("pai_machine_spec.csv", "a,CPU,96,512,0\nb,T4,96,512,2\nb,T4,96,512,2\n")
    with pytest.raises(WorkloadError) as caught:
        alibaba.machines(path)
    assert str(caught.value) == f"{path}: machine_id 'b' appears more than once"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("pai_machine_spec", "a,T4,-96,512,2", "machine_id 'a': cpu is -96.0"),
        ("pai_machine_spec", "a,T4,96,-0.5,2", "machine_id 'a': memory is -0.5"),
        ("pai_machine_spec", "a,T4,96,512,-2", "machine_id 'a': gpu is -2"),
        ("machine_meta", "m,0,0,0,-1,50,USING", "machine_id 'm': cpu is -1.0"),
        ("machine_meta", "m,0,0,0,1,-50,USING", "machine_id 'm': memory_percent is -50.0"),
        ("batch_task", "M1,-2,j_1,1,Terminated,1,2,50,0.39", "job_id 'j_1': instances is -2"),
        ("batch_task", "M1,2,j_1,1,Terminated,1,2,-50,0.39", "job_id 'j_1': cpu is -0.5"),
        ("batch_task", "M1,2,j_1,1,Terminated,1,2,50,-0.5", "job_id 'j_1': memory_percent is -0.5"),
        ("pai_task_table", "j,t,4,Terminated,1,2,600,-2,50,T4", "job_id 'j': memory is -2.0"),
        ("openb_pod_list", PODS + "p,12000,1,1,-500,,LS,Running,5,100,20", "job_id 'p': gpu is -0.5"),
    ],
)
def test_negative_amounts(write: Write, name: str, text: str, message: str) -> None:
    path = write(f"{name}.csv", text)
    use = alibaba.requests if "task" in name or "pod" in name else alibaba.machines
    with pytest.raises(WorkloadError) as caught:
        use(path)
    assert str(caught.value) == f"{path}: {message}, want at least 0"
