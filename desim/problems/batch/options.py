"""Options of ``batch`` on the command line: workload, cluster, site policies and metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from tyro.conf import arg

from desim import plugins
from desim.checks import MOST_CORES, check_int
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.formatting import how_many
from desim.problem import Metric
from desim.problems.batch import BatchCluster, Workload
from desim.problems.batch.cycles import parse_cycle
from desim.problems.batch.fidelity import wait_metrics
from desim.problems.batch.kind import KIND
from desim.problems.batch.parts import gathered, has_dependencies
from desim.problems.batch.windows import sampled, seconds_of
from desim.reading import limits
from desim.scenario import (
    Duration,
    MaybeDuration,
    ProblemInstance,
    SeededProblemSpec,
    Steps,
    cited,
    failures,
    identifying,
)

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


#: Mean number of failures during a job, above which less than one attempt in 10^13 succeeds.
MOST_FAILURES = 30.0


@dataclass(frozen=True)
class WorkloadOptions:
    """Workload and machine."""

    trace: Annotated[str, arg(metavar="FILE|NAME|lublin", aliases=["--workload"])] = "lublin"
    """Workload file (.swf, .swf.gz, Batsim .json, job table .csv or .parquet), name of a fetched log such as KTH-SP2,
    or lublin to generate jobs."""
    cores: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: stated in the file, else 256)")] = None
    """Number of cores of the machine."""
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: 10000, or the whole file)")] = None
    """Number of jobs to generate, or maximum number to read."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Random seed of generated jobs and outages."""
    load: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: unchanged)")] = None
    """Offered load to reach, e.g. 0.9."""
    load_by: Literal["time", "thinning"] = "time"
    """How to reach it: by scaling the times between submissions, or by leaving out jobs at random, by the seed."""
    overestimate: Annotated[float, arg(metavar="X")] = 1.0
    """Largest ratio of requested to actual run time of generated jobs, sampled from 1 to X."""
    nodes: Annotated[
        str | None, arg(metavar="FILE|COUNTxCORES,...|log", help_behavior_hint="(default: cores without nodes)")
    ] = None
    """Nodes: a .yaml or .csv file, counts (18x80,26x12), or log to use those in the log. Job tables then state
    requests."""
    attributes: Annotated[str | None, arg(metavar="NAME,...", help_behavior_hint="(default: none)")] = None
    """Further columns of a job table, or fields of a log (requested_memory, group, executable), to keep as attributes
    of jobs: limits can group jobs by them, agents see them, and results contain them."""
    columns: Annotated[str | None, arg(metavar="NAME=COLUMN,...", help_behavior_hint="(default: known names)")] = None
    """Columns of a job table by what they hold, e.g. run_time=Elapsed,requested_cores=NCPUS."""
    unknown_profile: Literal["error", "drop"] = "error"
    """What happens to jobs of a Batsim workload that have no known run time."""
    strict: bool = False
    """Refuse a file of which a row must be dropped or changed, instead of repairing and counting it."""
    max_size: Annotated[str | None, arg(metavar="BYTES", help_behavior_hint="(default: 1GiB, 200 times packed)")] = None
    """Largest size of a file when it is unpacked, such as 8GiB: for large files that you trust."""


@dataclass(frozen=True)
class WindowOptions:
    """Windows of the workload: simulated one by one, and paired in comparisons."""

    split: Annotated[str | None, arg(metavar="LENGTH", help_behavior_hint="(default: the whole workload)")] = None
    """Length of the windows into which the workload is cut, such as 7d, 12h or 2000jobs."""
    sample: Annotated[str | None, arg(metavar="COUNTxLENGTH", help_behavior_hint="(default: the whole workload)")] = (
        None
    )
    """Number and length of windows at random places, such as 20x2000jobs or 40x7d; the seed determines the places."""
    window: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: all are compared)")] = None
    """Number of the only window to simulate, from 0."""


