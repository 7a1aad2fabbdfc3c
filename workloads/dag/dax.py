"""DAX: abstract workflows of Pegasus in XML, versions 2 and 3, read.

A job of the workflow becomes a node whose work is its run time times a reference speed. An edge, ``<child>`` and
``<parent>``, carries the bytes of the files that its parent writes and its child reads; one without such a file carries
0. What a job reads from outside the workflow, or from a job that is not its parent, counts on no edge. A file that
several parents of a job write counts on each of these edges. Where writer and reader state different sizes of a file,
the writer's counts.

A ``<uses>`` names its file by ``file`` (version 2) or by ``name``, with ``namespace`` and ``version`` if it has them
(version 3). A size or run time is an attribute, or a ``<metadata>`` or ``<profile>`` element with the key ``size`` or
``runtime``. Files with a document type declaration are refused, since it can define entities that fill the memory.

Reference: E. Deelman et al., "Pegasus, a workflow management system for science automation", Future Generation
Computer Systems 46, 2015.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from desim.checks import check_float
from desim.exceptions import WorkloadError
from desim.problems.dag.job import Job
from desim.workloads.dag._workflow import Pair, Task, build
from desim.workloads.files import Pathish, read_bytes
from desim.workloads.json_fields import LARGEST, short_repr

__all__ = ["read"]

_LINKS = ("input", "output", "inout", "none")
_OTHER_NODES = ("dag", "dax")
_DEEPEST = 100


def read(
    path: Pathish,
    *,
    reference_speed: float = 1.0,
    default_run_time: float | None = None,
    default_size: float | None = None,
    allow_disconnected: bool = False,
) -> Job:
    """Read a workflow as a job.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzip (recognized by its content).
    reference_speed : float
        Work per second of what the run times were measured on: a node's work is its run time times this.
    default_run_time : float, optional
        Seconds for a job that states no run time; without it, such a job is refused.
    default_size : float, optional
        Bytes of a file on an edge whose size is not stated; without it, such a file is refused.
    allow_disconnected : bool
        Accept a workflow of several parts.

    Returns
    -------
    Job
        Job 0, submitted at time 0 (see `submissions`). Its nodes are called as the ids of the workflow's jobs, its
        label is the workflow's name.

    Raises
    ------
    WorkloadError
        If the file cannot be read, is no such document, or its graph makes no sense; the message names the file, the
        line or the jobs.
    InvalidConfiguration
        If an option is out of range.
    """
    speed = check_float("reference_speed", reference_speed, above=0)
    run_time = None if default_run_time is None else check_float("default_run_time", default_run_time, least=0)
    size = None if default_size is None else check_float("default_size", default_size, least=0)
    source = str(path)
    root = _parse_xml(source, read_bytes(path))
    if root.tag != "adag":
        raise WorkloadError(f"{source}: line {root.line}: the root is <{root.tag:.40}>, want <adag>")
    version = root.attributes.get("version", "2.1")
    if version.partition(".")[0] not in ("2", "3"):
        raise WorkloadError(f"{source}: line {root.line}: version is {short_repr(version)}, want 2.x or 3.x")
    tasks = _tasks(source, root, speed, run_time, size)
    label, edges = root.attributes.get("name", ""), _edges(source, root, tasks)
    return build(source, label, list(tasks.values()), edges, allow_disconnected=allow_disconnected)


def _tasks(source: str, root: _Element, speed: float, run_time: float | None, size: float | None) -> dict[str, Task]:
    tasks: dict[str, Task] = {}
    for element in root.children:
        where = f"{source}: line {element.line}"
        if element.tag in _OTHER_NODES:
            raise WorkloadError(f"{where}: holds a workflow of its own, <{element.tag}>, want <job> only")
        if element.tag != "job":
            continue
        name = _attribute(where, element, "id")
        if name in tasks:
            raise WorkloadError(f"{where}: the id {name!r} is taken by an earlier job")
        seconds = _stated(where, element, "runtime", run_time)
        if seconds is None:
            raise WorkloadError(f"{where}: job {name!r} has no run time; default_run_time gives it one")
        tasks[name] = Task(name, seconds * speed, *_files(source, element, size))
    if not tasks:
        raise WorkloadError(f"{source}: holds no job")
    return tasks


def _files(
    source: str, job: _Element, default: float | None
) -> tuple[Mapping[str, float | None], Mapping[str, float | None]]:
    """Return the sizes of the files that a job reads, and of those that it writes."""
    reads: dict[str, float | None] = {}
    writes: dict[str, float | None] = {}
    for element in job.named("uses"):
        where = f"{source}: line {element.line}"
        link = _attribute(where, element, "link")
        if link not in _LINKS:
            raise WorkloadError(f"{where}: link is {short_repr(link)}, want one of {', '.join(_LINKS)}")
        file = element.attributes.get("file") or _attribute(where, element, "name")
        for part in ("namespace", "version"):
            if part in element.attributes:
                file = f"{file} {part} {element.attributes[part]}"
        size = _stated(where, element, "size", default)
        if link in ("input", "inout"):
            reads[file] = size
        if link in ("output", "inout"):
            writes[file] = size
    return reads, writes


def _edges(source: str, root: _Element, tasks: Mapping[str, Task]) -> list[Pair]:
    lines: dict[Pair, int] = {}
    for child in root.named("child"):
        below = _reference(source, child, tasks)
        for parent in child.named("parent"):
            pair = _reference(source, parent, tasks), below
            if pair in lines:
                raise WorkloadError(
                    f"{source}: line {parent.line}: the edge {pair[0]!r} -> {pair[1]!r} is given twice, first on line "
                    f"{lines[pair]}"
                )
            lines[pair] = parent.line
    return list(lines)


def _reference(source: str, element: _Element, tasks: Mapping[str, Task]) -> str:
    where = f"{source}: line {element.line}"
    name = _attribute(where, element, "ref")
    if name not in tasks:
        raise WorkloadError(f"{where}: <{element.tag}> names the unknown job {short_repr(name)}")
    return name


def _attribute(where: str, element: _Element, name: str) -> str:
    value = element.attributes.get(name)
    if not value:
        raise WorkloadError(f"{where}: <{element.tag}> has no {name}")
    return value


def _stated(where: str, element: _Element, key: str, default: float | None) -> float | None:
    """Return the number that an element states as an attribute or in an element of its own."""
    text = element.attributes.get(key)
    if text is None:
        inside = (
            child.text
            for tag in ("metadata", "profile")
            for child in element.named(tag)
            if child.attributes.get("key") == key
        )
        text = next(inside, None)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= LARGEST or "_" in text:
        raise WorkloadError(f"{where}: {key} is {short_repr(text)}, want a number between 0 and 1e15")
    return value


@dataclass
class _Element:
    """An element: its name without the namespace, the line on which it begins, the text directly in it."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    text: str = ""
    children: list[_Element] = field(default_factory=list)

    def named(self, tag: str) -> Iterator[_Element]:
        """Yield the children of a name."""
        return (child for child in self.children if child.tag == tag)


