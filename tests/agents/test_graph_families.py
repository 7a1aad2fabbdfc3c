"""Gate of the networks for graph families: where their training had none of the families, they keep up with rules."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch")

from desim import simulate
from desim.agents.dag import create
from desim.agents.dag.graph_agent import GraphConfig
from desim.agents.learning.imitation import EXPERT, ExpertLabelledEnv
from desim.agents.learning.pretrained import PRETRAINED
from desim.experiments.lachesis.families import COMPLETION, FAMILIES, MAKESPAN, FamilySetting, jobs_of
from desim.problems.dag import DagCluster, Executors, Job
from desim.problems.dag.env import DagEnv
from desim.problems.dag.graph_encoder import GraphSizes
from desim.workloads.dag.executors import heterogeneous

RULES = {
    "turnaround_time_mean": ("rank-up-deft", "least-work-deft-patient", "sjf-deft-patient"),
    "makespan": ("heft", "peft", "rank-up-deft-patient"),
}
"""The rules that were best in the study of all families, by objective."""
SEEDS = range(2)


def outcome(name: str, metric: str, setting: FamilySetting) -> float:
    """Return the mean of a metric over seeds."""
    found = []
    for seed in SEEDS:
        agent = create(name)
        ahead = getattr(agent, "plans_ahead", False)
        executors = heterogeneous(setting.num_executors, seed=seed)
        found.append(simulate(DagCluster(jobs_of(setting, seed), executors, plan_ahead=ahead), agent).metrics()[metric])
    return float(np.mean(found))


def on_pools(name: str, metric: str, family: str) -> float:
    """Return the mean of a metric over seeds on two pools; nodes demand some of their cores and memory."""
    found = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        jobs = []
        for job in jobs_of(FamilySetting(family, 0.0, num_jobs=5), seed):
            edges = [(parent, child, size) for parent, row in enumerate(job.child_lists) for child, size in row]
            amounts = rng.choice([1, 2, 4], job.num_nodes), rng.choice([1, 4, 16], job.num_nodes)
            demands = [{"cores": int(cores), "memory": int(memory)} for cores, memory in zip(*amounts, strict=True)]
            jobs.append(Job(job.job_id, job.work, edges, demands=demands))
        pools = Executors([2.1, 3.2], capacities=[{"cores": 8, "memory": 32}, {"cores": 8, "memory": 16}])
        found.append(simulate(DagCluster(jobs, pools), create(name)).metrics()[metric])
    return float(np.mean(found))


def leads(network: str, metric: str, *workloads: tuple[str, float, float]) -> list[float]:
    """Return how far a network is above the best rule on workloads of a family, a ratio and a load, as a share."""
    settings = [FamilySetting(*workload, num_jobs=8, num_executors=4) for workload in workloads]
    best = [min(outcome(rule, metric, setting) for rule in RULES[metric]) for setting in settings]
    return [outcome(f"graph:{network}", metric, one) / least - 1.0 for one, least in zip(settings, best, strict=True)]


@pytest.mark.parametrize("network", [COMPLETION, MAKESPAN])
def test_families_of_the_study_are_not_those_of_the_training(network: str) -> None:
    trained = json.loads((PRETRAINED / f"{network}.json").read_text())["training"]["episodes"]["graphs"]
    assert not set(trained) & set(FAMILIES)


def test_the_network_for_completion_times_leads_the_best_rule_on_families_that_it_has_not_seen() -> None:
    workloads = ("fft", 1.0, 0.0), ("montage", 5.0, 0.0), ("gaussian", 1.0, 0.8), ("out-tree", 5.0, 0.8)
    found = leads(COMPLETION, "turnaround_time_mean", *workloads)
    assert max(found) < 0.03
    assert np.mean(found) < -0.02


def test_the_network_for_makespans_keeps_up_with_the_best_rule_on_families_that_it_has_not_seen() -> None:
    workloads = ("fft", 5.0, 0.0), ("montage", 1.0, 0.0), ("gaussian", 5.0, 0.0), ("out-tree", 1.0, 0.8)
    found = leads(MAKESPAN, "makespan", *workloads)
    assert max(found) < 0.02
    assert np.mean(found) < 0.0


@pytest.mark.parametrize("family", ["gaussian", "out-tree"])
def test_who_chooses_nodes_as_the_search_does_reaches_its_makespan(family: str) -> None:
    """The executors that are chosen for a network, and its waiting, cost nothing of what the search gains."""
    pytest.importorskip("numba")
    setting = FamilySetting(family, 5.0, num_jobs=6, num_executors=4)
    jobs, executors = jobs_of(setting, 0), heterogeneous(4, seed=0)
    expert = "search:dag:makespan:100"
    encoder = GraphConfig(relative=True).encoder(GraphSizes(6, 60, 192, 72))
    followed = DagEnv(lambda rng: DagCluster(jobs, executors), observation=encoder, skip_forced=True)
    advised = ExpertLabelledEnv(followed, create(expert))
    seen, _ = advised.reset(seed=0)
    over = False
    while not over:
        seen, _, over, _, _ = advised.step(int(seen[EXPERT]))
    wanted = simulate(DagCluster(jobs, executors), create(expert)).metrics()["makespan"]
    assert followed.result().metrics()["makespan"] <= 1.01 * wanted


@pytest.mark.parametrize(("network", "metric"), [(COMPLETION, "turnaround_time_mean"), (MAKESPAN, "makespan")])
def test_networks_keep_up_with_the_best_rule_on_pools(network: str, metric: str) -> None:
    best = min(on_pools(rule, metric, "gaussian") for rule in ("least-work-eft-idle", "rank-up-eft-idle"))
    assert on_pools(f"graph:{network}", metric, "gaussian") < 1.05 * best
