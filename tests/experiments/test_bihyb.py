"""The study of stages on one pool, carried out on generated queries; and the published rules on the real instances."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from desim.exceptions import WorkloadError
from desim.experiments.bihyb import FAMILY
from desim.experiments.bihyb.online import Arrivals, queries
from desim.experiments.bihyb.simulate import RULES, Setting, instance, perform
from desim.experiments.bihyb.stages import PUBLISHED
from desim.experiments.frame import Choice
from desim.sweep import Run, Workers
from desim.workloads.dag import stages
from desim.workloads.dag.stages import CAPACITY

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


def test_the_queries_of_an_instance_arrive() -> None:
    setting = Arrivals(Setting(10), load=0.5)
    everything, pool = instance(setting.stages, 3)
    jobs, again = queries(setting, 3)
    assert again.capacities == pool.capacities
    assert len(jobs) == 10 and sum(job.num_nodes for job in jobs) == everything.num_nodes
    named = dict(zip(everything.names, everything.work.tolist(), strict=True))
    assert {name: work for job in jobs for name, work in zip(job.names, job.work.tolist(), strict=True)} == named
    assert sum(job.num_edges for job in jobs) == everything.num_edges
    assert everything.demands is not None
    units = [each["units"] for each in everything.demands if each is not None]
    assert len(units) == everything.num_nodes
    seconds = float(np.dot(units, everything.work)) / CAPACITY / 10
    many = [queries(setting, seed)[0][-1].submission_time for seed in range(3, 303, 10)]  # the same instance
    assert np.mean(many) == pytest.approx(9 * seconds / 0.5, rel=0.25)


def test_rules_a_network_and_search_run_online(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    pytest.importorskip("torch")
    study = FAMILY.study("online")(quick=True, seeds=1, workers=Workers(1), out=tmp_path)
    (frame,) = [block for block in study.blocks() if hasattr(block, "estimate")]
    assert frame.num_invalid == 0
    (panel,) = frame.panels
    ends = {row: frame.estimate(panel, "load 2.0", row, "turnaround_time_mean").mean for row in frame.rows(panel)}
    assert ends.pop("Search, 1 pass") <= min(ends.values()) * 1.02


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
