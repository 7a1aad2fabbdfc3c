"""Shows a table, a picture, two checks and three numbers of a paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.blocks import Beside, Besides, Block, Check, Checks, Data, Drawing, Paragraph, Runs, Table
from desim.experiments.drawing import new_figure
from desim.experiments.study import Study
from desim.statistics import Estimate, mean_interval

ESTIMATE = mean_interval([9.0, 10.0, 11.0])


@dataclass(frozen=True)
class First(Study):
    """Settings of its own.

    Attributes
    ----------
    size : int
        A number.
    """

    size: int = 3

    def blocks(self) -> Iterator[Block]:
        yield Runs("first", 2, 3, 61.0)
        yield Paragraph("Begins.")
        yield Table("Waiting & more", ["agent", "waiting\ntime, s"], [["FCFS <1>", "12"], ["SJF | *2*", "7"]])
        rows = [
            Beside("makespan, s", 5.0, ESTIMATE, "less"),
            Beside("speedup", 1.0, ESTIMATE, "more"),
            Beside("ratio", 10.5, ESTIMATE),
            Beside("loss", 3.0, Estimate(float("nan"), float("nan"), 0, 0.95)),
        ]
        yield Besides(rows, self.is_reduced)
        yield Checks([Check("sky is blue", True), Check("pigs fly", False)])
        yield Data({"size": self.size}, [{"a": 1, "b": [1, 2]}, {"a": 2, "c": None}], without="b")
        figure, grid = new_figure(1, 1, width=2.0, height=2.0)
        grid[0, 0].plot([0, 1], [0, 1])
        yield Drawing("line.png", "A line.", figure)
