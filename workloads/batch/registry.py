"""Batch workloads by name or file, for the command line, sweeps and environments."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.checks import MOST_CORES, MOST_ITEMS, check_choice, check_int, did_you_mean
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import Job, Node, Workload
from desim.problems.batch.nodes import NodeTable
from desim.problems.batch.parts import has_dependencies
from desim.reading import suffix_of
from desim.workloads.batch import batsim, cerit, closed_loop, job_table, lublin, node_file, philly, swf
from desim.workloads.batch import moldable as molding
from desim.workloads.batch.closed_loop import SESSION_GAP
from desim.workloads.batch.swf import SWFStream
from desim.workloads.batch.trace import Trace, TraceHeader, TraceReport
from desim.workloads.batch.transform import rescale_load, thin
from desim.workloads.catalogue import entries, located
from desim.workloads.files import Pathish

__all__ = ["LoadedWorkload", "descriptions", "draw", "load", "read", "tells_nodes", "texts", "write"]

_GENERATED = "lublin"
Dependencies = Literal["drop", "keep", "users", "sequential"]
LOG = "log"
"""Value of ``nodes`` that takes the nodes described by the log itself."""
#: Readers of logs that describe the nodes of the machine; ``is_such`` recognizes the files of each.
_TELLING_NODES: tuple[Any, ...] = (cerit, philly)
#: Default size of a generated workload.
_DEFAULT_JOBS, _DEFAULT_CORES = 10_000, 256
#: Columns of a workload that every format holds, or that are not about the jobs.
_FIELDS = {*Job._fields[:6], "place"}
_READERS: Mapping[str, Callable[..., Trace]] = {
    ".swf": swf.read,
    ".json": batsim.read,
    ".parquet": job_table.read,
    ".csv": job_table.read,
}


def descriptions() -> dict[str, str]:
    """Return a one-line description of every workload source and file pattern.

    Returns
    -------
    dict of str to str
        Descriptions by name or pattern, in display order.
    """
    return {
        "lublin": "Lublin-Feitelson model of supercomputer workloads, generated from a seed.",
        "NAME": "Public log that `desim fetch NAME` has downloaded; `desim list workloads` shows them.",
        "FILE.swf, FILE.swf.gz": "Standard Workload Format log, as in the Parallel Workloads Archive.",
        "FILE.json, FILE.json.gz": "Batsim workload with delay profiles.",
        "FILE.parquet": "Job table with the columns of a result.",
        "FILE.csv, FILE.csv.gz": "Job table with the columns of a result or of Batsim.",
    }


def draw(rng: Generator, *, num_jobs: int = 10_000, num_cores: int = 256, load: float = 1.0) -> list[Job]:
    """Generate jobs with the Lublin-Feitelson model; the environment cuts its episodes from them.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    num_jobs, num_cores : int
        Number of jobs, and number of cores of the cluster.
    load : float
        Offered load.

    Returns
    -------
    list of Job
        Jobs in order of submission.

    Raises
    ------
    InvalidConfiguration
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> len(draw(np.random.default_rng(1), num_jobs=100))
    100
    """
    return lublin.generate(num_jobs, num_cores, rng, load=load)


@dataclass(frozen=True)
class LoadedWorkload:
    """Workload to simulate.

    Parameters
    ----------
    name : str
        Name of the model or of the file.
    jobs : iterable of Job
        Jobs sorted by submission time; every iteration gives the same jobs.
    num_cores : int or None
        Number of cores of the machine, None if the file does not state it.
    num_jobs : int or None
        Number of jobs, None if it is known only at the end of a stream.
    trace : Trace or SWFStream or None
        Trace that was read; None for a generated workload.
    nodes : sequence of Node
        Nodes of the machine; empty if it is modelled as a number of cores.
    """

    name: str
    jobs: Iterable[Job]
    num_cores: int | None
    num_jobs: int | None
    trace: Trace | SWFStream | None = None
    nodes: Sequence[Node] = ()

    @property
    def report(self) -> TraceReport | None:
        """Repair report of the file (of the latest iteration for a stream); None for a generated workload."""
        return self.trace.report if self.trace is not None else None

    @property
    def cores_stated(self) -> str:
        """The entry of the file that states the cores of the machine, if they are taken from there; otherwise empty."""
        header = None if self.trace is None or self.nodes else self.trace.header
        return "" if header is None or header.num_cores != self.num_cores else header.cores_stated


@dataclass(frozen=True)
class _Drawn:
    """Jobs of the Lublin-Feitelson model, generated again in every iteration."""

    num_jobs: int
    num_cores: int
    seed: int
    load: float | None
    overestimate: float

    def __iter__(self) -> Iterator[Job]:
        return lublin.stream(self.num_jobs, self.num_cores, self.seed, load=self.load, overestimate=self.overestimate)


def load(
    source: Pathish = _GENERATED,
    *,
    num_jobs: int | None = None,
    num_cores: int | None = None,
    seed: int = 0,
    load: float | None = None,
    load_by: Literal["time", "thinning"] = "time",
    overestimate: float = 1.0,
    stream: bool = False,
    nodes: str | Sequence[Node] = (),
    dependencies: Dependencies | None = None,
    session_gap: float = SESSION_GAP,
    users: int | None = None,
    moldable: float | None = None,
    attributes: Collection[str] = (),
    columns: Mapping[str, str] | None = None,
    unknown_profile: batsim.UnknownProfile = "error",
    strict: bool = False,
) -> LoadedWorkload:
    """Generate or read a workload.

    Parameters
    ----------
    source : str or path-like
        ``"lublin"``, a file, see `descriptions`, or a log of `desim.workloads.catalogue` by its name.
    num_jobs : int, optional
        Number of jobs to generate (default: 10,000), or largest number to read.
    num_cores : int, optional
        Number of cores of the machine (default: as stated in the file; 256 for a generated workload).
    seed : int
        Seed of a generated workload.
    load : float, optional
        Target offered load.
    load_by : {"time", "thinning"}
        How to reach it: the times between submissions are stretched, or jobs are left out at random, by the seed.
    overestimate : float
        Largest ratio of requested time to run time of a generated workload.
    stream : bool
        Whether to generate or read the jobs one by one while they are used, in constant memory.
    nodes : str or sequence of Node
        Nodes of the machine, which replace `num_cores`: a file or counts such as ``18x80,26x12``, see
        `desim.workloads.batch.node_file`, or ``"log"`` for the nodes that the log itself describes. Job tables are
        then read with the requests of jobs for nodes.
    dependencies : {"drop", "keep", "users", "sequential"}, optional
        Source of the job dependencies: ``"keep"`` takes those of the file, which is the default for job tables, and
        ``"drop"`` none. With ``"users"`` or ``"sequential"``, each user waits for their own earlier jobs, in batches
        or one by one, see `desim.workloads.batch.closed_loop`.
    session_gap : float
        Longest think time within a user's session, in seconds.
    users : int, optional
        Number of users to whom generated jobs are assigned at random.
    moldable : float, optional
        Variation of parallelism (sigma) of the speedup model that gives jobs several sizes, see
        `desim.workloads.batch.moldable`. By default, jobs are not moldable.
    attributes : collection of str
        Further columns of a job table, or fields of a Standard Workload Format log, to keep as attributes of jobs.
    columns : mapping of str to str, optional
        Names of the columns of a job table by what they hold, see `desim.workloads.batch.job_table.read`.
    unknown_profile : {"error", "drop"}
        What happens to jobs of a Batsim workload that have no known run time.
    strict : bool
        Whether to refuse a file of which a row must be dropped or changed.

    Returns
    -------
    LoadedWorkload
        Jobs, cores, nodes, dependencies and repair report.

    Raises
    ------
    InvalidConfiguration
        If an option is out of range or does not apply to this source.
    WorkloadError
        If the file does not exist, cannot be read, or has broken content.

    Examples
    --------
    >>> workload = load("lublin", num_jobs=100, num_cores=128, seed=1, load=0.9)
    >>> workload.name, workload.num_cores, len(list(workload.jobs))
    ('lublin', 128, 100)
    """
    stretched = load if check_choice("load_by", load_by, ("time", "thinning")) == "time" else None
    source = located(source)
    table, reader = _resolved(source, nodes)
    further = _reader_options(
        source,
        is_special=stream or reader is not None,
        attributes=attributes,
        columns=columns,
        unknown_profile=None if unknown_profile == "error" else unknown_profile,
        dependencies=dependencies == "keep",
    ) | ({"strict": True} if strict else {})
    if table is not None and num_cores not in (None, table.num_cores):
        raise InvalidConfiguration(
            f"num_cores: got {num_cores}, but the nodes have {table.num_cores} cores; try without num_cores"
        )
    if source == _GENERATED:
        workload = _generated(
            num_jobs, table.num_cores if table else num_cores, seed, stretched, overestimate, stream=stream
        )
    else:
        if overestimate != 1:
            raise InvalidConfiguration(f"overestimate: got {overestimate!r}, but {source} has its own requested times")
        workload = _read(
            source, num_jobs, num_cores, stretched, stream=stream, table=table, reader=reader, further=further
        )
    if table is not None:
        workload = replace(workload, num_cores=table.num_cores, nodes=table.nodes)
    if load_by == "thinning":
        workload = _thinned(workload, load, np.random.default_rng([seed, 0, 1]), stream=stream)
    if users is not None:
        workload = _dealt(workload, users, seed, stream=stream)
    if dependencies in ("users", "sequential"):
        workload = _closed(workload, session_gap, load=load, stream=stream, sequential=dependencies == "sequential")
    elif session_gap != SESSION_GAP:
        raise InvalidConfiguration(
            f"session_gap: got {session_gap!r}, but it applies only with dependencies 'users' or 'sequential'"
        )
    elif dependencies == "keep" and not (isinstance(workload.trace, Trace) and has_dependencies(workload.trace.jobs)):
        others = "a generated workload has none" if workload.trace is None else "a stream reads none"
        what = f"{os.fspath(source)} states none" if isinstance(workload.trace, Trace) else others
        raise InvalidConfiguration(f"dependencies: got 'keep', but {what}; try 'drop'")
    elif dependencies == "drop" and isinstance(workload.jobs, Workload):
        workload = replace(workload, jobs=workload.jobs.with_columns(after=None))
    return workload if moldable is None else _molded(workload, moldable)


#: Options of readers that a user gives, and the readers that have each.
_OPTIONS: Mapping[str, tuple[Callable[..., Trace], ...]] = {
    "attributes": (job_table.read, swf.read),
    "columns": (job_table.read,),
    "unknown_profile": (batsim.read,),
}


def _reader_options(source: Pathish, *, is_special: bool, dependencies: bool, **given: Any) -> dict[str, Any]:
    """Return the given options of the reader of a file; refuse those that it does not have."""
    read = None if source == _GENERATED or is_special else _READERS.get(_suffix(source), swf.read)
    found = {name: value for name, value in given.items() if value}
    for name, value in found.items():
        if read not in _OPTIONS[name]:
            formats = " and ".join(_FORMATS[reader] for reader in _OPTIONS[name])
            raise InvalidConfiguration(f"{name}: got {_shown(value)}, but only {formats} read as a whole have that")
    return found | ({"dependencies": True} if dependencies and read is swf.read else {})


_FORMATS = {
    swf.read: "Standard Workload Format logs",
    job_table.read: "job tables",
    batsim.read: "Batsim workloads",
}


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={column}" for name, column in value.items())
    return value if isinstance(value, str) else ", ".join(value)


def _thinned(workload: LoadedWorkload, load: float | None, rng: Generator, *, stream: bool) -> LoadedWorkload:
    """Return a workload without some of its jobs."""
    if load is None or stream or workload.num_cores is None:
        raise InvalidConfiguration(
            "load_by: got 'thinning', which needs a load to reach, the number of cores, and jobs without stream"
        )
    jobs = thin(workload.jobs, workload.num_cores, load, rng)
    return replace(workload, jobs=jobs, num_jobs=len(jobs))


def _dealt(workload: LoadedWorkload, users: int, seed: int, *, stream: bool) -> LoadedWorkload:
    """Return a workload whose jobs are assigned to users at random."""
    if workload.trace is not None or stream:
        raise InvalidConfiguration(f"users: got {users!r}, but only generated jobs without stream can be assigned")
    dealt = closed_loop.deal(
        workload.jobs, users, np.random.default_rng([seed, check_int("users", users, least=1, most=MOST_ITEMS)])
    )
    return replace(workload, jobs=dealt)


def _closed(
    workload: LoadedWorkload, session_gap: float, *, load: float | None, stream: bool, sequential: bool
) -> LoadedWorkload:
    """Return a workload whose users wait for their own earlier jobs."""
    what = "sequential" if sequential else "users"
    if stream:
        raise InvalidConfiguration(f"dependencies: got {what!r}, but a stream cannot link the jobs of users")
    waits = workload.trace.waiting_time if isinstance(workload.trace, Trace) else None
    if waits is not None and load is not None:
        raise InvalidConfiguration(
            f"load: got {load!r}, but users who wait for their jobs determine the load; try without load"
        )
    known = None if waits is None else waits.tolist()
    jobs = closed_loop.closed_loop(workload.jobs, known, session_gap=session_gap, sequential=sequential)
    return replace(workload, jobs=jobs)


def _molded(workload: LoadedWorkload, sigma: float) -> LoadedWorkload:
    """Return a workload whose jobs have several sizes."""
    if workload.num_cores is None or workload.nodes or isinstance(workload.trace, SWFStream):
        raise InvalidConfiguration(
            f"moldable: got {sigma!r}, but it applies only to jobs on a known number of cores, without nodes or streams"
        )
    return replace(workload, jobs=molding.moldable(workload.jobs, workload.num_cores, sigma=sigma))


def _generated(
    num_jobs: int | None, num_cores: int | None, seed: int, load: float | None, overestimate: float, *, stream: bool
) -> LoadedWorkload:
    """Return jobs generated by the Lublin-Feitelson model."""
    count = _DEFAULT_JOBS if num_jobs is None else num_jobs
    size = _DEFAULT_CORES if num_cores is None else num_cores
    drawn = _Drawn(count, size, seed, load, overestimate)
    iter(drawn)  # raises for wrong arguments here rather than in the simulation
    return LoadedWorkload(_GENERATED, drawn if stream else list(drawn), size, count)


def _read(
    source: Pathish,
    num_jobs: int | None,
    num_cores: int | None,
    load: float | None,
    *,
    stream: bool,
    table: NodeTable | None,
    reader: Callable[..., Trace] | None,
    further: Mapping[str, Any],
) -> LoadedWorkload:
    """Return the jobs of a file; if nodes are given, check every request against them."""
    if num_cores is not None:
        check_int("num_cores", num_cores, least=1, most=MOST_CORES)
    if not Path(source).exists():
        near = did_you_mean(source, [_GENERATED, *entries()])
        if near or os.fspath(source).isidentifier():
            raise WorkloadError(f"{source}: no such file or generated workload{near}; try {_GENERATED} or a file")
    if stream and reader is not None:
        raise InvalidConfiguration(
            f"{os.fspath(source)}: a file whose jobs request nodes cannot be streamed; try without stream"
        )
    if stream:
        return _stream(source, num_jobs, num_cores, load, strict="strict" in further)
    if reader is not None:
        trace = reader(source, max_jobs=num_jobs, **further)
    elif table is not None and _READERS.get(_suffix(source)) is job_table.read:
        trace = job_table.read(source, requests=True, max_jobs=num_jobs, **further)
        _check_requests(os.fspath(source), trace, table)
    else:
        trace = _READERS.get(_suffix(source), swf.read)(source, max_jobs=num_jobs, **further)
    cores = table.num_cores if table else trace.num_cores if num_cores is None else num_cores
    jobs = trace.jobs
    if load is not None:
        if cores is None:
            raise InvalidConfiguration(
                f"load: {source} does not state the cores of the machine, which define a load; try num_cores"
            )
        jobs = rescale_load(jobs, cores, load)
    return LoadedWorkload(Path(source).name, jobs, cores, len(jobs), trace, trace.nodes)


def _check_requests(source: str, trace: Trace, table: NodeTable) -> None:
    """Raise for the first job with a request that names a partition, feature or resource of no node."""
    for job, place in zip(trace.jobs, trace.place.tolist(), strict=True):
        try:
            for size in job.in_all_sizes():
                table.compiled_request(size)
        except WorkloadError as error:
            where = f"{source}: {trace.report.locate(place)}: job {job.job_id}"
            raise WorkloadError(f"{where}: {error}; add such nodes, or remove the job") from error


def _resolved(source: Pathish, nodes: str | Sequence[Node]) -> tuple[NodeTable | None, Callable[..., Trace] | None]:
    """Return the given nodes, if any, and the log's own reader if it knows the requests of jobs for nodes."""
    if nodes == LOG:
        reader = _reader_with_nodes(source)
        if reader is None:
            raise InvalidConfiguration(
                f"{os.fspath(source)}: the log describes no nodes; try a file of nodes, or counts such as 16x64"
            )
        return None, reader
    known = node_file.read_or_count(nodes) if isinstance(nodes, str) else nodes
    return (NodeTable(known), _reader_with_nodes(source)) if known else (None, None)


