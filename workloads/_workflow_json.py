"""JSON documents of workflows and models: decoded, and taken apart with exact complaints."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from desim.exceptions import WorkloadError
from desim.workloads._columns import LARGEST

__all__ = ["decode", "entry_list", "has", "number", "object_of", "shown", "text", "text_list"]

Entries = dict[str, Any]
_SHOWN = 40


def decode(source: str, content: bytes) -> Entries:
    """Return the object that a document holds.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    content : bytes
        What the file holds.

    Returns
    -------
    dict
        Of whatever content.

    Raises
    ------
    WorkloadError
        If it is no JSON, or no object.
    """

    def refuse(constant: str) -> NoReturn:
        raise WorkloadError(f"{source}: holds {constant}, want finite numbers")

    try:
        document = json.loads(content.decode("utf-8-sig"), parse_constant=refuse)
    except WorkloadError:
        raise
    except UnicodeDecodeError as error:
        raise WorkloadError(
            f"{source}: byte 0x{content[error.start]:02x} at {error.start} is not UTF-8 text"
        ) from error
    except RecursionError as error:
        raise WorkloadError(f"{source}: is nested too deeply") from error
    except ValueError as error:
        raise WorkloadError(f"{source}: is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise WorkloadError(f"{source}: is {shown(document)}, want a JSON object")
    return document


def has(entries: Entries, key: str) -> bool:
    """Return whether an object has an entry that is not null."""
    return entries.get(key) is not None


def object_of(where: str, entries: Entries, key: str) -> Entries:
    """Return an entry that is an object; an error says where, and what there is instead."""
    value = entries.get(key)
    if not isinstance(value, dict):
        raise WorkloadError(f"{where}: {key} is {shown(value)}, want a JSON object")
    return value


def entry_list(where: str, entries: Entries, key: str) -> list[Entries]:
    """Return an entry that is a list of objects."""
    value = entries.get(key)
    if not isinstance(value, list):
        raise WorkloadError(f"{where}: {key} is {shown(value)}, want a JSON list")
    for at, item in enumerate(value):
        if not isinstance(item, dict):
            raise WorkloadError(f"{where}: {key}[{at}] is {shown(item)}, want a JSON object")
    return value


def text(where: str, entries: Entries, key: str) -> str:
    """Return an entry that is a string with something in it."""
    value = entries.get(key)
    if not isinstance(value, str) or not value:
        raise WorkloadError(f"{where}: {key} is {shown(value)}, want a string")
    return value


def text_list(where: str, entries: Entries, key: str, *, required: bool = True) -> list[str]:
    """Return an entry that is a list of strings; empty if it is not required and missing."""
    if not required and not has(entries, key):
        return []
    value = entries.get(key)
    if not isinstance(value, list):
        raise WorkloadError(f"{where}: {key} is {shown(value)}, want a JSON list")
    for at, item in enumerate(value):
        if not isinstance(item, str):
            raise WorkloadError(f"{where}: {key}[{at}] is {shown(item)}, want a string")
    return value


def number(where: str, entries: Entries, key: str) -> float:
    """Return an entry that is a number of at least 0."""
    value = entries.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WorkloadError(f"{where}: {key} is {shown(value)}, want a number")
    if not 0 <= value <= LARGEST:
        raise WorkloadError(f"{where}: {key} is {shown(value)}, want a number between 0 and 1e15")
    return float(value)


def shown(value: Any) -> str:
    """Return a short text for a value of a document."""
    if isinstance(value, dict | list):
        return f"a JSON {'object' if isinstance(value, dict) else 'list'}"
    words = "missing" if value is None else repr(value)
    return words if len(words) <= _SHOWN else words[: _SHOWN - 3] + "..."
