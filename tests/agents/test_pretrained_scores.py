"""The weights for deferrable jobs that come with the package."""

from __future__ import annotations

from dataclasses import replace

import pytest

from desim import simulate
from desim.agents.deferrable import create
from desim.agents.learning.pretrained import pretrained_names
from desim.problems.deferrable import DeferrableCluster
from desim.validation import validate
from desim.workloads.deferrable import DEFAULT, generate

SHORT = replace(DEFAULT, num_slots=30)


@pytest.mark.parametrize("name", pretrained_names("score"))
def test_they_start_jobs_that_fit(name: str) -> None:
    scenario = generate(SHORT, seed=4)
    cluster = DeferrableCluster(scenario.jobs, scenario.capacity, num_slots=scenario.num_slots, overcommit=False)
    result = simulate(cluster, create(f"score:{name}"))
    assert validate(result, scenario.jobs).ok
    assert result.metrics()["utilization"] > 0
