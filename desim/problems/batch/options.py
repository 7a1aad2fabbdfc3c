"""``batch`` on the command line: jobs of a log or of a model, cores, failures."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import arg

from desim import plugins
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import BatchCluster
from desim.problems.batch.kind import KIND
from desim.problems.batch.site_rules import limits_of_text, qos_of_text, reservations_of_text
from desim.scenario import ProblemInstance, SeededProblemSpec, Steps, failures

__all__ = [
    "SYSTEM",
    "BatchOptions",
    "BatchSystem",
    "MetricOptions",
    "SiteOptions",
    "SystemOptions",
    "WorkloadOptions",
    "cluster",
    "load_workload",
]


@dataclass(frozen=True)
class WorkloadOptions:
    """The jobs and the machine."""

    trace: Annotated[str, arg(metavar="FILE|lublin", aliases=["--workload"])] = "lublin"
    """A file (.swf, .swf.gz, Batsim .json, job table .csv or .parquet), or lublin: jobs generated from a seed."""
    cores: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: as the file states, else 256)")] = None
    """Cores of the machine."""
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: 10000, of a file all)")] = None
    """How many jobs to generate, or the most to read."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Seed of everything random: generated jobs, outages."""
    load: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: as it is)")] = None
    """Stretch the times between submissions so that the offered load is X, such as 0.9."""
    overestimate: Annotated[float, arg(metavar="X")] = 1.0
    """Generated jobs request between 1 and X times their actual run time."""
    nodes: Annotated[
        str | None, arg(metavar="FILE|COUNTxCORES,...|log", help_behavior_hint="(default: a row of cores)")
    ] = None
    """Nodes: .yaml or .csv, counts (18x80,26x12), or what the log tells. Job tables tell requests then."""


@dataclass(frozen=True)
class SystemOptions:
    """How the cluster behaves."""

    until: Annotated[float | None, arg(metavar="S", help_behavior_hint="(default: the last job)")] = None
    """End the run at this time, in seconds."""
    too_wide: Literal["error", "reject"] = "error"
    """What to do with a job that requests more cores than there are."""
    enforce_time_limit: Annotated[bool, arg(help_behavior_hint="(default: they are killed)")] = True
    """Let jobs run on beyond their requested time instead of killing them."""
    on_outage: Literal["requeue", "lose"] = "requeue"
    """What becomes of a job whose core fails."""
    mean_time_to_failure: Annotated[float | None, arg(metavar="S", help_behavior_hint="(default: none fail)")] = None
    """Cores fail at random, each after this time on average, in seconds."""
    mean_time_to_repair: Annotated[float | None, arg(metavar="S", help_behavior_hint="(with failures)")] = None
    """They are repaired after this time on average, in seconds."""
    cores_per_failure: Annotated[int, arg(metavar="N")] = 1
    """Cores that fail together, as those of a node; on --nodes, so many nodes."""
    placement: Annotated[str, arg(metavar="NAME")] = "first-fit"
    """Which nodes jobs get: first-fit, best-fit, worst-fit, dot-product or gpu-packing."""


@dataclass(frozen=True)
class SiteOptions:
    """What the site and its users do."""

    reservations: Annotated[
        str | None, arg(metavar="FILE|START:END:WHAT+...", help_behavior_hint="(default: none)")
    ] = None
    """Announced times, in seconds, in which so many cores are not for jobs; on nodes nodes=n1|n2, nodes=all or
    partition=gpu, with :users=3|4 but for their jobs."""
    limits: Annotated[str | None, arg(metavar="FILE|GROUPS:WHAT=NUMBER+...", help_behavior_hint="(default: none)")] = (
        None
    )
    """What jobs, users, queues may have: user:running_jobs=4:running_cores=64+queue=debug:job_time=600."""
    qos: Annotated[str | None, arg(metavar="FILE|NAME:WHAT=VALUE+...", help_behavior_hint="(default: none)")] = None
    """QOS, for agents preemptive-...: urgent:preempts=standby:scope=user:members=1+standby:mode=suspend."""
    over_time_limit: Annotated[float, arg(metavar="S")] = 0.0
    """Jobs may run for so long beyond their requested time before they are killed, in seconds."""
    checkpoint_interval: Annotated[float | None, arg(metavar="S", help_behavior_hint="(default: none)")] = None
    """Jobs that are cut go on from what they have saved every S seconds of work."""
    dependencies: Annotated[
        Literal["drop", "keep", "users", "sequential"] | None,
        arg(help_behavior_hint="(default: those of a job table are kept)"),
    ] = None
    """Submit jobs when others have ended: those that the log says (keep); or those of the same user, with think times,
    in sessions of batches (users) or of one job after the other (sequential)."""
    session_gap: Annotated[float, arg(metavar="S")] = 1_200.0
    """Of users: think times of more than S seconds end a session."""
    users: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: to nobody)")] = None
    """Deal generated jobs to N users at random."""
    moldable: Annotated[float | None, arg(metavar="SIGMA", help_behavior_hint="(default: jobs are rigid)")] = None
    """Let jobs run on 1/4 to 4 times their cores, by Downey's model; SIGMA is 0 for a linear speedup."""


