"""``multiserver`` on the command line: a drawn graph of ports and nodes, and drawn arrivals."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from tyro.conf import arg

from desim import plugins
from desim.checks import check_float
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.problems.multiserver import MultiServerCluster, MultiSlotCluster, RewardModel
from desim.problems.multiserver.kind import KIND
from desim.scenario import ProblemInstance, Seed, SeededProblemSpec, Steps, Until, generator

__all__ = ["SYSTEM", "MultiServerOptions", "MultiServerSystem"]


@dataclass(frozen=True)
class MultiServerOptions:
    """Ports, nodes, arrivals."""

    slots: Annotated[int, arg(metavar="N")] = 500
    """Length of the run."""
    ports: Annotated[int, arg(metavar="N")] = 10
    """Types of jobs."""
    nodes: Annotated[int, arg(metavar="N")] = 128
    """Machines."""
    density: Annotated[float, arg(metavar="X")] = 2.5
    """Mean number of ports that a node serves."""
    contention: Annotated[float, arg(metavar="X")] = 10.0
    """Multiplies all requests."""
    probability: Annotated[float, arg(metavar="P")] = 0.7
    """That a job arrives, for each slot and port."""
    work: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: jobs last one slot)")] = None
    """Jobs wait, and hold what they get until their work is done: its mean, in units of reward times slots."""
    seed: Seed = 0
    """Seed of everything random: requests, machines, graph, utilities, arrivals."""
    record_allocations: Annotated[int, arg(metavar="N")] = 1
    """Record the allocations of every so many slots; 0 for none, which saves most of the room on disk."""
    enforce_limits: bool = True
    """Refuse allocations above requests or capacities; ``ogasched``, as printed, does not keep within them."""
    until: Until = None
    """End the run at this slot."""
    warm_up_slots: Annotated[int, arg(metavar="N")] = 0
    """Leave the first slots out of the metrics."""


class MultiServerSystem(SeededProblemSpec):
    """Each seed draws a system of ports and nodes, and the arrivals."""

    name = "multiserver"
    description = KIND.description
    default_agent = "exact-oga-reactive"
    options = MultiServerOptions

    def instance(self, options: MultiServerOptions) -> ProblemInstance:
        """Return what is simulated."""
        rewards, arrivals = plugins.episode_workload(self.name)(
            generator(options.seed),
            num_slots=options.slots,
            num_ports=options.ports,
            num_nodes=options.nodes,
            density=options.density,
            contention=options.contention,
            probability=options.probability,
        )
        _made(rewards, arrivals, options, None)  # so that unusable options are found here
        place = f"{options.nodes:,} nodes"
        return ProblemInstance(
            name="generated",
            size=f"{options.slots:,} slots, {options.ports:,} types of jobs on {place}",
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
        """Return what the metrics cover."""
        return {"warm_up_slots": options.warm_up_slots}

    def identity(self, options: MultiServerOptions) -> dict[str, Any]:
        """Return what tells runs apart."""
        settings = asdict(options)
        del settings["warm_up_slots"]
        if options.enforce_limits:  # runs stored before there was a choice are the same runs
            del settings["enforce_limits"]
        return settings


SYSTEM = MultiServerSystem()


def _made(rewards: RewardModel, arrivals: Any, options: MultiServerOptions, agent: Agent | None) -> MultiServerCluster:
    if options.work is None:
        return MultiServerCluster(
            rewards,
            arrivals,
            record_allocations=options.record_allocations,
            enforce_limits=options.enforce_limits,
        )
    if not options.enforce_limits:
        raise InvalidConfiguration("enforce_limits: got False with work, expected True: jobs hold what they are given")
    mean = check_float("work", options.work, above=0)
    return MultiSlotCluster(rewards, arrivals, partial(_drawn, mean), record_allocations=options.record_allocations)


def _drawn(mean: float, rng: np.random.Generator, port: int) -> float:
    """Draw the work of a job."""
    return float(rng.exponential(mean))
