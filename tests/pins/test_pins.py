"""The scenarios of sites combine all that sites do, and a part of them comes to what it came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from tests.pins.__main__ import columns_of, digests_then, scenarios
from tests.pins.comparing import ABSENT, present_name
from tests.pins.renamed import RENAMED

APART = {frozenset(("cores", name)) for name in ("nodes", "memory", "gpus", "speeds")} | {
    frozenset(("dependencies", "closed loops"))
}
"""What excludes each other."""


def test_each_pair_of_features_is_in_twenty_scenarios() -> None:
    found = [features(one) for one in scenarios("sites") if "episode" not in one]
    names = sorted(set().union(*found))
    assert len(found) >= 390
    assert len(names) == 17
    pairs = Counter(pair for names in found for pair in combinations(sorted(names), 2))
    rare = {pair: pairs[pair] for pair in combinations(names, 2) if pairs[pair] < 20}
    assert {frozenset(pair) for pair in rare} == APART, rare


def test_each_family_of_agents_is_there() -> None:
    agents = Counter(one["agent"] for one in scenarios("sites"))
    for prefix in (
        *("fcfs", "backfilling", "easy-", "easy-specific", "easy-moldable", "conservative-", "conservative-specific"),
        *("preemptive-", "anything", "window-", "rollout", "search", "replay", "episode"),
    ):
        assert sum(count for name, count in agents.items() if name.startswith(prefix)) >= 3, prefix


def same_everywhere(scenario: dict[str, Any]) -> bool:
    """Return whether every processor gives the same results: times in quarter seconds, nothing random or learned."""
    agent, times = scenario["agent"], [row[1] for row in scenario["jobs"]]
    times += [time for row in scenario["jobs"] for size in row[3] for time in size[1:3]]
    plain = agent.endswith(("fcfs", "lcfs", "sjf", "smallest-first", "replay"))
    drawn = "random" in scenario.get("failures", {}) or agent.startswith("rollout")
    return plain and not drawn and all(4 * time == int(4 * time) for time in times)


PART = [place for place, one in enumerate(scenarios("sites")) if same_everywhere(one)][::4]


@pytest.mark.parametrize("place", PART)
def test_records_of_a_part_are_as_they_were(place: int) -> None:
    now = columns_of("sites", scenarios("sites")[place])
    for name, digests in digests_then("sites").items():
        column = present_name(name, RENAMED["sites"])
        if column is not None and not name.startswith("metrics."):  # sums may round otherwise elsewhere
            assert now.get(column, ABSENT) == digests[place], f"{column} of {place}; see tests/pins/__init__.py"


def features(scenario: dict[str, Any]) -> set[str]:
    """Return what a scenario of a site combines."""
    return {name for name, is_there in _told(scenario) if is_there}


def _told(scenario: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    agent, rules, machine = scenario["agent"], scenario["rules"], scenario["machine"]
    rows, requests, nodes = scenario["jobs"], scenario.get("requests", []), machine.get("nodes", [])
    yield "cores", "cores" in machine
    yield "nodes", bool(nodes)
    yield "memory", any(one.get("memory") for one in requests)
    yield "gpus", any(one.get("gpus") for one in requests)
    yield "speeds", any(row[6] != 1 for row in nodes)
    yield "sizes", (agent == "anything" or "moldable" in agent) and any(len(row[3]) > 1 for row in rows)
    yield "users", len({row[2] for row in rows}) > 2
    yield from ((name, name in scenario) for name in ("windows", "limits", "failures", "qualities"))
    yield from ((name, bool(rules.get(name))) for name in ("grace", "checkpoint_every"))
    last: dict[int, int] = {}
    loops, any_after = 0, 0
    for job_id, _, user, *others in rows:
        after = others[3] if len(others) > 3 else []
        loops += after == [last.get(user)]
        any_after += bool(after)
        last[user] = job_id
    yield "closed loops", 2 * loops > any_after
    yield "dependencies", any_after > 2 * loops
    if agent == "anything" or agent.startswith("preemptive-"):
        modes = {name: mode for name, _, _, mode in scenario.get("qualities", [])}
        victims = {modes[name] for _, _, preempts, _ in scenario.get("qualities", []) for name in preempts}
        yield from ((mode, mode in victims) for mode in ("requeue", "suspend"))
