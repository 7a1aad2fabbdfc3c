"""``desim run dag`` beyond plain clusters: stages task by task, and links that transfers share."""

from __future__ import annotations

import json
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
