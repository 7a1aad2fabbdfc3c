"""Where a default run takes a quicker way than a SimPy process each, plain processes give the same numbers."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import simpy
from polars.testing import assert_frame_equal

from desim import Phase, at, simulate
from desim.agents import dag, deferrable, multiserver
from desim.agents.batch import FCFS
from desim.problems.batch import BatchCluster, Job
from desim.problems.dag import DagCluster, Executors, SharedLinks
from desim.problems.deferrable import DeferrableCluster
from desim.problems.multiserver import MultiServerCluster
from desim.problems.slotted import SlottedProblem
from desim.processes.arrivals import Arrivals
from desim.workloads import lublin
from desim.workloads.dag import random_dags
from desim.workloads.deferrable import Settings
from desim.workloads.deferrable import generate as generate_vms
from desim.workloads.multiserver import bernoulli_arrivals
from desim.workloads.multiserver import generate as generate_system


class SlotProcess(SlottedProblem):
    """A slot clock that is a SimPy process, in the place of callbacks on one event."""

    def start(self, items: Any, time_of: Any, deliver: Any) -> None:
        self.next_slot = 0
        self.keep_running(Arrivals(self.env, items, time_of, deliver))
        self.env.process(self.clock())

    def clock(self) -> Generator[simpy.Event, Any, None]:
        while True:
            over = self.next_slot == self.num_slots
            yield at(self.env, self.next_slot, Phase.CAPACITY if over else Phase.SLOT)
            if over or (self.num_slots is None and self.is_empty() and not self.expects_more()):
                self.simulation.stop()
                return
            slot, self.next_slot = self.next_slot, self.next_slot + 1
            self.observe(slot)
            self.serve(slot, (yield self.simulation.decide(self.observation)))


class ProcessMultiServer(SlotProcess, MultiServerCluster):
    """Slots of a multi-server cluster as a process."""


class ProcessDeferrable(SlotProcess, DeferrableCluster):
    """Slots of a deferrable cluster as a process."""


def assert_same(ours: Any, theirs: Any) -> None:
    assert ours.table_names == theirs.table_names
    for name in ours.table_names:
        assert_frame_equal(ours.table(name), theirs.table(name))


@pytest.mark.parametrize("seed", range(3))
def test_a_slot_clock_of_callbacks_is_a_process_that_asks_once_a_slot(seed: int) -> None:
    rewards = generate_system(num_ports=4, num_nodes=6, seed=seed)
    arrivals = bernoulli_arrivals(40, 4, seed=seed)
    runs = [
        simulate(kind(rewards, arrivals), multiserver.create("fairness"), seed=seed)
        for kind in (MultiServerCluster, ProcessMultiServer)
    ]
    assert_same(*runs)
    scenario = generate_vms(Settings(num_slots=30), seed=seed)
    jobs, capacity = scenario.jobs, scenario.capacity
    for num_slots in (30, None):
        runs = [
            simulate(kind(jobs, capacity, num_slots=num_slots), deferrable.create("fifo"), seed=seed)
            for kind in (DeferrableCluster, ProcessDeferrable)
        ]
        assert_same(*runs)


@pytest.mark.parametrize("agent", ["fifo-deft", "rank-up-deft"])
@pytest.mark.parametrize("seed", range(3))
def test_transfers_over_channels_that_never_limit_arrive_when_computed_ones_do(agent: str, seed: int) -> None:
    """Channels are a SimPy process, which finds that each transfer goes at the speed of its pair of executors."""
    jobs = [random_dags.generate(12, ccr=2.0, job_id=number, seed=10 * seed + number) for number in range(3)]
    runs = [
        simulate(
            DagCluster(jobs, Executors([1.0, 1.5, 2.0], 4.0), plan_ahead=True, transfers="when_assigned", links=links),
            dag.create(agent),
            seed=seed,
        )
        for links in (None, SharedLinks.bus(3, np.inf))
    ]
    copies = [run.table("copies").sort("node", "executor", "starting_time") for run in runs]
    assert_frame_equal(*copies, abs_tol=1e-9, rel_tol=1e-12)
    assert (runs[0].table("transfers")["size"] > 0).any()


@pytest.mark.parametrize("load", [0.7, 1.1])
def test_jobs_of_a_batch_cluster_are_processes_that_get_and_put_cores(load: float) -> None:
    """A job that is a SimPy process, and a container of cores, start as FCFS starts them: one event per completion."""
    jobs = lublin.generate(num_jobs=300, num_cores=64, seed=4, load=load)
    env = simpy.Environment()
    cores = simpy.Container(env, capacity=64, init=64)
    starts: dict[Any, float] = {}

    def live(job: Job) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(job.submission_time)
        yield cores.get(job.requested_cores)
        starts[job.job_id] = env.now
        yield env.timeout(job.run_time)
        yield cores.put(job.requested_cores)

    for job in jobs:
        env.process(live(job))
    env.run()
    result = simulate(BatchCluster(jobs, num_cores=64), FCFS())
    found = dict(result.jobs.select("job_id", "starting_time").iter_rows())
    assert found == pytest.approx(starts, rel=1e-12)
