"""The study of stages on one pool, carried out on generated queries; and the published rules on the real instances."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from desim.exceptions import WorkloadError
from desim.experiments.bihyb import FAMILY
from desim.experiments.bihyb.simulate import RULES, Setting, perform
from desim.experiments.bihyb.stages import PUBLISHED
from desim.experiments.frame import Choice
from desim.sweep import Run, Workers
from desim.workloads.dag import stages

DATA = Path("/work/shared/data")


def test_the_study_runs_on_generated_queries(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    study = FAMILY.study("stages")(quick=True, seeds=1, workers=Workers(1), out=tmp_path)
    blocks = list(study.blocks())
    (frame,) = [block for block in blocks if hasattr(block, "estimate")]
    assert frame.num_invalid == 0
    for panel in frame.panels:
        ends = {row: frame.estimate(panel, "10", row, "makespan").mean for row in frame.rows(panel)}
        assert ends["Search, 100 passes"] == min(ends.values())
        assert ends["Search, 100 passes"] >= frame.estimate(panel, "10", "SJF", "lower_bound").mean


@pytest.mark.skipif(not (DATA / "bihyb").exists(), reason="needs bihyb/instances.json.gz")
@pytest.mark.slow
def test_published_rules_are_met_to_the_digit() -> None:
    for size, published in PUBLISHED.items():
        for rule in RULES:
            setting = Setting(int(size), str(DATA), by_shares=True)
            ends = [perform(Run(setting, Choice(rule), number))["makespan"] for number in range(10)]
            assert abs(sum(ends) / 10 - published[rule]["makespan"]) < 1.0


def test_files_of_stages(tmp_path: Path) -> None:
    path = tmp_path / "stages.json"
    path.write_text(json.dumps({"durations": [2, 3], "demands": [1, 4], "edges": [[0, 1]], "capacity": 4}))
    job, pool = stages.read(path)
    assert (job.work.tolist(), pool.capacities) == ([2.0, 3.0], [{"units": 4.0}])
    path.write_text(json.dumps({"10": [{"durations": [2], "demands": [1, 4], "edges": []}]}))
    with pytest.raises(WorkloadError, match=r"10, instance 0: demands: got 2, expected 1"):
        stages.read_all(path)
    with pytest.raises(WorkloadError, match="expected an object with the lists durations, demands, edges"):
        stages.read(path)
