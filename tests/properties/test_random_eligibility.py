"""Random scenarios with eligible executors: no agent places a node where it may not run."""

from __future__ import annotations

import numpy as np
import pytest

from tests.properties.eligible_scenarios import check_scenario


def test_no_node_runs_where_it_may_not() -> None:
    for seed in range(40):
        check_scenario(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_no_node_runs_where_it_may_not_in_thousands_of_scenarios(part: int) -> None:
    agents = [check_scenario(seed) for seed in np.arange(150) + 1_000 * (part + 1)]
    assert len(set(agents)) > 20
