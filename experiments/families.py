"""The experiments of a paper as one thing: listed, run one by one or all together, and put into one report."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desim.cli.output import print_text, remark
from desim.exceptions import InvalidConfiguration
from desim.experiments.account import ACCOUNT_FILE, Account, description_of
from desim.experiments.options import Options, run_as_program, run_experiment
from desim.sweep import Store

if TYPE_CHECKING:
    from desim.sweep import SweepStatus

__all__ = ["Family"]

REPORT_FILE = "report.html"


@dataclass(frozen=True)
class Family:
    """The experiments of a paper, or of a study of your own.

    Attributes
    ----------
    name : str
        A word.
    title : str
        What is studied.
    source : str
        The paper.
    package : str
        Where the modules are. Each is called like a function in it, and has options whose class is that name with a
        capital: ``figure7.py`` has ``figure7(options: Figure7)``.
    modules : tuple of str
        Their names, in the order in which they are run.
    """

    name: str
    title: str
    source: str
    package: str
    modules: tuple[str, ...]

    def descriptions(self) -> dict[str, str]:
        """Return the experiments with a line on each.

        Returns
        -------
        dict of str to str
            In their order.
        """
        return {name: description_of(f"{self.package}.{name}") for name in self.modules}

    def options_of(self, name: str) -> type[Options]:
        """Return the options of an experiment.

        Parameters
        ----------
        name : str
            One of ``modules``.

        Returns
        -------
        type
            A dataclass.

        Raises
        ------
        InvalidConfiguration
            If there is no such experiment.
        """
        if name not in self.modules:
            raise InvalidConfiguration(f"{self.name} has no experiment {name!r}; there are {', '.join(self.modules)}")
        kind: type[Options] = getattr(import_module(f"{self.package}.{name}"), name.capitalize())
        return kind

    def run(self, name: str, arguments: Sequence[str]) -> int:
        """Run one experiment.

        Parameters
        ----------
        name : str
            One of ``modules``.
        arguments : sequence of str
            Its command line.

        Returns
        -------
        int
            Exit status.
        """
        return run_as_program(self.options_of(name), self._experiment(name), arguments)

    def _experiment(self, name: str) -> Callable[[Any], Any]:
        found: Callable[[Any], Any] = getattr(import_module(f"{self.package}.{name}"), name)
        return found

    def directory(self, out: Path | None) -> Path:
        """Return where the experiments write.

        Parameters
        ----------
        out : Path or None
            Where that is wanted; ``results/NAME`` if left out.
        """
        return out or Path("results") / self.name

    def reproduce(
        self, arguments: Sequence[str], *, out: Path | None = None, store: Path | None = None, only: Sequence[str] = ()
    ) -> int:
        """Run all experiments with the same arguments, each with its own number of seeds unless one is given.

        One that fails does not keep the others from being run. The report is written anew after each.

        Parameters
        ----------
        arguments : sequence of str
            What every experiment takes.
        out : Path, optional
            Directory of all results; ``results/NAME`` if left out.
        store : Path, optional
            Directory of finished runs; ``runs`` in that directory if left out.
        only : sequence of str
            Some of ``modules``, to run no others.

        Returns
        -------
        int
            The first exit status that is not 0, else 0.

        Raises
        ------
        InvalidConfiguration
            If there is no such experiment.
        """
        directory = self.directory(out)
        kept = store or directory / "runs"
        names = [name for name in self.modules if not only or name in only]
        for name in only:
            self.options_of(name)
        first = 0
        for number, name in enumerate(names, 1):
            remark(f"{self.name} {name}, {number} of {len(names)}")
            places = ["--out", str(directory / name), "--store", str(kept)]
            status = self._carry_out(name, [*arguments, *places])
            first = first or status
            if status == 2:  # the same arguments would be refused by all others
                return status
            if (directory / name / ACCOUNT_FILE).exists():
                print_text(f"report: {self.report(out)}")
        return first

    def _carry_out(self, name: str, arguments: Sequence[str]) -> int:
        """Run one of several experiments; a fault of its own program must not keep the others from being run."""
        try:
            return run_experiment(self.options_of(name), self._experiment(name), arguments)
        except Exception:
            traceback.print_exc()
            remark(f"{self.name} {name} has ended with the error above; the others go on")
            return 1

    def accounts(self, out: Path | None = None) -> list[Account]:
        """Read what the experiments have left.

        Parameters
        ----------
        out : Path, optional
            As for :meth:`reproduce`.

        Returns
        -------
        list of Account
            Of those that were run, in their order.

        Raises
        ------
        InvalidConfiguration
            If none was run there.
        """
        directory = self.directory(out)
        found = [Account.read(directory / name) for name in self.modules if (directory / name / ACCOUNT_FILE).exists()]
        if not found:
            raise InvalidConfiguration(f"no experiment of {self.name} has left anything in {directory}: run one first")
        return found

    def report(self, out: Path | None = None) -> Path:
        """Write the report of what was run.

        Parameters
        ----------
        out : Path, optional
            As for :meth:`reproduce`.

        Returns
        -------
        Path
            One HTML file, ``report.html``, that needs no other.
        """
        from desim.experiments.pages import write_page

        directory = self.directory(out)
        return write_page(self, self.accounts(out), directory, directory / REPORT_FILE)

    def documentation(self, page: Path, out: Path | None = None) -> Path:
        """Write what was run as a page of documentation.

        Parameters
        ----------
        page : Path
            The file, such as ``docs/reports/osdec.rst``; pictures are written into a directory beside it.
        out : Path, optional
            As for :meth:`reproduce`.

        Returns
        -------
        Path
            The file.
        """
        from desim.experiments.pages import write_restructured_text

        return write_restructured_text(self, self.accounts(out), self.directory(out), page)

    def sweeps(self, store: Path | None = None) -> list[SweepStatus]:
        """Return how far sweeps have come.

        Parameters
        ----------
        store : Path, optional
            Directory of finished runs; ``results/NAME/runs`` if left out.

        Returns
        -------
        list of SweepStatus
            One for each sweep that was begun there.
        """
        return Store(store or self.directory(None) / "runs").sweeps()
