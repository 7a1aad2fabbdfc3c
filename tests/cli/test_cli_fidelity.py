"""``--recorded-waits``: agents beside the waits of a log, stored, and refused where there is nothing to compare."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import HEADER, Desim

#: (number, submit, wait, run, cores, queue): what FCFS does on eight cores, but job 4 waits an hour for nobody knows
#: what, and job 5 has no record.
ROWS = [
    (1, 0, 0, 5_000, 8, "long"),
    (2, 10, 4_990, 100, 4, "short"),
    (3, 20, 4_980, 100, 4, "short"),
    (4, 6_000, 3_600, 100, 1, "short"),
    (5, 9_000, -1, 100, 1, "odd"),
]


@pytest.fixture
def waits(tmp_path: Path) -> Path:
    path = tmp_path / "waits.swf"
    rows = [
        f"{number} {submit} {wait} {run} {cores} -1 -1 {cores} {run} -1 1 1 -1 -1 -1 -1 -1 -1 x {queue}"
        for number, submit, wait, run, cores, queue in ROWS
    ]
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def test_known_answers(desim: Desim, waits: Path, tmp_path: Path, no_figures: None) -> None:
    agents = f"fcfs,lcfs,replay:{waits}"
    command = ("compare", "batch", "--trace", waits, "--agents", agents, "--recorded-waits", "--metric", "wait_near")
    command = (*command, "--workers", 1, "--out", tmp_path / "out")
    outcome = desim(*command)
    assert outcome.status == 0, outcome.err
    assert "wait near" in outcome.out
    found = json.loads((tmp_path / "out" / "comparison.json").read_text())
    means = {agent: {name: one["mean"] for name, one in row.items()} for agent, row in found["means"].items()}
    fcfs, lcfs, recorded = means.values()
    assert [one["wait_near"] for one in (fcfs, lcfs, recorded)] == [0.75, 0.75, 1.0]
    assert {one["no_wait_near"] for one in means.values()} == {0.25}
    assert fcfs["wait_error_mean"] == 3_600 / 4 and recorded["wait_error_mean"] == 0.0
    assert recorded["wait_distance"] == 0.0 and recorded["wait_rank_correlation"] == pytest.approx(1.0)
    again = desim(*command, "--warm-up", 15, "--json")  # metrics are computed again from the stored records
    assert "0 runs to do, 3 already stored" in again.err
    assert json.loads(again.out)["means"]["fcfs"]["wait_near"]["mean"] == 0.5


def test_windows_compare_the_jobs_that_they_measure(desim: Desim, waits: Path) -> None:
    command = ("compare", "batch", "--trace", waits, "--agents", "fcfs", "--recorded-waits", "--workers", 1, "--json")
    found = json.loads(desim(*command, "--split", "3000", "--warm-up", "3000").out)
    (run,) = (one for one in found["runs"] if one["window"][0] == 0)
    assert run["metrics"]["wait_near"] == 0.0  # of job 4 alone


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--recorded-waits: got lublin, expected a log with --trace FILE"),
        (("--trace", "LOG", "--load", "0.5"), "that is simulated as it is: without"),
    ],
)
def test_refusals(desim: Desim, waits: Path, arguments: tuple[str, ...], message: str) -> None:
    given = (waits if word == "LOG" else word for word in arguments)
    outcome = desim("compare", "batch", "--jobs", "5", "--agents", "fcfs", "--recorded-waits", *given)
    assert outcome.status == 2
    assert message in outcome.err


def test_a_log_without_waits(desim: Desim, log: Path) -> None:
    outcome = desim("compare", "batch", "--trace", log, "--agents", "fcfs", "--recorded-waits")
    assert (outcome.status, "got no known wait" in outcome.err) == (2, True)