def _reader_with_nodes(source: Pathish) -> Callable[..., Trace] | None:
    """Return the reader for a log that describes the nodes of its machine, or None."""
    source = located(source)
    if source == _GENERATED or not Path(source).is_file():
        return None
    return next((log.read for log in _TELLING_NODES if log.is_such(source)), None)


def tells_nodes(source: Pathish) -> bool:
    """Return whether ``nodes="log"`` can be used, that is, whether the log describes the nodes of its machine.

    Parameters
    ----------
    source : str or path-like
        File, or name of a model.

    Returns
    -------
    bool
        True for the logs of `desim.workloads.batch.cerit` and `desim.workloads.batch.philly`.
    """
    return _reader_with_nodes(source) is not None


def _stream(
    source: Pathish, num_jobs: int | None, num_cores: int | None, load: float | None, *, strict: bool
) -> LoadedWorkload:
    if _suffix(source) != ".swf":
        raise InvalidConfiguration(f"{source}: cannot be streamed; only Standard Workload Format files can")
    if load is not None:
        raise InvalidConfiguration(f"load: got {load!r}, but a streamed file cannot be rescaled; try without stream")
    opened = swf.stream(source, max_jobs=num_jobs, strict=strict)
    return LoadedWorkload(Path(source).name, opened, opened.num_cores if num_cores is None else num_cores, None, opened)