@dataclass(frozen=True)
class SystemOptions:
    """Behaviour of the cluster."""

    until: Annotated[MaybeDuration, arg(help_behavior_hint="(default: end of the last job)")] = None
    """Time at which the run ends, in seconds."""
    too_wide: Literal["error", "reject"] = "error"
    """What happens to a job that requests more cores than the cluster has."""
    enforce_time_limit: Annotated[bool, arg(help_behavior_hint="(default: they are killed)")] = True
    """Allow jobs to run beyond their requested time instead of killing them."""
    on_outage: Literal["requeue", "lose"] = "requeue"
    """What happens to a running job when one of its cores fails."""
    mean_time_to_failure: Annotated[MaybeDuration, arg(help_behavior_hint="(default: no failures)")] = None
    """Mean time to a random failure of each core, in seconds."""
    mean_time_to_repair: Annotated[MaybeDuration, arg(help_behavior_hint="(required for failures)")] = None
    """Mean time to repair, in seconds."""
    failure_unit: Annotated[Literal["core", "node"] | int, arg(metavar="core|node|N")] = 1
    """What fails as a whole: a core; with --nodes, a node; or N of them, e.g. the cores of a node."""
    cycle: Annotated[str, arg(metavar="instant|arrival|event|S|30m")] = "instant"
    """When agents are asked: once for each instant, for each arrival, after each event, or every S seconds."""
    predictor: Annotated[str, arg(metavar="request|user-average|oracle")] = "request"
    """What plans expect as run times: the requests, the mean of the user's last two jobs, or the actual run times."""
    placement: Annotated[str, arg(metavar="NAME")] = "first-fit"
    """Placement policy on nodes: first-fit, best-fit, worst-fit, dot-product or gpu-packing."""


@dataclass(frozen=True)
class UserOptions:
    """Behaviour of users."""

    over_time_limit: Duration = 0.0
    """Seconds that a job may exceed its requested time before it is killed."""
    users: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: no user ids)")] = None
    """Number of users to whom generated jobs are assigned at random."""
    moldable: Annotated[float | None, arg(metavar="SIGMA", help_behavior_hint="(default: rigid jobs)")] = None
    """Variance of parallelism in Downey's speedup model, by which jobs run on 1/4 to 4 times their cores; 0 is a
    linear speedup."""


@dataclass(frozen=True)
class SiteOptions(UserOptions, *reversed(gathered("Options", "options"))):  # type: ignore[misc]  # those of each feature
    """Policies of the site and behaviour of its users."""


@dataclass(frozen=True)
class MetricOptions:
    """Scope of the metrics."""

    warm_up: Annotated[float | str, arg(metavar="LENGTH")] = 0.0
    """Time after the first submission that metrics exclude: seconds, or a text such as 12h or 1d. With --split or
    --sample, time or jobs (500jobs) before each window that are simulated as well."""
    cool_down: Annotated[float | str, arg(metavar="LENGTH")] = 0.0
    """Time before the end of the run that metrics exclude, or what is simulated behind each window."""
    unfinished: Literal["exclude", "include"] = "exclude"
    """Whether jobs that have not finished count with their times so far."""
    recorded_waits: bool = False
    """Compare waits with those that the log recorded: metrics such as wait_near, for each agent."""


@dataclass(frozen=True)
class BatchOptions:
    """Workload, cluster, site policies and metrics."""

    workload: WorkloadOptions = field(default_factory=WorkloadOptions)
    windows: WindowOptions = field(default_factory=WindowOptions)
    system: SystemOptions = field(default_factory=SystemOptions)
    site: SiteOptions = field(default_factory=SiteOptions)
    metrics: MetricOptions = field(default_factory=MetricOptions)
    stream: bool = False
    """Read or generate the jobs one by one and write records to files, for millions of jobs."""


