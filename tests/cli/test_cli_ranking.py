"""Tests, ranks and performance profiles of ``desim compare``: those of desim.statistics, and their words."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Desim
from scipy import stats

from desim.problem import kind_of
from desim.statistics import (
    bootstrap_interval,
    mean_interval,
    paired_tests,
    performance_profile,
    rank_agents,
    smallest_p_value,
)
from desim.sweep import Run
from desim.sweep.comparison import Comparison, compare_runs, write_csv
from desim.sweep.tables import sentences, tables

VALID = {"valid": True, "counts": {}, "violations": []}
#: Makespans of four agents over eight seeds.
MAKESPANS = {
    "a": [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0],
    "b": [12.0, 12.5, 14.0, 15.0, 15.0, 17.5, 18.0, 19.0],
    "c": [10.1, 10.9, 12.2, 13.1, 13.8, 15.3, 16.1, 16.8],
    "d": [20.0, 22.0, 24.0, 26.0, 28.0, 30.0, 32.0, 34.0],
}


def summaries(values: dict[str, Sequence[float]], left: Sequence[str] = (), workload: str = "w") -> list[Run]:
    """Return runs of ``dag`` with these makespans; some agents left a job behind."""
    found = []
    for agent, row in values.items():
        for seed, value in enumerate(row):
            metrics = {
                "makespan": value,
                "speedup": 100.0 / value if value else 0.0,
                "turnaround_time_mean": value / 2,
                "utilization": 0.5,
                "jobs_running": float(agent in left),
                "jobs_queued": 0.0,
            }
            found.append(Run("", agent, seed, {"metrics": metrics, "validation": VALID, "workload": workload}))
    return found


def compared(values: dict[str, Sequence[float]], baseline: str = "a", **options: Any) -> Comparison:
    return compare_runs(summaries(values), baseline, kind_of("dag"), **options)


def test_numbers_are_those_of_the_metrics_module() -> None:
    found = compared(MAKESPANS)
    assert found.criterion is not None
    assert (found.criterion.metric, found.criterion.better) == ("makespan", "lower")
    expected = rank_agents(MAKESPANS, better="lower")
    assert found.ranking == expected
    profile = performance_profile(MAKESPANS)
    assert found.profile is not None
    assert np.array_equal(found.profile.ratios, profile.ratios)
    assert {name: row.tolist() for name, row in found.profile.shares.items()} == {
        name: row.tolist() for name, row in profile.shares.items()
    }
    assert list(found.tests["makespan"].values()) == paired_tests(MAKESPANS, "a")
    mean = mean_interval(MAKESPANS["b"])
    assert found.means["b"]["makespan"] == (mean.mean, mean.low, mean.high, 0.95)
    difference = mean_interval(np.subtract(MAKESPANS["b"], MAKESPANS["a"]))
    assert found.differences["b"]["makespan"] == (difference.mean, difference.low, difference.high, 0.95)
    assert found.unequal == []


def test_p_values_are_those_of_scipy_adjusted_by_hand() -> None:
    raw = {
        agent: stats.wilcoxon(np.subtract(row, MAKESPANS["a"])).pvalue
        for agent, row in MAKESPANS.items()
        if agent != "a"
    }
    adjusted, least = {}, 0.0
    for factor, agent in zip((3, 2, 1), sorted(raw, key=lambda name: float(raw[name])), strict=True):
        least = max(least, factor * raw[agent])
        adjusted[agent] = min(least, 1.0)
    tests = compared(MAKESPANS).tests["makespan"]
    assert {agent: test.adjusted for agent, test in tests.items()} == pytest.approx(adjusted)
    assert tests["d"].p_value == smallest_p_value(8)


def test_bootstrap_intervals() -> None:
    found = compared(MAKESPANS, interval="bootstrap")
    for agent, row in MAKESPANS.items():
        assert found.means[agent]["makespan"] == bootstrap_interval(row, np.random.default_rng(0))
    difference = np.subtract(MAKESPANS["b"], MAKESPANS["a"])
    assert found.differences["b"]["makespan"] == bootstrap_interval(difference, np.random.default_rng(0))
    table = tables(found)[0]
    low, high = found.means["d"]["makespan"][1:3]
    assert f"27.00 [{low:.2f}, {high:.2f}]" in table.rows[3]
    assert "bootstrap" in table.title


def test_other_metrics_and_directions() -> None:
    speed = compared(MAKESPANS, metric="speedup")
    assert speed.ranking is not None and speed.profile is not None
    assert list(speed.ranking.mean_ranks) == list(rank_agents(MAKESPANS, better="lower").mean_ranks)
    for ratio in (1.0, 1.03, 1.5, 2.1):  # of reciprocals the ratios are the same
        by_time = performance_profile(MAKESPANS, [ratio])
        place = int(np.searchsorted(speed.profile.ratios, ratio + 1e-9)) - 1
        assert all(speed.profile.shares[name][place] == by_time.shares[name][0] for name in MAKESPANS)
    slow = compared(MAKESPANS, metric="makespan", better="higher")
    assert slow.ranking is not None
    assert next(iter(slow.ranking.mean_ranks)) == "d"
    assert compared(MAKESPANS, metric="turnaround_time_mean").shown[0] == "makespan"
    busy = compared(MAKESPANS, metric="utilization", better="lower")
    assert busy.shown[0] == "utilization"
    assert busy.ranking is not None
    assert set(busy.ranking.mean_ranks.values()) == {2.5}


def text_of(comparison: Comparison, beginning: str) -> str:
    (table,) = (table for table in tables(comparison) if table.title.startswith(beginning))
    return "\n".join([table.title, *("|".join(cell.text for cell in row) for row in table.cells), table.note])


def test_letters_join_agents_that_cannot_be_told_apart() -> None:
    found = compared(MAKESPANS)
    assert found.ranking is not None
    groups = found.ranking.groups()
    letters = {row[0]: row[2] for row in next(t for t in tables(found) if t.title.startswith("Ranks")).rows}
    for one in MAKESPANS:
        for other in MAKESPANS:
            together = one == other or any(one in group and other in group for group in groups)
            assert bool(set(letters[one]) & set(letters[other])) == together
    assert f"less than {found.ranking.critical_difference:.2f}" in text_of(found, "Ranks")


def test_profiles_in_a_table() -> None:
    rows = text_of(compared(MAKESPANS), "Performance").splitlines()
    assert rows[1] == "a|62 %|100 %|100 %|100 %|100 %"
    assert rows[4] == "d|0 %|0 %|0 %|0 %|62 %"  # 20 over 10 is within twice, 22 over 10.9 is not


def test_too_few_seeds_are_told() -> None:
    few = {agent: row[:4] for agent, row in MAKESPANS.items()}
    found = compared(few)
    told = (
        "4 seeds are too few for Wilcoxon's signed-rank test of 3 agents: whatever the differences, no adjusted "
        "p-value is below 0.375. Use at least 7 seeds."
    )
    assert text_of(found, "Difference").endswith(told)
    assert sentences(found)[-1].endswith(told)
    assert not any(table.title.startswith("Tests") for table in tables(found))
    assert max(test.adjusted for test in found.tests["makespan"].values()) >= 0.375
    enough = compared({agent: row[:7] for agent, row in MAKESPANS.items()})
    assert enough.tests["makespan"]["d"].adjusted < 0.05
    assert not any("too few" in table.note for table in tables(enough))
    assert compared({agent: row[:2] for agent, row in MAKESPANS.items()}).ranking is None
    two = compared({agent: MAKESPANS[agent] for agent in ("a", "b")})
    assert two.ranking is None
    assert two.profile is not None
    (single,) = (compared({agent: row[:1] for agent, row in MAKESPANS.items()}),)
    assert [table.title for table in tables(single)] == ["Metrics: one run each; * best", "Difference from a"]
    assert sentences(single) == []


def test_the_verdict_in_words() -> None:
    (_, verdict) = sentences(compared(MAKESPANS))
    assert verdict.startswith("By makespan (s), lower is better: a has the best mean, 13.50 ± ")
    assert "Against a: worse are b, d; not significantly different is c (Wilcoxon, Holm, 5 %)." in verdict
    (_, verdict) = sentences(compared(MAKESPANS, "d", metric="speedup"))
    assert "Against d: better are a, b, c (Wilcoxon" in verdict


def test_agents_that_left_jobs_behind_or_have_no_value_are_not_ranked() -> None:
    values = MAKESPANS | {"e": [math.nan, *MAKESPANS["a"][1:]], "f": [1.0] * 8}
    found = compare_runs(summaries(values, left=["f"]), "a", kind_of("dag"))
    assert found.left_out == {"e": "has no makespan for some seed", "f": "left jobs unfinished"}
    assert found.ranking == rank_agents(MAKESPANS, better="lower")
    assert "Not ranked: e has no makespan for some seed; f left jobs unfinished." in text_of(found, "Ranks")
    assert "e" not in found.tests["makespan"]
    assert text_of(found, "Tests").splitlines()[4].startswith("e|n/a|n/a")
    assert "a has the best mean" in sentences(found)[-1]
    assert any("f left jobs unfinished (running or queued)" in text for text in sentences(found))
    rates = compare_runs(summaries(values, left=["f"]), "a", kind_of("dag"), metric="utilization", better="lower")
    assert rates.left_out == {}


def test_costs_have_to_be_above_zero_for_profiles() -> None:
    found = compared(MAKESPANS | {"a": [0.0] * 8})
    assert found.profile is None
    assert found.ranking is not None


def test_other_workloads_are_told() -> None:
    runs = [*summaries({"a": [1.0, 2.0]}), *summaries({"b": [1.0, 2.0]}, workload="other")]
    found = compare_runs(runs, "a", kind_of("dag"))
    assert found.unequal == ["seed 0: workload differs from that of a: b", "seed 1: workload differs from that of a: b"]
    assert "the same workload" not in " ".join(sentences(found))


def test_files(tmp_path: Path) -> None:
    found = compared(MAKESPANS)
    assert found.ranking is not None
    text = json.loads(json.dumps(found.described, default=str))
    assert text["ranking"]["mean_ranks"] == found.ranking.mean_ranks
    assert text["ranking"]["groups"] == [list(group) for group in found.ranking.groups()]
    assert text["tests"]["makespan"]["d"]["p_value"] == found.tests["makespan"]["d"].p_value
    assert text["profile"]["metric"] == "makespan"
    rows = list(csv.DictReader(write_csv(found.table, tmp_path / "c.csv").read_text().splitlines()))
    (row,) = (row for row in rows if row["agent"] == "b" and row["metric"] == "makespan")
    assert float(row["p_value_adjusted"]) == found.tests["makespan"]["b"].adjusted
    assert float(row["mean_rank"]) == found.ranking.mean_ranks["b"]
    (row,) = (row for row in rows if row["agent"] == "a" and row["metric"] == "utilization")
    assert row["p_value"] == row["mean_rank"] == ""


def test_on_the_command_line(desim: Desim) -> None:
    arguments = ["compare", "batch", "--jobs", "40", "--cores", "16", "--agents", "fcfs,easy,sjf", "--seeds", "3"]
    arguments += ["--workers", "1", "--metric", "bounded_slowdown_mean", "--interval", "bootstrap"]
    outcome = desim(*arguments)
    assert outcome.status == 0
    assert "Ranks by bounded slowdown, mean, lower is better: means over 3 seeds" in outcome.out
    assert "3 seeds are too few" in outcome.out
    found = json.loads(desim(*arguments, "--json").out)
    values = {
        agent: [run["metrics"]["bounded_slowdown_mean"] for run in found["runs"] if run["agent"] == agent]
        for agent in found["means"]
    }
    ranking = rank_agents(values, better="lower")
    assert found["ranking"]["mean_ranks"] == ranking.mean_ranks
    assert found["ranking"]["critical_difference"] == ranking.critical_difference
    interval = bootstrap_interval(values["sjf"], np.random.default_rng(0))
    assert found["means"]["sjf"]["bounded_slowdown_mean"] == {
        "mean": interval.value,
        "low": interval.low,
        "high": interval.high,
    }
    assert found["interval"] == "bootstrap"
