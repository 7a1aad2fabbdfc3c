"""The search for bad instances: what it accepts, that it is the same again and after an interruption, its files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from numpy.random import Generator, default_rng

from desim import plugins, simulate
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.problem import Problem
from desim.scenario import system_of
from desim.sweep.adversary import Annealing, Found, Ratio, instances_of, search

SHORT = Annealing(steps=40, restarts=2, seed=3)


@dataclass(frozen=True)
class Number:
    """A number that is to be large, and above 3 is none."""

    at_the_end: ClassVar[Mapping[str, Any]] = {}

    value: float

    @classmethod
    def draw(cls, rng: Generator) -> Self:
        return cls(float(rng.random()))

    def changed(self, rng: Generator) -> Self:
        return type(self)(self.value + float(rng.normal(0.0, 0.3)))

    def problem(self, agent: Agent) -> Problem:
        raise AssertionError

    def plain(self) -> dict[str, Any]:
        return {"value": self.value}

    @classmethod
    def of_plain(cls, values: Mapping[str, Any]) -> Self:
        return cls(**values)

    def write(self, path: Path) -> None:
        raise AssertionError


def size(number: Number) -> float:
    return number.value if 0 < number.value <= 3 else math.nan


def found_with(annealing: Annealing, **options: Any) -> Found:
    return search(Number, size, annealing, **options)


def test_the_worst_is_found_and_no_number_is_never_taken() -> None:
    found = found_with(replace(SHORT, steps=400))
    assert 2.5 < found.ratio <= 3.0
    assert found.instance.plain() == {"value": found.ratio}
    assert found.evaluations == 2 * 401


def test_the_same_seed_finds_the_same_and_another_another() -> None:
    assert found_with(SHORT) == found_with(SHORT) != found_with(replace(SHORT, seed=4))


@pytest.mark.parametrize("after", [1, 17, 41, 60])
def test_an_interrupted_search_goes_on_to_the_same_end(tmp_path: Path, after: int) -> None:
    state = tmp_path / "state.json"

    def interrupt(done: int) -> None:
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        found_with(SHORT, state=state, listen=interrupt)
    assert json.loads(state.read_text())["evaluations"] == after
    assert found_with(SHORT, state=state) == found_with(SHORT)
    assert found_with(SHORT, state=state) == found_with(SHORT)  # it has ended: nothing is left to do


def test_the_state_of_another_search_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    found_with(SHORT, state=state, name="one")
    with pytest.raises(
        InvalidConfiguration, match=r"state\.json: got the state of a search with .*, expected .*; delete it"
    ):
        found_with(SHORT, state=state, name="two")
    state.write_text("[]")
    with pytest.raises(
        InvalidConfiguration, match=r"state\.json cannot be read: .* not the state of a search; delete it"
    ):
        found_with(SHORT, state=state, name="one")


def test_temperatures_fall_from_the_first_step_to_the_last() -> None:
    annealing = Annealing(steps=3, hot=0.4, cold=0.1)
    assert [annealing.temperature(step) for step in (1, 2, 3)] == pytest.approx([0.4, 0.2, 0.1])
    for wrong in ({"hot": 0.001}, {"cold": 0.0}, {"steps": -1}, {"restarts": 0}, {"seed": -1}):
        with pytest.raises(InvalidConfiguration):
            Annealing(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("problem", ["dag", "batch"])
def test_instances_change_within_bounds_and_are_read_back(problem: str, tmp_path: Path) -> None:
    kind, rng = instances_of(problem), default_rng(0)
    agents = {"dag": ("heft", "rank-up-eft"), "batch": ("easy-fcfs", "sjf")}[problem]
    metric = {"dag": "makespan", "batch": "bounded_slowdown_mean"}[problem]
    instance = kind.draw(rng)
    for _ in range(200):
        changed = instance.changed(rng)
        assert kind.of_plain(json.loads(json.dumps(changed.plain()))) == changed
        instance = changed
    instance.write(tmp_path / "worst.json")
    system = system_of(problem)
    options = system.options()
    options = (
        replace(options, trace=str(tmp_path / "worst.json"))
        if problem == "dag"
        else replace(options, workload=replace(options.workload, trace=str(tmp_path / "worst.json")))
    )
    read = system.instance(options)
    ratio = Ratio(problem, *agents, metric)
    for name, value in zip(agents, ratio.values(instance), strict=True):
        agent = plugins.create_agent(problem, name)
        again = simulate(read.make(agent), agent).metrics()[metric]
        assert again == pytest.approx(value, rel=1e-12)
        assert simulate(instance.problem(agent), agent).metrics()[metric] == value  # told without records, or not


def test_where_more_is_better_the_ratio_is_upside_down() -> None:
    instance = instances_of("dag").draw(default_rng(1))
    time, speed = (Ratio("dag", "random-eft", "heft", metric)(instance) for metric in ("makespan", "speedup"))
    assert speed == pytest.approx(time)


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(
        InvalidConfiguration, match="problem: got 'deferrable', expected one with instances to search: batch, dag"
    ):
        instances_of("deferrable")
    with pytest.raises(InvalidConfiguration, match="unknown objective 'num_nodes'"):
        Ratio("dag", "heft", "cpop", "num_nodes")
    with pytest.raises(InvalidConfiguration, match="unknown dag agent 'nobody'"):
        Ratio("dag", "heft", "nobody", "makespan")
