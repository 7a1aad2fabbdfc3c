"""Held-out workloads and clusters, which no training has used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from desim.experiments.lachesis.simulate import measure
from desim.problems.dag import Job
from desim.sweep import Run
from desim.workloads import random_dags, submissions, tpch
from desim.workloads.alibaba.dag_model import DagModel
from desim.workloads.alibaba.dag_model import generate as generate_alibaba
from desim.workloads.dag import registry
from desim.workloads.dag.tpch import REFERENCE_SPEED

QUERIES, ALIBABA, RECORDED = "measured TPC-H queries", "like Alibaba's batch jobs", "recorded workflows"
ELIMINATION, FOURIER, TREES = "Gaussian elimination", "fast Fourier transform", "trees and fork-joins"
NEED_DATA = (QUERIES, ALIBABA, RECORDED)
"""Workloads that need data from outside the project."""

WORKFLOWS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("workflows/montage-chameleon-2mass-005d-001.json", {}),
    ("workflows/GENOME.d.351024866.5.dax", {}),
    ("wfformat/1000genome-chameleon-2ch-100k-001.v1.4.json", {"relations": "either"}),
)
"""Files of recorded workflows, and their options for reading."""
MOST_TASKS = 60
#: Mean work of a task in the graphs of programs, in seconds on an executor of mean speed.
MEAN_SECONDS = 60.0


@dataclass(frozen=True)
class GeneralSetting:
    """Workload and cluster.

    Attributes
    ----------
    workload : str
        Name of the workload.
    num_jobs, num_executors : int
        Numbers of jobs and executors.
    ccr : float
        Ratio of mean transfer time to mean run time.
    load : float
        Work submitted per time, divided by the total speed of all executors; 0 submits all jobs at time 0.
    data : str
        Directory of the data, for workloads that need them.
    check : bool
        Whether to check the records with `desim.validation`.
    """

    workload: str = TREES
    num_jobs: int = 30
    num_executors: int = 10
    ccr: float = 1.0
    load: float = 1.5
    data: str = ""
    check: bool = False


def jobs_of(setting: GeneralSetting, seed: int) -> list[Job]:
    """Return the jobs of a setting, the same for all agents.

    Parameters
    ----------
    setting : GeneralSetting
        Setting of the workload.
    seed : int
        Seed of the sample.

    Returns
    -------
    list of Job
        Jobs in order of submission.
    """
    jobs = _drawn(setting, seed)
    if not setting.load:
        return submissions.batch(jobs)
    seconds = sum(float(job.work.sum()) for job in jobs) / len(jobs) / (setting.num_executors * REFERENCE_SPEED)
    return submissions.poisson(jobs, seconds / setting.load, seed)


def _drawn(setting: GeneralSetting, seed: int) -> list[Job]:
    """Return the jobs of a setting, all at time 0."""
    count, ccr, rng = setting.num_jobs, setting.ccr, np.random.default_rng(seed)
    if setting.workload == QUERIES:
        return tpch.generate(count, ccr=ccr, directory=Path(setting.data) / "tpch", seed=seed)
    jobs = _without_sizes(setting, seed, rng)
    return [random_dags.with_ccr(job, ccr, rng=rng, reference_speed=REFERENCE_SPEED) for job in jobs]


def _without_sizes(setting: GeneralSetting, seed: int, rng: Generator) -> list[Job]:
    """Return the jobs of workloads whose edge sizes are sampled for a ratio, before these sizes are set."""
    count, data = setting.num_jobs, Path(setting.data)
    if setting.workload == ALIBABA:
        model = DagModel.read(data / "alibaba" / "v2018_distributions.json")
        return generate_alibaba(count, model=model, max_tasks=MOST_TASKS, reference_speed=REFERENCE_SPEED, seed=seed)
    if setting.workload == RECORDED:
        recorded = [registry.read(data / file, **how) for file, how in WORKFLOWS]
        return [recorded[at] for at in rng.integers(len(recorded), size=count)]
    graphs = (PROGRAMS[setting.workload](rng) for _ in range(count))
    return [random_dags.with_random_work(graph, MEAN_SECONDS * REFERENCE_SPEED, rng=rng) for graph in graphs]


def _elimination(rng: Generator) -> Job:
    """Return the graph of a Gaussian elimination, with 14 to 44 nodes."""
    return random_dags.gaussian_elimination(int(rng.integers(5, 10)))


def _fourier(rng: Generator) -> Job:
    """Return the graph of a fast Fourier transform, with 15, 39 or 95 nodes."""
    return random_dags.fft(2 ** int(rng.integers(2, 5)))


def _tree(rng: Generator) -> Job:
    """Return a tree from or to its root, or two consecutive fork-joins, with 9 to 40 nodes."""
    kind, size = rng.integers(3), int(rng.integers(2))
    if kind == 2:
        return random_dags.fork_join(int(rng.integers(3, 15)), stages=2)
    grown = random_dags.in_tree if kind else random_dags.out_tree
    return grown(4 - size, branching=2 + size)


PROGRAMS: dict[str, Callable[[Generator], Job]] = {ELIMINATION: _elimination, FOURIER: _fourier, TREES: _tree}
"""Graphs of programs and shapes, by workload; the work of their nodes and the sizes of their edges are sampled."""


def perform_general(run: Run) -> dict[str, Any]:
    """Simulate a run. All agents of a setting and seed get the same executors and the same jobs.

    Parameters
    ----------
    run : Run
        Run of a :class:`GeneralSetting` and a Choice.

    Returns
    -------
    dict
        Metrics of `desim.experiments.lachesis.simulate.measure`.
    """
    return measure(jobs_of(run.setting, run.seed), run)


WORKLOADS: dict[str, GeneralSetting] = {
    "TPC-H, CCR 1": GeneralSetting(QUERIES, num_executors=10, ccr=1.0),
    "TPC-H, CCR 3": GeneralSetting(QUERIES, num_executors=6, ccr=3.0),
    "workflows, CCR 0.5": GeneralSetting(RECORDED, num_executors=10, ccr=0.5),
    "workflows, CCR 2": GeneralSetting(RECORDED, num_executors=16, ccr=2.0),
    "Alibaba, CCR 1": GeneralSetting(ALIBABA, num_executors=10, ccr=1.0),
    "Alibaba, CCR 4": GeneralSetting(ALIBABA, num_executors=6, ccr=4.0),
    "elimination, CCR 2": GeneralSetting(ELIMINATION, num_executors=10, ccr=2.0),
    "Fourier, CCR 1": GeneralSetting(FOURIER, num_executors=16, ccr=1.0),
    "trees, CCR 2": GeneralSetting(TREES, num_executors=6, ccr=2.0),
}
"""Workloads by name; three of them need no data."""
