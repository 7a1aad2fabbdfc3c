"""Frames, and the tables and figures that are made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from desim.exceptions import RecordError
from desim.experiments.drawing import facets
from desim.experiments.frame import (
    FRAME_FILE,
    Frame,
    agent_of,
    crossed_interval,
    lead_percent,
    paired_trainings,
    spread,
)
from desim.experiments.tables import best_rule_table, lead_table, metric_table, value_table
from desim.statistics import mean_interval, paired_difference

WAITS = {"a": (10.0, 14.0), "b": (8.0, 15.0), "net 0": (9.0, 12.0), "net 1": (7.0, 10.0)}


def frame_of(waits: dict[str, tuple[float, ...]], column: str = "1") -> Frame:
    """Return a frame of one panel."""
    return Frame.of(
        {
            ("load", column, row, seed): {"wait": value, "valid": True}
            for row, values in waits.items()
            for seed, value in enumerate(values)
        }
    )


def test_values_are_those_of_the_seeds_in_order() -> None:
    frame = frame_of(WAITS)
    assert frame.values("load", "1", "a", "wait").tolist() == [10.0, 14.0]
    assert frame.estimate("load", "1", "a", "wait") == mean_interval([10.0, 14.0])
    assert frame.difference("load", "1", "a", "wait", "b") == paired_difference([10.0, 14.0], [8.0, 15.0])
    assert (frame.panels, frame.columns("load"), frame.rows("load")) == (["load"], ["1"], list(WAITS))
    assert frame.has("load", "1", "a", "wait") and not frame.has("load", "1", "a", "slowdown")
    with pytest.raises(RecordError, match="no slowdown of a in load, 1"):
        frame.values("load", "1", "a", "slowdown")


def test_the_best_rule_is_that_with_the_best_mean_and_agents_count_by_their_mean_in_each_seed() -> None:
    frame = frame_of(WAITS)
    assert frame.best("load", "1", ["a", "b"], "wait") == "b"
    assert frame.best("load", "1", ["a", "b"], "wait", "higher") == "a"
    rule, lead = frame.against_best("load", "1", ["net 0", "net 1"], ["a", "b"], "wait")
    assert (rule, lead.mean) == ("b", pytest.approx(100 * np.mean([8 / 8 - 1, 11 / 15 - 1])))
    assert frame.against_best("load", "1", "a", ["a"], "wait") == ("a", mean_interval([0.0, 0.0]))
    table = best_rule_table(frame, "load", "wait", "t", rules=["a", "b"], agents={"nets": ["net 0", "net 1"]})
    assert [cell.text for cell in table.cells[0]][:3] == ["1", "b", "11.50"]
    assert table.cells[0][3].text.startswith("-13.3 ± ")


def test_an_interval_over_trainings_and_workloads_has_both() -> None:
    table = np.array([[10.0, 14.0, 12.0, 16.0], [11.0, 15.0, 13.0, 17.0], [15.0, 19.0, 17.0, 21.0]])
    over_workloads, over_trainings = mean_interval(table.mean(axis=0)), mean_interval(table.mean(axis=1))
    found = crossed_interval(table)
    assert found.mean == pytest.approx(15.0)
    assert found.half_width == pytest.approx(np.hypot(over_workloads.half_width, over_trainings.half_width))
    assert crossed_interval(table[0]) == crossed_interval(table[:1]) == mean_interval(table[0])
    assert crossed_interval(table[:, :1]).half_width == mean_interval(table[:, 0]).half_width
    assert np.isnan(crossed_interval([3.0]).half_width)
    assert spread(table) == "3 trainings: 13, 14, 18; ± 6.6 over trainings, ± 4.1 over workloads"
    assert spread(table[0]) == spread(table[:1]) == ""


def test_an_interval_over_both_covers_the_mean_of_all_trainings_and_workloads() -> None:
    rng, covered = np.random.default_rng(1), 0
    for _ in range(400):
        table = rng.normal(0, 1, (3, 1)) + rng.normal(0, 2, (1, 5)) + rng.normal(0, 0.5, (3, 5))
        found = crossed_interval(table)
        covered += found.low <= 0.0 <= found.high
    assert 0.93 < covered / 400 <= 1.0


def test_trainings_of_an_agent_are_rows_that_name_their_seed() -> None:
    frame = frame_of({"net": (2.0, 4.0), "net, seed 1": (3.0, 6.0), "net, what fits": (9.0, 9.0)})
    assert frame.trainings("load", "net") == ["net", "net, seed 1"]
    assert [agent_of(row) for row in frame.rows("load")] == ["net", "net", "net, what fits"]
    ours = frame.by_training("load", "1", "net", "wait")
    assert ours.tolist() == [[2.0, 4.0], [3.0, 6.0]]
    assert lead_percent(ours, [1.0, 2.0]).mean == pytest.approx(150.0)
    assert lead_percent(ours, ours[:1]).mean == pytest.approx(25.0)
    assert [len(one) for one in paired_trainings(np.ones((3, 2)), ours)] == [2, 2]
    assert [len(one) for one in paired_trainings(np.ones((1, 2)), ours)] == [1, 2]
    figure = facets(frame, {"wait": "wait, s"}, {"load": "load"})
    (ax,) = figure.axes
    widths = [container.lines[0].get_linewidth() for container in ax.containers]
    colors = [container.lines[0].get_color() for container in ax.containers]
    assert widths[1] < widths[0] == widths[2]
    assert colors[0] == colors[1] != colors[2]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["net", "net, what fits"]


def test_a_ratio_to_a_loss_is_not_a_number() -> None:
    assert lead_percent([2.0, 3.0], [1.0, 2.0]).mean == pytest.approx(75.0)
    for ours, theirs in (([1.0, 2.0], [1.0, 0.0]), ([1.0, -2.0], [1.0, 2.0]), ([1.0, 2.0], [-1.0, -2.0])):
        assert np.isnan(lead_percent(ours, theirs).mean)
    table = lead_table(frame_of({"a": (1.0, 2.0), "b": (-1.0, 1.0)}), "load", "wait", "a", "t")
    assert table.cells[0][1].text.startswith("by 1.500 ± ")


@given(st.lists(st.floats(1e-9, 1e12), min_size=1, max_size=4))
def test_a_file_says_all_that_was_used(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    directory = tmp_path_factory.getbasetemp() / "frame"
    frame = frame_of({'a, "b"': tuple(values)})
    frame.write(directory)
    read = Frame.read(directory / FRAME_FILE)
    assert read.data.equals(frame.data)
    assert read.values("load", "1", 'a, "b"', "wait") == pytest.approx(values, rel=1e-5)


def test_what_is_no_frame_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="run the study again"):
        Frame.read(tmp_path / FRAME_FILE)
    (tmp_path / FRAME_FILE).write_text("panel,column\na,b\n")
    with pytest.raises(RecordError, match="expected the frame of a study"):
        Frame.read(tmp_path / FRAME_FILE)


def test_curves_are_panels_whose_columns_are_points_and_gaps_are_left_out() -> None:
    curves = [{"100": 1.0, "20": 3.0}, {"100": 2.0, "20": None}]
    frame = Frame.of(
        {("load", "1", "a", seed): {"wait": 1.0, "by slot": {"reward": curve}} for seed, curve in enumerate(curves)}
    )
    assert frame.panels == ["load", "load, 1 by slot"]
    assert frame.columns("load, 1 by slot") == ["20", "100"]
    assert frame.values("load, 1 by slot", "20", "a", "reward").tolist() == [3.0]
    assert frame.values("load, 1 by slot", "100", "a", "reward").tolist() == [1.0, 2.0]
    assert frame.without_curves().panels == ["load"]


def test_invalid_records_are_counted_and_unchecked_ones_are_not() -> None:
    assert frame_of(WAITS).num_invalid == 0
    checked = {("load", "1", "a", seed): {"valid": valid} for seed, valid in enumerate((True, False, None))}
    assert Frame.of(checked).num_invalid == 1


def test_tables_show_means_and_the_paper_and_mark_the_best() -> None:
    frame = frame_of(WAITS)
    table = value_table(frame, "load", "wait", "t", printed={"a": {"1": 11.0}}, better="lower")
    found = {row[0].text: row[1] for row in table.cells}
    assert found["a"].text.endswith(" [11.00]") and found["a"].text.startswith("12.00 ± ")
    assert [name for name, cell in found.items() if cell.bold] == ["net 1"]
    table = metric_table(frame, "load", "1", {"wait": "waiting time, s", "slowdown": "slowdown"}, "t")
    assert table.heads == ["", "waiting time, s", "slowdown"]
    assert [cell.text for cell in table.cells[0]][::2] == ["a", ""]


def test_facets_draw_every_row_and_the_paper_where_it_has_numbers() -> None:
    data = [frame_of({"a": (1.0, 2.0), "b": (3.0, 4.0)}, column).data for column in ("1", "2", "20")]
    frame = Frame(pl.concat(data))
    printed = {("load", "wait"): {"a": {"1": 1.5, "20": 1.7}}}
    figure = facets(frame, {"wait": "waiting time, s"}, {"load": "offered load"}, printed=printed)
    (ax,) = figure.axes
    assert ax.get_xscale() == "log"
    hollow = [line for line in ax.lines if line.get_markerfacecolor() == "white"]
    assert [line.get_ydata().tolist() for line in hollow] == [[1.5, 1.7]]
    assert len(ax.containers) == 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "the paper's"]
