"""Where the DAG wing meets its surroundings: listeners, identifiers, iterators, files, and very many executors."""

from __future__ import annotations

import json
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from desim import simulate
from desim.agents.dag import EFT, FIFO, ListScheduler, create
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import BatchCluster
from desim.problems.batch import Job as BatchJob
from desim.problems.dag import (
    Copy,
    DagCluster,
    Executors,
    Job,
    SharedLinks,
    TaskCluster,
    from_networkx,
    to_networkx,
)
from desim.processes import Outage, planned_outages
from desim.validation import validate
from desim.workloads.dag import wfformat
from tests.desim.dag_scripts import cluster_of

FIRST_COME = ListScheduler(FIFO(), EFT())


# -- listeners ------------------------------------------------------------------------------------


class PowerMeter:
    """Energy of executors that take 5 W when idle and 20 W when busy, in joules."""

    def __init__(self, cluster: DagCluster) -> None:
        self.busy = 0.0
        for event in ("completion", "interruption", "unfinished"):
            cluster.on(event, self.count)

    def count(self, time: float, execution: Copy) -> None:
        if execution.has_started:
            self.busy += time - execution.starting_time

    def joules(self, result: Any) -> Any:
        return 15.0 * self.busy + 5.0 * result.info["num_executors"] * result.info["end_time"]


def test_what_a_power_meter_adds_up_is_what_the_table_of_copies_says() -> None:
    jobs = [Job(0, [4.0]), Job(1, [5.0]), Job(2, [3.0])]
    cluster = cluster_of(jobs, 2, [Outage(2.0, 3.0, executors=(0,))])
    meter = PowerMeter(cluster)
    result = simulate(cluster, FIRST_COME, until=7.0)
    copies = result.table("copies")
    assert set(copies["outcome"]) >= {"completed", "interrupted", "running"}
    ran = copies.filter(copies["starting_time"].is_not_null())
    end = ran["finish_time"].fill_null(7.0)
    assert meter.busy == (end - ran["starting_time"]).sum() > 0
    assert meter.joules(result) == 15.0 * meter.busy + 5.0 * 2 * 7.0


def test_every_row_of_copies_has_one_last_event() -> None:
    told: list[tuple[str, int, float]] = []
    cluster = cluster_of(
        [Job(0, [4.0]), Job(1, [5.0]), Job(2, [3.0]), Job(3, [1.0])], 2, [Outage(2.0, 3.0, executors=(0,))]
    )
    names = {"completion": "completed", "interruption": "interrupted", "withdrawal": "withdrawn"}
    for event in (*names, "unfinished"):
        cluster.on(
            event,
            lambda time, copy, event=event: told.append(  # type: ignore[misc]  # mypy cannot infer the default
                (names.get(event, "running" if copy.has_started else "queued"), copy.job.job_id, time)
            ),
        )
    result = simulate(cluster, FIRST_COME, until=7.0)
    copies = result.table("copies").select("outcome", "job_id", "finish_time").rows()
    assert [(outcome, job) for outcome, job, _ in told] == [(str(outcome), job) for outcome, job, _ in copies]
    assert {outcome for outcome, _, _ in told} >= {"completed", "interrupted", "withdrawn", "running"}
    for (outcome, _, time), (_, _, finish) in zip(told, copies, strict=True):
        assert time == (7.0 if outcome in ("running", "queued") else finish if finish is not None else time)


# -- what is given --------------------------------------------------------------------------------


@pytest.mark.parametrize("identifier", ["a", 1.5, True, None, 2**63, np.float64(1.0)])
def test_an_identifier_that_is_no_integer_is_refused(identifier: Any) -> None:
    with pytest.raises(WorkloadError, match=r"job_id: got .* expected an integer"):
        Job(identifier, [1.0])
    if identifier is not None:
        with pytest.raises(WorkloadError, match=r"job_id: got .* expected an integer"):
            Job(1, [1.0]).submitted(0.0, job_id=identifier)


