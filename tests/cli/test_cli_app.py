"""Which command, help, and what becomes of errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Desim

import desim as package
from desim.cli import app
from desim.exceptions import InfeasibleAction, MissingDependency, RecordError
from desim.problems.batch import BatchCluster
from desim.workloads import lublin


def run_python(code: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


def test_alone_it_prints_help(desim: Desim) -> None:
    alone = desim()
    assert alone.status == 0
    assert alone.out == desim("--help").out
    assert alone.err == ""
    for name in app.COMMANDS:
        assert name in alone.out


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["run", "batch", "--jobs", "5", "--agent", ""], "--agent"),
        (["run", "batch", "--jobs", "5", "--agent="], "--agent"),
        (["run", "batch", "--jobs", "5", "--agent", "fcfs", "--nodes", " "], "--nodes"),
        (["run", "batch", "--jobs", "5", "--agent", "fcfs", "--out", ""], "--out"),
        (["adversary", "batch", "--agents", "sjf", "--against", "fcfs", "--objective", ""], "--objective"),
        (["compare", "batch", "--agents", "fcfs", "--jobs", "5", "--reservations", ""], "--reservations"),
        (["reproduce", ""], "an argument"),
        (["reproduce", "dbf", "--only", ""], "--only"),
        (["view", ""], "an argument"),
    ],
)
def test_an_empty_value_does_not_mean_the_default(desim: Desim, arguments: list[str], name: str) -> None:
    assert desim(*arguments) == (2, "", f"desim: error: {name} is empty; give a value or omit the option\n")


@pytest.mark.parametrize("name", ["a\udce4", "a\0b"])
def test_arguments_that_are_no_text_are_refused(desim: Desim, name: str) -> None:
    told = "expected UTF-8 text without null characters"
    arguments = ("run", "batch", "--jobs", "3", "--agent", "fcfs", "--out", name)
    assert desim(*arguments) == (2, "", f"desim: error: --out: got {name!r}, {told}\n")
    with pytest.raises(RecordError, match="expected a name in UTF-8"):
        package.simulate(BatchCluster(lublin.generate(3, 8), num_cores=8), "fcfs", out=name)


@pytest.mark.parametrize("value", ["\uff15", "\uff11.5", "-\u0665"])
def test_digits_of_other_scripts_are_refused(desim: Desim, value: str) -> None:
    told = f"desim: error: --jobs: got {value!r}, expected a number in ASCII digits\n"
    assert desim("run", "batch", "--agent", "fcfs", "--jobs", value) == (2, "", told)
    assert desim("run", "batch", "--agent", "fcfs", f"--jobs={value}") == (2, "", told)


def test_values_that_look_empty_do_not_mean_the_default(desim: Desim, log: Path, tmp_path: Path) -> None:
    outcome = desim("reproduce", "dbf", "--only", ",")
    assert (outcome.status, outcome.out) == (2, "")
    assert "--only: got ',', expected names of experiments" in outcome.err
    outcome = desim("convert", log, tmp_path / "out.json", "--cores", 0)
    assert (outcome.status, outcome.out) == (2, "")
    assert "--cores: got 0, expected an integer >= 1" in outcome.err


def test_version(desim: Desim) -> None:
    assert desim("--version") == (0, f"desim {package.__version__}\n", "")


@pytest.mark.parametrize("command", app.COMMANDS)
def test_every_command_has_help_with_examples(desim: Desim, command: str) -> None:
    outcome = desim(command, "--help")
    assert outcome.status == 0
    assert "Examples:\n" in outcome.out
    assert f"    desim {command}" in outcome.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["rum"],
        ["run"],
        ["run", "dag", "--no-such"],
        ["compare", "batch"],
        ["run", "batch", "--jobs", "many"],
        ["run", "batch", "--no-such"],
        ["list", "dag", "x"],
    ],
)
def test_wrong_arguments_give_status_2_and_nothing_on_standard_output(desim: Desim, arguments: list[str]) -> None:
    outcome = desim(*arguments)
    assert outcome.status == 2
    assert outcome.out == ""
    assert "help" in outcome.err


def test_expected_errors_are_one_line(desim: Desim) -> None:
    outcome = desim("run", "batch", "--trace", "absent.swf")
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err == "desim: error: absent.swf: cannot be read: No such file or directory\n"


full_disk = RecordError("cannot write x")
full_disk.__cause__ = OSError(28, "No space left on device")  # no fault of the arguments


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InfeasibleAction("time 3: job 1 cannot start"), 1),
        (MissingDependency("pip install x"), 1),
        (RecordError("no result"), 2),
        (full_disk, 1),
        (OSError(28, "No space left on device"), 1),
        (KeyboardInterrupt(), 1),
    ],
)
def test_status_of_errors(desim: Desim, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int) -> None:
    def fail(self: object) -> int:
        raise error

    monkeypatch.setattr("desim.cli.listing.List.execute", fail)
    outcome = desim("list")
    assert outcome.status == status
    assert outcome.err.startswith("desim: ")
    assert outcome.err.count("\n") == 1


def test_mistakes_of_programs_keep_their_traceback(desim: Desim, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("desim.cli.listing.List.execute", fail)
    with pytest.raises(ZeroDivisionError):
        desim("list")


def test_a_closed_pipe_is_quiet() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = run_python("import sys; from desim.cli import main; sys.exit(main(['list']))", stdout=writer)
    os.close(writer)
    assert process.returncode == 1
    assert process.stderr == ""


def test_help_and_list_load_nothing_heavy() -> None:
    heavy = "{'polars', 'matplotlib', 'scipy', 'joblib', 'torch'}"
    code = f"import sys; from desim.cli import main; main([]); main(['list']); print({heavy} & set(sys.modules))"
    process = run_python(code)
    assert process.stderr == ""
    assert process.stdout.endswith("\nset()\n")
