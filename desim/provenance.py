"""Provenance of a run or page: command, settings, commit and versions, which `desim run` stores beside the records."""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from desim.files import read_fields, write_atomically
from desim.notes import plain

__all__ = ["PROVENANCE_FILE", "command_line", "commit", "keep", "provenance", "provenance_of", "versions_of"]

PROVENANCE_FILE = "provenance.json"
"""Name of the provenance file in the directory of a run."""
FORMER_FILE = "made.json"
"""Former name of that file, which is still read."""
#: Packages that affect the records of a run most.
PACKAGES = ("simpy", "numpy", "polars", "torch")


class _Provenance(TypedDict):
    """What is read of the provenance of a run."""

    settings: dict[str, Any]
    command: NotRequired[str]
    commit: NotRequired[str]


def command_line() -> str | None:
    """Return the command line that started this program; None if the program is not ``desim``."""
    program = Path(sys.argv[0])
    is_ours = program.stem == "desim" or program.parts[-2:] == ("desim", "__main__.py")
    return shlex.join(["desim", *sys.argv[1:]]) if is_ours else None


def provenance() -> dict[str, str]:
    """Return the provenance of a page: the command, the commit of desim if known, and versions."""
    command = command_line()
    found = {} if command is None else {"command": command}
    if known := commit():
        found["commit"] = known
    versions = {"Python": platform.python_version()} | versions_of(PACKAGES)
    return found | {"versions": ", ".join(f"{name} {number}" for name, number in versions.items())}


def versions_of(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed, by name."""
    found = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def commit() -> str:
    """Return the commit of the checkout that contains desim, with ``-dirty`` if files differ; or an empty string."""
    home = Path(__file__).resolve().parents[1]
    if not (home / ".git").exists():
        return ""
    command = ["git", "-C", str(home), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()


def keep(directory: Path, settings: Mapping[str, Any]) -> None:
    """Store the provenance of a run beside its records.

    Parameters
    ----------
    directory : Path
        Directory of the run.
    settings : mapping
        Workload, seed and options as values that JSON has; those that are None are omitted.
    """
    known = {name: value for name, value in settings.items() if value is not None}
    text = json.dumps(plain(provenance() | {"settings": known}), indent=1) + "\n"
    write_atomically(directory / PROVENANCE_FILE, partial(Path.write_text, data=text))


def provenance_of(directories: Sequence[Path], names: Sequence[str]) -> dict[str, str]:
    """Return the provenance of runs, for a page that shows them.

    Parameters
    ----------
    directories : sequence of Path
        Directories of the runs.
    names : sequence of str
        Names of the runs on the page.

    Returns
    -------
    dict of str to str
        Provenance by heading; headings name the run if there are several. Runs without a provenance file are omitted.

    Raises
    ------
    RecordError
        If a file cannot be read.
    """
    found: dict[str, str] = {}
    for directory, name in zip(directories, names, strict=True):
        of = f" of {name}" if len(names) > 1 else ""
        path = next((one for one in (directory / PROVENANCE_FILE, directory / FORMER_FILE) if one.exists()), None)
        if path is None:
            continue
        document = read_fields(path, _Provenance)
        settings = ", ".join(f"{key} = {_words(value)}" for key, value in document["settings"].items())
        told = {what: document.get(what) for what in ("command", "commit")}
        found |= {f"{what} of the run{of}": str(value) for what, value in told.items() if value is not None}
        found[f"settings of the run{of}"] = settings
    return found


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{key} = {_words(part)}" for key, part in value.items() if part is not None) + ")"
    return str(value)
