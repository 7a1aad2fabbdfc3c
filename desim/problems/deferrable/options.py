"""Command-line options of the problem ``deferrable``: random jobs with start windows, under a random capacity."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Literal

from tyro.conf import UseAppendAction, arg

from desim import plugins
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.formatting import how_many
from desim.problems.deferrable import DeferrableCluster
from desim.problems.deferrable.kind import KIND
from desim.scenario import ProblemInstance, Seed, SeededProblemSpec, Steps, Until, generator, settings_of

__all__ = ["SYSTEM", "DeferrableOptions", "DeferrableSystem"]


@dataclass(frozen=True)
class DeferrableOptions:
    """Options for jobs, capacity and objective of a problem with deferrable jobs."""

    workload: Annotated[str, arg(metavar="NAME", aliases=["--trace"])] = "default"
    """Name of the workload model for jobs and capacity; `desim list` shows the names."""
    slots: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: as the workload)")] = None
    """Length of the run in slots."""
    arrival_rate: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: as the workload)")] = None
    """Mean number of jobs submitted per slot."""
    capacity: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: as the workload)")] = None
    """Mean capacity in cores."""
    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()
    """Further parameter of the workload, such as slack=4 or capacity_swing=0.3; may be given several times."""
    seed: Seed = 0
    """Seed of all random numbers: jobs and capacity."""
    delay_weight: Annotated[float, arg(metavar="X")] = 2.0
    """Cost of a slot of delay, in core-slots."""
    violation_weight: Annotated[float, arg(metavar="X")] = 10.0
    """Cost per core and slot above the capacity, in core-slots."""
    overcommit: Annotated[bool, arg(help_behavior_hint="(default: allowed)")] = True
    """Forbid agents to start more jobs than fit."""
    eviction: Literal["never", "lost", "restarted"] = "never"
    """Treatment of running jobs when the capacity falls below what they hold: none, or eviction of jobs, which are lost
    or may be restarted."""
    real_time: bool = False
    """Reveal each job only at its earliest start, so that it starts then or never."""
    until: Until = None
    """Slot at which the run ends."""


class DeferrableSystem(SeededProblemSpec):
    """Random problem with deferrable jobs: each seed generates jobs and capacity."""

    name = "deferrable"
    description = KIND.description
    default_agent = "earliest-deadline"
    options = DeferrableOptions

    def instance(self, options: DeferrableOptions) -> ProblemInstance:
        """Return the problem instance to simulate."""
        given = {"num_slots": options.slots, "arrival_rate": options.arrival_rate, "capacity_mean": options.capacity}
        changes = {name: value for name, value in given.items() if value is not None}
        further = settings_of(options.set)
        if twice := sorted(changes.keys() & further.keys()):
            raise InvalidConfiguration(f"--set {twice[0]}: an option sets it, too; leave out one of them")
        changes |= further
        make = plugins.episode_workload(self.name)
        scenario = make(generator(options.seed), settings=options.workload, **changes)
        _made(scenario, options, None)  # reports unusable options early
        place = how_many(scenario.num_slots, "slot")
        return ProblemInstance(
            name=options.workload,
            size=place,
            place=place,
            options=options,
            kind=KIND,
            make=partial(_made, scenario, options),
            workload=scenario.jobs,
            steps=Steps("slot", "slots", scenario.num_slots),
            until=math.inf if options.until is None else options.until,
            facts={"slots": scenario.num_slots, "jobs": len(scenario.jobs)},
        )

    def identity(self, options: DeferrableOptions) -> dict[str, Any]:
        """Return the values that identify a run."""
        return asdict(options) | {"set": settings_of(options.set)}


SYSTEM = DeferrableSystem()


def _made(scenario: Any, options: DeferrableOptions, agent: Agent | None) -> DeferrableCluster:
    return DeferrableCluster(
        scenario.jobs,
        scenario.capacity,
        num_slots=scenario.num_slots,
        delay_weight=options.delay_weight,
        violation_weight=options.violation_weight,
        overcommit=options.overcommit,
        eviction=options.eviction,
        real_time=options.real_time,
    )
