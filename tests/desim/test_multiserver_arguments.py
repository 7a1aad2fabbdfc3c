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
            f"{name}: got {value!r}, expected an integer >= {least}",
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
            f"minimum_speed: got {value!r}, expected a finite number >= 0",
        )
        for value in (-1.0, math.nan, math.inf)
    ),
    *(
        (
            lambda value=value: MultiSlotCluster(REWARDS, [], 1.0, longest_service=value),
            f"longest_service: got {value!r}, expected a number of slots above 0",
        )
        for value in (0.0, -1.0, math.nan)
    ),
    (
        lambda: MultiSlotCluster(REWARDS, [], 1.0, give_up_after=0),
        "give_up_after: got 0, expected an integer >= 1",
    ),
    (lambda: MultiSlotCluster(REWARDS, [], 1.0, jobs_per_port=0), "jobs_per_port: got 0"),
    *(
        (lambda work=work: MultiSlotCluster(REWARDS, [], work), f"work: got {work!r}, expected finite numbers above 0")
        for work in (0.0, [1.0, -1.0], math.nan, [math.inf, 1.0])
    ),
    *(
        (
            lambda work=work: MultiSlotCluster(REWARDS, [], work),
            f"work: got {work!r}, expected one number, or 2, one per port",
        )
        for work in ([1.0, 2.0, 3.0], "long", [[1.0], [2.0]])
    ),
    (lambda: Gang([[[1.0]], [1.0]], 1), "components of port 1: got shape (1,), expected (components, resources)"),
    (lambda: Gang([np.zeros((0, 2))], 1), "components of port 0: got shape (0, 2)"),
    (lambda: Gang([[[1.0]], [[-1.0]]], 1), "components of port 1: got [[-1.0]], expected finite amounts >= 0"),
    (lambda: Gang([[[math.nan]]], 1), "components of port 0: got [[nan]]"),
    (lambda: Gang([[[math.inf]]], 1), "components of port 0: got [[inf]]"),
    (lambda: Gang([[[1.0]] * 2, [[1.0]] * 3], [1, 0]), "minimum of port 1: got 0, expected 1 to 3"),
    (lambda: Gang([[[1.0]] * 2, [[1.0]] * 3], 3), "minimum of port 0: got 3, expected 1 to 2"),
    (
        lambda: MultiServerCluster(REWARDS, [], gang=Gang([[[1.0]], [[1.0]]], 1)),
        "components: expected requests of 2 resources each",
    ),
    (
        lambda: MultiServerCluster(REWARDS, [], gang=Gang([[[1.0, 1.0]]], 1)),
        "components: got 1 ports, expected 2",
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
