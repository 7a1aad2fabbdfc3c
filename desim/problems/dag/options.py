"""Command-line options of the problem ``dag``: generated queries like TPC-H, or recorded workflows, on executors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import arg

from desim import plugins
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.formatting import how_many
from desim.problems.dag import DagCluster, Executors, Job, SharedLinks, TaskCluster
from desim.problems.dag.kind import KIND
from desim.reading import limits
from desim.scenario import (
    Duration,
    MaybeDuration,
    ProblemInstance,
    Seed,
    SeededProblemSpec,
    Steps,
    cited,
    failures,
    generator,
    identifying,
)

__all__ = ["SYSTEM", "DagOptions", "DagSystem"]

GENERATED = "tpch"
#: Transfer speed for workflow files, whose data sizes are in bytes: 1 Gbit/s.
BYTES_PER_SECOND = 1.25e8


@dataclass(frozen=True)
class DagOptions:
    """Options for the jobs and executors of a DAG problem."""

    trace: Annotated[str, arg(metavar="FILE,...|NAME,...|tpch", aliases=["--workload"])] = GENERATED
    """Workflow files (WfFormat .json, Pegasus .dax, .xml or .yml), job shops (.jsp), projects (.sm, .mm, .rcp),
    Alibaba's batch_task.csv of 2018, names of fetched workflows such as Montage, or tpch for generated queries like
    those of TPC-H."""
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: 20; files: each once)")] = None
    """Number of jobs, sampled from the queries or files."""
    allow_disconnected: bool = True
    """Read workflows of several components, too."""
    default_run_time: Annotated[MaybeDuration, arg(help_behavior_hint="(default: refused)")] = None
    """Run time in seconds of tasks for which a workflow file states none; those of Pegasus 5 state none."""
    default_size: Annotated[float | None, arg(metavar="BYTES", help_behavior_hint="(default: refused)")] = None
    """Size of files between tasks for which a workflow file states none."""
    demands: Annotated[str | None, arg(metavar="RESOURCE,...", help_behavior_hint="(default: none)")] = None
    """What tasks take of a pool while they run, as WfFormat (memory in bytes) and Alibaba's trace (memory in percent of
    a machine) state it: cores, memory, or both. Pools are the machines of a WfFormat file, or have the given
    capacity."""
    capacity: Annotated[str | None, arg(metavar="RESOURCE=X,...", help_behavior_hint="(default: no pools)")] = None
    """Amounts of each generated executor, such as cores=96,memory=100; it then runs several tasks at once."""
    strict: bool = False
    """Refuse a workflow file of which something must be changed, instead of repairing and counting it."""
    max_size: Annotated[str | None, arg(metavar="BYTES", help_behavior_hint="(default: 1GiB, 200 times packed)")] = None
    """Largest size of a file when it is unpacked, such as 8GiB: for large files that you trust."""
    executors: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: 10, or those a file states)")] = (
        None
    )
    """Number of executors, with random speeds of 2.1 to 3.6 GHz as in LACHESIS."""
    mean_interval: Duration = 0.0
    """Mean time between submissions in seconds (Poisson process); 0 submits all jobs at time 0."""
    ccr: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: .5; files: as they state)")] = None
    """Communication-to-computation ratio to which data sizes are generated: mean transfer time between two executors,
    divided by mean run time on the executors (for tpch at transfer speed 1: run time at 2.85 GHz, as in LACHESIS)."""
    transfer_speed: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: 1; files: 1.25e8)")] = None
    """Units of data per second between two executors (bytes per second for files); refused if files state executors."""
    seed: Seed = 0
    """Seed of all random numbers: executors, jobs, data sizes, submissions, outages."""
    plan_ahead: Literal["auto", "yes", "no"] = "auto"
    """Whether nodes may be assigned before their parents finish; auto: as the agent decides."""
    transfers: Annotated[
        Literal["when_finished", "when_assigned"] | None,
        arg(help_behavior_hint="(default: when_finished; with links, when_assigned)"),
    ] = None
    """Time at which data transfers to other executors begin: when the parent finishes, or when the node is assigned."""
    links: Literal["none", "bus", "star"] = "none"
    """Links that transfers share max-min fairly: one bus, or a star with an uplink and a downlink per executor; none:
    each pair of executors has its own channel."""
    bandwidth: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: the transfer speed)")] = None
    """Bandwidth of each of these links, in units of data per second."""
    tasks: bool = False
    """Split nodes into parallel tasks, each on its own executor, as in Spark; nodes cannot be duplicated then."""
    moving_delay: Annotated[Duration, arg(help_behavior_hint="(default: 2, with --tasks)")] = 2.0
    """Delay in seconds before an executor starts a task of a different job than its last one."""
    mean_time_to_failure: Annotated[MaybeDuration, arg(help_behavior_hint="(default: no failures)")] = None
    """Mean time until an executor fails, in seconds; each executor fails at random."""
    mean_time_to_repair: Annotated[MaybeDuration, arg(help_behavior_hint="(with failures)")] = None
    """Mean time to repair of an executor, in seconds."""
    outages_lose_data: bool = True
    """Lose the results that an executor holds when it fails."""
    until: Annotated[MaybeDuration, arg(help_behavior_hint="(default: the end of the workload)")] = None
    """Time at which the run ends, in seconds."""


#: Options of the readers of workflow files.
_OF_READERS = ("allow_disconnected", "default_run_time", "default_size", "demands", "strict")


class DagSystem(SeededProblemSpec):
    """Random DAG problem: each seed generates executors, jobs, data sizes and submissions.

    Agents that plan whole jobs, such as HEFT, may assign nodes before their parents finish, while other agents may not.
    Use --plan-ahead yes to compare all agents on equal terms.
    """

    name = "dag"
    description = KIND.description
    default_agent = "rank-up-deft"
    options = DagOptions

    def instance(self, options: DagOptions) -> ProblemInstance:
        """Return the problem instance to simulate."""
        if options.links == "none" and options.bandwidth is not None:
            raise InvalidConfiguration("--bandwidth: has no effect without --links bus or --links star")
        if not options.tasks and options.moving_delay != DagOptions.moving_delay:
            raise InvalidConfiguration("--moving-delay: has no effect without --tasks")
        is_read = options.trace != GENERATED
        for name in () if is_read else (*_OF_READERS, "capacity", "max_size"):
            if getattr(options, name) != getattr(DagOptions, name):
                text = name.replace("_", "-")
                raise InvalidConfiguration(
                    f"--{'no-' if name == 'allow_disconnected' else ''}{text}: has no effect without workflow files"
                )
        with limits(options.max_size):
            templates, report = _read(options) if is_read else (None, None)
            stated = _executors_of(options.trace, "executors_of") if is_read else None
            is_fixed = stated is not None
            if stated is None and options.demands is not None and options.capacity is None:
                speed = options.transfer_speed or BYTES_PER_SECOND
                stated = _executors_of(options.trace, "machines_of", speed)
        usual: dict[str, Any] = (
            {"transfer_speed": BYTES_PER_SECOND} if is_read else {"jobs": 20, "ccr": 0.5, "transfer_speed": 1.0}
        )
        usual["transfers"] = "when_finished" if options.links == "none" else "when_assigned"
        known = replace(options, **{name: value for name, value in usual.items() if getattr(options, name) is None})
        if options.links != "none" and options.bandwidth is None:
            known = replace(known, bandwidth=known.transfer_speed)
        if is_fixed and options.transfer_speed not in (None, BYTES_PER_SECOND):
            raise InvalidConfiguration(
                f"--transfer-speed: got {options.transfer_speed}, but {options.trace} states executors and transfer "
                "speeds; try without it"
            )
        if stated is not None and options.executors not in (None, stated.num_executors):
            raise InvalidConfiguration(
                f"--executors: got {options.executors}, but {options.trace} states its {stated.num_executors} executors"
            )
        capacity = _capacity(options, templates or (), stated)
        if known.executors is None:
            known = replace(known, executors=10 if stated is None else stated.num_executors)
        assert known.executors is not None
        jobs, executors = plugins.episode_workload(self.name)(
            generator(known.seed),
            executors=stated,
            capacity=capacity,
            num_jobs=known.jobs,
            num_executors=known.executors,
            mean_interval=known.mean_interval,
            ccr=known.ccr,
            transfer_speed=known.transfer_speed,
            templates=templates,
            task_times=known.tasks,
        )
        if len(jobs) == 1 and known.mean_interval:
            raise InvalidConfiguration("--mean-interval: has no effect, because there is only one job")
        _cluster(jobs, executors, known)  # reports unusable options early
        place = how_many(known.executors, "executor")
        return ProblemInstance(
            name=", ".join(Path(part.strip()).name for part in options.trace.split(",")),
            size=f"{how_many(len(jobs), 'job')} on {place}",
            place=place,
            options=known,
            kind=KIND,
            make=partial(_cluster, jobs, executors, known),
            workload=jobs,
            steps=Steps("job_completion", "jobs", len(jobs)),
            until=math.inf if options.until is None else options.until,
            facts={
                "jobs": len(jobs),
                "nodes": sum(job.num_nodes for job in jobs),
                **({"tasks": sum(int(job.num_tasks.sum()) for job in jobs)} if known.tasks else {}),
                "executors": known.executors,
                **cited(options.trace),
            },
            report=report,
        )

    def identity(self, options: DagOptions) -> dict[str, Any]:
        """Return the values that identify a run: a path stands for the content of its file."""
        files = [] if options.trace == GENERATED else options.trace.split(",")
        source = [Path(plugins.catalogue().located(file.strip())) for file in files] or options.trace
        found = identifying(options, (*_OF_READERS, "capacity", "outages_lose_data")) | {"trace": source}
        del found["max_size"]  # decides whether a file is read, and not what it holds
        return found


SYSTEM = DagSystem()


def _read(options: DagOptions) -> tuple[list[Job], plugins.RepairReport | None]:
    """Return the jobs of files, and the report of their readers if it counts anything."""
    provider = _provider(options.trace)
    report = provider.WorkflowReport()
    known = {name: getattr(options, name) for name in _OF_READERS}
    given = {name: value for name, value in known.items() if value != getattr(DagOptions, name)}
    if options.demands is not None:
        given["demands"] = [part.strip() for part in options.demands.split(",")]
    parts = [part.strip() for part in options.trace.split(",")]
    jobs = [job for part in parts for job in provider.read_all(part, report=report, **given)]
    return jobs, report if report.counts else None


def _provider(trace: str) -> Any:
    """Return the module that reads files, by the name of the first."""
    return plugins.workload_provider("dag", Path(trace.partition(",")[0].strip()).name)


def _capacity(options: DagOptions, jobs: Sequence[Job], stated: Executors | None) -> dict[str, float] | None:
    """Return the amounts of generated executors, if given; tasks with demands, and only they, need pools."""
    capacity = None if options.capacity is None else _amounts(options.capacity)
    demands = any(job.demands or job.modes for job in jobs)
    if capacity is not None and stated is not None:
        raise InvalidConfiguration(f"--capacity: {options.trace} states executors; try without it")
    if capacity is not None and not demands:
        raise InvalidConfiguration("--capacity: has no effect, because no task has demands; try --demands")
    if capacity is None and demands and not (stated and stated.resources):
        raise InvalidConfiguration(
            f"--demands: got {options.demands}, but {options.trace} states no pools; try --capacity, such as "
            "cores=96,memory=100"
        )
    return capacity


def _amounts(text: str) -> dict[str, float]:
    """Return amounts by resource from a text such as ``cores=96,memory=100``."""
    found = {}
    for part in text.split(","):
        name, sign, amount = (piece.strip() for piece in part.partition("="))
        try:
            found[name] = float(amount)
        except ValueError:
            sign = ""
        if not (name and sign):
            raise InvalidConfiguration(f"--capacity: got {part!r}, expected a resource and an amount, such as cores=96")
    return found


def _executors_of(trace: str, reader: str, *arguments: float) -> Executors | None:
    """Return the executors or machines stated in the files, if any; all files must state the same ones."""
    read = getattr(_provider(trace), reader)
    found = [read(part.strip(), *arguments) for part in trace.split(",")]
    described = [None if executors is None else executors.describe() for executors in found]
    if any(other != described[0] for other in described):
        raise InvalidConfiguration(f"trace: {trace}: the files state different executors, expected the same in each")
    stated: Executors | None = found[0]
    return stated


def _cluster(jobs: Sequence[Job], executors: Executors, options: DagOptions, agent: Agent | None = None) -> DagCluster:
    shared: dict[str, Any] = {
        "plan_ahead": {"auto": None, "yes": True, "no": False}[options.plan_ahead],
        "transfers": options.transfers,
        "outages_lose_data": options.outages_lose_data,
        "processes": failures(options.mean_time_to_failure, options.mean_time_to_repair),
    }
    if not options.outages_lose_data and not shared["processes"]:
        raise InvalidConfiguration("--no-outages-lose-data: has no effect without --mean-time-to-failure")
    if options.tasks:
        if options.links != "none":
            raise InvalidConfiguration(f"links: got {options.links!r}, expected 'none' with tasks")
        return TaskCluster(jobs, executors, moving_delay=options.moving_delay, **shared)
    return DagCluster(jobs, executors, links=_links(executors.num_executors, options), **shared)


def _links(count: int, options: DagOptions) -> SharedLinks | None:
    if options.links == "none":
        return None
    assert options.bandwidth is not None  # instance() sets the default
    if options.links == "bus":
        return SharedLinks.bus(count, options.bandwidth)
    return SharedLinks.star([options.bandwidth] * count)
