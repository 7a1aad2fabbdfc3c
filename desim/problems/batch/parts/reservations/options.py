"""Advance reservations on the command line: ``START:END:CORES`` in seconds, joined by ``+``, or a file.

An example is ``0:3600:16+1d:25h:256``. On nodes, reservations name nodes and possibly the users whose jobs may run
there: ``0:3600:nodes=n1|n7``, ``9:99:nodes=all``, ``0:60:partition=gpu:users=3|4``. A file has ``start``, ``end`` and
some of ``cores``, ``nodes``, ``partition`` and ``users``. Batsim's table of jobs is read, too, if it has a column
``purpose``: its rows with the value ``reservation`` reserve as many cores as they were allocated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.job import Job
from desim.problems.batch.parts.reservations import AdvanceReservation
from desim.problems.batch.parts.text import csv_entries, names_of, number_of, read_entries, whole
from desim.reading import read_text

if TYPE_CHECKING:
    from desim.plugins import LoadedWorkload

__all__ = ["Options", "reservations_of_text", "settings"]

FILES = ("reservations",)


@dataclass(frozen=True)
class Options:
    """Options of advance reservations."""

    reservations: Annotated[
        str | None, arg(metavar="FILE|START:END:WHAT+...", help_behavior_hint="(default: none)")
    ] = None
    """Advance reservations, in seconds or such as 8h:12h:64, in which a number of cores is unavailable. On nodes, WHAT
    is nodes=n1|n2, nodes=all or partition=gpu; append :users=3|4 to admit the jobs of these users."""


def settings(options: Options, workload: LoadedWorkload, jobs: Iterable[Job]) -> dict[str, Any]:
    """Return arguments of a cluster that follow from the options."""
    if options.reservations is None:
        return {}
    known = jobs if isinstance(jobs, Sequence) else ()
    users = {job.attributes["user"]: job.user_id for job in known if "user" in job.attributes}
    return {"reservations": reservations_of_text(options.reservations, users)}


def reservations_of_text(text: str, users: Mapping[str, int] | None = None) -> list[AdvanceReservation]:
    """Return the advance reservations in a file or in the short notation.

    Parameters
    ----------
    text : str
        Name of a CSV or YAML file, or the short notation.
    users : mapping of str to int, optional
        User ids by user name.

    Returns
    -------
    list of AdvanceReservation
        Reservations, at least one.

    Raises
    ------
    InvalidConfiguration
        If the text is neither, or a value is out of range.
    WorkloadError
        If the file cannot be read; the message names file, line and column.

    Examples
    --------
    >>> reservations_of_text("0:3600:16+7200:9000:4")[1]
    Reservation(start=7200.0, end=9000.0, cores=4)
    >>> reservations_of_text("0:3600:nodes=n1|n7:users=3")
    [Reservation(start=0.0, end=3600.0, nodes=('n1', 'n7'), users=(3,))]
    """
    known = users or {}
    if text.lower().endswith(".csv") and (found := _of_batsim(text, read_text(text))) is not None:
        return found

    def reservation(where: str, entry: Mapping[str, Any]) -> AdvanceReservation:
        """Return the reservation of an entry."""
        start, end = (number_of(where, name, entry.get(name, ""), is_time=True) for name in ("start", "end"))
        admitted = tuple(
            known[user] if user in known else whole(number_of(where, "users", user))
            for user in names_of(entry.get("users"))
        )
        given, nodes = entry.get("cores"), names_of(entry.get("nodes"))
        cores = 0 if given in ("", None) else whole(number_of(where, "cores", given))
        partition = str(entry.get("partition") or "").strip()
        return AdvanceReservation(start, end, cores, "all" if nodes == ["all"] else tuple(nodes), partition, admitted)

    names = ("cores", "nodes", "partition", "users")
    expected = "START:END:CORES, on nodes START:END:nodes=NAME|NAME, nodes=all or partition=NAME, several joined by +"
    return read_entries(text, "reservations", ("start", "end"), names, reservation, expected=expected, unnamed="cores")


#: Columns of Batsim's table of jobs that tell the reservations.
_OF_BATSIM = ("purpose", "starting_time", "finish_time", "allocated_resources")
_INTERVALS = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?([ ,][0-9]{1,9}(-[0-9]{1,9})?)*")


def _of_batsim(source: str, text: str) -> list[AdvanceReservation] | None:
    """Return the reservations in Batsim's table of jobs, None if the text is another table."""
    if not set(_OF_BATSIM) <= {name.strip() for name in text.partition("\n")[0].split(",")}:
        return None
    found = []
    for where, row in csv_entries(source, text):
        if row["purpose"].lower() != "reservation":
            continue
        start, end = (number_of(where, name, row[name]) for name in ("starting_time", "finish_time"))
        cores = row["allocated_resources"]
        if not _INTERVALS.fullmatch(cores):
            raise WorkloadError(f"{where}: allocated_resources: got {cores!r}, expected numbers such as 0-3 5")
        intervals = [part.partition("-") for part in cores.replace(",", " ").split()]
        count = sum(int(last or first) - int(first) + 1 for first, _, last in intervals)
        try:
            found.append(AdvanceReservation(start, end, count))
        except InvalidConfiguration as error:
            raise WorkloadError(f"{where}: {error}") from error
    if not found:
        raise WorkloadError(f"{source}: got no row with the purpose reservation, expected at least one")
    return found