def read(path: Pathish, *, max_jobs: int | None = None) -> Trace:
    """Read a workload file of any known format.

    Parameters
    ----------
    path : str or path-like
        Workload file; its suffix determines the format. Other suffixes are read as Standard Workload Format. A name
        in `desim.workloads.catalogue` stands for its file.
    max_jobs : int, optional
        Largest number of jobs to keep, in the order of the file.

    Returns
    -------
    Trace
        Jobs, header and repair report.

    Raises
    ------
    WorkloadError
        If the file cannot be read or its content is broken.
    InvalidConfiguration
        If `max_jobs` is not positive.
    """
    path = located(path)
    return _READERS.get(_suffix(path), swf.read)(path, max_jobs=max_jobs)


def texts(path: Pathish, field: int) -> dict[int, str]:
    """Return the text of one field of each row of a log, see `desim.workloads.batch.swf.texts`.

    Parameters
    ----------
    path : str or path-like
        Standard Workload Format log.
    field : int
        Number of the field, from 1.

    Returns
    -------
    dict of int to str
        Text of the field by line number, as in ``Trace.place``.

    Raises
    ------
    InvalidConfiguration
        If the file is of another format.
    WorkloadError
        If the file cannot be read, or a row has no such field.
    """
    if _READERS.get(_suffix(path), swf.read) is not swf.read:
        raise InvalidConfiguration(f"{path}: has no numbered fields; only Standard Workload Format logs do")
    return swf.texts(path, field)


