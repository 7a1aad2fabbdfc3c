"""Common parts of OSDEC's studies: sizes, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

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


TABLE_1: Mapping[str, tuple[float, float, float]] = {
    "FIFO": (3602.45, -193.64, 3408.82),
    "SJF": (3386.66, -112.06, 3274.66),
    "Tetris": (3689.65, -282.42, 3407.20),
    "REINFORCE": (3560.23, -121.64, 3301.06),
    "PPO": (3596.25, -218.74, 3377.48),
    "PointerNet": (3583.60, -205.76, 3377.91),
    "PPO+Att": (3495.20, -95.66, 3387.22),
    "PPO+Att+AuxH": (3706.87, -101.28, 3444.00),
    "PPO+Att+AuxL": (3737.47, -240.42, 3466.22),
    "OSDEC": (3761.24, -250.25, 3475.37),
}
"""Utilization, time delay and total reward by agent."""

TABLE_2: Mapping[str, tuple[float, float]] = {
    "FIFO": (3611.01, 3449.22),
    "SJF": (3398.76, 3298.38),
    "Tetris": (3696.79, 3503.01),
    "REINFORCE": (3567.80, 3360.28),
    "PPO": (3589.87, 3384.50),
    "PointerNet": (3576.02, 3398.82),
    "PPO+Att": (3525.43, 3340.77),
    "PPO+Att+AuxH": (3708.02, 3411.08),
    "PPO+Att+AuxL": (3744.02, 3442.96),
    "OSDEC": (3781.17, 3521.23),
}
"""Utilization by agent, with windows and in real time, where it is the only objective."""

CASES: Mapping[str, str] = {
    f"{kind} case {number}": f"osdec-{kind}-{number}" for kind in ("core", "duration") for number in (1, 2, 3)
}
"""Columns of table 4, and their workloads."""

TABLE_4: Mapping[str, tuple[float, ...]] = {
    "FIFO": (3651.49, 7469.07, 5009.48, 8693.60, 5536.08, 3467.29),
    "SJF": (3518.63, 5771.45, 4412.64, 7633.65, 5032.28, 3340.02),
    "Tetris": (3856.63, 9144.62, 5537.23, 9475.69, 5923.69, 3633.64),
    "REINFORCE": (3613.78, 7148.49, 4869.69, 8136.24, 5327.90, 3399.00),
    "PPO": (3648.38, 7415.11, 4972.13, 8324.38, 5386.61, 3427.17),
    "PointerNet": (3649.47, 7126.47, 4859.10, 8281.23, 5388.20, 3442.37),
    "PPO+Att": (3662.41, 7957.08, 4663.42, 8248.63, 5472.42, 3357.90),
    "PPO+Att+AuxH": (3707.01, 8425.30, 5096.22, 8571.09, 5592.46, 3536.01),
    "PPO+Att+AuxL": (3781.08, 8560.46, 5430.28, 9113.23, 5876.61, 3595.21),
    "OSDEC": (3884.28, 9200.82, 5565.89, 9593.68, 5853.81, 3631.21),
}
"""Values by agent and case. The paper does not name the metric; we take it to be the total reward."""
