"""Limits on the command line: ``GROUPS:WHAT=NUMBER``, joined by ``+``, or a file.

Examples are ``user:running_jobs=4:running_cores=64`` and
``queue=debug|short:job_time=600+partition=gpu:running_cores=128``. Groups are those of ``user``, ``partition``,
``queue``, ``qos`` or an attribute of jobs: all of them, or those that are named. Limited quantities are those of
:class:`Limit`. A file has ``scope``, ``members`` and these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from desim.exceptions import InvalidConfiguration
from desim.problems.batch.job import Job
from desim.problems.batch.parts.limits import MAXIMA, Limit
from desim.problems.batch.parts.text import check_scope, names_of, number_of, read_entries, whole

if TYPE_CHECKING:
    from desim.plugins import LoadedWorkload

__all__ = ["Options", "limits_of_text", "settings"]

FILES = ("limits",)


@dataclass(frozen=True)
class Options:
    """Options of limits."""

    limits: Annotated[str | None, arg(metavar="FILE|GROUPS:WHAT=NUMBER+...", help_behavior_hint="(default: none)")] = (
        None
    )
    """Limits on jobs, users or queues, e.g. user:running_jobs=4:running_cores=64+queue=debug:job_time=600."""


def settings(options: Options, workload: LoadedWorkload, jobs: Iterable[Job]) -> dict[str, Any]:
    """Return arguments of a cluster that follow from the options."""
    return {} if options.limits is None else {"limits": limits_of_text(options.limits, jobs)}


def limits_of_text(text: str, jobs: Iterable[Job]) -> list[Limit]:
    """Return the limits in a file or in the short notation.

    Parameters
    ----------
    text : str
        Name of a CSV or YAML file, or the short notation.
    jobs : iterable of Job
        Workload.

    Returns
    -------
    list of Limit
        Limits, at least one.

    Raises
    ------
    InvalidConfiguration
        If the text is neither, a value in it is out of range, or queues are limited in it but unknown.
    WorkloadError
        If the file cannot be read, or has such a value; the message names file, line and column.

    Examples
    --------
    >>> limits_of_text("user:running_jobs=4", [])[0].running_jobs
    4
    """

    def limit(where: str, entry: Mapping[str, Any]) -> Limit:
        """Return the limit of an entry."""
        scope, _, members = str(entry.get("scope", "")).partition("=")
        scope = scope.strip()
        check_scope(where, scope, jobs)
        if (
            scope not in ("user", "partition")
            and isinstance(jobs, Sequence)
            and all(job.group(scope) is None for job in jobs)
        ):
            raise InvalidConfiguration(f"got scope {scope!r}, but the jobs have no {scope}; expected user or partition")
        values: dict[str, Any] = {
            name: number_of(where, name, entry[name], is_time=name == "job_time")
            for name in MAXIMA
            if entry.get(name) not in ("", None)
        }
        values = {name: value if name == "job_time" else whole(value) for name, value in values.items()}
        return Limit(scope, tuple(names_of(members or entry.get("members"))) or None, **values)

    expected = "e.g. user:running_jobs=4+queue=debug:job_time=600"
    return read_entries(text, "limits", ("scope",), ("members", *MAXIMA), limit, expected=expected)
