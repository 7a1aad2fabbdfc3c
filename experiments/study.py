"""Studies: the settings of one table or figure, what they are carried out with, and the account that is left."""

from __future__ import annotations

import ast
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from desim.cli.output import plain, print_note
from desim.exceptions import DesimError, InvalidConfiguration, RecordError
from desim.experiments.frame import Frame, Panel, perform_panels
from desim.experiments.report_blocks import (
    Block,
    Drawing,
    Fault,
    Paragraph,
    Runs,
    print_block,
    restored,
    stored,
)
from desim.records import is_plain_name, write_atomically
from desim.sweep import RunFunction, Store, Workers
from desim.sweep.digest import source_digest

if TYPE_CHECKING:
    from desim import Result

__all__ = [
    "ACCOUNT_FILE",
    "QUICK_SEEDS",
    "Account",
    "Study",
    "carry_out",
    "description_of",
    "is_valid",
    "run_as_program",
]

#: Seeds that are left with --quick.
QUICK_SEEDS = 2
ACCOUNT_FILE = "account.json"
"""Name of the account in the directory of the study."""

TRIAL = "This is a trial in a smaller size: its figures cannot be compared with the paper's, and it gives no verdicts."

PACKAGES = ("numpy", "scipy", "simpy", "networkx", "torch", "torch-geometric", "ortools")
#: Settings that only say where files are, and what an account calls others.
PLACES, NAMES = ("out", "store"), {"workers": "jobs"}


