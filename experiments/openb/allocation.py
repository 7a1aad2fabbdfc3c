"""Allocation of GPUs under six placement policies, compared with the published figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from desim.experiments.drawing import facets
from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.openb.policies import POLICIES
from desim.experiments.openb.simulate import MADE, Setting, perform
from desim.experiments.report_blocks import Block, Drawing, Paragraph
from desim.experiments.study import DataStudy
from desim.experiments.tables import value_table

PANEL = "allocation"
WORKLOADS = ("default", "cpu050", "gpuspec10", "gpushare40", "multigpu20")
"""Workloads with published figures."""
QUICK_NODES = 60


@dataclass(frozen=True)
class Allocation(DataStudy):
    """GPUs in use when 100 and 130 percent have been requested, and curves over the percentage requested.

    Attributes
    ----------
    data : Path or None
        Directory with ``alibaba`` and ``gpu/openb``. By default, nodes and pods are synthetic.
    """

    paper: ClassVar[str] = "openb"
    needs_data: ClassVar[bool] = True
    perform = staticmethod(perform)

    def panels(self) -> Sequence[Panel]:
        """Return the policies on each workload."""
        size = QUICK_NODES if self.quick else 0
        if self.data is None:
            columns = {MADE: Setting(MADE, num_nodes=QUICK_NODES // 3 if self.quick else 400, check=self.quick)}
        else:
            columns = {name: Setting(name, self.place, size, check=self.quick) for name in WORKLOADS}
        return [Panel(PANEL, "workload", columns, {name: Choice(name) for name in POLICIES})]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        if self.data is None:
            yield Paragraph("Without --data, nodes and pods are synthetic, so there are no published figures.")
        how = f"{len(self.seed_list)} orders of arrival"
        for percent in (100, 130):
            title = f"GPUs in use when {percent} percent have been requested, percent, {how}"
            yield value_table(frame, PANEL, f"allocated_at_{percent}", title, better="higher")
        yield value_table(frame, PANEL, "dropped", f"Dropped pods, {how}", better="lower")
        curves = {name: column for column in frame.columns(PANEL) for name in (curve_panel(column),)}
        labels = {
            "unused": "requested but not in use,\npercent of all GPUs",
            "fragmented": "unusable for typical pods,\npercent of the free GPUs",
        }
        figure = facets(frame, labels, dict.fromkeys(curves, "GPUs requested, percent"), titles=curves)
        caption = "GPUs that are requested and exist, but are not in use; and fragmentation. Means with 95 % intervals."
        yield Drawing("allocation.png", caption, figure)


def curve_panel(workload: str) -> str:
    """Return the name of the panel of a workload's curves."""
    return f"{PANEL}, {workload} by percent requested"
