"""Verdicts on what papers claim, registers, and whether pages follow from the tables that are committed beside them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desim import plugins
from desim.exceptions import InvalidConfiguration
from desim.experiments.claims import (
    REGISTER_FILE,
    Claim,
    FixedRule,
    claims_table,
    fixed_rules_table,
    read_register,
    register_table,
)
from desim.experiments.frame import Frame
from desim.experiments.report import documented
from desim.experiments.report_blocks import Table
from desim.statistics import Estimate

NAN = float("nan")
PAGES = Path(__file__).parents[2] / "docs" / "reports"
FAMILIES: dict[str, Any] = plugins.experiment_families()


def estimate(mean: float, half_width: float = NAN) -> Estimate:
    return Estimate(mean, half_width, 5, 0.95)


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (Claim("x", 10.0, estimate(11.0, 1.0)), "reproduced"),
        (Claim("x", 10.0, estimate(12.0, 1.0)), "not reproduced"),
        (Claim("x", 10.0, estimate(12.0, 1.0), tolerance=1.0), "reproduced"),
        (Claim("x", 10.0, estimate(12.0, 1.0), in_order=True), "reproduced in order only"),
        (Claim("x", 10.0, estimate(12.0, 1.0), in_order=False), "not reproduced"),
        (Claim("x", 10.0, estimate(10.0)), "reproduced"),
        (Claim("x", 10.0, estimate(10.1)), "not reproduced"),
        (Claim("x", 10.0, estimate(11.0, 6.0)), "cannot be judged here"),
        (Claim("x", 10.0, estimate(11.0, 6.0), tolerance=7.0), "reproduced"),
        (Claim("x", 10.0, estimate(30.0, 6.0)), "not reproduced"),
        (Claim("x", 10.0, estimate(30.0, 6.0), in_order=True), "reproduced in order only"),
        (Claim("x", 10.0, estimate(10.0, 1.0), is_judged=False), "cannot be judged here"),
        (Claim("x", 10.0, estimate(NAN)), "cannot be judged here"),
        (Claim("x", "A is ahead of B", "it is", in_order=True), "reproduced"),
        (Claim("x", "A is ahead of B", "it is not", in_order=False), "not reproduced"),
    ],
)
def test_verdicts(claim: Claim, verdict: str) -> None:
    assert claim.verdict == verdict


@given(st.floats(-50, 50), st.floats(0, 4), st.floats(0, 3))
def test_above_counts_as_below(distance: float, half_width: float, tolerance: float) -> None:
    verdicts = {
        Claim("x", 10.0, estimate(10.0 + sign * distance, half_width), tolerance=tolerance).verdict for sign in (-1, 1)
    }
    assert len(verdicts) == 1 or abs(abs(distance) - half_width - tolerance) < 1e-9


def test_fixed_rules_are_calibrated_within_percent_on_either_side() -> None:
    rules = [FixedRule("FIFO", "table 1", "reward", 200.0, estimate(ours, 1.0), 2.0) for ours in (195.0, 197.0, 203.0)]
    assert [rule.is_calibrated for rule in rules] == [False, True, True]
    rows = [[cell.text for cell in row] for row in fixed_rules_table(rules).cells]
    assert rows[0][3:] == ["200.0", "195.0 ± 1", "-2.5 %", "not calibrated"]
    assert rows[1][5:] == ["-1.5 %", "matches within 2 %"]
    assert FixedRule("FIFO", "table 1", "delay", -200.0, estimate(-210.0)).distance == pytest.approx(-5.0)


def test_table_of_claims_tells_the_reason() -> None:
    claims = [
        Claim("lead, %", 10.0, estimate(12.0, 1.0), reason="Others start later."),
        Claim("order", "a", "b", reason=""),
        Claim("queue", 10.0, estimate(12.0, 30.0), reason="two trainings"),
        Claim("queue", 10.0, estimate(12.0, 30.0), is_judged=False, reason="Untrained."),
    ]
    rows = [[cell.text for cell in row] for row in claims_table(claims).cells]
    assert rows == [
        ["lead, %", "10.00", "12.00 ± 1", "not reproduced", "Others start later."],
        ["order", "a", "b", "not reproduced", ""],
        ["queue", "10.00", "12.00 ± 30", "cannot be judged here", "two trainings; the interval is too wide"],
        ["queue", "10.00", "12.00 ± 30", "cannot be judged here", "Untrained."],
    ]


def test_registers_are_read_and_what_is_no_item_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_paper"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert read_register("some_paper") == []
    item = '[[item]]\nitem = "slots"\nwhere = "table II"\nkind = "not stated"\ncandidates = ["1", "2"]\nused = "1"\n'
    (package / REGISTER_FILE).write_text(item + 'effect = "none"\n')
    (found,) = read_register("some_paper")
    assert (found.item, found.used) == ("slots", "1")
    assert register_table([found]).folded == "Register: 1 items that the paper does not state, 0 departures"
    (package / REGISTER_FILE).write_text(item)
    with pytest.raises(InvalidConfiguration, match=r"register.toml of some_paper, item 1: got candidates, item"):
        read_register("some_paper")
    sys.modules.pop("some_paper", None)


def frames_of(name: str) -> dict[str, Frame]:
    """Return what is committed beside the page of a paper."""
    paths = {one: PAGES / name / f"{one}.csv" for one in FAMILIES[name].modules}
    return {one: Frame.read(path) for one, path in paths.items() if path.exists()}


def test_papers_have_frames_beside_their_pages() -> None:
    assert {name for name in FAMILIES if frames_of(name)} == set(FAMILIES)


@pytest.mark.parametrize("name", [name for name in FAMILIES if frames_of(name)])
def test_the_tables_that_open_a_page_follow_from_the_tables_beside_it(name: str) -> None:
    page = (PAGES / f"{name}.rst").read_text(encoding="utf-8")
    opening = FAMILIES[name].opening(frames_of(name))
    assert opening.rules or name == "jobshop"  # which is no paper's
    assert opening.claims or name in {"bihyb", "jobshop"}  # whose publication is compared in a table
    for block in opening.blocks():
        text = block.folded if isinstance(block, Table) and block.folded else documented(block)
        assert text in page, "write the page again: desim reproduce PAPER --report"
