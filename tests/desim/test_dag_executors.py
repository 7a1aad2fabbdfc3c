"""Executors and the channels between them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from desim.exceptions import InvalidConfiguration
from desim.problems.dag import DagCluster, Executors

NAN = math.nan
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: Executors([]), "speeds has shape (0,), want one number for each executor"),
    (lambda: Executors(["fast"]), "speeds: want numbers"),
    *(
        (
            lambda speed=speed: Executors([1.0, speed]),
            f"the speed of executor1 is {speed!r}, want a finite number above 0",
        )
        for speed in (0.0, -1.0, NAN, math.inf)
    ),
    (lambda: Executors([1, 1], [1.0, 2.0]), "transfer_speed has shape (2,), want one number or shape (2, 2)"),
    (lambda: Executors([1, 1], 1.0, np.ones((3, 3))), "latency has shape (3, 3), want one number or shape (2, 2)"),
    *(
        (
            lambda speed=speed: Executors([1, 1], [[1, 1], [speed, 1]], names="ab"),
            f"the transfer speed from b to a is {speed!r}, want a number above 0",
        )
        for speed in (0.0, -2.0, NAN)
    ),
    *(
        (
            lambda latency=latency: Executors([1, 1], 1.0, [[0, latency], [0, 0]], names="ab"),
            f"the latency from a to b is {latency!r}, want a finite time of at least 0",
        )
        for latency in (-1.0, NAN, math.inf)
    ),
    (lambda: Executors([1, 1], names="a"), "1 executor names for 2 executors"),
    (lambda: Executors([1, 1], names="aa"), "two executors are called 'a'"),
    (lambda: DagCluster([], Executors([1]), transfers="late"), "transfers is 'late', want one of 'when_finished'"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_makes_no_sense_is_refused_by_name(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=re.escape(message)):
        make()


def test_the_diagonal_is_not_looked_at() -> None:
    executors = Executors([1, 2], [[NAN, 4], [8, -1]], [[NAN, 1], [2, -5]])
    assert executors.transfer_seconds(8).tolist() == [[0, 3], [3, 0]]
    assert executors.seconds_per_unit.tolist() == [[0, 0.25], [0.125, 0]]


def test_means_are_over_pairs_of_different_executors() -> None:
    executors = Executors([1, 2], [[1, 4], [8, 1]], [[0, 1], [2, 0]])
    assert (executors.mean_seconds_per_unit, executors.mean_latency) == (0.1875, 1.5)
    same = Executors([1] * 7, 0.3, 0.1)
    assert (same.mean_seconds_per_unit, same.mean_latency) == (1 / 0.3, 0.1)
    assert (Executors([1], 5, 5).mean_seconds_per_unit, Executors([1], 5, 5).mean_latency) == (0, 0)


def test_executors_do_not_change() -> None:
    speeds, channels = np.ones(2), np.ones((2, 2))
    executors = Executors(speeds, channels, channels)
    speeds[0] = channels[0, 1] = 5
    assert (executors.speeds.tolist(), executors.transfer_seconds(1)[0, 1]) == ([1, 1], 2)
    for name in ("speeds", "transfer_speeds", "latencies", "seconds_per_unit"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(executors, name)[...] = 5


DESCRIPTIONS: list[tuple[Executors, Any, Any]] = [
    (Executors([1, 2]), None, 0.0),
    (Executors([1, 2], 5, 0.5), 5.0, 0.5),
    (Executors([3]), None, None),
    (Executors([1, 2], [[1, 4], [8, 1]], [[0, 1], [2, 0]]), [[None, 4], [8, None]], [[0, 1], [2, 0]]),
]


@pytest.mark.parametrize(("executors", "transfer_speed", "latency"), DESCRIPTIONS)
def test_descriptions_are_plain(executors: Executors, transfer_speed: Any, latency: Any) -> None:
    found = DagCluster([], executors).describe()
    assert json.loads(json.dumps(found)) == found
    assert (found["transfer_speed"], found["latency"]) == (transfer_speed, latency)
    assert (found["num_executors"], found["speeds"]) == (len(executors.speeds), executors.speeds.tolist())
    assert found["executors"] == list(executors.names)


def test_descriptions_are_json() -> None:
    json.dumps(Executors([1, 2], [[1, 4], [8, 1]]).describe(), allow_nan=False)


def test_what_executors_say_they_are() -> None:
    assert repr(Executors([1, 2.5])) == "Executors(2, speeds 1 to 2.5)"
    assert Executors([1, 2]).names == ("executor0", "executor1")
