"""Tables for pandas and Arrow, and time series as plain frames."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from desim import InvalidConfiguration, RecordError, Result, compare, simulate
from desim.agents.batch import FCFS
from desim.exceptions import MissingDependency
from desim.export import time_series
from desim.plugins import create_agent
from desim.problems.batch import BatchCluster, Job
from desim.scenario import replay, system_of
from desim.sweep.options import options_of


@pytest.fixture(scope="module")
def result() -> Result:
    """Two jobs of both cores, the second of which waits from 4 to 10 s."""
    return simulate(BatchCluster([Job(1, 0.0, 2, 10.0, 10.0), Job(2, 4.0, 2, 8.0, 8.0)], num_cores=2), FCFS())


def test_a_row_for_each_change_and_means_over_bins(result: Result) -> None:
    steps = time_series(result)
    assert steps.columns == ["time", "utilization", "queue"]
    held = {time: (use, queue) for time, use, queue in steps.iter_rows()}
    assert held == {0.0: (100.0, 0.0), 4.0: (100.0, 1.0), 10.0: (100.0, 0.0), 18.0: (0.0, 0.0)}
    assert time_series(result, every=5.0).to_dict(as_series=False) == {
        "time": [0.0, 5.0, 10.0, 15.0],
        "utilization": [100.0, 100.0, 100.0, 100.0],
        "queue": [0.2, 1.0, 0.0, 0.0],
    }
    with pytest.raises(InvalidConfiguration, match="every: got 0"):
        time_series(result, every=0.0)


def test_tables_for_pandas_and_arrow(result: Result) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'desim[pandas]'")
    pytest.importorskip("pandas", reason="pandas is not installed: pip install 'desim[pandas]'")
    frame = result.to_pandas()
    assert list(frame.columns) == result.jobs.columns
    assert frame["waiting_time"].tolist() == [0.0, 6.0]
    assert frame["status"].astype(str).tolist() == ["completed", "completed"]
    assert result.to_arrow().column("finish_time").to_pylist() == [10.0, 18.0]
    assert result.to_pandas("outages").empty
    with pytest.raises(RecordError, match="no table 'job'"):
        result.to_pandas("job")


RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "batch": ("easy-fcfs", {"jobs": 20, "nodes": "2x16", "dependencies": "drop"}),
    "dag": ("heft", {"jobs": 2, "executors": 4}),
    "deferrable": ("tetris", {"trace": "fluctuating"}),
    "multiserver": ("drf", {"slots": 20, "nodes": 8}),
}


@pytest.mark.parametrize("problem", RUNS)
def test_every_table_of_every_problem_has_the_same_values_in_pandas_and_arrow(problem: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    (agent, given), system = RUNS[problem], system_of(problem)
    instance = system.instance(options_of(system.options, given))
    replay(instance, create_agent(problem, agent), 0, out=tmp_path)
    result = Result.load(tmp_path)
    for name in result.table_names:
        table, frame = result.table(name), result.to_pandas(name)
        assert list(frame.columns) == table.columns and len(frame) == table.height, name
        assert result.to_arrow(name).to_pylist() == table.to_dicts(), name
        for column in table.columns:
            values = [None if pandas.api.types.is_scalar(one) and pandas.isna(one) else one for one in frame[column]]
            known = [list(one) if hasattr(one, "__len__") and not isinstance(one, str) else one for one in values]
            assert known == [one if one == one else None for one in table[column].to_list()], (name, column)


def test_frames_of_a_comparison_become_frames_of_pandas() -> None:
    pytest.importorskip("pandas")
    found = compare("batch", ["fcfs"], seeds=2, workers=1, jobs=20, cores=32)
    means = found.table.to_pandas()
    assert means["mean"].tolist() == pytest.approx(found.table["mean"].to_numpy(), nan_ok=True)
    assert list(found.runs.to_pandas().columns) == found.runs.columns


@pytest.mark.parametrize("call", ["to_pandas", "to_arrow"])
def test_a_missing_package_is_named_with_its_extra(result: Result, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependency, match=rf"{call} needs pyarrow.*pip install 'desim\[pandas\]'"):
        getattr(result, call)()
