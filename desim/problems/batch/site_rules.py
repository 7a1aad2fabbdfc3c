"""Text forms of site policies: small files, a short notation for the command line, and sentences for reports.

Advance reservations are ``START:END:CORES``, with times in seconds; several are joined by ``+``:
``0:3600:16+86400:90000:256``. On nodes, they name nodes and possibly the users whose jobs may run there:
``0:3600:nodes=n1|n7``, ``9:99:nodes=all``, ``0:60:partition=gpu:users=3|4``. A CSV file has the columns ``start``,
``end`` and some of ``cores``, ``nodes``, ``partition`` and ``users``; a YAML file contains a list of entries with these
names.

Limits are ``GROUPS:WHAT=NUMBER``, joined by ``+``: ``user:running_jobs=4:running_cores=64`` or
``queue=debug|short:job_time=600+partition=gpu:running_cores=128``. Groups are those of ``user``, ``partition``,
``queue``, ``qos`` or an attribute of jobs: all of them, or those that are named. Limited quantities are those of
:class:`Limit`: ``job_cores``, ``job_time``, ``running_jobs`` and ``running_cores``. A file has ``scope``, ``members``
and these.

QOS levels are ``NAME:WHAT=VALUE``, joined by ``+``, with ``priority``, ``preempts`` and ``mode`` of
:class:`QualityOfService`. If the workload does not state the QOS of jobs, ``scope`` and ``members`` name the groups
whose jobs have it: ``urgent:priority=10:preempts=standby+standby:mode=suspend:scope=user:members=3|4``. A file has
``name`` and these.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems import batch
from desim.problems.batch.attributes import types_of_attributes
from desim.problems.batch.job import Job
from desim.problems.batch.workload import Workload

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["in_force", "limits_of_text", "qos_of_text", "reservations_of_text"]

_OF_RESERVATIONS = ("start", "end", "cores", "nodes", "partition", "users")
_GROUPS = ("user", "partition", "queue", "qos")
_FILES = (".csv", ".yaml", ".yml")
_UNITS = {
    "job_cores": "cores per job",
    "job_time": "s per job",
    "running_jobs": "jobs at once",
    "running_cores": "cores at once",
}
_MOST_RESERVATIONS, _MOST_NODES = 5, 5  # listed one by one in sentences
_OF_LIMITS = ("scope", "members", *_UNITS)
_OF_QOS = ("name", "priority", "preempts", "mode", "scope", "members")
_WANT_RESERVATIONS = (
    "expected a file, or START:END:CORES, on nodes START:END:nodes=NAME|NAME, nodes=all or partition=NAME, several "
    "joined by +"
)
_WANT_LIMITS = "expected a file, or e.g. user:running_jobs=4+queue=debug:job_time=600"
_WANT_QOS = "expected a file, or e.g. urgent:preempts=standby+standby:mode=suspend:scope=user:members=3"


def reservations_of_text(text: str, users: Mapping[str, int] | None = None) -> list[batch.AdvanceReservation]:
    """Return the advance reservations in a file or in the short notation.

    Parameters
    ----------
    text : str
        Name of a CSV or YAML file, or the short notation.
    users : mapping of str to int, optional
        User ids by user name.

    Returns
    -------
    list of batch.AdvanceReservation
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
    if _is_file(text):
        return [
            _reservation(where, entry, users or {}) for where, entry in _entries(text, "reservations", _OF_RESERVATIONS)
        ]
    reservations = []
    for part in text.split("+"):
        start, end, *what = (*(value.strip() for value in part.split(":")), "", "")
        pairs = [value.partition("=")[::2] if "=" in value else ("cores", value) for value in what if value]
        if not pairs or len(dict(pairs)) < len(pairs):
            raise InvalidConfiguration(f"reservations: got {text!r}, {_WANT_RESERVATIONS}")
        try:
            for name, _ in pairs:
                if name not in _OF_RESERVATIONS[2:]:
                    choices = _OF_RESERVATIONS[2:]
                    raise WorkloadError(f"unknown {name!r}{did_you_mean(name, choices)}: {', '.join(choices)}")
            reservations.append(_reservation("reservations", {"start": start, "end": end} | dict(pairs), users or {}))
        except WorkloadError as error:
            raise InvalidConfiguration(f"reservations: got {text!r}; {error}") from error
    return reservations


