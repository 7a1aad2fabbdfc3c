"""How a report is put together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from desim.exceptions import DesimError, InvalidConfiguration
from desim.plotting._metric_names import MARK
from desim.plotting._presentations import Presentation
from desim.plotting._report_runs import ReportedRun, load_reported
from desim.plotting._report_tables import configuration, metric_tables, runs_table, unfinished_note, workload_table
from desim.plotting._style import line_styles
from desim.plotting.comparison import metric_bars
from desim.plotting.html import Cell, figure, page, paragraph, section, table
from desim.plotting.rankings import critical_differences, performance_profiles
from desim.plotting.report import Comparison
from desim.records import write_atomically
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["write_report"]

Metrics = Mapping[str, Mapping[str, float]]


def write_report(
    results: Mapping[str, Result],
    path: Path,
    presentation: Presentation,
    *,
    title: str,
    metrics: Metrics | None = None,
    notes: Sequence[str] = (),
    comparison: Comparison | None = None,
) -> Path:
    """Write a report on results of which this is known; see :func:`desim.plotting.report`."""
    runs = load_reported(results, presentation)
    named = {run.name: run.result for run in runs}
    problems: list[str] = []
    values = _computed(named, problems) if metrics is None else _checked(metrics, runs)
    known = {name: table for name, table in values.items() if table}
    colors = {name: str(style.color) for name, style in line_styles(named).items()}
    left = {run.name: run.left for run in runs if run.left}
    gallery = _Gallery(", ".join(named))
    body = "".join(paragraph(str(text)) for text in notes)
    if comparison is not None:
        body += section("Comparison", *_comparison(comparison, gallery, colors))
    body += section("Runs", runs_table(runs, colors), configuration(runs))
    body += section("Workload", workload_table(runs)) if presentation.workload is not None else ""
    parts = [metric_tables(known, presentation, colors, left)] if known else []
    parts += [paragraph(text, warn=True) for text in problems]
    body += section("Metrics", *parts, unfinished_note(left, presentation, computed_here=metrics is None))
    drawn = _figures(named, known, presentation, left, gallery)
    body += section("Figures", *drawn) if drawn else ""
    text = page(title, body, f"Made with desim {_version()}.")
    write_atomically(path, lambda partial: partial.write_bytes(text.encode("utf-8", "replace")))
    return path


def _computed(results: Mapping[str, Result], problems: list[str]) -> Metrics:
    """Compute the metrics; a run that has none, such as one that crashed, is named among the problems."""
    metrics: dict[str, Mapping[str, float]] = {}
    for name, result in results.items():
        try:
            metrics[name] = result.metrics()
        except DesimError as error:
            metrics[name] = {}
            problems.append(f"{name} has no metrics: {error}")
    return metrics


def _checked(metrics: Metrics, runs: Sequence[ReportedRun]) -> Metrics:
    names = [run.name for run in runs]
    if sorted(metrics) != sorted(names):
        raise InvalidConfiguration(f"metrics are of {sorted(metrics)!r}, want those of the results {sorted(names)!r}")
    return {name: metrics[name] for name in names}


def _version() -> str:
    from desim import __version__

    return __version__


class _Gallery:
    """Numbers the figures of a report."""

    def __init__(self, names: str) -> None:
        self._names = names
        self._count = 0

    def add(self, axes: Axes | list[Axes], caption: str) -> str:
        """Return a figure with its caption and a text for those who cannot see it."""
        drawing = (axes[0] if isinstance(axes, list) else axes).figure.figure
        assert drawing is not None
        self._count += 1
        alt = f"{caption} Runs: {self._names}. The numbers behind it are in the tables of this report."
        return figure(drawing, f"Figure {self._count}. {caption}", alt)


def _comparison(comparison: Comparison, gallery: _Gallery, colors: Mapping[str, str]) -> list[str]:
    """Return what is said about which agents differ."""
    html = []
    for text in comparison.tables:
        rows = [[Cell(cell) for cell in row] for row in text.rows]
        html.append(table(text.title, text.heads, rows, words=text.words))
        html += [paragraph(text.note)] if text.note else []
    if comparison.ranking is not None:
        caption = (
            f"Mean ranks by {comparison.metric}, the best at the left. A bar joins agents that the test cannot tell "
            "apart."
        )
        html.append(gallery.add(critical_differences(comparison.ranking), caption))
    if comparison.profile is not None:
        caption = (
            f"Performance profiles by {comparison.metric}: in which share of the seeds an agent is within how many "
            "times the cost of the best. Higher and further left is better."
        )
        html.append(gallery.add(performance_profiles(comparison.profile, colors=colors), caption))
    return html


def _figures(
    results: Mapping[str, Result],
    metrics: Metrics,
    presentation: Presentation,
    unfinished: Collection[str],
    gallery: _Gallery,
) -> list[str]:
    """Draw the metrics and all figures of the problem; the first of these, which is the largest, comes last."""
    html = []
    if len(results) > 1 and len(metrics) > 1:
        marks = f", values without the jobs that had not finished have a {MARK}" if unfinished else ""
        bars = metric_bars(metrics, presentation, unfinished=unfinished)
        html.append(gallery.add(bars, f"Main metrics side by side: the best value of each is bold{marks}."))
    ordered = list(presentation.figures.values())
    for draw, caption in ordered[1:] + ordered[:1]:
        try:
            html.append(gallery.add(draw(results), caption))
        except InvalidConfiguration as error:  # such as allocations that were not recorded
            html.append(paragraph(f"Not drawn: {error}"))
    return html
