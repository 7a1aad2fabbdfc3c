"""Simple, EASY and conservative backfilling on nodes decide as plain loops over nodes and tasks do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from node_jobs import NODES, random_jobs
from plain_nodes import PlainConservative, plain_easy, plain_simple, plain_strict

from desim import InvalidConfiguration, simulate
from desim.agents.batch import PreemptiveAgent, create
from desim.problems.batch import PLACEMENTS, AdvanceReservation, BatchCluster, Job, Node, QualityOfService, StartOnNodes
from desim.processes.outages import Outage, planned_outages
from desim.validation import validate
from tests.jobs import with_fields

PLAIN = {"": plain_strict, "backfilling": plain_simple, "easy": plain_easy, "conservative": PlainConservative}


def random_reservations(rng: np.random.Generator, num_nodes: int) -> list[AdvanceReservation]:
    """Return reservations, some of which admit users; some begin as others end, on the same nodes or on others."""
    free = [0.0] * num_nodes  # from when on each node belongs to no reservation
    reservations = []
    for _ in range(int(rng.integers(1, 8))):
        nodes = rng.choice(num_nodes, int(rng.integers(1, num_nodes + 1)), replace=False).tolist()
        begin = max(free[node] for node in nodes) + 10 * float(rng.integers(0, 5))
        end = begin + 10 * float(rng.integers(1, 12))
        for node in nodes:
            free[node] = end
        reservations.append(
            AdvanceReservation(begin, end, nodes=nodes, users=rng.choice(3, int(rng.integers(0, 3)), replace=False))
        )
    return reservations


class Compared:
    """An agent whose every answer must be that of the plain one."""

    def __init__(self, kind: str, order: str) -> None:
        self.agent = create(f"{kind}-{order}" if kind else order)
        plain = PLAIN[kind]
        priority = self.priority = self.agent.priority if kind else self.agent
        self.plain: Any = plain(priority).act if isinstance(plain, type) else lambda seen: plain(seen, priority)
        self.decisions = 0

    def act(self, observation: Any) -> Any:
        answer = self.agent.act(observation)
        starts = [action for action in answer or () if isinstance(action, StartOnNodes)]
        want = self.plain(observation)
        assert sorted(starts) == sorted(want), observation.time
        self.decisions += 1
        return answer


def random_qualities(rng: np.random.Generator, count: int) -> tuple[dict[str, Any], dict[int, str]]:
    """Return qualities of service, of which each preempts those before it, in any mode."""
    names = ["low", "middle", "high"]
    qos = [
        QualityOfService(name, float(place), tuple(names[:place]), str(rng.choice(["requeue", "suspend"])))  # type: ignore[arg-type]
        for place, name in enumerate(names)
    ]
    return {"qos": qos}, {number: str(rng.choice(names)) for number in range(count)}


def compare(seed: int, kind: str, placement: str, count: int, preempts: bool = False) -> int:
    """Simulate random jobs on some of the nodes, sometimes with outages; return how many were preempted."""
    rng = np.random.default_rng(seed)
    outages = [planned_outages([Outage(50.0, 150.0, nodes=[0, 2]), Outage(100.0, 120.0, nodes=[2])])] * (
        rng.random() < 0.3
    )
    jobs = random_jobs(rng, count)
    nodes = NODES if rng.random() < 0.5 else NODES[2:]
    reservations = random_reservations(rng, len(nodes)) if rng.random() < 0.6 else []
    service, qos_of = random_qualities(rng, count) if preempts else ({}, {})
    jobs = with_fields(jobs, qos=qos_of)
    options = {"placement": placement, "too_wide": "reject", "processes": outages}
    problem = BatchCluster(jobs, nodes=nodes, reservations=reservations, **options, **service)
    agent = Compared(kind, str(rng.choice(["fcfs", "sjf", "f1"])))
    result = simulate(problem, PreemptiveAgent(agent) if preempts else agent)
    assert agent.decisions
    if not preempts:  # who was suspended ends later than was planned
        cut = set(result.table("interruptions")["finish_time"])
        assert cut <= ({50.0, 100.0} if outages else set()), "jobs leave reservations alone"
    report = validate(result, jobs)
    assert report.ok, str(report)
    return len(result.table("preemptions")) if preempts else 0


@pytest.mark.parametrize("kind", PLAIN)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), placement=st.sampled_from(sorted(PLACEMENTS)))
def test_decisions_are_those_of_the_definition(kind: str, seed: int, placement: str) -> None:
    compare(seed, kind, placement, 18)


@pytest.mark.parametrize("kind", PLAIN)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), placement=st.sampled_from(sorted(PLACEMENTS)))
def test_decisions_are_those_of_the_definition_where_jobs_are_preempted(kind: str, seed: int, placement: str) -> None:
    compare(seed, kind, placement, 18, preempts=True)


def test_these_scenarios_preempt() -> None:
    assert sum(compare(seed, "easy", "best-fit", 18, preempts=True) for seed in range(16)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("preempts", [False, True])
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("kind", PLAIN)
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_decisions_are_those_of_the_definition_on_thousands_of_scenarios(
    kind: str, placement: str, preempts: bool, seed: int
) -> None:
    compare(seed, kind, placement, 30, preempts)


@pytest.mark.parametrize("order", ["fcfs", "sjf"])
def test_conservative_on_one_node_is_that_of_cores(order: str) -> None:
    """Jobs that request cores alone start on one node of 16 cores when they do on 16 cores."""
    rng = np.random.default_rng(5)
    times = rng.exponential(50.0, 120).cumsum().tolist()
    jobs = [
        Job(number, time, int(rng.integers(1, 17)), float(run) * 2, float(run))
        for number, (time, run) in enumerate(zip(times, rng.integers(0, 200, 120).tolist(), strict=True))
    ]
    cores = simulate(BatchCluster(jobs, 16), create(f"conservative-{order}"))
    nodes = simulate(BatchCluster(jobs, nodes=[Node("only", 16)]), create(f"conservative-{order}"))
    assert nodes.jobs["starting_time"].equals(cores.jobs["starting_time"])


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("easy-specific-sjf", "easy-sjf"),
        ("conservative-specific-fcfs", "conservative-fcfs"),
        ("easy-moldable-fcfs", "easy-fcfs"),
        ("inspector:desim-f1", "easy-f1"),
        ("split-window:desim-any", "backfilling-sjf"),
        ("search:batch:waiting_time_mean:300", "rollout-waiting_time_mean:easy-sjf"),
        ("window-aged-9-1", "easy-sjf"),
        ("window-reserving-9-1", "easy-sjf"),
        ("rollout:window-weighing-9-1", "easy-sjf"),
    ],
)
def test_agents_that_count_cores_say_what_to_use_instead(name: str, instead: str) -> None:
    if name.startswith("search"):
        pytest.importorskip("numba")
    jobs = [Job(0, 0.0, 1, 1.0, 1.0)]
    message = f"^{name.removeprefix('rollout:')}: got a cluster with nodes, expected one without; try {instead}"
    with pytest.raises(InvalidConfiguration, match=message):
        simulate(BatchCluster(jobs, nodes=NODES), create(name))
    create(instead)


@pytest.mark.parametrize(
    "name", ["rollout:easy-sjf", "rollout-waiting_time_mean:fcfs", "window-random-4-2", "window-first-3-0"]
)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_other_agents_run_on_nodes(name: str, seed: int) -> None:
    jobs = random_jobs(np.random.default_rng(seed), 25)
    result = simulate(BatchCluster(jobs, nodes=NODES, too_wide="reject"), create(name))
    assert result.info["status"] == "complete"
    assert validate(result, jobs).ok


def test_promises_are_kept() -> None:
    """With exact requested times no job starts later under conservative backfilling than it was promised."""
    rng = np.random.default_rng(2)
    jobs = [job._replace(requested_time=job.run_time) for job in random_jobs(rng, 60)]
    agent = create("conservative-fcfs")
    promised: dict[int, float] = {}

    class Noting:
        """Note what each job was promised first."""

        def act(self, observation: Any) -> Any:
            answer = agent.act(observation)
            for row, slot in agent.reservations.items():
                promised.setdefault(row, slot.start)
            return answer

    agent.reset({}, None)
    result = simulate(BatchCluster(jobs, nodes=NODES, too_wide="reject"), Noting())
    started = dict(result.jobs.select("arrival_number", "starting_time").iter_rows())
    assert len(promised) > 20
    assert all(started[row] <= start for row, start in promised.items())
