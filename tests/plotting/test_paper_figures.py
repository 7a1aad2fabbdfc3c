"""Figures at the widths of a paper's columns: nothing is cut, nothing lies on anything; what comparisons show."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from batch_pictures import check_layout, run, some_jobs
from matplotlib.figure import Figure

from desim import InvalidConfiguration
from desim.formatting import selection
from desim.plotting import distributions, mean_curves
from desim.plotting.axes import figure_style
from desim.plotting.comparison import figures_of
from desim.plugins import create_agent
from desim.problem import kind_of
from desim.scenario import replay, system_of
from desim.sweep import Run
from desim.sweep.comparison import compare_runs
from desim.sweep.options import options_of

WIDTHS = {"paper": 3.5, "paper-wide": 7.16}
#: Agents with long and short names, of values over several orders of magnitude.
NAMES = ("fcfs", "sjf", "f1", "backfilling-fcfs", "easy-fcfs", "easy-sjf", "a very long name of an agent indeed")
RUNS = {
    "batch": ("easy-fcfs", {"jobs": 30, "cores": 64}),
    "nodes": ("easy-fcfs", {"jobs": 30, "nodes": "3x16,2x32"}),
    "dag": ("heft", {"jobs": 2, "executors": 4}),
    "deferrable": ("tetris", {"trace": "fluctuating"}),
    "multiserver": ("drf", {"slots": 30, "nodes": 32}),
}


def check_texts(figure: Figure) -> None:
    """Check the layout, and that values written beside dots lie neither on each other nor outside."""
    check_layout(figure)
    for axes in figure.axes:
        places = [text.get_window_extent() for text in axes.texts]
        assert all(figure.bbox.padded(1.0).contains(*corner) for place in places for corner in place.corners())
        assert not any(one.overlaps(other) for one, other in combinations(places, 2))


def figures(directory):
    """Return the figures of seven agents with values over several orders of magnitude, over four seeds."""
    rng = np.random.default_rng(0)
    names = selection({"": dict.fromkeys(kind_of("batch").metrics.names, 1.0)}, 6, kind_of("batch"))
    behind = dict.fromkeys(("jobs_queued", "jobs_running", "jobs_lost"), 0.0)
    stored = [run(some_jobs(12, 8, seed=seed, run_time=900.0), 8).save(directory / str(seed)) for seed in range(4)]
    runs = [
        Run(
            "",
            agent,
            seed,
            {"metrics": behind | {name: 4.0**row * rng.uniform(1.0, 2.0) for name in names}},
            stored[seed],
        )
        for seed in range(4)
        for row, agent in enumerate(NAMES)
    ]
    return figures_of(compare_runs(runs, "fcfs", kind_of("batch")))


@pytest.mark.parametrize("style", WIDTHS)
def test_figures_of_comparisons_fit_columns(style, tmp_path):
    drawn = figures(tmp_path)
    assert list(drawn) == ["metrics", "ranks", "profiles", "distribution", "over-time"]
    with figure_style(style):
        for name, draw in drawn.items():
            axes = draw()
            figure = (axes[0] if isinstance(axes, list) else axes).figure
            check_texts(figure)
            assert figure.get_figwidth() == WIDTHS[style] and figure.get_figheight() < 9.0, name


@pytest.mark.parametrize("problem", RUNS)
def test_figures_of_runs_fit_columns(problem):
    agent, given = RUNS[problem]
    system = system_of(problem.replace("nodes", "batch"))
    options = options_of(system.options, given)
    result = replay(system.instance(options), create_agent(system.name, agent), 0)
    for name, value in result.metrics().items():
        assert kind_of(result).metrics[name].within(value) == pytest.approx(value, nan_ok=True), name
    for style, width in WIDTHS.items():
        with figure_style(style):
            for name, figure in kind_of(result).figures.items():
                if figure.suits([result]):
                    axes = figure.draw({f"{agent}, seed 0": result, "another": result})
                    drawn = (axes[0] if isinstance(axes, list) else axes).figure
                    assert drawn.get_figwidth() == width, name
                    check_layout(drawn)


def test_shares_are_counted_and_axes_say_where_they_are_logarithmic():
    axes = distributions({"a": [0.0, 0.0, 30.0, 5_000.0], "b": [60.0]}, label="waiting time", unit="s")
    times, shares = axes.get_lines()[0].get_data()
    assert [shares[np.searchsorted(times, time, "right") - 1] for time in (0.0, 29.0, 30.0, 5_000.0)] == [
        50,
        50,
        75,
        100,
    ]
    assert axes.get_xscale() == "symlog" and axes.get_xlim()[0] == 0.0
    assert "logarithmic from 10 s" in axes.get_xlabel()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "10 s", "1 min", "10 min", "1 h"]
    assert distributions({"a": [1.0, 900.0]}, label="reward").get_xscale() == "linear"
    with pytest.raises(InvalidConfiguration, match=r"samples\['a'\]: got nan, expected finite numbers"):
        distributions({"a": [1.0, np.nan]}, label="reward")


def test_means_over_time_are_means_of_runs():
    runs = [run(some_jobs(8, 4, seed=seed), 4) for seed in range(3)]
    panels = mean_curves({"one": runs, "two": runs[:1]}, bin_width=50.0)
    assert [panel.get_ylabel().replace("\n", " ") for panel in panels] == ["utilization (% of cores up)", "queued jobs"]
    line, single = (line for line in panels[0].lines if line.get_gid() == "curve")
    bands = [np.concatenate([path.vertices for path in band.get_paths()])[:, 1] for band in panels[0].collections]
    assert [band.min() >= 0.0 and band.max() <= 100.0 for band in bands] == [True, True] and np.ptp(bands[0]) > 50.0
    shortest = min(result.end_time for result in runs)
    assert len(line.get_xdata()) == int(shortest / 50.0) and line.get_xdata()[:2].tolist() == [25.0, 75.0]
    for place, (mean, alone) in enumerate(zip(line.get_ydata(), single.get_ydata(), strict=True)):
        busy = []
        for result in runs:
            columns = ("starting_time", "finish_time", "requested_number_of_resources")
            begin, end, cores = (result.jobs[name].to_numpy() for name in columns)
            inside = np.clip(np.minimum(end, 50.0 * place + 50.0) - np.maximum(begin, 50.0 * place), 0.0, None)
            busy.append(100.0 * (inside * cores).sum() / (4 * 50.0))
        assert (mean, alone) == pytest.approx((np.mean(busy), busy[0]))
