"""CERIT-SC 2013 (``wagap-2013``): a log with the jobs' requests for nodes, CPUs and memory, and their allocated nodes.

Its rows have three fields after the 18 of the Standard Workload Format: the node of each allocated CPU, the
queue, and the request in TORQUE syntax, such as ``2:ppn=12:cl_zegox``. Fields 17 and 18 are the constant 1 and have
no meaning. A small table next to the log describes the clusters.

* A job has one task per requested node, at most one on each node; field 10 is the memory per node.
* The reader uses these node properties: clusters (``cl_zewura``, ``^cl_zegox``), CPUs (``nodecpus80``) and exclusive
  use. It ignores host names, properties of all nodes, and properties that no table assigns to nodes, and counts these
  rows in the report.
* Unequal parts (``1:ppn=1+3:ppn=2``) become tasks of one CPU, on any nodes.

The nodes are those that occur in the log. If jobs on a node requested more memory at the same time than the table
states, the node gets the requested amount; otherwise the recorded schedule could not be replayed.

Source: D. Klusacek and S. Chlumsky, "Evaluating the impact of soft walltimes on job scheduling performance", JSSPP
2018; the log is provided by CERIT-SC and MetaCentrum.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Unpack

from desim.exceptions import WorkloadError
from desim.problems.batch import Node, Request
from desim.workloads.batch import swf
from desim.workloads.batch.selection import TraceOptions
from desim.workloads.batch.trace import Trace, TraceReason
from desim.workloads.files import Pathish, chunks, line_blocks, read_text

__all__ = ["is_such", "read"]

_FIELDS = 21
_PPN = re.compile(r"ppn=(\d+)(?:\.\d+)?")  # of a fraction, jobs got the integer part
_IDS = re.compile(r"\d+")


@dataclass(frozen=True)
class _Row:
    """Additional fields of a row: memory in bytes per node, number of CPUs by node, queue, request."""

    memory: int
    cpus: Counter[int]
    queue: str
    request: str


def is_such(path: Pathish) -> bool:
    """Return whether a file looks like this log: 21 fields per row, the 19th being a list in braces."""
    for _, block in line_blocks(path, chunks(path)):
        for line in block.split(b"\n"):
            row = line.split()
            if row and row[0][:1] != b";":
                return len(row) == _FIELDS and row[18][:1] == b"{"
    return False


def read(path: Pathish, *, machines: Pathish | None = None, **options: Unpack[TraceOptions]) -> Trace:
    """Read the CERIT-SC log.

    Parameters
    ----------
    path : str or path-like
        Log file, plain or gzip.
    machines : str or path-like, optional
        Table of the clusters (default: the file next to the log, with ``.machines`` in place of ``.gz``).
    **options : TraceOptions
        Filters and repairs, see `TraceOptions`.

    Returns
    -------
    Trace
        Jobs with requests, the nodes, recorded waits, queue names, and recorded allocations.

    Raises
    ------
    WorkloadError
        If a file cannot be read or has another format; the message names file and line.
    InvalidConfiguration
        If an option is out of range.
    """
    source = os.fspath(path)
    beside = source.removesuffix(".gz") + ".machines" if machines is None else machines
    clusters = _clusters(beside)
    trace = swf.read(path, **options)
    if isinstance(trace.report, swf.SWFReport):
        trace.report.unread = ()  # requested memory is read here
    for reason in (TraceReason.EXTRA_FIELDS, TraceReason.DEPENDENCY):  # the former are read, the latter has no meaning
        trace.report.counts.pop(reason, None)
    rows = dict(_rows(source))
    kept = [rows[place] for place in trace.place.tolist()]
    nodes = _nodes(source, trace, kept, clusters)
    requests: list[Request] = []
    where: list[list[tuple[str, int]]] = []
    ignored, unequal = [], []
    for job, row, place in zip(trace.jobs, kept, trace.place.tolist(), strict=True):
        request, is_ignored, is_unequal = _request(row.request, row.memory, frozenset(clusters))
        if request is None or request.tasks * request.cores != job.requested_cores:
            raise WorkloadError(f"{source}: line {place}: field 21: got {row.request!r}, expected the CPUs of field 5")
        requests.append(request)
        where.append([(str(node), cpus // request.cores) for node, cpus in sorted(row.cpus.items())])
        ignored += [place] * is_ignored
        unequal += [place] * is_unequal
    trace.report.add(TraceReason.IGNORED_PROPERTIES, ignored)
    trace.report.add(TraceReason.UNEQUAL_PARTS, unequal)
    jobs = trace.jobs.with_columns(request=requests, queue=[row.queue for row in kept])
    return replace(trace, jobs=jobs.with_columns(secret=True, recorded_nodes=where), nodes=tuple(nodes))


def _rows(source: str) -> Iterator[tuple[int, _Row]]:
    """Yield the line number and the additional fields of each row."""
    for first, block in line_blocks(source, chunks(source)):
        for number, line in enumerate(block.decode("ascii", "replace").split("\n"), first):
            row = line.split()
            if not row or row[0][0] == ";":
                continue
            if len(row) != _FIELDS or not _IDS.fullmatch(row[9]):
                raise WorkloadError(f"{source}: line {number}: expected {_FIELDS} fields, and bytes in field 10")
            yield number, _Row(int(row[9]), Counter(map(int, _IDS.findall(row[18]))), row[19], row[20])


def _clusters(path: Pathish) -> dict[str, tuple[int, int]]:
    """Return CPUs and bytes of memory per node, by cluster."""
    source = os.fspath(path)
    if not Path(path).exists():
        raise WorkloadError(f"{source}: no such file; it must state CPUs and memory of the nodes")
    clusters = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        cells = line.split()
        if len(cells) != 6 or not all(map(_IDS.fullmatch, (cells[2], cells[3], cells[5]))):
            raise WorkloadError(
                f"{source}: line {number}: expected cluster, name, nodes, CPUs, speed and KB of memory per node"
            )
        clusters[cells[1]] = int(cells[3]), int(cells[5]) * 1024
    return clusters


def _nodes(source: str, trace: Trace, rows: Iterable[_Row], clusters: Mapping[str, tuple[int, int]]) -> list[Node]:
    """Return the nodes used in the log; each belongs to the smallest cluster whose nodes have enough CPUs."""
    events: list[tuple[float, int, _Row]] = []
    for job, wait, row in zip(trace.jobs, trace.waiting_time.tolist(), rows, strict=True):
        start = job.submission_time + max(0.0, wait)
        # An end releases resources before a start at the same time; a job with run time 0 still occupies its nodes
        events += [(start, 1, row), (max(start + job.run_time, start + 1e-3), -1, row)]
    cpus: Counter[int] = Counter()
    memory: Counter[int] = Counter()
    most: dict[int, tuple[int, int]] = {}
    for _, sign, row in sorted(events, key=lambda event: event[:2]):
        for node, count in row.cpus.items():
            cpus[node] += sign * count
            memory[node] += sign * row.memory
            before = most.get(node, (0, 0))
            most[node] = max(before[0], cpus[node]), max(before[1], memory[node])
    by_size = sorted(clusters.items(), key=lambda cluster: cluster[1])
    nodes = []
    for node, (needed, held) in sorted(most.items()):
        name, (size, stated) = next(((name, one) for name, one in by_size if one[0] >= needed), ("", (0, 0)))
        if not name:
            raise WorkloadError(f"{source}: node {node}: got {needed} busy CPUs, expected at most those of a cluster")
        features = frozenset({f"cl_{name}", f"nodecpus{size}"})
        nodes.append(Node(str(node), size, max(stated, held), partition=name, features=features))
    return nodes


@lru_cache(maxsize=4096)
def _request(text: str, memory: int, clusters: frozenset[str]) -> tuple[Request | None, bool, bool]:
    """Return the request in a text, whether part of it is ignored, and whether its parts are unequal."""
    body, _, flag = text.partition("#")
    parts = [part.split(":") for part in body.split("+")]
    counts = [int(part[0]) if part[0].isdecimal() else 1 for part in parts]  # a part without a count is one node
    cpus = [int(next((ppn[1] for ppn in map(_PPN.fullmatch, part) if ppn), "1")) for part in parts]
    words = {word for part in parts for word in part if not (word.isdecimal() or _PPN.fullmatch(word))}
    if flag not in ("", "excl") or min(*counts, *cpus) < 1:
        return None, False, False
    known = {f"cl_{name}" for name in clusters}
    wanted = sorted(word for word in words if word in known or word.startswith("nodecpus"))
    without = sorted(word[1:] for word in words if word[:1] == "^" and word[1:] in known)
    is_ignored = len(words) > len(wanted) + len(without)
    is_unequal = len(set(cpus)) > 1
    tasks = sum(count * each for count, each in zip(counts, cpus, strict=True)) if is_unequal else sum(counts)
    request = Request(
        tasks,
        1 if is_unequal else cpus[0],
        memory // max(cpus) if is_unequal else memory,
        features=tuple(wanted),
        excluded_features=tuple(without),
        exclusive=flag == "excl",
        tasks_per_node=None if is_unequal else 1,
    )
    return request, is_ignored, is_unequal