def limits_of_text(text: str, jobs: Iterable[Job]) -> list[batch.Limit]:
    """Return the limits in a file or in the short notation.

    Parameters
    ----------
    text : str
        Name of a CSV or YAML file, or the short notation.
    jobs : iterable of Job
        Workload.

    Returns
    -------
    list of batch.Limit
        Limits, at least one.

    Raises
    ------
    InvalidConfiguration
        If the text is neither, a value is out of range, or queues are limited but unknown.
    WorkloadError
        If the file cannot be read; the message names file, line and column.

    Examples
    --------
    >>> limits_of_text("user:running_jobs=4", [])[0].running_jobs
    4
    """
    if _is_file(text):
        return [_limit(where, entry, jobs) for where, entry in _entries(text, "limits", _OF_LIMITS)]
    limits = []
    for part in text.split("+"):
        whose, *values = (word.strip() for word in part.split(":"))
        by, _, of = whose.partition("=")
        pairs = [value.partition("=") for value in values]
        if not pairs or not all(middle for _, middle, _ in pairs):
            raise InvalidConfiguration(f"limits: got {text!r}, {_WANT_LIMITS}")
        entry = {"scope": by, "members": of} | {name.strip(): number for name, _, number in pairs}
        try:
            if unknown := set(entry).difference(_OF_LIMITS):
                name = min(unknown)
                raise WorkloadError(f"unknown {name!r}{did_you_mean(name, _UNITS)}: {', '.join(_UNITS)}")
            limits.append(_limit("limits", entry, jobs))
        except (WorkloadError, InvalidConfiguration) as error:
            raise InvalidConfiguration(f"limits: got {text!r}; {error}") from error
    return limits


def qos_of_text(text: str, jobs: Iterable[Job]) -> tuple[list[batch.QualityOfService], Iterable[Job]]:
    """Return the QOS levels in a file or in the short notation, and the jobs with their QOS.

    Parameters
    ----------
    text : str
        Name of a CSV or YAML file, or the short notation.
    jobs : iterable of Job
        Workload.

    Returns
    -------
    list of batch.QualityOfService
        QOS levels, at least one.
    iterable of Job
        Workload; the levels' own groups count more than the QOS that a job had.

    Raises
    ------
    InvalidConfiguration
        If the text is neither, a value is out of range, or no job has a QOS.
    WorkloadError
        If the file cannot be read; the message names file, line and column.

    Examples
    --------
    >>> jobs = [Job(1, 0.0, 1, 9.0, 9.0, user_id=8)]
    >>> qos, jobs = qos_of_text("urgent:preempts=standby+standby:scope=user:members=8", jobs)
    >>> qos[0].preempts, jobs[0].qos
    (('standby',), 'standby')
    """
    if _is_file(text):
        entries = list(_entries(text, "qos", _OF_QOS))
    else:
        entries = []
        for part in text.split("+"):
            name, *values = (word.strip() for word in part.split(":"))
            pairs = [value.partition("=") for value in values]
            if not name or not all(middle for _, middle, _ in pairs):
                raise InvalidConfiguration(f"qos: got {text!r}, {_WANT_QOS}")
            entry = {"name": name} | {key.strip(): value for key, _, value in pairs}
            if unknown := sorted(set(entry).difference(_OF_QOS)):
                near = did_you_mean(unknown[0], _OF_QOS)
                raise InvalidConfiguration(f"qos: got {text!r}; unknown {unknown[0]!r}{near}: {', '.join(_OF_QOS[1:])}")
            entries.append(("qos", entry))
    qos = [_quality(where, entry) for where, entry in entries]
    names = {job_qos.name for job_qos in qos}
    for where, entry in entries:
        if entry.get("scope"):
            jobs = _with_qos(where, entry, jobs, str(entry["name"]).strip())
    if isinstance(jobs, Sequence) and not any(job.qos for job in jobs):
        raise InvalidConfiguration(
            f"qos: got {', '.join(sorted(names))}, but no job has a QOS; add scope and members to name the jobs, e.g. "
            "scope=user:members=3"
        )
    return qos, jobs