def _parse_xml(source: str, content: bytes) -> _Element:
    """Return the root element of a document.

    A document type declaration is refused: only there can entities be defined that blow up a small file.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    top = _Element("", {}, 0)
    path = [top]

    def refuse_doctype(*_: object) -> NoReturn:
        raise WorkloadError(f"{source}: line {parser.CurrentLineNumber}: has a document type declaration, want none")

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(path) > _DEEPEST:
            raise WorkloadError(f"{source}: line {parser.CurrentLineNumber}: is nested too deeply")
        element = _Element(name.rpartition(" ")[2], attributes, parser.CurrentLineNumber)
        path[-1].children.append(element)
        path.append(element)

    def end(_: str) -> None:
        path.pop()

    def characters(text: str) -> None:
        path[-1].text += text

    parser.StartDoctypeDeclHandler = refuse_doctype
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    try:
        parser.Parse(content, True)
    except WorkloadError:
        raise
    except expat.ExpatError as error:
        raise WorkloadError(f"{source}: line {error.lineno}: is not XML: {expat.ErrorString(error.code)}") from error
    except (LookupError, ValueError) as error:  # an encoding that is unknown, or none for text
        raise WorkloadError(f"{source}: line {parser.CurrentLineNumber}: is not XML: {error}") from error
    return top.children[0]
