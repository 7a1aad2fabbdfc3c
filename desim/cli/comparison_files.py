"""A comparison for programs: JSON and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from desim.cli.comparison import LEVEL, Comparison
from desim.cli.sweep import RunSummary
from desim.records import write_atomically
from desim.statistics import Interval

__all__ = ["document", "write_csv"]


def document(comparison: Comparison, summaries: Sequence[RunSummary]) -> dict[str, Any]:
    """Return everything as plain values.

    Parameters
    ----------
    comparison : Comparison
        Means, differences, tests, ranks.
    summaries : sequence of RunSummary
        The runs.

    Returns
    -------
    dict
        ``means`` and ``differences`` by agent and metric, each with the ends of its interval; ``tests`` by metric and
        agent; ``ranking`` and ``profile``, None where there is none; and ``runs``.
    """
    return {
        "baseline": comparison.baseline,
        "level": LEVEL,
        "interval": comparison.interval,
        "seeds": comparison.seeds,
        "means": _intervals(comparison.means),
        "differences": _intervals(comparison.differences),
        "tests": {
            name: {
                agent: {"difference": test.difference, "p_value": test.p_value, "adjusted": test.adjusted}
                for agent, test in tests.items()
            }
            for name, tests in comparison.tests.items()
        },
        "ranking": _ranking(comparison),
        "profile": _profile(comparison),
        "runs": [
            {
                "agent": summary.scenario.agent,
                "seed": summary.scenario.seed,
                "records": summary.directory,
                "reused": summary.reused,
                "valid": summary.validation["valid"],
                "violations": summary.validation["violations"],
                "workload": summary.workload,
                "metrics": summary.metrics,
            }
            for summary in summaries
        ],
    }


def _intervals(table: Mapping[str, Mapping[str, Interval]]) -> dict[str, Any]:
    return {
        agent: {name: {"mean": item.value, "low": item.low, "high": item.high} for name, item in row.items()}
        for agent, row in table.items()
    }


def _ranking(comparison: Comparison) -> dict[str, Any] | None:
    criterion, ranking = comparison.criterion, comparison.ranking
    if criterion is None or ranking is None:
        return None
    return {
        "metric": criterion.metric,
        "better": criterion.better,
        "mean_ranks": ranking.mean_ranks,
        "critical_difference": ranking.critical_difference,
        "groups": ranking.groups(),
        "friedman": {"statistic": ranking.statistic, "p_value": ranking.p_value},
        "num_scenarios": ranking.num_scenarios,
        "left_out": comparison.left_out,
    }


def _profile(comparison: Comparison) -> dict[str, Any] | None:
    criterion, profile = comparison.criterion, comparison.profile
    if criterion is None or profile is None:
        return None
    shares = {agent: row.tolist() for agent, row in profile.shares.items()}
    return {"metric": criterion.metric, "ratios": profile.ratios.tolist(), "shares": shares}


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
    heads = ["agent", "metric", "seeds", *ends, *(f"difference_{end}" for end in ends)]
    writer.writerow([*heads, "p_value", "p_value_adjusted", "mean_rank"])
    ranks = {} if comparison.ranking is None else comparison.ranking.mean_ranks
    for agent, means in comparison.means.items():
        for name, found in means.items():
            difference = comparison.differences.get(agent, {}).get(name)
            numbers = [*found[:3], *(difference[:3] if difference else [math.nan] * 3)]
            test = comparison.tests.get(name, {}).get(agent)
            numbers += [test.p_value, test.adjusted] if test else [math.nan] * 2
            is_ranked = comparison.criterion is not None and comparison.criterion.metric == name
            numbers.append(ranks.get(agent, math.nan) if is_ranked else math.nan)
            writer.writerow([agent, name, len(comparison.seeds), *map(_number, numbers)])
    write_atomically(path, lambda draft: draft.write_text(text.getvalue()))
    return path


def _number(value: float) -> str:
    return repr(float(value)) if math.isfinite(value) else ""
