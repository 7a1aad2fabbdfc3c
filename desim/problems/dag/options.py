"""``dag`` on the command line: queries like those of TPC-H, or recorded workflows, on executors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from tyro.conf import arg

from desim import plugins
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.problems.dag import DagCluster, Executors, Job, SharedLinks, TaskCluster
from desim.problems.dag.kind import KIND
from desim.scenario import ProblemInstance, Seed, SeededProblemSpec, Steps, Until, failures, generator

__all__ = ["SYSTEM", "DagOptions", "DagSystem", "cluster_for"]

GENERATED = "tpch"
#: Of files, whose sizes are in bytes: 1 Gbit/s.
BYTES_PER_SECOND = 1.25e8


@dataclass(frozen=True)
class DagOptions:
    """Jobs and executors."""

    trace: Annotated[str, arg(metavar="FILE,...|tpch", aliases=["--workload"])] = GENERATED
    """Workflow files (WfFormat .json, DAX .dax or .xml), or tpch: queries like those of TPC-H, drawn from a seed."""
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: 20, of files each once)")] = None
    """How many jobs, drawn from the queries or files."""
    executors: Annotated[int, arg(metavar="N")] = 10
    """Executors, whose speeds are drawn from 2.1 to 3.6 GHz as in LACHESIS; of files that state executors, those."""
    mean_interval: Annotated[float, arg(metavar="S")] = 0.0
    """Mean time between submissions in seconds, a Poisson process; 0 for all at time 0."""
    ccr: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: .5, of files as they state)")] = None
    """Communication-to-computation ratio, for which sizes of data are drawn: mean transfer time between two executors
    by mean run time on the executors; of tpch at a transfer speed of 1, by run time at 2.85 GHz, as in LACHESIS."""
    transfer_speed: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: 1, of files 1.25e8)")] = None
    """Units of data per second between two executors; those of files are bytes."""
    seed: Seed = 0
    """Seed of everything random: executors, jobs, sizes of data, submissions, outages."""
    plan_ahead: Literal["auto", "yes", "no"] = "auto"
    """Whether nodes may be assigned before their parents have finished; auto: for agents that refuse to do without."""
    transfers: Annotated[
        Literal["when_finished", "when_assigned"] | None,
        arg(help_behavior_hint="(default: when_finished, with links when_assigned)"),
    ] = None
    """When data set out to another executor."""
    links: Literal["none", "bus", "star"] = "none"
    """What transfers share, max-min fairly: one bus, or an uplink and a downlink of each executor; else each pair of
    executors has a channel of its own."""
    bandwidth: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: the transfer speed)")] = None
    """Units of data per second of each of these links."""
    tasks: bool = False
    """Nodes are stages of parallel tasks, each on an executor of its own, as in Spark; no agent may duplicate them."""
    moving_delay: Annotated[float, arg(metavar="S", help_behavior_hint="(default: 2, with --tasks)")] = 2.0
    """Seconds that an executor needs before it runs a task of another job than its last one."""
    mean_time_to_failure: Annotated[float | None, arg(metavar="S", help_behavior_hint="(default: none fail)")] = None
    """Executors fail at random, each after this time on average, in seconds."""
    mean_time_to_repair: Annotated[float | None, arg(metavar="S", help_behavior_hint="(with failures)")] = None
    """They are repaired after this time on average, in seconds."""
    until: Until = None
    """End the run at this time, in seconds."""


class DagSystem(SeededProblemSpec):
    """Each seed draws executors, jobs, sizes of data and submissions.

    HEFT, CPOP, PEFT and TDCA plan whole jobs: with --plan-ahead auto they may assign nodes before their parents have
    finished, and agents that can do without may not. To compare all on equal terms, say yes.
    """

    name = "dag"
    description = KIND.description
    default_agent = "rank-up-deft"
    options = DagOptions

    def instance(self, options: DagOptions) -> ProblemInstance:
        """Return what is simulated."""
        is_read = options.trace != GENERATED
        templates = _read(options.trace) if is_read else None
        usual: dict[str, Any] = (
            {"transfer_speed": BYTES_PER_SECOND} if is_read else {"jobs": 20, "ccr": 0.5, "transfer_speed": 1.0}
        )
        usual["transfers"] = "when_finished" if options.links == "none" else "when_assigned"
        known = replace(options, **{name: value for name, value in usual.items() if getattr(options, name) is None})
        known = replace(known, bandwidth=known.transfer_speed if options.bandwidth is None else options.bandwidth)
        stated = _stated_executors(options.trace) if is_read else None
        if stated is not None:
            known = replace(known, executors=stated.num_executors)
        jobs, executors = plugins.episode_workload(self.name)(
            generator(known.seed),
            executors=stated,
            num_jobs=known.jobs,
            num_executors=known.executors,
            mean_interval=known.mean_interval,
            ccr=known.ccr,
            transfer_speed=known.transfer_speed,
            templates=templates,
            task_times=known.tasks,
        )
        _cluster(jobs, executors, known, plan_ahead=False)  # so that unusable options are found here
        place = f"{known.executors:,} executors"
        return ProblemInstance(
            name=", ".join(Path(part.strip()).name for part in options.trace.split(",")),
            size=f"{len(jobs):,} jobs on {place}",
            place=place,
            options=known,
            kind=KIND,
            make=partial(cluster_for, jobs, executors, known),
            workload=jobs,
            steps=Steps("job_completion", "jobs", len(jobs)),
            until=math.inf if options.until is None else options.until,
            facts={
                "jobs": len(jobs),
                "nodes": sum(job.num_nodes for job in jobs),
                **({"tasks": sum(int(job.num_tasks.sum()) for job in jobs)} if known.tasks else {}),
                "executors": known.executors,
            },
        )

    def identity(self, options: DagOptions) -> dict[str, Any]:
        """Return what tells runs apart: a path stands for the content of its file."""
        files = [] if options.trace == GENERATED else options.trace.split(",")
        source = [Path(file.strip()) for file in files] or options.trace
        return asdict(options) | {"trace": source}


SYSTEM = DagSystem()


def _read(trace: str) -> list[Job]:
    provider = plugins.workload_provider("dag", trace)
    return [provider.read(part.strip()) for part in trace.split(",")]


def _stated_executors(trace: str) -> Executors | None:
    """Return the executors that files state, if any; of several files they must be the same."""
    provider = plugins.workload_provider("dag", trace)
    found = [provider.executors_of(part.strip()) for part in trace.split(",")]
    described = [None if executors is None else executors.describe() for executors in found]
    if any(other != described[0] for other in described):
        raise InvalidConfiguration(f"{trace}: the files state different executors")
    stated: Executors | None = found[0]
    return stated


def _cluster(jobs: Sequence[Job], executors: Executors, options: DagOptions, *, plan_ahead: bool) -> DagCluster:
    shared: dict[str, Any] = {
        "plan_ahead": plan_ahead,
        "transfers": options.transfers,
        "processes": failures(options.mean_time_to_failure, options.mean_time_to_repair),
    }
    if options.tasks:
        if options.links != "none":
            raise InvalidConfiguration(f"links is {options.links!r}, want 'none' with tasks: these do not share links")
        return TaskCluster(jobs, executors, moving_delay=options.moving_delay, **shared)
    return DagCluster(jobs, executors, links=_links(executors.num_executors, options), **shared)


def _links(count: int, options: DagOptions) -> SharedLinks | None:
    assert options.bandwidth is not None  # what is not given is the transfer speed
    if options.links == "none":
        return None
    if options.links == "bus":
        return SharedLinks.bus(count, options.bandwidth)
    return SharedLinks.star([options.bandwidth] * count)


def cluster_for(jobs: Sequence[Job], executors: Executors, options: DagOptions, agent: Agent) -> DagCluster:
    """Return the cluster in which an agent is asked.

    Parameters
    ----------
    jobs : sequence of Job
        What arrives.
    executors : Executors
        Where it runs.
    options : DagOptions
        How the cluster behaves; with ``plan_ahead="auto"`` the agent decides.
    agent : Agent
        Who is asked.

    Returns
    -------
    DagCluster
        To be simulated.
    """
    make = partial(_cluster, jobs, executors, options)
    if options.plan_ahead != "auto":
        return make(plan_ahead=options.plan_ahead == "yes")
    return make(plan_ahead=_refuses(agent, make(plan_ahead=False)))


def _refuses(agent: Agent, cluster: DagCluster) -> bool:
    """Tell whether an agent refuses a cluster; it is told again when the run begins."""
    reset = getattr(agent, "reset", None)
    if reset is None:
        return False
    try:
        reset(cluster.describe(), np.random.default_rng(0))
    except InvalidConfiguration:
        return True
    return False