def in_force(result: Result) -> list[str]:
    """Return the site policies of a run as sentences.

    Parameters
    ----------
    result : Result
        Result of a run of a batch cluster.

    Returns
    -------
    list of str
        Sentences on limits, QOS, reservations, grace time, checkpoints, predictors and dependencies; empty if there
        were none.
    """
    info, sentences = result.info, []
    if "limits" in info:
        sentences.append(f"Limits: {'; '.join(_words(limit, result) for limit in result.table('limits').to_dicts())}.")
    if "qos" in info:
        told = "; ".join(_words_of_qos(job_qos) for job_qos in result.table("qos").to_dicts())
        sentences.append(f"Quality of service (QOS): {told}.")
    if "reservations" in info:
        columns = result.table("reservations").select("reservation", "cores", "start", "end").rows()
        shown = [
            f"{_taken(reservation, cores, result)} from {start:,.10g} to {end:,.10g} s{_but(reservation, result)}"
            for reservation, cores, start, end in columns
        ]
        more = [f"{len(shown) - _MOST_RESERVATIONS:,} more"] if len(shown) > _MOST_RESERVATIONS else []
        sentences.append(f"Reservations: {'; '.join(shown[:_MOST_RESERVATIONS] + more)}.")
    if "over_time_limit" in info:
        sentences.append(f"Jobs may exceed their requested time by {info['over_time_limit']:,.10g} s.")
    if "checkpoint_interval" in info:
        sentences.append(f"Jobs have a checkpoint every {info['checkpoint_interval']:,.10g} s of work.")
    if "predictor" in info:
        known = ", which knows the actual ones" if info.get("foresight") else ""
        sentences.append(f"Plans use run times predicted by {info['predictor']}{known}.")
    if "dependencies" in info:
        sentences.append(f"{info['dependencies']:,} jobs depend on the ends of other jobs.")
    return sentences


def _taken(reservation: int, cores: int, result: Result) -> str:
    """Return a description of what a reservation takes."""
    if "node_reservations" not in result.info:
        return f"{cores:,} cores"
    nodes = result.table("nodes").join(
        result.table("reservation_nodes").filter(reservation=reservation), on="node", how="semi"
    )
    if len(nodes) == 1:
        return f"node {nodes['name'].item()}"
    if len(nodes) == result.info["num_nodes"]:
        return "all nodes"
    return f"{len(nodes):,} nodes" if len(nodes) > _MOST_NODES else f"nodes {', '.join(nodes['name'])}"


def _but(reservation: int, result: Result) -> str:
    """Return a description of the users whom a reservation admits."""
    if "user_reservations" not in result.info:
        return ""
    users = result.table("reservation_users").filter(reservation=reservation)["user_id"].to_list()
    return f" but for user{'s' * (len(users) > 1)} {', '.join(map(str, users))}" if users else ""


def _words(limit: Mapping[str, Any], result: Result) -> str:
    """Return a description of a limit, given its table row."""
    most = [f"{limit[name]:,g} {unit}" for name, unit in _UNITS.items() if limit[name] is not None]
    groups = limit["members"]
    whose = f"{limit['scope']} {', '.join(groups)}" if groups else f"each {limit['scope']}"
    return f"{whose}: at most {', '.join(most)}"


def _words_of_qos(job_qos: Mapping[str, Any]) -> str:
    """Return a description of a QOS level, given its table row."""
    preempts = f", preempts {', '.join(job_qos['preempts'])}" if job_qos["preempts"] else ""
    mode = "suspended" if job_qos["mode"] == "suspend" else "requeued"
    return f"{job_qos['qos']} with priority {job_qos['priority']:g}{preempts}, {mode} when preempted"


def _is_file(text: str) -> bool:
    return text.lower().endswith(_FILES) or Path(text).is_file()


def _reservation(where: str, entry: Mapping[str, Any], users: Mapping[str, int]) -> batch.AdvanceReservation:
    """Return the reservation of an entry."""
    start, end = (_number(where, name, entry.get(name, "")) for name in ("start", "end"))
    admitted = []
    for user in _names(entry.get("users")):
        admitted.append(users[user] if user in users else _whole(_number(where, "users", user)))
    given = entry.get("cores")
    cores = 0 if given in ("", None) else _whole(_number(where, "cores", given))
    nodes = _names(entry.get("nodes"))
    partition = str(entry.get("partition") or "").strip()
    try:
        return batch.AdvanceReservation(
            start, end, cores, "all" if nodes == ["all"] else tuple(nodes), partition, tuple(admitted)
        )
    except InvalidConfiguration as error:
        raise WorkloadError(f"{where}: {error}") from error


def _names(words: Any) -> list[str]:
    """Return the names in a list, or in a cell separated by ``|``."""
    if isinstance(words, list | tuple):
        return [str(word) for word in words]
    return [] if words is None else str(words).replace("|", " ").split()


