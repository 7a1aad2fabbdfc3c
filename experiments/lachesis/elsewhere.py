"""Runs on other workloads and clusters than the paper's: what nobody was trained on, and instances with an optimum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from desim.agents.dag import create
from desim.agents.dag.optimum import Optimum
from desim.experiments.lachesis.simulate import measure
from desim.problems.dag import Job
from desim.sweep import Run
from desim.workloads import executors, random_dags, submissions, tpch, wfformat
from desim.workloads.alibaba.dag_model import DagModel
from desim.workloads.alibaba.dag_model import generate as generate_alibaba
from desim.workloads.dag import registry
from desim.workloads.dag.tpch import REFERENCE_SPEED

__all__ = [
    "ALIBABA",
    "ELIMINATION",
    "FOURIER",
    "GENERATED",
    "MEASURED",
    "OPTIMUM",
    "QUERIES",
    "RANDOM",
    "RECORDED",
    "TREES",
    "WORKFLOW",
    "GeneralSetting",
    "SmallSetting",
    "jobs_of",
    "perform_general",
    "perform_small",
]

GENERATED, RANDOM = "queries like those of TPC-H", "random layered DAGs"
QUERIES, ALIBABA, WORKFLOW = "measured TPC-H queries", "like Alibaba's batch jobs", "Montage workflow"
RECORDED = "recorded workflows"
ELIMINATION, FOURIER, TREES = "Gaussian elimination", "fast Fourier transform", "trees and fork-joins"
MEASURED = (QUERIES, ALIBABA, WORKFLOW)
"""Workloads that need data which do not come with the project; so do recorded workflows, one of which is Montage."""

MONTAGE = "montage-chameleon-2mass-005d-001.json"
WORKFLOWS: tuple[tuple[str, dict[str, Any]], ...] = (
    (f"workflows/{MONTAGE}", {}),
    ("workflows/GENOME.d.351024866.5.dax", {}),
    ("wfformat/1000genome-chameleon-2ch-100k-001.v1.4.json", {"relations": "either"}),
)
"""Files of recorded workflows, and how they are read."""
MOST_TASKS = 60
RANDOM_NODES = 20
#: Work of a task of a random DAG, in seconds on an executor of mean speed.
MEAN_SECONDS = 60.0


@dataclass(frozen=True)
class GeneralSetting:
    """A workload and the cluster that it runs on.

    Attributes
    ----------
    workload : str
        What the jobs are.
    num_jobs, num_executors : int
        How many.
    ccr : float
        Ratio of mean transfer time to mean run time.
    load : float
        Work that is submitted in a time, by what all executors can do in it; 0 for all jobs at time 0.
    data : str
        Directory of the data, for those that need some.
    check : bool
        Check the records with `desim.validation`.
    """

    workload: str = GENERATED
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
        Which workload.
    seed : int
        Which sample of it.

    Returns
    -------
    list of Job
        In order of submission.
    """
    jobs = _drawn(setting, seed)
    if not setting.load:
        return submissions.batch(jobs)
    seconds = sum(float(job.work.sum()) for job in jobs) / len(jobs) / (setting.num_executors * REFERENCE_SPEED)
    return submissions.poisson(jobs, seconds / setting.load, seed)


def _drawn(setting: GeneralSetting, seed: int) -> list[Job]:
    """Return the jobs of a setting, all at time 0."""
    count, ccr, rng = setting.num_jobs, setting.ccr, np.random.default_rng(seed)
    if setting.workload == GENERATED:
        return tpch.generate(count, ccr=ccr, seed=seed)
    if setting.workload == QUERIES:
        return tpch.generate(count, ccr=ccr, directory=Path(setting.data) / "tpch", seed=seed)
    if setting.workload == RANDOM:
        work = MEAN_SECONDS * REFERENCE_SPEED
        # A ratio of work, as generate() takes it, is one of times on an executor of speed 1.
        options: dict[str, Any] = {"mean_work": work, "ccr": ccr / REFERENCE_SPEED}
        return [random_dags.generate(RANDOM_NODES, job_id=job_id, seed=rng, **options) for job_id in range(count)]
    jobs = _without_sizes(setting, seed, rng)
    return [random_dags.with_ccr(job, ccr, rng=rng, reference_speed=REFERENCE_SPEED) for job in jobs]


