"""The studies of a paper as one thing: listed, run one by one or all together, and put into one report."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from desim.checks import did_you_mean
from desim.cli.output import print_note, print_text
from desim.exceptions import InvalidConfiguration
from desim.experiments.claims import Claim, FixedRule, read_register
from desim.experiments.frame import FRAME_FILE, Frame
from desim.experiments.report import Chapter, Opening, chapters_of, write_documentation, write_report
from desim.experiments.study import ACCOUNT_FILE, Account, Study, carry_out, description_of, parsed, run_as_program
from desim.sweep import Store, SweepStatus

__all__ = ["Family"]

REPORT_FILE = "report.html"


@dataclass(frozen=True)
class Family:
    """The studies of a paper, or of your own.

    Attributes
    ----------
    name : str
        A word.
    title : str
        What is studied.
    source : str
        The paper.
    package : str
        Where the modules are. Each has a :class:`Study` that is called like the module, with a capital: ``figure7.py``
        has ``Figure7``.
    modules : tuple of str
        Their names, in the order in which they are run.
    claims : bool
        Whether the package has a module ``claims`` with the functions ``fixed_rules`` and ``claims``. Both take the
        frames of the studies that were run, by name, and return what the report opens with.
    """

    name: str
    title: str
    source: str
    package: str
    modules: tuple[str, ...]
    claims: bool = False

    def descriptions(self) -> dict[str, str]:
        """Return the studies in their order with a line on each."""
        return {name: description_of(f"{self.package}.{name}") for name in self.modules}

    def study(self, name: str) -> type[Study]:
        """Return a study.

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
            If there is no such study.
        """
        if name not in self.modules:
            near, there = did_you_mean(name, self.modules), ", ".join(self.modules)
            raise InvalidConfiguration(f"{self.name} has no experiment {name!r}{near}; there are {there}")
        kind: type[Study] = getattr(
            import_module(f"{self.package}.{name}"), "".join(map(str.capitalize, name.split("_")))
        )
        return kind

    def run(self, name: str, arguments: Sequence[str]) -> int:
        """Run one study with its own command line, and return the exit status."""
        return run_as_program(self.study(name), arguments)

    def directory(self, out: Path | None) -> Path:
        """Return where the studies write: ``results/NAME`` unless something else is wanted."""
        return out or Path("results") / self.name

    def reproduce(
        self, arguments: Sequence[str], *, out: Path | None = None, store: Path | None = None, only: Sequence[str] = ()
    ) -> int:
        """Run all studies with the same arguments, each with its own number of seeds unless one is given.

        One that fails does not keep the others from being run. The report is written anew after each.

        Parameters
        ----------
        arguments : sequence of str
            What every study takes.
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
            If there is no such study.
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
            except Exception:  # a fault of its own program must not keep the others from being run
                traceback.print_exc()
                print_note(f"{self.name} {name} has ended with the error above; the others go on")
                status = 1
            first = first or status
            if status == 2:  # the same arguments would be refused by all others
                return status
            if (directory / name / ACCOUNT_FILE).exists():
                print_text(f"report: {self.report(out)}")
        return first

    def accounts(self, out: Path | None = None) -> list[Account]:
        """Read what the studies have left, of those that were run, in their order.

        Parameters
        ----------
        out : Path, optional
            As for :meth:`reproduce`.

        Returns
        -------
        list of Account
            At least one.

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

    def opening(self, frames: Mapping[str, Frame]) -> Opening:
        """Return what a report opens with: claims, fixed rules, and the register.

        Parameters
        ----------
        frames : mapping of str to Frame
            What studies have measured, by their names.
        """
        rules: Sequence[FixedRule] = ()
        claims: Sequence[Claim] = ()
        if self.claims:
            module = import_module(f"{self.package}.claims")
            told: tuple[Callable[..., Sequence[FixedRule]], Callable[..., Sequence[Claim]]]
            told = (module.fixed_rules, module.claims)
            rules, claims = told[0](frames), told[1](frames)
        return Opening(claims, rules, read_register(self.package))

    def chapters(self, accounts: Sequence[Account], frames: Mapping[str, Frame]) -> list[Chapter]:
        """Return the report of some studies; a trial gives no verdicts."""
        opening = self.opening({} if any(account.is_reduced for account in accounts) else frames)
        return chapters_of(self.title, self.source, self.modules, accounts, opening)

    def frames(self, out: Path | None = None) -> dict[str, Frame]:
        """Read what the studies have measured, by their names; arguments as for :meth:`reproduce`."""
        directory = self.directory(out)
        found = {name: directory / name / FRAME_FILE for name in self.modules}
        return {name: Frame.read(path) for name, path in found.items() if path.exists()}

    def report(self, out: Path | None = None) -> Path:
        """Write the report of what was run: one HTML file, ``report.html``, that needs no other.

        Parameters
        ----------
        out : Path, optional
            As for :meth:`reproduce`.
        """
        directory, accounts = self.directory(out), self.accounts(out)
        version = accounts[0].code.get("desim", "")
        chapters = self.chapters(accounts, self.frames(out))
        return write_report(self.title, chapters, version, directory, directory / REPORT_FILE)

    def documentation(self, page: Path, out: Path | None = None) -> Path:
        """Write what was run as a page of documentation, which has the name of the study if it is one of several alone.

        Parameters
        ----------
        page : Path
            The file, such as ``docs/reports/osdec.rst``; pictures are written into a directory beside it.
        out : Path, optional
            As for :meth:`reproduce`.

        Returns
        -------
        Path
            The file. The frames of the studies stand beside it, too.
        """
        accounts, frames = self.accounts(out), self.frames(out)
        alone = accounts[0].name if len(accounts) == 1 < len(self.modules) else ""
        title = f"{self.title}: {alone}" if alone else self.title
        chapters = self.chapters(accounts, frames)
        return write_documentation(title, chapters, self.directory(out), page, frames)

    def sweeps(self, store: Path | None = None) -> list[SweepStatus]:
        """Return how far sweeps have come, in a directory of finished runs; ``results/NAME/runs`` if left out."""
        return Store(store or self.directory(None) / "runs").sweeps()
