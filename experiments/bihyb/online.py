"""Queries that arrive one after another at one pool: rules, a network and search, at four loads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from desim import simulate
from desim.agents.dag import create
from desim.agents.dag.search import SearchAgent
from desim.decision_times import DecisionTimes
from desim.experiments.bihyb.simulate import Setting, compile_search, instance
from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.learning_curves import with_weights
from desim.experiments.report_blocks import Block, Paragraph
from desim.experiments.study import DataStudy, is_valid
from desim.experiments.tables import best_rule_table, value_table
from desim.problems.dag import DagCluster, Job, to_networkx
from desim.sweep import Run
from desim.workloads.dag import submissions
from desim.workloads.dag.stages import CAPACITY, RESOURCE

__all__ = ["Online"]

LOADS = (0.5, 0.8, 1.2, 2.0)
"""Mean arriving work as a share of the pool; above 1, queries pile up until the last one has arrived."""
RULES = {
    "FIFO": "fifo-eft-idle",
    "Shortest job first": "sjf-eft-idle",
    "Least work left": "least-work-eft-idle",
    "Highest response ratio": "hrrn-eft-idle",
    "Longest path left": "rank-up-eft-idle",
}
"""Rules that start every stage that fits, by their name in tables."""
NETWORK = {"Network": with_weights("graph", "families-completion")}
"""A network that learned from a search on executors without pools; it scores the stages that fit."""
SEARCHES = {
    f"Search, {passes}": f"search:dag:turnaround_time_mean:{passes.split()[0]}"
    for passes in ("1 pass", "10 passes", "100 passes")
}
"""Searches with pairs of passes at each arrival, by their name in tables."""
SIZE, QUICK_SIZE = 150, 10
NUM_INSTANCES = 10


@dataclass(frozen=True)
class Arrivals:
    """Instance whose queries arrive.

    Attributes
    ----------
    stages : Setting
        The instances.
    load : float
        Mean work of the queries that arrive in a second, as a share of the pool.
    """

    stages: Setting
    load: float


def queries(setting: Arrivals, seed: int) -> tuple[list[Job], Any]:
    """Return the queries of an instance, which arrive as a Poisson process, and the pool.

    Parameters
    ----------
    setting : Arrivals
        Instances and load.
    seed : int
        Seed of the arrivals; its remainder by 10 is the number of the instance.
    """
    everything, pool = instance(setting.stages, seed % NUM_INSTANCES)
    graph = to_networkx(everything)
    assert everything.demands is not None
    demands = dict(zip(everything.names, everything.demands, strict=True))
    work = dict(zip(everything.names, everything.work.tolist(), strict=True))
    jobs, total = [], 0.0
    for number, found in enumerate(nx.weakly_connected_components(graph)):
        names = [name for name in everything.names if name in found]
        edges = [(one, other, 0.0) for one, other in graph.subgraph(names).edges]
        own = [work[name] for name in names]
        jobs.append(Job(number, own, edges, names=names, demands=[demands[name] for name in names]))
        amounts = [CAPACITY if (each := demands[name]) is None else each[RESOURCE] for name in names]
        total += float(np.dot(own, amounts))
    seconds = total / CAPACITY / len(jobs)  # that an average query would take alone if it could use the whole pool
    order = np.random.default_rng(seed).permutation(len(jobs))
    return submissions.poisson([jobs[place] for place in order.tolist()], seconds / setting.load, seed), pool


def perform(run: Run) -> dict[str, Any]:
    """Simulate a run.

    Parameters
    ----------
    run : Run
        Run of :class:`Arrivals` and a :class:`Choice`.

    Returns
    -------
    dict
        ``turnaround_time_mean`` and ``turnaround_time_95``, the 95th percentile, in seconds; ``makespan``;
        ``decision_50`` and ``decision_98``, milliseconds of processor time within which 50 and 98 percent of the
        decisions are made; ``valid``, None if unchecked.
    """
    setting: Arrivals = run.setting
    jobs, pool = queries(setting, run.seed)
    agent = create(run.agent.policy)
    if isinstance(agent, SearchAgent):
        compile_search()
    timed = DecisionTimes(agent, time.process_time_ns)
    result = simulate(DagCluster(jobs, pool), timed, seed=run.seed)
    middle, high = 1000.0 * np.quantile(timed.seconds, (0.5, 0.98))
    found = result.metrics()
    return {
        "turnaround_time_mean": found["turnaround_time_mean"],
        "turnaround_time_95": float(np.quantile(result.jobs["turnaround_time"].to_numpy(), 0.95)),
        "makespan": found["makespan"],
        "decision_50": float(middle),
        "decision_98": float(high),
        "valid": is_valid(result, jobs, check=setting.stages.check),
    }


@dataclass(frozen=True)
class Online(DataStudy):
    """Times from arrival to completion of the queries of the instances, which arrive as a Poisson process.

    Attributes
    ----------
    data : Path or None
        Directory with ``bihyb/instances.json.gz``. By default, queries are generated.
    seeds : int
        Number of arrival processes; each of the ten instances is used in turn.
    """

    seeds: int = 20

    paper: ClassVar[str] = "bihyb"
    needs_data: ClassVar[bool] = True
    perform = staticmethod(perform)

    def panels(self) -> Sequence[Panel]:
        """Return rules, the network and searches at each load."""
        size = QUICK_SIZE if self.quick and self.data is None else SIZE
        stages = Setting(size, self.place, check=self.quick)
        searches = list(SEARCHES.items())[: 1 if self.quick else None]
        agents = {name: Choice(agent) for name, agent in [*RULES.items(), *searches]} | NETWORK
        return [
            Panel(
                f"{size} queries arrive",
                "load",
                {f"load {load}": Arrivals(stages, load) for load in (LOADS[-1:] if self.quick else LOADS)},
                agents,
            )
        ]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables."""
        (panel,) = frame.panels
        how = f"means of {len(self.seed_list)} seeds"
        for metric, text in (("turnaround_time_mean", "Mean"), ("turnaround_time_95", "95th percentile of the")):
            title = f"{text} time from arrival to completion, s, {how}"
            yield value_table(frame, panel, metric, title, better="lower")
        agents = {row: [row] for row in frame.rows(panel) if row not in RULES}
        title = "How far the mean time from arrival to completion is above that of the best rule, paired by seed"
        yield best_rule_table(frame, panel, "turnaround_time_mean", title, rules=list(RULES), agents=agents)
        for share in (50, 98):
            title = f"Processor time within which {share} % of decisions are made, ms, {how}"
            yield value_table(frame, panel, f"decision_{share}", title, better="lower")
        yield Paragraph(
            "A query takes few units of the pool for long, so that the agents hardly differ while the load is below 1. "
            "The search plans at each arrival and follows its plan until the next one, so that most of its decisions "
            "take little time."
        )
