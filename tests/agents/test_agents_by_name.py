"""Agents by name, and orders by name, class or instance."""

from __future__ import annotations

import numpy as np
import pytest

from desim import InvalidConfiguration, simulate
from desim.agents.batch import (
    F1,
    FCFS,
    PRIORITIES,
    ConservativeBackfilling,
    EASYBackfilling,
    Priority,
    SimpleBackfilling,
    as_priority,
    create,
    descriptions,
)
from desim.agents.learning.pretrained import pretrained_names
from desim.problems.batch import BatchCluster, Job

JOBS = [Job(number, float(number % 7), 1 + number % 4, 9.0, 1.0 + number % 5) for number in range(40)]
JOBS.sort(key=lambda job: job.submission_time)


@pytest.mark.parametrize("order", list(PRIORITIES))
@pytest.mark.parametrize(
    "kind", ["", "backfilling-", "easy-", "easy-specific-", "conservative-", "conservative-specific-"]
)
def test_the_name_of_an_agent_makes_it(kind: str, order: str) -> None:
    agent = create(f"{kind}{order}")
    result = simulate(BatchCluster(JOBS, 4), agent)
    assert result.info["agent"] == f"{kind}{order}" == agent.name  # type: ignore[attr-defined]
    assert set(result.jobs["status"]) == {"completed"}


@pytest.mark.parametrize("kind", ["backfilling", "easy", "easy-specific", "conservative", "conservative-specific"])
def test_without_an_order_it_is_that_of_arrival(kind: str) -> None:
    assert create(kind).name == f"{kind}-fcfs"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["", "random", "easy-", "easy-random", "-fcfs", "fcfs-easy", "EASY", "easy specific"])
def test_a_name_that_means_nothing(name: str) -> None:
    with pytest.raises(InvalidConfiguration, match="fcfs"):
        create(name)


def test_every_description_is_of_something_and_says_something() -> None:
    lines = descriptions()
    assert set(PRIORITIES) < set(lines)
    assert all(len(line) > 10 for line in lines.values())
    weights = pretrained_names("split-window")[0]
    for name in lines:
        if name.startswith("inspector:") and not pretrained_names("inspector"):
            continue
        known = weights if name.startswith("split-window") else (pretrained_names("inspector") or [""])[0]
        given = name.replace("PRIORITY", "sjf").replace("RULE", "shortest").replace("NAME", known)
        assert create(given.replace("HEAD", "9").replace("TAIL", "1").replace("BASE", "easy"))


@pytest.mark.parametrize("kind", [SimpleBackfilling, EASYBackfilling, ConservativeBackfilling])
def test_an_order_is_given_by_name_class_or_instance(kind: type) -> None:
    tables = [simulate(BatchCluster(JOBS, 4), kind(order)).jobs for order in ("f1", F1, F1())]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


@pytest.mark.parametrize("order", ["nonsense", 3, None, int, EASYBackfilling])
def test_an_order_that_is_none(order: object) -> None:
    with pytest.raises(InvalidConfiguration, match="no priority"):
        as_priority(order)  # type: ignore[arg-type]


def test_an_order_of_ones_own() -> None:
    class WidestFirst(Priority):
        name = "widest"

        def scores(self, queue: object, time: float) -> np.ndarray:
            return -queue.requested_cores.astype(float)  # type: ignore[attr-defined]

    assert EASYBackfilling(WidestFirst).name == "easy-widest"
    jobs = [Job(1, 0.0, 4, 5.0, 5.0), Job(2, 1.0, 1, 5.0, 5.0), Job(3, 2.0, 4, 5.0, 5.0)]
    assert simulate(BatchCluster(jobs, 4), WidestFirst()).jobs["starting_time"].to_list() == [0, 10, 5]
    assert isinstance(as_priority(FCFS), FCFS)