@dataclass(frozen=True)
class MetricOptions:
    """What the metrics cover."""

    warm_up: Annotated[float, arg(metavar="S")] = 0.0
    """Leave out what happens in the first seconds after the first submission."""
    unfinished: Literal["exclude", "include"] = "exclude"
    """Whether jobs that have not finished count with their times so far."""


@dataclass(frozen=True)
class BatchOptions:
    """Jobs, machine, metrics."""

    workload: WorkloadOptions = field(default_factory=WorkloadOptions)
    system: SystemOptions = field(default_factory=SystemOptions)
    site: SiteOptions = field(default_factory=SiteOptions)
    metrics: MetricOptions = field(default_factory=MetricOptions)
    stream: bool = False
    """Take the jobs one by one from the file or generator, and keep records in files: for millions of jobs."""


class BatchSystem(SeededProblemSpec):
    """The jobs come from a log (--trace FILE), or are drawn from the Lublin-Feitelson model for each seed."""

    name = "batch"
    description = KIND.description
    default_agent = "easy-fcfs"
    options = BatchOptions

    def instance(self, options: BatchOptions) -> ProblemInstance:
        """Return what is simulated."""
        workload = load_workload(options.workload, options.site, stream=options.stream)
        cluster(workload, options.system, options.site)  # so that unusable options are found here
        report = workload.report
        known = replace(options.workload, cores=workload.num_cores)
        if report is None:
            known = replace(known, jobs=workload.num_jobs)
        jobs = "its jobs" if workload.num_jobs is None else f"{workload.num_jobs:,} jobs"
        nodes = getattr(workload, "nodes", ())
        place = f"{len(nodes):,} nodes, {workload.num_cores:,} cores" if nodes else f"{workload.num_cores:,} cores"
        return ProblemInstance(
            name=workload.name,
            size=f"{jobs} on {place}",
            place=place,
            options=replace(options, workload=known),
            kind=KIND,
            make=partial(_made, workload, options.system, options.site),
            workload=workload.jobs,
            is_drawn=report is None or options.system.mean_time_to_failure is not None,
            steps=Steps("completion", "jobs", workload.num_jobs),
            until=math.inf if options.system.until is None else options.system.until,
            facts={"cores": workload.num_cores} | ({"nodes": len(nodes)} if nodes else {}),
            report=report,
            is_streamed=options.stream,
            decided=_decided(workload, options.site),
        )

    def seed_of(self, options: BatchOptions) -> int:
        """Return the seed of workload and simulation."""
        return options.workload.seed

    def with_seed(self, options: BatchOptions, seed: int) -> BatchOptions:
        """Return the same options with another seed."""
        return replace(options, workload=replace(options.workload, seed=seed))

    def metric_options(self, options: BatchOptions) -> dict[str, Any]:
        """Return what the metrics cover."""
        return asdict(options.metrics)

    def identity(self, options: BatchOptions) -> dict[str, Any]:
        """Return what tells runs apart: a path stands for the content of its file."""
        trace = options.workload.trace
        is_drawn = trace in plugins.describe_workloads(self.name)
        workload = asdict(options.workload) | {"trace": trace if is_drawn else Path(trace)}
        system = asdict(options.system)
        nodes = workload.pop("nodes")
        if nodes is None:
            del system["placement"]  # as if there were no such option: stored runs remain known
        else:
            workload["nodes"] = Path(nodes) if Path(nodes).exists() else nodes
        plain = asdict(SiteOptions())
        site = {name: value for name, value in asdict(options.site).items() if value != plain[name]}
        site |= {name: Path(site[name]) for name in _FILES if name in site and Path(site[name]).exists()}
        return {"workload": workload, "system": system} | ({"site": site} if site else {})


