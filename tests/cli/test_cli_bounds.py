"""Counts and names that no machine can serve are refused before memory is taken."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest
from command_line import Desim

from desim.records import INFO_FILE

HUGE = "99999999999999999999"
BATCH = ("run", "batch", "--jobs", "5", "--agent", "fcfs")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*BATCH, "--cores", "1000000000"), "--cores: got 1000000000, expected an integer from 1 to 16777216"),
        ((*BATCH, "--nodes", "1000000000x4"), "nodes: got 1000000000, expected an integer from 1 to 1048576"),
        ((*BATCH, "--nodes", "1x1000000000"), "num_cores: got 1000000000, expected an integer from 1 to 16777216"),
        ((*BATCH, "--users", "-1"), "--users: got -1, expected an integer from 1 to 100000000"),
        ((*BATCH, "--users", HUGE), "--users: got 99999999999999999999"),
        ((*BATCH, "--overestimate", "1e308"), "--overestimate: got 1e+308, expected a finite number from 1 to"),
        ((*BATCH, "--load", "1e-308"), "arrives at inf"),
        (
            (*BATCH, "--mean-time-to-failure", "1e-9", "--mean-time-to-repair", "1"),
            "--mean-time-to-failure: got 1e-09, expected a finite number >= 0.001",
        ),
        (
            (*BATCH, "--mean-time-to-failure", "1", "--mean-time-to-repair", "1"),
            "failures and be requeued without end; try a longer time, --checkpoint-interval",
        ),
        (("run", "batch", "--jobs", "\uff11\uff16"), "--jobs: got '\uff11\uff16', expected a number in ASCII digits"),
        (("run", "batch", "--jobs=\uff11\uff16"), "--jobs: got '\uff11\uff16', expected a number in ASCII digits"),
        (("run", "batch", "--jobs", HUGE), "--jobs: got 99999999999999999999"),
        (("run", "batch", "--jobs", HUGE, "--stream"), "--jobs: got 99999999999999999999"),
        (("run", "dag", "--jobs", HUGE), "--jobs: got 99999999999999999999"),
        (("run", "dag", "--executors", HUGE), "--executors: got 99999999999999999999"),
        (("run", "dag", "--mean-interval", "1e308"), "--mean-interval: got 1e+308"),
        (("run", "multiserver", "--slots", HUGE), "--slots: got 99999999999999999999"),
        (("run", "deferrable", "--slots", HUGE), "--slots: got 99999999999999999999"),
        (("train", "batch", "--hidden", "0", "--quick", "--out", "x"), "hidden: got 0, expected an integer from 1"),
        ((*BATCH, "--limits", "a" * 5_000), "File name too long: 'aaa"),
        (("run", "batch", "--agent", "subprocess:run"), "subprocess is a module of Python itself, expected one of"),
        (("run", "batch", "--agent", "builtins:input"), "builtins is a module of Python itself"),
        (("run", "batch", "--agent", "sys:exit"), "sys is a module of Python itself"),
        (("run", "json:loads", "--agent", "x"), "json is a module of Python itself"),
    ],
)
def test_what_no_machine_can_serve_is_refused_in_a_sentence(
    desim: Desim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    outcome = desim(*arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert message in outcome.err


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of a small result."""
    from desim import simulate
    from desim.agents.batch import FCFS
    from desim.problems.batch import BatchCluster, Job

    place = tmp_path_factory.mktemp("stored") / "run"
    simulate(BatchCluster([Job(1, 0.0, 2, 10.0, 10.0)], 4), FCFS(), out=place)
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_cores": "x"}, "num_cores: got 'x', expected int"),
        ({"num_cores": 10**12}, "num_cores: got 1000000000000, expected a value <= "),
        ({"num_cores": None}, "num_cores: got None, expected int"),
        ({"end_time": None}, "end_time: got None, expected int or float"),
        ({"end_time": "soon"}, "end_time: got 'soon', expected int or float"),
        ({"status": "wonderful"}, "status: got 'wonderful', expected one of complete"),
        ({"attributes": {"energy": 3}}, "attributes: got 3, expected texts"),
        ({"attributes": {"energy": "os.system"}}, "attributes: got 'os.system'"),
        ({"tables": {"jobs": None}}, "table 'jobs': got None, expected a list of columns"),
        ({"tables": {"jobs": [3]}}, "table 'jobs': got [3], expected a list of columns"),
        ({"tables": {"payroll": []}}, "problem 'batch' has no table 'payroll'"),
        ({"tables": {"../other/jobs": []}}, "name of a table: got '../other/jobs'"),
        ({"tables": {"/tmp/jobs": []}}, "name of a table: got '/tmp/jobs'"),
        ({"kind": "elsewhere:KIND"}, "elsewhere:KIND"),
    ],
)
def test_a_stored_description_is_not_trusted(
    desim: Desim, tmp_path: Path, stored: dict[str, bytes], changes: dict[str, object], message: str
) -> None:
    for name, content in stored.items():
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_bytes(content)
    path = tmp_path / "run" / INFO_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    outcome = desim("validate", tmp_path / "run")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert message in outcome.err


def test_tables_of_custom_parts_are_still_in_the_directory(
    desim: Desim, tmp_path: Path, stored: dict[str, bytes]
) -> None:
    """A result that lists parts may have tables of any name, but of none that leads out."""
    place = tmp_path / "run"
    for name, content in stored.items():
        for copy in (place / name, tmp_path / "elsewhere" / name.replace("jobs/", "")):
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
    document = json.loads((place / INFO_FILE).read_text()) | {"parts": ["mine"]}
    (place / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("../elsewhere", str(tmp_path / "elsewhere"), "..", ".", "", "a\0b", "link"):
        (place / INFO_FILE).write_text(json.dumps(document | {"tables": document["tables"] | {name: []}}))
        for command in (("validate", place), ("recover", place), ("convert", place, tmp_path / "jobs.csv")):
            outcome = desim(*command)
            assert (outcome.status, outcome.err.count("\n")) == (2, 1), (name, command, outcome.err)
            assert "name of a table: got" in outcome.err or "got a link" in outcome.err
    assert (tmp_path / "elsewhere").exists()


def test_a_table_that_unpacks_to_far_more_than_desim_writes_is_not_read(
    desim: Desim, tmp_path: Path, stored: dict[str, bytes]
) -> None:
    for name, content in stored.items():
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_bytes(content)
    part = max((tmp_path / "run" / "jobs").glob("*.parquet"))
    row = pl.read_parquet(part)
    row.sample(3_000_000, with_replacement=True).write_parquet(part)
    for command in (("validate",), ("view",), ("plot",)):
        outcome = desim(*command, tmp_path / "run")
        assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert "jobs: has 3,000,000 rows in" in outcome.err


@pytest.mark.parametrize("command", ["validate", "plot", "view", "convert"])
def test_a_damaged_result_is_told_in_a_sentence(
    desim: Desim, tmp_path: Path, stored: dict[str, bytes], command: str
) -> None:
    for name, content in stored.items():
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_bytes(content[: len(content) // 2] if "jobs" in name else content)
    further = [tmp_path / "jobs.csv"] if command == "convert" else []
    outcome = desim(command, tmp_path / "run", *further)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "cannot be read" in outcome.err
    (tmp_path / "run" / INFO_FILE).write_text('{"a": ' * 100_000)
    outcome = desim(command, tmp_path / "run", *further)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "nested too deeply" in outcome.err
