"""Tables of a frame: values, leads of a row over others, and distances from the best rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from desim.experiments.frame import Frame
from desim.experiments.report_blocks import short, with_interval
from desim.plotting.page import Cell, Table
from desim.problem import Better
from desim.statistics import Estimate

__all__ = ["Printed", "best_rule_table", "lead_table", "measured", "metric_table", "value_table"]

Printed = Mapping[str, Mapping[str, float]]
"""Numbers of a paper, by row and then by column."""


def value_table(
    frame: Frame, panel: str, metric: str, title: str, *, printed: Printed | None = None, better: Better | None = None
) -> Table:
    """Return a table of means of a metric: one row per row of a panel, one column per column.

    Parameters
    ----------
    frame : Frame
        Measurements.
    panel, metric : str
        Names of panel and metric.
    title : str
        Title of the table.
    printed : mapping, optional
        Numbers of the paper, shown in brackets.
    better : {"lower", "higher"}, optional
        Which values of the metric are better; the best mean of a column is bold.
    """
    columns, rows = frame.columns(panel), _rows(frame, panel, metric)
    best = {} if better is None else {column: frame.best(panel, column, rows, metric, better) for column in columns}

    def cell(row: str, column: str) -> Cell:
        text, paper = measured(frame, panel, column, row, metric), (printed or {}).get(row, {}).get(column)
        return Cell(f"{text} [{short(paper)}]" if text and paper is not None else text, bold=best.get(column) == row)

    return Table(title, ["", *columns], [[row, *(cell(row, column) for column in columns)] for row in rows])


def measured(frame: Frame, panel: str, column: str, row: str, metric: str) -> str:
    """Return the mean of a metric with its interval as text; empty if the cell lacks the metric."""
    there = frame.has(panel, column, row, metric)
    return with_interval(frame.estimate(panel, column, row, metric)) if there else ""


def metric_table(frame: Frame, panel: str, column: str, metrics: Mapping[str, str], title: str) -> Table:
    """Return a table of several metrics in one column: one row per row of the panel, one column per metric.

    Parameters
    ----------
    frame : Frame
        Measurements.
    panel, column : str
        Names of panel and column.
    metrics : mapping of str to str
        Names of metrics, and their labels.
    title : str
        Title of the table.
    """
    rows = [
        [row, *(measured(frame, panel, column, row, metric) for metric in metrics)]
        for row in frame.rows(panel)
        if frame.has(panel, column, row)
    ]
    return Table(title, ["", *metrics.values()], rows)


def lead_table(
    frame: Frame, panel: str, metric: str, reference: str, title: str, *, printed: Printed | None = None
) -> Table:
    """Return a table of percentages by which a row exceeds the others, paired by seed; or differences, if not all > 0.

    Parameters
    ----------
    frame : Frame
        Measurements.
    panel, metric : str
        Names of panel and metric.
    reference : str
        Row that is compared with the others.
    title : str
        Title of the table.
    printed : mapping, optional
        Leads of the paper in percent, shown in brackets.
    """
    columns = [column for column in frame.columns(panel) if frame.has(panel, column, reference, metric)]

    def cell(row: str, column: str) -> str:
        if not frame.has(panel, column, row, metric):
            return ""
        lead = frame.lead(panel, column, reference, metric, row)
        text = with_interval(lead, digits=2)
        if lead.mean != lead.mean:  # NaN: a ratio of negative values has no meaning
            text = f"by {with_interval(frame.difference(panel, column, reference, metric, row))}"
        paper = (printed or {}).get(row, {}).get(column)
        return text if paper is None else f"{text} [{paper:+.2f}]"

    rows = [row for row in _rows(frame, panel, metric) if row != reference]
    return Table(title, ["", *columns], [[row, *(cell(row, column) for column in columns)] for row in rows])


def best_rule_table(
    frame: Frame,
    panel: str,
    metric: str,
    title: str,
    *,
    rules: Sequence[str],
    agents: Mapping[str, Sequence[str]],
    better: Better = "lower",
) -> Table:
    """Return a table of percentages by which agents exceed the best rule per column, see :meth:`Frame.against_best`.

    Parameters
    ----------
    frame : Frame
        Measurements.
    panel : str
        Panel whose columns are workloads.
    metric, title : str
        Metric to compare, and title of the table.
    rules : sequence of str
        Rows of the rules.
    agents : mapping of str to sequence of str
        Rows of each agent by its name; several rows, such as five trainings, count by their mean.
    better : {"lower", "higher"}
        Which values of the metric are better.
    """
    table = []
    for column in frame.columns(panel):
        rule = frame.best(panel, column, rules, metric, better)
        leads: list[Estimate | None] = [
            frame.against_best(panel, column, rows, rules, metric, better=better)[1]
            if all(frame.has(panel, column, row, metric) for row in rows)
            else None
            for rows in agents.values()
        ]
        value = short(frame.estimate(panel, column, rule, metric).mean)
        table.append([column, rule, value, *(with_interval(lead, digits=1) for lead in leads)])
    return Table(title, ["", "best rule", "its value", *(f"{name}, %" for name in agents)], table, (1,))


def _rows(frame: Frame, panel: str, metric: str) -> list[str]:
    columns = frame.columns(panel)
    return [row for row in frame.rows(panel) if any(frame.has(panel, column, row, metric) for column in columns)]
