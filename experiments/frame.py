"""Runs as one long table (panel, column, row, seed, metric, value), and what is asked of it."""

from __future__ import annotations

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
from desim.problem import Better
from desim.records import write_atomically
from desim.statistics import Estimate, mean_interval, paired_difference
from desim.sweep import Outcomes, Run, RunFunction, run_all

if TYPE_CHECKING:
    from desim.experiments.study import Study

__all__ = ["FRAME_FILE", "Choice", "Frame", "Panel", "lead_percent", "perform_panels"]

FRAME_FILE = "frame.csv"
"""Name of the frame in the directory of a study."""

SCHEMA = {
    "panel": pl.String(),
    "column": pl.String(),
    "row": pl.String(),
    "seed": pl.Int64(),
    "metric": pl.String(),
    "value": pl.Float64(),
}
CELL = ("panel", "column", "row")
#: Prefix of an entry of an outcome that holds curves: what its points are.
BY = "by "
#: Significant digits of every value, in memory as in files, so that a file says all that was used.
DIGITS = 6


@dataclass(frozen=True)
class Choice:
    """An agent, in plain values.

    Attributes
    ----------
    policy : str
        Its name in the registry of agents.
    parameters : tuple of (str, value)
        What tells it from others of this name, such as a digest of its weights.
    """

    policy: str
    parameters: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Panel:
    """Settings that belong together: the columns of a table, or the points of a figure.

    Attributes
    ----------
    name : str
        Title of the panel.
    parameter : str
        What differs between columns.
    columns : dict of str to dataclass instance
        The settings, by the value of the parameter as text.
    rows : dict of str to agent, or to dict of str to agent
        The agents: one for all columns, or one per column that has any.
    """

    name: str
    parameter: str
    columns: Mapping[str, Any]
    rows: Mapping[str, Any]

    def choice(self, column: str, row: str) -> Any:
        """Return the agent of a cell, None if the cell is empty."""
        found = self.rows[row]
        return found.get(column) if isinstance(found, Mapping) else found

    def cells(self) -> Iterator[tuple[str, str, Any]]:
        """Yield column, row and agent of every cell that is not empty, column by column."""
        for column in self.columns:
            for row in self.rows:
                choice = self.choice(column, row)
                if choice is not None:
                    yield column, row, choice


