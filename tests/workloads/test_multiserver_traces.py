"""Systems and arrivals from tables of a trace: job types, their arrivals, errors."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multiserver_systems import MACHINES, REQUESTS, requests_of, same
from numpy.random import default_rng
from scipy.stats import chisquare

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads import multiserver
from desim.workloads.multiserver import from_alibaba, generate, job_types, trace_arrivals


def plain_types(rows: list[tuple[float, ...]], count: int) -> list[tuple[float, ...]]:
    """Choose medoids one by one, from cores, GB and GPUs, as stated for `job_types`."""

    def distance(one: tuple[float, ...], other: tuple[float, ...]) -> float:
        return math.dist(
            *((math.log2(1 + cpu), math.log2(1 + gb / 8), math.log2(1 + gpu)) for cpu, gb, gpu in (one, other))
        )

    shapes = Counter(rows)
    chosen: list[tuple[float, ...]] = []
    for _ in range(count):
        costs = {
            shape: sum(min(distance(row, centre) for centre in [*chosen, shape]) for row in rows) for shape in shapes
        }
        chosen.append(min(costs, key=lambda shape: (shape in chosen, round(costs[shape], 9), -shapes[shape], shape)))
    return chosen


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1.0, 2.5, 8.0, 64.0]), st.sampled_from([0.0, 4.0, 48.0]), st.sampled_from([0.0, 0.3, 1.0])
        ),
        min_size=1,
        max_size=25,
    ),
    st.data(),
)
def test_job_types_are_chosen_as_stated(rows: list[tuple[float, ...]], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(set(rows))))
    found = job_types(requests_of(*((0.0, *row) for row in rows)), count)  # type: ignore[arg-type]
    assert found.columns == ["cpu", "memory", "memory_percent", "gpu", "share"]
    shapes = list(found.select("cpu", "memory", "gpu").iter_rows())
    assert len(set(shapes)) == count
    assert shapes == plain_types(rows, count)
    assert found["share"].sum() == pytest.approx(1.0)
    assert found["share"].min() > 0
    assert found["memory_percent"].null_count() == count


def test_types_and_arrivals_of_a_small_trace() -> None:
    types = job_types(REQUESTS, 3)
    assert types.select("cpu", "memory", "gpu").rows() == [(4.0, 16.0, 1.0), (32.0, 48.0, 0.0), (64.0, 256.0, 8.0)]
    assert types["share"].to_list() == pytest.approx([3 / 6, 2 / 6, 1 / 6])
    found = trace_arrivals(REQUESTS, types, slot_seconds=10)
    assert found.dtype == np.int64
    assert found.tolist() == [[3, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert trace_arrivals(REQUESTS, types, slot_seconds=10, num_slots=4).tolist() == found[:4].tolist()
    assert trace_arrivals(REQUESTS, types, slot_seconds=10, num_slots=9).tolist() == [*found.tolist(), [0] * 3, [0] * 3]
    assert trace_arrivals(REQUESTS, types[:1], slot_seconds=1e9).tolist() == [[5]]


def test_arrivals_against_a_plain_count() -> None:
    rng = default_rng(5)
    rows = [
        (
            float(rng.integers(50, 2_000)),
            float(rng.choice([1, 4, 32])),
            float(rng.choice([2, 16, 60])),
            float(rng.integers(3)),
        )
        for _ in range(400)
    ]
    frame = requests_of(*rows)
    types = job_types(frame, 6)
    wanted = np.zeros((60, 6), dtype=np.int64)
    begin = min(row[0] for row in rows)
    centres = [
        np.log2([1 + cpu, 1 + memory / 8, 1 + gpu]) for cpu, memory, gpu in types.select("cpu", "memory", "gpu").rows()
    ]
    for time, cpu, memory, gpu in rows:
        distances = [float(np.linalg.norm(np.log2([1 + cpu, 1 + memory / 8, 1 + gpu]) - centre)) for centre in centres]
        wanted[int((time - begin) // 37), min(range(6), key=distances.__getitem__)] += 1
    assert np.array_equal(trace_arrivals(frame, types, slot_seconds=37, num_slots=60), wanted)
    assert types["share"].to_numpy() == pytest.approx(wanted.sum(axis=0) / 400)


def test_a_system_from_a_trace() -> None:
    rewards = from_alibaba(MACHINES, REQUESTS, num_ports=3, num_nodes=400, contention=2.0, seed=1)
    graph = rewards.graph
    assert graph.resources == multiserver.RESOURCES
    assert graph.requests[:, :3].tolist() == [[8.0, 4.0, 2.0], [64.0, 12.0, 0.0], [128.0, 64.0, 16.0]]
    assert set(np.unique(graph.requests[:, 3:])) <= {0.0, 2.0, 16.0}
    # The machine without a number of cores is left out, the others are equally likely
    counts = Counter(map(tuple, graph.capacity[:, :3].tolist()))
    assert set(counts) == {(64.0, 64.0, 2.0), (96.0, 48.0, 8.0)}
    assert chisquare(list(counts.values())).pvalue > 0.001
    assert set(np.unique(graph.capacity[:, 3:])) == {2.0, 8.0}
    generated = generate(num_ports=3, num_nodes=400, contention=2.0, seed=1)
    assert same(rewards, generated, "requests", "capacity")
    assert same(rewards, from_alibaba(MACHINES, REQUESTS, num_ports=3, num_nodes=400, contention=2.0, seed=1))
    more = from_alibaba(MACHINES, REQUESTS, num_ports=3, num_nodes=900, contention=1.0, seed=1)
    assert np.array_equal(more.graph.capacity[:400], graph.capacity)
    assert np.array_equal(more.graph.requests * 2.0, graph.requests)


def test_memory_in_percent() -> None:
    flip = {"memory": "memory_percent", "memory_percent": "memory"}
    machines = MACHINES.with_columns(memory=pl.Series([100.0, 50.0, 50.0])).rename(flip)
    requests = REQUESTS.rename(flip).with_columns(gpu=pl.lit(0.0))
    types = job_types(requests, 2)
    assert (types["memory"].null_count(), types["memory_percent"].to_list()) == (2, [16.0, 48.0])
    graph = from_alibaba(machines, requests, num_ports=2, num_nodes=30, contention=1.0).graph
    assert graph.requests[:, 1].tolist() == [16.0, 48.0]
    assert set(graph.capacity[:, 1]) == {100.0, 50.0}
    assert trace_arrivals(requests, types, slot_seconds=100).tolist() == [[3, 2]]
    neither = (
        "machines and requests: expected memory in GB, or in percent of the largest machine, "
        "in at least one row of each"
    )
    with pytest.raises(WorkloadError) as caught:
        from_alibaba(machines, REQUESTS, num_ports=2)
    assert str(caught.value) == neither


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: job_types(REQUESTS, 5), "requests: got 4 different shapes, expected at least num_types = 5"),
        (
            lambda: from_alibaba(MACHINES, REQUESTS.drop("gpu"), num_ports=2),
            "requests: has no column 'gpu', only arrival_time, cpu, memory, memory_percent",
        ),
        (
            lambda: trace_arrivals(REQUESTS.drop("arrival_time"), job_types(REQUESTS, 2), slot_seconds=1),
            "requests: has no column 'arrival_time', only cpu, memory, gpu, memory_percent",
        ),
        (
            lambda: from_alibaba(MACHINES[1:2], REQUESTS, num_ports=2),
            "machines: none of 1 rows has known amounts of cpu and memory",
        ),
        (
            lambda: trace_arrivals(REQUESTS[3:4], job_types(REQUESTS, 2), slot_seconds=1),
            "requests: none of 0 rows has known amounts of cpu and memory",
        ),
    ],
)
def test_tables_that_do_not_do(call: Any, message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        call()
    assert str(caught.value) == message


def test_wrong_slots_and_numbers_of_types() -> None:
    types = job_types(REQUESTS, 2)
    with pytest.raises(InvalidConfiguration, match=r"^num_types: got 0, expected an integer >= 1$"):
        job_types(REQUESTS, 0)
    with pytest.raises(InvalidConfiguration, match=r"^slot_seconds: got 0, expected a finite number > 0$"):
        trace_arrivals(REQUESTS, types, slot_seconds=0)
    with pytest.raises(InvalidConfiguration, match=r"^num_slots: got 0, expected an integer >= 1$"):
        trace_arrivals(REQUESTS, types, slot_seconds=1, num_slots=0)
