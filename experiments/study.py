"""Studies: the settings of one table or figure, the code that runs it, and the account that it leaves."""

from __future__ import annotations

import ast
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

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
from desim.files import read_fields, write_atomically
from desim.notes import plain, print_note
from desim.provenance import commit, versions_of
from desim.records import is_plain_name
from desim.sweep import RunFunction, Store, Workers
from desim.sweep.digest import source_digest

if TYPE_CHECKING:
    from desim import Result

__all__ = [
    "ACCOUNT_FILE",
    "QUICK_SEEDS",
    "Account",
    "DataStudy",
    "Study",
    "carry_out",
    "description_of",
    "is_valid",
    "run_as_program",
]

#: Number of seeds with --quick.
QUICK_SEEDS = 2
ACCOUNT_FILE = "account.json"
"""Name of the account file in the directory of a study."""

TRIAL = "This is a trial of reduced size: its numbers cannot be compared with the paper's, and it gives no verdicts."

PACKAGES = ("numpy", "scipy", "simpy", "networkx", "torch", "torch-geometric", "ortools")
#: Settings that are only locations, left out of accounts; and settings with other names in accounts.
PLACES, NAMES = ("out", "store"), {"workers": "jobs"}


@dataclass(frozen=True)
class Study:
    """Settings shared by all studies; a subclass defines :attr:`perform`, :meth:`panels` and :meth:`show`.

    Attributes
    ----------
    quick : bool
        Whether to run a trial of a few seconds: smaller sizes, at most two seeds, and every run is checked.
    seeds : int
        Number of seeds 0, 1, ... of workload and agents.
    workers : Workers
        Workers that perform the runs.
    out : Path or None
        Directory of tables and figures. Default: ``results/<paper>/<module>``.
    store : Path or None
        Directory of finished runs, shared by all studies of a paper. Default: ``runs`` next to ``out``.
    """

    paper: ClassVar[str] = "studies"
    perform: ClassVar[RunFunction]
    """Function that performs a run, see :func:`desim.experiments.frame.perform_panels`; a ``staticmethod``."""

    quick: bool = False
    seeds: int = 10
    workers: Workers = field(default_factory=Workers)
    out: Path | None = None
    store: Path | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        self.require_positive("seeds")

    def require_positive(self, *names: str) -> None:
        """Raise InvalidConfiguration if one of these settings is below 1."""
        for name in names:
            if getattr(self, name) < 1:
                raise InvalidConfiguration(f"{name}: got {getattr(self, name)!r}, expected an integer >= 1")

    @property
    def name(self) -> str:
        """Name of the module, without its package."""
        return _name_of(type(self))

    @property
    def directory(self) -> Path:
        """Directory of tables and figures."""
        return self.out or Path("results") / self.paper / self.name

    @property
    def runs(self) -> Store:
        """Store of the finished runs."""
        return Store(self.store or self.directory.parent / "runs")

    @property
    def seed_list(self) -> list[int]:
        """Seeds of the runs."""
        return list(range(min(self.seeds, QUICK_SEEDS) if self.quick else self.seeds))

    def seeds_of(self, setting: Any) -> list[int]:
        """Return the seeds for a setting that :meth:`fit` returned. Default: all seeds."""
        return self.seed_list

    @property
    def is_reduced(self) -> bool:
        """Whether the runs are smaller than the paper's."""
        return self.quick

    def fit(self, setting: Any) -> Any:
        """Return the setting of a run in the requested size. Default: unchanged."""
        return setting

    def panels(self) -> Sequence[Panel]:
        """Return the agents and settings to be measured."""
        raise NotImplementedError

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield tables, figures and remarks on the measurements, in the order of the report."""
        raise NotImplementedError

    def blocks(self) -> Iterator[Block]:
        """Perform the runs that are not stored yet, and yield the blocks of the report."""
        frame, outcomes = perform_panels(self, self.panels(), self.perform)
        yield Runs.of(outcomes)
        yield frame
        if frame.num_invalid:
            yield Fault(f"Validation found violations in the records of {frame.num_invalid} runs.")
        if self.is_reduced:
            yield Paragraph(TRIAL)
        yield from self.show(frame)


@dataclass(frozen=True)
class DataStudy(Study):
    """Study that can use data from outside the project.

    Attributes
    ----------
    data : Path or None
        Directory of the data. By default, workloads are synthetic.
    """

    needs_data: ClassVar[bool] = False
    """Whether runs on synthetic workloads count as smaller than those of the report."""

    data: Path | None = None

    def __post_init__(self) -> None:
        """Check the settings, and that the directory of the data exists."""
        super().__post_init__()
        if self.data is not None and not self.data.is_dir():
            raise InvalidConfiguration(f"data: got {str(self.data)!r}, expected a directory")

    @property
    def is_reduced(self) -> bool:
        """Whether the runs are smaller than those of the report."""
        return self.quick or (self.needs_data and self.data is None)

    @property
    def place(self) -> str:
        """Full path of the directory of the data; empty without data."""
        return "" if self.data is None else str(self.data.resolve())


class _Stored(TypedDict):
    """Account in a file."""

    module: str
    title: str
    options: dict[str, Any]
    is_reduced: bool
    blocks: list[dict[str, Any]]
    seconds: float
    code: dict[str, str]
    machine: dict[str, str]
    error: str


@dataclass(frozen=True)
class Account:
    """Account of a study that has ended or failed.

    Attributes
    ----------
    module : str
        Full name of the module.
    title : str
        One-line description of the study.
    options : dict
        Settings, as plain values.
    is_reduced : bool
        Whether it was a trial of reduced size.
    blocks : list of Block
        Blocks shown by the study.
    seconds : float
        Wall time in seconds; runs that were stored before take none.
    code : dict of str to str
        Version of desim, commit, and digest of the module's code.
    machine : dict of str to str
        Processor, Python and packages.
    error : str
        Error message; empty if there was no error.
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
        """Last part of the module's name."""
        return self.module.rpartition(".")[2]

    @classmethod
    def of(cls, study: Study, blocks: Sequence[Block], *, seconds: float, error: str = "") -> Account:
        """Return the account of a study that has just ended, including code and machine."""
        module = _module_of(type(study))
        settings: dict[str, Any] = {one.name: getattr(study, one.name) for one in fields(study)}
        settings["workers"] = study.workers.jobs
        settings = {NAMES.get(name, name): value for name, value in settings.items() if name not in PLACES}
        code = {"desim": version("desim"), "commit": commit(), "digest": source_digest(module)[:16]}
        title = description_of(module)
        return cls(module, title, plain(settings), study.is_reduced, blocks, seconds, code, _machine(), error)

    @classmethod
    def read(cls, directory: Path) -> Account:
        """Read the account in the directory of a study.

        Parameters
        ----------
        directory : Path
            Directory of the study.

        Returns
        -------
        Account
            Account as it was written.

        Raises
        ------
        RecordError
            If there is no account, or it cannot be read.
        """
        path = directory / ACCOUNT_FILE
        try:
            document: Any = read_fields(path, _Stored)
            account = cls(**document | {"blocks": [restored(block) for block in document["blocks"]]})
            drawings = [block.file for block in account.blocks if isinstance(block, Drawing)]
            for name in [account.name, *drawings]:
                if not is_plain_name(name):
                    raise ValueError(f"got {name!r}, expected a plain name of a study or of a file next to it")
            return account
        except FileNotFoundError as error:
            raise RecordError(f"{directory}: no {ACCOUNT_FILE}; run the experiment there first") from error
        except (ValueError, TypeError, KeyError) as error:
            raise RecordError(f"{path} cannot be read: {error}; run it again") from error

    def write(self, directory: Path) -> Path:
        """Write the account completely or not at all; create the directory of the study if needed."""
        path = directory / ACCOUNT_FILE
        document = plain(vars(self) | {"blocks": [stored(block) for block in self.blocks]})
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordError(f"{directory}: cannot be created: {error.strerror}") from error
        write_atomically(path, partial(Path.write_text, data=json.dumps(document, indent=1, allow_nan=False) + "\n"))
        return path


