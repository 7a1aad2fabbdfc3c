"""Tables in several files, read portion by portion: the same rows in the same order as the table read as a whole."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from desim import RecordError, records
from desim.records import Parts, portions_of

KEYS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.0, 2.5, math.inf, math.nan]), st.floats(0, 50))
ROWS = st.lists(st.tuples(KEYS, st.integers(0, 2)), max_size=60)


@given(rows=ROWS, cuts=st.lists(st.integers(0, 60), max_size=6), size=st.integers(1, 20), first=st.booleans())
def test_portions_are_the_table_in_order(
    rows: list[tuple[float, int]], cuts: list[int], size: int, first: bool
) -> None:
    frame = pl.DataFrame(rows, {"time": pl.Float64, "id": pl.Int64}, orient="row").with_row_index("number")
    order = ["time", "id"] if first else ["id"]
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "PORTION_ROWS", size)
        places = [0, *sorted(cuts), len(frame)]
        for part, (begin, end) in enumerate(pairwise(places)):
            frame[begin : max(begin, end)].write_parquet(Path(directory) / f"part-{part:06d}.parquet")
        frame = pl.read_parquet(f"{directory}/part-*.parquet")
        parts = Parts(Path(directory), order)
        whole = parts.scan().collect()
        assert parts.height == len(whole)
        assert_frame_equal(whole, frame.sort(order, maintain_order=True))
        assert_frame_equal(pl.concat(parts.portions()), whole)
        assert_frame_equal(pl.concat(portions_of(whole)), whole)
        assert_frame_equal(pl.concat(parts.portions(in_order=False)).sort("number"), whole.sort("number"))
        by_time = whole.sort("time", maintain_order=True).select("number", "id")
        for portions in (
            parts.portions(["number", "id"], by=["time"]),
            portions_of(whole, ["number", "id"], by=["time"]),
        ):
            assert_frame_equal(pl.concat(portions), by_time)


def test_a_long_table_comes_in_several_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "PORTION_ROWS", 100)
    for part in range(10):
        times = [float(part * 100 + (number * 7) % 130) for number in range(100)]
        pl.DataFrame({"time": times}).write_parquet(tmp_path / f"part-{part:06d}.parquet")
    heights = [len(portion) for portion in Parts(tmp_path, ["time"]).portions()]
    assert len(heights) == 10
    assert max(heights) < 200
    frame = Parts(tmp_path, ["time"]).scan().collect()
    assert [len(portion) for portion in portions_of(frame)] == [100] * 10


def test_a_directory_without_parts_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="contains no part of a table"):
        Parts(tmp_path)
