"""Shows a table, a picture, two checks and three numbers of a paper."""

from __future__ import annotations

from dataclasses import dataclass

from desim.cli.output import print_table, print_text
from desim.experiments.beside import Beside, print_beside
from desim.experiments.checks import Check, print_checks
from desim.experiments.drawing import new_figure, write_figure
from desim.experiments.options import Options
from desim.statistics import Estimate, mean_interval

ESTIMATE = mean_interval([9.0, 10.0, 11.0])


@dataclass(frozen=True)
class First(Options):
    """Options of its own."""

    size: int = 3


def first(options: First) -> None:
    print_text("Begins.")
    print_table(["agent", "waiting\ntime, s"], [["FCFS <1>", "12"], ["SJF | *2*", "7"]], title="Waiting & more")
    rows = [
        Beside("makespan, s", 5.0, ESTIMATE, "less"),
        Beside("speedup", 1.0, ESTIMATE, "more"),
        Beside("ratio", 10.5, ESTIMATE),
        Beside("loss", 3.0, Estimate(float("nan"), float("nan"), 0, 0.95)),
    ]
    print_beside(rows, options)
    print_checks([Check("sky is blue", True), Check("pigs fly", False)])
    figure, grid = new_figure(1, 1, width=2.0, height=2.0)
    grid[0, 0].plot([0, 1], [0, 1])
    write_figure(figure, options.directory / "line.png", "A line.")
