"""Measurements as a long table (panel, column, row, seed, metric, value), and statistics of them."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import RecordError
from desim.files import read_plain, write_atomically
from desim.problem import Better
from desim.statistics import Estimate, mean_interval, paired_difference
from desim.sweep import Outcomes, Run, RunFunction, run_all

if TYPE_CHECKING:
    from desim.experiments.study import Study

__all__ = [
    "FRAME_FILE",
    "SEED",
    "Choice",
    "Frame",
    "Panel",
    "agent_of",
    "crossed_interval",
    "lead_percent",
    "paired_trainings",
    "perform_panels",
    "spread",
]

Floats = NDArray[np.float64]

FRAME_FILE = "frame.csv"
"""Name of the frame's file in the directory of a study."""

SCHEMA = {
    "panel": pl.String(),
    "column": pl.String(),
    "row": pl.String(),
    "seed": pl.Int64(),
    "metric": pl.String(),
    "value": pl.Float64(),
}
CELL = ("panel", "column", "row")
#: Prefix of an outcome's entry with curves; the name of the points follows.
BY = "by "
SEED = ", seed "
"""What stands between an agent and the seed of a further training in the name of a row."""
#: Significant digits of all values, in memory as in files, so that files hold exactly the numbers used.
DIGITS = 6


@dataclass(frozen=True)
class Choice:
    """Agent in plain values.

    Attributes
    ----------
    policy : str
        Name in the registry of agents.
    parameters : tuple of (str, value)
        Further properties that distinguish agents of this name, such as a digest of the weights.
    """

    policy: str
    parameters: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Panel:
    """Group of settings: the columns of a table, or the points of a figure.

    Attributes
    ----------
    name : str
        Title of the panel.
    parameter : str
        Name of the parameter that differs between columns.
    columns : dict of str to dataclass instance
        Settings, by the value of the parameter as text.
    rows : dict of str to agent, or to dict of str to agent
        Agents by row: one for all columns, or one per column that has any.
    """

    name: str
    parameter: str
    columns: Mapping[str, Any]
    rows: Mapping[str, Any]

    def choice(self, column: str, row: str) -> Any:
        """Return the agent of a cell, or None if the cell is empty."""
        found = self.rows[row]
        return found.get(column) if isinstance(found, Mapping) else found

    def cells(self) -> Iterator[tuple[str, str, Any]]:
        """Yield column, row and agent of every nonempty cell, column by column."""
        for column in self.columns:
            for row in self.rows:
                choice = self.choice(column, row)
                if choice is not None:
                    yield column, row, choice


def perform_panels(study: Study, panels: Sequence[Panel], perform: RunFunction) -> tuple[Frame, Outcomes]:
    """Perform the runs of panels that are not stored yet, and return all runs as a frame.

    Parameters
    ----------
    study : Study
        Study with sizes, seeds, workers and store.
    panels : sequence of Panel
        Agents and settings to be measured.
    perform : callable
        Function that performs a run. It returns numbers by metric; ``valid``, whether the records are valid; and
        curves, such as ``"by slot"``, which hold one number per point for each metric.

    Returns
    -------
    tuple of Frame and Outcomes
        Frame and outcomes. Curves form additional panels, ``PANEL, COLUMN by slot``, whose columns are the points.
    """
    runs = {
        (panel.name, column, row, seed): Run(setting, choice, seed)
        for panel in panels
        for column, row, choice in panel.cells()
        for setting in (study.fit(panel.columns[column]),)
        for seed in study.seeds_of(setting)
    }
    found = run_all(perform, list(runs.values()), study.runs, workers=study.workers, title=study.name)
    return Frame.of({key: found[run] for key, run in runs.items()}), found


