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
from desim.plotting._metric_names import format_value, metric_name
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
    def unfinished(self) -> int:
        """Number of runs that left jobs queued, running or lost."""
        return sum(any(run[name] for name in LEFT_BEHIND) for runs in self.metrics.values() for run in runs)


def compare_runs(summaries: Sequence[RunSummary], baseline: str) -> Comparison:
    """Put the runs of all agents and seeds together."""
    metrics: dict[str, list[dict[str, float]]] = {}
    for summary in summaries:
        metrics.setdefault(summary.scenario.agent, []).append(summary.metrics)
    seeds = list(dict.fromkeys(summary.scenario.seed for summary in summaries))
    return Comparison(baseline, seeds, metrics, summarize(metrics), compare(metrics, baseline))


def print_comparison(comparison: Comparison) -> None:
    """Print the main metrics: means, and differences from the baseline."""
    heads = ["agent", *(metric_name(name).heading.replace(", ", ",\n") for name in MAIN)]
    best = {name: _best(name, comparison) for name in MAIN}
    rows: list[list[str | Text]] = []
    for agent, means in comparison.means.items():
        cells = [_estimate(means[name]) for name in MAIN]
        rows.append([agent, *(Text(f"{text} *") if agent == best[name] else text for name, text in zip(MAIN, cells, strict=True))])
    count = len(comparison.seeds)
    many = f"means over {count} seeds ± half width of the 95 % confidence interval" if count > 1 else "one run each"
    print_table(heads, rows, title=f"Metrics: {many}; * best")
    if comparison.differences:
        _print_differences(comparison, heads)
    if comparison.unfinished:
        print_text(
            f"{comparison.unfinished} runs left jobs behind (queued, running or lost); waiting times and slowdowns "
            "do not tell what became of these jobs"
        )


def _print_differences(comparison: Comparison, heads: list[str]) -> None:
    rows = []
    for agent, differences in comparison.differences.items():
        cells = []
        for name in MAIN:
            text = _estimate(differences[name], _decimals(comparison.means[comparison.baseline][name].mean), sign="+")
            insignificant = len(comparison.seeds) > 1 and not differences[name].excludes(0.0)
            cells.append(f"({text})" if insignificant else text)
        rows.append([agent, *cells])
    note = ", paired by seed; in brackets if the interval holds 0" if len(comparison.seeds) > 1 else ""
    print_table(heads, rows, title=f"Difference from {comparison.baseline}{note}")


def _best(name: str, comparison: Comparison) -> str | None:
    """Return the agent whose mean is best, None if nothing says what is or all are alike."""
    better = metric_name(name).better
    values = {agent: means[name].mean for agent, means in comparison.means.items() if not math.isnan(means[name].mean)}
    if better is None or len(set(values.values())) < 2:
        return None
    return (min if better == "lower" else max)(values, key=values.__getitem__)


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
    """Return the main results in words, for a report."""
    count, baseline = len(comparison.seeds), comparison.baseline
    if count < 2:
        return []
    texts = [
        f"The metrics are means over {count} seeds; every agent had the same jobs. ± is the half width of the 95 % "
        f"confidence interval, of the difference from {baseline} seed by seed. The figures show seed "
        f"{comparison.seeds[0]}."
    ]
    for agent, means in comparison.means.items():
        parts = []
        for name in ("waiting_time_mean", "bounded_slowdown_mean"):
            known, digits = metric_name(name), _decimals(comparison.means[baseline][name].mean)
            part = f"{known.heading} {_estimate(means[name])}"
            if agent != baseline:
                difference = comparison.differences[agent][name]
                verdict = "" if difference.excludes(0.0) else ", not significant"
                part += f" (difference {_estimate(difference, digits, '+')}{verdict})"
            parts.append(part)
        texts.append(f"{agent}: {'; '.join(parts)}.")
    return texts


def document(comparison: Comparison, summaries: Sequence[RunSummary]) -> dict[str, Any]:
    """Return everything as plain values."""

    def intervals(table: Mapping[str, Mapping[str, Estimate]]) -> dict[str, Any]:
        return {
            agent: {name: {"mean": item.mean, "low": item.low, "high": item.high} for name, item in row.items()}
            for agent, row in table.items()
        }

    return {
        "baseline": comparison.baseline,
        "level": 0.95,
        "seeds": comparison.seeds,
        "means": intervals(comparison.means),
        "differences": intervals(comparison.differences),
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
    """Write one row for each agent and metric; nothing stands where there is no value."""
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