def _without_sizes(setting: GeneralSetting, seed: int, rng: Generator) -> list[Job]:
    """Return the jobs of workloads whose data are drawn for a ratio, without these."""
    count, data = setting.num_jobs, Path(setting.data)
    if setting.workload == ALIBABA:
        model = DagModel.read(data / "alibaba" / "v2018_distributions.json")
        return generate_alibaba(count, model=model, max_tasks=MOST_TASKS, reference_speed=REFERENCE_SPEED, seed=seed)
    if setting.workload == WORKFLOW:
        workflow = wfformat.read(data / "workflows" / MONTAGE, reference_speed=REFERENCE_SPEED)
        return [workflow.submitted(0.0, job_id=job_id) for job_id in range(count)]
    if setting.workload == RECORDED:
        recorded = [registry.read(data / file, **how) for file, how in WORKFLOWS]
        return [recorded[at] for at in rng.integers(len(recorded), size=count)]
    graphs = (PROGRAMS[setting.workload](rng) for _ in range(count))
    return [random_dags.with_random_work(graph, MEAN_SECONDS * REFERENCE_SPEED, rng=rng) for graph in graphs]


def _elimination(rng: Generator) -> Job:
    """Return the graph of an elimination, of 14 to 44 nodes."""
    return random_dags.gaussian_elimination(int(rng.integers(5, 10)))


def _fourier(rng: Generator) -> Job:
    """Return the graph of a Fourier transform, of 15, 39 or 95 nodes."""
    return random_dags.fft(2 ** int(rng.integers(2, 5)))


def _tree(rng: Generator) -> Job:
    """Return a tree from or to its root, or two fork-joins one behind the other, of 9 to 40 nodes."""
    kind, size = rng.integers(3), int(rng.integers(2))
    if kind == 2:
        return random_dags.fork_join(int(rng.integers(3, 15)), stages=2)
    grown = random_dags.in_tree if kind else random_dags.out_tree
    return grown(4 - size, branching=2 + size)


PROGRAMS: dict[str, Callable[[Generator], Job]] = {ELIMINATION: _elimination, FOURIER: _fourier, TREES: _tree}
"""Graphs of programs and shapes; the work of their nodes and the sizes of data are drawn."""


def perform_general(run: Run) -> dict[str, Any]:
    """Simulate a run. All agents of one setting and seed face the same executors and the same jobs.

    Parameters
    ----------
    run : Run
        Of a :class:`GeneralSetting` and a Choice.

    Returns
    -------
    dict
        As of `desim.experiments.lachesis.simulate.measure`.
    """
    setting: GeneralSetting = run.setting
    machines = executors.heterogeneous(setting.num_executors, seed=run.seed)
    return measure(jobs_of(setting, run.seed), machines, create(run.agent.policy), run)


# -- small instances --------------------------------------------------------------------------------

OPTIMUM = "optimum"
#: Seconds for a proof; the best schedule so far and its bound are taken when they are over.
TIME_LIMIT = 60.0


@dataclass(frozen=True)
class SmallSetting:
    """One random layered DAG on a few executors of different speeds.

    Attributes
    ----------
    num_nodes, num_executors : int
        How small.
    ccr : float
        Ratio of mean transfer time to mean run time.
    check : bool
        Check the records with `desim.validation`.
    """

    num_nodes: int = 12
    num_executors: int = 3
    ccr: float = 1.0
    check: bool = False


def perform_small(run: Run) -> dict[str, Any]:
    """Simulate a run on a small instance.

    Parameters
    ----------
    run : Run
        Of a :class:`SmallSetting` and a Choice; besides the names of the registry there are ``optimum`` and
        ``optimum-without-duplicates``.

    Returns
    -------
    dict
        As of `desim.experiments.lachesis.simulate.measure`; with ``proved`` and ``bound`` for the optimum.
    """
    setting: SmallSetting = run.setting
    job = random_dags.generate(setting.num_nodes, mean_work=100.0, ccr=setting.ccr, seed=run.seed)
    machines = executors.heterogeneous(setting.num_executors, speeds=(1.0, 1.5, 2.0), seed=run.seed)
    if not run.agent.policy.startswith(OPTIMUM):
        return measure([job], machines, create(run.agent.policy), run)
    agent = Optimum(duplication=run.agent.policy == OPTIMUM, time_limit=TIME_LIMIT)
    outcome = measure([job], machines, agent, run)
    schedule = agent.schedules[0]
    return outcome | {"proved": schedule.status == "optimal", "bound": schedule.bound}
