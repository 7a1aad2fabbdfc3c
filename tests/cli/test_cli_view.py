"""``desim view``."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import Desim


def data_of(page: Path) -> dict[str, Any]:
    """Return what a page holds for its script."""
    found = re.search(r'id="desim-data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_a_page_of_one_run_stands_beside_its_records(desim: Desim, stored: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(stored, copy)
    outcome = desim("view", copy)
    assert (outcome.status, outcome.out.strip()) == (0, str(copy / "view.html"))
    data = data_of(copy / "view.html")
    assert [run["name"] for run in data["runs"]] == ["fcfs"]
    assert [chart["name"] for chart in data["charts"]] == ["cores"]
    assert {curve["name"] for curve in data["curves"]} >= {"utilization", "queue"}


def test_a_page_tells_what_made_its_runs(desim: Desim, stored: Path, log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert desim("run", "batch", "--trace", log, "--agent", "sjf", "--out", other).status == 0
    kept = json.loads((other / "provenance.json").read_text())
    assert kept["settings"]["agent"] == "sjf" and kept["settings"]["workload"]["trace"] == str(log)
    assert kept["versions"].startswith("Python 3")
    assert desim("view", stored, other, "--out", tmp_path / "both.html").status == 0
    text = (tmp_path / "both.html").read_text()
    assert "settings of the run of fcfs" in text and "agent = sjf" in text
    (stored / "provenance.json").rename(stored / "made.json")  # as runs from before have it
    assert desim("view", stored, other, "--out", tmp_path / "old.html").status == 0
    assert "settings of the run of fcfs" in (tmp_path / "old.html").read_text()
    (stored / "made.json").unlink()
    assert desim("view", stored, "--out", tmp_path / "one.html").status == 0
    assert "settings of the run" not in (tmp_path / "one.html").read_text()
    (other / "provenance.json").write_text("[]")
    assert "provenance.json cannot be read" in desim("view", other).err
    assert desim("run", "batch", "--trace", log, "--agent", "sjf", "--out", other, "--force").status == 0
    assert json.loads((other / "provenance.json").read_text()) == kept


def test_several_runs_stand_side_by_side(desim: Desim, log: Path, stored: Path, tmp_path: Path) -> None:
    assert desim("run", "batch", "--trace", log, "--agent", "sjf", "--out", tmp_path / "sjf").status == 0
    out = tmp_path / "new" / "two.html"
    assert desim("view", stored, tmp_path / "sjf", "--out", out).status == 0
    assert [run["name"] for run in data_of(out)["runs"]] == ["fcfs", "sjf"]
    text = out.read_text()
    assert re.search(r"versions</th>\s*<td[^>]*>Python 3", text)


@pytest.fixture
def comparison(desim: Desim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("desim.comparing.draw_figures", lambda *arguments, **look: [])  # which is slow
    out = tmp_path / "comparison"
    options = ["--agents", "fcfs,easy,sjf", "--jobs", "40", "--cores", "16", "--seeds", "4", "--seed", "5"]
    assert desim("compare", "batch", *options, "--workers", "1", "--out", out).status == 0
    return out


def test_a_comparison_shows_no_records_from_elsewhere(desim: Desim, comparison: Path) -> None:
    path = comparison / "comparison.json"
    document = json.loads(path.read_text())
    elsewhere = comparison.parent / "elsewhere"
    Path(document["runs"][0]["records"]).rename(elsewhere)
    document["runs"][0]["records"] = str(elsewhere)
    path.write_text(json.dumps(document))
    outcome = desim("view", comparison)
    assert outcome.status != 0 and "no result in" in outcome.err and "comparison/runs/elsewhere" in outcome.err


def test_a_comparison_is_shown_again_from_what_it_stored(desim: Desim, comparison: Path) -> None:
    first = data_of(comparison / "view.html")
    document = json.loads((comparison / "comparison.json").read_text())
    moved = comparison.parent / "moved"
    comparison.rename(moved)
    assert desim("view", moved).status == 0
    data = data_of(moved / "view.html")
    assert data == first
    assert [run["name"] for run in data["runs"]] == ["fcfs", "easy-fcfs", "sjf"]
    *means, ranks = data["estimates"]
    assert ranks["label"].startswith("mean rank")
    for name, mean, low, high in means[0]["rows"]:
        found = document["means"][name]["waiting_time_mean"]
        assert (mean, low, high) == pytest.approx((found["mean"], max(found["low"], 0.0), found["high"]))
    half = document["ranking"]["critical_difference"] / 2
    assert all(high == pytest.approx(min(value + half, 3.0)) for _, value, _, high in ranks["rows"])
    text = (moved / "view.html").read_text()
    assert "5, 6, 7, 8" in text  # the seeds
    assert "jobs = 40" in text
    assert desim("view", moved, "--seed", "7").status == 0
    assert data_of(moved / "view.html")["charts"] != first["charts"]
    assert "are those of seed 7." in (moved / "view.html").read_text()
    outcome = desim("view", moved, "--seed", "9")
    assert outcome.status == 2
    assert "expected one of 5, 6, 7, 8" in outcome.err


def test_what_cannot_be_shown_is_said(desim: Desim, stored: Path, comparison: Path, tmp_path: Path) -> None:
    for arguments, message in (
        ([], "nothing to show"),
        ([tmp_path / "absent"], "no result in"),
        ([stored, "--out", tmp_path], "expected a file"),
        ([stored, "--seed", "1"], "--seed is only for a comparison"),
        ([comparison, stored], "which can only be shown by itself"),
    ):
        outcome = desim("view", *arguments)
        assert outcome.status == 2
        assert message in outcome.err
    (comparison / "comparison.json").write_text("{}")
    assert "comparison.json cannot be read: content: workload is missing" in desim("view", comparison).err
