"""Studies from files: what a comparison writes repeats it, and mistakes are told with file, line and option."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Desim

import desim as library
from desim.cli.app import _parse
from desim.cli.validate import Validate
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.options import BatchOptions
from desim.problems.dag.options import DagOptions
from desim.sweep.options import options_in, options_of

STUDY = """\
# two agents
problem = "batch"
agents = ["fcfs", "easy"]

trace = "tiny.swf"
warm-up = 0.0
"""


def results(document: dict[str, object]) -> dict[str, object]:
    """Return what was found, without how."""
    return {name: document[name] for name in ("seeds", "means", "differences", "tests")}


@pytest.mark.usefixtures("no_figures")
def test_the_file_of_a_comparison_repeats_it(
    desim: Desim, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All runs are found, and the tables are the same; from another directory, and after the results have moved."""
    monkeypatch.chdir(tmp_path)
    options = ["--agents", "fcfs,easy", "--trace", log.name, "--warm-up", 5, "--until", 1e6, "--workers", 1]
    first = desim("compare", "batch", *options, "--too-wide", "reject", "--style", "paper", "--out", "found", "--json")
    assert first.status == 0
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "found").rename(tmp_path / "elsewhere" / "moved")
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = desim("compare", "moved/study.toml", "--workers", 1, "--json")
    assert 'style = "paper"' in Path("moved", "study.toml").read_text()
    assert again.status == 0 and "0 runs to do, 2 already stored" in again.err
    before, after = json.loads(first.out), json.loads(again.out)
    assert results(before) == results(after) and all(run["reused"] for run in after["runs"])


@pytest.mark.usefixtures("no_figures")
def test_a_file_of_several_values_is_a_sweep(desim: Desim, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    lines = 'agents = "fcfs,sjf"', "jobs = 30", "cores = 16", "load = [0.5, 0.9]", "seeds = [4, 7]"
    path.write_text("\n".join(['problem = "batch"', *lines]))
    found = desim("compare", path, "--jobs", 20, "--workers", 1, "--out", tmp_path / "out", "--json")
    documents = json.loads(found.out)
    assert [one["values"] for one in documents] == [{"load": "0.5"}, {"load": "0.9"}]
    assert documents[0]["seeds"] == [4, 7] and documents[0]["options"]["workload"]["jobs"] == 20
    again = desim("compare", tmp_path / "out" / "study.toml", "--workers", 1, "--json")
    assert [results(one) for one in json.loads(again.out)] == [results(one) for one in documents]
    assert again.err.count("0 runs to do, 4 already stored") == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (STUDY + "loads = 0.9\n", ", line 7: unknown option 'loads' (did you mean 'load'?)"),
        (STUDY + "load = 'high'\n", ", line 7: load: got 'high', expected a number or None"),
        (STUDY.replace("0.0", "true"), ", line 6: warm_up: got True, expected a number"),
        (STUDY + "[workload]\nload = 0.9\n", ", line 7: workload: got a table"),
        (STUDY + "load = \n", "is no TOML file: Invalid value (at line 7"),
        (STUDY.replace("problem", "# "), ": expected problem = a name such as 'batch'"),
        (STUDY.replace('"batch"', "3"), ", line 2: expected problem = a name"),
        (STUDY.replace("batch", "bach"), ", line 2: unknown problem 'bach' (did you mean 'batch'?)"),
        (None, "cannot be read: No such file"),
    ],
)
def test_mistakes_in_a_file(desim: Desim, tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "study.toml"
    if text is not None:
        path.write_text(text)
    found = desim("compare", path)
    assert found.status == 2 and message in found.err


def test_what_has_no_name_is_in_no_file() -> None:
    """Objects of Python cannot be written down."""
    cluster = BatchCluster([Job(1, 0.0, 1, 1.0, 1.0)], 1)
    assert library.compare(cluster, ["fcfs"], workers=1).study == {}


SECONDS = {"mean_time_to_failure": "5d", "mean_time_to_repair": "1.5h", "over_time_limit": "30m", "until": "2w"}


def test_options_in_seconds_take_durations(tmp_path: Path) -> None:
    """On the command line, in a file and in Python: what is simulated, and what identifies it, are seconds."""
    expected = [5 * 86_400.0, 5_400.0, 1_800.0, 14 * 86_400.0]
    line = [word for name, text in SECONDS.items() for word in (f"--{name.replace('_', '-')}", text)]
    file = tmp_path / "durations.toml"
    file.write_text('problem = "batch"\nagents = "fcfs"\n' + "".join(f'{n} = "{t}"\n' for n, t in SECONDS.items()))
    for options in (
        _parse(["compare", "batch", "--agents", "fcfs", *line]).options,  # type: ignore[attr-defined]
        _parse(["compare", str(file)]).options,  # type: ignore[attr-defined]
        options_of(BatchOptions, SECONDS),
    ):
        values = [getattr(options.site if name == "over_time_limit" else options.system, name) for name in SECONDS]
        assert values == expected


def test_every_option_that_is_said_to_be_in_seconds_is_a_duration() -> None:
    for options in (BatchOptions, DagOptions, Validate):
        for name, one in options_in(options).items():
            if name.startswith("mean_time") or name in ("until", "session_gap", "moving_delay", "over_time_limit"):
                assert one.in_seconds, name
    for text, message in (("5x", "got '5x', expected a number of seconds, or a text such as 30m"), ("", "got ''")):
        with pytest.raises(InvalidConfiguration, match=message):
            options_of(BatchOptions, {"until": text})
