"""Common parts of figures 7 to 9: the paper's baselines, batches and streams of jobs, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from desim.experiments.drawing import facets
from desim.experiments.frame import Choice, Frame, Panel, agent_of
from desim.experiments.lachesis.simulate import CALIBRATED, Setting, perform
from desim.experiments.learning_curves import trained_rows, with_weights
from desim.experiments.report_blocks import Block, Drawing
from desim.experiments.study import DataStudy
from desim.experiments.tables import best_rule_table, value_table
from desim.problem import Better

LACHESIS, DECIMA, RANK_UP, OWN = "LACHESIS", "Decima-DEFT", "rank-up-DEFT", "desim's network"
MADE, MEASURED = "made-up queries", "measured queries"

ROWS: dict[str, Choice] = {
    **trained_rows("lachesis", {LACHESIS: "tpch-lachesis"}, several=True),
    DECIMA: with_weights("decima", "tpch-decima"),
    "FIFO-DEFT": Choice("fifo-deft"),
    "SJF-DEFT": Choice("sjf-deft"),
    "HRRN-DEFT": Choice("hrrn-deft"),
    "HEFT": Choice("heft"),
    "TDCA": Choice("tdca"),
    RANK_UP: Choice("rank-up-deft"),
}
"""Agents of section V-B. Desim's network is additional: a graph network that plans batches, and waits in streams."""

RIVALS = ("FIFO-DEFT", "HEFT", "TDCA", DECIMA)
"""Baselines that the paper plots in figures 7 and 8."""
BESIDE = {RANK_UP: ROWS[RANK_UP], OWN: with_weights("graph", "tpch-batch")}
"""Agents that it does not plot there: its HighRankUp-DEFT, and desim's network, which plans batches with insertion."""


def rows_of(*agents: str) -> dict[str, Choice]:
    """Return the rows of some agents in their order, with all their trainings."""
    return {row: choice for agent in agents for row, choice in ROWS.items() if agent_of(row) == agent}


METRICS = {"makespan": "makespan, s", "speedup": "speedup", "slr": "schedule length ratio"}
QUICK_JOBS = 6


@dataclass(frozen=True)
class Queries(DataStudy):
    """Settings of all studies of this paper; with ``quick`` a run has at most 6 jobs.

    Attributes
    ----------
    data : Path or None
        Directory with measured queries in ``tpch``. By default, all queries are synthetic.
    """

    paper: ClassVar[str] = "lachesis"
    perform = staticmethod(perform)

    seeds: int = 5

    def fit(self, setting: Any) -> Any:
        """Return a setting in the requested size; trials are checked."""
        if not self.quick:
            return setting
        return replace(setting, num_jobs=min(setting.num_jobs, QUICK_JOBS), check=True)

    @property
    def sources(self) -> Mapping[str, str]:
        """Directories of measured queries by panel name; empty for synthetic queries."""
        return {MADE: ""} | ({MEASURED: self.place} if self.place else {})


@dataclass(frozen=True)
class Curves(Queries):
    """Makespan, speedup and schedule length ratio against the number of jobs.

    Attributes
    ----------
    ccr : float
        Ratio of mean transfer time to mean run time.
    """

    title: ClassVar[str]
    counts: ClassVar[Sequence[int]]
    rivals: ClassVar[Sequence[str]] = RIVALS
    others: ClassVar[Mapping[str, Choice]] = BESIDE
    interval: ClassVar[float] = 0.0
    metrics: ClassVar[Mapping[str, str]] = METRICS

    ccr: float = CALIBRATED

    @property
    def agents(self) -> dict[str, Choice]:
        """Agents of all rows, several trainings of one agent among them."""
        return rows_of(LACHESIS, *self.rivals) | dict(self.others)

    def panels(self) -> Sequence[Panel]:
        """Return the agents against the number of jobs, on synthetic and on measured queries."""
        return [
            Panel(
                name,
                "jobs",
                {
                    str(count): Setting(count, ccr=self.ccr, mean_interval=self.interval, data=data)
                    for count in self.counts
                },
                self.agents,
            )
            for name, data in self.sources.items()
        ]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        yield self.drawing(frame, frame.panels, "jobs", self.name)
        for panel in frame.panels:
            yield from self.tables(frame, panel)

    def drawing(self, frame: Frame, panels: Sequence[str], parameter: str, name: str) -> Drawing:
        """Return a drawing of the metrics of some panels against their parameter."""
        figure = facets(frame, self.metrics, dict.fromkeys(panels, parameter))
        caption = f"{self.title}. Means over workloads with 95 % intervals; transfer to run time ratio {self.ccr:g}."
        return Drawing(f"{name}.png", caption, figure)

    def tables(self, frame: Frame, panel: str) -> Iterator[Block]:
        """Yield the metrics of a panel, leads with and without rank-up-DEFT, and decision times."""
        yield from metric_tables(frame, panel, {**self.metrics, "gap": "gap to the lower bound, %"})
        ours = {row: [row] for row in (LACHESIS, RANK_UP, *self.others) if row in frame.rows(panel)}
        rivals = [row for row in self.rivals if row != RANK_UP]
        for rules, words in ((rivals, "without"), ([*rivals, RANK_UP], "with")):
            title = f"{panel}: makespan above that of the paper's best baseline, {words} rank-up-DEFT"
            yield best_rule_table(frame, panel, "makespan", title, rules=rules, agents=ours)
        for share in (50, 98):
            yield value_table(
                frame,
                panel,
                f"decision_{share}",
                f"{panel}: processor time within which {share} % of decisions are made, ms",
            )


def metric_tables(frame: Frame, panel: str, metrics: Mapping[str, str]) -> Iterator[Block]:
    """Yield a table per metric of a panel; the best value of a column is bold."""
    for metric, words in metrics.items():
        better: Better = "higher" if metric == "speedup" else "lower"
        yield value_table(frame, panel, metric, f"{panel}: {words.replace(chr(10), ' ')}", better=better)
