"""Arguments of clusters and gangs that make no sense: the message names them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import BipartiteGraph, Gang, MultiServerCluster, MultiSlotCluster, RewardModel

REWARDS = RewardModel(BipartiteGraph(np.ones((2, 2)), np.ones((2, 2))), "linear")
ARGUMENTS: list[tuple[Callable[[], Any], str]] = [
    *(
        (
            lambda name=name, value=value: MultiServerCluster(REWARDS, [], **{name: value}),
            f"{name} is {value!r}, want a whole number of at least {least}",
        )
        for name, value, least in (
            ("jobs_per_port", 0, 1),
            ("jobs_per_port", -3, 1),
            ("jobs_per_port", 1.5, 1),
            ("record_allocations", -1, 0),
            ("record_allocations", 0.5, 0),
        )
    ),
    *(
        (
            lambda value=value: MultiSlotCluster(REWARDS, [], 1.0, minimum_speed=value),
            f"minimum_speed is {value!r}, want a finite number of at least 0",
        )
        for value in (-1.0, math.nan, math.inf)
    ),
    *(
        (
            lambda value=value: MultiSlotCluster(REWARDS, [], 1.0, longest_service=value),
            f"longest_service is {value!r}, want a number of slots above 0",
        )
        for value in (0.0, -1.0, math.nan)
    ),
    (
        lambda: MultiSlotCluster(REWARDS, [], 1.0, give_up_after=0),
        "give_up_after is 0, want a whole number of at least 1",
    ),
    (lambda: MultiSlotCluster(REWARDS, [], 1.0, jobs_per_port=0), "jobs_per_port is 0"),
    *(
        (lambda work=work: MultiSlotCluster(REWARDS, [], work), f"work is {work!r}, want numbers above 0")
        for work in (0.0, [1.0, -1.0], math.nan, [math.inf, 1.0])
    ),
    *(
        (
            lambda work=work: MultiSlotCluster(REWARDS, [], work),
            f"work is {work!r}, want one number or one for each of 2 ports",
        )
        for work in ([1.0, 2.0, 3.0], "long", [[1.0], [2.0]])
    ),
    (lambda: Gang([[[1.0]], [1.0]], 1), "the components of port 1 have shape (1,), want (components, resources)"),
    (lambda: Gang([np.zeros((0, 2))], 1), "the components of port 0 have shape (0, 2)"),
    (lambda: Gang([[[1.0]], [[-1.0]]], 1), "a component of port 1 requests [[-1.0]], want at least 0"),
    (lambda: Gang([[[math.nan]]], 1), "a component of port 0 requests [[nan]]"),
    (lambda: Gang([[[math.inf]]], 1), "a component of port 0 requests [[inf]]"),
    (lambda: Gang([[[1.0]] * 2, [[1.0]] * 3], [1, 0]), "port 1 needs 0 of its components, want 1 to 3"),
    (lambda: Gang([[[1.0]] * 2, [[1.0]] * 3], 3), "port 0 needs 3 of its components, want 1 to 2"),
    (
        lambda: MultiServerCluster(REWARDS, [], gang=Gang([[[1.0]], [[1.0]]], 1)),
        "a component does not request 2 resources",
    ),
    (
        lambda: MultiServerCluster(REWARDS, [], gang=Gang([[[1.0, 1.0]]], 1)),
        "components for 1 ports, the graph has 2",
    ),
]


@pytest.mark.parametrize(("make", "message"), ARGUMENTS, ids=[message[:60] for _, message in ARGUMENTS])
def test_arguments_that_make_no_sense(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gang([[[1.0]], [[1.0]]], [1, 1, 1]),
        lambda: Gang([[[1.0], [1.0, 2.0]]], 1),
        lambda: Gang([[[1.0]] * 2], 1.5),  # type: ignore[arg-type]
        lambda: MultiServerCluster(REWARDS, [], jobs_per_port=math.nan),  # type: ignore[arg-type]
        lambda: MultiSlotCluster(REWARDS, [], 1.0, give_up_after=math.nan),  # type: ignore[arg-type]
    ],
    ids=["minimum of three ports", "rows of two lengths", "half a component", "nan jobs", "nan slots"],
)
def test_arguments_that_are_not_looked_at(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidConfiguration):
        make()
