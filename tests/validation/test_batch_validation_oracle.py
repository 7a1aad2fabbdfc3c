"""The rules on cores against loops over all pairs, on tables that no simulator has made."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import Result, Simulation
from desim.problems.batch import BatchCluster, occupancy
from desim.validation import validate

NUM_CORES = 5

core_sets = st.sets(st.integers(0, NUM_CORES - 1), min_size=1).map(sorted)
intervals = st.tuples(st.integers(0, 12), st.integers(0, 5)).map(lambda pair: (float(pair[0]), float(sum(pair))))
executions = st.lists(st.tuples(intervals, core_sets), max_size=8)
downtimes = st.lists(
    st.tuples(st.integers(0, NUM_CORES - 1), st.lists(st.integers(0, 15), max_size=4).map(sorted)), max_size=3
)


def written(cores):
    """Write sorted core ids as ranges."""
    ranges = []
    for core in cores:
        if ranges and ranges[-1][1] == core - 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def result_of(runs, down):
    """Put executions and downtimes into the tables of a run."""
    empty = Simulation(BatchCluster([], num_cores=NUM_CORES)).finish()
    rows = [
        {
            "job_id": number,
            "submission_time": start,
            "requested_number_of_resources": len(cores),
            "requested_time": end - start,
            "run_time": end - start,
            "starting_time": start,
            "execution_time": end - start,
            "finish_time": end,
            "waiting_time": 0.0,
            "turnaround_time": end - start,
            "stretch": 1.0 if end > start else None,
            "allocated_resources": written(cores),
            "success": True,
            "status": "completed",
            "attempts": 1,
            "earlier_execution_time": 0.0,
            "useful_execution_time": end - start,
            "user_id": -1,
            "arrival_number": number,
        }
        for number, ((start, end), cores) in enumerate(runs)
    ]
    events = sorted((time, index, core) for core, times in down.items() for index, time in enumerate(times))
    outages, up = [], NUM_CORES
    for time, index, core in events:
        up += 1 if index % 2 else -1
        outages.append(
            {"time": float(time), "event": ("down", "up")[index % 2], "resources": str(core), "cores_up": up}
        )
    tables = {
        "jobs": pl.DataFrame(rows, schema=empty.jobs.schema).lazy(),
        "interruptions": empty.scan("interruptions"),
        "outages": pl.DataFrame(outages, schema=empty.table("outages").schema).lazy(),
    }
    return Result(tables, empty.info | {"end_time": 50.0})


def downtime_intervals(down):
    """List (core, from, to)."""
    for core, times in down.items():
        for index in range(0, len(times), 2):
            yield core, times[index], times[index + 1] if index + 1 < len(times) else float("inf")


def shares_a_core(runs):
    """Tell whether any two executions overlap on a core."""
    for index, ((start, end), cores) in enumerate(runs):
        for (other_start, other_end), other_cores in runs[:index]:
            overlap = start < end and other_start < other_end and start < other_end and other_start < end
            if overlap and set(cores) & set(other_cores):
                return True
    return False


def on_down_cores(runs, down):
    """List the executions that a downtime of one of their cores overlaps with."""
    hit = set()
    for number, ((start, end), cores) in enumerate(runs):
        for core, since, until in downtime_intervals(down):
            if core in cores and start < end and start < until and since < end:
                hit.add(number)
    return hit


def overloaded(runs, down):
    """Tell whether at any moment more cores are in use than are up."""
    moments = {time for span, _ in runs for time in span} | {time for times in down.values() for time in times}
    for now in moments:
        used = sum(len(cores) for (start, end), cores in runs if start <= now < end)
        gone = sum(since <= now < until for _, since, until in downtime_intervals(down))
        if used > NUM_CORES - gone:
            return True
    return False


@settings(max_examples=150, deadline=None)
@given(runs=executions, down=downtimes.map(dict), pairs=st.sampled_from([1, 4, 1 << 21]))
def test_rules_on_cores_agree_with_loops_over_pairs(runs, down, pairs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(occupancy, "PAIRS", pairs)  # groups of one core, of some, of all
        report = validate(result_of(runs, down), stop_after=1_000)
    assert set(report.counts) <= {"core_exclusive", "core_down", "capacity"}, str(report)
    assert ("core_exclusive" in report.counts) == shares_a_core(runs)
    assert ("capacity" in report.counts) == overloaded(runs, down)
    told = {
        violation.message.split("runs job ")[1].split()[0]
        for violation in report.violations
        if violation.rule == "core_down"
    }
    assert told == {str(number) for number in on_down_cores(runs, down)}


@given(st.lists(st.none() | st.sets(st.integers(0, 40), min_size=1).map(sorted), max_size=12))
def test_core_ranges_are_read_back(rows):
    column = pl.Series([None if cores is None else written(cores) for cores in rows], dtype=pl.String)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(occupancy, "CHUNK_ROWS", 3)
        ranges = occupancy.read_core_ranges(column, 41)
    assert not ranges.malformed.any()
    assert ranges.counts.tolist() == [len(cores or ()) for cores in rows]
    index, core = occupancy.spread(ranges.first, ranges.last)
    found = [[] for _ in rows]
    for row, core_id in zip(ranges.row[index].tolist(), core.tolist(), strict=True):
        found[row].append(core_id)
    assert found == [cores or [] for cores in rows]


@given(st.text("0123456789- ,x\n٣", max_size=8))
def test_only_well_formed_core_ranges_are_read(text):
    def well_formed():
        last = -1
        for part in text.split(" "):
            ends = part.split("-")
            if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
                return False
            if int(ends[0]) <= last or int(ends[-1]) < int(ends[0]) or int(ends[-1]) >= 1_000:
                return False
            last = int(ends[-1])
        return True

    ranges = occupancy.read_core_ranges(pl.Series(["0", text, "1-2"]), 1_000)
    assert ranges.malformed.tolist() == [False, not well_formed(), False]
    assert ranges.counts[[0, 2]].tolist() == [1, 2]
