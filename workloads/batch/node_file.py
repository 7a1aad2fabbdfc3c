"""Nodes of a cluster from a small file, or from counts such as ``18x80,26x12``.

A YAML file is a list of nodes, or has one under ``nodes``. A CSV file has one row per node or group of nodes, with
these names in the first line:

==============  ===================================================================================================
``name``        unique name; for several nodes, the beginning of their names. Default: ``n`` and the number of the entry
``count``       number of identical nodes; default 1
``cores``       cores per node
``memory``      memory per node, in bytes or with a unit: ``64 GiB``, ``512M`` (K is 1,024, M is 1,024 squared, ...)
``gpus``        GPUs per node
``gpu_model``   model of the GPUs
``partition``   partition of the nodes
``features``    a list; in CSV, names separated by blanks
``speed``       speed factor: the run times of jobs are divided by it; default 1
``resources``   in YAML, amounts by name; in CSV, each resource has its own column, such as ``resource:tokens``
==============  ===================================================================================================

Any other name is refused, because a misspelt name would otherwise silently leave the cluster without that resource.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from desim.checks import check_int
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch import Node
from desim.problems.batch.nodes import MOST_NODES, NodeTable
from desim.problems.batch.parts.text import csv_entries, number_of, yaml_entries
from desim.reading import bytes_of
from desim.workloads.files import Pathish, read_text
from desim.workloads.json_fields import short_repr

__all__ = ["counted", "read", "read_or_count"]

_WHOLE, _WORDS = ("count", "cores", "gpus"), ("name", "gpu_model", "partition")
_KNOWN = (*_WORDS, *_WHOLE, "memory", "speed", "features", "resources")
_RESOURCE = "resource:"
_MOST_DIGITS = 16
_COUNTS = re.compile(r"([0-9]+)x([0-9]+)")


def read(path: Pathish) -> list[Node]:
    """Return the nodes of a file.

    Parameters
    ----------
    path : str or path-like
        CSV file if its name ends in ``.csv``, otherwise a YAML file.

    Returns
    -------
    list of Node
        Nodes in the order of the file.

    Raises
    ------
    WorkloadError
        If the file cannot be read, or has an unknown name or an invalid amount; the message names the file, the line
        or entry, and the name.
    """
    source = os.fspath(path)
    text = read_text(path)
    entries = _csv_nodes(source, text) if source.lower().endswith(".csv") else _yaml_nodes(source, text)
    nodes: list[Node] = []
    for number, (where, entry) in enumerate(entries):
        nodes += _nodes_of(where, entry, f"n{number}")
    try:
        NodeTable(nodes)  # raises if there is no node, or if two have the same name
    except InvalidConfiguration as error:
        raise WorkloadError(f"{source}: {error}") from error
    return nodes


def counted(text: str) -> list[Node]:
    """Return nodes that have only cores, from counts.

    Parameters
    ----------
    text : str
        Counts of the form ``NODESxCORES``, separated by commas.

    Returns
    -------
    list of Node
        Nodes named ``n0``, ``n1`` and so on.

    Raises
    ------
    InvalidConfiguration
        If the text has another form, or a count is 0.

    Examples
    --------
    >>> nodes = counted("2x80,1x12")
    >>> [node.name for node in nodes], [node.cores for node in nodes]
    (['n0', 'n1', 'n2'], [80, 80, 12])
    """
    parts = [_COUNTS.fullmatch(part.strip()) for part in text.split(",")]
    if not all(part and int(part[1]) and int(part[2]) for part in parts):
        raise InvalidConfiguration(f"nodes: got {text!r}, expected a file, or counts >= 1 such as 16x64 or 18x80,26x12")
    check_int("nodes", sum(int(part[1]) for part in parts if part), least=1, most=MOST_NODES)
    cores = [int(part[2]) for part in parts if part for _ in range(int(part[1]))]
    return [Node(f"n{number}", each) for number, each in enumerate(cores)]


def read_or_count(source: str) -> list[Node]:
    """Return the nodes of a file, or nodes from counts if there is no such file.

    Parameters
    ----------
    source : str
        File as for :func:`read`, or counts as for :func:`counted`.

    Returns
    -------
    list of Node
        At least one node.

    Raises
    ------
    WorkloadError
        If the file exists and cannot be read.
    InvalidConfiguration
        If the text is neither a file nor counts.
    """
    if not os.path.exists(source) and not source.lower().endswith((".csv", ".yaml", ".yml")):  # noqa: PTH110  # a str
        return counted(source)
    return read(source)


def _csv_nodes(source: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the values of each row."""
    for where, row in csv_entries(source, text, _check_columns):
        cells = {name: cell for name, cell in row.items() if cell}
        entry: dict[str, Any] = {name: cell for name, cell in cells.items() if not name.startswith(_RESOURCE)}
        entry["features"] = cells.get("features", "").split()
        further = {name: cell for name, cell in cells.items() if name.startswith(_RESOURCE)}
        entry["resources"] = {name.removeprefix(_RESOURCE): cell for name, cell in further.items()}
        yield where, entry


def _check_columns(where: str, names: Sequence[str]) -> None:
    for name in names:
        if not name.removeprefix(_RESOURCE) or name == "resources":
            raise WorkloadError(f"{where}: got column {name!r}, expected one per resource, such as resource:tokens")
        if not name.startswith(_RESOURCE):
            _check_known(where, "column", name)


def _yaml_nodes(source: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the values of each entry."""
    for where, entry in yaml_entries(source, text, "nodes", "node"):
        for name in entry:
            _check_known(where, "resource", str(name))
        features, resources = entry.get("features") or [], entry.get("resources") or {}
        if not isinstance(features, list) or not isinstance(resources, Mapping):
            raise WorkloadError(f"{where}: expected a list as features, and amounts by name as resources")
        yield where, entry | {"features": list(map(str, features)), "resources": resources}


def _check_known(where: str, what: str, name: str) -> None:
    if name not in _KNOWN:
        close = get_close_matches(name, _KNOWN, 1)
        hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(_KNOWN)};"
        further = f"a column resource:{name}" if what == "column" else f"written as resources: {{{name}: AMOUNT}}"
        raise WorkloadError(f"{where}: unknown {what} {name!r}, {hint} a custom resource is {further}")


def _nodes_of(where: str, entry: Mapping[str, Any], name: str) -> list[Node]:
    """Return the nodes of one entry of a file."""
    if "cores" not in entry:
        raise WorkloadError(f"{where}: cores: got nothing, expected an integer >= 1")
    counts = {what: _count(where, what, entry[what]) for what in _WHOLE if what in entry}
    words = {what: str(entry[what]) for what in _WORDS if entry.get(what)}
    resources = {str(what): _count(where, what, value) for what, value in entry["resources"].items()}
    number, name = counts.pop("count", 1), words.pop("name", name)
    try:
        options: dict[str, Any] = {**counts, **words, "memory": bytes_of("memory", entry.get("memory", 0))}
        if "speed" in entry:
            options["speed"] = number_of(where, "speed", entry["speed"])
        options |= {"features": frozenset(entry["features"]), "resources": resources}
        if "count" in entry:
            return Node.several(number, name=name, **options)
        return [Node(name, **options)]
    except InvalidConfiguration as error:
        raise WorkloadError(f"{where}: {error}") from error


def _count(where: str, what: str, value: Any) -> int:
    """Return an integer >= 0, which is an int in YAML and text in CSV."""
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdecimal() and len(text) < _MOST_DIGITS):
        raise WorkloadError(f"{where}: {what}: got {short_repr(value)}, expected an integer from 0 to 1e15")
    return int(text)
