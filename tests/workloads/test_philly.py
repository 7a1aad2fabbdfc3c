"""Philly's GPU jobs: requests by numbers of GPUs, machines, and runs on them that are valid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from workload_files import data, refusal

from desim import simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Job, Node, Request
from desim.validation import validate
from desim.workloads.batch import philly, registry

Put = Callable[..., Path]
TEXT = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 07:01:05,20.0,12,240.0,6214e9
2017-10-09 07:02:05,30.0,16,480.0,6214e9

"""


def requests_of(jobs: list[Job]) -> list[Request]:
    return [job.request for job in jobs if isinstance(job, Job)]


def test_jobs_machines_clusters(put: Put) -> None:
    path = put(TEXT, "jobs.csv")
    assert philly.is_such(path)
    trace = philly.read(path)
    assert [(job.job_id, job.submission_time, job.run_time) for job in trace.jobs] == [
        (1, 0.0, 20.0),
        (0, 50.0, 66.0),
        (2, 60.0, 30.0),
    ]
    assert requests_of(trace.jobs) == [Request(3, 4, gpus=4), Request(1, 1, gpus=1), Request(2, 8, gpus=8)]
    assert [job.queue for job in trace.jobs] == ["6214e9", "11cb48", "6214e9"]
    assert len(trace.nodes) == 552
    assert sum(node.gpus for node in trace.nodes) == trace.num_cores == 2_490
    assert philly.read(path, shift=False).jobs[0].submission_time == 1_507_532_465


def test_own_machines_and_those_of_the_trace(put: Put) -> None:
    path = str(put(TEXT, "jobs.csv"))
    assert len(registry.load(path, nodes="log").nodes) == 552
    nodes = [Node("a", 16, gpus=16), Node("b", 16, gpus=16)]
    workload = registry.load(path, nodes=nodes)
    assert requests_of(list(workload.jobs)) == requests_of(philly.read(path).jobs)
    result = simulate(BatchCluster(workload.jobs, nodes=nodes, placement="gpu-packing"), create("easy"))
    assert validate(result, workload.jobs).ok


def test_a_row_that_makes_no_sense(put: Put) -> None:
    path = put(TEXT.replace("20.0,12", "x,12"), "jobs.csv")
    assert (
        refusal(lambda: philly.read(path, strict=True))
        == f"{path}: line 3: duration: got 'x', expected a finite number of at most 1e+15"
    )


@pytest.mark.slow
def test_the_published_trace_on_its_machines() -> None:
    trace = philly.read(data("gpu/philly.csv.gz"))
    assert len(trace) == 82_247
    result = simulate(BatchCluster(trace.jobs, nodes=trace.nodes, placement="best-fit"), create("easy"))
    assert validate(result, trace.jobs).ok
    assert result.info["status"] == "complete"
