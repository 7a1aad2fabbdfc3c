"""Studies as files: ``study.toml`` holds the options of a comparison, named as in Python and on the command line."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from desim.exceptions import InvalidConfiguration
from desim.files import read_plain, write_atomically
from desim.scenario import system_of
from desim.sweep.options import options_in, options_of

__all__ = ["NAME", "StudyFile", "flat", "write_study"]

#: Name of the file that a comparison writes beside its results.
NAME = "study.toml"
HEAD = "# `desim compare study.toml` repeats this comparison. Names of files are relative to this file.\n"


class StudyFile:
    """Study that a file describes.

    Parameters
    ----------
    path : Path
        File with one ``name = value`` per option, in the notation of TOML, and no tables.

    Attributes
    ----------
    problem : str
        Name of the problem.

    Raises
    ------
    InvalidConfiguration
        If the file cannot be read, or does not name a problem.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._text = read_plain(path).decode("utf-8")
            self._values = {name.replace("-", "_"): value for name, value in tomllib.loads(self._text).items()}
        except OSError as error:
            raise InvalidConfiguration(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:  # which names line and column
            raise InvalidConfiguration(f"{path} is no TOML file: {error}") from error
        except RecursionError as error:
            raise InvalidConfiguration(f"{path} is no TOML file: its values are nested too deeply") from error
        self.problem = self._values.pop("problem", None)
        if not isinstance(self.problem, str):
            raise InvalidConfiguration(f"{path}{self._line('problem')}: expected problem = a name such as 'batch'")
        try:
            system_of(self.problem)
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"{path}{self._line('problem')}: {error}") from None
        for name, value in self._values.items():
            if isinstance(value, dict):
                raise InvalidConfiguration(f"{path}{self._line(name)}: {name}: got a table, expected options only")

    def read(self, start: Any) -> tuple[Any, dict[str, str]]:
        """Return the options of the study.

        Parameters
        ----------
        start : dataclass instance
            Options that hold what the file does not state.

        Returns
        -------
        options : dataclass instance
            The options.
        swept : dict of str to str
            Options with several values, one comparison each, as the command line takes them.

        Raises
        ------
        InvalidConfiguration
            If an option is unknown or has a value of the wrong type; the message names file, line and option.
        """
        known, swept = options_in(type(start)), {}
        for name, value in self._values.items():
            if isinstance(value, list) and name == "agents":
                value = ",".join(map(str, value))  # noqa: PLW2901
            elif isinstance(value, list) and len(value) > 1 and name in known and known[name].is_sweepable:
                swept[name] = ",".join(map(str, value))
                continue
            try:
                start = options_of(start, {name: self._beside(name, value)})
            except InvalidConfiguration as error:
                raise InvalidConfiguration(f"{self.path}{self._line(name)}: {error}") from None
        return start, swept

    def _beside(self, name: str, value: Any) -> Any:
        """Return the path of a file or directory that is named relative to this file."""
        place = self.path.parent / value if isinstance(value, str) else self.path
        return str(place) if name == "out" or (isinstance(value, str) and place.is_file()) else value

    def _line(self, name: str) -> str:
        pattern = re.compile(rf"""\s*\[?["']?{name.replace("_", "[-_]")}["']?\s*[=\]]""")
        lines = [number for number, line in enumerate(self._text.splitlines(), 1) if pattern.match(line)]
        return f", line {lines[0]}" if lines else ""


def write_study(values: Mapping[str, Any], directory: Path) -> Path:
    """Write a study's file beside its results.

    Parameters
    ----------
    values : mapping
        Options by name; those that are None are omitted.
    directory : Path
        Directory of the results, in which a repetition finds its runs.

    Returns
    -------
    Path
        Path of the file.
    """
    known = {name: value for name, value in values.items() if value is not None} | {"out": "."}
    text = HEAD + "".join(f"{name} = {_toml(value)}\n" for name, value in known.items())
    path = directory / NAME
    write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8"))
    return path


def _toml(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def flat(options: Any, identity: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a problem's options, without their groups; files by their absolute paths.

    Parameters
    ----------
    options : dataclass instance
        Options, which may be nested.
    identity : mapping
        Values that identify a run, in which files are paths.

    Yields
    ------
    (str, object)
        Name and value.
    """
    for item in dataclasses.fields(options):
        value, known = getattr(options, item.name), identity.get(item.name)
        if dataclasses.is_dataclass(value):
            yield from flat(value, known if isinstance(known, Mapping) else identity)
        else:
            yield item.name, str(known.absolute()) if isinstance(known, Path) else value
