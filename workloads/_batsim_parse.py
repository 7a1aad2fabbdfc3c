"""From a Batsim document to arrays, with exact complaints."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import WorkloadError
from desim.workloads._columns import LARGEST, Columns
from desim.workloads.report import Reason, RepairReport

__all__ = ["as_columns", "parse"]

_TRAILING = re.compile(r"(?<![0-9])[0-9]{1,15}\Z")
_KINDS: dict[type, str] = {dict: "object", list: "list"}


def parse(source: str, content: bytes) -> dict[str, Any]:
    """Decode a workload and check its outline.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    content : bytes
        What the file holds.

    Returns
    -------
    dict
        With a list ``jobs`` and a dict ``profiles`` of whatever content.

    Raises
    ------
    WorkloadError
        If it is no such thing.
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
        raise WorkloadError(f"{source}: is nested too deeply for a workload") from error
    except ValueError as error:
        raise WorkloadError(f"{source}: is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise WorkloadError(
            f"{source}: is {'null' if document is None else _shown(document)}, want an object with jobs and profiles"
        )
    for key, kind in (("jobs", list), ("profiles", dict)):
        if not isinstance(document.get(key), kind):
            raise WorkloadError(f"{source}: {key} is missing or not a JSON {_KINDS[kind]}")
    return document


def as_columns(source: str, document: Mapping[str, Any], report: RepairReport, *, drop_unknown: bool) -> Columns:
    """Turn the jobs of a document into arrays.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    document : mapping
        From `parse`.
    report : RepairReport
        Where to count ids that could not be kept.
    drop_unknown : bool
        Whether a job without a known run time gets -1 for it, instead of raising.

    Returns
    -------
    Columns
        One row a job, -1 for what is unknown.

    Raises
    ------
    WorkloadError
        For the first job that breaks the format; the message names its position and the entry.
    """
    rows = [
        _read_job(f"{source}: jobs[{at}]", job, document["profiles"], drop_unknown)
        for at, job in enumerate(document["jobs"])
    ]
    values = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    numbers, kept = _identify([job["id"] for job in document["jobs"]])
    if not kept:
        report.add(Reason.UNREADABLE_ID, range(len(rows)))
    unknown = np.full(len(rows), -1.0)
    return Columns(
        place=np.arange(len(rows), dtype=np.int64),
        job_id=numbers,
        submission_time=values[0],
        cores=values[1],
        requested_time=values[2],
        run_time=values[3],
        user=values[4],
        status=unknown,
        queue=unknown,
        partition=unknown,
        assumed_cores=np.zeros(len(rows), dtype=np.bool_),
    )


def _read_job(where: str, job: Any, profiles: Mapping[str, Any], drop_unknown: bool) -> tuple[float, ...]:
    if not isinstance(job, dict):
        raise WorkloadError(f"{where} is {_shown(job)}, want an object")
    if isinstance(job.get("id"), bool) or not isinstance(job.get("id"), int | str):
        raise WorkloadError(f"{where}: id is {_shown(job.get('id'))}, want a whole number or a string")
    return (
        _number(where, job, "subtime"),
        _number(where, job, "res", whole=True),
        _number(where, job, "walltime", otherwise=-1.0),
        _run_time(where, job.get("profile"), profiles, drop_unknown),
        _number(where, job, "user_id", otherwise=-1.0, whole=True),
    )


def _run_time(where: str, name: Any, profiles: Mapping[str, Any], drop_unknown: bool) -> float:
    profile = profiles.get(name) if isinstance(name, str) else None
    if not isinstance(profile, dict):
        raise WorkloadError(f"{where}: profile is {_shown(name)}, want the name of one of the profiles")
    if profile.get("type") == "delay":
        return _number(f"{where}: profile {_shown(name)}", profile, "delay")
    if drop_unknown:
        return -1.0
    raise WorkloadError(
        f"{where}: profile {_shown(name)} has type {_shown(profile.get('type'))}, whose run time is unknown; "
        "want 'delay', or unknown_profile='drop'"
    )


def _number(
    where: str, entries: Mapping[str, Any], key: str, *, otherwise: float | None = None, whole: bool = False
) -> float:
    value = entries.get(key)
    value = otherwise if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WorkloadError(f"{where}: {key} is {_shown(value)}, want a number")
    if abs(value) > LARGEST:
        raise WorkloadError(f"{where}: {key} is {_shown(value)}, want a number between -1e15 and 1e15")
    if whole and value % 1:
        raise WorkloadError(f"{where}: {key} is {_shown(value)}, want a whole number")
    return float(value)


def _identify(ids: Sequence[int | str]) -> tuple[NDArray[np.int64], bool]:
    """Return a number for each id, and whether it is (the trailing part of) the id itself."""
    if all(isinstance(identity, int) and abs(identity) <= LARGEST for identity in ids):
        return np.array(ids, dtype=np.int64), True
    found = [_TRAILING.search(str(identity)) for identity in ids]
    numbers = [int(match[0]) for match in found if match]
    if len(set(numbers)) == len(ids):
        return np.array(numbers, dtype=np.int64), True
    return np.arange(len(ids), dtype=np.int64), False


def _shown(value: Any) -> str:
    """Return a short text for a value of the document."""
    if isinstance(value, dict | list):
        return f"a JSON {_KINDS[type(value)]}"
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
