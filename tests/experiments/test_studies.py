"""Every study of every paper, in a size of seconds: what it shows, and the files that it leaves."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from desim import plugins
from desim.experiments.blocks import Block, Drawing, Table, with_interval
from desim.experiments.drawing import readable_names
from desim.experiments.study import Account, Study, carry_out
from desim.statistics import mean_interval, paired_difference
from desim.sweep import Workers

SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "ogasched": {
        "figure2": {"seeds": 1},
        "table3": {},
        "figure7": {"seeds": 1, "utilities": ("linear", "log")},
        "figure6": {"seeds": 1, "contentions": (0.1, 20.0)},
        "rivals": {"seeds": 1},
        "figure4": {"seeds": 1, "initials": (1.0,), "decays": (1.0001,)},
        "figure3": {"seeds": 1, "nodes": (64, 256), "ports": (5,), "contentions": (0.1, 20.0)},
        "figure5": {"seeds": 1},
        "margins": {"seeds": 1, "contentions": (0.1,)},
        "regret": {"horizons": (500, 1_000, 2_000), "divide_nodes": 10},
    },
    "dbf": {
        "figure3": {"quick": False, "seeds": 1},
        "figure4": {"sizes": (20, 32), "seeds": 1},
        "figure5": {"sizes": (20,), "tails": (0, 1, 5)},
        "figure6": {"sizes": (20,), "tails": (0, 5)},
        "figure7": {},
        "controls": {"seeds": 1},
        "starvation": {"seeds": 1, "windows": ((5, 5),)},
        "kth": {"seeds": 1, "windows": ((5, 5),)},
        "unseen": {"seeds": 1, "moves": (10, 30), "workloads": ("Lublin, 64 cores", "Theta, load 1")},
    },
    "lachesis": {
        "figure6": {},
        "figure7": {"numbers": (1,)},
        "figure8": {"numbers": (1,)},
        "figure9": {"seeds": 1, "numbers": (1,)},
        "room": {"seeds": 1, "ratios": (5.0,), "num_jobs": 1, "num_arriving": 1},
        "generalization": {"seeds": 1, "num_jobs": 1, "executors": (2,), "ratios": (0.0,)},
        "gantts": {"num_jobs": 2, "num_executors": 2},
        "optimality": {"seeds": 1, "ratios": (1.0,), "num_nodes": 5, "num_executors": 2},
        "unseen": {
            "seeds": 1,
            "num_jobs": 2,
            "num_arriving": 1,
            "moves": (10, 20),
            "moves_arriving": (10,),
            "workloads": ("trees, CCR 2",),
        },
    },
    "openb": {"allocation": {}},
    "osdec": {
        "table1": {"seeds": 1},
        "table2": {"seeds": 1},
        "table4": {"seeds": 1},
        "figure4": {},
        "unseen": {"seeds": 1, "moves": (10,), "workloads": ("fluctuating", "spot instances")},
    },
}
NAMES = [f"{paper} {name}" for paper, studies in SIZES.items() for name in studies]
FAMILIES: dict[str, Any] = plugins.experiment_families()


def test_every_study_of_every_paper_is_here() -> None:
    assert {paper: tuple(sorted(studies)) for paper, studies in SIZES.items()} == {
        paper: tuple(sorted(family.modules)) for paper, family in FAMILIES.items()
    }


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module", params=NAMES)
def study(
    request: pytest.FixtureRequest,
    monkeypatch_module: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    batch_weights: Path,
) -> Study:
    """Return a study that was carried out; all of a paper share one store."""
    paper, name = request.param.split()
    root = tmp_path_factory.getbasetemp() / paper
    settings: dict[str, Any] = {"quick": True, "seeds": 2, "workers": Workers(1), "out": root / name}
    if paper == "ogasched":
        settings |= {"divide_slots": 1_000, "divide_nodes": 16}
    if paper == "dbf":
        monkeypatch_module.setattr("desim.experiments.dbf.study.QUICK_JOBS", 40)
        settings |= {"workload": "generated", "weights": batch_weights}
    made: Study = FAMILIES[paper].study(name)(**settings | SIZES[paper][name])
    assert carry_out(made) == 0
    return made


def blocks_of(study: Study, kind: type[Block]) -> list[Any]:
    return [block for block in Account.read(study.directory).blocks if isinstance(block, kind)]


def test_files_and_account_tell_what_was_shown(study: Study) -> None:
    account = Account.read(study.directory)
    assert (account.name, account.error) == (study.name, "")
    drawings = [block.file for block in blocks_of(study, Drawing)]
    assert f"{study.name}.png" in drawings or all(file.startswith(f"{study.name}_") for file in drawings)
    files = {path.name for path in study.directory.iterdir()}
    assert files == {"account.json", "results.json", "results.csv", *drawings}
    for file in drawings:
        assert (study.directory / file).read_bytes()[:4] == b"\x89PNG"
    for table in blocks_of(study, Table):
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.heads)}


def test_the_table_of_files_has_the_means_of_all_cells(study: Study) -> None:
    document = json.loads((study.directory / "results.json").read_text())
    with (study.directory / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows
    for cell, row in zip(document.get("cells", rows), rows, strict=True):
        (values,) = [cell[name] for name in cell if name.startswith("by_")] or [None]
        if isinstance(values, list) and None not in values:
            mean = cell["mean"] if "mean" in cell else cell["metrics"]["average_reward"]["mean"]
            assert mean == pytest.approx(np.mean(values))
            assert float(row.get("mean") or row["average_reward"]) == pytest.approx(mean)
        if "metric" in cell:
            assert row["agent"] == cell["agent"]
        assert False not in cell.get("valid", ())


def test_differences_from_the_reference_are_paired(study: Study) -> None:
    document = json.loads((study.directory / "results.json").read_text())
    cells = [
        cell for cell in document.get("cells", ()) if ("above_reference" in cell and "column" in cell) or "row" in cell
    ]
    values = {_key(cell): next(cell[name] for name in cell if name.startswith("by_")) for cell in cells}
    compared = 0
    for cell in cells:
        ours = values[_key(cell)]
        if "row" in cell:
            theirs = None if cell["compared_with"] is None else values[_key(cell["compared_with"])]
            found = None if cell["difference"] is None else (cell["difference"]["mean"], cell["difference"]["high"])
            ours, theirs = theirs, ours
        else:
            theirs = values.get(_key(cell | {"agent": document["reference"]}))
            above, half = cell["above_reference"], cell["above_reference_half_width"]
            found = None if above is None else (above, None if half is None else above + half)
        if ours is None or theirs is None or None in [*ours, *theirs]:
            continue
        difference = paired_difference(ours, theirs)
        assert found is not None
        assert found[0] == pytest.approx(difference.mean, abs=1e-9)
        if math.isfinite(difference.half_width):
            assert found[1] == pytest.approx(difference.high, abs=1e-6)
        compared += 1
    assert compared or not cells


def _key(cell: dict[str, Any]) -> tuple[Any, ...]:
    agent = cell["row"] if "row" in cell else cell["agent"]
    return cell["panel"], cell["column"], agent, cell.get("metric")


def test_a_cell_of_a_table_is_the_mean_with_its_interval(study: Study) -> None:
    """Where the row and the column of a table are those of a cell."""
    document = json.loads((study.directory / "results.json").read_text())
    words = {"ogasched table3": ("average reward", None), "lachesis figure7": ("makespan, s", "makespan")}
    paper = f"{study.paper} {study.name}"
    title, metric = words.get(paper, ("", None))
    for table in (table for table in blocks_of(study, Table) if table.title.endswith(f": {title}") and title):
        for row in table.rows:
            for column, text in zip(table.heads[1:], row[1:], strict=True):
                (cell,) = (
                    cell
                    for cell in document["cells"]
                    if table.title.startswith(f"{cell['panel']}:")
                    and (cell.get("row") or cell["agent"]) == row[0]
                    and (cell.get("column") or cell["jobs"]) == column
                    and cell.get("metric") == metric
                )
                values = cell.get("by_seed") or cell["by_workload"]
                assert text.partition(" [")[0] == with_interval(mean_interval(values))


# -- drawing ----------------------------------------------------------------------------------------


def test_names_of_marks_that_would_touch_are_blank_and_the_last_one_stays() -> None:
    numbers = ["1", "2", "4", "6", "8", "10", "12", "14", "16", "18", "20"]
    assert readable_names(np.arange(11.0), numbers, 0.1) == numbers
    logarithms = np.log([float(number) for number in numbers])
    assert readable_names(logarithms, numbers, 0.085) == ["1", "2", "4", "6", "8", "", "12", "", "", "", "20"]
    assert readable_names(np.array([0.0, 0.2, 3.0, 8.0]), ["0", "0.2", "3", "8"], 0.085) == ["0", "", "3", "8"]
