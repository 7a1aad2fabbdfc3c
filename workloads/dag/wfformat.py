"""WfFormat: read and write recorded scientific workflows in the JSON format of WfCommons.

A task becomes a node; its work is its run time times a reference speed. An edge has the total size in bytes of the
files that its parent writes and its child reads, or 0 if there are none. Data that a task reads from outside the
workflow, or from a task that is not its parent, is on no edge. If several parents of a task write the same file, its
size counts on each of their edges.

Versions 1.5 and 1.6 keep tasks and files in ``workflow.specification`` and run times in ``workflow.execution``. Version
1.4 keeps everything in ``workflow.tasks``, where files are lists of ``{"path", "name", "link", "sizeInBytes"}``, and so
do 1.1 to 1.3, which write ``jobs``, ``runtime`` and ``size``. All are read, and 1.5 is written. Version 1.6 only adds
redundant sums, which are ignored.

Versions up to 1.4 require little, and recordings differ. Tasks refer to each other by name or by identifier. If a task
has no list of parents or children, the lists of the other tasks determine its edges. If no task names a parent or
child, there is an edge from each task that writes a file to each other task that reads it; files with the same path and
name are the same file. If names occur more than once, nodes are named ``NAME_ID``.

The cores and the memory of tasks and machines, which recordings state, can be read as demands and as pools.

Reference: T. Coleman, H. Casanova, L. Pottier, M. Kaushik, E. Deelman and R. Ferreira da Silva, "WfCommons: A framework
for enabling scientific workflow research and development", Future Generation Computer Systems 128, 2022.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Unpack, get_args

from desim.checks import check_choice, check_float
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag.executors import Executors
from desim.problems.dag.job import Job
from desim.workloads.dag._workflow import Pair, Repairs, Task, WorkflowOptions, WorkflowReport, build
from desim.workloads.files import Pathish, plain_number, write_lines
from desim.workloads.json_fields import LARGEST, Entries, has, listed, number, object_of, read_object, short_repr, text

__all__ = ["WorkflowOptions", "WorkflowReport", "executors_of", "machines", "read", "write"]

Resource = Literal["cores", "memory"]
#: Names of each amount in the entry of a task, the newest first, and the amount of a task that states none.
_AMOUNTS: dict[str, tuple[tuple[str, ...], float]] = {
    "cores": (("coreCount", "cores"), 1.0),
    "memory": (("memoryInBytes", "memory"), 0.0),
}
Relations = Literal["both", "either", "files"]
#: Versions with a specification and an execution, and those in which tasks hold everything.
_SPECIFIED, _FLAT = ("1.6", "1.5"), ("1.4", "1.3", "1.2", "1.1")
Sizes = dict[str, float | None]


def read(
    path: Pathish,
    *,
    relations: Relations = "both",
    demands: Sequence[Resource] | None = None,
    report: WorkflowReport | None = None,
    **options: Unpack[WorkflowOptions],
) -> Job:
    """Read a WfFormat workflow as a job.

    Parameters
    ----------
    path : str or path-like
        WfFormat file, plain or gzip (recognized by its content).
    relations : {"both", "either", "files"}
        Source of the edges. With ``"both"``, the lists of parents and children must agree. With ``"either"``, an edge
        in one of them suffices, and a missing list is empty. With ``"files"``, the edges lead from tasks that write
        a file to those that read it. Versions up to 1.4 may omit lists in any case, and use files if they have no
        lists at all.
    demands : sequence of {"cores", "memory"}, optional
        What tasks take of a pool: their cores, one if they state none, and their memory in bytes, none if they state
        none. Default: nothing, or what the job demanded that `write` has stored.
    report : WorkflowReport, optional
        Report to complete: it counts what was changed and ignored.
    **options : WorkflowOptions
        Defaults for what the file does not state, and repairs, see `WorkflowOptions`.

    Returns
    -------
    Job
        Job 0, submitted at time 0 (see `submissions`). Its nodes are named by the tasks' identifiers, and its label is
        the workflow's name.

    Raises
    ------
    WorkloadError
        If the file cannot be read, is not a WfFormat document, or its graph is invalid; the message names the file and
        the tasks.
    InvalidConfiguration
        If an option is out of range.
    """
    repairs = Repairs(**options)
    check_choice("relations", relations, get_args(Relations))
    source = str(path)
    document = read_object(path)
    stored = listed(source, document, "demands", str) if has(document, "demands") else []
    repairs.resources = stored if demands is None else demands
    for resource in repairs.resources:
        check_choice("demands", resource, tuple(_AMOUNTS))
    version = text(source, document, "schemaVersion")
    label = document.get("name") or ""
    if not isinstance(label, str):
        raise WorkloadError(f"{source}: name: got {short_repr(label)}, expected a string")
    workflow = object_of(source, document, "workflow")
    is_flat = version in _FLAT
    if version in _SPECIFIED:
        specification = object_of(f"{source}: workflow", workflow, "specification")
        entries = _by_name(f"{source}: workflow.specification", specification, "tasks", "id")
        aliases = {name: [name] for name in entries}
        tasks = _tasks(source, workflow, specification, entries, repairs)
    elif is_flat:
        entries, aliases = _flat_entries(f"{source}: workflow", workflow)
        tasks = _flat_tasks(source, entries, repairs)
    else:
        raise WorkloadError(f"{source}: schemaVersion: got {short_repr(version)}, expected '1.1' to '1.6'")
    if not tasks:
        raise WorkloadError(f"{source}: got no task, expected at least one")
    edges = [] if relations == "files" else _edges(source, entries, aliases, relations, may_lack=is_flat)
    if relations == "files" or (is_flat and not edges):
        edges = _edges_of_files(tasks)
    return build(
        source,
        label,
        tasks,
        edges,
        repairs=repairs,
        report=report,
    )


def executors_of(path: Pathish) -> Executors | None:
    """Read the executors that `write` stores with a workflow, which the format itself does not define.

    Parameters
    ----------
    path : str or path-like
        WfFormat file, plain or gzip.

    Returns
    -------
    Executors or None
        Executors, None if the file has none.

    Raises
    ------
    WorkloadError
        If the file cannot be read, or its executors are invalid.
    """
    document = read_object(path)
    if not has(document, "executors"):
        return None
    entries: dict[str, Any] = object_of(str(path), document, "executors")
    try:
        return Executors(
            entries["speeds"],
            _table(entries["transferSpeeds"], math.inf),
            _table(entries["latencies"], 0.0),
            names=entries.get("names"),
            features=entries.get("features"),
            capacities=entries.get("capacities"),
        )
    except (KeyError, TypeError, InvalidConfiguration) as error:
        raise WorkloadError(f"{path}: executors cannot be read: {error}") from error


def machines(path: Pathish) -> Executors:
    """Read the machines of a recording as pools of cores and memory, if all of them state it, of speed 1.

    Parameters
    ----------
    path : str or path-like
        WfFormat file, plain or gzip.

    Returns
    -------
    Executors
        A pool per machine, with ``cores`` and ``memory`` in bytes; data take no time between them.

    Raises
    ------
    WorkloadError
        If the file cannot be read, states no machine, or a machine without cores.
    """
    source, workflow = str(path), object_of(str(path), read_object(path), "workflow")
    holder = workflow if has(workflow, "machines") else workflow.get("execution") or {}
    entries = listed(f"{source}: workflow", holder, "machines", dict) if has(holder, "machines") else []
    if not entries:
        raise WorkloadError(f"{source}: got no machines, expected at least one")
    names, capacities = [], []
    for at, entry in enumerate(entries):
        where = f"{source}: machines[{at}]"
        processor = object_of(where, entry, "cpu")
        key = "coreCount" if has(processor, "coreCount") else "count"
        names.append(text(where, entry, "nodeName"))
        capacities.append({"cores": number(f"{where}: cpu", processor, key, least=1)})
    if all(has(entry, "memoryInBytes") for entry in entries):
        for at, (entry, amounts) in enumerate(zip(entries, capacities, strict=True)):
            amounts["memory"] = number(f"{source}: machines[{at}]", entry, "memoryInBytes")
    try:
        return Executors([1.0] * len(names), names=names, capacities=capacities)
    except InvalidConfiguration as error:
        raise WorkloadError(f"{source}: machines: {error}") from error


def _table(rows: list[list[float | None]], missing: float) -> list[list[float]]:
    """Return a table of numbers; null means no delay."""
    return [[missing if value is None else value for value in row] for row in rows]


def _by_name(where: str, entries: Entries, key: str, identity: str) -> dict[str, Entries]:
    """Return the objects in a list by their identifiers."""
    found: dict[str, Entries] = {}
    for at, item in enumerate(listed(where, entries, key, dict)):
        name = text(f"{where}.{key}[{at}]", item, identity)
        if name in found:
            raise WorkloadError(
                f"{where}.{key}[{at}]: {identity}: got {short_repr(name)} again, expected distinct ones"
            )
        found[name] = item
    return found


def _tasks(
    source: str,
    workflow: Entries,
    specification: Entries,
    entries: dict[str, Entries],
    repairs: Repairs,
) -> list[Task]:
    execution = object_of(f"{source}: workflow", workflow, "execution")
    runs = _by_name(f"{source}: workflow.execution", execution, "tasks", "id")
    files: Sizes = {}
    if has(specification, "files"):
        known = _by_name(f"{source}: workflow.specification", specification, "files", "id")
        files = {name: _size(f"{source}: file {name!r}", item, repairs) for name, item in known.items()}
    stray = next((name for name in runs if name not in entries), None)
    if stray is not None:
        raise WorkloadError(f"{source}: task {stray!r} is in workflow.execution, but not in workflow.specification")
    tasks = []
    for name, entry in entries.items():
        where = f"{source}: task {name!r}"
        reads, writes = (_listed_files(where, entry, key, files) for key in ("inputFiles", "outputFiles"))
        run = runs.get(name, {})
        tasks.append(Task(name, _work(where, run, repairs), reads, writes, _demands(where, run, repairs)))
    return tasks


def _demands(where: str, entry: Entries, repairs: Repairs) -> dict[str, float] | None:
    """Return what a task takes of each resource; None without resources."""
    found = {}
    for resource in repairs.resources:
        keys, assumed = _AMOUNTS[resource]
        key = next((key for key in keys if has(entry, key)), None)
        found[resource] = repairs.demand(where, None if key is None else number(where, entry, key), assumed)
    return found if repairs.resources else None


def _work(where: str, entry: Entries, repairs: Repairs) -> float:
    """Return the work of a task; older versions have another name for its run time."""
    key = next((key for key in ("runtimeInSeconds", "runtime") if has(entry, key)), None)
    return repairs.work(where, None if key is None else number(where, entry, key))


def _size(where: str, entry: Entries, repairs: Repairs) -> float | None:
    """Return the size of a file, None if it is unknown; older versions have another name for it."""
    key = next((key for key in ("sizeInBytes", "size") if has(entry, key)), None)
    return None if key is None else repairs.size(where, number(where, entry, key, least=-LARGEST))


def _listed_files(where: str, entry: Entries, key: str, files: Sizes) -> Sizes:
    """Return the sizes of the files that a task lists by name."""
    names = listed(where, entry, key, str) if has(entry, key) else []
    unknown = next((name for name in names if name not in files), None)
    if unknown is not None:
        raise WorkloadError(f"{where}: {key}: got {short_repr(unknown)}, expected the id of a file")
    return {name: files[name] for name in names}


def _flat_entries(where: str, workflow: Entries) -> tuple[dict[str, Entries], dict[str, list[str]]]:
    """Return tasks by unique name, and the tasks that each name or identifier can refer to."""
    key = "jobs" if has(workflow, "jobs") and not has(workflow, "tasks") else "tasks"
    items = listed(where, workflow, key, dict)
    names = [text(f"{where}.{key}[{at}]", item, "name") for at, item in enumerate(items)]
    are_unique = len(set(names)) == len(names)
    entries: dict[str, Entries] = {}
    aliases: dict[str, list[str]] = {}
    for at, (item, name) in enumerate(zip(items, names, strict=True)):
        here = f"{where}.{key}[{at}]"
        if not are_unique and not has(item, "id"):
            raise WorkloadError(
                f"{here}: id: got nothing, expected an id, because the name {short_repr(name)} is not unique"
            )
        unique = name if are_unique else f"{name}_{text(here, item, 'id')}"
        if unique in entries:
            raise WorkloadError(f"{here}: name and id: got {short_repr(unique)} again, expected distinct ones")
        entries[unique] = item
        aliases.setdefault(name, []).append(unique)
    for unique, item in entries.items():
        if isinstance(item.get("id"), str) and item["id"] not in names:  # a name takes precedence over an id
            aliases.setdefault(item["id"], []).append(unique)
    return entries, aliases


def _flat_tasks(source: str, entries: dict[str, Entries], repairs: Repairs) -> list[Task]:
    tasks = []
    for name, entry in entries.items():
        where = f"{source}: task {name!r}"
        sizes: dict[str, Sizes] = {"input": {}, "output": {}}
        for at, file in enumerate(listed(where, entry, "files", dict) if has(entry, "files") else ()):
            here = f"{where}: files[{at}]"
            link = text(here, file, "link")
            if link not in sizes:
                raise WorkloadError(f"{here}: link: got {short_repr(link)}, expected 'input' or 'output'")
            path = text(here, file, "path") if has(file, "path") and file["path"] != "" else ""
            size = _size(here, file, repairs)
            sizes[link][path.removesuffix("/") + "/" * bool(path) + text(here, file, "name")] = size
        work, demands = _work(where, entry, repairs), _demands(where, entry, repairs)
        tasks.append(Task(name, work, sizes["input"], sizes["output"], demands))
    return tasks


def _edges(
    source: str, entries: dict[str, Entries], aliases: Mapping[str, list[str]], relations: Relations, *, may_lack: bool
) -> list[Pair]:
    """Return the edges in the order of their children, beginning with those that children name."""
    required = relations == "both"
    upward: dict[Pair, None] = {}
    downward: dict[Pair, None] = {}
    for name, entry in entries.items():
        where = f"{source}: task {name!r}"
        parents = _relatives(where, entry, "parents", aliases, required and not may_lack)
        children = _relatives(where, entry, "children", aliases, required and not may_lack)
        upward |= dict.fromkeys((parent, name) for parent in parents)
        downward |= dict.fromkeys((name, child) for child in children)
    if required:
        _check_agreement(source, entries, upward, downward)
    return list(upward | downward)


def _relatives(
    where: str, entry: Entries, key: str, aliases: Mapping[str, list[str]], required: bool
) -> dict[str, None]:
    names = listed(where, entry, key, str) if required or has(entry, key) else []
    seen: dict[str, None] = {}
    for name in names:
        meant = aliases.get(name, [])
        if not meant:
            raise WorkloadError(f"{where}: {key}: got {short_repr(name)}, expected the name of a task")
        if len(meant) > 1:
            several = " and ".join(map(short_repr, meant[:2]))
            raise WorkloadError(f"{where}: {key}: got {short_repr(name)}, which can be {several}; try identifiers")
        if meant[0] in seen:
            raise WorkloadError(f"{where}: {key}: got {short_repr(name)} twice, expected distinct tasks")
        seen[meant[0]] = None
    return seen


def _check_agreement(
    source: str, entries: dict[str, Entries], upward: dict[Pair, None], downward: dict[Pair, None]
) -> None:
    """Check that both ends of each edge name each other, except ends without a list."""
    hint = "try relations='either'"
    for parent, child in upward:
        if (parent, child) not in downward and has(entries[parent], "children"):
            raise WorkloadError(
                f"{source}: task {child!r} names the parent {parent!r}, which does not name it as a child; {hint}"
            )
    for parent, child in downward:
        if (parent, child) not in upward and has(entries[child], "parents"):
            raise WorkloadError(
                f"{source}: task {parent!r} names the child {child!r}, which does not name it as a parent; {hint}"
            )


def _edges_of_files(tasks: Sequence[Task]) -> list[Pair]:
    """Return an edge from each task that writes a file to each other task that reads it, in order of the readers."""
    writers: dict[str, list[str]] = {}
    for task in tasks:
        for file in task.writes:
            writers.setdefault(file, []).append(task.name)
    found = {
        (writer, task.name): None
        for task in tasks
        for file in task.reads
        for writer in writers.get(file, ())
        if writer != task.name
    }
    return list(found)


def write(path: Pathish, job: Job, *, reference_speed: float = 1.0, executors: Executors | None = None) -> None:
    """Write a job in version 1.5 so that `read` returns it; the file is written completely or not at all.

    The format has no job ids, submission times or parallel tasks of a node, so these are not written.

    Parameters
    ----------
    path : str or path-like
        Target file, replaced only when the new one is complete; compressed if its name ends in ``.gz``.
    job : Job
        Job to write. Each edge becomes a file that its parent writes and its child reads; a fractional size is
        written as it is, although the format requires whole bytes.
    reference_speed : float
        Speed in work per second: the run time of a task is its work divided by this. With 1, nothing is rounded.
    executors : Executors, optional
        Executors to store with the workflow, in an entry ``executors`` that `executors_of` reads.

    Raises
    ------
    WorkloadError
        If the file cannot be written, the job has run times for each executor or restricts its nodes to some, or it
        has nodes with modes, or that demand a whole pool or something other than ``cores`` and ``memory``.
    InvalidConfiguration
        If `reference_speed` is not > 0.
    """
    speed = check_float("reference_speed", reference_speed, above=0)
    if job.run_times is not None:
        raise WorkloadError(f"job {job.job_id}: has run times for each executor, which WfFormat cannot store")
    if job.eligible is not None or job.required_features is not None:
        raise WorkloadError(f"job {job.job_id}: has eligible executors, which WfFormat cannot store")
    if job.modes is not None:
        raise WorkloadError(f"job {job.job_id}: has nodes with modes, which WfFormat cannot store")
    if any(each is None or each.keys() - _AMOUNTS for each in job.demands or ()):
        raise WorkloadError(f"job {job.job_id}: has demands that WfFormat cannot store, expected cores and memory only")
    most = max(float(job.work.max()) / speed, *job.parent_size.tolist(), 0.0)
    if not most <= LARGEST or "" in job.names:
        raise WorkloadError(f"job {job.job_id}: expected numbers up to 1e15, and a name for every node")
    write_lines(path, _lines(job, speed, executors))


def _lines(job: Job, speed: float, executors: Executors | None) -> Iterator[str]:
    names = [json.dumps(name) for name in job.names]
    edges = [(parent, child, size) for child, parents in enumerate(job.parent_lists) for parent, size in parents]
    inputs: list[list[str]] = [[] for _ in names]
    outputs: list[list[str]] = [[] for _ in names]
    for at, (parent, child, _) in enumerate(edges):
        outputs[parent].append(f'"edge{at}"')
        inputs[child].append(f'"edge{at}"')
    yield f'{{\n"name": {json.dumps(job.label)},\n"schemaVersion": "1.5",'
    if executors is not None:
        described = {
            "names": list(executors.names),
            "features": [sorted(found) for found in executors.features],
            "speeds": executors.speeds.tolist(),
            "transferSpeeds": [
                [v if v < math.inf else None for v in row] for row in executors.transfer_speeds.tolist()
            ],
            "latencies": executors.latencies.tolist(),
            **({"capacities": executors.capacities} if executors.capacities else {}),
        }
        yield f'"executors": {json.dumps(described)},'
    resources = [what for what in _AMOUNTS if any(what in (each or ()) for each in job.demands or ())]
    if job.demands is not None:
        resources = resources or ["cores"]
        yield f'"demands": {json.dumps(resources)},'
    yield '"workflow": {\n"specification": {\n"tasks": ['
    for node, name in enumerate(names):
        parents = ", ".join(names[parent] for parent in job.parents(node))
        children = ", ".join(names[child] for child in job.children(node))
        yield (
            f'{{"name": {name}, "id": {name}, "parents": [{parents}], "children": [{children}], '
            f'"inputFiles": [{", ".join(inputs[node])}], "outputFiles": [{", ".join(outputs[node])}]}}'
            f"{_comma(node, len(names))}"
        )
    yield '],\n"files": ['
    for at, (_, _, size) in enumerate(edges):
        yield f'{{"id": "edge{at}", "sizeInBytes": {plain_number(size)}}}{_comma(at, len(edges))}'
    yield ']\n},\n"execution": {\n"tasks": ['
    for node, name in enumerate(names):
        run_time = plain_number(job.work[node].item() / speed)
        own = (job.demands[node] if job.demands else None) or {}
        amounts = "".join(f', "{_AMOUNTS[what][0][0]}": {plain_number(own.get(what, 0.0))}' for what in resources)
        yield f'{{"id": {name}, "runtimeInSeconds": {run_time}{amounts}}}{_comma(node, len(names))}'
    yield "]\n}\n}\n}"


def _comma(at: int, count: int) -> str:
    return "," if at + 1 < count else ""
