"""What the studies of this paper have in common: shorter runs than the paper's, and horizons as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import polars as pl

from desim.experiments.drawing import facets
from desim.experiments.frame import Frame
from desim.experiments.ogasched.agents import PARAMETERS, PRINTED, RULES, STEPS, printed
from desim.experiments.ogasched.simulate import Setting, perform
from desim.experiments.report_blocks import Block, Drawing, short, with_interval
from desim.experiments.study import Study
from desim.experiments.tables import Printed, lead_table, value_table
from desim.plotting.page import Table

__all__ = ["METRIC", "RATIO", "OGAStudy", "reward_tables", "steps_table", "with_horizons", "with_ratios"]

METRIC, RATIO = "average_reward", "percent_of_fairness"
QUICK_SLOTS, QUICK_NODES = 12, 32


@dataclass(frozen=True)
class OGAStudy(Study):
    """Settings that all of them take.

    Attributes
    ----------
    seeds : int
        Seeds of systems and arrivals.
    divide_slots : int
        Runs are shorter than the paper's by this factor, but for those over time: rules and the printed algorithm earn
        the same in a tenth of the slots, as table III shows. 1 for the paper's.
    """

    paper: ClassVar[str] = "ogasched"
    perform = staticmethod(perform)

    seeds: int = 5
    divide_slots: int = 8

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        self.require_positive("divide_slots")

    def shorter(self, setting: Setting, **changes: Any) -> Setting:
        """Return a setting with other values, and fewer slots than the paper's."""
        return replace(setting, num_slots=max(1, setting.num_slots // self.divide_slots), **changes)

    def fit(self, setting: Setting) -> Setting:
        """Return a setting in the size that is asked for; a trial has few slots and nodes, and is checked."""
        if not self.quick:
            return setting
        slots, nodes = min(setting.num_slots, QUICK_SLOTS), min(setting.num_nodes, QUICK_NODES)
        return replace(setting, num_slots=slots, num_nodes=nodes, num_ports=min(setting.num_ports, 10), check=True)


def with_horizons(frame: Frame, panel: str) -> Frame:
    """Return a frame in which the rewards until several horizons are columns of a panel ``T``.

    Parameters
    ----------
    frame : Frame
        With metrics such as ``until_1000``.
    panel : str
        Whose.
    """
    until = pl.col("metric").str.starts_with("until_") & (pl.col("panel") == panel)
    rows = frame.data.filter(until).with_columns(
        panel=pl.lit("T"), column=pl.col("metric").str.strip_prefix("until_"), metric=pl.lit(METRIC)
    )
    order = pl.col("column").cast(pl.Int64)
    return Frame(pl.concat([frame.data, rows.sort(order, maintain_order=True)]))


def with_ratios(frame: Frame) -> Frame:
    """Return a frame with a metric more: the reward in percent of Fairness in the same run, where that is above 0.

    Systems differ more than agents do, and ratios are paired by system.
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
    """Yield for each panel its rewards and the leads of the printed algorithm, and one figure.

    Parameters
    ----------
    frame : Frame
        What was measured.
    panels : mapping of str to str
        Panels, and labels of their axes.
    name : str
        Of the figure's file.
    papers : mapping of str to mapping, optional
        The paper's rewards by panel, row and column.
    ratios : bool
        Whether rewards in percent of Fairness are drawn, too.
    **options
        As for :func:`desim.experiments.drawing.facets`.
    """
    papers = papers or {}
    for panel in panels:
        values = papers.get(panel, {})
        title = f"{panel}: average reward" + (" [the paper's]" if values else "")
        yield value_table(frame, panel, METRIC, title, printed=values)
        ours = values.get(PRINTED, {})
        leads = {
            row: {column: 100.0 * (ours[column] / one - 1.0) for column, one in by_column.items()}
            for row, by_column in values.items()
            if row != PRINTED
        }
        title = f"{panel}: {PRINTED} as printed is ahead by, percent" + (" [the paper's]" if values else "")
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
    caption = "Reward of a slot" + (", and the same in percent of Fairness, system by system" if ratios else "")
    caption += ": means with 95 % intervals"
    yield Drawing(f"{name}.png", caption + (", and the paper's." if papers else "."), figure)


def steps_table(frame: Frame) -> Table:
    """Return every cell of table III: the paper's reward, that of algorithm 1 as printed, and of each step to ours."""
    rows = []
    for panel, columns in PARAMETERS.items():
        for column in columns:
            cells = [
                with_interval(frame.estimate(panel, column, row, METRIC)) if frame.has(panel, column, row) else ""
                for row in (*STEPS, *RULES)
            ]
            rows.append([f"{panel} {column}", short(printed(panel)[PRINTED].get(column)), *cells])
    heads = ["", "the paper's OGASched", "as printed", *list(STEPS)[1:], *RULES]
    return Table("Table III: the paper, the algorithm as printed, and the steps to ours", heads, rows)
