"""Windows and limits of a site as text: a small file, a short notation for the command line, sentences of reports.

Windows are ``START:END:CORES``, in seconds, and several have ``+`` between them: ``0:3600:16+86400:90000:256``. A CSV
file has the columns ``start``, ``end`` and ``cores``; a YAML file a list of entries with these names.

Limits are ``GROUPS:WHAT=NUMBER``, several with ``+`` between them: ``user:running_jobs=4:running_cores=64`` or
``queue=debug|short:job_time=600+partition=gpu:running_cores=128``. Groups are those of ``user``, ``partition`` or
``queue``, all of them or those that are named; what is limited has the names of :class:`Limit`: ``job_cores``,
``job_time``, ``running_jobs`` and ``running_cores``. A file has ``by``, ``of`` and these.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.limits import Limit
from desim.problems.batch.windows import Window

if TYPE_CHECKING:
    from desim.result import Result

__all__ = ["in_force", "limits_of_text", "windows_of_text"]

_OF_WINDOWS = ("start", "end", "cores")
_GROUPS = ("user", "partition", "queue")
_FILES = (".csv", ".yaml", ".yml")
_UNITS = {
    "job_cores": "cores a job",
    "job_time": "s a job",
    "running_jobs": "jobs at once",
    "running_cores": "cores at once",
}
_MOST_WINDOWS = 5  # that are told one by one
_OF_LIMITS = ("by", "of", *_UNITS)
_WANT_WINDOWS = "want a file, or START:END:CORES, several with + between them"
_WANT_LIMITS = "want a file, or such as user:running_jobs=4 and queue=debug:job_time=600, with + between them"


def windows_of_text(text: str) -> list[Window]:
    """Return windows.

    Parameters
    ----------
    text : str
        A CSV or YAML file, or the notation.

    Returns
    -------
    list of Window
        At least one.

    Raises
    ------
    InvalidConfiguration
        If it is neither, or a value is out of range.
    WorkloadError
        If there is such a file and it cannot be read; the message names file, line and column.

    Examples
    --------
    >>> windows_of_text("0:3600:16+7200:9000:4")[1]
    Window(start=7200.0, end=9000.0, cores=4)
    """
    if _is_file(text):
        return [_window(where, entry) for where, entry in _entries(text, "windows", _OF_WINDOWS)]
    windows = []
    for part in text.split("+"):
        values = part.strip().split(":")
        if len(values) != len(_OF_WINDOWS):
            raise InvalidConfiguration(f"windows is {text!r}, {_WANT_WINDOWS}")
        try:
            windows.append(_window("windows", dict(zip(_OF_WINDOWS, values, strict=True))))
        except WorkloadError as error:
            raise InvalidConfiguration(f"windows is {text!r}, but {error}") from error
    return windows


def limits_of_text(text: str, groups: Mapping[str, Mapping[int, str]]) -> list[Limit]:
    """Return limits.

    Parameters
    ----------
    text : str
        A CSV or YAML file, or the notation.
    groups : mapping of str to mapping of int to str
        The ``queue`` of each job by its id, and its ``partition`` and ``user`` where these have names beside the jobs.

    Returns
    -------
    list of Limit
        At least one.

    Raises
    ------
    InvalidConfiguration
        If it is neither, a value is out of range, or queues are limited and none is known.
    WorkloadError
        If there is such a file and it cannot be read; the message names file, line and column.

    Examples
    --------
    >>> limits_of_text("user:running_jobs=4", {})[0].running_jobs
    4
    """
    if _is_file(text):
        return [_limit(where, entry, groups) for where, entry in _entries(text, "limits", _OF_LIMITS)]
    limits = []
    for part in text.split("+"):
        whose, *values = (word.strip() for word in part.split(":"))
        by, _, of = whose.partition("=")
        pairs = [value.partition("=") for value in values]
        if not pairs or not all(middle for _, middle, _ in pairs):
            raise InvalidConfiguration(f"limits is {text!r}, {_WANT_LIMITS}")
        entry = {"by": by, "of": of} | {name.strip(): number for name, _, number in pairs}
        try:
            if unknown := set(entry).difference(_OF_LIMITS):
                name = min(unknown)
                raise WorkloadError(f"there is no {name!r}{did_you_mean(name, _UNITS)}: {', '.join(_UNITS)}")
            limits.append(_limit("limits", entry, groups))
        except (WorkloadError, InvalidConfiguration) as error:
            raise InvalidConfiguration(f"limits is {text!r}, but {error}") from error
    return limits


def in_force(result: Result) -> list[str]:
    """Return what the site of a run did, in sentences.

    Parameters
    ----------
    result : Result
        Of a batch cluster.

    Returns
    -------
    list of str
        On limits, windows, grace, checkpoints and dependencies; empty if there were none.
    """
    info, sentences = result.info, []
    if "limits" in info:
        sentences.append(f"Limits: {'; '.join(_words(limit, result) for limit in result.table('limits').to_dicts())}.")
    if "windows" in info:
        windows = result.table("windows").select("cores", "start", "end").rows()
        shown = [f"{cores:,} cores from {start:,.10g} to {end:,.10g} s" for cores, start, end in windows]
        more = [f"{len(shown) - _MOST_WINDOWS:,} more"] if len(shown) > _MOST_WINDOWS else []
        sentences.append(f"Not for jobs: {'; '.join(shown[:_MOST_WINDOWS] + more)}.")
    if "grace" in info:
        sentences.append(f"Jobs may run for {info['grace']:,.10g} s beyond their requested time.")
    if "checkpoint_interval" in info:
        sentences.append(f"Jobs save what they have done every {info['checkpoint_interval']:,.10g} s.")
    if "dependencies" in info:
        sentences.append(f"{info['dependencies']:,} jobs are submitted when others have ended.")
    return sentences


def _words(limit: Mapping[str, Any], result: Result) -> str:
    """Return what a row of the table of limits says."""
    most = [f"{limit[name]:,g} {unit}" for name, unit in _UNITS.items() if limit[name] is not None]
    groups = limit["of"]
    if limit["by"] == "jobs" and not groups:  # of a mapping by job, such as of queues: those that there are
        of = result.table("limited_jobs")
        groups = sorted(set(of["group"].filter(of["limit"] == limit["limit"]).to_list()))
    whose = f"each {limit['by']}" if not groups else ", ".join(groups)
    if groups and limit["by"] != "jobs":
        whose = f"{limit['by']} {whose}"
    return f"{whose}: at most {', '.join(most)}"


def _is_file(text: str) -> bool:
    return text.lower().endswith(_FILES) or Path(text).is_file()


def _window(where: str, entry: Mapping[str, Any]) -> Window:
    """Return the window of an entry."""
    start, end, cores = (_number(where, name, entry.get(name, "")) for name in _OF_WINDOWS)
    try:
        return Window(start, end, _whole(cores))
    except InvalidConfiguration as error:
        raise WorkloadError(f"{where}: {error}") from error


def _limit(where: str, entry: Mapping[str, Any], groups: Mapping[str, Mapping[int, str]]) -> Limit:
    """Return the limit of an entry."""
    by = str(entry.get("by", "")).strip()
    if by not in _GROUPS:
        raise WorkloadError(f"{where}: by is {by!r}{did_you_mean(by, _GROUPS)}, want one of {', '.join(_GROUPS)}")
    known = groups.get(by) or None
    if by == "queue" and known is None:
        raise InvalidConfiguration(f"{where}: queues are limited, but nothing tells the queue of any job")
    words = entry.get("of", "")
    of = words.replace("|", " ").split() if isinstance(words, str) else [str(word) for word in words or ()]
    values: dict[str, Any] = {
        name: _number(where, name, entry[name]) for name in _UNITS if entry.get(name) not in ("", None)
    }
    whole = {name: value if name == "job_time" else _whole(value) for name, value in values.items()}
    try:
        return Limit(by=by if known is None else known, of=tuple(of) or None, **whole)  # type: ignore[arg-type]
    except InvalidConfiguration as error:
        raise WorkloadError(f"{where}: {error}") from error


def _number(where: str, name: str, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError):
        raise WorkloadError(f"{where}: {name} is {value!r}, want a number") from None


def _whole(value: float) -> Any:
    """Return a whole number as such; who checks the others names them as they are."""
    return int(value) if value.is_integer() else value


def _entries(source: str, what: str, known: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield where each entry of a file stands, and what it says."""
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
                raise WorkloadError(f"{where}: unknown {name!r}{did_you_mean(str(name), known)}; {', '.join(known)}")
        yield where, entry
    if none:
        raise WorkloadError(f"{source}: holds no {what}")


def _rows(source: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        for row in reader:
            where = f"{source}: line {reader.line_num}"
            if None in row or None in row.values():
                raise WorkloadError(f"{where}: want {len(reader.fieldnames)} cells, as in the first line")
            yield where, {name: cell.strip() for name, cell in row.items()}
    except csv.Error as error:
        raise WorkloadError(f"{source}: line {reader.line_num}: {error}") from error


def _documents(source: str, what: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise WorkloadError(f"{source}: is no YAML file: {' '.join(str(error).split())}") from error
    if isinstance(document, Mapping) and set(document) == {what}:
        document = document[what]
    if not isinstance(document, list):
        raise WorkloadError(f"{source}: want a list of {what}")
    for number, entry in enumerate(document, 1):
        where = f"{source}: entry {number}"
        if not isinstance(entry, Mapping):
            raise WorkloadError(f"{where} is {entry!r}, want names and values such as cores: 64")
        yield where, dict(entry)
