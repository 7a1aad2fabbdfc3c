"""``desim run``: records, metrics, options, interruption."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import polars as pl
import pytest
from command_line import Desim

from desim import Result, simulate
from desim.agents.batch import create
from desim.exceptions import RecordError, missing
from desim.problems.batch import BatchCluster
from desim.problems.batch.metrics import METRICS
from desim.workloads import swf


def test_records_and_metrics_are_those_of_simulate(desim: Desim, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = desim("run", "batch", "--trace", log, "--agent", "easy-sjf", "--out", out, "--json")
    assert outcome.status == 0
    assert outcome.err == ""
    expected = simulate(BatchCluster(swf.read(log).jobs, 8), create("easy-sjf"))
    assert Result.load(out).jobs.equals(expected.jobs)
    document = json.loads(outcome.out)
    metrics = {name: None if value != value else value for name, value in expected.metrics().items()}
    assert document["metrics"] == metrics
    assert document["run"] == expected.info
    assert document["validation"]["valid"] is True
    assert "conservation" in document["validation"]["checks"]
    assert document["workload"]["cores"] == 8
    assert document["records"] == str(out)


def test_the_table_names_every_metric(desim: Desim, log: Path) -> None:
    outcome = desim("run", "batch", "--trace", log)
    assert outcome.status == 0
    first_words = [line.split()[0] for line in outcome.out.splitlines() if line]
    names = METRICS.names_for(())
    assert [word for word in first_words if word in names] == names
    assert "easy-fcfs on 8 cores, tiny.swf: complete at" in outcome.out
    assert "valid: " in outcome.out
    assert "repair" not in outcome.out
    assert outcome.err == ""


def test_repairs_are_told(desim: Desim, broken_log: Path) -> None:
    outcome = desim("run", "batch", "--trace", broken_log)
    assert outcome.status == 0
    assert "7 rows of the file: 6 jobs, 1 row dropped" in outcome.out
    assert "cancelled before it ran" in outcome.out
    document = json.loads(desim("run", "batch", "--trace", broken_log, "--json").out)
    assert document["workload"]["repairs"]["reasons"]["cancelled"]["count"] == 1


def test_what_a_reader_does_not_use_is_told(desim: Desim, tmp_path: Path) -> None:
    path = tmp_path / "after.swf"
    rows = ["1 0 -1 9 2 -1 -1 2 9 -1 1 -1 -1 -1 -1 -1 -1 -1 7", "2 1 -1 9 2 -1 -1 2 9 -1 1 -1 -1 -1 -1 -1 1 5 7"]
    path.write_text("\n".join(["; MaxProcs: 8", *rows, ""]))
    told = desim("run", "batch", "--trace", path).out
    assert "depends on another job" in told and "more fields than the format's 18" in told
    assert "depends on another job" not in desim("run", "batch", "--trace", path, "--dependencies").out


def test_a_package_that_an_agent_lacks_is_told_in_a_sentence(desim: Desim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "desim.agents.batch.split_window", None)
    outcome = desim("run", "batch", "--jobs", "5", "--agent", "split-window:imitating-search")
    assert outcome.status == 1
    assert "agent split-window:imitating-search cannot be imported" in outcome.err


@pytest.mark.parametrize(
    ("package", "told"),
    [
        ("torch.nn", "it needs torch, which is not installed: pip install 'desim[learning]', or make install"),
        ("elsewhere", "it cannot be imported: No module named 'elsewhere'"),
    ],
)
def test_packages_are_installed_by_extras(package: str, told: str) -> None:
    error = ModuleNotFoundError(f"No module named {package!r}", name=package)
    assert str(missing("it", error)).startswith(told)


def test_generated_jobs_follow_seed_and_options(desim: Desim) -> None:
    def metrics(*more: str) -> dict[str, float]:
        outcome = desim("run", "batch", "--jobs", "200", "--cores", "64", "--json", *more)
        assert outcome.status == 0
        found: dict[str, float] = json.loads(outcome.out)["metrics"]
        return found

    assert metrics("--seed", "1") == metrics("--seed", "1", "--stream")
    assert metrics("--seed", "1") != metrics("--seed", "2")
    assert metrics("--load", "0.8")["offered_load"] == pytest.approx(0.8)
    assert metrics("--overestimate", "5") != metrics()
    assert metrics("--warm-up", "20000")["jobs_submitted"] < 200


def test_options_of_the_cluster(desim: Desim, log: Path) -> None:
    def jobs(*more: str) -> dict[str, float]:
        outcome = desim("run", "batch", "--trace", log, "--json", *more)
        assert outcome.status == 0
        found: dict[str, float] = json.loads(outcome.out)["metrics"]
        return found

    assert jobs()["jobs_killed"] == 1
    assert jobs("--no-enforce-time-limit")["jobs_killed"] == 0
    assert jobs("--until", "10")["jobs_submitted"] == 4
    assert jobs("--until", "10")["jobs_queued"] > 0
    assert jobs("--until", "10", "--unfinished", "include")["waiting_time_mean"] > 0
    assert jobs("--jobs", "2")["jobs_submitted"] == 2
    assert jobs("--cores", "4", "--too-wide", "reject")["jobs_rejected"] == 2
    failing = ["--mean-time-to-failure", "30", "--mean-time-to-repair", "5", "--failure-unit", "4"]
    assert jobs(*failing, "--on-outage", "lose", "--seed", "1")["jobs_lost"] > 0
    assert jobs(*failing, "--seed", "1")["interruptions"] > 0


def test_a_stream_gives_the_same_records(desim: Desim, log: Path, tmp_path: Path) -> None:
    for name, more in (("whole", []), ("stream", ["--stream"])):
        assert desim("run", "batch", "--trace", log, "--out", tmp_path / name, *more).status == 0
    assert Result.load(tmp_path / "whole").jobs.equals(Result.load(tmp_path / "stream").jobs)


def test_a_stream_that_nobody_keeps_leaves_nothing(
    desim: Desim, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    whole = json.loads(desim("run", "batch", "--trace", log, "--json").out)
    stream = json.loads(desim("run", "batch", "--trace", log, "--json", "--stream").out)
    assert stream["metrics"] == whole["metrics"]
    assert stream["validation"] == whole["validation"]
    assert stream["records"] is None
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agent", "esy"], "unknown batch agent 'esy' (did you mean 'easy'?); expected one of fcfs, lcfs, sjf"),
        (["--agent", "easy-nope"], "unknown priority 'nope'; expected one of fcfs"),
        (["--trace", "lubln"], "lubln: no such file or generated workload"),
        (["--cores", "0"], "--cores: got 0"),
        (["--jobs", "0"], "--jobs: got 0"),
        (["--load", "0"], "load: got 0.0"),
        (["--jobs", "5", "--until", "0"], "until: got 0.0"),
        (["--jobs", "5", "--mean-time-to-repair", "1"], "--mean-time-to-failure"),
        (["--jobs", "5", "--warm-up", "1e12"], "warm_up and cool_down leave no interval"),
    ],
)
def test_unusable_arguments(desim: Desim, arguments: list[str], message: str) -> None:
    outcome = desim("run", "batch", *arguments)
    assert outcome.status == 2
    assert outcome.err.startswith("desim: error: ")
    assert outcome.err.count("\n") == 1
    assert message in outcome.err
    assert outcome.out == ""


def test_unusable_workloads(desim: Desim, log: Path, tmp_path: Path) -> None:
    assert "requests 8 cores" in desim("run", "batch", "--trace", log, "--cores", "4").err
    empty = tmp_path / "empty.swf"
    empty.write_text("; MaxProcs: 8\n")
    assert "no usable job" in desim("run", "batch", "--trace", empty).err
    nameless = tmp_path / "nameless.swf"
    nameless.write_text(log.read_text().replace("; MaxProcs: 8\n", ""))
    outcome = desim("run", "batch", "--trace", nameless)
    assert outcome.status == 2
    assert "--cores" in outcome.err
    assert desim("run", "batch", "--trace", nameless, "--cores", "8").status == 0
    assert "cannot be rescaled" in desim("run", "batch", "--trace", log, "--stream", "--load", "0.5").err


def test_a_result_is_replaced_only_by_force(desim: Desim, log: Path, stored: Path) -> None:
    before = Result.load(stored).jobs
    command = ["run", "batch", "--trace", log, "--agent", "lcfs", "--out", stored]
    outcome = desim(*command)
    assert outcome.status == 2
    assert "--force" in outcome.err
    assert Result.load(stored).jobs.equals(before)
    note = stored / "note.txt"
    note.write_text("mine")
    assert desim(*command, "--force").status == 0
    assert Result.load(stored).info["agent"] == "lcfs"
    assert note.read_text() == "mine"


def test_a_wrong_agent_costs_no_stored_result(desim: Desim, stored: Path) -> None:
    assert desim("run", "batch", "--agent", "nope", "--out", stored, "--force").status == 2
    assert Result.load(stored).info["agent"] == "fcfs"


def test_other_directories_are_left_alone_even_by_force(desim: Desim, log: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    outcome = desim("run", "batch", "--trace", log, "--out", precious, "--force")
    assert outcome.status == 2
    assert "no result" in outcome.err
    assert [path.name for path in precious.iterdir()] == ["thesis.txt"]
    assert desim("run", "batch", "--trace", log, "--out", log).status == 2


@pytest.mark.parametrize("name", ["../stored/jobs", "{}/stored/jobs", "..", "", "evil/../../stored/jobs"])
def test_a_result_leads_to_nothing_outside_its_directory(desim: Desim, stored: Path, name: str) -> None:
    before = sorted(stored.rglob("*"))
    evil = stored.parent / "evil"
    evil.mkdir()
    table = name.format(stored.parent)
    (evil / "result.json").write_text(json.dumps({"format": 1, "tables": {table: []}, "problem": "batch"}))
    outcome = desim("run", "batch", "--jobs", "5", "--out", evil, "--force")
    assert outcome.status != 0 and f"name of a table: got {table!r}" in outcome.err
    with pytest.raises(RecordError, match="expected a name without separators"):
        Result.load(evil)
    with pytest.raises(RecordError, match="expected a name without separators"):
        Result({table: pl.LazyFrame({"a": [1]})}, {}).save(stored.parent / "saved" / "here")
    assert sorted(stored.rglob("*")) == before and [path.name for path in evil.iterdir()] == ["result.json"]


def test_a_link_in_a_result_leads_to_nothing_outside(desim: Desim, stored: Path) -> None:
    before = sorted(stored.rglob("*"))
    evil = stored.parent / "evil"
    evil.mkdir()
    (evil / "jobs").symlink_to(stored / "jobs")
    (evil / "result.json").write_text(json.dumps({"format": 1, "tables": {"jobs": []}, "problem": "batch"}))
    assert "got a link" in desim("run", "batch", "--jobs", "5", "--out", evil, "--force").err
    with pytest.raises(RecordError, match="got a link"):
        Result.load(evil)
    assert sorted(stored.rglob("*")) == before


def test_a_run_that_fails_leaves_what_it_has_recorded(desim: Desim, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = desim("run", "batch", "--trace", log, "--cores", "6", "--out", out)
    assert outcome.status == 2
    assert Result.load(out).info["status"] == "failed"


IMPATIENT = """
import signal
from desim.agents.batch import EASYBackfilling

