"""Agents compared over seeds: means, paired differences, and how they are written down."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desim.cli.output import Text, print_table, print_text
from desim.cli.sweep import RunSummary
from desim.metrics import Estimate, compare, summarize
from desim.plotting._metric_names import MARK, compared, metric_name
from desim.records import write_atomically

__all__ = ["MAIN", "Comparison", "compare_runs", "document", "print_comparison", "sentences", "write_csv"]

#: Metrics in the tables on the terminal.
MAIN = (
    "waiting_time_mean",
    "waiting_time_p95",
    "bounded_slowdown_mean",
    "queue_length_mean",
    "utilization",
)
LEFT_BEHIND = ("jobs_queued", "jobs_running", "jobs_lost")


@dataclass(frozen=True)
class Comparison:
    """Runs of several agents on the same seeds.

    Attributes
    ----------
    baseline : str
        The agent that the others are compared with.
    seeds : list of int
        In the order of the metrics.
    metrics : dict of str to list of dict
        By agent, the metrics of each seed.
    means : dict of str to dict of str to Estimate
        By agent and metric, over the seeds.
    differences : dict of str to dict of str to Estimate
        The same of each agent minus the baseline, seed by seed; without the baseline.
    """

    baseline: str
    seeds: list[int]
    metrics: dict[str, list[dict[str, float]]]
    means: dict[str, dict[str, Estimate]]
    differences: dict[str, dict[str, Estimate]]

    @property
    def unfinished(self) -> list[str]:
        """Agents of which a run left jobs queued, running or lost."""
        return [agent for agent, runs in self.metrics.items() if any(run[name] for run in runs for name in LEFT_BEHIND)]

    @property
    def table(self) -> dict[str, dict[str, float]]:
        """The means alone, by agent and metric."""
        return {agent: {name: item.mean for name, item in row.items()} for agent, row in self.means.items()}


def compare_runs(summaries: Sequence[RunSummary], baseline: str) -> Comparison:
    """Put the runs of all agents and seeds together.

    Parameters
    ----------
    summaries : sequence of RunSummary
        Every agent on the same seeds.
    baseline : str
        The agent that the others are compared with.

    Returns
    -------
    Comparison
        Means and differences.
    """
    metrics: dict[str, list[dict[str, float]]] = {}
    for summary in summaries:
        metrics.setdefault(summary.scenario.agent, []).append(summary.metrics)
    seeds = list(dict.fromkeys(summary.scenario.seed for summary in summaries))
    return Comparison(baseline, seeds, metrics, summarize(metrics), compare(metrics, baseline))


def print_comparison(comparison: Comparison) -> None:
    """Print the main metrics: means, and differences from the baseline.

    Parameters
    ----------
    comparison : Comparison
        What to print.
    """
    heads = ["agent", *(metric_name(name).heading.replace(", ", ",\n") for name in MAIN)]
    marks = {name: _marks(name, comparison) for name in MAIN}
    rows: list[list[str | Text]] = [
        [agent, *(_cell(_estimate(means[name]), *marks[name][agent]) for name in MAIN)]
        for agent, means in comparison.means.items()
    ]
    count = len(comparison.seeds)
    many = f"means over {count} seeds ± half width of the 95 % confidence interval" if count > 1 else "one run each"
    print_table(heads, rows, title=f"Metrics: {many}; * best")
    if comparison.differences:
        _print_differences(comparison, heads)
    if comparison.unfinished:
        print_text(_unfinished_note(comparison))


def _unfinished_note(comparison: Comparison) -> str:
    return (
        f"{MARK} Runs of {', '.join(comparison.unfinished)} left jobs behind (queued, running or lost), which waiting "
        "times and slowdowns tell nothing of: these are not comparable."
    )


def _cell(text: str, best: bool, partial: bool) -> str | Text:
    return Text(f"{text} *") if best else f"{text} {MARK}" if partial else text


def _print_differences(comparison: Comparison, heads: list[str]) -> None:
    rows = [[agent, *(_difference(comparison, agent, name) for name in MAIN)] for agent in comparison.differences]
    note = ", paired by seed; in brackets if the interval holds 0" if len(comparison.seeds) > 1 else ""
    print_table(heads, rows, title=f"Difference from {comparison.baseline}{note}")


def _marks(name: str, comparison: Comparison) -> dict[str, tuple[bool, bool]]:
    """Tell for each agent whether its mean is the best, and whether it misses unfinished jobs."""
    cells = compared(name, comparison.table, comparison.unfinished)
    return {agent: (best, text.endswith(MARK)) for agent, (text, best) in zip(comparison.means, cells, strict=True)}


def _decimals(value: float) -> int:
    """Return how many decimals show four digits that count."""
    return max(0, 3 - math.floor(math.log10(abs(value)))) if math.isfinite(value) and value else 0


def _estimate(estimate: Estimate, decimals: int | None = None, sign: str = "") -> str:
    if not math.isfinite(estimate.mean):
        return "n/a"
    digits = _decimals(estimate.mean) if decimals is None else decimals
    text = f"{estimate.mean:{sign},.{digits}f}"
    return text if math.isnan(estimate.half_width) else f"{text} ± {estimate.half_width:,.{digits}f}"


def sentences(comparison: Comparison) -> list[str]:
    """Return the main results in words, for a report.

    Parameters
    ----------
    comparison : Comparison
        What to tell.

    Returns
    -------
    list of str
        A paragraph on what the numbers are, and two a metric; for a single seed, at most a warning.
    """
    count, baseline = len(comparison.seeds), comparison.baseline
    notes = [_unfinished_note(comparison)] if comparison.unfinished else []
    if count < 2:
        return notes
    notes.append(
        f"The metrics are means over {count} seeds; all agents had the same jobs. ± stands before half the width of "
        f"the 95 % confidence interval. Differences are those from {baseline}, seed by seed; in brackets if the "
        f"interval holds 0. The tables of runs and jobs, and the figures of single runs, are those of seed "
        f"{comparison.seeds[0]}."
    )
    for name in ("waiting_time_mean", "bounded_slowdown_mean"):
        parts = [f"{agent} {_estimate(means[name])}" for agent, means in comparison.means.items()]
        notes.append(f"{metric_name(name).heading}: {'; '.join(parts)}.")
        parts = [f"{agent} {_difference(comparison, agent, name)}" for agent in comparison.differences]
        if parts:
            notes.append(f"{metric_name(name).heading}, difference from {baseline}: {'; '.join(parts)}.")
    return [note[0].upper() + note[1:] for note in notes]


def _difference(comparison: Comparison, agent: str, name: str) -> str:
    difference = comparison.differences[agent][name]
    scale = comparison.means[comparison.baseline][name].mean or difference.mean
    text = _estimate(difference, _decimals(scale), sign="+")
    return f"({text})" if len(comparison.seeds) > 1 and not difference.excludes(0.0) else text


def document(comparison: Comparison, summaries: Sequence[RunSummary]) -> dict[str, Any]:
    """Return everything as plain values.

    Parameters
    ----------
    comparison : Comparison
        Means and differences.
    summaries : sequence of RunSummary
        The runs.

    Returns
    -------
    dict
        ``means`` and ``differences`` by agent and metric, each with the ends of its interval, and ``runs``.
    """

    def _intervals(table: Mapping[str, Mapping[str, Estimate]]) -> dict[str, Any]:
        return {
            agent: {name: {"mean": item.mean, "low": item.low, "high": item.high} for name, item in row.items()}
            for agent, row in table.items()
        }

    return {
        "baseline": comparison.baseline,
        "level": 0.95,
        "seeds": comparison.seeds,
        "means": _intervals(comparison.means),
        "differences": _intervals(comparison.differences),
        "runs": [
            {
                "agent": summary.scenario.agent,
                "seed": summary.scenario.seed,
                "records": summary.directory,
                "reused": summary.reused,
                "valid": summary.validation["valid"],
                "violations": summary.validation["violations"],
                "metrics": summary.metrics,
            }
            for summary in summaries
        ],
    }


def write_csv(comparison: Comparison, path: Path) -> Path:
    """Write one row for each agent and metric.

    Parameters
    ----------
    comparison : Comparison
        What to write.
    path : Path
        The file.

    Returns
    -------
    Path
        The file. Nothing stands where there is no value.

    Raises
    ------
    RecordError
        If it cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    ends = ("mean", "low", "high")
    writer.writerow(["agent", "metric", "seeds", *ends, *(f"difference_{end}" for end in ends)])
    for agent, means in comparison.means.items():
        for name, estimate in means.items():
            difference = comparison.differences.get(agent, {}).get(name)
            numbers = [*_interval(estimate), *(_interval(difference) if difference else [""] * 3)]
            writer.writerow([agent, name, estimate.num_values, *numbers])
    write_atomically(path, lambda draft: draft.write_text(text.getvalue()))
    return path


def _interval(estimate: Estimate) -> list[str]:
    return [repr(value) if math.isfinite(value) else "" for value in (estimate.mean, estimate.low, estimate.high)]