class BatchSystem(SeededProblemSpec):
    """Jobs from a log (--trace FILE), or sampled from the Lublin-Feitelson model for each seed."""

    name = "batch"
    description = KIND.description
    default_agent = "easy-fcfs"
    options = BatchOptions

    def instance(self, options: BatchOptions) -> ProblemInstance:
        """Return the instance to simulate."""
        workload: Any = load_workload(options.workload, options.site, stream=options.stream)
        whole = self._instance(options, workload)
        if options.windows == WindowOptions():
            return whole
        windows = _windows(options, workload)

        def window_of(number: int) -> ProblemInstance:
            """Return the instance of a window."""
            jobs = windows[check_int("window", number, least=0, most=len(windows) - 1)]
            name = f"{workload.name}, window {number}"
            part = replace(workload, name=name, jobs=jobs, num_jobs=len(jobs))
            return replace(self._instance(options, part), window=number)

        if options.windows.window is not None:
            return window_of(options.windows.window)
        length = options.windows.split or sampled(str(options.windows.sample))[1]
        size = f"{whole.size}; {how_many(len(windows), 'window')} of {length}"
        return replace(whole, size=size, num_windows=len(windows), window_of=window_of)

    def _instance(self, options: BatchOptions, workload: plugins.LoadedWorkload) -> ProblemInstance:
        problem = cluster(workload, options.system, options.site)
        if options.metrics.recorded_waits:
            problem.own_metrics = _wait_metrics(workload, options)
        assert workload.num_cores is not None, "load_workload refuses a machine of unknown size"
        report = workload.report
        known = replace(options.workload, cores=workload.num_cores)
        if report is None:
            known = replace(known, jobs=workload.num_jobs)
        jobs = "its jobs" if workload.num_jobs is None else how_many(workload.num_jobs, "job")
        nodes = getattr(workload, "nodes", ())
        cores = how_many(workload.num_cores, "core")
        place = f"{how_many(len(nodes), 'node')}, {cores}" if nodes else cores
        return ProblemInstance(
            name=workload.name,
            size=f"{jobs} on {place}",
            place=place,
            options=replace(options, workload=known),
            kind=KIND.with_metrics(problem.own_metrics),
            make=partial(_for_run, problem),
            workload=workload.jobs,
            is_drawn=report is None
            or options.system.mean_time_to_failure is not None
            or options.workload.load_by == "thinning",
            steps=Steps("completion", "jobs", workload.num_jobs),
            until=math.inf if options.system.until is None else options.system.until,
            facts={"cores": workload.num_cores}
            | ({"cores_stated": stated} if (stated := getattr(workload, "cores_stated", "")) else {})
            | ({"nodes": len(nodes)} if nodes else {})
            | cited(known.trace),
            report=report,
            is_streamed=options.stream,
            decided=_decided(workload, options.site),
        )

    def seed_of(self, options: BatchOptions) -> int:
        """Return the seed of workload and simulation."""
        return options.workload.seed

    def with_seed(self, options: BatchOptions, seed: int) -> BatchOptions:
        """Return a copy of the options with another seed."""
        return replace(options, workload=replace(options.workload, seed=seed))

    def metric_options(self, options: BatchOptions) -> dict[str, Any]:
        """Return the options of the metrics; what is measured in a window, its run knows itself."""
        found = asdict(options.metrics)
        del found["recorded_waits"]  # they are metrics that the problem names
        for name in ("warm_up", "cool_down"):
            value = found.pop(name)
            if options.windows == WindowOptions():
                found[name] = seconds_of(name, value)
        return found

    def identity(self, options: BatchOptions) -> dict[str, Any]:
        """Return the values that identify a run; a path stands for the content of its file."""
        trace = options.workload.trace
        located = plugins.catalogue().located
        is_drawn = trace in plugins.describe_workloads(self.name)
        workload = identifying(options.workload, ("attributes", "columns", "unknown_profile", "strict", "load_by"))
        workload["trace"] = trace if is_drawn else Path(located(trace))
        del workload["max_size"]  # decides whether a file is read, and not what it holds
        system = identifying(options.system, ["predictor"])
        if system["cycle"] == "arrival":
            del system["cycle"]  # as in runs from before the option, in which it was the only cycle
        nodes = workload.pop("nodes")
        if nodes is None:
            del system["placement"]  # has no effect without nodes, and stored runs keep their identity
        else:
            workload["nodes"] = Path(nodes) if Path(nodes).exists() else nodes
        site = identifying(options.site, asdict(options.site))
        files = gathered("FILES", "options")  # options that may be the name of a file
        site |= {name: Path(site[name]) for name in files if name in site and Path(site[name]).exists()}
        found: dict[str, Any] = {"workload": workload, "system": system} | ({"site": site} if site else {})
        if options.metrics.recorded_waits:
            found["recorded_waits"] = True
        if options.windows != WindowOptions():
            around = {"warm_up": options.metrics.warm_up, "cool_down": options.metrics.cool_down}
            found["windows"] = asdict(options.windows) | around
        return found


SYSTEM = BatchSystem()