_FILES = ("reservations", "limits", "qos")
"""Options of the site that may name a file."""

SYSTEM = BatchSystem()


def load_workload(
    options: WorkloadOptions, site: SiteOptions | None = None, *, stream: bool = False
) -> plugins.Workload:
    """Draw or read the jobs.

    Parameters
    ----------
    options : WorkloadOptions
        Which jobs.
    site : SiteOptions, optional
        Whether they come after others, and can run in several sizes.
    stream : bool
        Take them one by one while they are used.

    Returns
    -------
    Workload
        Its number of cores is known.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range, or the cores of the machine are not known.
    WorkloadError
        If there is no such file, it cannot be read, or its content is broken.
    """
    provider = plugins.workload_provider("batch", options.trace)
    machine: dict[str, Any] = {} if options.nodes is None else {"nodes": options.nodes}
    for name in ("dependencies", "moldable", "users", "session_gap"):
        if site is not None and getattr(site, name) != getattr(SiteOptions, name):
            machine[name] = getattr(site, name)
    workload: plugins.Workload = provider.load(
        options.trace,
        num_jobs=options.jobs,
        num_cores=options.cores,
        seed=options.seed,
        load=options.load,
        overestimate=options.overestimate,
        stream=stream,
        **machine,
    )
    if workload.num_cores is None:
        raise InvalidConfiguration(
            f"{options.trace} does not state the cores of the machine as a whole number: give them with --cores"
        )
    return workload


def cluster(workload: plugins.Workload, options: SystemOptions, site: SiteOptions | None = None) -> BatchCluster:
    """Return the cluster with its jobs.

    Parameters
    ----------
    workload : Workload
        Jobs and cores.
    options : SystemOptions
        Behaviour.
    site : SiteOptions, optional
        What the site does.

    Returns
    -------
    BatchCluster
        To be simulated.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range, or only one of the two times of outages is given.
    """
    assert workload.num_cores is not None
    site = SiteOptions() if site is None else site
    outages = failures(options.mean_time_to_failure, options.mean_time_to_repair, options.cores_per_failure)
    nodes = getattr(workload, "nodes", ())
    if not nodes and options.placement != SystemOptions.placement:
        raise InvalidConfiguration(
            f"placement is {options.placement}, but without --nodes there are none to choose from"
        )
    groups: dict[str, dict[int, str]] = dict(getattr(workload, "groups", {}))
    service: dict[str, Any] = {}
    if site.qos is not None:
        qos, groups["qos"] = qos_of_text(site.qos, groups, workload.jobs)
        service = {"qos": qos, "qos_of": groups["qos"]}
    return BatchCluster(
        workload.jobs,
        None if nodes else workload.num_cores,
        **({"nodes": nodes, "placement": options.placement} if nodes else {}),
        enforce_time_limit=options.enforce_time_limit,
        over_time_limit=site.over_time_limit,
        checkpoint_interval=site.checkpoint_interval,
        dependencies=getattr(workload, "dependencies", None),
        limits=() if site.limits is None else limits_of_text(site.limits, groups),
        reservations=() if site.reservations is None else reservations_of_text(site.reservations, _user_ids(workload)),
        **service,
        too_wide=options.too_wide,
        on_outage=options.on_outage,
        processes=outages,
    )


def _user_ids(workload: plugins.Workload) -> dict[str, int]:
    """Return the ids of users that have names."""
    names = getattr(workload, "groups", {}).get("user") or {}
    return {names[job.job_id]: job.user_id for job in workload.jobs if job.job_id in names} if names else {}


def _made(workload: plugins.Workload, options: SystemOptions, site: SiteOptions, agent: Agent) -> BatchCluster:
    return cluster(workload, options, site)


def _decided(workload: plugins.Workload, site: SiteOptions) -> tuple[str, ...]:
    """Return what of the jobs depends on who decides: when some are submitted, in which size others run."""
    times = ("submission_time",) if getattr(workload, "dependencies", None) else ()
    sizes = ("requested_number_of_resources", "requested_time", "run_time") if site.moldable is not None else ()
    return times + sizes
