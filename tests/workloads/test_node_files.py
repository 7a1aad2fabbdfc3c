"""Nodes of YAML and CSV files and from counts, and what the columns of a job table request of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from workload_files import refusal

from desim import simulate
from desim.agents.batch import create
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, Job, Node, Request
from desim.validation import validate
from desim.workloads.batch import job_table, node_file, registry

Put = Callable[..., Path]

YAML = """
- {name: fat, count: 2, cores: 16, memory: 256 GiB, partition: big}
- name: v
  cores: 8
  memory: 65536
  gpus: 4
  gpu_model: V100
  partition: gpu
  features: [fast, new]
  resources: {licenses: 2}
"""
CSV = """name, count, cores, memory, gpus, gpu_model, partition, features, resource:licenses
fat,2,16,256 GiB,,,big,,
v,,8,64K,4,V100,gpu,fast new,2
"""
NODES = [
    *Node.several(2, 16, name="fat", memory=256 << 30, partition="big"),
    Node("v", 8, 65_536, 4, "V100", {"licenses": 2}, "gpu", frozenset({"fast", "new"})),
]
JOBS = """job_id,submission_time,run_time,tasks,cores,memory,gpus,model,partition,features,queue,user,resource:licenses
1,0,100,2,3,16K,1,V100,gpu,fast|new,long,3,1
2,5,60,1,16,100G,,,big,,short,4,
3,6,50,1,1,1K,0.25,V100,,,,3,
"""
REQUESTS = [
    Request(2, 3, 16 << 10, 1, ("V100",), (("licenses", 1),), "gpu", ("fast", "new")),
    Request(1, 16, 100 << 30, partition="big"),
    Request(1, 1, 1024, 0.25, ("V100",)),
]


def test_every_format_says_the_same(put: Put) -> None:
    assert node_file.read(put(YAML, "nodes.yaml")) == NODES
    assert node_file.read(put("nodes:" + YAML, "named.yml")) == NODES
    csv = node_file.read(put(CSV, "nodes.csv"))
    assert [node.resources for node in csv] == [{}, {}, {"licenses": 2}]
    assert csv == NODES
    assert node_file.read_or_count("2x16,1x8") == [Node("n0", 16), Node("n1", 16), Node("n2", 8)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "- {cores: 4, gpu_modell: V100}", "node 1: unknown resource 'gpu_modell', did you mean gpu_model?"),
        ("a.yaml", "- {cores: 4, tokens: 3}", "written as resources: {tokens: AMOUNT}"),
        ("a.yaml", "- {cores: 4}\n- {memory: 3}", "node 2: cores: got nothing"),
        ("a.yaml", "- {cores: 4, memory: -3}", "node 1: memory: got -3, expected bytes >= 0"),
        ("a.yaml", "- {cores: 2.5}", "node 1: cores: got 2.5, expected an integer"),
        ("a.yaml", "- {cores: 0}", "node 1: node 'n0': cores: got 0, expected an integer >= 1"),
        ("a.yaml", "- {cores: 4, features: fast}", "node 1: expected a list as features"),
        ("a.yaml", "- 4", "node 1: got 4, expected names and values"),
        ("a.yaml", "cores: 4", "expected a list of nodes, or one under 'nodes'"),
        ("a.yaml", "[", "is not a YAML file"),
        ("a.yaml", "[]", "nodes: got none, expected at least one"),
        ("a.yaml", "- {name: a, cores: 4}\n- {name: a, cores: 4}", "the name 'a' occurs twice"),
        ("a.csv", "name,cores,licenses\na,4,2\n", "line 1: unknown column 'licenses', expected one of"),
        ("a.csv", "name,cores\na,4\nb,x\n", "line 3: cores: got 'x', expected an integer"),
        ("a.csv", "name,cores\na,4,3\n", "line 2: expected 2 cells"),
        ("missing.csv", "", "cannot be read"),
    ],
)
def test_a_file_that_makes_no_sense(put: Put, name: str, text: str, message: str) -> None:
    path = put(text, name) if text else Path(name)
    told = refusal(lambda: node_file.read(path))
    assert told.startswith(f"{path}:")
    assert message in told


def test_counts_that_make_no_sense() -> None:
    for text in ("16", "2x", "x4", "2x4;1x8", "", "0x4", "0x0", "2x0", "2x8,0x4"):
        with pytest.raises(InvalidConfiguration, match="expected a file, or counts >= 1 such as 16x64"):
            node_file.read_or_count(text)


def test_columns_become_requests(put: Put) -> None:
    path = put(JOBS, "jobs.csv")
    trace = job_table.read(path, requests=True)
    assert [job.request for job in trace.jobs] == REQUESTS
    assert [job[:6] for job in trace.jobs] == [(1, 0, 6, 100, 100, 3), (2, 5, 16, 60, 60, 4), (3, 6, 1, 50, 50, 3)]
    assert [job.queue for job in trace.jobs] == ["long", "short", ""]
    assert trace.report.headline() == "3 rows: 3 jobs, 0 dropped"
    assert "columns not read: tasks, memory" in job_table.read(path).report.headline()
    for frame in (pl.read_csv(path), pd.read_csv(path)):
        again = job_table.jobs_from(frame, requests=True)
        assert again.jobs == trace.jobs


def test_cores_of_all_tasks_and_names_of_ones_own() -> None:
    table = {"t": [0, 1], "n": [6, 8], "r": [10, 10], "k": [2, 1], "m": ["1K", 7]}
    names = {"submission_time": "t", "requested_cores": "n", "run_time": "r", "tasks": "k", "memory": "m"}
    jobs = job_table.jobs_from(table, columns=names, requests=True).jobs
    assert [job.request for job in jobs if isinstance(job, Job)] == [Request(2, 3, 1024), Request(1, 8, 7)]
    odd = table | {"k": [4, 1]}
    told = refusal(lambda: job_table.jobs_from(odd, columns=names, requests=True))
    assert told == "table: row 0: cores: got 6 for all tasks, expected a multiple of the 4 tasks"


def test_dropped_rows_and_order_keep_requests_with_their_jobs() -> None:
    table = {"submission_time": [9, 5, -1, 7], "cores": [1, 2, 3, 4], "run_time": [1, 1, 1, 1], "memory": [1, 2, 3, 4]}
    jobs = job_table.jobs_from(table, requests=True).jobs
    found = [(job.requested_cores, job.request.memory) for job in jobs if isinstance(job, Job)]
    assert found == [(2, 2), (4, 4), (1, 1)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.25", "1.5", "line 4: gpus: got 1.5, expected an integer or less than 1"),
        ("0.25", "x", "line 4: gpus: got 'x', expected a number"),
        ("100G", "-5", "line 3: memory: got '-5', expected bytes >= 0"),
        ("100,2", "100,2.5", "line 2: tasks: got '2.5', expected an integer >= 0"),
        ("100,2", "100,0", "line 2: tasks: got 0, expected an integer >= 1"),
        (
            ",big",
            ",huge",
            "line 3: job 2: partition: got 'huge', expected one of: big, gpu; add such nodes, or remove the job",
        ),
        (
            "0.25,V100",
            "0.25,K80",
            "line 4: job 3: gpu_models: got K80, expected some of: V100",
        ),
        (
            "resource:licenses",
            "resource:tokens",
            "line 2: job 1: resources: got 'tokens', expected some of",
        ),
    ],
)
def test_requests_that_make_no_sense(put: Put, old: str, new: str, message: str) -> None:
    path = put(JOBS.replace(old, new), "jobs.csv")
    told = refusal(lambda: registry.load(str(path), nodes=NODES, strict="job" not in message))
    assert told.startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "1,16,100G",
            "1,17,100G",
            "job 2 does not fit on the nodes, even if all are free: a task requests 17 cores",
        ),
        ("1,16,100G", "3,16,100G", "nodes have room for only 2 of its 3 tasks"),
        (
            "fast|new",
            "fast|old",
            "job 1 does not fit on the nodes, even if all are free: no node has the requested",
        ),
    ],
)
def test_a_job_that_fits_on_no_node(put: Put, old: str, new: str, message: str) -> None:
    workload = registry.load(str(put(JOBS.replace(old, new), "jobs.csv")), nodes=NODES)
    told = refusal(lambda: simulate(BatchCluster(workload.jobs, nodes=workload.nodes), create("easy")))
    assert message in told


def test_a_run_of_files_is_valid(put: Put) -> None:
    workload = registry.load(str(put(JOBS, "jobs.csv")), nodes=node_file.read(put(YAML, "nodes.yaml")))
    assert (workload.num_cores, workload.num_jobs) == (40, 3)
    cluster = BatchCluster(workload.jobs, nodes=workload.nodes, placement="best-fit")
    result = simulate(cluster, create("easy"))
    assert validate(result, workload.jobs).ok
    assert result.table("requests")["memory"].to_list() == [16 << 10, 100 << 30, 1024]
    stretched = registry.load(str(put(JOBS, "jobs.csv")), nodes=NODES, load=0.5)
    assert [job.request for job in stretched.jobs if isinstance(job, Job)] == REQUESTS


def test_generated_jobs_on_nodes() -> None:
    workload = registry.load("lublin", num_jobs=20, nodes=node_file.counted("2x16"))
    assert (workload.num_cores, len(workload.nodes)) == (32, 2)
    with pytest.raises(InvalidConfiguration, match="the nodes have 32 cores"):
        registry.load("lublin", num_jobs=20, num_cores=31, nodes=node_file.counted("2x16"))
