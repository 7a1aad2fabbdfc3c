"""``desim view``: write an interactive page of stored runs, or of a comparison."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from desim.cli.output import print_text
from desim.cli.plot import load_named
from desim.exceptions import InvalidConfiguration, RecordError
from desim.plotting.comparison_page import directory_of, write_comparison
from desim.problem import kind_of
from desim.provenance import provenance, provenance_of
from desim.records import make_directory
from desim.result import Result
from desim.sweep.comparison import RunSummary, compare_runs

__all__ = ["View"]

COMPARISON = "comparison.json"


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
        if not self.directories:
            raise InvalidConfiguration("nothing to show; give one or more results, or a comparison")
        first = self.directories[0]
        out = first / "view.html" if self.out is None else self.out
        if out.is_dir():
            raise InvalidConfiguration(f"--out: got the directory {out}, expected a file")
        is_comparison = (first / COMPARISON).is_file()
        if is_comparison and len(self.directories) > 1:
            raise InvalidConfiguration(f"{first} is a comparison, which can only be shown by itself")
        if not is_comparison and self.seed is not None:
            raise InvalidConfiguration("--seed is only for a comparison, but the directories are single runs")
        if self.out is not None:
            make_directory(out.parent)
        page = self._comparison(first, out) if is_comparison else self._runs(out)
        print_text(str(page))
        return 0

    def _runs(self, out: Path) -> Path:
        """Write the page of single runs."""
        from desim.plotting.interactive import view

        results = load_named(self.directories)
        names = ", ".join(results)
        problem = next(iter(results.values())).info.get("problem", "batch")
        title = f"{names}: {problem}" if len(names) < 80 else f"{len(results)} runs: {problem}"
        return view(results, out, title=title, made=provenance() | provenance_of(self.directories, list(results)))

    def _comparison(self, directory: Path, out: Path) -> Path:
        """Write the page of a comparison from its stored files."""
        described = _read(directory / COMPARISON)
        summaries = [
            RunSummary(
                run["agent"],
                run["seed"],
                {name: float("nan") if value is None else value for name, value in run["metrics"].items()},
                {"valid": run["valid"], "violations": run["violations"], "counts": {}},
                run["workload"],
                _records(directory, run["records"]),
                window=tuple(run.get("window", ())),
            )
            for run in described["runs"]
        ]
        kind = kind_of(Result.load(directory_of(summaries[0])))
        options = described["options"]
        chosen = {name: options.get(name) for name in ("metric", "better")}
        comparison = compare_runs(summaries, described["baseline"], kind, interval=described["interval"], **chosen)
        return write_comparison(comparison, summaries, described, out, seed=self.seed)


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        found["runs"][0]["records"]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise RecordError(f"{path} is not a readable comparison: {error}") from error
    return found


def _records(directory: Path, stored: str | None) -> Path | None:
    """Return the directory of a run's records, also after the comparison was moved; never outside its directory."""
    return None if stored is None else directory / "runs" / Path(stored).name