@dataclass(frozen=True)
class Study:
    """What all studies take; a study has :attr:`perform`, :meth:`panels` and :meth:`show`.

    Attributes
    ----------
    quick : bool
        A trial of seconds: smaller sizes, at most two seeds, and every run is checked.
    seeds : int
        Seeds 0, 1, ... of workload and agents.
    workers : Workers
        Who performs the runs.
    out : Path or None
        Directory of tables and figures; ``results/<paper>/<module>`` if left out.
    store : Path or None
        Directory of finished runs, which all studies of a paper share; ``runs`` beside ``out`` if left out.
    """

    paper: ClassVar[str] = "studies"
    perform: ClassVar[RunFunction]
    """Performs a run, see :func:`desim.experiments.frame.perform_panels`; a ``staticmethod``."""

    quick: bool = False
    seeds: int = 10
    workers: Workers = field(default_factory=Workers)
    out: Path | None = None
    store: Path | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        self.require_positive("seeds")

    def require_positive(self, *names: str) -> None:
        """Raise InvalidConfiguration if one of these numbers is below 1."""
        for name in names:
            if getattr(self, name) < 1:
                raise InvalidConfiguration(f"{name} is {getattr(self, name)!r}, want at least 1")

    @property
    def name(self) -> str:
        """Name of the module."""
        return type(self).__name__.lower()

    @property
    def directory(self) -> Path:
        """Directory of tables and figures."""
        return self.out or Path("results") / self.paper / self.name

    @property
    def runs(self) -> Store:
        """Where finished runs are."""
        return Store(self.store or self.directory.parent / "runs")

    @property
    def seed_list(self) -> list[int]:
        """The seeds."""
        return list(range(min(self.seeds, QUICK_SEEDS) if self.quick else self.seeds))

    def seeds_of(self, setting: Any) -> list[int]:
        """Return the seeds of one setting, as :meth:`fit` returns it; by default, all."""
        return self.seed_list

    @property
    def is_reduced(self) -> bool:
        """Whether the runs are smaller than the paper's."""
        return self.quick

    def fit(self, setting: Any) -> Any:
        """Return the setting of a run in the size that is asked for; by default, as it is."""
        return setting

    def panels(self) -> Sequence[Panel]:
        """Return what is measured: agents in settings."""
        raise NotImplementedError

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield tables, figures and remarks of what was measured, in the order of a report."""
        raise NotImplementedError

    def blocks(self) -> Iterator[Block]:
        """Perform the runs that are not stored yet, and yield what is to be shown."""
        frame, outcomes = perform_panels(self, self.panels(), self.perform)
        yield Runs.of(outcomes)
        yield frame
        if frame.num_invalid:
            yield Fault(f"Validation found violations in the records of {frame.num_invalid} runs.")
        if self.is_reduced:
            yield Paragraph(TRIAL)
        yield from self.show(frame)


@dataclass(frozen=True)
class Account:
    """One study that has been carried out, or has failed.

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
    blocks : list of Block
        What it has shown.
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
    blocks: Sequence[Block]
    seconds: float
    code: Mapping[str, str]
    machine: Mapping[str, str]
    error: str = ""

    @property
    def name(self) -> str:
        """The last part of the module."""
        return self.module.rpartition(".")[2]

    @classmethod
    def of(cls, study: Study, blocks: Sequence[Block], *, seconds: float, error: str = "") -> Account:
        """Return the account of a study that has just ended here, with what there is to say of code and machine."""
        module = _module_of(type(study))
        settings: dict[str, Any] = {one.name: getattr(study, one.name) for one in fields(study)}
        settings["workers"] = study.workers.jobs
        settings = {NAMES.get(name, name): value for name, value in settings.items() if name not in PLACES}
        code = {"desim": version("desim"), "commit": _commit(), "digest": source_digest(module)[:16]}
        title = description_of(module)
        return cls(module, title, plain(settings), study.is_reduced, blocks, seconds, code, _machine(), error)

    @classmethod
    def read(cls, directory: Path) -> Account:
        """Read the account that a study has left in its directory.

        Parameters
        ----------
        directory : Path
            Of the study.

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
            document = json.loads(path.read_text())
            account = cls(**document | {"blocks": [restored(block) for block in document["blocks"]]})
            drawings = [block.file for block in account.blocks if isinstance(block, Drawing)]
            for name in [account.name, *drawings]:
                if not is_plain_name(name):
                    raise ValueError(f"got {name!r}, expected the name of what lies beside it")
            return account
        except FileNotFoundError as error:
            raise RecordError(f"{directory} has no {ACCOUNT_FILE}: the experiment has not been run there") from error
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RecordError(f"{path} cannot be read ({type(error).__name__}: {error}): run it again") from error

    def write(self, directory: Path) -> Path:
        """Write it into the directory of the study, all or nothing; the directory is made if need be."""
        path = directory / ACCOUNT_FILE
        document = plain(vars(self) | {"blocks": [stored(block) for block in self.blocks]})
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordError(f"cannot make {directory}: {error.strerror}") from error
        write_atomically(path, partial(Path.write_text, data=json.dumps(document, indent=1, allow_nan=False) + "\n"))
        return path


def is_valid(result: Result, workload: Any = None, *, check: bool) -> bool | None:
    """Check the records of a run with `desim.validation` if that is asked for; None if it is not.

    Parameters
    ----------
    result : Result
        The run.
    workload : iterable, optional
        What was simulated.
    check : bool
        Whether to check at all.
    """
    if not check:
        return None
    from desim.validation import validate

    return validate(result, workload).ok


def carry_out(study: Study) -> int:
    """Carry out a study: show its blocks as they come, write its files, and leave an account.

    Parameters
    ----------
    study : Study
        With its settings.

    Returns
    -------
    int
        Exit status: 0 if all went well, 1 if a run has failed or there is a fault, 2 if settings are unusable.
    """
    begin, error = time.perf_counter(), ""
    blocks: list[Block] = []
    try:
        for block in study.blocks():
            print_block(block)
            if isinstance(block, Drawing | Frame):
                block.write(study.directory)
            if not isinstance(block, Frame):
                blocks.append(block)
    except InvalidConfiguration as refusal:
        print_note(f"error: {refusal}")
        return 2
    except DesimError as failure:
        error = str(failure)
        print_note(f"error: {error}")
    except Exception as fault:
        # or a report would tell what an earlier run has left
        _leave_account(study, blocks, time.perf_counter() - begin, f"{type(fault).__name__}: {fault}")
        raise
    _leave_account(study, blocks, time.perf_counter() - begin, error)
    return int(bool(error) or any(isinstance(block, Fault) for block in blocks))


def _leave_account(study: Study, blocks: Sequence[Block], seconds: float, error: str) -> None:
    """Write what a report needs; a storage that is full is told, no more."""
    try:
        Account.of(study, blocks, seconds=seconds, error=error).write(study.directory)
    except DesimError as problem:
        print_note(f"error: {problem}")


def parsed(kind: type[Study], arguments: Sequence[str] | None = None) -> Study:
    """Return a study with the settings of a command line; by default, with those of the process."""
    import tyro

    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
    return tyro.cli(kind, prog=f"python -m {_module_of(kind)}", args=arguments, config=config)


def run_as_program(kind: type[Study], arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and carry out a study.

    Parameters
    ----------
    kind : type
        Which.
    arguments : sequence of str, optional
        The arguments without the name of the program; by default those of the process.

    Returns
    -------
    int
        Exit status: 0 if all went well, 1 if it was interrupted, a run failed or there is a fault, 2 for unusable
        arguments.
    """
    try:
        return carry_out(parsed(kind, arguments))
    except KeyboardInterrupt as error:
        print_note(f"interrupted: {error}" if str(error) else "interrupted")
        return 1


def _module_of(kind: type[Study]) -> str:
    """Return the name of the module of a study, be it the program itself: ``python -m NAME`` or ``python NAME.py``."""
    if kind.__module__ != "__main__":
        return kind.__module__
    program = sys.modules["__main__"]
    return program.__spec__.name if program.__spec__ else Path(str(program.__file__)).stem


@cache
def description_of(module: str) -> str:
    """Return the first line of a module's docstring, without importing it; nothing if it has none.

    Parameters
    ----------
    module : str
        Its full name.
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
