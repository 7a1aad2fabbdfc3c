"""What other packages have to offer, see :mod:`desim.plugins`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

__all__ = ["ExperimentFamily", "RepairReport", "Workload"]


class RepairReport(Protocol):
    """What a reader dropped, changed or noticed."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: ``rows``, ``jobs``, ``dropped``, and ``reasons`` with ``action`` and ``count``."""


class Workload(Protocol):
    """Jobs and what is known of them."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def jobs(self) -> Iterable[Any]:
        """The jobs; every iteration gives the same."""

    @property
    def num_cores(self) -> int | None:
        """Cores of the machine, if known."""

    @property
    def num_jobs(self) -> int | None:
        """Number of jobs, if known."""

    @property
    def report(self) -> RepairReport | None:
        """What was repaired, if anything was read."""


class ExperimentFamily(Protocol):
    """The experiments of a paper."""

    @property
    def title(self) -> str:
        """What is studied."""

    @property
    def source(self) -> str:
        """The paper."""

    @property
    def modules(self) -> Sequence[str]:
        """Names of the experiments, in the order in which they are run."""

    def descriptions(self) -> dict[str, str]:
        """Return the experiments with a line on each."""

    def run(self, name: str, arguments: Sequence[str]) -> int:
        """Run one with its own command line; return the exit status."""

    def reproduce(
        self, arguments: Sequence[str], *, out: Path | None = None, store: Path | None = None, only: Sequence[str] = ()
    ) -> int:
        """Run all, or some, with the same command line, and write a report; return the exit status."""

    def report(self, out: Path | None = None) -> Path:
        """Write a report of those that were run; return the file."""

    def documentation(self, page: Path, out: Path | None = None) -> Path:
        """Write the same as a page of documentation; return the file."""

    def sweeps(self, store: Path | None = None) -> Sequence[Any]:
        """Return how far sweeps have come: title, wanted, stored, failed, running, started."""
