"""Streams of jobs of one type, as processes beside a multi-server cluster."""

from __future__ import annotations

import math

import numpy as np
import pytest

from desim import InvalidConfiguration, simulate
from desim.agents.multiserver import DRF, Fairness
from desim.problems.multiserver import BipartiteGraph, MultiServerCluster, MultiSlotCluster, RewardModel
from desim.processes import job_stream

GRAPH = BipartiteGraph([[1.0], [2.0]], [[4.0], [4.0]], ports=["query", "training"])
REWARDS = RewardModel(GRAPH, "linear")


def submissions(cluster, agent=None, seed=0):
    jobs = simulate(cluster, agent or Fairness(), seed=seed).jobs
    return {port: jobs.filter(jobs["port"] == port)["submission_time"].to_list() for port in GRAPH.ports}


def holding(*streams):
    return MultiSlotCluster(REWARDS, [], work=1.5, processes=streams)


def test_given_intervals_are_kept():
    intervals = iter([0.5, 0.25, 0.0, 2.0])
    cluster = holding(
        job_stream("query", lambda rng: next(intervals), num_jobs=4), job_stream(1, lambda rng: 1.0, until=3.5)
    )
    assert submissions(cluster) == {"query": [0.5, 0.75, 0.75, 2.75], "training": [1.0, 2.0, 3.0]}


def test_a_poisson_stream_has_its_rate_and_its_variance():
    times = np.array(submissions(holding(job_stream("query", 0.5, until=4_000.0)))["query"])
    counts = np.bincount(times.astype(int), minlength=4_000)
    assert len(times) == pytest.approx(8_000, abs=5 * math.sqrt(8_000))
    assert counts.var() == pytest.approx(2.0, rel=0.15)
    assert np.diff(times).mean() == pytest.approx(0.5, rel=0.05)


def test_all_agents_face_the_same_jobs_and_seeds_and_names_differ():
    streams = job_stream("query", 0.7, num_jobs=50), job_stream("training", 0.7, num_jobs=50)
    first = submissions(holding(*streams))
    assert submissions(holding(*streams), DRF()) == first
    assert submissions(holding(*streams), seed=1) != first
    assert first["query"] != first["training"]
    renamed = submissions(holding(job_stream("query", 0.7, num_jobs=50, name="second source")))
    assert renamed["query"] != first["query"]


def test_beside_the_arrivals_of_a_workload():
    cluster = MultiServerCluster(REWARDS, [[1, 0]] * 3, processes=[job_stream(1, lambda rng: 1.25, num_jobs=2)])
    assert submissions(cluster) == {"query": [0.0, 1.0, 2.0], "training": [1.25, 2.5]}


@pytest.mark.parametrize("mean", [0.0, -1.0, math.nan, math.inf])
def test_a_mean_that_makes_no_sense_is_refused(mean):
    with pytest.raises(
        InvalidConfiguration, match=f"the mean time between jobs: got {mean}, expected a finite number > 0"
    ):
        job_stream(0, mean, num_jobs=1)


def test_an_endless_stream_and_a_negative_interval_are_refused():
    with pytest.raises(InvalidConfiguration, match="port 'query' never ends"):
        job_stream("query", 1.0)
    with pytest.raises(InvalidConfiguration, match=r"time between two jobs at port 0: got -1\.0"):
        simulate(holding(job_stream(0, lambda rng: -1.0, num_jobs=1)), Fairness())
