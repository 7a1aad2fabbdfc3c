"""Measures two rows in two columns, and shows a table and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from desim.experiments.drawing import facets
from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.report_blocks import Block, Drawing, Paragraph, Table
from desim.experiments.study import Study
from desim.experiments.tables import value_table
from desim.sweep import Run


@dataclass(frozen=True)
class Setting:
    """A load."""

    load: float


def perform(run: Run) -> Mapping[str, Any]:
    """Return a waiting time that is longer under a load, and shorter for SJF."""
    wait = 10.0 * run.setting.load + run.seed - 4.0 * (run.agent.policy == "sjf")
    return {"wait": wait, "valid": True, "by job": {"queue": {job: job * wait for job in range(3)}}}


@dataclass(frozen=True)
class First(Study):
    """Settings of its own.

    Attributes
    ----------
    size : int
        A number.
    """

    perform = staticmethod(perform)

    size: int = 3

    def panels(self) -> Sequence[Panel]:
        columns = {"1": Setting(1.0), "2": Setting(2.0)}
        return [Panel("load", "load", columns, {"FCFS <1>": Choice("fcfs"), "SJF | *2*": Choice("sjf")})]

    def show(self, frame: Frame) -> Iterator[Block]:
        yield Paragraph("Begins.")
        yield value_table(frame, "load", "wait", "Waiting & more", better="lower")
        yield Table("", ["agent", "waiting\ntime, s"], [["FCFS", "12"]])
        yield Drawing("line.png", "A line.", facets(frame, {"wait": "waiting time, s"}, {"load": "load"}))
