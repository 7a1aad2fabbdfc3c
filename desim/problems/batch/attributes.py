"""Attributes of jobs as columns: of what type they are, and their values as arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration
from desim.problems.batch.job import Job, check_job

__all__ = ["column_of", "type_of_values", "types_of_attributes"]


def types_of_attributes(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the types of the attributes of jobs: ``boolean``, ``integer``, ``float`` or ``text``, sorted by name.

    Parameters
    ----------
    jobs : Workload, or iterable of Job
        Jobs of the workload.

    Returns
    -------
    dict of str to str
        Types by name; values that are neither numbers nor truth values count as text.

    Raises
    ------
    WorkloadError
        If a name is taken.
    """
    if (known := getattr(jobs, "attributes", None)) is not None:  # a Workload knows them
        return dict(known)
    found: dict[str, set[type]] = {}
    names: tuple[str, ...] = ()
    for job in filter(_attributes, jobs):
        if (*job.attributes,) != names:
            check_job(job)
            names = (*job.attributes,)
        for name, value in job.attributes.items():
            if value is not None:
                found.setdefault(name, set()).add(type(value))
    return {name: type_of_values(found[name]) for name in sorted(found)}


def column_of(name: str, jobs: Sequence[Job], types: Mapping[str, str]) -> NDArray[Any]:
    """Return a column of jobs: their queue, partition or QOS, or an attribute.

    Parameters
    ----------
    name : str
        Name of the column.
    jobs : sequence of Job
        Jobs.
    types : mapping of str to str
        Types of all attributes of the workload, if they are known.

    Returns
    -------
    array, shape (L,)
        Values; nan or, in text, an empty string where a job does not have the attribute.

    Raises
    ------
    InvalidConfiguration
        If no job has the attribute.
    """
    if name in ("queue", "partition", "qos"):
        return np.array([job.group(name) or "" for job in jobs], object)
    types = types or types_of_attributes(jobs)
    if name not in types and (types or jobs):
        raise InvalidConfiguration(
            f"queue[{name!r}]: no job has this attribute{did_you_mean(name, types)}; expected one of: "
            f"{', '.join(('queue', 'partition', 'qos', *types))}"
        )
    values = [job.attributes.get(name) for job in jobs]
    if types.get(name) == "text":
        column = np.empty(len(values), object)
        column[:] = ["" if value is None else value for value in values]
        return column
    return np.array([math.nan if value is None else value for value in values])


def type_of_values(kinds: set[type]) -> str:
    """Return the type of a column that holds values of several kinds."""
    types: dict[str, tuple[type, ...]] = {"boolean": (bool, np.bool_), "integer": (int, np.integer), "float": (Real,)}
    return next((name for name, of in types.items() if all(issubclass(kind, of) for kind in kinds)), "text")


_attributes = itemgetter(Job._fields.index("attributes"))  # faster than by name
