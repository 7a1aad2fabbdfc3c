"""The default workloads of the Gymnasium environments, and how they are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from desim import plugins
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import Executors, Job
from desim.workloads import submissions
from desim.workloads.batch import registry as batch
from desim.workloads.batch.transform import offered_load
from desim.workloads.dag import registry as dag
from desim.workloads.dag.executors import racks
from desim.workloads.deferrable import FLUCTUATING
from desim.workloads.deferrable import registry as deferrable
from desim.workloads.multiserver import registry as multiserver


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_every_problem_has_a_workload_that_is_found() -> None:
    for name, registry in (("batch", batch), ("dag", dag), ("deferrable", deferrable), ("multiserver", multiserver)):
        assert plugins.episode_workload(name) is registry.draw


def described(workload: Any) -> str:
    """Return all numbers of a workload."""
    if isinstance(workload, tuple) and hasattr(workload[0], "graph"):
        return repr((workload[0].weights.tolist(), workload[0].graph.capacity.tolist(), workload[1].tolist()))
    if isinstance(workload, tuple) and hasattr(workload[1], "speeds"):
        jobs = [(job.label, job.submission_time, job.child_size.tolist()) for job in workload[0]]
        return repr((jobs, workload[1].speeds.tolist()))
    return repr((workload, getattr(workload, "capacity", np.empty(0)).tolist()))


@pytest.mark.parametrize(
    ("make", "settings"),
    [(batch.draw, {"num_jobs": 30}), (dag.draw, {}), (deferrable.draw, {}), (multiserver.draw, {})],
)
def test_a_workload_follows_from_the_generator_alone(make: Any, settings: dict[str, Any]) -> None:
    first, again, other = (described(make(rng(seed), **settings)) for seed in (1, 1, 2))
    assert first == again != other
    generator = rng(1)
    assert described(make(generator, **settings)) == first
    assert described(make(generator, **settings)) not in (first, other)


def test_batch_jobs_have_the_load_that_is_asked_for() -> None:
    for load in (0.5, 1.0):
        jobs = batch.draw(rng(), num_jobs=500, num_cores=64, load=load)
        assert len(jobs) == 500
        assert max(job.requested_cores for job in jobs) <= 64
        assert offered_load(jobs, 64) == pytest.approx(load)


def test_dag_jobs_come_as_often_as_executors_can_take() -> None:
    for count in (5, 10):
        jobs, executors = dag.draw(rng(), num_jobs=1_000, num_executors=count)
        assert executors.num_executors == count
        assert set(executors.speeds.tolist()) <= {round(2.1 + step / 10, 1) for step in range(16)}
        assert jobs[-1].submission_time / (len(jobs) - 1) == pytest.approx(45 * 50 / count, rel=0.15)
        assert len({job.label for job in jobs}) > 100
    jobs, same = dag.draw(rng(), num_jobs=3, executors=executors, mean_interval=0.0, ccr=2.0)
    assert same is executors
    assert [(job.job_id, job.submission_time) for job in jobs] == [(0, 0.0), (1, 0.0), (2, 0.0)]
    assert [realized(job, executors) for job in jobs] == pytest.approx([2.0] * 3)
    assert len(submissions.batch(jobs)) == 3


def realized(job: Job, executors: Executors) -> float:
    """Return the mean time of a transfer by the mean time of a run, from loops over what there is."""
    count = executors.num_executors
    transfers = [
        executors.latencies[source, target] + size / executors.transfer_speeds[source, target]
        for size in job.parent_size.tolist()
        for source in range(count)
        for target in range(count)
        if source != target
    ]
    table = job.run_times if job.run_times is not None else np.divide.outer(job.work, executors.speeds)
    return float(np.mean(transfers) / np.mean(table))


@pytest.mark.parametrize("graphs", ["tpch", "random", "varied"])
@pytest.mark.parametrize("transfer_speed", [10.0, 1.25e8])
def test_ratios_are_those_on_the_executors_that_there_are(graphs: str, transfer_speed: float) -> None:
    jobs, executors = dag.draw(
        rng(), num_jobs=4, num_executors=3, graphs=graphs, ccr=5.0, transfer_speed=transfer_speed
    )
    assert set(executors.transfer_speeds[~np.eye(3, dtype=bool)].tolist()) == {transfer_speed}
    assert [realized(job, executors) for job in jobs] == pytest.approx([5.0] * 4)


@pytest.mark.parametrize("graphs", ["tpch", "random", "varied"])
def test_as_published_ratios_are_those_at_the_middle_speed(graphs: str) -> None:
    jobs, _ = dag.draw(rng(), num_jobs=4, num_executors=3, graphs=graphs, ccr=5.0)
    assert [job.parent_size.mean() / (job.work.mean() / 2.85) for job in jobs] == pytest.approx([5.0] * 4)


def test_ratios_count_latencies_and_run_times_of_the_job() -> None:
    there = racks(2, 2, within=8.0, between=2.0, latency_within=0.1, latency_between=0.3)
    own = Job(0, [1.0, 1.0], [(0, 1, 7.0)], run_times=[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    for options in ({}, {"graphs": "random"}, {"templates": [own]}):
        jobs, _ = dag.draw(rng(), num_jobs=2, executors=there, ccr=2.0, **options)  # type: ignore[arg-type]
        assert [realized(job, there) for job in jobs] == pytest.approx([2.0] * 2)
    with pytest.raises(
        InvalidConfiguration, match=r"ccr: got 0.01, expected .* latency of .* s: nodes of job 0 take 4.5 s on average"
    ):
        dag.draw(rng(), executors=there, ccr=0.01, templates=[own])
    assert dag.draw(rng(), executors=there, ccr=0.0, templates=[own])[0][0].parent_size.tolist() == [0.0]


def test_dag_jobs_have_the_load_that_is_asked_for() -> None:
    for graphs, sizes, most_edges in (("tpch", None, 0), ("random", range(10, 25), 96), ("varied", range(6, 111), 440)):
        jobs, executors = dag.draw(rng(), num_jobs=800, num_executors=4, graphs=graphs, load=0.5, ccr=2.0)
        seconds = sum(job.work.sum() for job in jobs) / executors.speeds.sum()
        assert seconds / jobs[-1].submission_time == pytest.approx(0.5, rel=0.1)
        at_once, _ = dag.draw(rng(), num_jobs=3, graphs=graphs, load=0.0)
        assert [job.submission_time for job in at_once] == [0.0] * 3
        if sizes is not None:
            shares = [job.parent_size.mean() / (job.work.mean() / 2.85) for job in jobs]
            assert shares == pytest.approx([2.0] * 800)
            found = {job.num_nodes for job in jobs}
            assert found <= set(sizes)
            assert len(found) > 0.9 * len(sizes)
            assert max(job.num_edges for job in jobs) <= most_edges  # what networks have room for
    with pytest.raises(InvalidConfiguration, match="graphs: got 'other'"):
        dag.draw(rng(), graphs="other")


def test_deferrable_jobs_have_the_settings_that_are_given() -> None:
    assert deferrable.draw(rng()).num_slots == 360
    scenario = deferrable.draw(rng(), settings=FLUCTUATING)
    assert scenario.num_slots == len(scenario.capacity) == 100
    assert {job.cores for job in scenario.jobs} == {1, 2, 4, 8}


def test_a_multiserver_system_can_be_kept() -> None:
    rewards, arrivals = multiserver.draw(rng(), num_slots=30, num_ports=4, num_nodes=8, probability=0.25)
    assert (rewards.graph.num_ports, rewards.graph.num_nodes, rewards.graph.num_channels) == (4, 8, 20)
    assert arrivals.shape == (30, 4)
    same, others = multiserver.draw(rng(5), num_slots=30, rewards=rewards, probability=1.0)
    assert same is rewards
    assert others.all()
    assert not arrivals.all()


def test_settings_out_of_range_are_named() -> None:
    wrong: list[tuple[Any, dict[str, Any]]] = [
        (batch.draw, {"num_jobs": 0}),
        (batch.draw, {"num_jobs": 5, "load": 0.0}),
        (dag.draw, {"num_jobs": 0}),
        (dag.draw, {"num_executors": 0}),
        (dag.draw, {"mean_interval": -1.0}),
        (dag.draw, {"ccr": -1.0}),
        (multiserver.draw, {"num_slots": 0}),
        (multiserver.draw, {"probability": 2.0}),
    ]
    for make, settings in wrong:
        with pytest.raises(InvalidConfiguration, match=list(settings)[-1]):
            make(rng(), **settings)
