"""``desim compare --load 0.6,0.7``: options with several values."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from command_line import Desim

from desim.cli.compare import Compare
from desim.cli.options import command_with_options
from desim.cli.swept import points_of

SMALL = ["--agents", "fcfs,easy", "--jobs", "60", "--cores", "32", "--workers", "1", "--seeds", "2"]


@pytest.mark.parametrize(
    ("problem", "line", "values"),
    [
        ("batch", "--agents fcfs,easy --load 0.6,0.7", [{"load": "0.6"}, {"load": "0.7"}]),
        ("batch", "--load=0.6,0.7 --seeds 3", [{"load": "0.6"}, {"load": "0.7"}]),
        ("batch", "--agents fcfs,easy --load 0.6", []),
        ("batch", "--too-wide error,reject", [{"too-wide": "error"}, {"too-wide": "reject"}]),
        ("batch", "--workload a.swf,b.swf", [{"trace": "a.swf"}, {"trace": "b.swf"}]),
        ("batch", "--cores 8,16 --jobs 5,6", [{"cores": c, "jobs": j} for c in ("8", "16") for j in ("5", "6")]),
        ("dag", "--workload a.json,b.json --executors 4", []),
        ("deferrable", "--set cores=1,2", []),
        ("multiserver", "--slots 5,6", [{"slots": "5"}, {"slots": "6"}]),
    ],
)
def test_what_is_swept(problem: str, line: str, values: list[dict[str, str]]) -> None:
    """Numbers, choices and names of problems' options; not what takes commas itself."""
    points = points_of(line.split(), command_with_options(Compare, problem))
    assert [point.values for point in points] == values
    for point in points:
        assert all(point.arguments[point.arguments.index("--seeds") + 1] == "3" for _ in point.values if "3" in line)
        assert set(point.values.values()) <= set(point.arguments)


def test_a_sweep_is_the_comparisons_of_its_values(desim: Desim, tmp_path: Path) -> None:
    """In numbers, in one table, and with a figure."""
    swept = desim("compare", "batch", *SMALL, "--load", "0.6,0.9", "--json")
    documents = json.loads(swept.out)
    assert [document["values"] for document in documents] == [{"load": "0.6"}, {"load": "0.9"}]
    for document in documents:
        alone = json.loads(desim("compare", "batch", *SMALL, "--load", document["values"]["load"], "--json").out)
        assert document["means"] == alone["means"] and document["options"] == alone["options"]
    told = desim("compare", "batch", *SMALL, "--load", "0.6,0.9", "--out", tmp_path / "sweep")
    assert told.status == 0 and "agent \\ load" in told.out
    (row,) = [line for line in told.out.splitlines() if line.startswith("easy-fcfs ")]
    assert row.count("*") >= 1
    rows = list(csv.DictReader((tmp_path / "sweep/sweep.csv").read_text().splitlines()))
    (mean,) = [
        float(row["mean"])
        for row in rows
        if (row["load"], row["agent"], row["metric"]) == ("0.9", "fcfs", "waiting_time_mean")
    ]
    assert mean == documents[1]["means"]["fcfs"]["waiting_time_mean"]["mean"]
    assert (tmp_path / "sweep/sweep.png").stat().st_size > 5_000
    assert (tmp_path / "sweep/load=0.6/view.html").exists()


def test_a_value_that_makes_no_sense_is_found_before_the_first_run(desim: Desim) -> None:
    """Named as it was given."""
    outcome = desim("compare", "batch", *SMALL, "--load", "0.6,much")
    assert outcome.status == 2 and "--load" in outcome.err and outcome.out == ""
    outcome = desim("compare", "batch", *SMALL, "--load", "-1,0.6")
    assert outcome.status == 2 and "--load: got -1.0" in outcome.err