class Frame:
    """Measurements: one value per panel, column, row, seed and metric.

    Parameters
    ----------
    data : polars.DataFrame
        Columns ``panel``, ``column``, ``row``, ``seed``, ``metric`` and ``value``, in the order of the study; missing
        values are null.
    """

    def __init__(self, data: pl.DataFrame) -> None:
        self.data = data

    @classmethod
    def of(cls, outcomes: Mapping[tuple[str, str, str, int], Mapping[str, Any]]) -> Frame:
        """Return the frame of outcomes, given by panel, column, row and seed; see :func:`perform_panels`."""
        rows: list[tuple[Any, ...]] = []
        for (panel, column, row, seed), outcome in outcomes.items():
            for metric, value in outcome.items():
                if metric.startswith(BY):
                    name = f"{panel}, {column} {metric}"
                    rows += [
                        (name, str(point), row, seed, curve, _rounded(one))
                        for curve, points in value.items()
                        for point, one in points.items()
                        if one is not None
                    ]
                else:
                    rows.append((panel, column, row, seed, metric, _rounded(value)))
        return cls(pl.DataFrame(rows, schema=SCHEMA, orient="row"))

    @classmethod
    def read(cls, path: Path) -> Frame:
        """Read a frame from a file.

        Parameters
        ----------
        path : Path
            File written by :meth:`write`.

        Raises
        ------
        RecordError
            If there is no such file, or it does not hold a frame.
        """
        try:
            return cls(pl.read_csv(io.BytesIO(read_plain(path)), schema=SCHEMA))
        except (OSError, ValueError, pl.exceptions.PolarsError) as error:
            raise RecordError(f"{path}: got {error}, expected the frame of a study; run the study again") from error

    def write(self, directory: Path) -> None:
        """Write ``frame.csv`` into a directory, completely or not at all."""
        directory.mkdir(parents=True, exist_ok=True)
        write = partial(Path.write_text, data=self.data.write_csv(), encoding="utf-8")
        write_atomically(directory / FRAME_FILE, write)

    # -- contents -----------------------------------------------------------------------------------

    @cached_property
    def _values(self) -> dict[tuple[str, str, str], dict[str, dict[int, float]]]:
        found: dict[tuple[str, str, str], dict[str, dict[int, float]]] = {}
        for panel, column, row, seed, metric, value in self.data.iter_rows():
            by_metric = found.setdefault((panel, column, row), {}).setdefault(metric, {})
            by_metric[seed] = math.nan if value is None else value
        return found

    @property
    def panels(self) -> list[str]:
        """Names of the panels, in order."""
        return list(dict.fromkeys(panel for panel, _, _ in self._values))

    def columns(self, panel: str) -> list[str]:
        """Return the columns of a panel, in order; points of curves, which differ between runs, are sorted."""
        found = list(dict.fromkeys(column for name, column, _ in self._values if name == panel))
        return sorted(found, key=float) if _is_curve(panel) else found

    def rows(self, panel: str) -> list[str]:
        """Return the rows of a panel, in order."""
        return list(dict.fromkeys(row for name, _, row in self._values if name == panel))

    def trainings(self, panel: str, row: str) -> list[str]:
        """Return the rows of an agent: one per training if it was trained from several seeds."""
        return [one for one in self.rows(panel) if agent_of(one) == row]

    def has(self, panel: str, column: str, row: str, metric: str | None = None) -> bool:
        """Return whether a cell was measured, optionally with a given metric."""
        cell = self._values.get((panel, column, row))
        return cell is not None and (metric is None or metric in cell)

    def without_curves(self) -> Frame:
        """Return the frame without the panels of curves."""
        return Frame(self.data.filter(~pl.col("panel").str.contains(f" {BY}", literal=True)))

    @property
    def num_invalid(self) -> int:
        """Number of runs whose records failed validation."""
        return sum(by.get("valid", {}).get(seed) == 0 for by in self._values.values() for seed in by.get("valid", {}))

    # -- statistics ---------------------------------------------------------------------------------

    def values(self, panel: str, column: str, row: str, metric: str) -> Floats:
        """Return a metric by seed.

        Parameters
        ----------
        panel, column, row : str
            Names of panel, column and row of the cell.
        metric : str
            Name of the metric.

        Returns
        -------
        numpy.ndarray of shape (num_seeds,)
            Values in the unit of the metric; NaN where a run has none.

        Raises
        ------
        RecordError
            If the cell does not exist or lacks the metric.
        """
        try:
            return np.array(list(self._values[panel, column, row][metric].values()), dtype=np.float64)
        except KeyError:
            raise RecordError(f"no {metric} of {row} in {panel}, {column}: the study has not measured it") from None

    def by_training(self, panel: str, column: str, row: str, metric: str) -> Floats:
        """Return a metric by training and seed, shape (num_trainings, num_seeds); arguments as for :meth:`values`."""
        rows = self.trainings(panel, row)
        return np.array([self.values(panel, column, one, metric) for one in rows if self.has(panel, column, one)])

    def estimate(self, panel: str, column: str, row: str, metric: str) -> Estimate:
        """Return the mean of a metric over the seeds; arguments as for :meth:`values`."""
        return mean_interval(self.values(panel, column, row, metric))

    def estimates(self, panel: str, cells: Mapping[str, tuple[str, str]]) -> dict[str, dict[str, Estimate]]:
        """Return the means of all rows of a panel by label, each of a column and a metric."""
        rows = self.rows(panel)
        return {
            label: {row: self.estimate(panel, column, row, metric) for row in rows}
            for label, (column, metric) in cells.items()
        }

    def means(self, panel: str, row: str, metric: str) -> dict[str, float]:
        """Return the mean of a metric in each column of a panel that has the row."""
        there = (column for column in self.columns(panel) if self.has(panel, column, row, metric))
        return {column: self.estimate(panel, column, row, metric).mean for column in there}

    def difference(self, panel: str, column: str, row: str, metric: str, other: str) -> Estimate:
        """Return the difference of a metric from that of another row, paired by seed."""
        return paired_difference(self.values(panel, column, row, metric), self.values(panel, column, other, metric))

    def lead(self, panel: str, column: str, row: str, metric: str, other: str) -> Estimate:
        """Return the percentage by which a metric exceeds that of another row, see :func:`lead_percent`."""
        return lead_percent(self.values(panel, column, row, metric), self.values(panel, column, other, metric))

    def best(self, panel: str, column: str, rows: Sequence[str], metric: str, better: Better = "lower") -> str:
        """Return the row with the best mean of a metric in a column; ties go to the first."""
        there = [row for row in rows if self.has(panel, column, row, metric)]
        sign = 1.0 if better == "lower" else -1.0
        return min(there, key=lambda row: sign * self.estimate(panel, column, row, metric).mean)

    def against_best(
        self,
        panel: str,
        column: str,
        row: str | Sequence[str],
        rules: Sequence[str],
        metric: str,
        *,
        better: Better = "lower",
    ) -> tuple[str, Estimate]:
        """Compare a row with the best rule of its column; the rule is chosen on the same runs, which favours it.

        Parameters
        ----------
        panel, column : str
            Names of panel and column.
        row : str or sequence of str
            An agent with all its trainings, see ``crossed_interval``; or several rows whose mean per seed counts.
        rules : sequence of str
            Rows of the rules.
        metric : str
            Metric to compare, > 0.
        better : {"lower", "higher"}
            Which values of the metric are better.

        Returns
        -------
        tuple of str and Estimate
            Best rule, and the percentage by which the row's metric exceeds the rule's, paired by seed.
        """
        rule = self.best(panel, column, rules, metric, better)
        if isinstance(row, str):
            ours = self.by_training(panel, column, row, metric)
        else:
            ours = np.mean([self.values(panel, column, one, metric) for one in row], axis=0)
        return rule, lead_percent(ours, self.values(panel, column, rule, metric))


