"""JSON documents: decoded, and taken apart with exact complaints."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from desim.exceptions import WorkloadError
from desim.workloads.files import Pathish, read_bytes

__all__ = ["LARGEST", "Entries", "has", "listed", "number", "object_of", "read_object", "short_repr", "text"]

#: Larger numbers are refused: they stand for nothing in a workload, and whole ones up to here are exact as floats.
LARGEST = 1e15

Entries = dict[str, Any]
_SHOWN = 40


def read_object(path: Pathish) -> Entries:
    """Return the object that a file holds.

    Parameters
    ----------
    path : str or path-like
        A JSON file, plain or gzip.

    Returns
    -------
    dict
        Of whatever content.

    Raises
    ------
    WorkloadError
        If the file cannot be read, or is no JSON or no object.
    """
    content = read_bytes(path)

    def _refuse(constant: str) -> NoReturn:
        raise WorkloadError(f"{path}: holds {constant}, want finite numbers")

    try:
        document = json.loads(content.decode("utf-8-sig"), parse_constant=_refuse)
    except WorkloadError:
        raise
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path}: byte 0x{content[error.start]:02x} at {error.start} is not UTF-8 text") from error
    except RecursionError as error:
        raise WorkloadError(f"{path}: is nested too deeply") from error
    except ValueError as error:
        raise WorkloadError(f"{path}: is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise WorkloadError(f"{path}: is {'null' if document is None else short_repr(document)}, want a JSON object")
    return document


def has(entries: Entries, key: str) -> bool:
    """Return whether an object has an entry that is not null."""
    return entries.get(key) is not None


def object_of(where: str, entries: Entries, key: str) -> Entries:
    """Return an entry that is an object; an error says where, and what there is instead."""
    value = entries.get(key)
    if not isinstance(value, dict):
        raise WorkloadError(f"{where}: {key} is {short_repr(value)}, want a JSON object")
    return value


def listed(where: str, entries: Entries, key: str, kind: type[Any] = object) -> list[Any]:
    """Return an entry that is a list, of strings or objects if the kind is str or dict."""
    value = entries.get(key)
    if not isinstance(value, list):
        raise WorkloadError(f"{where}: {key} is {short_repr(value)}, want a JSON list")
    for at, item in enumerate(value):
        if not isinstance(item, kind):
            wanted = "a string" if kind is str else "a JSON object"
            raise WorkloadError(f"{where}: {key}[{at}] is {short_repr(item)}, want {wanted}")
    return value


def text(where: str, entries: Entries, key: str) -> str:
    """Return an entry that is a string with something in it."""
    value = entries.get(key)
    if not isinstance(value, str) or not value:
        raise WorkloadError(f"{where}: {key} is {short_repr(value)}, want a string")
    return value


def number(
    where: str,
    entries: Entries,
    key: str,
    *,
    least: float = 0.0,
    whole: bool = False,
    otherwise: float | None = None,
) -> float:
    """Return an entry that is a number.

    Parameters
    ----------
    where : str
        File and place, for messages.
    entries : dict
        The object.
    key : str
        Name of the entry.
    least : float
        The smallest number that is allowed; the largest is 1e15.
    whole : bool
        Whether it must be a whole number.
    otherwise : float, optional
        Taken if there is no entry, or null.

    Returns
    -------
    float
        The number.

    Raises
    ------
    WorkloadError
        If there is none, or it is out of range.
    """
    value = entries[key] if has(entries, key) else otherwise
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WorkloadError(f"{where}: {key} is {short_repr(value)}, want a number")
    if not least <= value <= LARGEST:
        raise WorkloadError(f"{where}: {key} is {short_repr(value)}, want a number between {_plain(least)} and 1e15")
    if whole and value % 1:
        raise WorkloadError(f"{where}: {key} is {short_repr(value)}, want a whole number")
    return float(value)


def _plain(bound: float) -> str:
    return f"{bound:g}".replace("e+", "e")


def short_repr(value: Any) -> str:
    """Return a short text for a value of a document."""
    if isinstance(value, dict | list):
        return f"a JSON {'object' if isinstance(value, dict) else 'list'}"
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else value[: _SHOWN - 3] + "...")
    words = "missing" if value is None else repr(value)
    return words if len(words) <= _SHOWN else words[: _SHOWN - 3] + "..."
