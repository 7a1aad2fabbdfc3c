"""Each single check of the rules of batch, not only each rule, has a corruption that it finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import test_batch_corruptions as on_cores
import test_node_corruptions as on_nodes
from test_node_corruptions import reserved, run  # noqa: F401 - fixtures

from desim.validation import kind_of, validate


def test_every_check_has_its_corruption(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = kind_of("batch")
    alone = {  # each check as a rule of its own
        f"{rule.name}, check {number}": replace(rule, name=f"{rule.name}, check {number}", checks=(check,))
        for rule in kind.rules
        for number, check in enumerate(rule.checks)
    }
    monkeypatch.setattr(type(kind), "rules", tuple(alone.values()))
    found: set[str] = set()
    for scenario, _, corrupt, *_ in on_cores.CASES:
        corrupted = request.getfixturevalue(scenario)
        found |= set(validate(corrupt(corrupted), corrupted.jobs).counts)
    for of_nodes, cases, jobs in (
        ("run", on_nodes.CASES, on_nodes.JOBS),
        ("reserved", on_nodes.OF_RESERVATIONS, on_nodes.RESERVED),
    ):
        for _, corrupt, _ in cases:
            found |= set(validate(corrupt(request.getfixturevalue(of_nodes)), jobs).counts)
    assert alone.keys() <= found, sorted(alone.keys() - found)
