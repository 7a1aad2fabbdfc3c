"""Common parts of OSDEC's studies: sizes, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from desim.experiments.claims import read_printed
from desim.experiments.drawing import draw_rows
from desim.experiments.frame import Choice, Frame, Panel, agent_of
from desim.experiments.osdec.simulate import OURS, RULES, Setting, learned_rows, perform
from desim.experiments.report_blocks import Drawing
from desim.experiments.study import Study
from desim.plotting.colors import POLICY_COLORS

QUICK_SLOTS = 48


@dataclass(frozen=True)
class OsdecStudy(Study):
    """Study of OSDEC's tables, with 100 trajectories as in the paper."""

    paper: ClassVar[str] = "osdec"
    perform = staticmethod(perform)

    seeds: int = 100

    def seeds_of(self, setting: Setting) -> list[int]:
        """Return the seeds, at most as many as the setting has."""
        return self.seed_list[: setting.seeds]

    def fit(self, setting: Setting) -> Setting:
        """Return the setting; trials have few slots and are checked."""
        return replace(setting, num_slots=QUICK_SLOTS, check=True) if self.quick else setting


def panels_of(
    title: str, parameter: str, columns: Mapping[str, Setting], few: int, *, several: bool = False
) -> list[Panel]:
    """Return the paper's rules on all trajectories, and all agents on the first ones, since learned agents are slow.

    Parameters
    ----------
    title : str
        Beginning of the names of both panels.
    parameter : str
        Name of the parameter that differs between columns.
    columns : mapping of str to Setting
        Settings by column.
    few : int
        Number of trajectories for all agents.
    several : bool
        Whether all trainings of an agent are shown. Default: only the first.
    """
    rows: dict[str, Choice] = {**RULES, **learned_rows(several=several), **OURS}
    fewer = {name: replace(setting, seeds=few) for name, setting in columns.items()}
    return [Panel(f"{title}, rules", parameter, columns, RULES), Panel(f"{title}, agents", parameter, fewer, rows)]


def drawing(
    frame: Frame, panel: str, table: str, cells: Mapping[str, tuple[str, str]], paper: Mapping[str, Mapping[str, float]]
) -> Drawing:
    """Return the figure of a table.

    Parameters
    ----------
    frame : Frame
        Measurements.
    panel : str
        Panel with all agents.
    table : str
        Name of the table in the paper.
    cells : mapping of str to (column, metric)
        What is drawn, by label.
    paper : mapping of str to mapping
        The paper's numbers by label and row.
    """
    rows = frame.rows(panel)
    agents = list(dict.fromkeys(map(agent_of, rows)))
    colors = {row: POLICY_COLORS[agents.index(agent_of(row)) % len(POLICY_COLORS)] for row in rows}
    caption = f"{table.capitalize()} in core-slots: means with 95 % intervals; hollow circles: the paper."
    figure = draw_rows(rows, frame.estimates(panel, cells), paper, colors)
    return Drawing(f"{table.replace(' ', '')}.png", caption, figure)


TABLE_1, TABLE_2, TABLE_4 = read_printed("desim.experiments.osdec").values()
"""The paper's numbers by row and column: parts of the reward; utilization with windows and in real time, where it is
the only objective; and values by case, which the paper does not name, and which we take to be total rewards."""

CASES: Mapping[str, str] = {case: f"osdec-{case.replace(' case ', '-')}" for case in TABLE_4["FIFO"]}
"""Columns of table 4, and their workloads."""