def load_workload(
    options: WorkloadOptions, site: SiteOptions | None = None, *, stream: bool = False
) -> plugins.LoadedWorkload:
    """Return the workload that the options describe, generated or read.

    Parameters
    ----------
    options : WorkloadOptions
        Options of the workload.
    site : SiteOptions, optional
        Options of the site that concern jobs: dependencies, users and sizes.
    stream : bool
        Whether to generate or read jobs one by one during the run.

    Returns
    -------
    LoadedWorkload
        Workload with a known number of cores.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range, or the number of cores of the machine is unknown.
    WorkloadError
        If the file does not exist, cannot be read, or has invalid content.
    """
    for name in ("strict", "max_size") if options.trace == WorkloadOptions.trace else ():
        if getattr(options, name):
            raise InvalidConfiguration(f"--{name.replace('_', '-')}: has no effect without --trace FILE")
    provider = plugins.workload_provider("batch", options.trace)
    further: list[tuple[Any, str]] = [(options, name) for name in _OF_READERS]
    further += [(site or SiteOptions(), name) for name in ("moldable", "users", *gathered("OF_WORKLOAD", "options"))]
    given = {name: getattr(of, name) for of, name in further if getattr(of, name) != getattr(type(of), name)}
    given |= {name: read(given[name]) for name, read in _TEXTS.items() if name in given}
    with limits(options.max_size):
        workload: plugins.LoadedWorkload = provider.load(
            options.trace,
            num_jobs=options.jobs,
            num_cores=options.cores,
            seed=options.seed,
            load=options.load,
            overestimate=options.overestimate,
            stream=stream,
            **given,
        )
    if workload.num_cores is None:
        raise InvalidConfiguration(
            f"cores: unknown, because {options.trace} does not state them as an integer{_ambiguous(workload)}; give "
            "--cores N"
        )
    return workload


def _ambiguous(workload: plugins.LoadedWorkload) -> str:
    """Return the entry of the file that may mean a number of cores, for a message."""
    stated = getattr(workload, "cores_stated", "")
    return f" ({stated})" if stated else ""


def _names(text: str) -> tuple[str, ...]:
    """Return the names in a text, separated by commas."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def _pairs(text: str) -> dict[str, str]:
    """Return the columns by what they hold."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    found = {name.strip(): column.strip() for name, _, column in pairs}
    if not found or len(found) < len(pairs) or not all(name and column for name, column in found.items()):
        raise InvalidConfiguration(f"--columns: got {text!r}, expected NAME=COLUMN,..., each name once")
    return found


_TEXTS: Mapping[str, Callable[[str], Any]] = {"attributes": _names, "columns": _pairs}
_OF_READERS = ("nodes", *_TEXTS, "unknown_profile", "strict", "load_by")
"""Options that a provider of workloads gets only if they are given."""


def cluster(workload: plugins.LoadedWorkload, options: SystemOptions, site: SiteOptions | None = None) -> BatchCluster:
    """Return the cluster with its jobs.

    Parameters
    ----------
    workload : Workload
        Jobs, number of cores, and nodes if there are any.
    options : SystemOptions
        Options of the cluster.
    site : SiteOptions, optional
        Options of the site.

    Returns
    -------
    BatchCluster
        Problem to simulate.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range, or only one of the two mean times of outages is given.
    """
    assert workload.num_cores is not None
    site = SiteOptions() if site is None else site
    outages = failures(options.mean_time_to_failure, options.mean_time_to_repair, options.failure_unit)
    nodes = getattr(workload, "nodes", ())
    if not nodes and options.placement != SystemOptions.placement:
        raise InvalidConfiguration(f"placement: got {options.placement!r} without nodes; give --nodes as well")
    arguments: dict[str, Any] = {"jobs": workload.jobs}
    for settings in reversed(gathered("settings", "options")):  # QOS levels before limits, which may be by QOS
        arguments |= settings(site, workload, arguments["jobs"])
    found = BatchCluster(
        num_cores=None if nodes else workload.num_cores,
        **({"nodes": nodes, "placement": options.placement} if nodes else {}),
        **arguments,
        enforce_time_limit=options.enforce_time_limit,
        over_time_limit=site.over_time_limit,
        too_wide=options.too_wide,
        on_outage=options.on_outage,
        cycle=parse_cycle(options.cycle),
        predictor=options.predictor,
        processes=outages,
    )
    if not outages and options.on_outage != SystemOptions.on_outage:
        raise InvalidConfiguration(
            f"--on-outage: got {options.on_outage}, but it has no effect without --mean-time-to-failure"
        )
    if (
        outages
        and options.until is None
        and options.on_outage == "requeue"
        and arguments.get("checkpoint_interval") is None
    ):
        _check_that_jobs_can_end(found.jobs, options)
    if not outages and not arguments.get("qos") and arguments.get("checkpoint_interval") is not None:
        raise InvalidConfiguration(
            "--checkpoint-interval: has no effect if nothing interrupts jobs; give --mean-time-to-failure or --qos"
        )
    return found


