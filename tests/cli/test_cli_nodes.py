"""``--nodes`` and ``--placement``: runs on nodes, sweeps that tell them apart, and files that make no sense."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import Desim

JOBS = "job_id,submission_time,run_time,tasks,cores,memory\n1,0,50,2,4,8K\n2,1,50,1,2,4K\n3,2,9,1,6,1K\n"
NODES = "name,count,cores,memory\na,1,8,8K\nb,2,6,12K\n"


def test_runs_comparisons_and_validation(desim: Desim, tmp_path: Path) -> None:
    jobs, nodes, out = tmp_path / "jobs.csv", tmp_path / "nodes.csv", tmp_path / "out"
    jobs.write_text(JOBS)
    nodes.write_text(NODES)
    arguments = ("--trace", jobs, "--nodes", nodes, "--placement", "best-fit")
    outcome = desim("run", "batch", *arguments, "--agent", "easy", "--out", out, "--json")
    assert outcome.status == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["workload"]["cores"] == 20
    assert found["workload"]["nodes"] == 3
    assert found["run"]["placement"] == "best-fit"
    assert found["validation"]["valid"] is True
    assert desim("validate", out, "--trace", jobs, "--nodes", nodes).status == 0
    outcome = desim("compare", "batch", *arguments, "--agents", "easy,fcfs", "--workers", 1)
    assert outcome.status == 0, outcome.err
    assert "3 nodes, 20 cores" in outcome.out
    counted = desim("run", "batch", "--jobs", 30, "--nodes", "2x16,1x64", "--agent", "sjf", "--json")
    assert json.loads(counted.out)["workload"]["nodes"] == 3


def test_what_is_refused(desim: Desim, tmp_path: Path) -> None:
    jobs, nodes = tmp_path / "jobs.csv", tmp_path / "nodes.csv"
    jobs.write_text(JOBS)
    nodes.write_text(NODES.replace("memory", "ram"))
    outcome = desim("run", "batch", "--trace", jobs, "--nodes", nodes)
    assert outcome.status == 2
    assert "line 1: unknown column 'ram'" in outcome.err
    outcome = desim("run", "batch", "--jobs", 5, "--placement", "best-fit")
    assert outcome.status == 2
    assert "best-fit without nodes; give --nodes" in outcome.err
    outcome = desim("run", "batch", "--jobs", 5, "--nodes", "2x8", "--placement", "tightest")
    assert outcome.status == 2
    assert "placement" in outcome.err
    for counts in ("0x4", "0x0", "2x0", "2x8,0x4"):
        outcome = desim("run", "batch", "--jobs", 5, "--agent", "fcfs", "--nodes", counts)
        assert (outcome.status, outcome.out) == (2, "")
        assert f"--nodes: got {counts}, expected a file, or counts >= 1 such as 16x64" in outcome.err