def perform_panels(study: Study, panels: Sequence[Panel], perform: RunFunction) -> tuple[Frame, Outcomes]:
    """Perform the runs of panels that are not stored yet, and return all of them as a frame.

    Parameters
    ----------
    study : Study
        Sizes, seeds, workers, store.
    panels : sequence of Panel
        What is asked for.
    perform : callable
        Performs a run. Returns numbers by metric; ``valid``, whether the records are; and curves, such as
        ``"by slot"``, which hold for each metric a number per point.

    Returns
    -------
    tuple of Frame and Outcomes
        The frame has a panel more for the curves of each column, ``PANEL, COLUMN by slot``; its columns are the points.
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
    """What was measured: a value per panel, column, row, seed and metric.

    Parameters
    ----------
    data : polars.DataFrame
        Columns ``panel``, ``column``, ``row``, ``seed``, ``metric`` and ``value``, in the order of the study; a value
        that is missing is null.
    """

    def __init__(self, data: pl.DataFrame) -> None:
        self.data = data

    @classmethod
    def of(cls, outcomes: Mapping[tuple[str, str, str, int], Mapping[str, Any]]) -> Frame:
        """Return the frame of outcomes by panel, column, row and seed; see :func:`perform_panels`."""
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
        """Read a frame.

        Parameters
        ----------
        path : Path
            The file, as :meth:`write` leaves it in a directory.

        Raises
        ------
        RecordError
            If there is none, or it is none.
        """
        try:
            return cls(pl.read_csv(path, schema=SCHEMA))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise RecordError(f"{path}: got {error}, expected the frame of a study; run the study again") from error

    def write(self, directory: Path) -> None:
        """Write ``frame.csv`` into a directory, all or nothing."""
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(directory / FRAME_FILE, partial(_write_text, text=self.data.write_csv()))

    # -- what there is ------------------------------------------------------------------------------

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
        """Return the columns of a panel, in order; points of curves, which not every run has, in ascending order."""
        found = list(dict.fromkeys(column for name, column, _ in self._values if name == panel))
        return sorted(found, key=float) if _is_curve(panel) else found

    def rows(self, panel: str) -> list[str]:
        """Return the rows of a panel, in order."""
        return list(dict.fromkeys(row for name, _, row in self._values if name == panel))

    def has(self, panel: str, column: str, row: str, metric: str | None = None) -> bool:
        """Return whether a cell was measured, with a metric if one is named."""
        cell = self._values.get((panel, column, row))
        return cell is not None and (metric is None or metric in cell)

    def without_curves(self) -> Frame:
        """Return the frame without the panels that hold curves."""
        return Frame(self.data.filter(~pl.col("panel").str.contains(f" {BY}", literal=True)))

    @property
    def num_invalid(self) -> int:
        """Number of runs whose records validation has refused."""
        return sum(by.get("valid", {}).get(seed) == 0 for by in self._values.values() for seed in by.get("valid", {}))

    # -- what it comes to ---------------------------------------------------------------------------

    def values(self, panel: str, column: str, row: str, metric: str) -> NDArray[np.float64]:
        """Return a metric by seed.

        Parameters
        ----------
        panel, column, row : str
            The cell.
        metric : str
            Its name.

        Returns
        -------
        numpy.ndarray of shape (num_seeds,)
            In the unit of the metric; NaN where a run has none.

        Raises
        ------
        RecordError
            If there is no such cell, or it has no such metric.
        """
        try:
            return np.array(list(self._values[panel, column, row][metric].values()), dtype=np.float64)
        except KeyError:
            raise RecordError(f"no {metric} of {row} in {panel}, {column}: the study has not measured it") from None

    def estimate(self, panel: str, column: str, row: str, metric: str) -> Estimate:
        """Return the mean of a metric over the seeds; arguments as for :meth:`values`."""
        return mean_interval(self.values(panel, column, row, metric))

    def difference(self, panel: str, column: str, row: str, metric: str, other: str) -> Estimate:
        """Return a metric less that of another row, paired by seed."""
        return paired_difference(self.values(panel, column, row, metric), self.values(panel, column, other, metric))

    def lead(self, panel: str, column: str, row: str, metric: str, other: str) -> Estimate:
        """Return by how many percent a metric is above that of another row, see :func:`lead_percent`."""
        return lead_percent(self.values(panel, column, row, metric), self.values(panel, column, other, metric))

    def best(self, panel: str, column: str, rows: Sequence[str], metric: str, better: Better = "lower") -> str:
        """Return which of some rows has the best mean of a metric in a column; the first one of equals."""
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
        """Compare a row with the best rule of its column, which is chosen on the very runs: that favours the rule.

        Parameters
        ----------
        panel, column : str
            Where.
        row : str or sequence of str
            An agent; or several that count by their mean in each seed, such as trainings from several seeds.
        rules : sequence of str
            The rules.
        metric : str
            What is compared, above 0.
        better : {"lower", "higher"}
            Which way the metric is better.

        Returns
        -------
        tuple of str and Estimate
            The rule, and by how many percent the row's metric is above the rule's, paired by seed.
        """
        rule = self.best(panel, column, rules, metric, better)
        rows = [row] if isinstance(row, str) else row
        ours = np.mean([self.values(panel, column, one, metric) for one in rows], axis=0)
        return rule, lead_percent(ours, self.values(panel, column, rule, metric))


def lead_percent(ours: ArrayLike, theirs: ArrayLike) -> Estimate:
    """Return the mean, over seeds, of the percentage by which ours is above theirs, and its confidence interval.

    Parameters
    ----------
    ours, theirs : array-like of float, shape (n,)
        The same metric of two agents, seed by seed in the same order.

    Returns
    -------
    Estimate
        Of 100 (ours / theirs - 1). NaN where one of these is not above 0: a ratio of a gain to a loss says nothing.
    """
    numerator, denominator = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if not ((numerator > 0) & (denominator > 0)).all():
        return Estimate(math.nan, math.nan, len(denominator), 0.95)
    return mean_interval(100.0 * (numerator / denominator - 1.0))


def _is_curve(panel: str) -> bool:
    return f" {BY}" in panel


def _rounded(value: Any) -> float | None:
    """Return a value with as many digits as files have; None for what is no number."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}")


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
