"""Runs on a window of a log: figures and pages over time mark what is not measured; nothing ends at the last pixel."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import image

import desim
from desim import Result
from desim.plotting import compare_metrics
from desim.plotting.axes import figure_style
from desim.plotting.interactive import view
from desim.problem import kind_of
from desim.problems.batch import BatchCluster, Workload
from desim.workloads import lublin

DAY = 86_400.0


@pytest.fixture(scope="module")
def run() -> Result:
    """Return a run of one day of a log with six hours around it."""
    log = Workload.of(lublin.generate(900, 32, seed=3, load=0.9))
    window = log.windows(DAY, warm_up=DAY / 4, cool_down=DAY / 4)[1]
    return desim.simulate(BatchCluster(window, 32), "easy")


def test_the_measured_span_is_that_of_the_window(run: Result) -> None:
    _, first, start, end, last = run.info["window"]
    assert run.measured_span == (start - first, end - first) == pytest.approx((DAY / 4, 1.25 * DAY))
    assert run.span[1] > 1.25 * DAY and last == pytest.approx(end + DAY / 4)
    assert desim.simulate(BatchCluster(lublin.generate(9, 4, seed=0), 4), "easy").measured_span is None


@pytest.mark.parametrize("name", ["gantt", "utilization", "queue"])
def test_figures_over_time_shade_warm_up_and_cool_down(name: str, run: Result) -> None:
    for runs in ({"a": run}, {"a": run, "b": run}):
        drawn = kind_of(run).figures[name].draw(runs)
        panels = drawn if isinstance(drawn, list) else [drawn]
        for panel in panels:
            shades = sorted(
                (part.get_x(), part.get_x() + part.get_width())
                for part in panel.patches
                if part.get_gid() == "unmeasured"
            )
            assert shades == [(0.0, pytest.approx(DAY / 4)), (pytest.approx(1.25 * DAY), pytest.approx(run.span[1]))]
        (legend,) = panels[0].figure.legends
        assert [text.get_text() for text in legend.get_texts()].count("warm-up, cool-down (not measured)") == 1
    within = kind_of(run).figures[name].draw({"a": run}, window=(DAY / 2, DAY))
    panel = within[0] if isinstance(within, list) else within
    assert all(part.get_gid() != "unmeasured" for part in panel.patches)


def test_pages_know_the_measured_span(run: Result, tmp_path: Path) -> None:
    whole = desim.simulate(BatchCluster(lublin.generate(9, 4, seed=0), 4), "easy")
    text = view({"window": run}, tmp_path / "a.html").read_text()
    assert run.measured_span is not None
    assert '"measured":[{},{}]'.format(*run.measured_span) in text.replace(" ", "")
    assert '"measured":null' in view({"whole": whole}, tmp_path / "b.html").read_text().replace(" ", "")


def test_metrics_in_a_column_leave_a_margin() -> None:
    agents = ("my_agents:narrow", "easy-fcfs")
    names = ("waiting_time_mean", "bounded_slowdown_mean", "wasted_core_seconds", "turnaround_time_median")
    table: Any = {agent: dict.fromkeys(names, 4_171.0) for agent in agents}
    with figure_style("paper"):
        figure = compare_metrics(table, metrics=names)[0].figure
        buffer = io.BytesIO()
        figure.savefig(buffer, dpi=150)  # type: ignore[union-attr]
    buffer.seek(0)
    _, columns = np.nonzero(image.imread(buffer)[..., :3].min(axis=2) < 0.98)
    assert columns.min() >= 4 and columns.max() < 525 - 4