def is_valid(result: Result, workload: Any = None, *, check: bool) -> bool | None:
    """Return whether the records of a run pass `desim.validation`, or None without a check.

    Parameters
    ----------
    result : Result
        Run to check.
    workload : iterable, optional
        Jobs that were simulated.
    check : bool
        Whether to check at all.
    """
    if not check:
        return None
    from desim.validation import validate

    return validate(result, workload).ok


def carry_out(study: Study) -> int:
    """Run a study: print its blocks as they come, write its files, and leave an account.

    Parameters
    ----------
    study : Study
        Study with its settings.

    Returns
    -------
    int
        Exit status: 0 without errors, 1 if a run failed or there is a fault, 2 if settings are invalid.
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
        # Without this account, a report would show the results of an earlier run
        _leave_account(study, blocks, time.perf_counter() - begin, f"{type(fault).__name__}: {fault}")
        raise
    _leave_account(study, blocks, time.perf_counter() - begin, error)
    return int(bool(error) or any(isinstance(block, Fault) for block in blocks))


def _leave_account(study: Study, blocks: Sequence[Block], seconds: float, error: str) -> None:
    """Write the account; only print an error if it cannot be written."""
    try:
        Account.of(study, blocks, seconds=seconds, error=error).write(study.directory)
    except DesimError as problem:
        print_note(f"error: {problem}")


def parsed(kind: type[Study], arguments: Sequence[str] | None = None) -> Study:
    """Return a study with the settings of a command line. Default: the arguments of the process."""
    import tyro

    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
    prog = None if kind.__module__ == "__main__" else f"desim reproduce {kind.paper} {_name_of(kind)}"
    return tyro.cli(kind, prog=prog, args=arguments, config=config)


def run_as_program(kind: type[Study], arguments: Sequence[str] | None = None) -> int:
    """Parse a command line and run the study.

    Parameters
    ----------
    kind : type
        Class of the study.
    arguments : sequence of str, optional
        Arguments without the name of the program. Default: those of the process.

    Returns
    -------
    int
        Exit status: 0 without errors, 1 if it was interrupted, a run failed or there is a fault, 2 for invalid
        arguments.
    """
    try:
        return carry_out(parsed(kind, arguments))
    except KeyboardInterrupt as error:
        print_note(f"interrupted: {error}" if str(error) else "interrupted")
        return 1


def _module_of(kind: type[Study]) -> str:
    """Return the name of a study's module, even if it runs as the program: ``python -m NAME`` or ``python NAME.py``."""
    if kind.__module__ != "__main__":
        return kind.__module__
    program = sys.modules["__main__"]
    return program.__spec__.name if program.__spec__ else Path(str(program.__file__)).stem


def _name_of(kind: type[Study]) -> str:
    """Return the name of a study's module without its package."""
    return _module_of(kind).rpartition(".")[2]


@cache
def description_of(module: str) -> str:
    """Return the first line of a module's docstring without importing it; empty if it has none.

    Parameters
    ----------
    module : str
        Full name of the module.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_bytes())) or ""
    return text.partition("\n")[0]


def _machine() -> dict[str, str]:
    system = {"processors": str(os.cpu_count()), "architecture": platform.machine(), "system": platform.system()}
    return system | {"Python": platform.python_version()} | versions_of(PACKAGES)
