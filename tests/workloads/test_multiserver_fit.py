"""The fitted model of machines and requests: its constants and samples against the published files."""

from __future__ import annotations

import csv
from collections import Counter

import numpy as np
import polars as pl
import pytest
from numpy.random import default_rng
from numpy.typing import NDArray
from scipy.stats import chisquare, ks_2samp, rankdata
from workload_files import data

from desim.workloads import alibaba
from desim.workloads.multiserver import from_alibaba, generate, job_types, trace_arrivals
from desim.workloads.multiserver.alibaba_model import (
    LEVELS,
    MACHINE_SHAPES,
    POD_CLASSES,
    MachineShape,
    PodClass,
    draw_requests,
)

Floats = NDArray[np.float64]


@pytest.fixture(scope="module")
def pods() -> Floats:
    """Return cores, GiB and GPUs of the published pods, read without the project's reader."""
    with data("alibaba/openb_pod_list_default.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return np.array(
        [
            (
                int(row["cpu_milli"]) / 1000,
                int(row["memory_mib"]) / 1024,
                int(row["num_gpu"]) * int(row["gpu_milli"]) / 1000,
            )
            for row in rows
        ]
    )


@pytest.fixture(scope="module")
def sample() -> Floats:
    """Return cores, GiB and GPUs of 60,000 generated ports."""
    requests = generate(num_ports=60_000, num_nodes=1, density=None, contention=1.0, seed=17).graph.requests
    return requests[:, :3] * [1.0, 8.0, 1.0]


def classes_of(amounts: Floats) -> list[NDArray[np.bool_]]:
    gpus = amounts[:, 2]
    return [gpus == 0, (gpus > 0) & (gpus < 1), gpus == 1, gpus > 1]


def fit_machines(frame: pl.DataFrame) -> tuple[MachineShape, ...]:
    """Count the shapes of machines, the most frequent first; of equally frequent ones, the smallest."""
    shapes = Counter(frame.select("cpu", "memory", "gpu").iter_rows())
    ordered = sorted(shapes.items(), key=lambda item: (-item[1], item[0]))
    return tuple(MachineShape(cpu, memory, gpu, count) for (cpu, memory, gpu), count in ordered)


def fit_requests(frame: pl.DataFrame) -> tuple[PodClass, ...]:
    """Fit pods without GPU, with a part of one, with a whole one, with several; amounts are rounded to thousandths."""
    gpus, cores, memory = (frame[column].to_numpy().astype(np.float64) for column in ("gpu", "cpu", "memory"))
    members = classes_of(np.column_stack([cores, memory, gpus]))
    each = np.maximum(gpus, 1.0)
    return tuple(_fit_class(gpus[rows], (cores / each)[rows], (memory / each)[rows]) for rows in members)


def _fit_class(gpus: Floats, cores: Floats, memory: Floats) -> PodClass:
    # Python's floats, so that the numbers print as they are written in the model
    rounded = Counter(round(amount, 1) for amount in gpus.tolist())
    return PodClass(
        gpus=tuple(sorted(rounded.items())),
        cores=_quantiles(cores),
        memory=_quantiles(memory),
        correlations=(_correlation(gpus, cores), _correlation(gpus, memory), _correlation(cores, memory)),
    )


def _quantiles(values: Floats) -> tuple[float, ...]:
    # Values that occur, so that one that fills more than a tenth of the class keeps its weight
    found = np.quantile(values, LEVELS, method="inverted_cdf")
    return tuple(round(value, 3) for value in found.tolist())


