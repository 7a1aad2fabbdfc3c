"""Gavel's throughputs: run times of kinds of jobs by model, and jobs with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from workload_files import data, refusal

from desim.exceptions import InvalidConfiguration
from desim.workloads.batch import gavel

SMALL = {
    "v100": {"('LM', 1)": {"null": 30.0, "('A', 1)": [1.0, 2.0]}, "('LM', 2)": {"null": 50.0}},
    "k80": {"('LM', 1)": {"null": 6.0}, "('LM', 2)": {"null": 0.0}},
    "k80_unconsolidated": {"('LM', 2)": {"null": 5.0}},
}


def test_run_times(put: Callable[..., Path]) -> None:
    measured = gavel.read(put(SMALL))
    assert measured.models == ("V100", "K80")
    assert measured.kinds() == measured.kinds(2) == ["LM"]
    assert measured.apart == {"K80": {("LM", 2): 5.0}}
    assert measured.run_times("LM", 1, 60.0) == {"V100": 60.0, "K80": 300.0}
    assert measured.run_times("LM", 1, 60.0, on="K80") == {"V100": 12.0, "K80": 60.0}
    assert measured.run_times("LM", 2, 60.0) == {"V100": 60.0}
    for arguments in (("LM", 4, 1.0), ("GAN", 1, 1.0)):
        with pytest.raises(InvalidConfiguration, match="was not measured on V100"):
            measured.run_times(*arguments)
    with pytest.raises(InvalidConfiguration, match="expected one of V100, K80"):
        measured.run_times("LM", 1, 1.0, on="H100")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "is not JSON"),
        ([], "got a JSON list, expected a JSON object"),
        ({"v100": 3}, "v100: got 3"),
        ({"v100": {"LM": {"null": 3}}}, "v100: LM: expected a pair of kind of job"),
        ({"v100": {"('LM', 1)": {}}}, "v100: ('LM', 1): expected a pair of kind of job"),
        ({"v100": {"('LM', 1)": {"null": -3}}}, "with its speed alone"),
    ],
)
def test_what_makes_no_sense(put: Callable[..., Path], content: object, message: str) -> None:
    assert message in refusal(lambda: gavel.read(put(content)))


def test_the_published_measurements() -> None:
    measured = gavel.read(data("gpu/gavel_throughputs.json.gz"))
    assert measured.models == ("K80", "P100", "V100")
    assert [len(measured.kinds(gpus)) for gpus in (1, 2, 4, 8)] == [26, 19, 19, 19]
    times = measured.run_times("ResNet-50 (batch size 64)", 1, 100.0)
    assert times["K80"] == pytest.approx(100 * 4.3948 / 0.6190, rel=1e-3)
    assert "K80" not in measured.run_times("ResNet-50 (batch size 128)", 2, 100.0)
