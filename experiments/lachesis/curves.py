"""What figures 7 to 9 share: the paper's rivals, batches and streams of jobs, tables and the figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from desim.exceptions import InvalidConfiguration
from desim.experiments.drawing import facets
from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.lachesis.simulate import CALIBRATED, Setting, learned, perform, planning
from desim.experiments.report_blocks import Block, Drawing
from desim.experiments.study import Study
from desim.experiments.tables import best_rule_table, value_table
from desim.problem import Better

__all__ = ["DECIMA", "LACHESIS", "MADE", "MEASURED", "OWN", "RANK_UP", "ROWS", "Curves", "Queries"]

LACHESIS, DECIMA, RANK_UP, OWN = "LACHESIS", "Decima-DEFT", "rank-up-DEFT", "desim's network"
MADE, MEASURED = "made-up queries", "measured queries"

ROWS: dict[str, Choice] = {
    LACHESIS: learned("lachesis", "tpch-lachesis"),
    DECIMA: learned("decima", "tpch-decima"),
    "FIFO-DEFT": Choice("fifo-deft"),
    "SJF-DEFT": Choice("sjf-deft"),
    "HRRN-DEFT": Choice("hrrn-deft"),
    "HEFT": planning("heft"),
    "TDCA": planning("tdca"),
    RANK_UP: Choice("rank-up-deft"),
}
"""The agents of section V-B. Only desim's own is another: a graph network that plans batches, and waits in streams."""

METRICS = {"makespan": "makespan, s", "speedup": "speedup", "slr": "schedule length ratio"}
QUICK_JOBS = 6


@dataclass(frozen=True)
class Queries(Study):
    """What all studies of this paper take; with ``quick`` a run has at most 6 jobs.

    Attributes
    ----------
    data : Path or None
        Directory with measured queries in ``tpch``; without, queries are made up only.
    """

    paper: ClassVar[str] = "lachesis"
    perform = staticmethod(perform)

    data: Path | None = None

    def __post_init__(self) -> None:
        """Check that data are where they should be."""
        super().__post_init__()
        if self.data is not None and not self.data.is_dir():
            raise InvalidConfiguration(f"data: got {str(self.data)!r}, expected a directory")

    def fit(self, setting: Any) -> Any:
        """Return a setting in the size that is asked for; it is checked if that is a trial."""
        if not self.quick:
            return setting
        return replace(setting, num_jobs=min(setting.num_jobs, QUICK_JOBS), check=True)

    @property
    def sources(self) -> Mapping[str, str]:
        """Directories of queries by the name of their panel; nothing for those that are made up."""
        return {MADE: ""} | ({MEASURED: str(self.data.resolve())} if self.data is not None else {})


@dataclass(frozen=True)
class Curves(Queries):
    """Makespans, speedups and schedule length ratios against the number of jobs.

    Attributes
    ----------
    ccr : float
        Ratio of mean transfer time to mean run time.
    """

    title: ClassVar[str]
    counts: ClassVar[Sequence[int]]
    rivals: ClassVar[Sequence[str]]
    """Those that the paper plots."""
    others: ClassVar[Mapping[str, Choice]]
    """What is shown beside them."""
    interval: ClassVar[float] = 0.0
    metrics: ClassVar[Mapping[str, str]] = METRICS

    ccr: float = CALIBRATED

    @property
    def agents(self) -> dict[str, Choice]:
        """All rows."""
        return {row: ROWS[row] for row in (LACHESIS, *self.rivals)} | dict(self.others)

    def panels(self) -> Sequence[Panel]:
        """Return the agents against the number of jobs, on queries that are made up, and on measured ones."""
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

    def seeds_of(self, setting: Any) -> list[int]:
        """Return the seeds, of measured queries three."""
        return self.seed_list[:3] if setting.data else self.seed_list

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield tables and the figure."""
        yield self.drawing(frame, frame.panels, "jobs", self.name)
        for panel in frame.panels:
            yield from self.tables(frame, panel)

    def drawing(self, frame: Frame, panels: Sequence[str], parameter: str, name: str) -> Drawing:
        """Draw the metrics of some panels against their parameter."""
        figure = facets(frame, self.metrics, dict.fromkeys(panels, parameter))
        caption = f"{self.title}. Means over the workloads with 95 % intervals; ratio {self.ccr:g}."
        return Drawing(f"{name}.png", caption, figure)

    def tables(self, frame: Frame, panel: str) -> Iterator[Block]:
        """Yield the metrics of a panel, leads with and without rank-up-DEFT, and times of decisions."""
        for metric, words in [*self.metrics.items(), ("gap", "gap to the lower bound, %")]:
            better: Better = "higher" if metric == "speedup" else "lower"
            yield value_table(frame, panel, metric, f"{panel}: {words}", better=better)
        ours = {row: [row] for row in (LACHESIS, RANK_UP, *self.others) if row in frame.rows(panel)}
        rivals = [row for row in self.rivals if row != RANK_UP]
        for rules, words in ((rivals, "without"), ([*rivals, RANK_UP], "with")):
            title = f"{panel}: makespan above that of the best rival of the paper, {words} rank-up-DEFT"
            yield best_rule_table(frame, panel, "makespan", title, rules=rules, agents=ours)
        for share in (50, 98):
            yield value_table(
                frame, panel, f"decision_{share}", f"{panel}: {share} % of the decisions within, ms of the processor"
            )
