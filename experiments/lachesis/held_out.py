"""Search over plans, and networks that imitate it, on held-out workloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.lachesis.curves import RANK_UP, ROWS, Queries
from desim.experiments.lachesis.simulate import planning
from desim.experiments.lachesis.workloads import NEED_DATA, WORKLOADS, GeneralSetting, perform_general
from desim.experiments.learning_curves import with_weights
from desim.experiments.report_blocks import Block
from desim.experiments.tables import best_rule_table, value_table

BATCH, STREAM = "all at once", "arriving"

RULES: dict[str, Choice] = {row: ROWS[row] for row in (RANK_UP, "HEFT", "TDCA")} | {
    "CPOP": Choice("cpop"),
    "DLS": planning("dls"),
    "PEFT": Choice("peft"),
    "rank-up-DEFT, planned": planning("rank-up-deft"),
    "rank-up-DEFT, planned, insertion": planning("rank-up-insertion-deft"),
    "portfolio": Choice("portfolio"),
    "rank-up-DEFT, patient": Choice("rank-up-deft-patient"),
    "least work-DEFT, patient": Choice("least-work-deft-patient"),
    "SJF-DEFT, patient": Choice("sjf-deft-patient"),
}
"""Rules; the best of them on each workload is the baseline of all other agents."""

OBJECTIVES = {"makespan": "makespan", "turnaround_time_mean": "completion time"}
"""Metrics that are objectives of searches, and what the tables call them."""

MAKESPAN, COMPLETION, PASSES_MESSAGES = "network, makespan", "network, completion time", "imitating search, messages"
NETWORKS: dict[str, Choice] = {
    MAKESPAN: with_weights("graph", "tpch-makespan"),
    COMPLETION: with_weights("graph", "tpch-completion"),
    **{
        f"imitating search, seed {seed}": with_weights("graph", "local-imitating-search" + f"-seed{seed}" * (seed > 0))
        for seed in range(5)
    },
    PASSES_MESSAGES: with_weights("graph", "messages-imitating-search"),
}
"""Networks of desim. Five trainings of one without message passing between nodes are averaged."""

BUDGETS = (10, 100, 1_000, 10_000)
"""Budgets of the search, in moves per plan: one plan in all if all jobs are submitted together, otherwise one per
arrival, with the first three budgets."""
LOAD = 0.8
"""Load of 24 arriving jobs: work submitted per time, divided by the total speed of all executors."""


@dataclass(frozen=True)
class HeldOut(Queries):
    """Agents compared with the best rule of each workload, which is chosen on the same runs, in its favour."""

    perform = staticmethod(perform_general)

    def panels(self) -> Sequence[Panel]:
        """Return all agents on jobs that are submitted together, and on jobs that arrive over time."""
        planned = NETWORKS | {MAKESPAN: with_weights("graph", "tpch-batch")}
        budgets = BUDGETS[:1] if self.quick else BUDGETS
        once, stream = self._columns(20, 0.0), self._columns(24, LOAD)
        return [
            Panel(BATCH, "workload", once, RULES | planned | searches(budgets)),
            Panel(STREAM, "workload", stream, RULES | NETWORKS | searches(budgets[:3])),
        ]

    def _columns(self, num_jobs: int, load: float) -> dict[str, GeneralSetting]:
        """Return the workloads for which data are available; a trial uses only the first."""
        found = {
            name: replace(one, num_jobs=num_jobs, load=load, data=self.place if one.workload in NEED_DATA else "")
            for name, one in WORKLOADS.items()
            if self.place or one.workload not in NEED_DATA
        }
        return dict(list(found.items())[:1]) if self.quick else found

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the distances of the agents from the best rule of each workload, and decision times."""
        for panel in frame.panels:
            rows = [row for row in frame.rows(panel) if row not in RULES]
            single = [row for row in rows if not row.startswith("imitating search, seed")]
            agents: Mapping[str, Sequence[str]] = {row: [row] for row in single} | {
                "imitating search, mean of 5": [row for row in rows if row not in single]
            }
            for metric, called in OBJECTIVES.items():
                title = f"{panel}: {called} above that of the best rule"
                yield best_rule_table(frame, panel, metric, title, rules=list(RULES), agents=agents)
            yield value_table(
                frame, panel, "decision_98", f"{panel}: processor time within which 98 % of decisions are made, ms"
            )


def searches(budgets: Sequence[int]) -> dict[str, Choice]:
    """Return the searches for each objective, with several budgets in moves."""
    return {
        f"search for {called}, {moves:,} moves": Choice(f"search:dag:{metric}:{moves}")
        for metric, called in OBJECTIVES.items()
        for moves in budgets
    }
