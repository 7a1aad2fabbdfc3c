"""Runs to export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from desim import Result, simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster
from desim.processes import Outage, planned_outages
from desim.workloads import lublin


def _run(**options: Any) -> Result:
    """Simulate 200 jobs on 32 cores, some of which fail; some jobs are too wide or request too little time."""
    jobs = [
        job._replace(requested_time=0.5 * job.run_time) if job.job_id % 10 == 3 else job
        for job in lublin.generate(200, 40, seed=4, load=1.2, overestimate=2.0, num_users=5)
    ]
    span = jobs[-1].submission_time
    failures = [Outage(at * span, (at + 0.1) * span, cores=cores) for at, cores in ((0.2, [1, 2, 9]), (0.6, range(16)))]
    problem = BatchCluster(
        jobs,
        32,
        too_wide="reject",
        processes=[planned_outages(failures)],
        on_outage=options.pop("on_outage", "requeue"),
    )
    return simulate(problem, create("easy"), **options)


@pytest.fixture(scope="session")
def run() -> Callable[..., Result]:
    """Return the function that simulates."""
    return _run
