"""A run that was killed is closed at its last complete part; two runs do not write to one directory."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from small_agents import FirstFit, python, random_jobs

from desim import RecordError, Result, simulate
from desim.files import HOST, locked
from desim.problems.batch import BatchCluster
from desim.records import close_cut
from desim.validation import validate

KILLED = """
import os, signal, sys
sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests", "desim")]
from desim import simulate
from desim.problems.batch import BatchCluster
from small_agents import FirstFit, random_jobs

class Killed(FirstFit):
    count = 0
    def act(self, observation):
        self.count += 1
        if self.count == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().act(observation)

# Tables of wide clusters are written every 1,024 jobs.
simulate(BatchCluster(random_jobs(4_000, 8), 20_000), Killed(), out=sys.argv[1])
"""


def test_a_killed_run_is_closed_at_its_last_complete_part(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert python(KILLED, str(out), "3900").returncode == -9
    (out / "jobs" / "part-000099.parquet").write_bytes(b"of a part that other tables lack")
    draft = out / "jobs" / ".part-000100.parquet.1@elsewhere.partial"
    draft.touch()
    dead = python("import os; print(os.getpid())").stdout.strip()
    own = out / f".result.json.{dead}@{HOST}.partial"
    own.touch()
    assert close_cut(out) == 1
    assert not own.exists()
    result = Result.load(out)
    whole = simulate(BatchCluster(random_jobs(4_000, 8), 20_000), FirstFit()).jobs
    assert result.info["status"] == "interrupted"
    assert len(result.jobs) % 1_024 == 0 < len(result.jobs)
    assert result.jobs["finish_time"].max() <= result.end_time
    same = whole.join(result.jobs, on=whole.columns, how="semi", nulls_equal=True)
    assert len(same) == len(result.jobs)
    assert whole.filter(pl.col("finish_time") < result.end_time).height <= len(result.jobs)
    assert validate(result).ok
    assert draft.exists()  # another program writes it
    with pytest.raises(RecordError, match="the run has ended with status 'interrupted'"):
        close_cut(out)


def test_a_run_that_was_killed_at_once_has_nothing_to_keep(tmp_path: Path) -> None:
    assert python(KILLED, str(tmp_path / "run"), "3").returncode == -9
    with pytest.raises(RecordError, match="before a part was complete; run it again with --force"):
        close_cut(tmp_path / "run")


def test_two_runs_do_not_write_to_one_directory(tmp_path: Path) -> None:
    cluster = BatchCluster(random_jobs(5, 8), 8)
    with locked(tmp_path / "run"), pytest.raises(RecordError, match="is being written by another run"):
        simulate(cluster, FirstFit(), out=tmp_path / "run")
    assert simulate(cluster, FirstFit(), out=tmp_path / "run").info["status"] == "complete"
