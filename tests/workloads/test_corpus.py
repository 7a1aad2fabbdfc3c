"""Small files with every known oddity of each format: what each reader makes of them, or says about them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from workload_files import edges_of

from desim.exceptions import DesimError
from desim.problems.batch.parts.reservations.options import reservations_of_text
from desim.workloads.batch import registry as batch
from desim.workloads.dag import registry as dag

CORPUS = Path(__file__).parent.parent / "corpus"
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads((CORPUS / "expected.toml").read_text())


def found(path: Path) -> dict[str, Any]:
    """Return what a reader makes of a file."""
    if path.suffix in (".swf", ".csv") or (path.name.endswith(".json") and not path.name.endswith(".wf.json")):
        options = {"dependencies": "keep"} if path.name == "links.swf" else {}
        loaded = batch.load(str(path), **options)  # type: ignore[arg-type]
        jobs, report = list(loaded.jobs), loaded.report
        about: dict[str, Any] = {"rows": [list(job[:5]) for job in jobs], "stated": loaded.cores_stated}
        if any(job.after for job in jobs):
            about["after"] = [list(job.after.jobs) if job.after else [] for job in jobs]
    else:
        report = dag.WorkflowReport()
        jobs = dag.read_all(path, report=report)
        scale = 1 if path.suffix in (".jsp", ".sm", ".mm", ".rcp") else dag.tpch.REFERENCE_SPEED
        about = {"rows": [(job.work / scale).round(9).tolist() for job in jobs]}
        about["edges"] = [[*names, size] for job in jobs for names, size in sorted(edges_of(job).items())]
    about["repairs"] = {reason.name.lower(): report.count(reason) for reason in report.counts}
    return {name: value for name, value in about.items() if value}


def test_every_file_is_expected() -> None:
    assert {path.name for path in CORPUS.iterdir()} - {"expected.toml"} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_corpus(name: str) -> None:
    expected = EXPECTED[name]
    try:
        outcome = found(CORPUS / name)
    except DesimError as error:
        outcome = {"error": str(error).removeprefix(f"{CORPUS / name}: ")}
    assert outcome == expected


def test_reservations_of_batsim() -> None:
    (reservation,) = reservations_of_text(str(CORPUS / "batsim_jobs.csv"))
    assert (reservation.start, reservation.end, reservation.cores) == (10.0, 20.0, 4)
