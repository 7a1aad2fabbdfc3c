"""Common parts of this paper's studies: runs shorter than the paper's, and horizons as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import polars as pl

from desim.experiments.drawing import facets
from desim.experiments.frame import Frame
from desim.experiments.ogasched.agents import PRINTED, RULES, STEPS, TABLE_III
from desim.experiments.ogasched.simulate import Setting, perform
from desim.experiments.report_blocks import Block, Drawing, short
from desim.experiments.study import Study
from desim.experiments.tables import Printed, lead_table, measured, metric_table, value_table
from desim.plotting.page import Table

METRIC, RATIO = "average_reward", "percent_of_fairness"
QUICK_SLOTS, QUICK_NODES = 12, 32
WIDE: Mapping[str, Any] = {"width": 7.0, "height": 3.6}
"""Size of a figure's only axes."""


@dataclass(frozen=True)
class OGAStudy(Study):
    """Settings shared by the studies of this paper.

    Attributes
    ----------
    seeds : int
        Number of seeds of systems and arrivals.
    divide_slots : int
        Factor by which runs are shorter than the paper's, except for those over time; 1 for the paper's length. Rules
        and the published algorithm earn the same in a tenth of the slots, as table III shows.
    """

    paper: ClassVar[str] = "ogasched"
    perform = staticmethod(perform)

    seeds: int = 5
    divide_slots: int = 8

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        self.require_positive("divide_slots")

    def shorter(self, setting: Setting, **changes: Any) -> Setting:
        """Return a setting with changed values and fewer slots than in the paper."""
        return replace(setting, num_slots=max(1, setting.num_slots // self.divide_slots), **changes)

    def fit(self, setting: Setting) -> Setting:
        """Return a setting in the requested size; trials have few slots and nodes, and are checked."""
        if not self.quick:
            return setting
        slots, nodes = min(setting.num_slots, QUICK_SLOTS), min(setting.num_nodes, QUICK_NODES)
        return replace(setting, num_slots=slots, num_nodes=nodes, num_ports=min(setting.num_ports, 10), check=True)


def with_horizons(frame: Frame, panel: str) -> Frame:
    """Return a frame with an additional panel ``T``, whose columns are horizons and hold the rewards until then.

    Parameters
    ----------
    frame : Frame
        Frame with metrics such as ``until_1000``.
    panel : str
        Panel of these metrics.
    """
    until = pl.col("metric").str.starts_with("until_") & (pl.col("panel") == panel)
    rows = frame.data.filter(until).with_columns(
        panel=pl.lit("T"), column=pl.col("metric").str.strip_prefix("until_"), metric=pl.lit(METRIC)
    )
    order = pl.col("column").cast(pl.Int64)
    return Frame(pl.concat([frame.data, rows.sort(order, maintain_order=True)]))


def with_ratios(frame: Frame) -> Frame:
    """Return a frame with an additional metric: the reward in percent of Fairness in the same run, if that is > 0.

    Systems differ more than agents do, so ratios are paired by system.
    """
    rewards = frame.data.filter(pl.col("metric") == METRIC)
    theirs = rewards.filter((pl.col("row") == "Fairness") & (pl.col("value") > 0))
    keys = ["panel", "column", "seed"]
    paired = rewards.join(theirs.select(*keys, other="value"), on=keys, maintain_order="left")
    rows = paired.select(
        "panel", "column", "row", "seed", metric=pl.lit(RATIO), value=100.0 * pl.col("value") / pl.col("other")
    )
    return Frame(pl.concat([frame.data, rows]))


def reward_tables(
    frame: Frame,
    panels: Mapping[str, str],
    name: str,
    *,
    papers: Mapping[str, Printed] | None = None,
    ratios: bool = True,
    **options: Any,
) -> Iterator[Block]:
    """Yield, for each panel, its rewards and the leads of the published algorithm; then one figure.

    Parameters
    ----------
    frame : Frame
        Measurements.
    panels : mapping of str to str
        Names of panels, and labels of their axes.
    name : str
        Name of the figure's file, without suffix.
    papers : mapping of str to mapping, optional
        Rewards in the paper by panel, row and column.
    ratios : bool
        Whether to draw rewards in percent of Fairness, too.
    **options
        Options of :func:`desim.experiments.drawing.facets`.
    """
    papers = papers or {}
    for panel in panels:
        values = papers.get(panel, {})
        title = f"{panel}: average reward" + (" [paper]" if values else "")
        yield value_table(frame, panel, METRIC, title, printed=values)
        ours = values.get(PRINTED, {})
        leads = {
            row: {column: 100.0 * (ours[column] / one - 1.0) for column, one in by_column.items()}
            for row, by_column in values.items()
            if row != PRINTED
        }
        title = f"{panel}: lead of {PRINTED} as printed, percent" + (" [paper]" if values else "")
        yield lead_table(frame, panel, METRIC, PRINTED, title, printed=leads)
    marks: dict[tuple[str, str], Printed] = {(panel, METRIC): values for panel, values in papers.items()}
    marks |= {
        (panel, RATIO): {
            row: {column: 100.0 * one / values["Fairness"][column] for column, one in by_column.items()}
            for row, by_column in values.items()
        }
        for panel, values in papers.items()
    }
    metrics = {METRIC: "average reward"} | ({RATIO: "percent of Fairness"} if ratios else {})
    figure = facets(with_ratios(frame) if ratios else frame, metrics, panels, printed=marks or None, **options)
    caption = "Reward per slot" + (", and in percent of Fairness, paired by system" if ratios else "")
    caption += ": means with 95 % intervals"
    yield Drawing(f"{name}.png", caption + (", and the paper's values." if papers else "."), figure)


def over_time(frame: Frame, panel: str, column: str, file: str, caption: str) -> Drawing:
    """Return the figure of the running average rewards in a column of a panel."""
    metrics, curves = {METRIC: "running average reward"}, {f"{panel}, {column} by slot": "slot"}
    return Drawing(file, f"Running average reward: means over seeds{caption}.", facets(frame, metrics, curves, **WIDE))


def slot_tables(frame: Frame, panel: str, column: str, leads: Mapping[str, float] | None = None) -> Iterator[Table]:
    """Yield the reward and its parts in a column of a panel, and the leads of the published algorithm.

    Parameters
    ----------
    frame : Frame
        Measurements.
    panel, column : str
        Names of panel and column.
    leads : mapping of str to float, optional
        Leads in the paper, in percent by row.
    """
    words = {METRIC: "average reward", "average_gain": "gain", "average_overhead": "overhead"}
    yield metric_table(frame, panel, column, words, f"{panel}: means per slot")
    title = f"{panel}: lead of {PRINTED} as printed, percent" + (" [paper]" if leads else "")
    papers = {row: {column: lead} for row, lead in (leads or {}).items()}
    yield lead_table(frame, panel, METRIC, PRINTED, title, printed=papers)


def steps_table(frame: Frame) -> Table:
    """Return all cells of table III: the paper's reward, that of algorithm 1 as printed, and of each step to ours."""
    rows = []
    for panel, printed in TABLE_III.items():
        for column, reward in printed[PRINTED].items():
            cells = [measured(frame, panel, column, row, METRIC) for row in (*STEPS, *RULES)]
            rows.append([f"{panel} {column}", short(reward), *cells])
    heads = ["", "OGASched in the paper", "as printed", *list(STEPS)[1:], *RULES]
    return Table("Table III: the paper, the published algorithm, and the steps to ours", heads, rows)
