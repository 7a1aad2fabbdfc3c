"""Networks, and agents that choose between networks and rules, on graph families that no training has used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.lachesis.curves import Queries
from desim.experiments.lachesis.held_out import BATCH, OBJECTIVES, STREAM
from desim.experiments.lachesis.simulate import measure
from desim.experiments.learning_curves import with_weights
from desim.experiments.report_blocks import Block
from desim.experiments.tables import best_rule_table, value_table
from desim.problems.dag import Job
from desim.sweep import Run
from desim.workloads.dag import registry
from desim.workloads.dag.executors import heterogeneous

FAMILIES = ("fft", "montage", "gaussian", "out-tree")
"""Graph families that no network was trained on."""
RATIOS = (0.5, 1.0, 5.0)
LOAD = 0.8
"""Load of arriving jobs: work submitted per time, divided by the total speed of all executors."""

RULES: dict[str, Choice] = {
    "HEFT": Choice("heft"),
    "CPOP": Choice("cpop"),
    "PEFT": Choice("peft"),
    "rank-up-DEFT": Choice("rank-up-deft"),
    "FIFO-EFT": Choice("fifo-eft"),
    "rank-up-DEFT, patient": Choice("rank-up-deft-patient"),
    "least work-DEFT, patient": Choice("least-work-deft-patient"),
    "SJF-DEFT, patient": Choice("sjf-deft-patient"),
}
"""Rules; the best of them on each workload is the baseline of all other agents."""

COMPLETION, MAKESPAN = "families-completion", "families-makespan"
"""Weights of networks for short completion times and for short makespans, whose features are relative to mean run
times."""
SECONDS = "local-imitating-search"
"""Weights of a network for completion times whose features count times in seconds."""
_PATIENT = "rank-up-deft-patient+least-work-deft-patient+sjf-deft-patient"
_SEARCH = "search:dag:makespan:100"
AGENTS: dict[str, Choice] = {
    "network, completion time": with_weights("graph", COMPLETION),
    "network, makespan": with_weights("graph", MAKESPAN),
    "network, times in seconds": with_weights("graph", SECONDS),
    "switching, completion time": Choice(f"switching-turnaround_time_mean:graph:{COMPLETION}+{_PATIENT}"),
    "switching, makespan": Choice(f"switching:graph:{MAKESPAN}+{_PATIENT}"),
    "search for makespan, 100 moves": Choice(_SEARCH),
    "the same from the network's plan": Choice(f"{_SEARCH}:graph:{MAKESPAN}"),
}
"""Networks, agents that follow the network or rule with the best simulation, and searches."""
PLANNING: dict[str, Choice] = {
    "portfolio with the network": Choice(
        f"portfolio:heft+cpop+peft+rank-up-deft+fifo-eft+rank-up-deft-patient+graph:{MAKESPAN}"
    )
}
"""Portfolio for the makespan of jobs that are submitted together."""


@dataclass(frozen=True)
class FamilySetting:
    """Jobs of one graph family.

    Attributes
    ----------
    family : str
        Name of the family, see `desim.workloads.dag.registry.draw`.
    ccr : float
        Ratio of mean transfer time to mean run time.
    load : float
        Work submitted per time, divided by the total speed of all executors; 0 submits all jobs at time 0.
    num_jobs, num_executors : int
        Numbers of jobs and executors.
    check : bool
        Whether to check the records with `desim.validation`.
    """

    family: str
    ccr: float
    load: float = 0.0
    num_jobs: int = 20
    num_executors: int = 8
    check: bool = False


def jobs_of(setting: FamilySetting, seed: int) -> list[Job]:
    """Return the jobs of a setting, the same for all agents.

    Parameters
    ----------
    setting : FamilySetting
        Setting of the workload.
    seed : int
        Seed of the sample.

    Returns
    -------
    list of Job
        Jobs in order of submission.
    """
    jobs, _ = registry.draw(
        np.random.default_rng(seed),
        num_jobs=setting.num_jobs,
        executors=heterogeneous(setting.num_executors, seed=seed),
        ccr=setting.ccr,
        graphs=setting.family,
        load=setting.load,
    )
    return jobs


def perform(run: Run) -> dict[str, Any]:
    """Simulate a run. All agents of a setting and seed get the same executors and the same jobs.

    Parameters
    ----------
    run : Run
        Run of a :class:`FamilySetting` and a Choice.

    Returns
    -------
    dict
        Metrics of `desim.experiments.lachesis.simulate.measure`.
    """
    return measure(jobs_of(run.setting, run.seed), run)


@dataclass(frozen=True)
class Families(Queries):
    """Agents compared with the best rule of each workload, which is chosen on the same runs, in its favour."""

    perform = staticmethod(perform)

    def panels(self) -> Sequence[Panel]:
        """Return all agents on jobs that are submitted together, and on jobs that arrive over time."""
        return [
            Panel(BATCH, "workload", self._columns(0.0), RULES | AGENTS | PLANNING),
            Panel(STREAM, "workload", self._columns(LOAD), RULES | AGENTS),
        ]

    def _columns(self, load: float) -> dict[str, FamilySetting]:
        """Return the workloads by name; a trial uses only the first."""
        found = {f"{family}, CCR {ccr:g}": FamilySetting(family, ccr, load) for family in FAMILIES for ccr in RATIOS}
        return {name: self.fit(one) for name, one in list(found.items())[: 1 if self.quick else None]}

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the distances of the agents from the best rule of each workload, and decision times."""
        for panel in frame.panels:
            agents: Mapping[str, Sequence[str]] = {row: [row] for row in frame.rows(panel) if row not in RULES}
            for metric, called in OBJECTIVES.items():
                title = f"{panel}: {called} above that of the best rule"
                yield best_rule_table(frame, panel, metric, title, rules=list(RULES), agents=agents)
            yield value_table(
                frame, panel, "decision_98", f"{panel}: processor time within which 98 % of decisions are made, ms"
            )
