"""Makespan of job shops above the best known: rules, search with three budgets, and CP-SAT with the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.jobshop.simulate import CP_SAT, Setting, instances, perform
from desim.experiments.report_blocks import Block, Paragraph
from desim.experiments.study import DataStudy
from desim.experiments.tables import value_table

RULES = {
    "FIFO": "fifo-eft-idle",
    "Shortest job first": "sjf-eft-idle",
    "Least work left": "least-work-eft-idle",
    "Longest path left": "rank-up-eft-idle",
    "HEFT": "heft",
    "CPOP": "cpop",
    "PEFT": "peft",
    "DLS": "dls",
}
"""Agents without search, by their name in tables."""
SECONDS = (0.1, 1.0, 10.0)
"""Limits on the processor time of search and CP-SAT, each with one thread."""
GENERATED, QUICK = ("6 x 6", "10 x 5", "10 x 10", "15 x 15"), ("4 x 4", "6 x 6")
PANEL = "job shops"


@dataclass(frozen=True)
class Gaps(DataStudy):
    """Distance of each agent from the best known makespan of each instance.

    Attributes
    ----------
    data : Path or None
        Directory with ``jobshop/jobshop.json``. By default, instances are generated.
    seeds : int
        Number of seeds of the search; of generated instances as well.
    """

    seeds: int = 3

    paper: ClassVar[str] = "jobshop"
    needs_data: ClassVar[bool] = True
    perform = staticmethod(perform)

    def panels(self) -> Sequence[Panel]:
        """Return rules, searches and CP-SAT on the instances."""
        names: Sequence[str] = QUICK if self.quick else GENERATED
        if self.data is not None:
            names = list(instances(self.place))[: len(QUICK) if self.quick else None]
        limits = SECONDS[:1] if self.quick else SECONDS
        return [
            Panel(
                PANEL,
                "instance",
                {name: Setting(name, self.place, check=self.quick) for name in names},
                {name: Choice(agent) for name, agent in RULES.items()}
                | {f"Search, {limit:g} s": Choice(f"search:dag:makespan:{limit:g}s") for limit in limits}
                | {f"CP-SAT, {limit:g} s": Choice(CP_SAT, (("seconds", limit),)) for limit in limits},
            )
        ]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables."""
        if self.data is None:
            yield Paragraph("Without --data, job shops are generated, and gaps are those to a lower bound.")
        how = f"means of {len(self.seed_list)} seeds"
        above = "lower bound" if self.data is None else "best known makespan"
        yield value_table(frame, PANEL, "gap", f"Gap to the {above}, %, {how}", better="lower")
        yield value_table(frame, PANEL, "makespan", f"Makespan, {how}", better="lower")
        yield value_table(frame, PANEL, "seconds", f"Processor seconds of a run, {how}", better="lower")
        yield Paragraph(
            "Limits are processor times, of one thread each. Search ends before its limit where its makespan meets a "
            "lower bound, and CP-SAT where it has proved the optimum."
        )
