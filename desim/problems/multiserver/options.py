"""Command-line options of the problem ``multiserver``: a random graph of ports and nodes, and random arrivals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from tyro.conf import arg

from desim import plugins
from desim.checks import check_float
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.formatting import how_many
from desim.problems.multiserver import MultiServerCluster, MultiSlotCluster, RewardModel
from desim.problems.multiserver.kind import KIND
from desim.scenario import ProblemInstance, Seed, SeededProblemSpec, Steps, Until, generator, identifying

__all__ = ["SYSTEM", "MultiServerOptions", "MultiServerSystem"]


@dataclass(frozen=True)
class MultiServerOptions:
    """Options for ports, nodes and arrivals of a multi-server problem."""

    slots: Annotated[int, arg(metavar="N")] = 500
    """Length of the run in slots."""
    ports: Annotated[int, arg(metavar="N")] = 10
    """Number of job types (ports)."""
    nodes: Annotated[int, arg(metavar="N")] = 128
    """Number of machines (nodes)."""
    density: Annotated[float, arg(metavar="X")] = 2.5
    """Mean number of ports per node."""
    contention: Annotated[float, arg(metavar="X")] = 10.0
    """Factor by which all requests are multiplied."""
    probability: Annotated[float, arg(metavar="P")] = 0.7
    """Probability that a job arrives, per slot and port."""
    work: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: jobs last one slot)")] = None
    """Mean work of jobs that wait and then hold their resources until it is done, in units of reward times slots."""
    minimum_speed: Annotated[float, arg(metavar="X")] = 0.0
    """With --work: speed that a job must exceed to start."""
    longest_service: Annotated[float, arg(metavar="N")] = 10_000.0
    """With --work: longest duration in slots with which a job may start."""
    give_up_after: Annotated[int, arg(metavar="N")] = 1_000
    """With --work: slots after the last arrival in which jobs wait but none runs, until the run ends."""
    jobs_per_port: Annotated[int, arg(metavar="N")] = 1
    """Largest number of jobs of a type in a slot; above 1, agents see as many copies of each port."""
    seed: Seed = 0
    """Seed of all random numbers: requests, machines, graph, utilities, arrivals."""
    record_allocations: Annotated[int, arg(metavar="N")] = 1
    """Interval, in slots, at which allocations are recorded; 0 for never, which saves most of the disk space."""
    enforce_limits: bool = True
    """Refuse allocations above requests or capacities; the agent ogasched, as printed in the paper, exceeds them."""
    until: Until = None
    """Slot at which the run ends."""
    warm_up_slots: Annotated[int, arg(metavar="N")] = 0
    """Number of initial slots that the metrics ignore."""


OF_WORK = ("minimum_speed", "longest_service", "give_up_after")
"""Options of jobs that hold their resources."""


class MultiServerSystem(SeededProblemSpec):
    """Random multi-server problem: each seed generates a system of ports and nodes, and the arrivals."""

    name = "multiserver"
    description = KIND.description
    default_agent = "exact-oga-reactive"
    options = MultiServerOptions

    def instance(self, options: MultiServerOptions) -> ProblemInstance:
        """Return the problem instance to simulate."""
        rewards, arrivals = plugins.episode_workload(self.name)(
            generator(options.seed),
            num_slots=options.slots,
            num_ports=options.ports,
            num_nodes=options.nodes,
            density=options.density,
            contention=options.contention,
            probability=options.probability,
        )
        _made(rewards, arrivals, options, None)  # reports unusable options early
        place = how_many(options.nodes, "node")
        return ProblemInstance(
            name="generated",
            size=f"{how_many(options.slots, 'slot')}, {how_many(options.ports, 'job type')} on {place}",
            place=place,
            options=options,
            kind=KIND,
            make=partial(_made, rewards, arrivals, options),
            workload=arrivals,
            steps=Steps("slot", "slots", options.slots),
            until=math.inf if options.until is None else options.until,
            facts={"slots": options.slots, "ports": options.ports, "nodes": options.nodes},
        )

    def metric_options(self, options: MultiServerOptions) -> dict[str, Any]:
        """Return the options of the metrics."""
        return {"warm_up_slots": options.warm_up_slots}

    def identity(self, options: MultiServerOptions) -> dict[str, Any]:
        """Return the values that identify a run."""
        settings = identifying(options, ("enforce_limits", "jobs_per_port", *OF_WORK))
        del settings["warm_up_slots"]
        return settings


SYSTEM = MultiServerSystem()


def _made(rewards: RewardModel, arrivals: Any, options: MultiServerOptions, agent: Agent | None) -> MultiServerCluster:
    shared: Any = {"record_allocations": options.record_allocations, "jobs_per_port": options.jobs_per_port}
    of_work = {name: getattr(options, name) for name in OF_WORK}
    if options.work is None:
        if given := [name for name, value in of_work.items() if value != getattr(MultiServerOptions, name)]:
            raise InvalidConfiguration(f"--{given[0].replace('_', '-')}: has no effect without --work")
        return MultiServerCluster(rewards, arrivals, enforce_limits=options.enforce_limits, **shared)
    if not options.enforce_limits:
        raise InvalidConfiguration("enforce_limits: got False with work, expected True, as jobs hold their allocations")
    mean = check_float("work", options.work, above=0)
    return MultiSlotCluster(rewards, arrivals, partial(_drawn, mean), **of_work, **shared)


def _drawn(mean: float, rng: np.random.Generator, port: int) -> float:
    """Return the random work of a job."""
    return float(rng.exponential(mean))
