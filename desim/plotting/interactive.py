"""Interactive pages: one HTML file with charts, curves, distributions and tables of runs, drawn with Bokeh."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from desim.formatting import DAY, heading, metric_words, nice_count, nice_duration
from desim.plotting.maps import integrals
from desim.plotting.packing import Packed, Pool
from desim.plotting.page import Block, Chart, Paragraph, Section, Table, write_page
from desim.plotting.reports import Metrics, ReportOfRuns
from desim.plotting.runs import title_of
from desim.plotting.views import LOOKS, Curve, Lanes, Map, View
from desim.result import Result
from desim.statistics import LEVEL
from desim.sweep.comparison import Comparison
from desim.sweep.tables import tables as tables_of

if TYPE_CHECKING:
    from desim.problem import ProblemDescriptor
    from desim.tables import Column

__all__ = ["view"]

#: Number of points per distribution curve.
SPREAD_POINTS = 400
#: Number of rectangles that the charts of all runs together show one by one, and the least of one run.
MOST_READABLE, FEWEST_READABLE = 1_500, 250
#: Number of values of a map above which neighbouring slots are averaged.
MOST_CELLS = 2_000_000


def view(
    results: Mapping[str, Result],
    path: str | os.PathLike[str],
    *,
    title: str = "Simulation",
    metrics: Metrics | None = None,
    notes: Sequence[str] = (),
    comparison: Comparison | None = None,
    made: Mapping[str, str] | None = None,
    kind: ProblemDescriptor | None = None,
) -> Path:
    """Write an interactive page about one or several runs of a problem.

    The file is self-contained and needs no network: script, styles and data are inside. It has no date, so the same
    runs give the same file. All charts share one time axis, which moves and zooms as a whole. A job can be found by its
    id, and has the same colour in all charts. No job is omitted: where there are many, pixels show their mean colour;
    where there are few, they are rectangles. Views of very long runs are means over time, which the page says.

    Parameters
    ----------
    results : mapping of str to Result
        Runs by name.
    path : path
        HTML file; an existing file is replaced only when the new one is complete.
    title : str
        Heading of the page.
    metrics : mapping of str to mapping of str to float, optional
        Metrics of every run; default: computed by :meth:`desim.Result.metrics`.
    notes : sequence of str
        Introductory paragraphs, as plain text.
    comparison : Comparison, optional
        Comparison of agents, over more runs than those drawn: its tables, intervals and profiles are shown, too.
    made : mapping of str to str, optional
        Provenance of the runs, such as the command, by heading.
    kind : ProblemDescriptor, optional
        Kind of problem; default: that of the first run.

    Returns
    -------
    Path
        Path of the file.

    Raises
    ------
    InvalidConfiguration
        If the results are not all of one problem, or the metrics are not of these runs.
    RecordError
        If the file cannot be written.
    """
    from bokeh.resources import Resources

    from desim import __version__

    found = ReportOfRuns(results, kind)
    charts = _Charts(found)
    sections = [Section("Summary", [Paragraph(text) for text in notes], "summary")] if notes else []
    if charts.is_drawn:
        what = "Timeline" if len(found.runs) == 1 else "Timelines"
        told = [Paragraph(text) for text in dict.fromkeys(one.note for one in charts.views if one.note)]
        chart = Chart("timeline", "Schedule, and curves over the same time axis")
        sections.append(Section(what, [*told, chart], "timeline"))
    if charts.spreads:
        label = charts.spreads[0]
        sections.append(Section(f"Distribution of {label}", [Chart("spread", f"Distribution of {label}")], "spread"))
    if comparison is not None:
        blocks: list[Block] = [Chart("estimates", "Values of agents with intervals")]
        if comparison.profile is not None:
            blocks.append(Chart("profile", f"Performance profiles by {_criterion(comparison)}"))
        sections.append(Section("Comparison", [*blocks, *tables_of(comparison)], "comparison"))
    values, problems = found.computed() if metrics is None else (found.checked(metrics), [])
    known = {name: table for name, table in values.items() if table}
    tables = found.metric_tables(known) if known else []
    unfinished = found.unfinished(computed_here=metrics is None)
    sections.append(Section("Metrics", [*tables, *problems, *unfinished], "metrics"))
    if found.kind.words.workload is not None:
        sections.append(Section("Workload", found.workload(), "workload"))
    sections.append(Section("Runs and settings", [found.runs_table(), *found.configuration()], "runs"))
    if not charts.is_drawn and (figures := found.figures(known)):
        sections.append(Section("Figures", figures, "figures"))
    rows = [[name, text] for name, text in {**(made or {}), "desim": __version__}.items()]
    sections.append(Section("How this was made", [Table("", ["what", "with"], rows, words=(1,))], "made"))
    data = charts.document(comparison)
    bokeh = Resources(mode="inline", minified=True, components=["bokeh", "bokeh-api"]).js_raw
    scripts = [*(bokeh if data["charts"] or data["curves"] or data["estimates"] else []), _own("view.js")]
    return write_page(
        Path(path),
        title,
        sections,
        f"Made with desim {__version__}; charts by Bokeh.",
        template="view.html.jinja",
        scripts=scripts,
        data=json.dumps(data, allow_nan=False, separators=(",", ":")),
        arrays=charts.pool.text(),
    )


def _own(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


class _Charts:
    """Creates the data of the charts of some runs."""

    def __init__(self, report: ReportOfRuns) -> None:
        self.report, self.kind = report, report.kind
        self.runs: list[Result] = report.runs
        self.views: list[View] = [self.kind.view(run) for run in self.runs]
        ends = [run.span[1] for run in self.runs]
        ends += [float(np.nanmax(part.end, initial=0.0)) for one in self.views for part in _lanes(one)]
        ends += [float(curve.time[-1]) for one in self.views for curve in one.curves.values() if len(curve.time)]
        self.span = min(run.span[0] for run in self.runs), max(*ends, 1e-9)
        self.pool = Pool(*self.span)
        self.is_drawn = any(one.charts or one.curves for one in self.views)
        self.spreads = list(dict.fromkeys(metric_words(one.spread) for one in self.views if one.spread))

    def document(self, comparison: Comparison | None) -> dict[str, Any]:
        """Return everything that the script draws, as plain values."""
        profile = None if comparison is None else comparison.profile
        names = list(self.report.colors)
        return {
            "unit": self.kind.time_unit,
            "span": self.span,
            "opening": self.opening(),
            "looks": LOOKS,
            "runs": [
                {"name": run.name, "title": title_of(run), "color": names.index(run.name), "jobs": len(one.jobs)}
                | {"measured": run.measured_span}
                for run, one in zip(self.runs, self.views, strict=True)
            ],
            "cards": [self._card(one, run) for run, one in zip(self.runs, self.views, strict=True)],
            "charts": [
                self._chart(part, number) | {"name": name, "run": number}
                for name in dict.fromkeys(name for one in self.views for name in one.charts)
                for number, one in enumerate(self.views)
                if (part := one.charts.get(name)) is not None
            ],
            "curves": [self._curves(name) for name in dict.fromkeys(name for one in self.views for name in one.curves)],
            "spread": self._spread(),
            "estimates": [] if comparison is None else list(_estimates(comparison)),
            "profile": None
            if comparison is None or profile is None
            else {
                "label": _criterion(comparison),
                "ratios": np.asarray(profile.ratios).round(5).tolist(),
                "shares": {name: np.asarray(shares).round(5).tolist() for name, shares in profile.shares.items()},
            },
        }

    def opening(self) -> tuple[float, float] | None:
        """Return the busiest part of the time, at most a day, if there are too many rectangles to distinguish."""
        import polars as pl

        charts = [part for one in self.views for part in [*one.charts.values()][:1] if isinstance(part, Lanes)]
        readable = max(FEWEST_READABLE, MOST_READABLE // max(len(charts), 1))
        most = max((len(chart.begin) for chart in charts), default=0)
        if most <= readable:
            return None
        width, is_time = (self.span[1] - self.span[0]) * readable / 2.0 / most, self.kind.time_unit == "s"
        width = min(nice_duration(width), DAY) if is_time else float(nice_count(width))
        edges = np.arange(np.floor(self.span[0] / width), np.ceil(self.span[1] / width) + 1.0) * width
        busy = np.zeros(len(edges) - 1)
        for chart in charts:
            held = chart.look < LOOKS.index("down")
            spans = {"begin": chart.begin, "end": chart.end, "amount": chart.last - chart.first + 1.0}
            busy += integrals(pl.DataFrame(spans).filter(held).with_columns(row=pl.lit(0)), edges, 1)[0]
        first = int(busy.argmax())
        return max(float(edges[first]), self.span[0]), min(float(edges[first + 1]), self.span[1])

    def _columns(self, run: Result) -> dict[str, Column]:
        return {column.name: column for table in self.kind.tables_of(run.info) for column in table.columns}

    def _card(self, one: View, run: Result) -> dict[str, Any]:
        """Return the content of the job cards, by arrival number."""
        import polars as pl

        known = self._columns(run)
        jobs = one.jobs.sort("arrival_number") if "arrival_number" in one.jobs.columns else one.jobs
        columns = []
        for name in one.cards:
            if name not in jobs.columns:
                continue
            series, column = jobs[name], known.get(name)
            entry: dict[str, Any] = {
                "name": name,
                "label": _label(name),
                "unit": column.unit if column is not None else "",
                "meaning": column.meaning if column is not None else "",
                "color": name in one.colors,
            }
            if series.dtype.is_numeric():
                is_time = name.endswith("_time") and name.split("_")[0] in ("submission", "starting", "finish")
                values = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
                entry |= {"kind": "time" if is_time else "number"}
                entry["values"] = self.pool.times(values) if is_time else self.pool.numbers(values)
            else:
                texts = series.cast(pl.String).fill_null("")
                words = texts.unique(maintain_order=True)
                places = texts.replace_strict(words, pl.int_range(len(words), eager=True), return_dtype=pl.Int64)
                entry |= {"kind": "text", "words": words.to_list(), "values": self.pool.numbers(places.to_numpy())}
            columns.append(entry)
        if not one.cards:
            numbers = np.arange(0)
        else:
            numbers = jobs["arrival_number"].to_numpy() if "arrival_number" in jobs.columns else np.arange(len(jobs))
        return {"numbers": self.pool.numbers(numbers), "columns": columns}

    def _chart(self, part: Lanes | Map, number: int) -> dict[str, Any]:
        names = [] if isinstance(part, Lanes) and isinstance(part.rows, int) else [str(name) for name in part.rows]  # type: ignore[union-attr]
        if isinstance(part, Map):
            values, edges = _coarse(part)
            cells = np.where(np.isfinite(values), np.rint(np.clip(values, 0.0, 1.0) * 254), 255).astype(np.uint8)
            packed = {"edges": self.pool.times(edges), "cells": self.pool.numbers(cells.ravel())}
            of: dict[str, Any] = {} if part.things is None else {"things": part.things}
            return {"kind": "map", "label": part.label, "rows": len(names), "names": names} | of | packed
        words = list(dict.fromkeys(part.texts))
        place = {word: index for index, word in enumerate(words)}
        found: dict[str, Any] = {
            "kind": "lanes",
            "label": part.label,
            "rows": len(names) or part.rows,
            "names": names,
            "begin": self.pool.times(part.begin),
            "end": self.pool.times(part.end),
            "words": words,
            "groups": list(part.groups.items()),
            "texts": self.pool.numbers(np.array([place[word] for word in part.texts], dtype=np.int64)),
        }
        for name in ("first", "last", "owner", "look"):
            found[name] = self.pool.numbers(getattr(part, name))
        if part.arrows is not None:
            found["arrows"] = {name: self.pool.times(getattr(part.arrows, name)) for name in ("begin", "end")}
            for name in ("source", "destination", "critical"):
                found["arrows"][name] = self.pool.numbers(getattr(part.arrows, name))
        return found

    def _curves(self, name: str) -> dict[str, Any]:
        """Return a panel of curves."""
        there = [(number, one.curves[name]) for number, one in enumerate(self.views) if name in one.curves]
        first: Curve = there[0][1]
        lines: list[dict[str, Packed | int | None]] = [
            {
                "run": number,
                "time": self.pool.times(curve.time),
                "value": self.pool.numbers(curve.value),
                "bound": None if curve.bound is None else self.pool.numbers(curve.bound),
            }
            for number, curve in there
        ]
        top = 1.05 * first.most if math.isfinite(first.most) else None
        return {"name": name, "label": first.label, "bound": first.bound_label, "top": top, "lines": lines}

    def _spread(self) -> list[dict[str, Any]]:
        """Return, for each run, the complementary distribution of a column: the share of jobs above each value."""
        found = []
        for number, (one, run) in enumerate(zip(self.views, self.runs, strict=True)):
            if not one.spread or one.spread not in one.jobs.columns:
                continue
            values = np.sort(one.spread_values())
            if not len(values):
                continue
            places = np.linspace(0, len(values) - 1, min(len(values), SPREAD_POINTS)).round().astype(int)
            points = np.unique(values[places])
            shares = 1.0 - np.searchsorted(values, points, side="right") / len(values)
            known, metric = self._columns(run), self.kind.metrics[f"{one.spread}_mean"]
            found.append(
                {
                    "run": number,
                    "label": metric_words(one.spread),
                    "unit": known[one.spread].unit if one.spread in known else metric.unit,
                    "count": len(values),
                    "better": metric.better or "",
                    "values": self.pool.numbers(points),
                    "shares": self.pool.numbers(shares),
                }
            )
        return found


def _criterion(comparison: Comparison) -> str:
    """Return the metric that agents are ranked by, in words."""
    return "" if comparison.criterion is None else heading(comparison.criterion.metric, comparison.kind)


def _estimates(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Yield the means, and the mean ranks if there are any, with their intervals, as plain values."""
    by = "bootstrap" if comparison.interval == "bootstrap" else "Student's t"
    note = f"Means over {len(comparison.seeds)} {comparison.pair}s with their {LEVEL:.0%} confidence intervals ({by})."
    for name in comparison.shown:
        metric = comparison.kind.metrics[name]
        rows = [
            [agent, *(_plain(metric.within(one)) for one in row[name][:3])] for agent, row in comparison.means.items()
        ]
        yield {"label": heading(name, comparison.kind), "better": metric.better or "", "note": note, "rows": rows}
    if (ranking := comparison.ranking) is not None:
        half = ranking.critical_difference / 2.0
        last = float(len(ranking.mean_ranks))
        ranks = [[one, rank, max(rank - half, 1.0), min(rank + half, last)] for one, rank in ranking.mean_ranks.items()]
        note = "Mean ranks ± half the critical difference: agents whose bars overlap do not differ significantly "
        note += f"(Nemenyi, {ranking.level:.0%})."
        yield {"label": f"mean rank by {_criterion(comparison)}", "better": "lower", "note": note, "rows": ranks}


def _lanes(one: View) -> list[Lanes]:
    return [part for part in one.charts.values() if isinstance(part, Lanes)]


def _coarse(part: Map) -> tuple[Any, Any]:
    """Return the values of a map averaged over enough slots to limit their number, with the edges of the bins."""
    rows, columns = part.values.shape
    step = -(-rows * columns // MOST_CELLS) or 1
    if step == 1:
        return part.values, part.edges
    starts = np.arange(0, columns, step)
    widths = np.diff(np.append(starts, columns))
    return np.add.reduceat(part.values, starts, axis=1) / widths, np.append(part.edges[:-1][starts], part.edges[-1])


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _label(name: str) -> str:
    """Return the label of a column on a job card."""
    return {
        "submission_time": "submitted",
        "starting_time": "started",
        "finish_time": "finished",
        "requested_number_of_resources": "cores requested",
        "job_id": "job",
        "user_id": "user",
    }.get(name, name.replace("_", " "))
