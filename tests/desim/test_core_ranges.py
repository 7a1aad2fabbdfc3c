"""Clusters that keep ranges of cores record what those with bit sets record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from desim import Result, simulate
from desim.agents.batch import create
from desim.problems.batch import BatchCluster, Job, QualityOfService
from desim.problems.batch.resources.core_ranges import LARGE, CoreRanges
from desim.processes import random_outages
from desim.validation import validate
from desim.workloads import lublin

QOS = [QualityOfService("high", 1.0, ("low",)), QualityOfService("low", mode="suspend")]


def run(jobs: list[Job], agent: str, options: dict[str, Any]) -> Result:
    """Return a run on 60 cores."""
    return simulate(BatchCluster(jobs, 60, **options), create(agent), engine="simpy")


@pytest.mark.parametrize("agent", ["fcfs", "easy-sjf", "easy-specific-fcfs", "conservative", "preemptive-easy"])
@pytest.mark.parametrize(
    "options",
    [{}, {"processes": [random_outages(2e5, 2e4)]}, {"processes": [random_outages(2e5, 2e4)], "on_outage": "lose"}],
)
def test_ranges_and_bit_sets_give_the_same_records(
    agent: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cores, interruptions and everything else are equal, with failures and suspended jobs."""
    jobs = lublin.generate(120, 60, seed=7, load=1.2)
    if agent == "preemptive-easy":
        jobs = [job._replace(qos="high" if row % 4 == 0 else "low") for row, job in enumerate(jobs)]
        options = options | {"qos": QOS}
    known = run(jobs, agent, options)
    monkeypatch.setattr("desim.problems.batch.cluster.LARGE", 0)
    found = run(jobs, agent, options)
    assert found.info == known.info
    for name in known.table_names:
        assert found.table(name).equals(known.table(name)), name
    assert validate(found).ok


def test_large_clusters_keep_ranges() -> None:
    """The bit set of free cores is made when it is read; outages set it as a whole."""
    live = BatchCluster([], LARGE + 1).resources.begun({"jobs": []})
    assert isinstance(live, CoreRanges)
    rng, running, free = np.random.default_rng(2), [], (1 << LARGE + 1) - 1
    for step in range(300):
        if running and rng.random() < 0.5:
            cores = running.pop(int(rng.integers(len(running))))
            live.put_back(cores)
            free |= sum((1 << end) - (1 << begin) for begin, end in cores)
        else:
            taken = live.take(Job(step, 0.0, int(rng.integers(1, 400)), 1.0, 1.0), step)
            if taken:
                running.append(taken)
                free &= ~sum((1 << end) - (1 << begin) for begin, end in taken)
        assert live.free == free
        assert live.num_free == free.bit_count()
    live.set_down(0xF0)
    assert live.free == free & ~0xF0
    live.set_down(0)
    assert live.free == free | 0xF0