def lead_percent(ours: ArrayLike, theirs: ArrayLike) -> Estimate:
    """Return the mean percentage by which `ours` exceeds `theirs`, with its confidence interval.

    Parameters
    ----------
    ours, theirs : array-like of float, shape (n,) or (num_trainings, n)
        Same metric of two agents, in the same order of seeds; trainings are paired in order, or compared with the only
        one of the other agent.

    Returns
    -------
    Estimate
        Mean of 100 (ours / theirs - 1). NaN if a value is not > 0, because a ratio of a gain to a loss has no meaning.
    """
    numerator, denominator = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if not ((numerator > 0) & (denominator > 0)).all():
        return Estimate(math.nan, math.nan, len(denominator), 0.95)
    return crossed_interval(100.0 * (numerator / denominator - 1.0))


def crossed_interval(values: ArrayLike) -> Estimate:
    """Return the mean of a metric over trainings and workloads, with a confidence interval over both.

    Its half-width is the root of the sum of the squares of two others: that of the means of the trainings, and that of
    the means of the workloads. With one training it is that of the workloads.

    Parameters
    ----------
    values : array-like of float, shape (n,) or (num_trainings, n)
        Metric by training and workload.
    """
    workloads, trainings = _both_intervals(values)
    widths = [one.half_width for one in (workloads, trainings) if one.num_values > 1]
    return workloads._replace(half_width=math.hypot(*widths) if widths else math.nan)


def paired_trainings(ours: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    """Return metrics by training of two agents for comparison: seed with seed, or all with the only one of the other.

    Parameters
    ----------
    ours, theirs : array of float, shape (num_trainings, n)
        See :meth:`Frame.by_training`; seeds of one agent alone are left out.
    """
    number = min(len(ours), len(theirs))
    return (ours, theirs) if number == 1 else (ours[:number], theirs[:number])


def spread(values: Floats) -> str:
    """Return in words the mean of each training and both intervals of :func:`crossed_interval`; empty for one."""
    workloads, trainings = _both_intervals(values)
    if trainings.num_values < 2:
        return ""
    means = ", ".join(f"{mean:.3g}" for mean in values.mean(axis=1))
    halves = f"± {trainings.half_width:.2g} over trainings, ± {workloads.half_width:.2g} over workloads"
    return f"{trainings.num_values} trainings: {means}; {halves}"


def _both_intervals(values: ArrayLike) -> tuple[Estimate, Estimate]:
    """Return the interval of the workloads' means, and that of the trainings' means."""
    table = np.atleast_2d(np.asarray(values, dtype=np.float64))
    return mean_interval(table.mean(axis=0)), mean_interval(table.mean(axis=1))


def agent_of(row: str) -> str:
    """Return the agent of a row, without the seed of its training."""
    return row.partition(SEED)[0]


def _is_curve(panel: str) -> bool:
    return f" {BY}" in panel


def _rounded(value: Any) -> float | None:
    """Return a value rounded to the digits of files; None if it is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}")
