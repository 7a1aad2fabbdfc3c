"""The ratio of transfer to run times, which the paper does not state: rules, and their gaps to the lower bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.drawing import facets
from desim.experiments.frame import Frame, Panel
from desim.experiments.lachesis.curves import RANK_UP, ROWS, Queries, metric_tables
from desim.experiments.lachesis.simulate import Setting
from desim.experiments.report_blocks import Block, Drawing
from desim.experiments.tables import best_rule_table

RATIOS = (0.5, 1.0, 2.0, 3.0, 3.5, 4.0, 6.0, 8.0)
JOBS = (20, 60)
RULES = ("FIFO-DEFT", "HEFT", "TDCA", RANK_UP)
METRICS = {"speedup": "speedup", "slr": "schedule length ratio", "gap": "gap to the\nlower bound, %"}


@dataclass(frozen=True)
class Scan(Queries):
    """The paper's rules of figures 7 and 8, and rank-up-DEFT, at ratios from 0.5 to 8."""

    def panels(self) -> Sequence[Panel]:
        """Return batches of 20 and 60 jobs, of synthetic and of measured queries."""
        rules = {row: ROWS[row] for row in RULES}
        return [
            Panel(panel_of(count, name), "ratio", {f"{r:g}": Setting(count, ccr=r, data=data) for r in RATIOS}, rules)
            for name, data in self.sources.items()
            for count in JOBS
        ]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        figure = facets(frame, METRICS, dict.fromkeys(frame.panels, "communication to computation"))
        yield Drawing(
            "scan.png", "Rules against the ratio of transfer to run times: means with 95 % intervals.", figure
        )
        for panel in frame.panels:
            yield from metric_tables(frame, panel, METRICS)
            title = f"{panel}: makespan of rank-up-DEFT above that of the best other rule"
            rules = [row for row in RULES if row != RANK_UP]
            yield best_rule_table(frame, panel, "makespan", title, rules=rules, agents={RANK_UP: [RANK_UP]})


def panel_of(num_jobs: int, source: str) -> str:
    """Return the name of a panel."""
    return f"{num_jobs} jobs, {source}"
