"""The studies of a paper as a whole: listed, run one by one or all together, and combined in a report."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from desim.checks import did_you_mean
from desim.cli.output import print_text
from desim.exceptions import InvalidConfiguration
from desim.experiments.claims import Claim, FixedRule, read_register
from desim.experiments.frame import FRAME_FILE, Frame
from desim.experiments.report import Chapter, Opening, chapters_of, write_documentation, write_report
from desim.experiments.study import ACCOUNT_FILE, Account, Study, carry_out, description_of, parsed, run_as_program
from desim.notes import print_note
from desim.sweep import Store, SweepStatus

__all__ = ["Family"]

REPORT_FILE = "report.html"


@dataclass(frozen=True)
class Family:
    """Studies of a paper, or a custom group of studies.

    Attributes
    ----------
    name : str
        Name of the family, one word.
    title : str
        Subject of the studies.
    source : str
        Reference to the paper.
    package : str
        Package of the modules. Each has a :class:`Study` with the name of the module, capitalized: ``figure7.py``
        has ``Figure7``.
    modules : tuple of str
        Names of the modules, in the order in which they are run.

    A module ``claims`` of the package, if there is one, has the functions ``fixed_rules`` and ``claims``. Both take the
    frames of the completed studies by name, and return the first tables of the report.
    """

    name: str
    title: str
    source: str
    package: str
    modules: tuple[str, ...]

    def descriptions(self) -> dict[str, str]:
        """Return a one-line description of every study, in order."""
        return {name: description_of(f"{self.package}.{name}") for name in self.modules}

    def study(self, name: str) -> type[Study]:
        """Return a study.

        Parameters
        ----------
        name : str
            Name of the study, one of ``modules``.

        Returns
        -------
        type
            Class of the study, a dataclass.

        Raises
        ------
        InvalidConfiguration
            If there is no such study.
        """
        if name not in self.modules:
            near, there = did_you_mean(name, self.modules), ", ".join(self.modules)
            raise InvalidConfiguration(f"unknown experiment {name!r} of {self.name}{near}; expected one of {there}")
        module, title = import_module(f"{self.package}.{name}"), "".join(map(str.capitalize, name.split("_")))
        kind: type[Study] = getattr(module, title)
        return kind

    def run(self, name: str, arguments: Sequence[str]) -> int:
        """Run one study with its command line, and return the exit status."""
        return run_as_program(self.study(name), arguments)

    def directory(self, out: Path | None) -> Path:
        """Return the directory of the results. Default: ``results/NAME``."""
        return out or Path("results") / self.name

    def reproduce(
        self, arguments: Sequence[str], *, out: Path | None = None, store: Path | None = None, only: Sequence[str] = ()
    ) -> int:
        """Run all studies with the same arguments, each with its default number of seeds unless one is given.

        If one fails, the others are run nevertheless. The report is rewritten after each.

        Parameters
        ----------
        arguments : sequence of str
            Arguments of every study.
        out : Path, optional
            Directory of all results. Default: ``results/NAME``.
        store : Path, optional
            Directory of finished runs. Default: ``runs`` in the directory of the results.
        only : sequence of str
            Names of the studies to run. Default: all.

        Returns
        -------
        int
            First exit status that is not 0, or else 0.

        Raises
        ------
        InvalidConfiguration
            If there is no study of a name in `only`.
        """
        directory = self.directory(out)
        for name in only:
            self.study(name)
        names = [name for name in self.modules if not only or name in only]
        first = 0
        for number, name in enumerate(names, 1):
            print_note(f"{self.name} {name}, {number} of {len(names)}")
            places = ["--out", str(directory / name), "--store", str(store or directory / "runs")]
            study = parsed(self.study(name), [*arguments, *places])
            try:
                status = carry_out(study)
            except Exception:  # an error in one study must not stop the others
                traceback.print_exc()
                print_note(f"{self.name} {name} ended with the error above; continuing with the others")
                status = 1
            first = first or status
            if status == 2:  # all others would refuse the same arguments
                return status
            if (directory / name / ACCOUNT_FILE).exists():
                print_text(f"report: {self.report(out)}")
        return first

    def accounts(self, out: Path | None = None) -> list[Account]:
        """Read the accounts of the completed studies, in the order of the studies.

        Parameters
        ----------
        out : Path, optional
            Directory of all results, as for :meth:`reproduce`.

        Returns
        -------
        list of Account
            Accounts, at least one.

        Raises
        ------
        InvalidConfiguration
            If no study was run there.
        """
        directory = self.directory(out)
        found = [Account.read(directory / name) for name in self.modules if (directory / name / ACCOUNT_FILE).exists()]
        if not found:
            raise InvalidConfiguration(f"no experiment of {self.name} has results in {directory}: run one first")
        return found

    def opening(self, frames: Mapping[str, Frame]) -> Opening:
        """Return the opening of a report: claims, fixed rules and register.

        Parameters
        ----------
        frames : mapping of str to Frame
            Measurements of the studies, by name.
        """
        rules: list[FixedRule] = []
        claims: list[Claim] = []
        if find_spec(f"{self.package}.claims"):
            module: Any = import_module(f"{self.package}.claims")
            rules, claims = module.fixed_rules(frames), module.claims(frames)
        return Opening(claims, rules, read_register(self.package))

    def chapters(self, accounts: Sequence[Account], frames: Mapping[str, Frame]) -> list[Chapter]:
        """Return the chapters of the report of some studies; trials give no verdicts."""
        opening = self.opening({} if any(account.is_reduced for account in accounts) else frames)
        return chapters_of(self.title, self.source, self.modules, accounts, opening)

    def frames(self, out: Path | None = None) -> dict[str, Frame]:
        """Return the measurements of the completed studies, by name; `out` as for :meth:`reproduce`."""
        directory = self.directory(out)
        found = {name: directory / name / FRAME_FILE for name in self.modules}
        return {name: Frame.read(path) for name, path in found.items() if path.exists()}

    def report(self, out: Path | None = None) -> Path:
        """Write the report of the completed studies as a self-contained HTML file, ``report.html``.

        Parameters
        ----------
        out : Path, optional
            Directory of all results, as for :meth:`reproduce`.
        """
        directory, accounts = self.directory(out), self.accounts(out)
        version = accounts[0].code.get("desim", "")
        chapters = self.chapters(accounts, self.frames(out))
        return write_report(self.title, chapters, version, directory, directory / REPORT_FILE)

    def documentation(self, page: Path, out: Path | None = None) -> Path:
        """Write the completed studies as a page of the documentation; a single study of several is named in its title.

        Parameters
        ----------
        page : Path
            File of the page, such as ``docs/reports/osdec.rst``; pictures are written to a directory next to it.
        out : Path, optional
            Directory of all results, as for :meth:`reproduce`.

        Returns
        -------
        Path
            File of the page. The frames of the studies are written next to it, too.
        """
        accounts, frames = self.accounts(out), self.frames(out)
        alone = accounts[0].name if len(accounts) == 1 < len(self.modules) else ""
        title = f"{self.title}: {alone}" if alone else self.title
        chapters = self.chapters(accounts, frames)
        return write_documentation(title, chapters, self.directory(out), page, frames)

    def sweeps(self, store: Path | None = None) -> list[SweepStatus]:
        """Return the progress of the sweeps in a directory of finished runs. Default: ``results/NAME/runs``."""
        return Store(store or self.directory(None) / "runs").sweeps()
