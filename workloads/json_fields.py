"""JSON documents: decode them and extract typed entries, with errors that name file and entry."""

from __future__ import annotations

from typing import Any

from desim.exceptions import WorkloadError
from desim.workloads.files import Pathish, read_json

__all__ = ["LARGEST", "Entries", "has", "listed", "number", "object_of", "read_object", "short_repr", "text"]

#: Larger numbers are refused: no workload needs them, and integers up to this limit are exact as floats.
LARGEST = 1e15

Entries = dict[str, Any]
_SHOWN = 40


def read_object(path: Pathish) -> Entries:
    """Return the JSON object in a file.

    Parameters
    ----------
    path : str or path-like
        JSON file, plain or gzip.

    Returns
    -------
    dict
        Entries of the object, unchecked.

    Raises
    ------
    WorkloadError
        If the file cannot be read, is not JSON, or its top level is not an object.
    """
    document = read_json(path)
    if not isinstance(document, dict):
        raise WorkloadError(
            f"{path}: got {'null' if document is None else short_repr(document)}, expected a JSON object"
        )
    return document


def has(entries: Entries, key: str) -> bool:
    """Return whether an object has an entry that is not null."""
    return entries.get(key) is not None


def object_of(where: str, entries: Entries, key: str) -> Entries:
    """Return an entry that must be a JSON object."""
    value = entries.get(key)
    if not isinstance(value, dict):
        raise WorkloadError(f"{where}: {key}: got {short_repr(value)}, expected a JSON object")
    return value


def listed(where: str, entries: Entries, key: str, kind: type[Any] = object) -> list[Any]:
    """Return an entry that must be a JSON list: of strings if `kind` is str, of objects if it is dict."""
    value = entries.get(key)
    if not isinstance(value, list):
        raise WorkloadError(f"{where}: {key}: got {short_repr(value)}, expected a JSON list")
    for at, item in enumerate(value):
        if not isinstance(item, kind):
            wanted = "a string" if kind is str else "a JSON object"
            raise WorkloadError(f"{where}: {key}[{at}]: got {short_repr(item)}, expected {wanted}")
    return value


def text(where: str, entries: Entries, key: str) -> str:
    """Return an entry that must be a nonempty string."""
    value = entries.get(key)
    if not isinstance(value, str) or not value:
        raise WorkloadError(f"{where}: {key}: got {short_repr(value)}, expected a nonempty string")
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
    """Return an entry that must be a number.

    Parameters
    ----------
    where : str
        File and position, for messages.
    entries : dict
        The JSON object.
    key : str
        Name of the entry.
    least : float
        Smallest allowed number; the largest is 1e15.
    whole : bool
        Whether the number must be an integer.
    otherwise : float, optional
        Default value, used if the entry is missing or null.

    Returns
    -------
    float
        The number.

    Raises
    ------
    WorkloadError
        If the entry is missing and has no default, is not a number, or is out of range.
    """
    value = entries[key] if has(entries, key) else otherwise
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WorkloadError(f"{where}: {key}: got {short_repr(value)}, expected a number")
    if not least <= value <= LARGEST:
        raise WorkloadError(f"{where}: {key}: got {short_repr(value)}, expected a number from {_plain(least)} to 1e15")
    if whole and value % 1:
        raise WorkloadError(f"{where}: {key}: got {short_repr(value)}, expected an integer")
    return float(value)


def _plain(bound: float) -> str:
    return f"{bound:g}".replace("e+", "e")


def short_repr(value: Any) -> str:
    """Return a short text for a value of a document, for messages."""
    if isinstance(value, dict | list):
        return f"a JSON {'object' if isinstance(value, dict) else 'list'}"
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else value[: _SHOWN - 3] + "...")
    words = "nothing" if value is None else repr(value)
    return words if len(words) <= _SHOWN else words[: _SHOWN - 3] + "..."
