"""The logs of Theta 2018: a field more than the format has, and the figures that their description states."""

from __future__ import annotations

import pytest
from workload_files import data

from desim.workloads.batch import swf
from desim.workloads.batch.trace import TraceReason


@pytest.mark.parametrize(
    ("name", "jobs", "nodes", "run_time", "last", "work"),
    [
        ("train", 3_000, 349.9687, 7_278.8380, 2_418_000, 7_349_855_063),
        ("validate", 5_000, 301.5620, 6_408.4400, 45_959_952, 13_750_610_515),
    ],
)
def test_jobs_are_those_of_the_description(
    name: str, jobs: int, nodes: float, run_time: float, last: int, work: int
) -> None:
    trace = swf.read(data(f"swf/theta-2018-{name}.swf.gz"))
    assert (len(trace), trace.num_cores) == (jobs, 4_360)
    assert trace.report.count(TraceReason.EXTRA_FIELDS) == jobs and trace.report.dropped == 0
    assert sum(job.requested_cores for job in trace) / jobs == pytest.approx(nodes, abs=1e-4)
    assert sum(job.run_time for job in trace) / jobs == pytest.approx(run_time, abs=1e-4)
    assert trace.jobs[-1].submission_time == last
    assert sum(job.requested_cores * job.run_time for job in trace) == work
