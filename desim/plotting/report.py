"""Reports: one HTML file that holds the tables and figures of one or several batch runs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from desim.exceptions import DesimError, InvalidConfiguration
from desim.plotting._html import figure, page, paragraph, section
from desim.plotting._metric_names import MARK
from desim.plotting._report_tables import (
    configuration,
    metric_tables,
    runs_table,
    unfinished_note,
    unfinished_runs,
    workload_table,
)
from desim.plotting._runs import Run, load_runs
from desim.plotting._style import line_styles
from desim.plotting.comparison import compare_metrics
from desim.plotting.curves import queue_length, utilization
from desim.plotting.gantt import gantt
from desim.plotting.waiting import waiting_by_size
from desim.records import write_atomically
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["report"]

Metrics = Mapping[str, Mapping[str, float]]

#: With more runs than these, curves in one panel would hide each other.
MOST_OVERLAID = 4


def report(
    results: Mapping[str, Result],
    path: str | os.PathLike[str],
    *,
    title: str = "Simulation report",
    metrics: Metrics | None = None,
    notes: str | Sequence[str] = (),
) -> Path:
    """Write a report on one or several runs of ``batch``.

    The file needs nothing else: styles and figures are inside, and it has no date, so that the
    same runs make the same file. A figure is a vector graphic unless its pixels are much smaller.

    Parameters
    ----------
    results : mapping of str to Result
        Runs by name.
    path : path
        The HTML file; it appears only once it is complete, and takes the place of one that is there.
    title : str
        Heading of the report.
    metrics : mapping of str to mapping of str to float, optional
        The metrics of every run; by default :meth:`desim.Result.metrics` computes them.
    notes : str or sequence of str
        Paragraphs for the beginning of the report, as plain text.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidConfiguration
        If the results are not those of ``batch``, or the names of the metrics are not theirs.
    RecordError
        If the file cannot be written.
    """
    runs = load_runs(results, ["requested_time", "run_time"])
    if isinstance(results, Result):
        results = {runs[0].name: results}
    problems: list[str] = []
    values = _computed(results, problems) if metrics is None else _checked(metrics, runs)
    colors = {name: str(style.color) for name, style in line_styles([run.name for run in runs]).items()}
    paragraphs = [notes] if isinstance(notes, str) else list(notes)
    body = "".join(paragraph(str(text)) for text in paragraphs)
    body += section("Runs", runs_table(runs, colors), configuration(runs))
    body += section("Workload", workload_table(runs))
    known = {name: table for name, table in values.items() if table}
    left = unfinished_runs(runs)
    parts = [metric_tables(known, _meanings(), colors, left)] if known else []
    parts += [paragraph(text, warn=True) for text in problems]
    body += section("Metrics", *parts, unfinished_note(left, computed_here=metrics is None))
    body += section("Figures", *_figures(results, known, left))
    text = page(title, body, f"Made with desim {_version()}.")
    target = Path(path)
    write_atomically(target, lambda partial: partial.write_bytes(text.encode("utf-8", "replace")))
    return target


def _computed(results: Mapping[str, Result], problems: list[str]) -> Metrics:
    """Compute the metrics; a run that has none, such as one that crashed, is named among the problems."""
    metrics: dict[str, Mapping[str, float]] = {}
    for name, result in results.items():
        try:
            metrics[str(name)] = result.metrics()
        except DesimError as error:
            metrics[str(name)] = {}
            problems.append(f"{name} has no metrics: {error}")
    return metrics


def _checked(metrics: Metrics, runs: Sequence[Run]) -> Metrics:
    names = [run.name for run in runs]
    if sorted(metrics) != sorted(names):
        raise InvalidConfiguration(f"metrics are of {sorted(metrics)!r}, want those of the results {sorted(names)!r}")
    return {name: metrics[name] for name in names}


def _meanings() -> Mapping[str, str]:
    from desim.metrics import BATCH_METRICS

    return BATCH_METRICS


def _version() -> str:
    from desim import __version__

    return __version__


def _figures(results: Mapping[str, Result], metrics: Metrics, unfinished: Collection[str]) -> list[str]:
    """Draw all figures, each with its caption and a text for those who cannot see it."""
    names, several, panels = ", ".join(results), len(results) > 1, len(results) > MOST_OVERLAID
    curves: list[tuple[Axes | list[Axes], str]] = [
        (
            utilization(results, panels=True) if panels else utilization(results),
            "Utilization over time: busy cores as a share of the cores that are up.",
        ),
        (
            queue_length(results, panels=True) if panels else queue_length(results),
            "Queue over time: jobs that have been submitted and are not running, rejected jobs excepted.",
        ),
        (
            waiting_by_size(results),
            "Waiting time by the number of cores requested. Dot: median; bar: 25th to 75th percentile; line: 5th "
            "to 95th. The scale is logarithmic if waiting times are long, and linear near 0.",
        ),
        (
            gantt(results),
            "Gantt charts: which job held which cores when. Neighbouring jobs have different colours, which mean "
            "nothing else. Executions that an outage cut and cores that were down are hatched.",
        ),
    ]
    if several and len(metrics) > 1:
        marks = f", values without the jobs that had not finished have a {MARK}" if unfinished else ""
        bars = compare_metrics(metrics, unfinished=unfinished)
        curves.insert(0, (bars, f"Main metrics side by side: the best value of each is bold{marks}."))
    html = []
    for number, (axes, caption) in enumerate(curves, start=1):
        drawing = (axes[0] if isinstance(axes, list) else axes).figure.figure
        assert drawing is not None
        alt = f"{caption} Runs: {names}. The numbers behind it are in the tables of this report."
        html.append(figure(drawing, f"Figure {number}. {caption}", alt))
    return html