class Impatient(EASYBackfilling):
    decisions = 0

    def act(self, observation):
        self.decisions += 1
        if self.decisions == 1_000:
            signal.raise_signal(signal.SIGINT)
        return super().act(observation)
"""


def test_ctrl_c_leaves_complete_records(desim: Desim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "impatient.py").write_text(IMPATIENT)
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    agent = "impatient:Impatient"
    outcome = desim("run", "batch", "--jobs", "100000000", "--stream", "--agent", agent, "--out", out, "--json")
    assert outcome.status == 1
    assert outcome.err.startswith("desim: interrupted at ")
    assert f"complete records up to then are in {out}" in outcome.err
    assert outcome.err.count("\n") == 1
    document = json.loads(outcome.out)
    assert document["run"]["status"] == "interrupted"
    result = Result.load(out)
    assert result.info == document["run"]
    assert len(result.jobs) > 0
    assert desim("validate", out).status == 0


def test_a_command_that_lacks_a_package_says_which(desim: Desim, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: object) -> int:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("desim.cli.listing.List.execute", fails)
    outcome = desim("list")
    assert outcome.status == 1
    assert outcome.err.strip() == (
        "desim: error: desim list needs torch, which is not installed: pip install 'desim[learning]', or make install "
        "in a checkout"
    )
