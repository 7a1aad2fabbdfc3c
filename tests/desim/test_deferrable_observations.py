"""What an agent is shown of a cluster for deferrable jobs: when, what it remembers, what it cannot change."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import simpy
from deferrable_agents import Scripted, Showing

from desim import Phase, Result, Simulation, at, simulate
from desim.problems.deferrable import DeferrableCluster, DeferrableObservation, Job
from desim.processes import stepped_capacity


def run(jobs: list[Job], capacity: Any, *answers: Any, **options: Any) -> Result:
    return simulate(DeferrableCluster(jobs, capacity, **options), Scripted(*answers))


class Noting(DeferrableCluster):
    """Notes when the capacity is set."""

    def begin(self) -> None:
        self.notes: list[str] = []
        super().begin()

    def set_capacity(self, amounts: Any) -> None:
        super().set_capacity(amounts)
        if self.env.now == 2:
            self.notes.append("capacity")


@pytest.mark.parametrize(
    "capacity", [[9, 8, 7, 6], stepped_capacity([(0, 9), (1.5, 8), (2, 7)])], ids=["series", "steps"]
)
def test_completions_then_capacity_then_submissions_then_the_decision(capacity: Any) -> None:
    def submit(cluster: Any) -> Generator[simpy.Event, Any, None]:
        yield at(cluster.env, 2, Phase.ARRIVAL)
        cluster.submit(Job(4, 2, 2, 2, 1, 1))

    jobs = [Job(1, 0, 0, 0, 2, 1), Job(2, 1, 1, 1, 1, 1), Job(3, 2, 2, 2, 1, 1)]
    simulation = Simulation(Noting(jobs, capacity, processes=[submit]))
    notes = simulation.problem.notes
    for event in ("completion", "arrival", "start", "slot"):
        simulation.problem.on(event, lambda time, _, event=event: notes.append(event) if time == 2 else None)
    while (decision := simulation.advance()) is not None:
        notes += ["decision"] if decision.observation.slot == 2 else []
        decision.answer(range(len(decision.observation.current)))
    happened = [
        "completion",
        "completion",
        "capacity",
        "arrival",
        "arrival",
        "decision",
        "start",
        "start",
        "slot",
    ]
    assert notes == happened


class TestHistories:
    """What the observation remembers."""

    def test_they_grow_by_one_a_slot_far_beyond_their_first_room(self) -> None:
        series = [float(number % 7) for number in range(300)]
        jobs = [Job(number, number, number, number, 1, 1 + number % 3) for number in range(0, 300, 2)]
        agent = Showing(lambda view: range(len(view.current)))
        simulate(DeferrableCluster(jobs, series, num_slots=300), agent)
        used = [[0.0 if slot % 2 else 1.0 + slot % 3] for slot in range(300)]
        for view in agent.views:
            assert view.capacity_history == [[amount] for amount in series[: view.slot + 1]]
            assert view.used_history == used[: view.slot]

    def test_capacities_and_weights_cannot_be_changed_from_outside(self) -> None:
        series, weights = np.array([3.0, 2.0]), np.array([10.0])
        cluster = DeferrableCluster([], series, num_slots=2, violation_weight=weights)
        series[:], weights[:] = 99, 99

        def meddle(observation: DeferrableObservation) -> None:
            for array in (observation.capacity, observation.violation_weights):
                with pytest.raises(ValueError, match="read-only"):
                    array[0] = 77

        assert simulate(cluster, Scripted(meddle, meddle)).table("slots")["capacity_cores"].to_list() == [3, 2]
        assert cluster.violation_weights.tolist() == [10]

    def test_what_a_process_sets_is_copied(self) -> None:
        def process(cluster: Any) -> Generator[simpy.Event, Any, None]:
            amounts = np.array([3.0])
            cluster.set_capacity(amounts)
            amounts[0] = 99
            yield cluster.env.timeout(9)

        assert run([], process, num_slots=2).table("slots")["capacity_cores"].to_list() == [3, 3]

    def test_what_does_not_change(self) -> None:
        seen: list[tuple[Any, ...]] = []

        def look(observation: DeferrableObservation) -> None:
            weights = observation.violation_weights.tolist()
            seen.append((observation.resources, observation.num_slots, observation.delay_weight, weights))

        options: dict[str, Any] = {"num_slots": 1, "resources": ("cores", "memory"), "violation_weight": [1, 2]}
        result = run([], [(9, 9)], look, delay_weight=3, overcommit=False, eviction="lost", real_time=True, **options)
        assert seen == [(("cores", "memory"), 1, 3.0, [1.0, 2.0])]
        told = {"problem": "deferrable", "num_slots": 1, "resources": ["cores", "memory"], "delay_weight": 3.0}
        told |= {"violation_weights": [1.0, 2.0], "overcommit": False, "eviction": "lost", "real_time": True}
        assert {name: result.info[name] for name in told} == told