def write(
    path: Pathish,
    jobs: Iterable[Job],
    *,
    num_cores: int | None = None,
    header: TraceHeader | None = None,
    sacct: bool = False,
) -> tuple[str, ...]:
    """Write a workload file in the format given by its suffix.

    Parameters
    ----------
    path : str or path-like
        Target file, replaced only when the new one is complete.
    jobs : iterable of Job
        Jobs to write.
    num_cores : int, optional
        Number of cores of the machine.
    header : TraceHeader, optional
        Header of a Standard Workload Format log, copied to another such log.
    sacct : bool
        Whether to write a CSV file as Slurm's ``sacct -P``, see `desim.workloads.batch.job_table.write`.

    Returns
    -------
    tuple of str
        What the file does not hold: columns of a workload, such as ``waiting_time``, and others.

    Raises
    ------
    InvalidConfiguration
        If the suffix is unknown, the format requires `num_cores` and it is None, or it is no CSV file for ``sacct``.
    WorkloadError
        If the file cannot be written, or a job does not fit the format.
    """
    suffix = _suffix(path)
    if sacct and suffix != ".csv":
        raise InvalidConfiguration(f"{path}: expected a .csv file for a table of sacct")
    match suffix:
        case ".swf":
            known = {} if num_cores is None else {"MaxProcs": num_cores}
            swf.write(path, jobs, header=header if header and header.lines else {"Version": 2.2, **known})
        case ".parquet" | ".csv":
            job_table.write(path, jobs, num_cores, sacct=sacct)
        case ".json" if num_cores is not None:
            batsim.write(path, jobs, num_cores)
        case ".json":
            raise InvalidConfiguration(f"{path}: a Batsim workload states the cores of the machine, got None")
        case _:
            raise InvalidConfiguration(
                f"{path}: unknown workload format; expected one of the suffixes .swf, .swf.gz, .json, .json.gz, "
                ".parquet, .csv and .csv.gz"
            )
    lost = _unwritten(jobs, suffix, sacct=sacct) if isinstance(jobs, Workload) else []
    return (*lost, "num_cores") if suffix == ".csv" and num_cores is not None else tuple(lost)


def _unwritten(jobs: Workload, suffix: str, *, sacct: bool) -> list[str]:
    """Return the columns of a workload that a file does not hold, and what it rounds."""
    held = {"user", "partition", "qos", "waiting_time"} if sacct else set[str]()
    if suffix == ".swf":
        names = [name for name in ("queue", "partition") if name in jobs.columns]
        held = {name for name in names if all(not text or text.isdecimal() for text in jobs[name].tolist())}
        held |= {"after"} if all(len(others) == 1 for others, _ in jobs.dependencies().values()) else set()
    unwritten = [name for name in jobs.columns if name not in (*_FIELDS, *held) and not _is_empty(jobs[name])]
    times = np.concatenate([jobs[name] for name in ("submission_time", "requested_time", "run_time")])
    return [*unwritten, "fractions of seconds"] if sacct and (times % 1).any() else unwritten


def _is_empty(values: NDArray[Any]) -> bool:
    return values.dtype.kind == "f" and bool(np.isnan(values).all())


def _suffix(path: Pathish) -> str:
    """Return the suffix of the format, without that of compression, which Parquet does not have."""
    return "" if Path(path).name.lower().endswith(".parquet.gz") else suffix_of(path)
