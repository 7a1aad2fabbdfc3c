"""Alibaba traces: the published files that are at hand, against the figures stated for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from desim.workloads import alibaba

FILES = Path(__file__).resolve().parents[3] / "shared" / "data" / "alibaba"

Published = Callable[[str], Path]


@pytest.fixture(scope="module")
def published() -> Published:
    """Return a function from the name of a file to its path, which skips the test if it is absent."""

    def find(name: str) -> Path:
        path = FILES / name
        if not path.is_file():
            pytest.skip(f"needs {name} in the shared data")
        return path

    return find


def counts(column: pl.Series) -> dict[object, int]:
    return dict(Counter(column.to_list()))


def test_nodes_of_2023(published: Published) -> None:
    found = alibaba.machines(published("openb_node_list_all_node.csv"))
    assert (len(found), found["gpu"].sum(), found["cpu"].sum()) == (1_523, 6_212, 125_514)
    assert round(found["memory"].sum() / 1024, 2) == 583.68
    gpus = dict(found.filter(pl.col("gpu") > 0).group_by("model").agg(pl.col("gpu").sum()).iter_rows())
    assert gpus == {"G2": 4_392, "T4": 842, "G3": 312, "P100": 265, "V100M32": 204, "V100M16": 195, "A10": 2}
    assert found.filter(pl.col("model") == "")["gpu"].unique().to_list() == [0]
    assert found.row(0) == ("openb-node-0000", "", 32.0, 256.0, None, 0)


def test_gpu_nodes_of_2023(published: Published) -> None:
    found = alibaba.machines(published("openb_node_list_gpu_node.csv"))
    assert (len(found), found["gpu"].sum(), found["cpu"].sum()) == (1_213, 6_212, 107_018)
    assert round(found["memory"].sum() / 1024, 2) == 480.49


def test_pods_of_2023(published: Published) -> None:
    pods = alibaba.read(published("openb_pod_list_default.csv"))
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


def test_requests_of_2023(published: Published) -> None:
    path = published("openb_pod_list_default.csv")
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
    assert found.row(1) == (
        *("openb-pod-0001", "", "Running", 427_061.0, duration),
        *(1, 6.0, 12.0, None, 0.46, ""),
    )


def test_machines_of_2020(published: Published) -> None:
    found = alibaba.machines(published("pai_machine_spec.csv"))
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
def test_every_field_of_a_published_file_is_kept(published: Published, name: str) -> None:
    path = published(name)
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
