"""``desim plot``."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from command_line import Desim
from matplotlib.figure import Figure

from desim.problem import kind_of

BEGINNINGS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def test_all_figures_of_one_run(desim: Desim, stored: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "figures"
    outcome = desim("plot", stored, "--out", out)
    assert outcome.status == 0
    names = ["gantt.png", "utilization.png", "queue.png", "waiting.png"]
    assert outcome.out.split() == [str(out / name) for name in names]
    assert sorted(path.name for path in out.iterdir()) == sorted(names)
    assert all((out / name).read_bytes().startswith(BEGINNINGS["png"]) for name in names)


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_vector_files_are_the_same_again(desim: Desim, stored: Path, tmp_path: Path, suffix: str) -> None:
    files = []
    for name in ("one", "two"):
        assert desim("plot", stored, "--out", tmp_path / name, "--kind", "waiting", "--format", suffix).status == 0
        (path,) = (tmp_path / name).iterdir()
        files.append(path.read_bytes())
    assert files[0] == files[1]
    assert files[0].startswith(BEGINNINGS[suffix])


def test_several_runs_have_names_of_their_own(desim: Desim, log: Path, stored: Path, tmp_path: Path) -> None:
    assert desim("run", "batch", "--trace", log, "--agent", "sjf", "--out", tmp_path / "sjf").status == 0
    shutil.copytree(stored, tmp_path / "again")
    text = {}
    for name, others in (("agents", [tmp_path / "sjf"]), ("directories", [tmp_path / "again"])):
        out = tmp_path / name
        assert desim("plot", stored, *others, "--out", out, "--kind", "gantt", "--format", "svg").status == 0
        text[name] = (out / "gantt.svg").read_text()
    assert "<!-- fcfs -->" in text["agents"]
    assert "<!-- sjf -->" in text["agents"]
    assert "<!-- stored -->" in text["directories"]
    assert "<!-- again -->" in text["directories"]


def test_a_window_and_a_width_for_papers(
    desim: Desim, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[tuple[float, float], str]] = []

    def _save(figure: Figure, path: Path, file_format: str) -> Path:
        (axes, *_) = figure.axes
        drawn.append((axes.get_xlim(), axes.get_xlabel()))
        assert figure.get_size_inches()[0] == pytest.approx(3.5)
        return path

    monkeypatch.setattr("desim.plotting.files.save_figure", _save)
    options = ["--time-range", "1m:0.5h", "--style", "paper"]
    assert desim("plot", stored, "--out", tmp_path / "out", *options).status == 0
    whole = drawn.pop()  # of waiting times, which are not over time
    assert [limits for limits, _ in drawn] == [(60.0, 1_800.0)] * 3 and "cores" in whole[1]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--time-range", "1:2:3"], "--time-range: got '1:2:3'"),
        (["--time-range", "2d:1d"], "expected an end after the start"),
        (["--time-range", "900d:901d"], "--time-range: got '900d:901d', after the runs end"),
        (["--style", "poster"], "poster"),
        (["--kind", "pie"], "--kind: got 'pie'"),
        (["--kind", ","], "--kind"),
        (["--format", "gif"], "gif"),
    ],
)
def test_unusable_arguments_of_plot(desim: Desim, stored: Path, tmp_path: Path, more: list[str], message: str) -> None:
    outcome = desim("plot", stored, "--out", tmp_path / "out", *more)
    assert outcome.status == 2
    assert message in outcome.err
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_drawn(desim: Desim, stored: Path, log: Path, tmp_path: Path) -> None:
    assert desim("plot", "--out", tmp_path / "out").status == 2
    assert "given twice" in desim("plot", stored, stored, "--out", tmp_path / "out").err
    assert "no result in" in desim("plot", tmp_path / "absent", "--out", tmp_path / "out").err
    assert "cannot create" in desim("plot", stored, "--out", log).err


def test_the_help_names_every_figure(desim: Desim) -> None:
    words = re.findall(r"[a-z-]+", desim("plot", "--help").out)
    for problem in ("batch", "dag", "deferrable", "multiserver"):
        for figure in kind_of(problem).figures:
            assert figure in words
