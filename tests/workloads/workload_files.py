"""What tests of readers share: published files where they are at hand, refusals, jobs, and edges of graphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st

from desim.exceptions import WorkloadError
from desim.problems.batch.job import Job
from desim.problems.dag.job import Job as DagJob

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

#: Jobs that a workload file can hold, all of one number.
BATCH_JOBS = st.builds(
    Job,
    job_id=st.just(0),
    submission_time=st.integers(0, 10**9) | st.floats(0, 1e14),
    requested_cores=st.integers(1, 10**9),
    requested_time=st.integers(1, 10**9) | st.floats(0, 1e14, exclude_min=True),
    run_time=st.integers(0, 10**9) | st.floats(0, 1e14),
    user_id=st.integers(-1, 10**6),
)


def data(name: str) -> Path:
    """Return the path of a published file; without it, the test is skipped."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"needs {name} in the shared data")
    return path


def refusal(use: Callable[[], object]) -> str:
    """Return the message of the WorkloadError that a call raises."""
    with pytest.raises(WorkloadError) as caught:
        use()
    assert len(caught.value.args) == 1
    return str(caught.value)


def edges_of(job: DagJob) -> dict[tuple[str, str], float]:
    return {
        (job.names[parent], job.names[child]): size
        for child, parents in enumerate(job.parent_lists)
        for parent, size in parents
    }