def _wait_metrics(workload: plugins.LoadedWorkload, options: BatchOptions) -> tuple[Metric, ...]:
    """Return metrics of waits beside those of the log, which must be simulated as it is."""
    changes = options.workload.load, options.site.moldable, options.site.dependencies, options.stream or None
    if not isinstance(workload.jobs, Workload) or changes not in ((None,) * 4, (None, None, "drop", None)):
        raise InvalidConfiguration(
            f"--recorded-waits: got {workload.name}, expected a log with --trace FILE that is simulated as it is: "
            "without --stream, --load, --moldable, --dependencies"
        )
    if options.windows != WindowOptions():
        return wait_metrics(workload.jobs)
    around = {name: seconds_of(name, getattr(options.metrics, name)) for name in ("warm_up", "cool_down")}
    return wait_metrics(workload.jobs, **around)


def _check_that_jobs_can_end(jobs: Any, options: SystemOptions) -> None:
    """Raise if a job is so long that it would be requeued without end."""
    if not isinstance(jobs, Sequence) or not jobs:
        return
    workload = Workload.of(jobs)
    duration = workload["run_time"]
    if options.enforce_time_limit:
        duration = np.minimum(duration, workload["requested_time"])
    size = options.failure_unit if isinstance(options.failure_unit, int) else MOST_CORES  # a job has at least one node
    failures = duration * np.ceil(workload["requested_cores"] / size) / options.mean_time_to_failure
    if failures.max() > MOST_FAILURES:
        row = int(failures.argmax())
        raise InvalidConfiguration(
            f"--mean-time-to-failure: got {options.mean_time_to_failure:g}, with which job {workload['job_id'][row]} "
            f"({duration[row]:g} s on {workload['requested_cores'][row]} cores) meets {failures[row]:.3g} failures "
            "and be requeued without end; try a longer time, --checkpoint-interval, --on-outage lose or --until"
        )


def _windows(options: BatchOptions, workload: plugins.LoadedWorkload) -> list[Workload]:
    """Return the windows that the options ask for."""
    split, sample = options.windows.split, options.windows.sample
    if (split is None) == (sample is None):
        given = "neither split nor sample" if split is None else f"split {split} and sample {sample}"
        raise InvalidConfiguration(
            f"windows: got {given}, expected one of them, such as split 7d or sample 20x2000jobs"
        )
    for name, value in {
        "stream": options.stream or None,
        "until": options.system.until,
        "reservations": options.site.reservations,
    }.items():
        if value is not None:
            raise InvalidConfiguration(
                f"{name}: got {value}, but in a window time 0 is the begin of its warm-up, and all jobs are known"
            )
    count, length = (None, split) if split is not None else sampled(str(sample))
    return Workload.of(workload.jobs).windows(
        str(length),
        sample=count,
        seed=options.workload.seed,
        warm_up=options.metrics.warm_up,
        cool_down=options.metrics.cool_down,
    )


def _for_run(problem: BatchCluster, agent: Agent) -> BatchCluster:
    """Return a copy with separate listeners; a new cluster would walk through all jobs again."""
    problem = copy(problem)
    problem.listeners = {event: [] for event in problem.events}
    return problem


def _decided(workload: plugins.LoadedWorkload, site: SiteOptions) -> tuple[str, ...]:
    """Return the job columns that depend on the agent: submission times with dependencies, sizes of moldable jobs."""
    depends = isinstance(workload.jobs, Sequence) and has_dependencies(workload.jobs)
    times = ("submission_time",) if depends else ()
    sizes = ("requested_number_of_resources", "requested_time", "run_time") if site.moldable is not None else ()
    return times + sizes
