"""``desim run dag`` beyond plain clusters: stages task by task, and links that transfers share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Desim


def run(desim: Desim, *more: object) -> dict[str, Any]:
    outcome = desim("run", "dag", "--executors", "4", "--agent", "fifo-eft", "--json", *more)
    assert outcome.status == 0, outcome.err
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def test_stages_run_task_by_task(desim: Desim) -> None:
    found = run(desim, "--jobs", "2", "--tasks", "--moving-delay", "1.5")
    assert found["run"]["granularity"] == "task"
    assert found["run"]["moving_delay"] == 1.5
    assert found["metrics"]["num_copies"] > found["metrics"]["num_nodes"]
    assert found["validation"]["valid"]


def test_transfers_share_links(desim: Desim) -> None:
    much = "--jobs", "6", "--ccr", "0.05", "--seed", "1"
    alone = run(desim, *much, "--transfers", "when_assigned")["metrics"]
    bus, star = (run(desim, *much, "--links", links, "--bandwidth", "1") for links in ("bus", "star"))
    assert [len(found["run"]["links"]["names"]) for found in (bus, star)] == [1, 8]
    assert bus["run"]["transfers"] == "when_assigned"
    times = [found["transfer_time_mean"] for found in (alone, star["metrics"], bus["metrics"])]
    assert times[0] < times[1] < times[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--links", "bus", "--tasks"], "--links: got bus, expected 'none' with tasks"),
        (
            ["--links", "bus", "--transfers", "when_finished"],
            "--transfers: got when_finished, expected 'when_assigned' if links are given",
        ),
        (["--tasks", "--agent", "heft"], "heft: got a cluster without planning ahead"),
    ],
)
def test_what_does_not_go_together(desim: Desim, options: list[str], message: str) -> None:
    outcome = desim("run", "dag", "--jobs", "1", *options)
    assert outcome.status == 2
    assert message in outcome.err


TASKS = """M1,10,j_1,1,Terminated,1000,1060,100,0.5
R2_1,4,j_1,1,Terminated,1060,1070,50,0.1
R3_1,2,j_1,1,Terminated,1060,1070,100,0.25
M1,1,j_2,1,Terminated,1200,1210,200,1
"""
"""Tasks of Alibaba's trace: ten cores at first, then two and two at once; and two cores of another job."""


def test_planned_cores_of_alibaba_are_demands(desim: Desim, tmp_path: Path) -> None:
    (tmp_path / "batch_task.csv").write_text(TASKS)
    call = "run", "dag", "--json", "--trace", str(tmp_path / "batch_task.csv"), "--agent", "rank-up-eft-idle"
    pool = "--executors", "1", "--capacity", "cores=12,memory=100"
    found = json.loads(desim(*call, *pool, "--demands", "cores").out)
    assert found["run"]["capacities"] == [{"cores": 12.0, "memory": 100.0}]
    core_seconds = 10 * 60 + 2 * 10 + 2 * 10 + 2 * 10  # the last three run beside others
    assert found["metrics"]["utilization_cores"] == pytest.approx(core_seconds / (12 * 70))
    assert found["metrics"]["utilization_memory"] == 0.0
    both = json.loads(desim(*call, *pool, "--demands", "cores,memory").out)
    assert both["metrics"]["utilization_memory"] == pytest.approx((5 * 60 + 0.4 * 10 + 0.5 * 10 + 10) / (100 * 70))
    for options, message in (
        (("--demands", "cores"), "states no pools; try --capacity"),
        (("--capacity", "cores=3"), "--capacity: has no effect, because no task has demands"),
        (("--demands", "cores", "--capacity", "cores"), "got 'cores', expected a resource and an amount"),
        (("--demands", "disk", "--capacity", "cores=3"), "--demands: got disk, expected one of 'cores', 'memory'"),
        (("--demands", "cores", "--capacity", "cores=3"), "may run on no executor of the cluster"),
        (("--strict",), "strict: applies only to workflows"),
    ):
        outcome = desim(*call, *options)
        assert outcome.status == 2 and message in outcome.err


def test_cores_of_recorded_tasks_are_demands_of_recorded_machines(desim: Desim, tmp_path: Path) -> None:
    """Three tasks of two cores on a machine of four: two at once, then one."""
    tasks = [{"name": str(at), "id": str(at), "parents": [], "children": []} for at in range(3)]
    runs = [{"id": str(at), "runtimeInSeconds": 10.0, "coreCount": 2} for at in range(3)]
    machine = {"nodeName": "m", "cpu": {"coreCount": 4}}
    workflow = {"specification": {"tasks": tasks}, "execution": {"tasks": runs, "machines": [machine]}}
    path = tmp_path / "recorded.json"
    path.write_text(json.dumps({"name": "w", "schemaVersion": "1.5", "workflow": workflow}))
    call = "run", "dag", "--json", "--trace", str(path), "--agent", "rank-up-eft-idle", "--demands", "cores"
    found = json.loads(desim(*call).out)
    assert found["run"]["executors"] == ["m"] and found["run"]["capacities"] == [{"cores": 4.0}]
    assert found["metrics"]["makespan"] == pytest.approx(20.0)
    two = json.loads(desim(*call, "--executors", "1", "--capacity", "cores=6").out)
    assert two["metrics"]["utilization_cores"] == pytest.approx(1.0)
    outcome = desim(*call, "--executors", "2")
    assert outcome.status == 2 and "states its 1 executors" in outcome.err