@pytest.mark.parametrize("name", ["plan_ahead", "outages_lose_data"])
def test_a_text_is_no_truth_value(name: str) -> None:
    make: Any = partial(DagCluster, [], Executors([1.0]))
    with pytest.raises(InvalidConfiguration, match=f"{name}: got 'no', expected True or False"):
        make(**{name: "no"})
    assert getattr(make(**{name: np.True_}), name) is True


def test_a_time_at_which_the_clock_is_too_coarse_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"advances by 256 s at least, expected seconds below 2\*\*43"):
        Job(1, [1.0], submission_time=1.7e18)
    job = Job(1, [0.25], submission_time=1.7e12)
    assert simulate(DagCluster([job], Executors([1.0])), FIRST_COME).jobs["turnaround_time"].to_list() == [0.25]
    with pytest.raises(WorkloadError, match="submission_time: got '5'"):
        Job(1, [1.0], submission_time="5")  # type: ignore[arg-type]  # on purpose


def test_a_label_is_a_text() -> None:
    with pytest.raises(WorkloadError, match="label: got 3, expected a string"):
        Job(1, [1.0], label=3)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    ("make", "agent"),
    [
        (lambda: DagCluster(iter([Job(1, [1.0])]), Executors([1.0])), FIRST_COME),
        (lambda: BatchCluster(iter([BatchJob(1, 0.0, 1, 1.0, 1.0)]), 1), "fcfs"),
    ],
)
def test_an_iterator_is_simulated_once(make: Any, agent: Any) -> None:
    cluster = make()
    assert simulate(cluster, agent).metrics()["jobs_completed"] == 1
    with pytest.raises(InvalidConfiguration, match="jobs: got an iterator that an earlier simulation has read"):
        simulate(cluster, agent)


def test_fifo_goes_by_arrival() -> None:
    # Job 1 has the earlier submission time, but a process submits it later, at time 2.
    def late(cluster: DagCluster) -> Any:
        yield cluster.env.timeout(2.0)
        cluster.submit(Job(1, [1.0], submission_time=0.0))

    jobs = [Job(0, [3.0], submission_time=0.0), Job(2, [1.0], submission_time=1.0)]
    cluster = cluster_of(jobs, 1, processes=[late])
    starts = simulate(cluster, ListScheduler(FIFO(), EFT(), only_idle=True)).jobs.sort("starting_time")
    assert starts["job_id"].to_list() == [0, 2, 1]


def test_agents_that_duplicate_nodes_run_tasks_without_duplicates() -> None:
    # Node 1 would be duplicated if that were possible: its data take 100 s.
    job = Job(0, [1.0, 1.0, 1.0], [(0, 1, 100.0), (0, 2, 100.0)], num_tasks=[1, 2, 2])
    for name in ("rank-up-deft", "rank-up-insertion-deft", "fifo-deft-idle", "least-work-patient"):
        result = simulate(TaskCluster([job], Executors([1.0, 1.0], 1.0)), create(name))
        assert result.metrics()["jobs_completed"] == 1 and not result.table("copies")["duplicate"].any()


# -- files and graphs -----------------------------------------------------------------------------


def test_a_graph_keeps_the_identifier() -> None:
    job = Job(7, [2.0, 1.0], [("a", "b", 3.0)], names="ab", submission_time=5.0, label="x", run_times=[[1, 2], [3, 4]])
    back = from_networkx(to_networkx(job))
    assert (back.job_id, back.submission_time, back.label, back.names) == (7, 5.0, "x", ("a", "b"))
    assert back.run_times is not None and back.run_times.tolist() == [[1, 2], [3, 4]]
    assert from_networkx(to_networkx(job), 3).job_id == 3
    apart = Job(4, [1.0, 2.0], allow_disconnected=True)
    assert from_networkx(to_networkx(apart)).work.tolist() == [1.0, 2.0]


