"""The study of job shops, carried out on generated ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from desim.exceptions import InvalidConfiguration
from desim.experiments.jobshop import FAMILY
from desim.experiments.jobshop.gaps import PANEL, QUICK, RULES
from desim.experiments.jobshop.simulate import instances
from desim.sweep import Workers

pytest.importorskip("numba")
pytest.importorskip("ortools")


def test_the_study_runs_on_generated_job_shops(tmp_path: Path) -> None:
    study = FAMILY.study("gaps")(quick=True, seeds=1, workers=Workers(1), out=tmp_path)
    (frame,) = [block for block in study.blocks() if hasattr(block, "estimate")]
    assert frame.num_invalid == 0
    for name in QUICK:
        gaps = {row: frame.estimate(PANEL, name, row, "gap").mean for row in frame.rows(PANEL)}
        assert min(gaps.values()) >= 0.0
        assert gaps["Search, 0.1 s"] <= min(gaps[rule] for rule in RULES)
    assert gaps.keys() > set(RULES)


def test_a_directory_without_instances_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"expected a directory with jobshop/jobshop.json"):
        instances(str(tmp_path))
