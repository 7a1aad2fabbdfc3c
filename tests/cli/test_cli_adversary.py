"""``desim adversary``: what it prints and writes, and that its files are workloads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Desim

SMALL = ("--steps", "8", "--restarts", "2", "--seed", "1")


@pytest.mark.parametrize(
    ("problem", "agent", "rival", "metric"),
    [("dag", "heft", "cpop", "makespan"), ("batch", "fcfs", "easy-fcfs", "bounded_slowdown_mean")],
)
def test_an_instance_is_found_written_and_read(
    desim: Desim, tmp_path: Path, problem: str, agent: str, rival: str, metric: str
) -> None:
    call = ("adversary", problem, "--agents", agent, "--against", rival, *SMALL, "--out", tmp_path / "a", "--json")
    first, again = desim(*call), desim(*call)
    assert first.status == again.status == 0, first.err
    assert first.out == again.out
    (found,) = json.loads(first.out)["found"]
    assert found["instances"] == 18
    assert found["ratio"] == pytest.approx(found["value"] / found["against_value"])
    for name, value in ((agent, found["value"]), (rival, found["against_value"])):
        run = desim("run", problem, "--trace", found["file"], "--agent", name, "--json")
        assert json.loads(run.out)["metrics"][metric] == pytest.approx(value)


def test_a_table_and_what_is_refused(desim: Desim, tmp_path: Path) -> None:
    shown = desim("adversary", "dag", "--agents", "heft", "--against", "heft,dls", *SMALL, "--out", tmp_path)
    assert shown.status == 0
    assert "heft" in shown.out
    assert (tmp_path / "heft-against-dls" / "worst.json").exists()
    alone = desim("adversary", "dag", "--agents", "heft", "--against", "heft", "--out", tmp_path)
    assert (alone.status, "expected at least one pair of different names" in alone.err) == (2, True)
    unknown = desim("adversary", "dag", "--agents", "heft", "--against", "nobody", "--out", tmp_path)
    assert (unknown.status, "nobody" in unknown.err) == (2, True)