def test_wfformat_keeps_the_names_of_executors(tmp_path: Path) -> None:
    executors = Executors([1.0, 2.0], 3.0, names=["gpu", "cpu"])
    wfformat.write(tmp_path / "a.json", Job(0, [1.0]), executors=executors)
    read = wfformat.executors_of(tmp_path / "a.json")
    assert read is not None and read.names == ("gpu", "cpu") and read.describe() == executors.describe()


def test_two_sizes_of_a_file_are_told(tmp_path: Path) -> None:
    def task(name: str, link: str, size: int, **others: Any) -> dict[str, Any]:
        files = [{"name": "f", "link": link, "sizeInBytes": size}]
        return {"name": name, "type": "compute", "runtimeInSeconds": 1.0, "files": files, **others}

    tasks = [task("a", "output", 10, children=["b"]), task("b", "input", 12, parents=["a"])]
    document = {"name": "x", "schemaVersion": "1.4", "workflow": {"tasks": tasks}}
    (tmp_path / "x.json").write_text(json.dumps(document))
    report = wfformat.WorkflowReport()
    job = wfformat.read(tmp_path / "x.json", report=report)
    assert job.parent_size.tolist() == [10.0]
    place = "x.json: 'f' has 10 bytes in 'a', 12 in 'b'"
    assert report.rows == 2 and list(report.places.values()) == [[place]]


# -- very many executors --------------------------------------------------------------------------

CHAIN = Job(1, [1.0, 2.0, 3.0], [(0, 1, 5.0), (1, 2, 5.0)])


@pytest.mark.parametrize("latency", [0.0, 0.5])
@pytest.mark.parametrize("links", [False, True])
def test_memory_does_not_grow_with_pairs_of_executors(links: bool, latency: float) -> None:
    count = 2_000
    tracemalloc.start()
    options: dict[str, Any] = {"transfers": "when_assigned"}
    if links:
        options["links"] = SharedLinks.star([10.0] * count)
    result = simulate(DagCluster([CHAIN], Executors([1.0] * count, 10.0, latency), **options), FIRST_COME)
    assert result.metrics()["makespan"] == 6.0
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 16e6  # one table of pairs takes 32 MB


def test_compact_values_of_pairs_are_those_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        Job(number, [1.0, 2.0, 3.0, 1.5], [(0, 1, 5.0), (0, 2, 7.0), (1, 3, 4.0), (2, 3, 1.0)]) for number in range(4)
    ]
    outage = planned_outages([Outage(3.0, 4.0, executors=(1,))])

    def runs() -> list[Any]:
        found = []
        for transfers in ("when_finished", "when_assigned"):
            executors = Executors([1.0, 2.0, 1.5], 3.0, 0.25)
            shared: dict[str, Any] = {"transfers": transfers, "processes": [outage]}
            for cluster in (DagCluster(jobs, executors, **shared), TaskCluster(jobs, executors, **shared)):
                result = simulate(cluster, create("rank-up-deft"))
                validate(result, jobs).raise_if_invalid()
                found += [result.table(name).rows() for name in sorted(result.table_names)]
        return found

    stored = runs()
    monkeypatch.setattr("desim.problems.dag.executors.STORED", 1)
    assert runs() == stored


def test_channels_of_a_run_are_read_when_asked_for(tmp_path: Path) -> None:
    executors = Executors([1.0, 2.0, 1.0], [[0, 1, 2], [3, 0, 4], [5, 6, 0]], 0.5)
    expected = [(0, 1, 1.0), (0, 2, 2.0), (1, 0, 3.0), (1, 2, 4.0), (2, 0, 5.0), (2, 1, 6.0)]
    for out in (None, tmp_path / "run"):
        result = simulate(DagCluster([CHAIN], executors), FIRST_COME, out=out)
        assert result.table("channels").select("source", "destination", "transfer_speed").rows() == expected
        assert result.table("channels")["latency"].to_list() == [0.5] * 6
        validate(result, [CHAIN]).raise_if_invalid()
