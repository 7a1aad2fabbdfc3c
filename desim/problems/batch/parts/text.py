"""Text forms of a site's features: small files, and a short notation for the command line.

A file is a CSV file with a header, or a YAML file with a list of entries; both use the same names. In the short
notation, entries are joined by ``+`` and the values of an entry by ``:``. The first values have no names:
``user:running_jobs=4+queue=debug:job_time=600``.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from desim.checks import did_you_mean, seconds_in
from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.batch.attributes import types_of_attributes
from desim.problems.batch.job import Job
from desim.reading import parse_yaml, read_text

__all__ = ["check_scope", "csv_entries", "names_of", "number_of", "read_entries", "whole", "yaml_entries"]

Entry = dict[str, Any]
Made = TypeVar("Made")

_FILES = (".csv", ".yaml", ".yml")
_GROUPS = ("user", "partition", "queue", "qos")


def read_entries(
    text: str,
    what: str,
    first: Sequence[str],
    names: Sequence[str],
    make: Callable[[str, Entry], Made],
    *,
    expected: str,
    unnamed: str = "",
    least: int = 1,
) -> list[Made]:
    """Return what the entries of a file or of the short notation describe.

    Parameters
    ----------
    text : str
        Name of a CSV or YAML file, or the short notation.
    what : str
        Name of the option, and of the list in a YAML file.
    first, names : sequence of str
        Names of the values that come first in the short notation, and of the others.
    make : callable
        Function of the place of an entry, for messages, and its values by name. The place is added to what it raises as
        InvalidConfiguration.
    expected : str
        Description of the notation, for messages.
    unnamed : str
        Name of a value that has none in the short notation; if empty, all have.
    least : int
        Number of values in the short notation besides the first ones, at least.

    Returns
    -------
    list
        Results of `make`, at least one.

    Raises
    ------
    InvalidConfiguration
        If the text is neither, or a value in it is out of range.
    WorkloadError
        If the file cannot be read; the message names file, line and column.
    """
    if text.lower().endswith(_FILES) or Path(text).is_file():
        return [_made(make, where, entry) for where, entry in _entries(text, what, (*first, *names))]
    found = []
    for part in text.split("+"):
        words = [word.strip() for word in part.split(":")]
        others = [word for word in words[len(first) :] if word or not unnamed]
        named = [word if "=" in word or not unnamed else f"{unnamed}={word}" for word in others]
        values = {name.strip(): value for name, is_named, value in (word.partition("=") for word in named) if is_named}
        if not all(words[: len(first)]) or len(values) < max(least, len(others)):
            raise InvalidConfiguration(f"{what}: got {text!r}, expected a file, or {expected}")
        try:
            if unknown := next((name for name in values if name not in names), ""):
                close = did_you_mean(unknown, names)
                raise WorkloadError(f"unknown {unknown!r}{close}: {', '.join(names)}")
            found.append(_made(make, what, dict(zip(first, words, strict=False)) | values))
        except (WorkloadError, InvalidConfiguration) as error:
            raise InvalidConfiguration(f"{what}: got {text!r}; {error}") from error
    return found


def _made(make: Callable[[str, Entry], Made], where: str, entry: Entry) -> Made:
    """Return what an entry describes; errors about its values name its place."""
    try:
        return make(where, entry)
    except InvalidConfiguration as error:
        raise WorkloadError(f"{where}: {error}") from error


def check_scope(where: str, by: str, jobs: Iterable[Job]) -> None:
    """Raise WorkloadError if a scope is neither a known kind of groups nor an attribute of jobs."""
    kinds = (*_GROUPS, *(types_of_attributes(jobs) if isinstance(jobs, Sequence) else ()))
    if by not in kinds:
        raise WorkloadError(f"{where}: scope: got {by!r}{did_you_mean(by, kinds)}, expected one of {', '.join(kinds)}")


def names_of(words: Any) -> list[str]:
    """Return the names in a list, or in a cell separated by ``|``."""
    if isinstance(words, list | tuple):
        return [str(word) for word in words]
    return [] if words is None else str(words).replace("|", " ").split()


def number_of(where: str, name: str, value: Any, *, is_time: bool = False) -> float:
    """Return a value of an entry as a number; a time may be a text such as 12h."""
    try:
        if isinstance(value, bool):
            raise ValueError
        return seconds_in(value) if is_time and isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        raise WorkloadError(f"{where}: {name}: got {value!r}, expected a number") from None


def whole(value: float) -> Any:
    """Return an integral number as int; others unchanged, so that error messages show them."""
    return int(value) if value.is_integer() else value


def _entries(source: str, what: str, known: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (location, values) of each entry of a file."""
    text = read_text(source)
    rows = csv_entries(source, text) if source.lower().endswith(".csv") else yaml_entries(source, text, what)
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


def csv_entries(
    source: str, text: str, check: Callable[[str, Sequence[str]], None] = lambda where, names: None
) -> Iterator[tuple[str, Entry]]:
    """Yield the place and the values of each row of a CSV file.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    text : str
        Its content.
    check : callable
        Called with the place and the names of the header.
    """
    reader = csv.DictReader(StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        reader.fieldnames = names = [name.strip() for name in reader.fieldnames or ()]
        check(f"{source}: line 1", names)
        for row in reader:
            where = f"{source}: line {reader.line_num}"
            if None in row or None in row.values():
                raise WorkloadError(f"{where}: expected {len(names)} cells, as in the first line")
            yield where, {name: cell.strip() for name, cell in row.items()}
    except csv.Error as error:
        raise WorkloadError(f"{source}: line {reader.line_num}: {error}") from error


def yaml_entries(source: str, text: str, what: str, one: str = "entry") -> Iterator[tuple[str, Entry]]:
    """Yield the place and the values of each entry of a YAML file.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    text : str
        Its content: a list, or one under `what`.
    what, one : str
        What the list contains, in the plural, and what an entry is called in messages.
    """
    document = parse_yaml(source, text)
    if isinstance(document, Mapping) and set(document) == {what}:
        document = document[what]
    if not isinstance(document, list):
        raise WorkloadError(f"{source}: expected a list of {what}, or one under {what!r} and nothing else")
    for number, entry in enumerate(document, 1):
        where = f"{source}: {one} {number}"
        if not isinstance(entry, Mapping):
            raise WorkloadError(f"{where}: got {entry!r}, expected names and values, e.g. cores: 64")
        yield where, dict(entry)
