"""From a WfFormat document to tasks and edges, with exact complaints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from desim.exceptions import WorkloadError
from desim.workloads._workflow_graph import Pair, Task
from desim.workloads._workflow_json import Entries, entry_list, has, number, object_of, shown, text, text_list

__all__ = ["Relations", "WorkOptions", "parse"]

Relations = Literal["both", "either"]
Sizes = dict[str, float | None]


@dataclass(frozen=True)
class WorkOptions:
    """What makes work of a run time.

    Parameters
    ----------
    reference_speed : float or "machine"
        Work per second, or the speed of the machine in GHz.
    cpu_share : bool
        Whether to multiply by the mean number of busy cores.
    """

    reference_speed: float | Literal["machine"]
    cpu_share: bool

    def work(self, where: str, run: Entries, speeds: dict[str, float | None]) -> float:
        """Return the work of a task, from the record of its run and the speeds of the machines."""
        work = number(where, run, "runtimeInSeconds")
        if self.reference_speed == "machine":
            if not has(run, "machines") and has(run, "machine"):  # 1.4 names one
                name = text(where, run, "machine")
            else:
                name = next(iter(text_list(where, run, "machines")), "")
            if speeds.get(name) is None:
                raise WorkloadError(f"{where}: the speed of its machine {name!r} is not known")
            work *= speeds[name] or 0.0
        else:
            work *= self.reference_speed
        return work * number(where, run, "avgCPU") / 100 if self.cpu_share else work


def parse(
    source: str, document: Entries, options: WorkOptions, relations: Relations
) -> tuple[str, list[Task], list[Pair]]:
    """Take a document apart.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    document : dict
        From `desim.workloads._workflow_json.decode`.
    options : WorkOptions
        What makes work of a run time.
    relations : {"both", "either"}
        Whether parents and children must agree.

    Returns
    -------
    label : str
        Name of the workflow.
    tasks : list of Task
        In the order of the file.
    edges : list of (parent, child)
        By name, each once.

    Raises
    ------
    WorkloadError
        For the first thing that does not fit.
    """
    version = text(source, document, "schemaVersion")
    label = document.get("name") or ""
    if not isinstance(label, str):
        raise WorkloadError(f"{source}: name is {shown(label)}, want a string")
    workflow = object_of(source, document, "workflow")
    if version == "1.5":
        specification = object_of(f"{source}: workflow", workflow, "specification")
        entries = _by_name(f"{source}: workflow.specification", specification, "tasks", "id")
        tasks = _tasks(source, workflow, specification, entries, options)
    elif version == "1.4":
        entries = _by_name(f"{source}: workflow", workflow, "tasks", "name")
        tasks = _flat_tasks(source, workflow, entries, options)
    else:
        raise WorkloadError(f"{source}: schemaVersion is {shown(version)}, want '1.5' or '1.4'")
    if not tasks:
        raise WorkloadError(f"{source}: holds no task")
    return label, tasks, _edges(source, entries, relations)


def _by_name(where: str, entries: Entries, key: str, identity: str) -> dict[str, Entries]:
    """Return the objects in a list by their identifiers."""
    found: dict[str, Entries] = {}
    for at, item in enumerate(entry_list(where, entries, key)):
        name = text(f"{where}.{key}[{at}]", item, identity)
        if name in found:
            raise WorkloadError(f"{where}.{key}[{at}]: {identity} {shown(name)} is taken by an earlier one")
        found[name] = item
    return found


def _tasks(
    source: str, workflow: Entries, specification: Entries, entries: dict[str, Entries], options: WorkOptions
) -> list[Task]:
    execution = object_of(f"{source}: workflow", workflow, "execution")
    runs = _by_name(f"{source}: workflow.execution", execution, "tasks", "id")
    files: dict[str, float | None] = {}
    if has(specification, "files"):
        listed = _by_name(f"{source}: workflow.specification", specification, "files", "id")
        files = {name: number(f"{source}: file {name!r}", item, "sizeInBytes") for name, item in listed.items()}
    stray = next((name for name in runs if name not in entries), None)
    if stray is not None:
        raise WorkloadError(f"{source}: task {stray!r} ran, but is not in the specification")
    speeds = _speeds(f"{source}: workflow.execution", execution)
    tasks = []
    for name, entry in entries.items():
        where = f"{source}: task {name!r}"
        if name not in runs:
            raise WorkloadError(f"{where}: is not in workflow.execution, its run time is not known")
        reads, writes = (_listed_files(where, entry, key, files) for key in ("inputFiles", "outputFiles"))
        tasks.append(Task(name, options.work(where, runs[name], speeds), reads, writes))
    return tasks


def _listed_files(where: str, entry: Entries, key: str, files: Sizes) -> Sizes:
    """Return the sizes of the files that a task lists by name."""
    names = text_list(where, entry, key, required=False)
    unknown = next((name for name in names if name not in files), None)
    if unknown is not None:
        raise WorkloadError(f"{where}: {key} names the unknown file {shown(unknown)}")
    return {name: files[name] for name in names}


def _flat_tasks(source: str, workflow: Entries, entries: dict[str, Entries], options: WorkOptions) -> list[Task]:
    speeds = _speeds(f"{source}: workflow", workflow)
    tasks = []
    for name, entry in entries.items():
        where = f"{source}: task {name!r}"
        sizes: dict[str, Sizes] = {"input": {}, "output": {}}
        for at, file in enumerate(entry_list(where, entry, "files") if has(entry, "files") else ()):
            here = f"{where}: files[{at}]"
            link = text(here, file, "link")
            if link not in sizes:
                raise WorkloadError(f"{here}: link is {shown(link)}, want 'input' or 'output'")
            sizes[link][text(here, file, "name")] = number(here, file, "sizeInBytes")
        tasks.append(Task(name, options.work(where, entry, speeds), sizes["input"], sizes["output"]))
    return tasks


def _speeds(where: str, entries: Entries) -> dict[str, float | None]:
    """Return the speed of each machine in GHz, None where it is not stated."""
    if not has(entries, "machines"):
        return {}
    found: dict[str, float | None] = {}
    for name, machine in _by_name(where, entries, "machines", "nodeName").items():
        here = f"{where}: machine {name!r}"
        processor = object_of(here, machine, "cpu") if has(machine, "cpu") else {}
        key = next((key for key in ("speedInMHz", "speed") if has(processor, key)), None)
        found[name] = None if key is None else number(here, processor, key) / 1000
    return found


def _edges(source: str, entries: dict[str, Entries], relations: Relations) -> list[Pair]:
    """Return the edges in the order of the children, first those that the children name."""
    required = relations == "both"
    upward: dict[Pair, None] = {}
    downward: dict[Pair, None] = {}
    for name, entry in entries.items():
        where = f"{source}: task {name!r}"
        parents = _relatives(where, entry, "parents", entries, required)
        children = _relatives(where, entry, "children", entries, required)
        upward |= dict.fromkeys((parent, name) for parent in parents)
        downward |= dict.fromkeys((name, child) for child in children)
    if required:
        _check_agreement(source, upward, downward)
    return list(upward | downward)


def _relatives(where: str, entry: Entries, key: str, known: Iterable[str], required: bool) -> Sequence[str]:
    names = text_list(where, entry, key, required=required)
    seen: set[str] = set()
    for name in names:
        if name not in known:
            raise WorkloadError(f"{where}: {key} names the unknown task {shown(name)}")
        if name in seen:
            raise WorkloadError(f"{where}: {key} names {shown(name)} twice")
        seen.add(name)
    return names


def _check_agreement(source: str, upward: dict[Pair, None], downward: dict[Pair, None]) -> None:
    hint = "relations='either' accepts it"
    for parent, child in upward:
        if (parent, child) not in downward:
            raise WorkloadError(
                f"{source}: task {child!r} names the parent {parent!r}, which does not name it as a child; {hint}"
            )
    for parent, child in downward:
        if (parent, child) not in upward:
            raise WorkloadError(
                f"{source}: task {parent!r} names the child {child!r}, which does not name it as a parent; {hint}"
            )
