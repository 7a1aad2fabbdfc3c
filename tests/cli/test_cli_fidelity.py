"""``desim fidelity``: agents beside the waits of a log, resumed, and refused where there is nothing to compare."""

from __future__ import annotations

import csv
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


def test_known_answers(desim: Desim, waits: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("fidelity", "batch", "--trace", waits, "--agents", "fcfs,lcfs", "--queue-field", 20, "--workers", 1)
    outcome = desim(*command, "--out", out)
    assert outcome.status == 0, outcome.err
    assert "4 recorded waits" in outcome.out
    assert "recorded starts that the simulated machine cannot reproduce: 0 jobs start late" in outcome.out
    found = json.loads((out / "fidelity.json").read_text())
    assert found["ranked"] == ["recorded", "fcfs", "lcfs", "no wait at all"]
    agents = found["agents"]
    assert [agents[name]["near"] for name in found["ranked"]] == [1.0, 0.75, 0.75, 0.25]
    assert agents["fcfs"]["mean_absolute_error"] == 3_600 / 4
    assert agents["recorded"]["jobs"] == 4
    assert found["long_waits"] == {"jobs": 3, "with_free_cores": 1}
    groups = found["groups"]["fcfs"]["queue"]
    assert {name: (one["jobs"], one["near"]) for name, one in groups.items()} == {
        "short": (3, pytest.approx(2 / 3)),
        "long": (1, 1.0),
    }
    with (out / "fidelity.csv").open() as file:
        table = list(csv.DictReader(file))
    row = next(row for row in table if (row["agent"], row["by"], row["group"]) == ("fcfs", "cores", "1"))
    assert (row["jobs"], row["near"]) == ("1", "0.0")
    assert {path.name for path in out.iterdir()} == {"runs", "fidelity.json", "fidelity.csv", "waits.png", "groups.png"}
    again = desim(*command, "--out", out, "--json")
    assert "0 runs to do, 3 already stored" in again.err
    assert json.loads(again.out)["agents"] == agents


def test_queues_are_those_of_the_rows_where_job_numbers_come_back(desim: Desim, waits: Path, tmp_path: Path) -> None:
    head, *rows = waits.read_text().removeprefix(HEADER).splitlines()
    numbered = [head, *("1 " + row.partition(" ")[2] for row in rows)]
    waits.write_text(HEADER + "\n".join(numbered) + "\n")
    command = ("fidelity", "batch", "--trace", waits, "--agents", "fcfs", "--queue-field", 20, "--workers", 1)
    found = json.loads(desim(*command, "--json").out)
    groups = found["groups"]["fcfs"]["queue"]
    assert {name: one["jobs"] for name, one in groups.items()} == {"short": 3, "long": 1}


def test_overloads_are_told(desim: Desim, waits: Path) -> None:
    """On seven cores job 1 never fits; on eight with longer runs the next two would be late."""
    waits.write_text(waits.read_text().replace(" 5000 ", " 5600 "))
    outcome = desim("fidelity", "batch", "--trace", waits, "--agents", "fcfs", "--workers", 1)
    assert outcome.status == 0, outcome.err
    assert "cannot reproduce: 2 jobs start late, by 600 s at the median and 600 s at most" in outcome.out


def test_the_warm_up_is_left_out(desim: Desim, waits: Path) -> None:
    command = ("fidelity", "batch", "--trace", waits, "--agents", "fcfs", "--json", "--workers", 1)
    found = json.loads(desim(*command, "--warm-up", 15).out)
    assert found["agents"]["fcfs"]["jobs"] == 2
    outcome = desim(*command, "--warm-up", 1e6)
    assert (outcome.status, "leaves no" in outcome.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dag", "--agents", "heft"), "PROBLEM: got dag, expected batch: only its logs record waits"),
        (("batch", "--agents", "fcfs"), "lublin: records no waits; give a log with --trace FILE"),
        (("batch", "--agents", "fcfs", "--trace", "LOG", "--load", "0.5"), "which change the log"),
        (("batch", "--agents", "fcfss", "--trace", "LOG"), "unknown batch agent 'fcfss'"),
        (("batch", "--agents", "fcfs", "--trace", "LOG", "--queue-field", "30"), "line 3: no field 30, or no job num"),
        (("batch", "--agents", "fcfs", "--trace", "LOG", "--workers", "0"), "--workers: got 0, expected an integer"),
    ],
)
def test_refusals(desim: Desim, waits: Path, arguments: tuple[str, ...], message: str) -> None:
    outcome = desim("fidelity", *(waits if word == "LOG" else word for word in arguments))
    assert outcome.status == 2
    assert message in outcome.err


def test_a_log_without_waits(desim: Desim, log: Path) -> None:
    outcome = desim("fidelity", "batch", "--trace", log, "--agents", "fcfs")
    assert (outcome.status, "got no known wait" in outcome.err) == (2, True)