def _limit(where: str, entry: Mapping[str, Any], jobs: Iterable[Job]) -> batch.Limit:
    """Return the limit of an entry."""
    by = str(entry.get("scope", "")).strip()
    _check_scope(where, by, jobs)
    if by not in ("user", "partition") and isinstance(jobs, Sequence) and all(job.group(by) is None for job in jobs):
        raise InvalidConfiguration(f"{where}: got scope {by!r}, but the jobs have no {by}; expected user or partition")
    of = _names(entry.get("members"))
    values: dict[str, Any] = {
        name: _number(where, name, entry[name]) for name in _UNITS if entry.get(name) not in ("", None)
    }
    whole = {name: value if name == "job_time" else _whole(value) for name, value in values.items()}
    try:
        return batch.Limit(scope=by, members=tuple(of) or None, **whole)
    except InvalidConfiguration as error:
        raise WorkloadError(f"{where}: {error}") from error


def _quality(where: str, entry: Mapping[str, Any]) -> batch.QualityOfService:
    """Return the QOS level of an entry."""
    priority, mode = entry.get("priority", ""), str(entry.get("mode") or "requeue").strip()
    try:
        return batch.QualityOfService(
            str(entry.get("name", "")).strip(),
            0.0 if priority in ("", None) else _number(where, "priority", priority),
            tuple(_names(entry.get("preempts", ""))),
            mode,  # type: ignore[arg-type]  # checked there
        )
    except InvalidConfiguration as error:
        raise WorkloadError(f"{where}: {error}") from error


def _check_scope(where: str, by: str, jobs: Iterable[Job]) -> None:
    """Raise WorkloadError if a scope is neither a known kind of groups nor an attribute of jobs."""
    kinds = (*_GROUPS, *(types_of_attributes(jobs) if isinstance(jobs, Sequence) else ()))
    if by not in kinds:
        raise WorkloadError(f"{where}: scope: got {by!r}{did_you_mean(by, kinds)}, expected one of {', '.join(kinds)}")


def _with_qos(where: str, entry: Mapping[str, Any], jobs: Iterable[Job], name: str) -> Workload:
    """Return the jobs, those in the groups of an entry with its QOS."""
    by, of = str(entry["scope"]).strip(), _names(entry.get("members", ""))
    _check_scope(where, by, jobs)
    if not isinstance(jobs, Sequence):
        raise InvalidConfiguration(f"{where}: scope={by} needs all jobs in advance; not possible with a stream")
    groups = [job.group(by) for job in jobs]
    if all(group is None for group in groups):
        raise InvalidConfiguration(f"{where}: scope={by}, but the {by} of jobs is unknown")
    workload = Workload.of(jobs)
    is_in = [group is not None and (not of or str(group) in of) for group in groups]
    known = workload["qos"].tolist()
    return workload.with_columns(qos=[name if chosen else other for chosen, other in zip(is_in, known, strict=True)])


def _number(where: str, name: str, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError):
        raise WorkloadError(f"{where}: {name}: got {value!r}, expected a number") from None


def _whole(value: float) -> Any:
    """Return an integral number as int; others unchanged, so that error messages show them."""
    return int(value) if value.is_integer() else value


def _entries(source: str, what: str, known: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (location, values) of each entry of a file."""
    try:
        text = Path(source).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"{source}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    rows = _rows(source, text) if source.lower().endswith(".csv") else _documents(source, what, text)
    none = True
    for where, entry in rows:
        none = False
        for name in entry:
            if name not in known:
                raise WorkloadError(
                    f"{where}: unknown {name!r}{did_you_mean(str(name), known)}, expected {', '.join(known)}"
                )
        yield where, entry
    if none:
        raise WorkloadError(f"{source}: got no {what}, expected at least one")


def _rows(source: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        for row in reader:
            where = f"{source}: line {reader.line_num}"
            if None in row or None in row.values():
                raise WorkloadError(f"{where}: expected {len(reader.fieldnames)} cells, as in the first line")
            yield where, {name: cell.strip() for name, cell in row.items()}
    except csv.Error as error:
        raise WorkloadError(f"{source}: line {reader.line_num}: {error}") from error


def _documents(source: str, what: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise WorkloadError(f"{source}: invalid YAML: {' '.join(str(error).split())}") from error
    if isinstance(document, Mapping) and set(document) == {what}:
        document = document[what]
    if not isinstance(document, list):
        raise WorkloadError(f"{source}: expected a list of {what}")
    for number, entry in enumerate(document, 1):
        where = f"{source}: entry {number}"
        if not isinstance(entry, Mapping):
            raise WorkloadError(f"{where}: got {entry!r}, expected names and values, e.g. cores: 64")
        yield where, dict(entry)
