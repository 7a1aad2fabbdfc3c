"""The tables of a report: runs, configuration, workload, metrics."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from desim.plotting._html import Cell, paragraph, swatch, table
from desim.plotting._metric_names import MARK, all_names, compared, format_value, metric_name, selection
from desim.plotting._runs import Run
from desim.plotting._time import time_unit

__all__ = ["configuration", "metric_tables", "runs_table", "unfinished_note", "unfinished_runs", "workload_table"]

STATUSES = ("completed", "killed", "lost", "running", "queued", "rejected")
#: What a table of its own or another column says.
OUTSIDE_CONFIGURATION = ("agent", "seed", "status", "end_time", "num_cores")


def runs_table(runs: Sequence[Run], colors: Mapping[str, str]) -> str:
    """Return who ran, how it ended, and what became of the jobs."""
    unit = time_unit(max(run.end for run in runs))
    heads = ["run", "agent", "seed", "status", "cores", f"end ({unit.name})", *(f"{name} (jobs)" for name in STATUSES)]
    rows = []
    for run in runs:
        counts = _status_counts(run)
        status = str(run.info.get("status", "unknown"))
        rows.append(
            [
                Cell(run.name, before=swatch(colors[run.name])),
                Cell(str(run.info.get("agent") or "unknown")),
                Cell(str(run.info.get("seed", "unknown"))),
                Cell(status, warn=status != "complete"),
                Cell(f"{run.num_cores:,}"),
                Cell(format_value(run.end / unit.seconds)),
                *(Cell(f"{counts.get(name, 0):,}") for name in STATUSES),
            ]
        )
    return table("How the runs ended, and what had become of the jobs by then", heads, rows, words=(1, 3))


def configuration(runs: Sequence[Run]) -> str:
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


def _setting(run: Run, key: str) -> str:
    value = run.info.get(key)
    return "none" if value is None else str(value)


def workload_table(runs: Sequence[Run]) -> str:
    """Return what the jobs were like, once if all runs had the same jobs."""
    columns = ["job_id", "submission_time", "requested_number_of_resources", "requested_time", "run_time"]
    alike = all(
        run.num_cores == runs[0].num_cores and run.jobs.select(columns).equals(runs[0].jobs.select(columns))
        for run in runs
    )
    shown = [("all runs" if len(runs) > 1 else runs[0].name, runs[0])] if alike else [(run.name, run) for run in runs]
    loads = [_workload(run) for _, run in shown]
    time, work = (time_unit(max(load[key] for load in loads)) for key in ("submissions", "work"))
    heads = {
        "jobs": ("jobs", 1.0),
        "submissions": (f"first to last submission ({time.name})", time.seconds),
        "cores_median": ("cores requested, median", 1.0),
        "cores_max": ("cores requested, maximum", 1.0),
        "run_time_median": ("run time, median (s)", 1.0),
        "run_time_max": ("run time, maximum (s)", 1.0),
        "work": (f"cores x run time, sum (core-{work.name})", work.seconds),
        "offered_load": ("offered load", 1.0),
    }
    rows = [
        [Cell(name), *(Cell(format_value(load[key] / scale)) for key, (_, scale) in heads.items())]
        for (name, _), load in zip(shown, loads, strict=True)
    ]
    html = table("What the jobs were like", ["jobs of", *(head for head, _ in heads.values())], rows)
    return html + paragraph(
        "Run times are the actual ones. The offered load is the sum of cores x run time over the cores of the cluster "
        "times the time from first to last submission. Rejected jobs are left out of that sum."
    )


def _workload(run: Run) -> dict[str, float]:
    """Return numbers about the jobs; times in seconds, NaN where there are no jobs."""
    import polars as pl

    cores, run_time, submission = (
        pl.col(name) for name in ("requested_number_of_resources", "run_time", "submission_time")
    )
    numbers = run.jobs.select(
        jobs=pl.len(),
        submissions=submission.max() - submission.min(),
        cores_median=cores.median(),
        cores_max=cores.max(),
        run_time_median=run_time.median(),
        run_time_max=run_time.max(),
        work=(cores * run_time).filter(pl.col("status") != "rejected").sum(),
    ).row(0, named=True)
    values = {name: math.nan if number is None else float(number) for name, number in numbers.items()}
    room = run.num_cores * values["submissions"]
    return values | {"offered_load": values["work"] / room if room > 0 else math.nan}


def metric_tables(
    metrics: Mapping[str, Mapping[str, float]],
    meanings: Mapping[str, str],
    colors: Mapping[str, str],
    unfinished: Collection[str],
) -> str:
    """Return the main metrics, a column each, and all of them, a row each, with the best values in bold."""
    main, everything = selection(metrics, 9), all_names(metrics.values())
    rows = {name: [Cell(*words) for words in compared(name, metrics, unfinished)] for name in everything}
    by_run = [
        [Cell(run, before=swatch(colors[run])), *(rows[name][position] for name in main)]
        for position, run in enumerate(metrics)
    ]
    bold = "; the best value of each column is bold" if len(metrics) > 1 else ""
    html = table(f"Main metrics{bold}", ["run", *(metric_name(name).heading for name in main)], by_run)
    if len(everything) > len(main):
        by_metric = [[Cell(name), *rows[name], Cell(_meaning(name, meanings))] for name in everything]
        heads = ["metric", *metrics, "meaning and unit"]
        full = table("All metrics by the names that programs use", heads, by_metric, words=(len(heads) - 1,))
        html += f"<details>\n<summary>All {len(everything)} metrics</summary>\n{full}</details>\n"
    return html


def _meaning(name: str, meanings: Mapping[str, str]) -> str:
    return meanings.get(name) or metric_name(name).heading


def unfinished_runs(runs: Sequence[Run]) -> dict[str, str]:
    """Return the runs that left jobs behind, and how many of which kind."""
    left = {}
    for run in runs:
        counts = _status_counts(run)
        parts = [f"{counts[status]:,} {status}" for status in ("queued", "running", "lost") if counts.get(status)]
        if parts:
            left[run.name] = ", ".join(parts)
    return left


def unfinished_note(unfinished: Mapping[str, str], *, computed_here: bool) -> str:
    """Say what counts of jobs that had not finished."""
    if not unfinished:
        return paragraph("Every job that was not rejected had finished when its run ended, and is part of the metrics.")
    left = "; ".join(f"{name}: {jobs}" for name, jobs in unfinished.items())
    html = paragraph(f"{MARK} Some jobs had not finished when the run ended ({left}).", warn=True)
    if not computed_here:
        text = "The metrics were handed to this report; whether they count these jobs is for their source to say."
    else:
        text = (
            "Waiting times are those of the jobs that had started, turnaround times and slowdowns those of the jobs "
            "that had finished. The other jobs, which often wait longest, are missing from them. Utilization and "
            "queue length are averages over the time of the run and count every job."
        )
    return html + paragraph(f"{text} Values marked {MARK} should not be compared with those of other runs.")


def _status_counts(run: Run) -> dict[str, int]:
    return dict(run.jobs["status"].cast(str).value_counts().iter_rows())
