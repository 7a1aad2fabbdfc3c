"""Switching: as good as the best member where all jobs arrive together, and free of foresight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desim import simulate
from desim.agents.dag import SwitchingAgent, create
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import DagCluster, DagObservation, Executors, Job
from desim.validation import validate
from desim.workloads.dag.registry import draw

MEMBERS = ("fifo-deft", "sjf-deft-idle", "rank-up-deft-patient")


def cluster(seed: int, *, load: float) -> DagCluster:
    rng = np.random.default_rng(seed)
    jobs, executors = draw(rng, num_jobs=5, num_executors=3, graphs="fft", ccr=2.0, load=load)
    return DagCluster(jobs, executors)


@pytest.mark.parametrize("objective", ["makespan", "turnaround_time_mean"])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_it_equals_the_best_member_where_all_jobs_arrive_together(objective: Any, seed: int) -> None:
    agent = SwitchingAgent([create(name) for name in MEMBERS], objective=objective)
    found = [simulate(cluster(seed, load=0.0), create(name)).metrics()[objective] for name in MEMBERS]
    result = simulate(cluster(seed, load=0.0), agent)
    assert result.metrics()[objective] == min(found)
    assert agent.num_forks == len(MEMBERS)
    assert agent.chosen[MEMBERS[int(np.argmin(found))]] == 1


class Spy:
    """Agent that notes the jobs of all observations of a simulation, and acts as another one."""

    considers = frozenset({"arrivals"})

    def __init__(self) -> None:
        self.agent = create("fifo-deft")
        self.name = "spy"
        self.seen: set[int] = set()
        self.numbers: list[set[int]] = []

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        self.numbers.append(set())
        self.agent.reset(info, rng)  # type: ignore[attr-defined]

    def act(self, observation: DagObservation) -> Any:
        self.numbers[-1] |= set(observation.jobs)
        return self.agent.act(observation)


def test_it_simulates_only_what_has_arrived_and_chooses_at_every_arrival() -> None:
    jobs = [Job(number, [4.0, 2.0], [(0, 1, 1.0)], submission_time=3.0 * number) for number in range(3)]
    spy = Spy()
    agent = SwitchingAgent([spy, create("sjf-deft-idle")])
    result = simulate(DagCluster(jobs, Executors([1.0])), agent)
    assert validate(result, jobs).ok
    assert sum(agent.chosen.values()) == 3 and agent.num_forks == 6
    simulated = [one for one in spy.numbers if one]
    assert simulated[0] == {0}  # neither of the later jobs, although the fork ends after they have arrived
    assert max(map(max, simulated)) == 2


def test_runs_repeat_with_members_that_remember() -> None:
    agent = create("switching-turnaround_time_mean:least-work-deft-patient+random-deft")
    first, again = (simulate(cluster(3, load=0.9), agent, seed=5).metrics() for _ in range(2))
    assert first == again


def test_members_that_look_or_plan_ahead_are_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="switching: heft plans ahead, and plans cannot be changed"):
        create("switching:fifo+heft")
    with pytest.raises(InvalidConfiguration, match="switching: rollout:fifo-deft looks ahead"):
        create("switching:rollout:fifo")
    with pytest.raises(InvalidConfiguration, match="members: got an empty sequence"):
        SwitchingAgent([])
    with pytest.raises(InvalidConfiguration, match="objective: got 'other'"):
        SwitchingAgent([create("fifo")], objective="other")  # type: ignore[arg-type]
