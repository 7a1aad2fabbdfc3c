"""Plans and profiles against their definitions, at every decision of random runs on cores and on nodes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from desim import InvalidConfiguration, simulate
from desim.problems.batch import AdvanceReservation, BatchCluster, BatchObservation, Job, Node, Request

CORES = 12


def jobs(rng: Random, *, on_nodes: bool) -> list[Job]:
    """Return jobs that arrive in bursts."""
    found: list[Job] = []
    for number in range(40):
        time, requested = float(rng.randrange(0, 100, 5)), float(rng.randint(1, 40))
        run = rng.uniform(0, requested)
        if on_nodes:
            request = Request(rng.randint(1, 3), rng.randint(1, 3), rng.randint(0, 4), rng.choice((0, 0, 0.5, 1)))
            found.append(Job.of_tasks(number, time, request, requested, run))
        else:
            found.append(Job(number, time, rng.randint(1, CORES), requested, run))
    return sorted(found, key=lambda job: job.submission_time)


def cluster(rng: Random, *, on_nodes: bool, reserves: bool) -> BatchCluster:
    """Return a cluster of 12 cores, with two advance reservations if asked for."""
    units: dict[str, Any] = {"nodes": (0,)} if on_nodes else {"cores": 5}
    reservations = [AdvanceReservation(30.0, 60.0, **units), AdvanceReservation(120.0, 150.0, **units)]
    kind: dict[str, Any] = {"num_cores": CORES}
    if on_nodes:
        kind = {"nodes": [*Node.several(2, 4, memory=6), Node("g", 4, memory=12, gpus=3)], "placement": "best-fit"}
    kind["reservations"] = reservations if reserves else ()
    return BatchCluster(jobs(rng, on_nodes=on_nodes), too_wide="reject", **kind)


class Checking:
    """Start jobs at random; before, compare what plans say with what they do."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.checked = 0

    def act(self, observation: BatchObservation) -> list[Any] | None:
        length = len(observation.queue)
        for kind in ({}, {"around_reservations": False}, {"specific_cores": True}):
            startable = [position for position in range(length) if observation.plan(**kind).start(position)]
            assert observation.plan(**kind).fitting().tolist() == startable
            assert [position for position in range(length) if observation.plan(**kind).fits(position)] == startable
            self.order(observation, kind)
        profile = observation.profile()
        for position in range(length):
            slot = profile.fit(observation.request_at(position), observation.queue.job_at(position)[2])
            assert observation.plan().earliest(position) == slot.start
        plan = observation.plan()
        for position in self.rng.sample(range(length), length):
            if self.rng.random() < 0.5:
                plan.start(position)
        self.checked += length
        return plan.answer

    def order(self, observation: BatchObservation, kind: dict[str, Any]) -> None:
        """Compare starts one by one with those at once; beside a reservation, no job may delay the reserved one."""
        order = np.array(self.rng.sample(range(len(observation.queue)), len(observation.queue)), np.int64)
        plan, alone = observation.plan(**kind), observation.plan(**kind)
        blocked = plan.start_in_order(order)
        assert blocked == next((position for position in order.tolist() if not alone.start(position)), None)
        assert plan.answer == alone.answer
        if blocked is None:
            return
        before = plan.earliest(blocked) if not kind.get("specific_cores") else None
        rest = order[order.tolist().index(blocked) + 1 :]
        for one in (plan, alone):
            one.reserve(blocked)
        plan.start_each(rest)
        for position in rest.tolist():
            alone.start(position)
        assert plan.answer == alone.answer
        if before is not None and not observation.reservations:
            assert plan.earliest(blocked) == before


@pytest.mark.parametrize("reserves", [False, True])
@pytest.mark.parametrize("on_nodes", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_plans_do_what_they_say(seed: int, on_nodes: bool, reserves: bool) -> None:
    rng = Random(seed)
    agent = Checking(rng)
    simulate(cluster(rng, on_nodes=on_nodes, reserves=reserves), agent, until=2_000)
    assert agent.checked > 200


def test_plans_on_nodes_know_no_sizes() -> None:
    class Sized:
        def act(self, observation: BatchObservation) -> None:
            with pytest.raises(InvalidConfiguration, match="know no sizes"):
                observation.plan().start(0, 1)

    with pytest.warns(UserWarning, match="stalled"):
        simulate(BatchCluster([Job(1, 0.0, 1, 1.0, 1.0)], nodes=[Node("a", 1)]), Sized())
