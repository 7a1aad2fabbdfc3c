"""DAX: read abstract workflows of Pegasus in XML, versions 2 and 3.

A job of the workflow becomes a node; its work is its run time times a reference speed. An edge (``<child>`` and
``<parent>``) has the total size in bytes of the files that its parent writes and its child reads, or 0 if there are
none. Data that a job reads from outside the workflow, or from a job that is not its parent, is on no edge. If several
parents of a job write the same file, its size counts on each of their edges. If writer and reader state different sizes
of a file, the writer's size counts. Some generators have written sizes that are negative, because they count in 32
bits, and relations more than once: of the former, the absolute value is used, and both are counted in the report.

A ``<uses>`` element names its file by ``file`` (version 2), or by ``name`` and optionally ``namespace`` and
``version`` (version 3). A size or run time is an attribute, or a ``<metadata>`` or ``<profile>`` element with the key
``size`` or ``runtime``. Files with a document type declaration are refused, because it can define entities that fill
the memory.

Reference: E. Deelman et al., "Pegasus, a workflow management system for science automation", Future Generation
Computer Systems 46, 2015.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, Unpack
from xml.parsers import expat

from desim.exceptions import WorkloadError
from desim.problems.dag.job import Job
from desim.reading import current_limits, read_bytes
from desim.workloads.catalogue import located
from desim.workloads.dag._workflow import Pair, Repairs, Task, WorkflowOptions, WorkflowReport, build
from desim.workloads.files import Pathish
from desim.workloads.json_fields import LARGEST, short_repr

__all__ = ["read"]

_LINKS = ("input", "output", "inout", "none")
_OTHER_NODES = ("dag", "dax")


def read(
    path: Pathish,
    *,
    report: WorkflowReport | None = None,
    **options: Unpack[WorkflowOptions],
) -> Job:
    """Read a DAX workflow as a job.

    Parameters
    ----------
    path : str or path-like
        DAX file, plain or gzip (recognized by its content).
    report : WorkflowReport, optional
        Report to complete: it counts what was changed and ignored.
    **options : WorkflowOptions
        Defaults for what the file does not state, and repairs, see `WorkflowOptions`.

    Returns
    -------
    Job
        Job 0, submitted at time 0 (see `submissions`). Its nodes are named by the ids of the workflow's jobs, and its
        label is the workflow's name.

    Raises
    ------
    WorkloadError
        If the file cannot be read, is not a DAX document, or its graph is invalid; the message names the file, the
        line or the jobs.
    InvalidConfiguration
        If an option is out of range.
    """
    repairs = Repairs(**options)
    source = str(path)
    root = _parse_xml(source, read_bytes(located(path)))
    if root.tag != "adag":
        raise WorkloadError(f"{source}: line {root.line}: got the root <{root.tag:.40}>, expected <adag>")
    version = root.attributes.get("version", "2.1")
    if version.partition(".")[0] not in ("2", "3"):
        raise WorkloadError(f"{source}: line {root.line}: version: got {short_repr(version)}, expected 2.x or 3.x")
    tasks = _tasks(source, root, repairs)
    return build(
        source,
        root.attributes.get("name", ""),
        list(tasks.values()),
        _edges(source, root, tasks),
        repairs=repairs,
        report=report,
    )


def _tasks(source: str, root: _Element, repairs: Repairs) -> dict[str, Task]:
    tasks: dict[str, Task] = {}
    for element in root.children:
        where = f"{source}: line {element.line}"
        if element.tag in _OTHER_NODES:
            raise WorkloadError(f"{where}: got a nested workflow <{element.tag}>, expected only <job>")
        if element.tag != "job":
            continue
        name = _attribute(where, element, "id")
        if name in tasks:
            raise WorkloadError(f"{where}: got a second job {name!r}, expected distinct ids")
        work = repairs.work(f"{where}: job {name!r}", _stated(where, element, "runtime"))
        tasks[name] = Task(name, work, *_files(source, element, repairs))
    if not tasks:
        raise WorkloadError(f"{source}: got no job, expected at least one")
    return tasks


def _files(
    source: str, job: _Element, repairs: Repairs
) -> tuple[Mapping[str, float | None], Mapping[str, float | None]]:
    """Return the sizes of the files that a job reads, and of those that it writes, by name."""
    reads: dict[str, float | None] = {}
    writes: dict[str, float | None] = {}
    for element in job.named("uses"):
        where = f"{source}: line {element.line}"
        link = _attribute(where, element, "link")
        if link not in _LINKS:
            raise WorkloadError(f"{where}: link: got {short_repr(link)}, expected one of {', '.join(_LINKS)}")
        file = element.attributes.get("file") or _attribute(where, element, "name")
        for part in ("namespace", "version"):
            if part in element.attributes:
                file = f"{file} {part} {element.attributes[part]}"
        size = repairs.size(f"{where}: {file!r}", _stated(where, element, "size", least=-LARGEST))
        if link in ("input", "inout"):
            reads[file] = size
        if link in ("output", "inout"):
            writes[file] = size
    return reads, writes


def _edges(source: str, root: _Element, tasks: Mapping[str, Task]) -> Iterator[Pair]:
    for child in root.named("child"):
        below = _reference(source, child, tasks)
        for parent in child.named("parent"):
            yield _reference(source, parent, tasks), below


def _reference(source: str, element: _Element, tasks: Mapping[str, Task]) -> str:
    where = f"{source}: line {element.line}"
    name = _attribute(where, element, "ref")
    if name not in tasks:
        raise WorkloadError(f"{where}: <{element.tag}>: got {short_repr(name)}, expected the id of a job")
    return name


def _attribute(where: str, element: _Element, name: str) -> str:
    value = element.attributes.get(name)
    if not value:
        raise WorkloadError(f"{where}: <{element.tag}> has no attribute {name}")
    return value


def _stated(where: str, element: _Element, key: str, least: float = 0.0) -> float | None:
    """Return the number stated in an attribute or in a nested element, None if there is none."""
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
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= LARGEST or "_" in text or not text.isascii():
        raise WorkloadError(f"{where}: {key}: got {short_repr(text)}, expected a number from {least:g} to 1e15")
    return value


@dataclass
class _Element:
    """XML element: its name without namespace, attributes, first line, direct text, and child elements."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    text: str = ""
    children: list[_Element] = field(default_factory=list)

    def named(self, tag: str) -> Iterator[_Element]:
        """Yield the children with a given name."""
        return (child for child in self.children if child.tag == tag)


def _parse_xml(source: str, content: bytes) -> _Element:
    """Return the root element of a document.

    A document type declaration is refused: only there can entities be defined that expand a small file without bound.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    top = _Element("", {}, 0)
    path, deepest = [top], current_limits().depth

    def refuse_doctype(*_: object) -> NoReturn:
        raise WorkloadError(
            f"{source}: line {parser.CurrentLineNumber}: got a document type declaration, expected none"
        )

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(path) > deepest:
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
    except (LookupError, ValueError) as error:  # an unknown encoding, or one that is not for text
        raise WorkloadError(f"{source}: line {parser.CurrentLineNumber}: is not XML: {error}") from error
    return top.children[0]
