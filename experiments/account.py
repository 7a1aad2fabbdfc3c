"""What an experiment leaves for reports: everything that it has printed and drawn, with settings, code and time."""

from __future__ import annotations

import ast
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from desim.cli.output import plain
from desim.exceptions import RecordError
from desim.records import write_atomically
from desim.sweep.digest import source_digest

__all__ = ["ACCOUNT_FILE", "Account", "description_of"]

ACCOUNT_FILE = "account.json"
"""Its name in the directory of the experiment."""

PACKAGES = ("numpy", "scipy", "simpy", "networkx", "torch", "torch-geometric", "ortools")
#: Settings that only say where files are and how many processes there were.
PLACES = ("out", "store", "backend", "address")


@dataclass(frozen=True)
class Account:
    """One experiment that has been carried out, or has failed.

    Attributes
    ----------
    module : str
        Its full name.
    title : str
        What it is, a line.
    options : dict
        Its settings, in plain values.
    is_reduced : bool
        Whether it was a trial in a smaller size.
    blocks : list of dict
        What :func:`desim.cli.transcript.keep` has kept.
    seconds : float
        Wall time; runs that were stored before take none.
    code : dict of str to str
        Version of desim, commit, and a digest of the code behind the module.
    machine : dict of str to str
        Processor, Python and packages.
    error : str
        What went wrong; empty if nothing did.
    """

    module: str
    title: str
    options: Mapping[str, Any]
    is_reduced: bool
    blocks: Sequence[Mapping[str, Any]]
    seconds: float
    code: Mapping[str, str]
    machine: Mapping[str, str]
    error: str = ""

    @property
    def name(self) -> str:
        """The last part of the module."""
        return self.module.rpartition(".")[2]

    @classmethod
    def of(
        cls, module: str, options: Any, blocks: Sequence[Mapping[str, Any]], *, seconds: float, error: str = ""
    ) -> Account:
        """Return the account of an experiment that has just ended here.

        Parameters
        ----------
        module : str
            Its full name.
        options : Options
            Its settings.
        blocks : sequence of dict
            What it has printed and drawn.
        seconds : float
            Wall time.
        error : str
            What went wrong, if anything did.

        Returns
        -------
        Account
            With what there is to say of code and machine.
        """
        settings = {name: value for name, value in plain(asdict(options)).items() if name not in PLACES}
        code = {"desim": version("desim"), "commit": _commit(), "digest": source_digest(module)[:16]}
        title = description_of(module)
        return cls(module, title, settings, bool(options.is_reduced), blocks, seconds, code, _machine(), error)

    @classmethod
    def read(cls, directory: Path) -> Account:
        """Read the account that an experiment has left.

        Parameters
        ----------
        directory : Path
            Of the experiment.

        Returns
        -------
        Account
            As it was written.

        Raises
        ------
        RecordError
            If there is none, or it cannot be read.
        """
        path = directory / ACCOUNT_FILE
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError as error:
            raise RecordError(f"{directory} has no {ACCOUNT_FILE}: the experiment has not been run there") from error
        except (OSError, ValueError, TypeError) as error:
            raise RecordError(f"{path} cannot be read ({type(error).__name__}: {error}): run it again") from error

    def write(self, directory: Path) -> Path:
        """Write it, all or nothing.

        Parameters
        ----------
        directory : Path
            Of the experiment; it is made if need be.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        RecordError
            If it cannot be written.
        """
        path = directory / ACCOUNT_FILE
        text = json.dumps(plain(asdict(self)), indent=1, allow_nan=False) + "\n"
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordError(f"cannot make {directory}: {error.strerror}") from error
        write_atomically(path, partial(Path.write_text, data=text))
        return path


@cache
def description_of(module: str) -> str:
    """Return the first line of a module's docstring, without importing it.

    Parameters
    ----------
    module : str
        Its full name.

    Returns
    -------
    str
        Empty if it has none.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_bytes())) or ""
    return text.partition("\n")[0]


def _commit() -> str:
    """Return the commit of the working copy that the code comes from, marked if files differ from it."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()


def _machine() -> dict[str, str]:
    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    system = {"processors": str(os.cpu_count()), "architecture": platform.machine(), "system": platform.system()}
    return system | {"Python": platform.python_version()} | packages
