"""The tables of a report: runs, configuration, workload, metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from desim.plotting._metric_names import MARK, all_names, compared, format_value, metric_name, selection
from desim.plotting._presentations import Presentation
from desim.plotting._report_runs import ReportedRun, workload_tables
from desim.plotting._time import TimeUnit, time_unit
from desim.plotting.html import Cell, paragraph, swatch, table

__all__ = ["configuration", "metric_tables", "runs_table", "unfinished_note", "workload_table"]

#: What a table of its own or another column says.
OUTSIDE_CONFIGURATION = ("agent", "seed", "status", "end_time", "num_cores")
#: Settings that are longer are cut.
LONGEST_SETTING = 160


def runs_table(runs: Sequence[ReportedRun], colors: Mapping[str, str]) -> str:
    """Return who ran, how it ended, and what became of the jobs."""
    shown = runs[0].presentation
    unit = _unit(shown, max(run.end for run in runs))
    heads = ["run", "agent", "seed", "status", *([] if shown.size is None else [_size(runs[0])[0]])]
    heads += [f"end ({unit.name})", *(f"{name} (jobs)" for name in shown.statuses)]
    rows = []
    for run in runs:
        status = str(run.info.get("status", "unknown"))
        rows.append(
            [
                Cell(run.name, before=swatch(colors[run.name])),
                Cell(str(run.info.get("agent") or "unknown")),
                Cell(str(run.info.get("seed", "unknown"))),
                Cell(status, warn=status != "complete"),
                *([] if shown.size is None else [Cell(f"{_size(run)[1]:,}")]),
                Cell(format_value(run.end / unit.seconds)),
                *(Cell(f"{run.counts.get(name, 0):,}") for name in shown.statuses),
            ]
        )
    return table("How the runs ended, and what had become of the jobs by then", heads, rows, words=(1, 3))


def _size(run: ReportedRun) -> tuple[str, int]:
    assert run.presentation.size is not None
    return run.presentation.size(run.result)


def _unit(presentation: Presentation, span: float) -> TimeUnit:
    return time_unit(span) if presentation.time_unit == "s" else TimeUnit(presentation.time_unit, 1.0)


def configuration(runs: Sequence[ReportedRun]) -> str:
    """Return the settings, those that all runs share once."""
    keys = [key for key in dict.fromkeys(key for run in runs for key in run.info) if key not in OUTSIDE_CONFIGURATION]
    shared = [key for key in keys if all(_setting(run, key) == _setting(runs[0], key) for run in runs)]
    own = [key for key in keys if key not in shared]
    text = ", ".join(f"{key} = {_setting(runs[0], key)}" for key in shared)
    html = paragraph(f"Settings{' of all runs' if len(runs) > 1 else ''}: {text}.") if shared else ""
    if own:
        rows = [[Cell(run.name), *(Cell(_setting(run, key)) for key in own)] for run in runs]
        html += table("Settings in which the runs differ", ["run", *own], rows, words=range(1, len(own) + 1))
    return html


def _setting(run: ReportedRun, key: str) -> str:
    value = run.info.get(key)
    text = "none" if value is None else str(value)
    return text if len(text) <= LONGEST_SETTING else text[: LONGEST_SETTING - 1] + "…"


def workload_table(runs: Sequence[ReportedRun]) -> str:
    """Return what the jobs were like, once if all runs had the same workload."""
    presentation = runs[0].presentation
    if presentation.workload is None:
        return ""
    same = len({run.info.get("num_cores") for run in runs}) == 1 and _alike(runs)
    shown = [("all runs" if len(runs) > 1 else runs[0].name, runs[0])] if same else [(run.name, run) for run in runs]
    loads = [presentation.workload(run.result) for _, run in shown]
    units = {head: time_unit(max(load[head] for load in loads)) for head in loads[0] if "{}" in head}
    rows = []
    for (name, _), load in zip(shown, loads, strict=True):
        values = (value / units[head].seconds if head in units else value for head, value in load.items())
        rows.append([Cell(name), *(Cell(format_value(value)) for value in values)])
    heads = [head.format(units[head].name) if head in units else head for head in loads[0]]
    return table("What the jobs were like", ["jobs of", *heads], rows) + _paragraph(presentation.remarks.workload)


def _alike(runs: Sequence[ReportedRun]) -> bool:
    first, *others = (workload_tables(run.result, run.presentation) for run in runs)
    return all(other[name].equals(frame) for other in others for name, frame in first.items())


def _paragraph(text: str) -> str:
    return paragraph(text) if text else ""


def metric_tables(
    metrics: Mapping[str, Mapping[str, float]],
    presentation: Presentation,
    colors: Mapping[str, str],
    unfinished: Collection[str],
) -> str:
    """Return the main metrics, a column each, and all of them, a row each, with the best values in bold."""
    main, everything = selection(metrics, 9, presentation), all_names(metrics.values())
    rows = {name: [Cell(*words) for words in compared(name, metrics, unfinished, presentation)] for name in everything}
    by_run = [
        [Cell(run, before=swatch(colors[run])), *(rows[name][position] for name in main)]
        for position, run in enumerate(metrics)
    ]
    bold = "; the best value of each column is bold" if len(metrics) > 1 else ""
    heads = ["run", *(metric_name(name, presentation).heading for name in main)]
    html = table(f"Main metrics{bold}", heads, by_run)
    if len(everything) > len(main):
        by_metric = [[Cell(name), *rows[name], Cell(_meaning(name, presentation))] for name in everything]
        heads = ["metric", *metrics, "meaning and unit"]
        full = table("All metrics by the names that programs use", heads, by_metric, words=(len(heads) - 1,))
        html += f"<details>\n<summary>All {len(everything)} metrics</summary>\n{full}</details>\n"
    return html


def _meaning(name: str, presentation: Presentation) -> str:
    return presentation.meaning_of(name) or metric_name(name, presentation).heading


def unfinished_note(unfinished: Mapping[str, str], presentation: Presentation, *, computed_here: bool) -> str:
    """Say what counts of jobs that had not finished."""
    if not unfinished:
        return _paragraph(presentation.remarks.all_finished)
    left = "; ".join(f"{name}: {jobs}" for name, jobs in unfinished.items())
    html = paragraph(f"{MARK} Some jobs had not finished when the run ended ({left}).", warn=True)
    text = presentation.remarks.left_out
    if not computed_here:
        text = "The metrics were handed to this report; whether they count these jobs is for their source to say."
    return html + paragraph(f"{text} Values marked {MARK} should not be compared with those of other runs.")
