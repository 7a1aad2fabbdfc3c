"""Gate of the network for completion times: on graph families that its training had not, it leads the best rule."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch")

from desim import simulate
from desim.agents.dag import create
from desim.agents.learning.pretrained import PRETRAINED
from desim.experiments.lachesis.families import COMPLETION, FAMILIES, FamilySetting, jobs_of
from desim.problems.dag import DagCluster
from desim.workloads.dag.executors import heterogeneous

RULES = ("rank-up-deft", "least-work-deft-patient", "sjf-deft-patient")
"""The rules that were best for completion times in the study of all families."""
SEEDS = range(2)


def completion(name: str, setting: FamilySetting) -> float:
    """Return the mean completion time over seeds."""
    times = []
    for seed in SEEDS:
        cluster = DagCluster(jobs_of(setting, seed), heterogeneous(setting.num_executors, seed=seed))
        times.append(simulate(cluster, create(name)).metrics()["turnaround_time_mean"])
    return float(np.mean(times))


def test_families_of_the_study_are_not_those_of_the_training() -> None:
    trained = json.loads((PRETRAINED / f"{COMPLETION}.json").read_text())["training"]["episodes"]["graphs"]
    assert not set(trained) & set(FAMILIES)


def test_the_network_leads_the_best_rule_on_families_that_it_has_not_seen() -> None:
    leads = []
    for family, ccr, load in (("fft", 1.0, 0.0), ("montage", 5.0, 0.0), ("gaussian", 1.0, 0.8), ("out-tree", 5.0, 0.8)):
        setting = FamilySetting(family, ccr, load, num_jobs=8, num_executors=4)
        best = min(completion(name, setting) for name in RULES)
        leads.append(completion(f"graph:{COMPLETION}", setting) / best - 1.0)
    assert max(leads) < 0.03
    assert np.mean(leads) < -0.02
