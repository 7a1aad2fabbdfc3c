"""``desim view``: write an interactive page of stored runs, or of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from desim.cli.output import print_text
from desim.cli.stored import load_shown
from desim.exceptions import InvalidConfiguration
from desim.plotting.comparison_page import write_comparison
from desim.provenance import provenance, provenance_of
from desim.records import make_directory
from desim.result import Result
from desim.sweep.comparison import Comparison

__all__ = ["View"]


@dataclass(frozen=True)
class View:
    """Write an interactive page of one run, of several runs side by side, or of a comparison.

    Examples::

        desim view easy
        desim view easy sjf fcfs --out three.html
        desim view comparison --seed 4

    The page is a single file that needs no network. Charts of what ran when and curves over time move and zoom
    together, jobs can be found by id, and a click on a heading sorts a table.
    """

    directories: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR", help_behavior_hint="(one or more)")]
    """Results of `desim run`, or one comparison of `desim compare`."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: view.html in the first DIR)")] = None
    """Path of the page; a page of the same name is replaced."""
    seed: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: the first seed)")] = None
    """Seed, or number of the window, whose runs are drawn, for a comparison."""

    def execute(self) -> int:
        """Write the page and print its path."""
        shown = load_shown(self.directories)
        out = self.directories[0] / "view.html" if self.out is None else self.out
        if out.is_dir():
            raise InvalidConfiguration(f"--out: got the directory {out}, expected a file")
        if self.seed is not None and not isinstance(shown, Comparison):
            raise InvalidConfiguration("--seed is only for a comparison, but the directories are single runs")
        if self.out is not None:
            make_directory(out.parent)
        if isinstance(shown, Comparison):
            print_text(str(write_comparison(shown, out, seed=self.seed)))
        else:
            print_text(str(self._runs(shown, out)))
        return 0

    def _runs(self, results: dict[str, Result], out: Path) -> Path:
        """Write the page of single runs."""
        from desim.plotting.interactive import view

        names = ", ".join(results)
        problem = next(iter(results.values())).info.get("problem", "batch")
        title = f"{names}: {problem}" if len(names) < 80 else f"{len(results)} runs: {problem}"
        return view(results, out, title=title, made=provenance() | provenance_of(self.directories, list(results)))