def _correlation(first: Floats, second: Floats) -> float:
    """Return the correlation of normal scores that gives two variables their rank correlation."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    of_ranks = np.corrcoef(rankdata(first), rankdata(second))[0, 1]
    return round(float(2 * np.sin(np.pi / 6 * of_ranks)), 2)


def test_constants_are_what_the_fit_gives() -> None:
    machines = alibaba.machines(data("alibaba/pai_machine_spec.csv"))
    requests = alibaba.requests(data("alibaba/openb_pod_list_default.csv"))
    assert fit_machines(machines) == MACHINE_SHAPES
    assert fit_requests(requests) == POD_CLASSES


def test_quantiles_are_those_of_the_pods(pods: Floats) -> None:
    for rows, kind in zip(classes_of(pods), POD_CLASSES, strict=True):
        each = pods[rows] / np.maximum(pods[rows, 2], 1.0)[:, None]
        assert sum(count for _, count in kind.gpus) == rows.sum()
        for column, table in ((0, kind.cores), (1, kind.memory)):
            # A quantile has at least its level at or below it, and less than its level strictly below
            at = np.array(table)
            assert list(at) == sorted(at)
            below = (each[:, column] < at[:, None] - 0.0006).mean(axis=1)
            upto = (each[:, column] <= at[:, None] + 0.0006).mean(axis=1)
            assert (below < np.array(LEVELS)).all()
            assert (upto >= np.array(LEVELS)).all()


def test_samples_have_the_distribution_of_the_pods(pods: Floats, sample: Floats) -> None:
    # GiB in hundredths, since the model rounds them to thousandths; parts of a GPU in tenths, as the model has them
    pods = np.column_stack([pods[:, 0], np.round(pods[:, 1], 2), [round(gpus, 1) for gpus in pods[:, 2].tolist()]])
    sample = np.column_stack([sample[:, 0], np.round(sample[:, 1], 2), sample[:, 2]])
    distances = [float(ks_2samp(pods[:, column], sample[:, column]).statistic) for column in range(3)]
    assert distances == pytest.approx([0.053, 0.055, 0.003], abs=0.007)
    # Pods have few shapes, and a share of less than a tenth that lies between two deciles is smeared out
    for theirs, ours in zip(classes_of(pods), classes_of(sample), strict=True):
        for column in (0, 1):
            assert ks_2samp(pods[theirs, column], sample[ours, column]).statistic < 0.16


def test_samples_have_the_means_and_quantiles_of_the_pods(pods: Floats, sample: Floats) -> None:
    assert sample.mean(axis=0) == pytest.approx(pods.mean(axis=0), rel=0.03)
    assert sample.std(axis=0) == pytest.approx(pods.std(axis=0), rel=0.12)
    for level in (0.25, 0.5, 0.75, 0.9):
        theirs, ours = (np.quantile(amounts, level, axis=0) for amounts in (pods, sample))
        assert ours == pytest.approx(theirs, rel=0.12)
    for theirs, ours in zip(classes_of(pods), classes_of(sample), strict=True):
        assert sample[ours].mean(axis=0) == pytest.approx(pods[theirs].mean(axis=0), rel=0.08)


def test_samples_have_the_correlations_of_the_pods(pods: Floats, sample: Floats) -> None:
    assert np.corrcoef(sample.T) == pytest.approx(np.corrcoef(pods.T), abs=0.06)


def test_classes_come_in_their_proportions(sample: Floats) -> None:
    counts = [int(rows.sum()) for rows in classes_of(sample)]
    expected = np.array([1_088, 3_078, 3_911, 75]) / 8_152 * 60_000
    assert chisquare(counts, expected).pvalue > 0.001


def test_the_fit_finds_the_model_again() -> None:
    rng = default_rng(23)
    drawn = draw_requests(rng.random(60_000), rng.standard_normal((60_000, 3)))
    frame = pl.DataFrame(drawn, schema=["cpu", "memory", "gpu"])
    for found, kind in zip(fit_requests(frame), POD_CLASSES, strict=True):
        assert [amount for amount, _ in found.gpus] == [amount for amount, _ in kind.gpus]
        share, wanted = (np.array([count for _, count in one.gpus]) for one in (found, kind))
        assert share / 60_000 == pytest.approx(wanted / 8_152, abs=0.008)
        assert found.cores[1:-1] == pytest.approx(kind.cores[1:-1], rel=0.1)
        assert found.memory[1:-1] == pytest.approx(kind.memory[1:-1], rel=0.1)
        # Ranks of amounts that many pods share say a little less
        assert found.correlations == pytest.approx(kind.correlations, abs=0.08)


def test_types_of_the_published_pods(pods: Floats) -> None:
    requests = alibaba.requests(data("alibaba/openb_pod_list_default.csv"))
    types = job_types(requests, 12)
    shapes = Counter(map(tuple, np.round(pods, 3).tolist()))
    assert set(types.select("cpu", "memory", "gpu").iter_rows()) <= set(shapes)
    # Pods without GPU, with a part of one, with a whole one and with eight are all there
    assert {gpu_class(gpu) for gpu in types["gpu"]} == {"none", "part", "one", "several"}
    assert types["share"].min() > 0.005
    arrivals = trace_arrivals(requests, types, slot_seconds=3_600)
    assert arrivals.shape == (12_901_761 // 3_600 + 1, 12)
    assert arrivals.sum() == 8_152
    assert arrivals.sum(axis=0) / 8_152 == pytest.approx(types["share"].to_numpy())
    machines = alibaba.machines(data("alibaba/pai_machine_spec.csv"))
    graph = from_alibaba(machines, requests, num_ports=12, contention=1.0).graph
    assert graph.requests[:, 0].tolist() == types["cpu"].to_list()
    assert graph.requests[:, 1] * 8 == pytest.approx(types["memory"].to_numpy())
    assert {tuple(row[:3]) for row in graph.capacity.tolist()} <= {
        (shape.cores, shape.memory / 8, shape.gpus) for shape in MACHINE_SHAPES
    }


def gpu_class(gpu: float) -> str:
    return "none" if gpu == 0 else "part" if gpu < 1 else "one" if gpu == 1 else "several"
